//! The time that retentions, rules and pins go by. It is kept in the catalogue: a start goes on from the
//! newest time there, and a system's clock that is far from it is believed only if a time server or an
//! operator vouches for it ([`base::TrustedClock`] has the limits).

use std::sync::PoisonError;

use base::{Clock, Duration, Timestamp, TrustedClock};
use catalogue::Command;
use store::CatalogueStore;

use crate::Upkeep;
use ground::{ArchiveError, ClockInfo, OpenError};

/// The time is noted after so long in which nothing was written, so that a server that only runs ages too.
const NOTED_AFTER: Duration = Duration::from_secs(3_600);
/// An operator's date may be this far from the clock's, which is in UTC.
const DATE_TOLERANCE: Duration = Duration::from_secs(86_400);

/// Goes on from the newest time of the catalogue, or from the earlier one that an operator has planned.
pub fn begin(catalogue: &CatalogueStore, clock: &dyn Clock) -> Result<(), OpenError> {
    let Some(trusted) = clock.trusted() else { return Ok(()) };
    let (record, newest) = catalogue.read(|view| Ok((view.clock()?, view.newest_time()?)))?;
    let Some(newest) = newest.map(|newest| newest.max(record.noted)) else { return Ok(()) };
    match record.planned_back {
        Some(to) => {
            trusted.begin(to);
            if let Some(to) = trusted.standing().leap(Some(Duration::ZERO)) {
                trusted.leap(to);
            }
            if trusted.now() < newest {
                catalogue.execute(Command::TimeMovedBack { from: newest })?;
                tracing::warn!(from = %newest, to = %trusted.now(), "the time went back, as was planned");
            } else {
                catalogue.execute(Command::PlanTimeBack { to: None })?;
            }
        }
        None => trusted.begin(newest),
    }
    keep(catalogue, trusted, true)?;
    Ok(())
}

/// Looks at both clocks: leaps if that is plausible, and notes the time and whether it is in doubt.
fn keep(catalogue: &CatalogueStore, trusted: &TrustedClock, at_start: bool) -> Result<(), OpenError> {
    let standing = trusted.standing();
    let (clock, leaps) = catalogue.read(|view| Ok((view.clock()?, view.leaps()?)))?;
    let mut is_doubted = clock.doubted.is_some();
    if let Some(to) = standing.leap(at_start.then(|| leaps.spent(standing.trusted))) {
        if !standing.synchronised {
            catalogue.execute(Command::NoteLeap { by: to.since(standing.trusted) })?;
        }
        if is_doubted && standing.is_apart() {
            catalogue.execute(Command::MoveTimeForward { to })?;
            is_doubted = false;
        }
        trusted.leap(to);
        tracing::info!(from = %standing.trusted, %to, "the trusted time follows the system's clock again");
    }
    let standing = trusted.standing();
    let is_long_ago = |noted: Timestamp| standing.trusted.since(noted) >= NOTED_AFTER;
    let is_due = catalogue.read(|view| {
        // The newest change is only looked at if the last note does not answer.
        Ok(is_long_ago(view.clock()?.noted) && view.newest_time()?.is_none_or(is_long_ago))
    })?;
    if standing.is_doubted() != is_doubted || is_due {
        catalogue.execute(Command::NoteTime { doubted: standing.is_doubted() })?;
    }
    match (is_doubted, standing.is_doubted()) {
        (false, true) => tracing::error!("{}", apart(&standing)),
        (true, false) => tracing::info!(at = %standing.trusted, "the time is not in doubt any more"),
        _ => {}
    }
    Ok(())
}

/// What an operator is told of a system's clock that is not followed.
pub fn apart(standing: &base::TimeStanding) -> String {
    let (trusted, system) = (standing.trusted, standing.system);
    let way = if standing.ahead() > 0 {
        "if it is right: kist clock accept, with today's date; if not, set it right"
    } else {
        "if it is wrong, set it right; if the trusted time was never true: kist clock accept --back, with \
         today's date"
    };
    format!(
        "the system's clock shows {system} and is not believed: retentions, lifecycle rules and pins go by \
         the trusted time, {trusted}, which runs on evenly; {way}"
    )
}

impl Upkeep {
    /// Looks at both clocks, as long as the server runs.
    pub(crate) fn keep_time(&self) {
        let Some(trusted) = self.clock.trusted() else { return };
        let _alone = self.keeping_time.lock().unwrap_or_else(PoisonError::into_inner);
        if self.catalogue.is_writing()
            && let Err(error) = keep(&self.catalogue, trusted, false)
        {
            tracing::error!(%error, "the time cannot be noted in the catalogue");
        }
    }
}

impl Upkeep {
    /// What is known of the time.
    ///
    /// # Errors
    /// If the catalogue cannot be read; [`ArchiveError::NotOffered`] if the engine was opened on a clock that
    /// is believed as it is.
    pub fn clock_info(&self) -> Result<ClockInfo, ArchiveError> {
        let upkeep = self;
        let standing = upkeep.clock.trusted().ok_or(NO_TRUSTED_TIME)?.standing();
        let record = upkeep.read(|view| view.clock())?;
        Ok(ClockInfo {
            standing,
            doubted: record.doubted,
            planned_back: record.planned_back,
            moves: record.moves,
        })
    }

    /// An operator vouches for the system's clock, by naming today's date. If it is ahead, the trusted time
    /// is the system's at once. If it is behind, the trusted time goes back at the next start, which only
    /// `back` allows: it makes retentions last longer and destroys nothing. Durable on return.
    ///
    /// # Errors
    /// [`ArchiveError::OtherDate`] if the system's clock shows another day; [`ArchiveError::ClockBehind`];
    /// [`ArchiveError::NotOffered`] as [`Upkeep::clock_info`].
    pub fn accept_time(&self, today: Timestamp, back: bool) -> Result<ClockInfo, ArchiveError> {
        let upkeep = self;
        let trusted = upkeep.clock.trusted().ok_or(NO_TRUSTED_TIME)?;
        {
            let _alone = upkeep.keeping_time.lock().unwrap_or_else(PoisonError::into_inner);
            let standing = trusted.standing();
            let system = standing.system;
            if system < Timestamp(today.0.saturating_sub(nanos(DATE_TOLERANCE)))
                || system >= today.plus(2 * DATE_TOLERANCE)
            {
                return Err(ArchiveError::OtherDate { system, today });
            }
            if standing.is_apart() && standing.ahead() < 0 {
                if !back {
                    return Err(ArchiveError::ClockBehind { system, trusted: standing.trusted });
                }
                upkeep.execute(Command::PlanTimeBack { to: Some(system) })?;
                tracing::warn!(to = %system, "the trusted time goes back at the next start");
            } else if standing.is_apart() {
                upkeep.execute(Command::MoveTimeForward { to: system })?;
                trusted.leap(system);
                tracing::warn!(from = %standing.trusted, to = %system, "an operator moved the time forward");
            } else if upkeep.read(|view| view.clock())?.planned_back.is_some() {
                upkeep.execute(Command::PlanTimeBack { to: None })?;
            }
        }
        upkeep.keep_time();
        upkeep.lifecycle.ring();
        upkeep.sweep.ring();
        self.clock_info()
    }
}

const NO_TRUSTED_TIME: ArchiveError = ArchiveError::NotOffered("a trusted time");

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}
