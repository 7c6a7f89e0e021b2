//! The doors: HTTP data and admin interfaces. `docs/reference/http-api.md` describes what they say.

mod admin;
mod audit;
mod auth;
mod convert;
mod data;
mod engine;
mod foresee;
mod get;
mod guard;
mod headers;
mod json;
mod limits;
mod parameters;
mod percent;
mod problem;
pub mod protection;
mod put;
mod rate;
mod report;
mod router;
mod seam;
mod server;
mod shared;
mod stream;
mod tapes;
mod unread;
mod upkeep;
pub mod wire;
mod wire_forecast;
mod wire_report;
mod wire_tapes;

pub use limits::Limits;
pub use seam::{Download, Engine, Upload};
pub use server::{BindError, Door, DoorSettings, KeyEntry, ServeError, bind, run, serve};
