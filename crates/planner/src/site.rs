//! A site as its file describes it.

use serde::Deserialize;

use super::workload::{ClassWorkload, FileKind};
use quantity::{Bytes, Count, Power, Rate, Share, Span};

/// Largest figure of a daily flow, in bytes: above any site, and far from where arithmetic ends.
pub(super) const PER_DAY_MAX: f64 = 1e24;

/// A site: its workload, machines and prices. Every part may be left out; the plan then lacks what needs it.
#[derive(Clone, PartialEq, Debug)]
pub struct Site {
    /// Its name.
    pub name: String,
    /// What users do, by storage class.
    pub classes: Vec<ClassWorkload>,
    /// Drives, media and libraries.
    pub tape: Option<Tape>,
    /// How the pool is laid out.
    pub pool: Option<Pool>,
    /// What the pool is made of.
    pub servers: Vec<Server>,
    /// Watts of each part.
    pub power: Option<PowerOf>,
    /// Prices of each part.
    pub price: Option<Price>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SiteFile {
    pub name: String,
    #[serde(default)]
    pub class: Vec<ClassFile>,
    pub tape: Option<Tape>,
    pub pool: Option<Pool>,
    #[serde(default)]
    pub server: Vec<Server>,
    pub power: Option<PowerOf>,
    pub price: Option<Price>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClassFile {
    pub name: String,
    #[serde(default)]
    pub written: Rate,
    #[serde(default)]
    pub read: Rate,
    #[serde(default)]
    pub hit_rate: Share,
    pub mean_file: Bytes,
    #[serde(default = "one")]
    pub peak: f64,
    #[serde(default)]
    pub stored: Bytes,
    #[serde(default = "two")]
    pub copies: u32,
    #[serde(default = "thirty")]
    pub files_per_mount: f64,
    pub written_per_mount: Option<Bytes>,
    pub recall_unit: Option<Bytes>,
    #[serde(default = "all")]
    pub wanted_share: Share,
    pub residency: Option<Span>,
    pub cache: Option<Bytes>,
    pub files: Option<FileKind>,
}

/// In which order a mounted tape is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Reading {
    /// As Kist's scheduler plans it.
    #[default]
    Planned,
    /// Nearest first.
    Nearest,
    /// By block.
    Block,
    /// As requests came: any order.
    Arrival,
}

/// `[tape]`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tape {
    /// The drive's model, as `kist plan mechanics` lists them.
    pub drive: String,
    /// The medium; nothing: the drive's own.
    pub medium: Option<String>,
    /// Drives that are there.
    pub drives: Option<Count>,
    /// Rate of writing, in place of the model's.
    pub write_rate: Option<Rate>,
    /// Rate of reading, in place of the model's.
    pub read_rate: Option<Rate>,
    /// The share of a drive's time in use in which data move, in place of what mechanics and order give.
    pub useful: Option<Share>,
    /// Whether one class may use another's drives.
    #[serde(default = "yes")]
    pub share_drives: bool,
    /// The order of reading.
    #[serde(default)]
    pub order: Reading,
    /// Bytes between two synchronous flushes of writing.
    #[serde(default = "flush_every")]
    pub flush_every: Bytes,
    /// The library's model.
    #[serde(default = "generic")]
    pub library: String,
    /// Such libraries.
    #[serde(default = "one_of")]
    pub libraries: Count,
    /// Robots of one library, in place of the model's.
    pub robots: Option<Count>,
    /// Cartridges that are there.
    pub cartridges: Option<Count>,
    /// How full tapes get: ends of tapes, and what users deleted.
    #[serde(default = "tape_fill")]
    pub fill: Share,
}

/// `[pool]`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Shards of a stripe, as `12+4`.
    #[serde(default = "layout")]
    pub layout: String,
    /// How full the pool may get.
    #[serde(default = "pool_fill")]
    pub fill: Share,
    /// Bytes that users read or write on a disk in one go.
    #[serde(default = "client_request")]
    pub client_request: Bytes,
    /// Bytes that tape streams read or write on a disk in one go.
    #[serde(default = "stream_run")]
    pub stream_run: Bytes,
    /// Reads of each archived byte while it goes to tape; nothing: one for each copy.
    pub migration_reads: Option<f64>,
    /// Measured rate of reading while `write_rate` goes on, in place of what the disks come to.
    pub read_rate: Option<Rate>,
    /// Measured rate of writing beside it.
    pub write_rate: Option<Rate>,
    /// Failures per disk and year.
    #[serde(default = "afr")]
    pub afr: Share,
    /// The share of each disk's rate that a rebuild gets.
    #[serde(default = "half")]
    pub rebuild_share: Share,
    /// Between two scrubs of a disk.
    #[serde(default = "scrub")]
    pub scrub: Span,
}

/// How the disks of a JBOD hang on the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Attach {
    /// By SAS, behind a host adapter in a slot.
    #[default]
    Sas,
    /// NVMe, each disk with lanes of its own, behind a slot or switch.
    Nvme,
}

/// `[[server]]`.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// Servers like it.
    #[serde(default = "one_of")]
    pub count: Count,
    /// What its network carries, one way.
    pub network: Option<Rate>,
    /// What its processor encodes and checksums.
    pub erasure_rate: Option<Rate>,
    /// What its memory bears of pool traffic: a third of its rate, say, as a byte passes about three times.
    pub memory_rate: Option<Rate>,
    /// Its host adapters with the JBODs behind each.
    #[serde(default)]
    pub jbod: Vec<Jbod>,
}

/// `[[server.jbod]]`: a host adapter and the JBODs behind it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jbod {
    /// Its name.
    pub name: String,
    /// Adapters like it in the server.
    #[serde(default = "one_of")]
    pub count: Count,
    /// JBODs behind one adapter.
    #[serde(default = "one_of")]
    pub chained: Count,
    /// Disks in one JBOD.
    pub disks: Count,
    /// Sequential bytes per second of a disk.
    pub disk_rate: Rate,
    /// Bytes on a disk.
    pub disk_size: Option<Bytes>,
    /// A seek with half a turn; 0 for flash.
    #[serde(default)]
    pub disk_seek: Span,
    /// SAS or NVMe.
    #[serde(default)]
    pub attach: Attach,
    /// SAS: lanes of the adapter's ports together. NVMe: lanes of each disk.
    #[serde(default = "lanes")]
    pub lanes: Count,
    /// SAS: raw rate of a lane, `"12Gb/s"`.
    #[serde(default = "lane_rate")]
    pub lane_rate: Rate,
    /// Generation of PCI Express, 1 to 5.
    #[serde(default = "three")]
    pub pcie: u32,
    /// Lanes of the slot.
    #[serde(default = "lanes")]
    pub pcie_lanes: Count,
    /// What the adapter itself can do.
    pub adapter_rate: Option<Rate>,
}

/// `[power]`: watts of each part, at work.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerOf {
    /// A disk.
    #[serde(default)]
    pub disk: Power,
    /// A JBOD without its disks.
    #[serde(default)]
    pub jbod: Power,
    /// A server.
    #[serde(default)]
    pub server: Power,
    /// A tape drive.
    #[serde(default)]
    pub drive: Power,
    /// A library without its drives.
    #[serde(default)]
    pub library: Power,
    /// Power of the building by power of the machines; at least 1.
    #[serde(default = "one")]
    pub pue: f64,
}

/// `[price]`: in one currency.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Its name, for people.
    pub currency: String,
    /// A disk.
    #[serde(default)]
    pub disk: f64,
    /// A JBOD without its disks.
    #[serde(default)]
    pub jbod: f64,
    /// A server.
    #[serde(default)]
    pub server: f64,
    /// A tape drive.
    #[serde(default)]
    pub drive: f64,
    /// A library without drives.
    #[serde(default)]
    pub library: f64,
    /// A cartridge.
    #[serde(default)]
    pub cartridge: f64,
    /// A kilowatt-hour.
    #[serde(default)]
    pub kwh: f64,
    /// Years that the machines serve.
    #[serde(default = "five")]
    pub years: f64,
}

fn one() -> f64 {
    1.0
}

fn two() -> u32 {
    2
}

fn three() -> u32 {
    3
}

fn five() -> f64 {
    5.0
}

fn thirty() -> f64 {
    30.0
}

fn yes() -> bool {
    true
}

fn all() -> Share {
    Share(1.0)
}

fn half() -> Share {
    Share(0.5)
}

fn afr() -> Share {
    Share(0.0136)
}

fn pool_fill() -> Share {
    Share(0.9)
}

fn tape_fill() -> Share {
    Share(0.95)
}

fn one_of() -> Count {
    Count(1)
}

fn lanes() -> Count {
    Count(8)
}

fn lane_rate() -> Rate {
    Rate(1.5e9)
}

fn flush_every() -> Bytes {
    Bytes(32_000_000_000)
}

fn client_request() -> Bytes {
    Bytes(1 << 20)
}

fn stream_run() -> Bytes {
    Bytes(64 << 20)
}

fn scrub() -> Span {
    Span(14 * 86_400_000_000)
}

fn generic() -> String {
    "generic".to_owned()
}

fn layout() -> String {
    "12+4".to_owned()
}
