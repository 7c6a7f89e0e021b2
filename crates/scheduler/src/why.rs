//! Finds the reason for everything that waits.

use std::collections::BTreeSet;

use base::{ByteCount, ClassId, FileId, ShareId, TapePoolId, Timestamp, Vid};

use crate::migration::bytes_needed;
use crate::recall::{COPIES_MAX, FilePlace};
use crate::scheduler::{Scheduler, Side, ripe_at};
use crate::{DriveName, DriveState, Purpose, Reason, ShortRoom};

impl Scheduler {
    /// Why the files of a class are not gathered into containers yet.
    #[must_use]
    pub fn why_sealing(&self, class: ClassId, now: Timestamp) -> Reason {
        let Some(state) = self.classes.get(&class) else { return Reason::NothingWaits };
        if state.sealing.is_some() {
            return Reason::Sealing;
        }
        if state.backlog.items == 0 {
            return Reason::NothingWaits;
        }
        let Some(policy) = self.policy.classes.get(&class) else { return Reason::NoPolicy };
        let due = ripe_at(&state.backlog, policy.pack_age);
        match state.resting {
            // No data set fills packs of its own: that is no failure.
            Some((false, until, more)) if until > now => {
                Reason::WaitingForBytes { have: state.backlog.bytes, need: more, due }
            }
            Some((true, until, _)) if until > now => {
                Reason::Resting { until, cause: "nothing could be gathered into a container".to_owned() }
            }
            _ => Reason::WaitingForBytes { have: state.backlog.bytes, need: policy.pack_bytes, due },
        }
    }

    /// Why the containers queued for a tape pool are not written yet.
    #[must_use]
    pub fn why_migrating(&self, tape_pool: TapePoolId, now: Timestamp) -> Reason {
        let Some(state) = self.pools.get(&tape_pool).filter(|state| state.backlog.items > 0) else {
            return Reason::NothingWaits;
        };
        let Some(policy) = self.policy.tape_pools.get(&tape_pool) else { return Reason::NoPolicy };
        let mut mounting = None;
        for (drive, held) in self.drives.iter() {
            let drive = drive.clone();
            match held.state {
                DriveState::Migrating { vid, tape_pool: of, .. } if of == tape_pool => {
                    return Reason::Writing { drive, vid };
                }
                DriveState::Mounting { vid, purpose: Purpose::Migration(of) } if of == tape_pool => {
                    mounting = Some(Reason::Mounting { drive, vid });
                }
                _ => {}
            }
        }
        if let Some(mounting) = mounting {
            return mounting;
        }
        if policy.drives_max == 0 {
            return Reason::DrivesMax { limit: 0 };
        }
        if let Some(lasting) = self.no_drive_up().or_else(|| self.kept_from_tapes(tape_pool)) {
            return lasting;
        }
        if !self.pool_due(tape_pool, now) {
            let due = ripe_at(&state.backlog, policy.mount_age);
            return Reason::WaitingForBytes { have: state.backlog.bytes, need: bytes_needed(policy, 0), due };
        }
        let limit = self.why_limited(Side::Migration, &[policy.share]);
        limit.unwrap_or_else(|| self.why_no_tape(tape_pool))
    }

    /// A drive is up, and yet no tape of the pool can be written, whatever its age: what lasts until somebody
    /// does something about it comes before that, as for recalls.
    fn kept_from_tapes(&self, tape_pool: TapePoolId) -> Option<Reason> {
        let library = self.policy.tape_pools.get(&tape_pool).and_then(|policy| policy.library);
        if let Some(library) = library.filter(|library| !self.libraries_up.contains_key(library)) {
            let named = self.policy.libraries.get(&library).map(|library| library.name.clone());
            return Some(Reason::PoolsLibraryDown { library: named.unwrap_or_else(|| library.to_string()) });
        }
        let is_suitable = self.drives_up().any(|drive| self.choose_tape(tape_pool, drive).is_some());
        let lasts = |reason: &Reason| reason.needs_an_operator() || matches!(reason, Reason::Resting { .. });
        (!is_suitable).then(|| self.why_no_tape(tape_pool)).filter(lasts)
    }

    /// Bytes that stand on a tape; 0 if that is not known.
    pub(crate) fn written(&self, vid: Vid) -> ByteCount {
        let summary = self.tapes.get(&vid).and_then(|tape| tape.summary.as_ref());
        summary.map_or(ByteCount(0), |summary| summary.written)
    }

    /// How many files are wanted, each once, and their bytes.
    #[must_use]
    pub fn wanted(&self) -> (u64, ByteCount) {
        self.recall.all()
    }

    /// Why a wanted file is not recalled yet; `None` if it is not wanted.
    #[must_use]
    pub fn why_recalling(&self, file: FileId, now: Timestamp) -> Option<Reason> {
        Some(match self.recall.place(file)? {
            FilePlace::Taken(vid, position) => self.in_drive(vid, position).unwrap_or(Reason::NothingWaits),
            FilePlace::AllFailed(until) => Reason::Resting {
                until: until.unwrap_or(now),
                cause: "no copy could be read at the last attempt".to_owned(),
            },
            FilePlace::Waiting(tapes) => self.why_waiting(file, &tapes, self.recall.share(file)?, now),
        })
    }

    /// What is done with a tape, or why nothing is.
    #[must_use]
    pub fn why_tape(&self, vid: Vid) -> Reason {
        let waits = self.recall.waiting(vid).is_some();
        // Wherever it is: nothing more is read from it.
        if let Some(reason) = self.not_readable(vid).filter(|_| waits) {
            return self.why_none_can_be_read(vid, reason);
        }
        // Nothing waits for it alone, and yet files are wanted that stand on it.
        if let Some(reason) = self.why_left_to_others(vid).filter(|_| !waits) {
            return reason;
        }
        // Of a tape that nobody wants nothing waits for the end of what its drive does.
        if let Some(reason) = self.not_wanted_in_drive(vid).filter(|_| !waits) {
            return reason;
        }
        let shares: Vec<ShareId> = self.recall.parts(vid).into_keys().collect();
        if let Some(reason) = self.kept_in_drive(vid, &shares) {
            return reason;
        }
        if !waits {
            return self.why_not_written(vid).unwrap_or(Reason::InSlot);
        }
        self.why_not_mounted(vid, &shares, self.recall.tapes.now)
    }

    /// Files wait for a tape that cannot be read. What lasts until somebody does something comes first; else
    /// their other copies are read.
    fn why_none_can_be_read(&self, vid: Vid, reason: String) -> Reason {
        let (mut none_left, mut others, mut is_only) = (BTreeSet::new(), BTreeSet::new(), true);
        for group in self.recall.waiting_with(vid) {
            let readable = group.usable().filter(|tape| self.not_readable(*tape).is_none());
            let before = others.len();
            others.extend(readable);
            if others.len() == before && group.usable().all(|tape| self.not_readable(tape).is_some()) {
                is_only &= group.copies().len() == 1;
                none_left.extend(group.copies().iter().copied());
            }
        }
        if none_left.is_empty() && !others.is_empty() {
            return Reason::ReadElsewhere { vid, tapes: others.into_iter().take(COPIES_MAX).collect() };
        }
        if is_only {
            return Reason::TapeNotReadable { vid, reason };
        }
        none_left.remove(&vid);
        let mut tapes: Vec<Vid> = none_left.into_iter().take(COPIES_MAX - 1).collect();
        tapes.push(vid);
        self.no_readable_copy(tapes)
    }

    /// By VID, so that the file and its tapes name them in the same order.
    fn no_readable_copy(&self, mut tapes: Vec<Vid>) -> Reason {
        tapes.sort_unstable();
        let why = |vid| self.not_readable(vid).unwrap_or_else(|| "a read of it failed".to_owned());
        Reason::NoReadableCopy { tapes: tapes.into_iter().map(|vid| (vid, why(vid))).collect() }
    }

    /// Why wanted files are not read from a tape that has them, and that is asked for none of them: other
    /// tapes give them, or no copy could be read.
    fn why_left_to_others(&self, vid: Vid) -> Option<Reason> {
        if self.recall.has_assigned(vid) {
            return None;
        }
        let tapes = self.recall.read_in_place_of(vid);
        if !tapes.is_empty() {
            return Some(Reason::ReadElsewhere { vid, tapes: tapes.into_iter().take(COPIES_MAX).collect() });
        }
        let cause = "no copy could be read at the last attempt".to_owned();
        self.recall.rests_until(vid).map(|until| Reason::Resting { until, cause })
    }

    /// Why the maintenance of a tape is not done yet.
    #[must_use]
    pub fn why_maintenance(&self, vid: Vid) -> Reason {
        if !self.maintenance_due.contains_key(&vid) {
            return Reason::NothingWaits;
        }
        if let Some(reason) = self.in_drive(vid, 0) {
            return reason;
        }
        if self.tapes.get(&vid).is_none_or(|tape| tape.summary.is_none()) {
            return Reason::TapeNotReadable { vid, reason: "no library holds it".to_owned() };
        }
        let library = self.tapes.get(&vid).map(|tape| tape.library()).unwrap_or_default();
        self.no_drive_up()
            .or_else(|| self.host_cannot_write(library))
            .or_else(|| self.maintenance_rests_until(vid))
            .or_else(|| self.rests_everywhere(vid))
            .unwrap_or_else(|| self.no_drive())
    }

    fn maintenance_rests_until(&self, vid: Vid) -> Option<Reason> {
        let rest = self.maintenance_rest(vid)?;
        Some(Reason::Resting { until: rest.until, cause: rest.cause.clone() })
    }

    /// Why a tape of a pool in its slot would not be written.
    fn why_not_written(&self, vid: Vid) -> Option<Reason> {
        let tape = self.tapes.get(&vid).filter(|tape| tape.is_writable())?;
        tape.summary.as_ref()?.tape_pool.and_then(|_| self.host_cannot_write(tape.library()))
    }

    /// Why a container that was planned on a tape is not whole there yet: it is being written, or stands in
    /// what a session that failed has left, which is taken over at the next mount.
    #[must_use]
    pub fn why_planned(&self, vid: Vid) -> Option<Reason> {
        let library = self.tapes.get(&vid).map(|tape| tape.library()).unwrap_or_default();
        let writing = self.in_drive(vid, 0).filter(|reason| matches!(reason, Reason::Writing { .. }));
        writing.or_else(|| self.host_cannot_write(library))
    }

    /// The file waits for one of these tapes, the most wanted first.
    fn why_waiting(&self, file: FileId, tapes: &[Vid], share: ShareId, now: Timestamp) -> Reason {
        let readable: Vec<Vid> =
            tapes.iter().copied().filter(|vid| self.not_readable(*vid).is_none()).collect();
        let Some(&first) = readable.first() else {
            let copies = self.recall.group_of(file).map(|group| group.copies().to_vec()).unwrap_or_default();
            return match copies[..] {
                [vid] => {
                    let reason = self.not_readable(vid).unwrap_or_default();
                    Reason::TapeNotReadable { vid, reason }
                }
                _ => self.no_readable_copy(copies),
            };
        };
        if let Some(reason) = readable.iter().find_map(|vid| self.kept_in_drive(*vid, &[share])) {
            return reason;
        }
        let due = readable.iter().copied().find(|vid| self.recall.tapes.is_due(*vid, now));
        self.why_not_mounted(due.unwrap_or(first), &[share], now)
    }

    /// Why a tape from which these shares want something is in no drive. What lasts until somebody does
    /// something about it comes before its age, which would lead nowhere.
    fn why_not_mounted(&self, vid: Vid, shares: &[ShareId], now: Timestamp) -> Reason {
        let lasting = self.no_drive_up().or_else(|| self.kept_from_drives(vid));
        if let Some(reason) = lasting.or_else(|| self.no_space(vid, shares)) {
            return reason;
        }
        if !self.recall.tapes.is_due(vid, now) {
            let (oldest, have) = self.recall.waiting(vid).unwrap_or((now, ByteCount(0)));
            let due = Some(oldest.plus(self.policy.recall_age));
            return Reason::WaitingForBytes { have, need: self.policy.recall_bytes, due };
        }
        let cools = |until: &Timestamp| *until > now;
        let cooling = || self.cooling.get(&vid).copied().filter(cools);
        self.why_limited(Side::Recall, shares)
            .or_else(|| cooling().map(|until| Reason::JustUnmounted { vid, until }))
            .unwrap_or_else(|| self.no_drive())
    }

    /// The tape is set aside, or no drive can take it.
    fn kept_from_drives(&self, vid: Vid) -> Option<Reason> {
        if let Some(rest) = self.asides.get(&vid) {
            return Some(Reason::Resting { until: rest.until, cause: rest.cause.clone() });
        }
        let library = self.tapes.get(&vid).map(|tape| tape.library()).unwrap_or_default();
        if !self.libraries_up.contains_key(&library) {
            return Some(Reason::NoDriveInLibrary { vid });
        }
        self.rests_everywhere(vid)
    }

    /// The room in the pool that none of these shares has, or that the last session did not find.
    fn no_space(&self, vid: Vid, shares: &[ShareId]) -> Option<Reason> {
        let first = shares.first().copied()?;
        let found_none = self.no_room.get(&vid).copied();
        if found_none.is_none() && shares.iter().any(|share| self.has_space(*share, false)) {
            return None;
        }
        if let Some((of, free, coming)) = self.least_space(first) {
            let own = of.map(|share| self.policy.share(share)).filter(|share| !share.name.is_empty());
            let of = match own {
                None => ShortRoom::Pool,
                Some(share) if share.has_pool_max => ShortRoom::Share(share.name),
                Some(share) => ShortRoom::LargeFile(share.name),
            };
            return Some(Reason::WaitingForSpace { free: ByteCount(free), coming: ByteCount(coming), of });
        }
        let cause = "there was no room in the pool for what is wanted from it".to_owned();
        found_none.map(|until| Reason::Resting { until, cause })
    }

    /// The limit that keeps work of these shares from a drive.
    fn why_limited(&self, side: Side, shares: &[ShareId]) -> Option<Reason> {
        let ledger = self.ledger();
        if ledger.streams() >= self.streams {
            return Some(Reason::WaitingForStream { limit: self.streams });
        }
        let limit = self.side_policy(side).drives_max;
        if ledger.of_side(side) >= limit {
            return Some(Reason::SideDrivesMax { reading: side == Side::Recall, limit });
        }
        let first = shares.first().copied()?;
        if !shares.iter().any(|share| self.may_use(*share, side, &ledger)) {
            let limit = self.policy.share_drives_max(first);
            let name = self.policy.share(first).name;
            return Some(Reason::ShareDrivesMax { share: first, name, limit });
        }
        let empty = self.drives_that(|state| *state == DriveState::Empty);
        let no_robot = !empty.is_empty() && !empty.iter().any(|name| self.has_robot(name));
        no_robot.then_some(Reason::WaitingForRobot { limit: self.policy.mounts_at_once_max })
    }

    /// What the drive that holds a tape does with it.
    fn in_drive(&self, vid: Vid, position: usize) -> Option<Reason> {
        let drive = self.tapes.get(&vid)?.drive.clone()?;
        Some(match self.state(&drive)? {
            DriveState::Mounting { .. } => Reason::Mounting { drive, vid },
            DriveState::Migrating { .. } => Reason::Writing { drive, vid },
            DriveState::Recalling { .. } => Reason::Reading { drive, vid, position },
            DriveState::Unmounting { .. } => Reason::Unmounting { drive, vid },
            state => Reason::TapeInUse { vid, doing: state.to_string(), drive: drive.clone() },
        })
    }

    /// The same of a tape from which these shares want something. That it lies idle in a drive is no cause:
    /// what keeps it from being read is.
    fn kept_in_drive(&self, vid: Vid, shares: &[ShareId]) -> Option<Reason> {
        let in_drive = self.in_drive(vid, 0)?;
        let drive = self.tapes.get(&vid)?.drive.as_ref()?;
        let is_idle = matches!(self.state(drive)?, DriveState::Idle { .. });
        let kept_from = || self.no_space(vid, shares).or_else(|| self.why_limited(Side::Recall, shares));
        is_idle.then(kept_from).flatten().or(Some(in_drive))
    }

    /// What a drive does with a tape in it that is neither read nor written for anybody.
    fn not_wanted_in_drive(&self, vid: Vid) -> Option<Reason> {
        let drive = self.tapes.get(&vid)?.drive.clone()?;
        match self.state(&drive)? {
            DriveState::Idle { since, .. } => {
                let until = since.plus(self.policy.dismount_delay);
                Some(Reason::KeptMounted { drive, vid, until })
            }
            DriveState::Maintaining { .. } => Some(Reason::Checking { drive, vid }),
            _ => None,
        }
    }

    fn not_readable(&self, vid: Vid) -> Option<String> {
        match self.tapes.get(&vid).and_then(|tape| tape.summary.as_ref()) {
            None => Some("no library holds it".to_owned()),
            Some(summary) if !summary.readable => Some(summary.reason.clone()),
            Some(_) => None,
        }
    }

    fn no_drive_up(&self) -> Option<Reason> {
        if self.drives.is_empty() {
            return Some(Reason::NoDriveKnown);
        }
        let mut down = Vec::new();
        for (name, drive) in self.drives.iter() {
            let DriveState::Down { reason } = &drive.state else { return None };
            down.push((name.clone(), reason.clone()));
        }
        Some(Reason::AllDrivesDown { down })
    }

    fn no_drive(&self) -> Reason {
        let now = self.recall.tapes.now;
        let doing = |name: &DriveName, state: &DriveState| match self.why_not_cleaned(name, now) {
            Some(reason) if *state == DriveState::Empty => reason.to_string(),
            _ => state.to_string(),
        };
        Reason::NoDrive {
            busy: self.drives().map(|(name, state)| (name.clone(), doing(name, state))).collect(),
        }
    }

    /// A drive is up; either no tape suits or no drive is free.
    fn why_no_tape(&self, tape_pool: TapePoolId) -> Reason {
        if self.drives_up().any(|drive| self.choose_tape(tape_pool, drive).is_some()) {
            return self.no_drive();
        }
        if let Some(reason) = self.why_host_cannot_write(tape_pool) {
            return reason;
        }
        let of_pool = |vid: Vid| {
            let summary = self.tapes.get(&vid).and_then(|tape| tape.summary.as_ref());
            summary.is_some_and(|summary| summary.tape_pool == Some(tape_pool))
        };
        let leaving = self.drives.iter().find_map(|(drive, held)| match held.state {
            DriveState::Unmounting { vid } if of_pool(vid) => {
                Some(Reason::Unmounting { drive: drive.clone(), vid })
            }
            _ => None,
        });
        let of_shelf = |pool: Option<TapePoolId>| {
            self.writable
                .iter()
                .filter(move |((library, of), _)| *of == pool && self.writes_in(tape_pool, *library))
        };
        let usable = || of_shelf(Some(tape_pool)).chain(of_shelf(None)).flat_map(|(_, tapes)| tapes);
        let resting = || usable().find_map(|(.., vid)| self.rests_everywhere(*vid));
        let cooling = || {
            let cools = |vid: &Vid| Some(Reason::JustUnmounted { vid: *vid, until: *self.cooling.get(vid)? });
            usable().find_map(|(.., vid)| cools(vid))
        };
        let limit = self.policy.tape_pools.get(&tape_pool).map_or(0, |policy| policy.open_tapes_max);
        let begun = || (!self.may_begin(tape_pool)).then_some(Reason::OpenTapesMax { limit });
        let elsewhere = || self.out_of_slots(tape_pool);
        let passing = leaving.or_else(resting).or_else(cooling);
        passing.or_else(elsewhere).or_else(begun).unwrap_or(Reason::NoScratchTape)
    }

    /// A tape that the pool may be written to, and that is in a drive for something else or set aside.
    fn out_of_slots(&self, tape_pool: TapePoolId) -> Option<Reason> {
        let suits = |of: Option<TapePoolId>| match of {
            Some(of) => of == tape_pool,
            None => self.may_begin(tape_pool),
        };
        let tapes = self.tapes.iter().filter(|(_, tape)| tape.is_writable() && tape.listed.is_none());
        let mut tapes = tapes.filter(|(_, tape)| {
            let of = tape.summary.as_ref().and_then(|summary| summary.tape_pool);
            suits(of)
                && self.writes_in(tape_pool, tape.library())
                && self.libraries_up.contains_key(&tape.library())
        });
        tapes.find_map(|(vid, _)| match self.asides.get(vid) {
            Some(rest) => Some(Reason::Resting { until: rest.until, cause: rest.cause.clone() }),
            None => self.in_drive(*vid, 0),
        })
    }

    /// The rest that ends first, if a tape is kept apart from every drive that is up.
    fn rests_everywhere(&self, vid: Vid) -> Option<Reason> {
        let library = self.tapes.get(&vid).map(|tape| tape.library()).unwrap_or_default();
        let drives = self.drives_up().filter(|drive| self.library_of(drive) == library);
        let rests = drives.map(|drive| self.resting.get(&(vid, drive.clone())));
        let rests: Option<Vec<_>> = rests.collect();
        let first = rests?.into_iter().min_by_key(|rest| rest.until)?;
        Some(Reason::Resting { until: first.until, cause: first.cause.clone() })
    }

    fn drives_up(&self) -> impl Iterator<Item = &DriveName> {
        self.drives().filter(|(_, state)| !matches!(state, DriveState::Down { .. })).map(|(name, _)| name)
    }
}
