//! What all drives of a pool share: the clock, how long a read usually takes, and what was found damaged.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use threads::Mutex;

use base::{BlobId, BlobPiece, ByteCount, Clock, DriveGroup, Timestamp, stood_still};

use crate::config::{GROUPS_MAX, HEDGE_DEFAULT, HEDGE_FACTOR, HEDGE_MAX, HEDGE_MIN, REPAIRS_MAX};
use crate::gather::lock;
use crate::hedge::HedgeBudget;
use crate::slow::Kind;

/// A blob, or of a segment the offset and length of a value.
type Repair = (BlobId, Option<(u64, u64)>);

/// One for each pool.
#[derive(Default)]
pub(crate) struct Watch {
    clock: OnceLock<Arc<dyn Clock>>,
    /// When drives were last looked at, and for how long in all nobody looked because everything stood still.
    looked: Mutex<Option<Duration>>,
    stood_still: AtomicU64,
    /// Of the drives of each group: what others take says nothing of them.
    usual: [Usual; 1 + GROUPS_MAX],
    /// Blob, and of a small value its offset and length.
    repairs: Mutex<BTreeSet<Repair>>,
    /// What may be read in the place of what is late.
    pub(crate) hedges: HedgeBudget,
}

/// What is usual for the drives of a group.
#[derive(Default)]
struct Usual {
    /// The median time of a read of a cell in nanoseconds, queueing included; 0: unknown.
    cell: AtomicU64,
    /// The median time in nanoseconds that a drive takes for an operation of each kind, without queueing; 0:
    /// unknown.
    of_kind: [AtomicU64; 3],
}

/// When a job began that began before there was a clock.
pub(crate) const WITHOUT_CLOCK: i64 = 1;

fn move_median(median: &AtomicU64, span: Duration) {
    let span = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX).max(1);
    let before = median.load(Ordering::Relaxed);
    let step = (before / 16).max(1);
    let after = match before {
        0 => span,
        _ if span > before => before.saturating_add(step),
        _ => before - step,
    };
    // Two at once cost one sample.
    median.store(after, Ordering::Relaxed);
}

impl Watch {
    /// Gives the clock; the first one stays.
    pub(crate) fn set_clock(&self, clock: Arc<dyn Clock>) {
        let _ = self.clock.set(clock);
    }

    /// A time to count spans from, by the steady clock: the trusted time may leap by years while a drive is
    /// at a job, which would seem to hang. Without the time in which everything stood still, as far as that
    /// is known. Always the same without a clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.moving(self.steady().unwrap_or_default())
    }

    fn moving(&self, steady: Duration) -> Timestamp {
        let moving = steady.saturating_sub(Duration::from_nanos(self.stood_still.load(Ordering::Relaxed)));
        Timestamp(i64::try_from(moving.as_nanos()).unwrap_or(i64::MAX))
    }

    /// The present moment for a job that begins, in nanoseconds: [`WITHOUT_CLOCK`], or later ones.
    pub(crate) fn moment(&self) -> i64 {
        match self.clock.get() {
            None => WITHOUT_CLOCK,
            Some(_) => self.now().0.max(WITHOUT_CLOCK + 1),
        }
    }

    /// The drives are about to be looked at: if nobody did for long, a virtual machine was moved or a program
    /// stopped, and every job would seem to have taken that long. Gives the time of this look, and how much
    /// does not count of that since the look before. All drives are judged by that one time: what passes
    /// while they are looked at counts for the next look.
    pub(crate) fn begin_look(&self) -> (Timestamp, Option<Duration>) {
        let Some(now) = self.steady() else { return (Timestamp(0), None) };
        let before = lock(&self.looked).replace(now);
        let lost = before.and_then(|before| stood_still(before, now));
        if let Some(lost) = lost {
            let nanos = u64::try_from(lost.as_nanos()).unwrap_or(u64::MAX);
            self.stood_still.fetch_add(nanos, Ordering::Relaxed);
        }
        (self.moving(now), lost)
    }

    /// The steady clock; `None` without a clock.
    pub(crate) fn steady(&self) -> Option<Duration> {
        self.clock.get().map(|clock| clock.steady())
    }

    /// Takes note of how long a cell took: each one moves the estimate of the median by a part of itself, up
    /// or down. A median stays what it is as long as fewer than half of the drives are slow.
    pub(crate) fn took(&self, group: DriveGroup, begun: Timestamp) {
        if self.clock.get().is_none() {
            return;
        }
        move_median(&self.usual(group).cell, self.now().since(begun));
    }

    fn usual(&self, group: DriveGroup) -> &Usual {
        &self.usual[usize::from(group.0).min(GROUPS_MAX)]
    }

    /// Takes note of how long a drive took for an operation, and gives how long that usually takes.
    pub(crate) fn took_for(&self, group: DriveGroup, kind: Kind, span: Duration) -> Duration {
        let [reads, appends, syncs] = &self.usual(group).of_kind;
        let usual = match kind {
            Kind::Read => reads,
            Kind::Append => appends,
            Kind::Sync => syncs,
        };
        move_median(usual, span);
        Duration::from_nanos(usual.load(Ordering::Relaxed))
    }

    /// How long to wait for a cell of a group before others stand in for it.
    pub(crate) fn hedge(&self, group: DriveGroup) -> Duration {
        match self.usual(group).cell.load(Ordering::Relaxed) {
            0 => HEDGE_DEFAULT,
            usual => Duration::from_nanos(usual.saturating_mul(HEDGE_FACTOR)).clamp(HEDGE_MIN, HEDGE_MAX),
        }
    }

    /// Puts a blob, or a small value, on the list of those to be repaired; a full list forgets, since
    /// scrubbing finds it too.
    pub(crate) fn needs_repair(&self, blob: BlobId, value: Option<(u64, u64)>) {
        let mut repairs = lock(&self.repairs);
        if repairs.len() < REPAIRS_MAX {
            repairs.insert((blob, value));
        }
        assert!(repairs.len() <= REPAIRS_MAX, "what waits for repair is bounded");
    }

    pub(crate) fn take_repairs(&self, limit: usize) -> Vec<(BlobId, Option<BlobPiece>)> {
        let mut repairs = lock(&self.repairs);
        let mut taken = Vec::new();
        while taken.len() < limit
            && let Some((blob, value)) = repairs.pop_first()
        {
            let piece =
                |(offset, length)| BlobPiece { blob, offset: ByteCount(offset), length: ByteCount(length) };
            taken.push((blob, value.map(piece)));
        }
        taken
    }

    pub(crate) fn repairs(&self) -> usize {
        lock(&self.repairs).len()
    }
}
