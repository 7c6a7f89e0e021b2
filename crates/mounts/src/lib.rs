//! Mounts as the engine follows them: each as it goes on, on its drive's thread, and reports with the ages of
//! the queues. What is written down of a mount, the log and its figures are in `journal`.

mod ages;
mod flow;
mod health;
mod report;
mod track;
mod watch;

pub use ages::{QueueAge, RowsLeft, WaitingFor, oldest_wanted};
pub use health::{
    Badly, HealthReport, HealthRules, Judgement, MountSample, PairHealth, Partner, Symptom, Verdict,
    VerdictReason,
};
pub use report::{TapeReport, report};
pub use track::{LastSession, MountCause, MountTracker, Mounts};
