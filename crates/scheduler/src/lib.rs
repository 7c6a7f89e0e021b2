//! What to mount, write and read next, and why everything else waits.
//!
//! Pure: time and events come in, actions go out. The same code runs in the daemon and in the twin.

mod census;
#[cfg(test)]
mod census_tests;
mod cleaning;
mod decide;
mod drive;
mod event;
mod failures;
mod forecast;
mod kind;
mod load;
mod maintenance;
mod migration;
mod pick;
mod policy;
mod reason;
mod recall;
mod scheduler;
mod seal;
mod service;
mod share;
mod why;
mod why_drive;
mod worth;

pub use cleaning::{
    CLEAN_AGAIN_AFTER, CLEAN_IDLE_MAX, CleaningBar, CleaningDue, CleaningEnd, CleaningUrgency, UNCLEANED_REST,
};
pub use drive::{DriveState, Purpose};
pub use event::{Action, Backlog, Event, Failure, SessionEnd, TapeSummary};
pub use failures::{
    ASIDE_REST_MAX, ASIDE_RESTS, DRIVE_FAILURES_MAX, DRIVE_REST_MAX, DRIVE_SUSPECTS_MAX, HOST_REST_MAX,
    SUSPECT_FAILURES_MAX, TAPE_FAILURES_MAX, spares_what_dropped_out, suspects_tape, tape_retry,
};
pub use forecast::{
    Expected, FORECAST_HORIZON, FORECAST_STEPS_MAX, Forecast, Forecaster, Nominal, Outlook, Pace,
    RequestForecast, Subject, Summary, TimeRange,
};
pub use policy::{
    ClassPolicy, LibraryPolicy, PRIORITY_MAX, Policy, STARVATION, SharePolicy, SidePolicy, TapePoolPolicy,
};
pub use reason::{REACH_IT, Reason, ShortRoom};
pub use recall::{COPIES_MAX, JOIN_MAX, WantedFile, WantedGroup, WantedOfShare};
pub use scheduler::Scheduler;

/// A tape drive's name.
pub type DriveName = String;
