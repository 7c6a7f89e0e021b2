//! The access log as the engine writes it: what is handed over, the thread that looks up what the catalogue
//! knows and writes lines, the state that begins a file. Lines, files, queue and analysis are in `journal`.

mod report;
mod state;
mod write;

pub use report::UsageReading;

pub(crate) use write::run;
