//! One mount, as far as it tells how well drive and tape are.

use base::{ByteCount, Duration, Timestamp, Vid};
use journal::{CounterRecord, ErrorRecord, MountKind, MountRecord, OrderRecord, ProductRecord};
use library::TapeAlert;

/// The rate of a mount counts from so many bytes written on: below, starting and stopping make most of it.
const RATED_FROM: u64 = 100_000_000;

/// One mount that is over.
#[derive(Clone, PartialEq, Debug)]
pub struct MountSample {
    /// The drive.
    pub drive: String,
    /// The tape.
    pub vid: Vid,
    /// When it was over.
    pub ended: Timestamp,
    /// What the tape was mounted for.
    pub kind: MountKind,
    /// What the drive is, if it tells.
    pub product: Option<ProductRecord>,
    /// What the drive counted, if it tells.
    pub counted: Option<CounterRecord>,
    /// Bytes of blocks read and written.
    pub bytes: ByteCount,
    /// Bytes a second while it was written, if that was much.
    pub write_rate: Option<f64>,
    /// Whose order was read, if the drive has one of its own.
    pub order: Option<OrderRecord>,
    /// TapeAlert flags that the drive raised.
    pub alerts: Vec<TapeAlert>,
    /// Why the mount failed, if it did.
    pub failed: Option<String>,
}

impl MountSample {
    /// `None` if the tape never came into the drive.
    #[must_use]
    pub fn of(record: &MountRecord) -> Option<Self> {
        record.loaded?;
        let bytes = record.read.0.saturating_add(record.written.0);
        Some(MountSample {
            drive: record.drive.clone(),
            vid: record.vid,
            ended: record.newest(),
            kind: record.kind,
            product: record.product.clone(),
            counted: record.counted,
            bytes: ByteCount(bytes),
            write_rate: write_rate(record),
            order: record.order,
            alerts: record.alerts.iter().copied().map(TapeAlert).collect(),
            failed: record.failed.clone(),
        })
    }

    /// Errors that the drive corrected, or the tries that this took.
    #[must_use]
    pub fn corrected(&self) -> Option<u64> {
        self.sum(|errors| errors.corrected.or(errors.retries))
    }

    /// Errors that the drive could not correct.
    #[must_use]
    pub fn uncorrected(&self) -> Option<u64> {
        self.sum(|errors| errors.uncorrected)
    }

    /// Of both directions; `None` if neither is told.
    fn sum(&self, of: impl Fn(&ErrorRecord) -> Option<u64>) -> Option<u64> {
        let counted = self.counted.as_ref()?;
        [of(&counted.writing), of(&counted.reading)].into_iter().flatten().reduce(u64::saturating_add)
    }
}

/// Only sessions that write say how fast a drive is: what is read in small pieces is read slowly everywhere.
fn write_rate(record: &MountRecord) -> Option<f64> {
    let (mut bytes, mut moving) = (0_u64, Duration::ZERO);
    for session in record.sessions.iter().filter(|session| session.kind == MountKind::Migrate) {
        bytes = bytes.saturating_add(session.written.0);
        moving = moving.saturating_add(session.moving);
    }
    (bytes >= RATED_FROM && !moving.is_zero()).then(|| bytes as f64 / moving.as_secs_f64())
}
