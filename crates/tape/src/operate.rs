//! What operators look at: tapes, drives, the pool, classes, queues, totals; and the order to migrate now.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use base::{BlockAddress, ByteCount, ClassId, TapePoolId, Timestamp, Vid};
use catalogue::{Command, Counter, ReadError, Tally, TapeRecord, TapeState, View};
use mounts::{RowsLeft, oldest_wanted};
use pool::{DriveHealth, DriveReport};
use scheduler::{DriveState, Event, Forecast};
use session::INDEX_FOR_ROOM_EVERY;

use crate::maintenance::Repack;
use crate::reasons::Waiting;
use crate::room::Tape;
use crate::tapes::{is_unidentified, need_identified, told};
use crate::why_repack::is_repacked;
use ground::{
    ArchiveError, ClassInfo, PoolDriveInfo, PoolInfo, QueueLine, TapeContent, TapeDriveInfo, TapeInfo,
    TapeUse, Totals,
};
use ground::{EvictorInfo, truncated};
use scheduler::Reason;

/// Containers in one page of a tape's content.
pub const TAPE_PAGE_MAX: usize = 10_000;
/// Lines of the queue among the totals that wait for an operator.
const STUCK_MAX: usize = 10;
/// Why a drive is not in use that the scheduler has not heard of yet.
const STARTING: &str = "the server is starting";
/// The state of a drive that looks at tapes since a restore.
const LOOKING: &str = "looking";
/// Garbage counted exactly up to here.
const GARBAGE_COUNT_MAX: usize = 100_000;

/// With what is in the pool now: what came since the last look has taken of what was free.
fn as_of_now(evictor: EvictorInfo, online: ByteCount) -> EvictorInfo {
    let room = if evictor.room.0 == 0 { evictor.room } else { evictor.room.max(online) };
    EvictorInfo { online, room, ..evictor }
}

impl Tape {
    /// All tapes, by VID.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn tapes(&self) -> Result<Vec<TapeInfo>, ArchiveError> {
        let room = self;
        let records = room.read(|view| {
            let mut records = Vec::new();
            for (vid, record) in view.tapes()? {
                records.push((vid, record, view.tally(Counter::Wanted(vid))?));
            }
            Ok(records)
        })?;
        Ok(records.into_iter().map(|(vid, record, wanted)| tape_info(room, vid, record, wanted)).collect())
    }

    /// A tape.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchTape`].
    pub fn tape_info(&self, vid: Vid) -> Result<TapeInfo, ArchiveError> {
        let room = self;
        let found = room.read(|view| Ok((view.tape(vid)?, view.tally(Counter::Wanted(vid))?)))?;
        let (Some(record), wanted) = found else { return Err(room.no_such_tape(vid)) };
        Ok(tape_info(room, vid, record, wanted))
    }

    /// What is on a tape from a block on, and where the next page begins.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchTape`].
    pub fn tape_content(
        &self,
        vid: Vid,
        from: BlockAddress,
        limit: usize,
    ) -> Result<(Vec<TapeContent>, Option<BlockAddress>), ArchiveError> {
        self.tape(vid)?;
        let limit = limit.clamp(1, TAPE_PAGE_MAX);
        self.read(|view| {
            let rows = view.content(vid, from, limit)?;
            let next =
                rows.last().filter(|_| rows.len() == limit).map(|(block, _)| BlockAddress(block.0 + 1));
            let mut content = Vec::with_capacity(rows.len());
            for (block, container) in rows {
                if let Some(record) = view.container(container)? {
                    content.push(TapeContent {
                        block,
                        container,
                        kind: record.kind,
                        length: record.length,
                        tape_path: record.tape_path,
                        live_members: record.live_members,
                        live_bytes: record.live_bytes,
                    });
                }
            }
            Ok((content, next))
        })
    }

    /// The tape drives and what they do.
    #[must_use]
    pub fn tape_drives(&self) -> Vec<TapeDriveInfo> {
        let room = self;
        let mut known: BTreeMap<String, DriveState> =
            room.scheduler().drives().map(|(name, state)| (name.clone(), state.clone())).collect();
        let down = room.read(|view| view.drives_down()).unwrap_or_default();
        let (now, forecast) = (room.now(), room.forecast());
        let info = |drive: library::DriveName| {
            let name = drive.as_str().to_owned();
            // Those that the scheduler has not heard of yet are not in use yet.
            let state = known.remove(&name).unwrap_or(DriveState::Down { reason: STARTING.to_owned() });
            let cause = room.reason(Waiting::Drive(&name)).ok().flatten();
            let expected = forecast.of_drive(&name).map(|expected| expected.seen_at(now));
            let leaving = leaving(&state, &name, &down);
            let mut info = drive_info(room, &drive, &state);
            if let Some(Reason::DriveLooks { vid, .. }) = &cause {
                (info.state, info.vid) = (LOOKING.to_owned(), *vid);
                info.reason = cause.as_ref().map_or_else(String::new, Reason::to_string);
            }
            if let Some(reason @ Reason::ToBeCleaned { .. }) = &cause {
                info.reason = reason.to_string();
            }
            TapeDriveInfo { cause, expected, reason: leaving.unwrap_or(info.reason), ..info }
        };
        room.library.drives().into_iter().map(info).collect()
    }

    /// The pool and its drives.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn pool_info(&self) -> Result<PoolInfo, ArchiveError> {
        let room = self;
        let status = room.pool.status();
        let (online, garbage) = room.read(|view| {
            let online = sum(view, room, Counter::Online)?;
            Ok((online, view.garbage(GARBAGE_COUNT_MAX)?.len() as u64))
        })?;
        let mut drains = room.upkeep.drain_info();
        let mut disks = room.upkeep.drive_disks()?;
        let drives = status
            .drives
            .iter()
            .map(|drive| PoolDriveInfo {
                id: drive.id.0,
                // One that is missing has no name of its own.
                path: if drive.name.is_empty() { self.directory_of(drive.id) } else { drive.name.clone() },
                host: self.host_of(drive.id),
                group: room.settings.pool.group_name(drive.group).to_owned(),
                state: match &drive.health {
                    health if health.is_up() && drive.drains => "draining",
                    _ if drive.is_full() => DriveHealth::Full.word(),
                    health => health.word(),
                },
                reason: match drive.health.reason() {
                    Some(reason) => reason.to_owned(),
                    None => self.told_unnamed(drive.id, &drive.health).unwrap_or_default(),
                },
                up: drive.health.is_up(),
                full: drive.is_full(),
                gaps_after: drive.gaps_after.filter(|_| !drive.health.is_silent()),
                filling: drive.filling,
                slow: drive.slow,
                burn_in: drive.burn_in,
                queue: drive.queue,
                drain: drains.remove(&drive.id),
                disk: disks.remove(&drive.id),
                capacity: drive.capacity,
                used: drive.used,
                read: drive.bytes_read,
                written: drive.bytes_written,
                errors: drive.errors,
            })
            .collect();
        let config = room.pool.config();
        Ok(PoolInfo {
            data: config.code.data,
            local_parity: config.code.local,
            parity: config.code.global,
            segment_copies: config.segment_copies,
            refuses: room.pool_refuses(),
            drives,
            online,
            reconstructed: status.reconstructions,
            garbage,
            small: room.upkeep.segment_use(),
            evictor: as_of_now(room.evictor_info(), online.bytes),
            rebuild: room.upkeep.rebuild_info(),
            rebalance: room.upkeep.rebalance_info(),
            recoding: room.upkeep.recoding_info(),
            groups: room.upkeep.group_infos(),
        })
    }

    /// The storage classes.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn classes(&self) -> Result<Vec<ClassInfo>, ArchiveError> {
        let room = self;
        room.read(|view| {
            let mut infos = Vec::new();
            for class in room.classes.all() {
                infos.push(ClassInfo {
                    name: class.settings.name.clone(),
                    up_to: class.settings.up_to,
                    copies: class.settings.copies.clone(),
                    pack_bytes: class.settings.pack_bytes,
                    large_bytes: class.settings.large_bytes,
                    live: view.tally(Counter::Class(class.id))?,
                    online: view.tally(Counter::Online(class.id))?,
                    todo: view.tally(Counter::Todo(class.id))?,
                    cold: class.settings.cold,
                    placing: class.settings.placing.clone(),
                    pool_max: class.settings.pool_max,
                    leaving: class.settings.leaving,
                });
            }
            Ok(infos)
        })
    }

    /// Everything that waits, and why.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn queue(&self) -> Result<Vec<QueueLine>, ArchiveError> {
        Ok(self.foretold_queue()?.into_iter().map(|(_, line)| line).collect())
    }

    /// The same, and what each line is about.
    pub(crate) fn foretold_queue(&self) -> Result<Vec<(Queued, QueueLine)>, ArchiveError> {
        let room = self;
        let lines = self.waiting()?.into_iter().map(|(queued, line)| {
            let of = |forecast: &Forecast| match queued {
                Queued::Class(id) => forecast.of_class(id),
                Queued::TapePool(id) => forecast.of_tape_pool(id),
                Queued::Tape(vid) => forecast.of_tape(vid),
                Queued::TooLarge(_) | Queued::Index | Queued::Repack | Queued::Repairs => None,
            };
            (queued, QueueLine { expected: room.expected(line.cause.as_ref(), of), ..line })
        });
        Ok(lines.collect())
    }

    /// The same without a forecast.
    fn waiting(&self) -> Result<Vec<(Queued, QueueLine)>, ArchiveError> {
        let room = self;
        let mut lines = Vec::new();
        for class in room.classes.all() {
            let id: ClassId = class.id;
            let (tally, first) =
                room.read(|view| Ok((view.tally(Counter::Todo(id))?, view.todo(id, None, 1)?)))?;
            if tally.files > 0 {
                let cause = room.reason(Waiting::Seal(id))?;
                let oldest = first.first().map(|(_, todo)| todo.since);
                let what = format!("seal {}", class.settings.name);
                lines.push((Queued::Class(id), queue_line(room, what, tally, oldest, cause)));
            }
        }
        for (id, pool) in room.classes.tape_pools() {
            self.waiting_for_pool(*id, &pool.name, &mut lines)?;
        }
        let mut left = RowsLeft::new();
        for tape in self.tapes()? {
            if tape.wanted.files > 0 {
                let oldest = room.read(|view| oldest_wanted(view, tape.vid, &mut left))?;
                let cause = room.reason(Waiting::Tape(tape.vid))?;
                let what = format!("recall {}", tape.vid);
                lines.push((Queued::Tape(tape.vid), queue_line(room, what, tape.wanted, oldest, cause)));
            }
        }
        for (vid, tally) in self.room_waits_for()? {
            let cause = Reason::WaitingForIndex { vid, every: INDEX_FOR_ROOM_EVERY };
            lines.push((Queued::Index, queue_line(room, format!("index {vid}"), tally, None, Some(cause))));
        }
        self.waiting_to_be_moved(&mut lines)?;
        Ok(lines)
    }

    /// What stands on tapes under repack, and damaged copies whose bytes are to come from other tapes.
    fn waiting_to_be_moved(&self, lines: &mut Vec<(Queued, QueueLine)>) -> Result<(), ArchiveError> {
        for (vid, record) in self.read(|view| view.tapes())? {
            if !is_repacked(&record) || record.containers == 0 {
                continue;
            }
            let bytes = self.maintenance().repacks.get(&vid).map_or(ByteCount(0), Repack::bytes_under_way);
            let tally = Tally { files: record.containers, bytes };
            let cause = self.reason(Waiting::Repack(vid))?;
            lines.push((Queued::Repack, queue_line(self, format!("repack {vid}"), tally, None, cause)));
        }
        let tally = self.repairs();
        if tally.files > 0 {
            let cause = self.reason(Waiting::Repairs)?;
            lines.push((Queued::Repairs, queue_line(self, "repair".to_owned(), tally, None, cause)));
        }
        Ok(())
    }

    /// What is queued for a tape pool; what none of its tapes takes apart from the others.
    fn waiting_for_pool(
        &self,
        id: TapePoolId,
        name: &str,
        lines: &mut Vec<(Queued, QueueLine)>,
    ) -> Result<(), ArchiveError> {
        let room = self;
        let (mut tally, head, too_large) = room.read(|view| {
            let too_large = room.too_large(view, id)?;
            let head = view.queue(id, None, too_large.containers.len() + 1)?;
            Ok((view.tally(Counter::Queued(id))?, head, too_large))
        })?;
        let large = too_large.tally();
        tally.files = tally.files.saturating_sub(large.files);
        tally.bytes.0 = tally.bytes.0.saturating_sub(large.bytes.0);
        let is_large = |id| too_large.containers.iter().any(|(large, _)| *large == id);
        let mut oldest = head.iter().find(|(id, _)| !is_large(*id)).map(|(_, queued)| queued.since);
        // While this host cannot write, what stands on a tape in part comes back to no queue.
        if room.tapes_not_written().is_some() {
            let (planned, since) = room.read(|view| planned_for(view, id))?;
            add(&mut tally, planned);
            oldest = [oldest, since].into_iter().flatten().min();
        }
        if tally.files > 0 {
            let cause = room.reason(Waiting::Migration(id))?;
            let line = queue_line(room, format!("migrate {name}"), tally, oldest, cause);
            lines.push((Queued::TapePool(id), line));
        }
        if let Some((_, first)) = too_large.containers.first() {
            let what = format!("migrate {name} (too large)");
            let line = queue_line(room, what, large, Some(first.since), too_large.reason());
            lines.push((Queued::TooLarge(id), line));
        }
        Ok(())
    }

    /// Counters for summaries and metrics.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn totals(&self) -> Result<Totals, ArchiveError> {
        let room = self;
        let (mut totals, tapes) = room.read(|view| {
            let mut queued = Tally::default();
            for id in room.classes.tape_pools().keys() {
                add(&mut queued, view.waiting_for(*id)?);
            }
            let tapes = view.tapes()?;
            let mut unindexed = 0;
            for (vid, record) in &tapes {
                let from = BlockAddress(record.index_block.0 + 1);
                if record.uuid.is_some() {
                    unindexed += view.content(*vid, from, usize::MAX)?.len() as u64;
                }
                if let Some(run) = record.run.map(|run| view.run(run)).transpose()?.flatten() {
                    unindexed += u64::from(run.planned - run.committed);
                }
            }
            let mut most_wanted = Tally::default();
            for (vid, _) in &tapes {
                let wanted = view.tally(Counter::Wanted(*vid))?;
                most_wanted = if wanted.files > most_wanted.files { wanted } else { most_wanted };
            }
            let repacked = tapes.iter().filter(|(_, tape)| is_repacked(tape));
            let totals = Totals {
                wanted: most_wanted,
                repacked: repacked.map(|(_, tape)| tape.containers).sum(),
                live: sum(view, room, Counter::Class)?,
                online: sum(view, room, Counter::Online)?,
                todo: sum(view, room, Counter::Todo)?,
                queued,
                unindexed,
                mounts: tapes.iter().map(|(_, tape)| tape.mounts).sum(),
                packs: view.tally(Counter::PacksSealed)?.files,
                flushes: view.tally(Counter::Flushes)?,
                indexes: view.tally(Counter::Indexes)?.files,
                holders: crate::evictable::holders(room, view)?,
                tape_written: ByteCount(tapes.iter().map(|(_, tape)| tape.written.0).sum()),
                ..Totals::default()
            };
            Ok((totals, tapes))
        })?;
        totals.lost = room.upkeep.lost_info()?;
        let pool = room.pool.status();
        totals.pool_capacity = pool.capacity;
        totals.pool_used = pool.used;
        let count =
            |of: fn(&DriveReport) -> bool| pool.drives.iter().filter(|drive| of(drive)).count() as u64;
        totals.pool_drives = count(|drive| drive.health != DriveHealth::Removed);
        totals.pool_drives_up = count(|drive| drive.health.is_up());
        totals.pool_drives_full = count(DriveReport::is_full);
        totals.warnings = crate::warnings::all(room, &tapes, &pool, &totals.holders);
        let stuck = |line: &QueueLine| line.cause.as_ref().is_some_and(Reason::needs_an_operator);
        let waiting = self.waiting()?.into_iter().map(|(_, line)| line);
        totals.stuck = waiting.filter(stuck).take(STUCK_MAX).collect();
        totals.problems = self.health();
        totals.wanted = room.all_wanted(totals.wanted);
        totals.repairs = room.repairs();
        totals.threads = room.workers.info();
        totals.settling = self.settling();
        totals.clock = room.clock.trusted().map(base::TrustedClock::standing);
        Ok(totals)
    }

    /// What is wanted, each file once. The scheduler hears of a recall a little later than the catalogue, and
    /// of those of before a start all at once: `most` is what the catalogue has of the tape with most of it.
    fn all_wanted(&self, most: Tally) -> Tally {
        let (files, bytes) = self.scheduler().wanted();
        if files >= most.files { Tally { files, bytes } } else { most }
    }

    /// What keeps the server from taking changes; at most once a second the file system is asked.
    #[must_use]
    pub fn health(&self) -> Vec<ground::HealthProblem> {
        crate::warnings::health(self)
    }

    /// The directory of a drive of the pool as the settings have it; empty if they have none.
    fn directory_of(&self, id: base::DriveId) -> String {
        self.upkeep.location_of_drive(id).map_or_else(|_| String::new(), |at| at.to_string())
    }

    /// What is said of a drive that is missing because the settings of this start did not name it, though
    /// stripes may stand on it; `None`: they name it.
    pub(crate) fn told_unnamed(&self, id: base::DriveId, health: &DriveHealth) -> Option<String> {
        let is_unnamed = *health == DriveHealth::Missing && self.pool_drives.get(id).is_none();
        is_unnamed.then(|| {
            format!(
                "kist.toml does not name it, though stripes may stand on it: put it in again (kist pool \
                 drive add PATH), or give it up and take it out (kist pool drive lost {id}, then remove {id})"
            )
        })
    }

    /// The machine of a drive of the pool as the settings have it; empty if they have none.
    fn host_of(&self, id: base::DriveId) -> String {
        self.pool_drives.get(id).map_or_else(String::new, |drive| drive.host().to_owned())
    }

    /// Changes what may be done with a tape, durably. Given back to use, a tape that was never labelled is
    /// scratch, one whose labelling failed is labelled when it is next mounted, and the repack of one that
    /// became suspect goes on. If its repack is called off, copies that still stand only there stay.
    /// Disabled, an open session of one that is in no drive is given up: what was to be written to it goes to
    /// another tape.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchTape`]; [`ArchiveError::Rejected`] if the tape's present state does not
    /// allow it.
    pub fn set_tape(&self, vid: Vid, use_as: TapeUse, reason: &str) -> Result<(), ArchiveError> {
        let room = self;
        let record = room.tape(vid)?;
        if use_as != TapeUse::Disabled {
            need_identified(vid, &record)?;
        }
        let state = match use_as {
            TapeUse::Active if record.before_failure() == Some(TapeState::Repacking) => TapeState::Repacking,
            TapeUse::Active if record.generation.0 > 0 => TapeState::Active,
            TapeUse::Active if record.uuid.is_some() => TapeState::Labelling,
            TapeUse::Active => TapeState::Scratch,
            TapeUse::ReadOnly => TapeState::ReadOnly,
            TapeUse::Disabled => TapeState::Disabled,
        };
        if use_as == TapeUse::Active && room.call_export_off(vid)? && record.state == TapeState::Active {
            return Ok(());
        }
        let is_in_a_drive = || room.tape_drives().iter().any(|drive| drive.vid == Some(vid));
        if let (Some(run), TapeState::Disabled) = (record.run, state)
            && !is_in_a_drive()
        {
            crate::sessions::give_up_run(room, run, vid, reason)?;
            room.set_tasks(vid, |tasks| tasks.recover = false);
        }
        let forgotten = {
            let one = room.tape_states();
            room.execute(Command::SetTapeState { vid, state, reason: truncated(reason, 512) })?;
            if state != TapeState::Repacking {
                room.maintenance().repacks.remove(&vid);
                room.maintenance().reclaims.remove(&vid);
            }
            room.maintenance().no_keepers.remove(&vid);
            room.forget_under(&one, vid, true)
        };
        room.tell_forgotten(vid, forgotten);
        if use_as != TapeUse::Disabled {
            room.close_what_is_open(vid);
        }
        room.post_tape(vid);
        if use_as != TapeUse::Disabled {
            // The operator has looked at it: what the scheduler holds against it is over, also if it is only
            // to be read.
            room.notifier.post(Event::TapeReleased(vid));
        }
        room.repack_after_run(vid);
        if let Err(error) = room.keep_what_was_to_leave(vid) {
            // The tape is in use nevertheless.
            tracing::error!(%vid, %error, "copies that were to leave the tape stay when it is next written");
        }
        if use_as == TapeUse::Disabled {
            room.call_off_reads_of_repack(vid)?;
            room.read_elsewhere(vid)?;
        } else {
            room.retry_mends()?;
            // Files of cold classes may have waited in the pool for it.
            room.sweep.ring();
        }
        Ok(())
    }

    /// Gives a tape drive back to use that Kist or an operator has taken out of it. Durable on return.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchDrive`]; if the catalogue cannot be written.
    pub fn drive_up(&self, drive: &str) -> Result<(), ArchiveError> {
        let room = self;
        room.known_drive(drive)?;
        let _one = room.ordering.lock().unwrap_or_else(PoisonError::into_inner);
        room.execute(Command::SetDriveDown { drive: drive.to_owned(), down: None })?;
        room.forget_cleaning(drive)?;
        room.notifier.post(Event::DriveUp(drive.to_owned()));
        Ok(())
    }
}

impl Tape {
    /// Asks the library and not the scheduler, which hears of the drives only after a start has read all that
    /// is wanted from tape.
    pub(crate) fn known_drive(&self, drive: &str) -> Result<(), ArchiveError> {
        match self.library.drives().iter().any(|name| name.as_str() == drive) {
            true => Ok(()),
            false => Err(ArchiveError::NoSuchDrive(drive.to_owned())),
        }
    }
}

/// What a line of the queue is about.
#[derive(Clone, Copy)]
pub(crate) enum Queued {
    Class(ClassId),
    TapePool(TapePoolId),
    /// What no tape of the pool takes.
    TooLarge(TapePoolId),
    Tape(Vid),
    /// What stands on tapes under no index yet, while something waits for room.
    Index,
    /// What repacks take off a tape.
    Repack,
    /// Damaged copies that are written anew.
    Repairs,
}

fn queue_line(
    room: &Tape,
    what: String,
    tally: Tally,
    oldest: Option<Timestamp>,
    cause: Option<Reason>,
) -> QueueLine {
    let cause = cause.unwrap_or(Reason::NothingWaits);
    let (items, bytes, reason) = (tally.files, tally.bytes, cause.to_string());
    let age = oldest.map(|oldest| room.now().since(oldest));
    QueueLine { what, items, bytes, oldest, age, reason, cause: Some(cause), expected: None }
}

/// What is planned on tapes of a pool and not whole there, and since when.
fn planned_for(view: &View<'_>, pool: TapePoolId) -> Result<(Tally, Option<Timestamp>), ReadError> {
    let (mut planned, mut since) = (Tally::default(), None);
    for (id, run) in view.open_runs()?.into_iter().filter(|(_, run)| run.tape_pool == pool) {
        let left = run.planned.saturating_sub(run.committed);
        for item in view.run_items(id, run.committed, left as usize)? {
            let Some(container) = view.container(item.container)? else { continue };
            add(&mut planned, Tally { files: 1, bytes: container.length });
            since = Some(since.map_or(run.started, |since: Timestamp| since.min(run.started)));
        }
    }
    Ok((planned, since))
}

fn add(sum: &mut Tally, tally: Tally) {
    sum.files += tally.files;
    sum.bytes.0 += tally.bytes.0;
}

fn sum(view: &View<'_>, room: &Tape, counter: fn(ClassId) -> Counter) -> Result<Tally, ReadError> {
    let mut sum = Tally::default();
    for class in room.classes.all() {
        add(&mut sum, view.tally(counter(class.id))?);
    }
    Ok(sum)
}

fn tape_info(room: &Tape, vid: Vid, record: TapeRecord, wanted: Tally) -> TapeInfo {
    let drive =
        room.scheduler().drives().find(|(_, state)| state.vid() == Some(vid)).map(|(name, _)| name.clone());
    // That its key cannot be looked up is told by who reads the catalogue next; it is not called missing.
    let lacks_key = room.read(|view| view.lacks_key(&record)).unwrap_or(false);
    let old_key = || room.told_of_old_key(vid, &record).filter(|_| record.state == TapeState::Active);
    let held = || room.held_for_key(vid, &record);
    let reason = match (room.why_not_out(vid).or_else(held), told(vid, &record)) {
        (Some(held), _) => held,
        (None, told) if told.is_empty() => old_key().unwrap_or_default(),
        (None, told) => told,
    };
    TapeInfo {
        vid,
        state: record.state,
        unidentified: is_unidentified(&record),
        reason,
        history: record.history,
        tape_pool: record.tape_pool.map(|id| room.classes.tape_pool_name(id)),
        library: room.libraries.name(room.libraries.of_tape(vid)).to_owned(),
        uuid: record.uuid,
        capacity: record.capacity,
        written: record.written,
        committed: record.committed,
        torn: record.torn,
        containers: record.containers,
        generation: record.generation.0,
        end_of_data: record.end_of_data,
        mounts: record.mounts,
        drive,
        away: !room.libraries.holds(vid),
        leaving: room.is_leaving(vid),
        away_as: record.away.clone(),
        element: room.libraries.import_export_of(vid),
        key: record.key.clone(),
        key_at_hand: record.key.is_some() && !lacks_key,
        key_outdated: !room.has_current_key(&record),
        wanted,
        changes_through: record.changes_through,
    }
}

/// What is said of a drive that an operator has taken out of use, and that goes on until its session has
/// ended; `down` are the drives that are to be out of use, with the reasons.
pub(crate) fn leaving(state: &DriveState, name: &str, down: &[(String, String)]) -> Option<String> {
    let (_, reason) = down.iter().find(|(drive, _)| drive == name)?;
    let goes_on = !matches!(state, DriveState::Down { .. });
    goes_on.then(|| format!("goes out of use when its session has ended: {reason}"))
}

fn drive_info(room: &Tape, drive: &library::DriveName, state: &DriveState) -> TapeDriveInfo {
    let session = room.session(drive.as_str());
    let began = *session.began.lock().unwrap_or_else(PoisonError::into_inner);
    let (files, bytes) = (session.files.load(Ordering::Relaxed), session.bytes.load(Ordering::Relaxed));
    let working = matches!(
        state,
        DriveState::Migrating { .. } | DriveState::Recalling { .. } | DriveState::Maintaining { .. }
    );
    let seconds = began.map_or(0.0, |began| room.now().since(began).as_secs_f64());
    let (word, reason) = match state {
        DriveState::Down { reason } => ("down", reason.clone()),
        DriveState::Empty => ("empty", String::new()),
        DriveState::Mounting { .. } => ("mounting", String::new()),
        DriveState::Idle { .. } => {
            ("idle", "the tape stays mounted until the dismount delay is over".to_owned())
        }
        DriveState::Migrating { .. } => ("migrating", String::new()),
        DriveState::Recalling { .. } => ("recalling", String::new()),
        DriveState::Maintaining { .. } => ("maintaining", String::new()),
        DriveState::Unmounting { .. } => ("unmounting", String::new()),
        DriveState::Cleaning { vid, .. } => ("cleaning", format!("with cleaning cartridge {vid}")),
    };
    let vid = state.vid();
    let tape_pool = vid
        .and_then(|vid| room.tape(vid).ok())
        .and_then(|record| record.tape_pool)
        .map(|id| room.classes.tape_pool_name(id));
    TapeDriveInfo {
        name: drive.as_str().to_owned(),
        library: room.libraries.name(room.library.library_of(drive)).to_owned(),
        state: word.to_owned(),
        vid,
        tape_pool,
        since: began,
        files: if working { files } else { 0 },
        bytes: ByteCount(if working { bytes } else { 0 }),
        rate: if working && seconds > 0.0 { bytes as f64 / seconds } else { 0.0 },
        reason,
        cause: None,
        expected: None,
        motion: *session.motion.lock().unwrap_or_else(PoisonError::into_inner),
        place: room.library.drive_place(drive),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A drive that was to go out of use looked like any other one until its session had ended.
    #[test]
    fn a_drive_that_is_to_go_out_of_use_says_so_and_why() {
        let down = [("d1".to_owned(), "cleaning".to_owned())];
        let idle = DriveState::Empty;
        let said = leaving(&idle, "d1", &down).unwrap();
        assert_eq!(said, "goes out of use when its session has ended: cleaning");
        assert_eq!(leaving(&idle, "d0", &down), None);
        let out = DriveState::Down { reason: "cleaning".to_owned() };
        assert_eq!(leaving(&out, "d1", &down), None, "it is out of use already");
    }
}
