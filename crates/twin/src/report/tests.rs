//! Pages from made-up outcomes, also from strange ones.

use super::*;
use crate::meter::{End, Level, Meter};
use crate::moment::Moment;
use crate::outcome::{DriveActivity, Outcome};
use base::Duration;
use durability::SplitMix;
