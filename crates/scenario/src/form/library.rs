//! `[library.NAME]`.

use serde::{Deserialize, Serialize};

use super::OneOrMore;
use quantity::{Bytes, Percent, Rate, Span};

/// `[library.NAME]`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Library {
    /// The library's model.
    #[serde(default = "generic")]
    pub robot: String,
    /// Robots, if not as many as the model has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub robots: Option<u32>,
    /// A move, if not as long as the model's.
    #[serde(default, rename = "move", skip_serializing_if = "Option::is_none")]
    pub move_one: Option<Span>,
    /// The drives.
    pub drives: OneOrMore<Drives>,
    /// What all cartridges are, if not what the first drives are made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<String>,
    /// Bytes until a cartridge is full, if not what LTFS has room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Bytes>,
    /// Scratch tapes.
    #[serde(default)]
    pub scratch: u32,
    /// Labels and index at a mount.
    #[serde(default)]
    pub mount_extra: Span,
    /// What a mount costs against one elsewhere.
    #[serde(default = "all")]
    pub mount_cost_percent: u32,
}

/// An item of `drives`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Drives {
    /// Their model.
    pub model: String,
    /// How many.
    pub count: u32,
    /// Streaming, if not as the model; and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The slowest rate to which they match their speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_rate: Option<Rate>,
    /// Their own buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Bytes>,
    /// From insertion to ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Span>,
    /// From the load point to ejected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unload: Option<Span>,
    /// The fixed part of a rewind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewind: Option<Span>,
    /// A synchronous flush.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flush: Option<Span>,
    /// Stop, back up, and start again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backhitch: Option<Span>,
    /// All locates are so much longer, or shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locate_factor: Option<Percent>,
    /// Rewinds are wound so much longer, or shorter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rewind_factor: Option<Percent>,
    /// Terms of a locate, if not as the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locate: Option<Locate>,
}

/// Terms of a locate.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Locate {
    /// Any locate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Span>,
    /// Another wrap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wrap_change: Option<Span>,
    /// Another band.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub band_change: Option<Span>,
    /// A wrap of the other direction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction_change: Option<Span>,
    /// The same wrap, behind the head.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_back: Option<Span>,
    /// No locate takes less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least: Option<Span>,
}

fn generic() -> String {
    "generic".to_owned()
}

fn all() -> u32 {
    100
}
