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
