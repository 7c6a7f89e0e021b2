//! What to mount, write and read next, and why everything else waits.
//!
//! Pure: time and events come in, actions go out. The same code runs in the daemon and in the twin.

mod chores;
mod decide;
mod drive;
mod event;
mod forecast;
mod kind;
mod migration;
mod policy;
mod reason;
mod recall;
mod scheduler;
mod seal;
mod why;
mod why_drive;

pub use chores::DRIVE_REST_MAX;
pub use drive::{DriveState, Purpose};
pub use event::{Action, Backlog, Event, SessionEnd, TapeSummary};
pub use forecast::{
    Expected, FORECAST_HORIZON, FORECAST_STEPS_MAX, Forecast, Forecaster, Nominal, Outlook, Pace,
    RequestForecast, Subject, Summary, TimeRange,
};
pub use policy::{ClassPolicy, Policy, TapePoolPolicy};
pub use reason::Reason;
pub use recall::{COPIES_MAX, STARVATION, WantedGroup};
pub use scheduler::Scheduler;

/// A tape drive's name.
pub type DriveName = String;
