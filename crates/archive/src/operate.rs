//! What operators look at: tapes, drives, the pool, classes, queues, totals; and the order to migrate now.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use base::{BlockAddress, ByteCount, ClassId, TapePoolId, Timestamp, Vid};
use catalogue::{Command, Counter, ReadError, Tally, TapeRecord, TapeState, View};
use pool::DriveHealth;
use scheduler::{DriveState, Event};

use crate::engine::{Engine, truncated};
use crate::mount_log::{RowsLeft, oldest_wanted};
use crate::why::rest_of;
use crate::{
    Archive, ArchiveError, ClassInfo, Expected, PoolDriveInfo, PoolInfo, QueueLine, Reason, TapeContent,
    TapeDriveInfo, TapeInfo, TapeUse, Totals,
};

/// Containers in one page of a tape's content.
pub const TAPE_PAGE_MAX: usize = 10_000;
/// Garbage counted exactly up to here.
const GARBAGE_COUNT_MAX: usize = 100_000;

impl Archive {
    /// All tapes, by VID.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn tapes(&self) -> Result<Vec<TapeInfo>, ArchiveError> {
        let engine = self.engine();
        let records = engine.read(|view| {
            let mut records = Vec::new();
            for (vid, record) in view.tapes()? {
                records.push((vid, record, view.tally(Counter::Wanted(vid))?));
            }
            Ok(records)
        })?;
        Ok(records.into_iter().map(|(vid, record, wanted)| tape_info(engine, vid, record, wanted)).collect())
    }

    /// A tape.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchTape`].
    pub fn tape(&self, vid: Vid) -> Result<TapeInfo, ArchiveError> {
        let engine = self.engine();
        let found = engine.read(|view| Ok((view.tape(vid)?, view.tally(Counter::Wanted(vid))?)))?;
        let (Some(record), wanted) = found else { return Err(ArchiveError::NoSuchTape(vid)) };
        Ok(tape_info(engine, vid, record, wanted))
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
        self.engine().read(|view| {
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
        let engine = self.engine();
        let states: Vec<(String, DriveState)> =
            engine.scheduler().drives().map(|(name, state)| (name.clone(), state.clone())).collect();
        let (now, forecast) = (engine.now(), engine.forecast());
        let info = |(name, state): (String, DriveState)| {
            let cause = engine.scheduler().why_drive(&name, now);
            let expected = forecast.of_drive(&name).map(|expected| expected.seen_at(now));
            TapeDriveInfo { cause, expected, ..drive_info(engine, name, &state) }
        };
        states.into_iter().map(info).collect()
    }

    /// The pool and its drives.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn pool_info(&self) -> Result<PoolInfo, ArchiveError> {
        let engine = self.engine();
        let status = engine.pool.status();
        let (online, garbage) = engine.read(|view| {
            let online = sum(view, engine, Counter::Online)?;
            Ok((online, view.garbage(GARBAGE_COUNT_MAX)?.len() as u64))
        })?;
        let drives = status
            .drives
            .iter()
            .map(|drive| PoolDriveInfo {
                id: drive.id.0,
                // One that is missing has no name of its own.
                path: if drive.name.is_empty() { self.directory_of(drive.id) } else { drive.name.clone() },
                state: state_of(&drive.health),
                up: matches!(drive.health, DriveHealth::Up | DriveHealth::Full),
                gaps_after: drive.gaps_after.filter(|_| !drive.health.is_silent()),
                capacity: drive.capacity,
                used: drive.used,
                read: drive.bytes_read,
                written: drive.bytes_written,
                errors: drive.errors,
            })
            .collect();
        let config = engine.pool.config();
        Ok(PoolInfo {
            data: config.code.data,
            local_parity: config.code.local,
            parity: config.code.global,
            segment_copies: config.segment_copies,
            drives,
            online,
            reconstructed: status.reconstructions,
            garbage,
        })
    }

    /// The storage classes.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn classes(&self) -> Result<Vec<ClassInfo>, ArchiveError> {
        let engine = self.engine();
        engine.read(|view| {
            let mut infos = Vec::new();
            for class in engine.classes.all() {
                infos.push(ClassInfo {
                    name: class.settings.name.clone(),
                    up_to: class.settings.up_to,
                    copies: class.settings.copies.clone(),
                    pack_bytes: class.settings.pack_bytes,
                    large_bytes: class.settings.large_bytes,
                    live: view.tally(Counter::Class(class.id))?,
                    online: view.tally(Counter::Online(class.id))?,
                    todo: view.tally(Counter::Todo(class.id))?,
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
        let engine = self.engine();
        let now = engine.now();
        let forecast = engine.forecast();
        let seen = |expected: Option<Expected>| expected.map(|expected| expected.seen_at(now));
        let mut lines = Vec::new();
        for class in engine.classes.all() {
            let id: ClassId = class.id;
            let (tally, first) =
                engine.read(|view| Ok((view.tally(Counter::Todo(id))?, view.todo(id, None, 1)?)))?;
            if tally.files > 0 {
                let cause = engine.scheduler().why_sealing(id, now);
                let expected = seen(forecast.of_class(id));
                lines.push(queue_line(
                    format!("seal {}", class.settings.name),
                    tally,
                    first.first().map(|(_, todo)| todo.since),
                    cause,
                    expected,
                ));
            }
        }
        for (id, pool) in engine.classes.tape_pools() {
            let id: TapePoolId = *id;
            let (tally, first) =
                engine.read(|view| Ok((view.tally(Counter::Queued(id))?, view.queue(id, None, 1)?)))?;
            if tally.files > 0 {
                let cause = match engine.scheduler().why_migrating(id, now) {
                    // For the scheduler nothing waits that is left alone.
                    Reason::NothingWaits => match first.first() {
                        Some((container, _)) => rest_of(engine, *container, now)
                            .map_or(Reason::NothingWaits, |(until, cause)| Reason::Resting { until, cause }),
                        None => Reason::NothingWaits,
                    },
                    other => other,
                };
                let expected = seen(forecast.of_tape_pool(id));
                lines.push(queue_line(
                    format!("migrate {}", pool.name),
                    tally,
                    first.first().map(|(_, queued)| queued.since),
                    cause,
                    expected,
                ));
            }
        }
        let mut left = RowsLeft::new();
        for tape in self.tapes()? {
            if tape.wanted.files > 0 {
                let oldest = engine.read(|view| oldest_wanted(view, tape.vid, &mut left))?;
                let cause = engine.scheduler().why_tape(tape.vid);
                let expected = seen(forecast.of_tape(tape.vid));
                lines.push(queue_line(format!("recall {}", tape.vid), tape.wanted, oldest, cause, expected));
            }
        }
        lines.iter_mut().for_each(|line| line.age = line.oldest.map(|oldest| now.since(oldest)));
        Ok(lines)
    }

    /// Counters for summaries and metrics.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn totals(&self) -> Result<Totals, ArchiveError> {
        let engine = self.engine();
        let (mut totals, tapes) = engine.read(|view| {
            let mut queued = Tally::default();
            for id in engine.classes.tape_pools().keys() {
                add(&mut queued, view.tally(Counter::Queued(*id))?);
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
            let totals = Totals {
                live: sum(view, engine, Counter::Class)?,
                online: sum(view, engine, Counter::Online)?,
                todo: sum(view, engine, Counter::Todo)?,
                queued,
                unindexed,
                mounts: tapes.iter().map(|(_, tape)| tape.mounts).sum(),
                packs: view.tally(Counter::PacksSealed)?.files,
                flushes: view.tally(Counter::Flushes)?,
                indexes: view.tally(Counter::Indexes)?.files,
                tape_written: ByteCount(tapes.iter().map(|(_, tape)| tape.written.0).sum()),
                ..Totals::default()
            };
            Ok((totals, tapes))
        })?;
        let pool = engine.pool.status();
        totals.pool_capacity = pool.capacity;
        totals.pool_used = pool.used;
        totals.pool_drives = pool.drives.len() as u64;
        totals.pool_drives_up =
            pool.drives.iter().filter(|drive| drive.health == DriveHealth::Up).count() as u64;
        totals.warnings = crate::warnings::all(engine, &tapes, &pool);
        totals.problems = self.health();
        totals.clock = engine.clock.trusted().map(base::TrustedClock::standing);
        Ok(totals)
    }

    /// What keeps the server from taking changes; at most once a second the file system is asked.
    #[must_use]
    pub fn health(&self) -> Vec<crate::HealthProblem> {
        crate::warnings::health(self.engine())
    }

    /// The directory of a drive of the pool as the settings have it; empty if they have none.
    fn directory_of(&self, id: base::DriveId) -> String {
        self.path_of_drive(id).map_or_else(|_| String::new(), |path| path.display().to_string())
    }

    /// Changes what may be done with a tape, durably. Given back to use, a tape that was never labelled is
    /// scratch, one whose labelling failed is labelled when it is next mounted, and the repack of one that
    /// became suspect goes on.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchTape`]; [`ArchiveError::Rejected`] if the tape's present state does not
    /// allow it.
    pub fn set_tape(&self, vid: Vid, use_as: TapeUse, reason: &str) -> Result<(), ArchiveError> {
        let engine = self.engine();
        let record = engine.tape(vid)?;
        let state = match use_as {
            TapeUse::Active if crate::suspects::was_repacked(&record) => TapeState::Repacking,
            TapeUse::Active if record.generation.0 > 0 => TapeState::Active,
            TapeUse::Active if record.uuid.is_some() => TapeState::Labelling,
            TapeUse::Active => TapeState::Scratch,
            TapeUse::ReadOnly => TapeState::ReadOnly,
            TapeUse::Disabled => TapeState::Disabled,
        };
        engine.execute(Command::SetTapeState { vid, state, reason: truncated(reason, 512) })?;
        engine.forget_failures(vid);
        engine.post_tape(vid);
        if use_as == TapeUse::Active {
            // The operator has looked at it: what the scheduler holds against it is over.
            engine.bell.post(Event::TapeReleased(vid));
        }
        engine.repack_after_run(vid);
        if !matches!(use_as, TapeUse::Disabled) {
            engine.retry_mends()?;
        }
        Ok(())
    }

    /// Gives a tape drive back to use that Kist or an operator has taken out of it. Durable on return.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchDrive`]; if the catalogue cannot be written.
    pub fn drive_up(&self, drive: &str) -> Result<(), ArchiveError> {
        let engine = self.engine();
        if !engine.scheduler().drives().any(|(name, _)| name == drive) {
            return Err(ArchiveError::NoSuchDrive(drive.to_owned()));
        }
        let _one = engine.ordering.lock().unwrap_or_else(PoisonError::into_inner);
        engine.execute(Command::SetDriveDown { drive: drive.to_owned(), down: None })?;
        engine.bell.post(Event::DriveUp(drive.to_owned()));
        Ok(())
    }

    /// Migrates what is there now, of one class or all, without waiting for more bytes or age.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchClass`].
    pub fn migrate_now(&self, class: Option<&str>) -> Result<(), ArchiveError> {
        let class =
            class.map(|name| self.engine().classes.by_name(name).map(|class| class.id)).transpose()?;
        self.engine().hurried.store(self.engine().now().0, Ordering::Relaxed);
        self.engine().bell.post(Event::MigrateNow(class));
        self.engine().bell.backlog_changed();
        Ok(())
    }
}

fn queue_line(
    what: String,
    tally: Tally,
    oldest: Option<Timestamp>,
    cause: Reason,
    expected: Option<Expected>,
) -> QueueLine {
    let (items, bytes, reason) = (tally.files, tally.bytes, cause.to_string());
    QueueLine { what, items, bytes, oldest, age: None, reason, cause: Some(cause), expected }
}

fn add(sum: &mut Tally, tally: Tally) {
    sum.files += tally.files;
    sum.bytes.0 += tally.bytes.0;
}

fn sum(view: &View<'_>, engine: &Engine, counter: fn(ClassId) -> Counter) -> Result<Tally, ReadError> {
    let mut sum = Tally::default();
    for class in engine.classes.all() {
        add(&mut sum, view.tally(counter(class.id))?);
    }
    Ok(sum)
}

fn tape_info(engine: &Engine, vid: Vid, record: TapeRecord, wanted: Tally) -> TapeInfo {
    let drive =
        engine.scheduler().drives().find(|(_, state)| state.vid() == Some(vid)).map(|(name, _)| name.clone());
    TapeInfo {
        vid,
        state: record.state,
        reason: record.reason,
        tape_pool: record.tape_pool.map(|id| engine.classes.tape_pool_name(id)),
        library: engine.libraries.name(engine.libraries.of_tape(vid)).to_owned(),
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
        wanted,
        changes_through: record.changes_through,
    }
}

fn drive_info(engine: &Engine, name: String, state: &DriveState) -> TapeDriveInfo {
    let session = engine.session(&name);
    let began = *session.began.lock().unwrap_or_else(PoisonError::into_inner);
    let since = began.unwrap_or_else(|| engine.now());
    let (files, bytes) = (session.files.load(Ordering::Relaxed), session.bytes.load(Ordering::Relaxed));
    let working = matches!(
        state,
        DriveState::Migrating { .. } | DriveState::Recalling { .. } | DriveState::Maintaining { .. }
    );
    let seconds = engine.now().since(since).as_secs_f64();
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
    };
    let vid = state.vid();
    let tape_pool = vid
        .and_then(|vid| engine.tape(vid).ok())
        .and_then(|record| record.tape_pool)
        .map(|id| engine.classes.tape_pool_name(id));
    TapeDriveInfo {
        name,
        state: word.to_owned(),
        vid,
        tape_pool,
        since,
        files: if working { files } else { 0 },
        bytes: ByteCount(if working { bytes } else { 0 }),
        rate: if working && seconds > 0.0 { bytes as f64 / seconds } else { 0.0 },
        reason,
        cause: None,
        expected: None,
        motion: *session.motion.lock().unwrap_or_else(PoisonError::into_inner),
    }
}

/// What a drive of the pool is, for people.
fn state_of(health: &DriveHealth) -> String {
    match health {
        DriveHealth::Up => "up".to_owned(),
        DriveHealth::Full => "full".to_owned(),
        DriveHealth::Suspect { reason } => format!("suspect: {reason}"),
        DriveHealth::Away { reason } => format!("away: {reason}"),
        DriveHealth::Wiped { reason } => format!("wiped: {reason}"),
        DriveHealth::Missing => "missing".to_owned(),
        DriveHealth::Lost => "lost".to_owned(),
    }
}
