//! Mounts as the engine follows them: each as it goes on, on its drive's thread, and reports with the ages of
//! the queues. What is written down of a mount, the log and its figures are in `journal`.

mod ages;
mod flow;
mod report;
mod track;
mod watch;

pub use ages::{QueueAge, WaitingFor};
pub use report::TapeReport;

pub(crate) use ages::{RowsLeft, oldest_wanted};
pub(crate) use track::{MountTracker, Mounts};
