//! `[pool]`, `[network]` and `[path]`.

use serde::{Deserialize, Serialize};

use quantity::{Bytes, Rate, Share, Span};

/// `[pool]`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Space for files.
    pub capacity: Bytes,
    /// Files are evicted above this.
    #[serde(default = "high_water")]
    pub high_water: Share,
    /// Down to this.
    #[serde(default = "low_water")]
    pub low_water: Share,
    /// Data shards.
    #[serde(default = "data")]
    pub data: u32,
    /// Parity shards of all data.
    #[serde(default = "parity")]
    pub parity: u32,
    /// Local parity shards.
    #[serde(default)]
    pub local_parity: u32,
    /// Whether tape streams go before clients.
    #[serde(default = "yes")]
    pub tape_first: bool,
    /// What the bytes lie on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disks: Option<Disks>,
}

/// `[pool.disks]`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Disks {
    /// How many.
    pub count: u32,
    /// Of one disk, streaming.
    pub rate: Rate,
    /// A mean seek and half a turn.
    #[serde(default)]
    pub seek: Span,
    /// What a stream moves before another one has its turn.
    #[serde(default = "stream_request")]
    pub stream_request: Bytes,
    /// What a client's random access moves.
    #[serde(default = "client_request")]
    pub client_request: Bytes,
    /// Controllers: reads.
    #[serde(default = "no_limit")]
    pub read_limit: Rate,
    /// Controllers: writes.
    #[serde(default = "no_limit")]
    pub write_limit: Rate,
    /// Controllers: both.
    #[serde(default = "no_limit")]
    pub total_limit: Rate,
    /// Disk operations of a client's small write.
    #[serde(default = "one")]
    pub small_write_factor: f64,
}

/// `[network]`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// All clients together, in each direction.
    pub total: Rate,
    /// One client's stream.
    pub stream: Rate,
}

/// `[path]`.
#[derive(Clone, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataPath {
    /// Lost before each file that is read.
    pub read_file: Span,
    /// Lost before each file that is written.
    pub write_file: Span,
    /// To or from one drive.
    pub stream: Rate,
    /// To and from all drives.
    pub total: Rate,
    /// From one drive: the way back alone.
    pub read_stream: Rate,
    /// From all drives.
    pub read_total: Rate,
    /// To one drive: the way out alone.
    pub write_stream: Rate,
    /// To all drives.
    pub write_total: Rate,
}

/// A rate that nothing reaches: a petabyte a second.
pub const NO_LIMIT: Rate = Rate(1e15);

impl Default for Network {
    fn default() -> Self {
        Network { total: NO_LIMIT, stream: NO_LIMIT }
    }
}

impl Default for DataPath {
    fn default() -> Self {
        DataPath {
            read_file: Span(0),
            write_file: Span(0),
            stream: NO_LIMIT,
            total: NO_LIMIT,
            read_stream: NO_LIMIT,
            read_total: NO_LIMIT,
            write_stream: NO_LIMIT,
            write_total: NO_LIMIT,
        }
    }
}

fn no_limit() -> Rate {
    NO_LIMIT
}

fn high_water() -> Share {
    Share(0.9)
}

fn low_water() -> Share {
    Share(0.8)
}

fn data() -> u32 {
    4
}

fn parity() -> u32 {
    2
}

fn yes() -> bool {
    true
}

fn one() -> f64 {
    1.0
}

fn stream_request() -> Bytes {
    Bytes(4 << 20)
}

fn client_request() -> Bytes {
    Bytes(1 << 20)
}
