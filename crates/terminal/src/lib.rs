//! What a command says, to people and to programs: [`text`]s and tables, progress, [`output`] as lines or
//! JSON, and failures, each with an exit code that scripts can rely on.
//!
//! Data goes to standard output, everything else to standard error. Nothing here knows a server.

// Both panic when nobody reads; see `output`.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod failure;
mod progress;
mod table;

pub mod output;
pub mod parallel;
pub mod text;

pub use failure::{EXIT_CODES, Exit, Failure, Outcome};
pub use output::Style;
pub use progress::Progress;
pub use table::{Align, Table, one_line};
