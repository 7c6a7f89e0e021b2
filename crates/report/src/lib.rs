//! What came of a run: an [`outcome`], [`stats`] of outcomes, sentences about them, and one page with
//! pictures.
//!
//! Nothing here knows how an outcome came about: the twin's runs and the replay of a server's record are told
//! of in the same way. Pure; the same outcomes give the same bytes.
//!
//! A page is one file that needs nothing else: no script, no font, nothing from elsewhere. All curves of a
//! run are those of each variant's first seed; figures with `±` are over all seeds. [`plot_page`] draws
//! curves of what was measured, and knows no run.

mod bars;
mod chart;
mod curve;
mod described;
mod differences;
mod gantt;
mod limits;
mod page;
mod plot;
mod scale;
mod style;
mod table;
mod text;
mod words;

pub mod outcome;
pub mod stats;

pub use described::{Described, Parameter};
pub use page::html;
pub use plot::{Curve, Plot, PlotPage, PlotTable, plot_page};
pub use text::{with_interval, with_unit};
pub use words::{leading, sentences};
