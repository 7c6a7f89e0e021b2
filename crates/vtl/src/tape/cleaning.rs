//! A drive gets dirty, asks to be cleaned, and cleans itself with the cartridge that the robot puts in
//! (SSC-5, annex A: flags 11, 20 to 23; 2/30/03 while it cleans).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::{ByteCount, Vid};
use library::{LibraryError, TapeAlert};
use scsi::command::{Primary, Stream};
use scsi::log::TapeAlerts;
use scsi::{Command, SenseKey};

use super::Drive;
use crate::answer::Refusal;
use crate::target::Shared;

/// The library is given so long for a cleaning.
const CLEANED_WITHIN: Duration = Duration::from_secs(3600);

/// What passed through a drive since it was cleaned.
#[derive(Default)]
pub struct Wear {
    /// It asks after so much; `None`: never.
    asks_after: Option<ByteCount>,
    passed: u64,
    /// The flag that it has raised since the last load.
    raised: Option<TapeAlert>,
}

impl Wear {
    pub fn new(asks_after: Option<ByteCount>) -> Wear {
        Wear { asks_after, ..Wear::default() }
    }

    pub fn pass(&mut self, bytes: usize) {
        self.passed = self.passed.saturating_add(bytes as u64);
    }

    /// A cartridge was loaded: the drive says again what it asks for.
    pub fn since_load(&mut self) {
        self.raised = None;
    }

    /// What it asks for: 21 (clean periodic), after twice as much 20 (clean now).
    pub fn asks(&self) -> Option<TapeAlert> {
        let asks_after = self.asks_after?.0;
        match self.passed {
            passed if passed >= asks_after.saturating_mul(2) => Some(TapeAlert::CLEAN_NOW),
            passed if passed >= asks_after => Some(TapeAlert::CLEAN_PERIODIC),
            _ => None,
        }
    }

    /// With the flag for that, raised once a load.
    pub fn with_flag(&mut self, alerts: TapeAlerts) -> TapeAlerts {
        let asks = self.asks();
        if self.raised == asks {
            return alerts;
        }
        self.raised = asks;
        asks.map_or(alerts, |flag| alerts.with(flag.0))
    }

    fn cleaned(&mut self) {
        (self.passed, self.raised) = (0, None);
    }
}

/// What a cleaning cartridge does in the drive; when it has done, the drive has pushed it out.
#[derive(Clone, Copy)]
enum InDrive {
    Cleans {
        until: Instant,
    },
    /// It was not cleaned, and keeps what is in it until the robot comes.
    Failed,
}

/// The cleaning cartridge in a drive. Its lock is held for moments.
#[derive(Default)]
pub struct Cleaning(Mutex<Option<InDrive>>);

impl Cleaning {
    fn state(&self) -> MutexGuard<'_, Option<InDrive>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Option<InDrive> {
        let mut state = self.state();
        if let Some(InDrive::Cleans { until }) = *state
            && until <= Instant::now()
        {
            *state = None;
        }
        *state
    }

    /// The robot does not get at the cartridge.
    pub fn is_under_way(&self) -> bool {
        matches!(self.now(), Some(InDrive::Cleans { .. }))
    }

    /// The robot takes it.
    pub fn taken(&self) {
        *self.state() = None;
    }

    /// What the drive says to commands that need a tape.
    pub fn refusal(&self, command: &Command) -> Option<Refusal> {
        let needs_tape = match command {
            Command::Primary(primary) => matches!(primary, Primary::TestUnitReady),
            Command::Stream(Stream::LoadUnload { load, .. }) => *load || self.is_under_way(),
            Command::Stream(Stream::ReadBlockLimits { .. } | Stream::ReportDensitySupport { .. }) => false,
            Command::Stream(_) => true,
            Command::Changer(_) => false,
        };
        let qualifier = match self.now().filter(|_| needs_tape)? {
            InDrive::Cleans { .. } => 0x03,
            InDrive::Failed => 0x07,
        };
        Some(Refusal::new(SenseKey::NotReady, 0x30, qualifier))
    }
}

impl Drive {
    /// The robot puts a cleaning cartridge in: the library cleans its drive, and this one looks as dirty, or
    /// clean, as that. Flags tell what came of it.
    pub fn clean(&self, shared: &Shared, vid: Vid) -> Result<(), LibraryError> {
        let mut tape = self.lock();
        let cleaned = self.moving(|| shared.library.clean(vid, &self.name, CLEANED_WITHIN));
        let (raised, is_failed) = match cleaned {
            Ok(alerts) | Err(LibraryError::CleanerStays { alerts, .. }) => (alerts, false),
            Err(LibraryError::NotCleaned { .. }) => (Vec::new(), true),
            Err(error) => return Err(error),
        };
        // What it had asked for before is over. If it cannot be asked, that comes with the next question.
        let _ = tape.gather_alerts();
        let is_spent = raised
            .iter()
            .any(|alert| [TapeAlert::CLEANER_USED_UP, TapeAlert::CLEANER_INVALID].contains(alert));
        let moved = &mut tape.moved;
        if !is_spent && !is_failed {
            moved.wear.cleaned();
            let asked = [TapeAlert::CLEAN_NOW, TapeAlert::CLEAN_PERIODIC];
            let others = moved.alerts.flags().filter(|flag| !asked.contains(&TapeAlert(*flag)));
            moved.alerts = others.fold(TapeAlerts::default(), TapeAlerts::with);
        }
        moved.alerts = raised.iter().fold(moved.alerts, |all, alert| all.with(alert.0));
        moved.alerts = moved.alerts.with(TapeAlert::CLEANING_MEDIUM.0);
        *self.cleaning.state() = match (is_failed, is_spent) {
            (true, _) => Some(InDrive::Failed),
            // It is pushed out at once.
            (false, true) => None,
            (false, false) => Some(InDrive::Cleans { until: Instant::now() + shared.options.cleaning_time }),
        };
        Ok(())
    }
}
