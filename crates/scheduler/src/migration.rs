//! When a tape pool gets a drive, and which tape.

use base::{ByteCount, Duration, LibraryId, TapePoolId, Timestamp, Vid};
use session::{BACK_OFF_MAX, back_off};

use crate::census::pool_written;
use crate::drive::Drive;
use crate::scheduler::{Rest, Scheduler, ripe_at};
use crate::{Backlog, DriveName, DriveState, Purpose, TapePoolPolicy};

/// How much more often a tape without labels was mounted than a scratch tape before that one is tried
/// instead.
const LABELLING_MOUNTS_MAX: u64 = 4;

/// A begun tape from which more bytes are to be read is not waited for: reading them takes longer than
/// minutes, and a scratch tape is taken.
const READ_SOON_MAX: ByteCount = ByteCount(64 << 30);
/// Nor is one that has been read for so long: small files may take hours, and files that are wanted join.
const READ_WAIT_MAX: Duration = Duration::from_secs(600);
/// Nor is one that has been on its way into a drive or out of it for so long: a robot or a drive hangs.
const MOVE_WAIT_MAX: Duration = Duration::from_secs(1_800);

/// What is known of a tape pool.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct PoolState {
    pub(crate) backlog: Backlog,
    /// `MigrateNow` came; stays until nothing is left.
    pub(crate) now: bool,
    /// When `MigrateNow` came last, or the last seal for it ended: what was queued before and left the queue
    /// for a while is still to go.
    pub(crate) asked: Option<Timestamp>,
    /// A tape became full before the queue was empty: the rest follows without waiting for bytes or age.
    pub(crate) unfinished: bool,
    /// A session found nothing to do beside others when so much was queued: they have it all between them.
    pub(crate) enough: Option<ByteCount>,
    /// The last sessions found nothing of what waits that they could write.
    pub(crate) idle: Option<IdleSessions>,
}

/// Sessions in a row that wrote nothing, although something waits and nobody else writes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdleSessions {
    count: u32,
    /// What waited then, or the least that did since. More of it may be what can be written.
    waiting: Backlog,
}

impl IdleSessions {
    /// Whether more waits than did then.
    fn has_more(&mut self, backlog: &Backlog) -> bool {
        let Backlog { items, bytes, .. } = &mut self.waiting;
        let has_more = backlog.items > *items || backlog.bytes > *bytes;
        (*items, *bytes) = (backlog.items.min(*items), backlog.bytes.min(*bytes));
        has_more
    }
}

impl PoolState {
    /// Whether what waits is to go without waiting for bytes or age.
    pub(crate) fn is_hurried(&self) -> bool {
        self.now || self.asked.is_some_and(|asked| self.backlog.oldest.is_some_and(|oldest| oldest <= asked))
    }
}

/// A tape for a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TapeChoice {
    pub(crate) vid: Vid,
    /// The pool, if the tape is a scratch tape.
    pub(crate) assign: Option<TapePoolId>,
}

impl Scheduler {
    pub(crate) fn queued(&mut self, tape_pool: TapePoolId, backlog: Backlog) {
        let state = self.pools.entry(tape_pool).or_default();
        state.backlog = backlog;
        state.unfinished &= backlog.items > 0;
        let has_more = state.idle.as_mut().is_some_and(|idle| idle.has_more(&backlog));
        for drive in self.drives.uncounted_mut() {
            drive.progress |=
                matches!(drive.state, DriveState::Migrating { tape_pool: of, .. } if of == tape_pool);
        }
        if has_more {
            self.end_idle_rests(tape_pool);
        }
        self.settle_now();
    }

    /// A session wrote nothing of what waits, and nobody else does: its tape and drive part, each time for
    /// twice as long, or until more waits. Whatever keeps what waits from tape is no reason to mount without
    /// end.
    pub(crate) fn rest_idle(&mut self, drive: &DriveName, vid: Vid, tape_pool: TapePoolId, now: Timestamp) {
        let state = self.pools.entry(tape_pool).or_default();
        let count = state.idle.map_or(0, |idle| idle.count);
        state.idle = Some(IdleSessions { count: count.saturating_add(1), waiting: state.backlog });
        let until = now.plus(back_off(self.policy.retry_delay, count, BACK_OFF_MAX));
        let cause = "the last session found nothing that it could write".to_owned();
        self.resting.insert((vid, drive.clone()), Rest { until, cause, idle_of: Some(tape_pool) });
    }

    /// Something was written, or more waits, or somebody asks.
    pub(crate) fn end_idle_rests(&mut self, tape_pool: TapePoolId) {
        if let Some(state) = self.pools.get_mut(&tape_pool)
            && state.idle.take().is_some()
        {
            self.resting.retain(|_, rest| rest.idle_of != Some(tape_pool));
        }
    }

    /// Drives that write to a pool or are being given a tape to do so.
    pub(crate) fn writers(&self, tape_pool: TapePoolId) -> usize {
        let writes = |drive: &&Drive| pool_written(&drive.state) == Some(tape_pool);
        match self.drives.census() {
            Some(census) => census.writers(tape_pool),
            None => self.drives.values().filter(writes).count(),
        }
    }

    /// The pool's policy and state if something waits and one more drive may write to it.
    fn writable_pool(&self, tape_pool: TapePoolId) -> Option<(&TapePoolPolicy, &PoolState, usize)> {
        let state = self.pools.get(&tape_pool).filter(|state| state.backlog.items > 0)?;
        let policy = self.policy.tape_pools.get(&tape_pool)?;
        let writers = self.writers(tape_pool);
        // A container is written whole on one tape, so more drives than containers are of no use.
        let useful = u64::try_from(writers).is_ok_and(|writers| writers < state.backlog.items);
        let useful = useful && (writers == 0 || state.enough.is_none_or(|bytes| state.backlog.bytes > bytes));
        (useful && writers < policy.drives_max).then_some((policy, state, writers))
    }

    /// Whether a pool has enough to write, or for long enough, to be given one more drive.
    pub(crate) fn pool_due(&self, tape_pool: TapePoolId, now: Timestamp) -> bool {
        let Some((policy, state, writers)) = self.writable_pool(tape_pool) else { return false };
        let ripe = ripe_at(&state.backlog, policy.mount_age).is_some_and(|at| at <= now);
        let first = writers == 0 && (ripe || state.is_hurried() || state.unfinished);
        first || state.backlog.bytes >= bytes_needed(policy, writers)
    }

    /// What the tape in an idle drive could be written with now: no thresholds for the first writer.
    pub(crate) fn own_migration(&self, drive: &DriveName) -> Option<TapePoolId> {
        self.migration_to(self.idle_vid(drive)?)
    }

    /// The pool of a mounted tape, if it could be written with something now.
    pub(crate) fn migration_to(&self, vid: Vid) -> Option<TapePoolId> {
        let tape = self.tapes.get(&vid).filter(|tape| tape.is_writable())?;
        let tape_pool = tape.summary.as_ref()?.tape_pool?;
        if !self.writes_in(tape_pool, tape.library()) || !self.host_lets_write(tape.library()) {
            return None;
        }
        let (policy, state, writers) = self.writable_pool(tape_pool)?;
        (writers == 0 || state.backlog.bytes >= bytes_needed(policy, writers)).then_some(tape_pool)
    }

    /// The tape that a pool would be given in this drive: one that is begun, the fullest first, else a
    /// scratch tape, the least used first. One of the pool without labels is no better than a scratch tape
    /// once it was mounted [`LABELLING_MOUNTS_MAX`] times more often. No scratch tape is taken beyond the
    /// number of begun ones that the pool may have, nor while this host cannot write, nor in place of a begun
    /// one that is read and soon free.
    pub(crate) fn choose_tape(&self, tape_pool: TapePoolId, drive: &DriveName) -> Option<TapeChoice> {
        let library = self.library_of(drive);
        if !self.writes_in(tape_pool, library) {
            return None;
        }
        if self.is_tape_leaving(tape_pool) || !self.host_lets_write(library) {
            return None;
        }
        let first = |from: Option<TapePoolId>| {
            let tapes = self.writable.get(&(library, from))?;
            tapes.iter().find(|(.., vid)| !self.rests(drive, *vid)).map(|(_, mounts, vid)| (*mounts, *vid))
        };
        let own = first(Some(tape_pool));
        if own.is_some_and(|(_, vid)| self.cools(vid, tape_pool)) {
            return None;
        }
        let may_begin = || {
            self.may_begin(tape_pool)
                && self.host_lets_begin(tape_pool, library)
                && (own.is_some() || !self.is_tape_soon_read(tape_pool, library))
        };
        match (own, first(None).filter(|_| may_begin())) {
            (Some((mounts, vid)), Some((scratch_mounts, scratch)))
                if !self.is_labelled(vid) && mounts > scratch_mounts + LABELLING_MOUNTS_MAX =>
            {
                Some(TapeChoice { vid: scratch, assign: Some(tape_pool) })
            }
            (Some((_, vid)), _) => Some(TapeChoice { vid, assign: None }),
            (None, Some((_, vid))) => Some(TapeChoice { vid, assign: Some(tape_pool) }),
            (None, None) => None,
        }
    }

    /// Whether a pool may write to tapes of this library.
    pub(crate) fn writes_in(&self, tape_pool: TapePoolId, library: LibraryId) -> bool {
        let policy = self.policy.tape_pools.get(&tape_pool);
        policy.and_then(|policy| policy.library).is_none_or(|only| only == library)
    }

    /// Whether a tape was just unmounted and what is queued for its pool can wait a little longer.
    fn cools(&self, vid: Vid, tape_pool: TapePoolId) -> bool {
        let now = self.recall.tapes.now;
        let backlog = self.pools.get(&tape_pool).map(|state| state.backlog).unwrap_or_default();
        let starves = ripe_at(&backlog, self.policy.starvation).is_some_and(|at| at <= now);
        self.cooling.contains_key(&vid) && backlog.bytes < self.policy.remount_bytes && !starves
    }

    /// Whether nobody writes to a pool, and a begun tape of it in this library is read for what takes
    /// minutes: it is written when that has ended, in the same drive, and no other one is begun for that.
    /// What starves does not wait for it.
    fn is_tape_soon_read(&self, tape_pool: TapePoolId, library: LibraryId) -> bool {
        let now = self.recall.tapes.now;
        let Some(state) = self.pools.get(&tape_pool) else { return false };
        let starves = ripe_at(&state.backlog, self.policy.starvation).is_some_and(|at| at <= now);
        if starves || self.writers(tape_pool) > 0 {
            return false;
        }
        let is_soon_read = |drive: &Drive| {
            let vid = match drive.state {
                DriveState::Mounting { vid, purpose: Purpose::Recall } => vid,
                DriveState::Recalling { vid, .. } => vid,
                _ => return false,
            };
            if waited_for_until(drive).is_none_or(|until| until <= now) {
                return false;
            }
            let left = || self.recall.parts(vid).values().fold(0u64, |sum, part| sum.saturating_add(*part));
            self.is_begun(vid, tape_pool, library) && left() <= READ_SOON_MAX.0
        };
        self.drives.values().any(is_soon_read)
    }

    /// Whether a tape is one of the pool in this library, with labels, to which more may be written.
    fn is_begun(&self, vid: Vid, tape_pool: TapePoolId, library: LibraryId) -> bool {
        let Some(tape) = self.tapes.get(&vid).filter(|tape| tape.is_writable()) else { return false };
        let summary = tape.summary.as_ref();
        let is_of_pool = summary.is_some_and(|it| it.tape_pool == Some(tape_pool) && it.labelled);
        is_of_pool && tape.library() == library && !self.asides.contains_key(&vid)
    }

    /// The times until which pools wait for tapes that are read, or on their way.
    pub(crate) fn waits_for_tapes(&self) -> impl Iterator<Item = Timestamp> {
        let waits = |drive: &Drive, vid: Vid| {
            let summary = self.tapes.get(&vid).and_then(|tape| tape.summary.as_ref());
            let Some(tape_pool) = summary.and_then(|summary| summary.tape_pool) else { return false };
            let queued = self.pools.get(&tape_pool).is_some_and(|state| state.backlog.items > 0);
            // One that leaves is waited for whoever writes beside.
            let is_leaving = matches!(drive.state, DriveState::Unmounting { .. });
            queued && (is_leaving || self.writers(tape_pool) == 0)
        };
        let until = move |drive: &Drive| {
            waited_for_until(drive).filter(|_| drive.state.vid().is_some_and(|vid| waits(drive, vid)))
        };
        self.drives.values().filter_map(until)
    }

    /// Whether one more tape of the pool may be begun.
    pub(crate) fn may_begin(&self, tape_pool: TapePoolId) -> bool {
        let limit = self.policy.tape_pools.get(&tape_pool).map_or(0, |policy| policy.open_tapes_max);
        if limit == usize::MAX {
            return true;
        }
        let shelves = self.writable.iter().filter(|((_, pool), _)| *pool == Some(tape_pool));
        let in_slots: usize = shelves.map(|(_, tapes)| tapes.len()).sum();
        let in_drives = self.drives.values().filter(|drive| {
            let assigned = matches!(
                drive.state,
                DriveState::Mounting { purpose: Purpose::Migration(of), .. } if of == tape_pool
            );
            let tape = drive.state.vid().and_then(|vid| self.tapes.get(&vid));
            let begun = tape.filter(|tape| tape.is_writable()).and_then(|tape| tape.summary.as_ref());
            assigned || begun.is_some_and(|summary| summary.tape_pool == Some(tape_pool))
        });
        in_slots + in_drives.count() < limit
    }

    fn is_labelled(&self, vid: Vid) -> bool {
        let summary = self.tapes.get(&vid).and_then(|tape| tape.summary.as_ref());
        summary.is_some_and(|summary| summary.labelled)
    }

    /// Whether a begun tape of the pool is on its way to its slot: it is worth the wait.
    pub(crate) fn is_tape_leaving(&self, tape_pool: TapePoolId) -> bool {
        self.drives.values().any(|drive| self.leaves(drive, tape_pool))
    }

    fn leaves(&self, drive: &Drive, tape_pool: TapePoolId) -> bool {
        let DriveState::Unmounting { vid } = &drive.state else { return false };
        if waited_for_until(drive).is_none_or(|until| until <= self.recall.tapes.now) {
            return false;
        }
        self.tapes.get(vid).is_some_and(|tape| {
            let of = tape.summary.as_ref().and_then(|summary| summary.tape_pool);
            of == Some(tape_pool) && tape.is_writable()
        })
    }

    /// The times at which pools may become due.
    pub(crate) fn migration_times(&self) -> impl Iterator<Item = Timestamp> {
        self.policy.tape_pools.iter().filter_map(|(id, policy)| {
            self.pools.get(id).and_then(|state| ripe_at(&state.backlog, policy.mount_age))
        })
    }
}

/// Until when what is to be written waits for the tape that this drive reads or moves.
fn waited_for_until(drive: &Drive) -> Option<Timestamp> {
    match drive.state {
        DriveState::Recalling { since, .. } => Some(since.plus(READ_WAIT_MAX)),
        DriveState::Mounting { purpose: Purpose::Recall, .. } | DriveState::Unmounting { .. } => {
            Some(drive.moves_since.plus(MOVE_WAIT_MAX))
        }
        _ => None,
    }
}

/// Bytes that must be queued for one more drive.
pub(crate) fn bytes_needed(policy: &TapePoolPolicy, writers: usize) -> ByteCount {
    let times = u64::try_from(writers).unwrap_or(u64::MAX).saturating_add(1);
    ByteCount(policy.mount_bytes.0.saturating_mul(times))
}
