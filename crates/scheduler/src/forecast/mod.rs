//! When what waits will be done: the scheduler itself is run forward in virtual time on a summary of its own
//! state, and what comes of that is made a range by how such forecasts turned out before.

mod calibration;
mod expected;
mod forecaster;
mod pace;
mod summary;
mod world;

pub use calibration::{Nominal, Subject};
pub use expected::{Expected, Forecast, RequestForecast, TimeRange};
pub use forecaster::Forecaster;
pub use pace::Pace;
pub use summary::{Outlook, Summary};
pub use world::{FORECAST_HORIZON, FORECAST_STEPS_MAX};
