//! The tables and keys of `kist.toml`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use archive::ChangeLogSettings;
use base::StripeCode;
use drive::DriveIo;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::identity::Identity;
use super::s3::S3;
use super::server::Server;
use super::tape_rest::TapeRest;
use super::third_party_copy::ThirdPartyCopy;
use super::value::{Percent, Residency, Size, Span};
use super::xrootd::Xrootd;

/// The file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The format of this file.
    pub format: Spanned<u32>,
    /// The server.
    pub server: Server,
    /// Whose tokens and certificates are taken.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub identity: Identity,
    /// What S3's names stand for.
    #[serde(default)]
    pub s3: S3,
    /// Which other servers files may be copied from and to.
    #[serde(default)]
    pub third_party_copy: ThirdPartyCopy,
    /// What the Tape REST API says of the site.
    #[serde(default)]
    pub tape_rest: TapeRest,
    /// The socket for the plugins of an XRootD server; there is none without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xrootd: Option<Xrootd>,
    /// The catalogue.
    pub catalogue: Catalogue,
    /// The backup of the catalogue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<Backup>,
    /// The disk pool.
    pub pool: Pool,
    /// The tape library.
    pub library: Library,
    /// Further libraries, here or at other sites.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub more_libraries: Vec<Library>,
    /// How tapes are written and read.
    pub tape: Tape,
    /// Tape pools.
    pub tape_pools: Vec<TapePool>,
    /// Storage classes.
    pub classes: Vec<Class>,
}

fn is_usual(identity: &Identity) -> bool {
    identity.issuers.is_empty() && identity.certificates.is_empty()
}

/// `[catalogue]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// Its directory.
    pub directory: PathBuf,
    /// The most that it can grow to.
    pub map_size: Spanned<Size>,
    /// A request is forgotten so long after it has ended.
    #[serde(default = "requests_kept")]
    pub requests_kept: Span,
    /// Of many requests so many are kept, the newest.
    #[serde(default = "requests_kept_max")]
    pub requests_kept_max: u64,
    /// A tape of each pool gets a base of the catalogue after so many changes; 0: never.
    #[serde(default = "base_changes")]
    pub base_changes: u64,
    /// And if the log is at least so large, in percent of the rest of the catalogue.
    #[serde(default = "base_log_percent")]
    pub base_log_percent: u64,
    /// So many of the newest changes stay in the log, whatever tapes have.
    #[serde(default = "keep_changes")]
    pub keep_changes: u64,
    /// And those that are not older than this.
    #[serde(default = "keep_age")]
    pub keep_age: Span,
}

/// `[backup]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    /// Its directory.
    pub directory: PathBuf,
    /// Ship new changes so often.
    #[serde(default = "ship_every")]
    pub ship_every: Span,
    /// Take a snapshot so often.
    #[serde(default = "snapshot_every")]
    pub snapshot_every: Span,
    /// Keep so many snapshots.
    #[serde(default = "keep_snapshots")]
    pub keep_snapshots: Spanned<usize>,
}

fn ship_every() -> Span {
    Span(std::time::Duration::from_secs(10))
}

fn snapshot_every() -> Span {
    Span(std::time::Duration::from_secs(86_400))
}

fn drive_io() -> Spanned<String> {
    Spanned::new(0..0, DriveIo::Auto.to_string())
}

fn no_local_parity() -> Spanned<u8> {
    Spanned::new(0..0, 0)
}

fn keep_snapshots() -> Spanned<usize> {
    Spanned::new(0..0, 7)
}

/// `[pool]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Data shards.
    pub data: Spanned<u8>,
    /// Parity shards of all data.
    pub parity: Spanned<u8>,
    /// Local parity shards, one for each of as many groups of the data shards.
    #[serde(default = "no_local_parity")]
    pub local_parity: Spanned<u8>,
    /// Memory for buffers.
    pub arena: Spanned<Size>,
    /// How the drives are read and written; `auto`, `threads` or `uring`.
    #[serde(default = "drive_io")]
    pub io: Spanned<String>,
    /// In so many days all of the pool is read and checked once.
    #[serde(default = "scrub_days")]
    pub scrub_days: Spanned<u32>,
    /// What a missing drive held is rebuilt on the others after this time.
    #[serde(default = "rebuild_after")]
    pub rebuild_after: Span,
    /// What is done when a disk foretells its failure.
    #[serde(default)]
    pub predicted_failure: PredictedFailure,
    /// What takes the place of a lost drive by itself.
    #[serde(default)]
    pub replace: Replace,
    /// How far a disk is burnt in before it takes the place of a lost one by itself.
    #[serde(default)]
    pub replace_burn_in: ReplaceBurnIn,
    /// The light of a slot is on while its disk is to be pulled.
    #[serde(default)]
    pub lights: bool,
    /// What nothing in the catalogue names stays on the drives for this time after it was found.
    #[serde(default = "unknown_kept")]
    pub unknown_kept: Span,
    /// Files leave it by themselves when it is fuller than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high_water: Option<Spanned<Percent>>,
    /// They leave down to this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_water: Option<Spanned<Percent>>,
    /// Groups of drives that hold what classes give them, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub groups: BTreeMap<Spanned<String>, Group>,
    /// The drives.
    pub drives: Vec<PoolDrive>,
}

impl Pool {
    /// The code of new stripes, possible or not.
    pub fn code(&self) -> StripeCode {
        code_of(&self.data, &self.local_parity, &self.parity)
    }
}

fn code_of(data: &Spanned<u8>, local: &Spanned<u8>, global: &Spanned<u8>) -> StripeCode {
    StripeCode { data: *data.get_ref(), local: *local.get_ref(), global: *global.get_ref() }
}

/// `[pool.groups.NAME]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Data shards of what it gets.
    pub data: Spanned<u8>,
    /// Parity shards of all data.
    pub parity: Spanned<u8>,
    /// Local parity shards.
    #[serde(default = "no_local_parity")]
    pub local_parity: Spanned<u8>,
    /// What was not used for longest moves to the drives in no group when it is fuller than this.
    #[serde(default = "group_high")]
    pub high_water: Spanned<Percent>,
    /// It moves down to this.
    #[serde(default = "group_low")]
    pub low_water: Spanned<Percent>,
}

impl Group {
    /// The code of what it gets, possible or not.
    pub fn code(&self) -> StripeCode {
        code_of(&self.data, &self.local_parity, &self.parity)
    }
}

fn group_high() -> Spanned<Percent> {
    Spanned::new(0..0, Percent(90))
}

fn group_low() -> Spanned<Percent> {
    Spanned::new(0..0, Percent(80))
}

/// What is done when a disk foretells its failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PredictedFailure {
    /// It is told.
    #[default]
    Tell,
    /// Its drive is emptied onto the others.
    Drain,
}

/// What takes the place of a lost drive by itself: a disk in its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replace {
    /// Nothing.
    #[default]
    No,
    /// An empty file system that is mounted at its directory.
    Mounted,
    /// A blank disk besides, on which a file system is made.
    Blank,
}

/// How far a disk is burnt in before it takes the place of a lost one by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReplaceBurnIn {
    /// Not at all.
    Off,
    /// 8 GiB of it: some minutes.
    #[default]
    Quick,
    /// All of it: two days for 20 TB.
    Full,
}

/// `[[pool.drives]]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolDrive {
    /// Its number.
    pub id: Spanned<u16>,
    /// Its directory.
    pub path: Spanned<PathBuf>,
    /// The machine that it stands in, where its path does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its failure domain.
    #[serde(default)]
    pub enclosure: String,
    /// The group that it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Spanned<String>>,
}

/// `[library]` and `[[more_libraries]]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Library {
    /// Its name, by which tape pools ask for it.
    #[serde(default = "library_name")]
    pub name: Spanned<String>,
    /// Where it stands.
    #[serde(default)]
    pub site: String,
    /// What it is; `virtual` or `scsi`.
    pub kind: LibraryKind,
    /// Where the cartridges of a virtual one lie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// The changer of a scsi one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changer: Option<Spanned<String>>,
    /// Tape drives: how many, or those of a scsi one by their serial numbers.
    pub drives: Spanned<Drives>,
    /// Addresses of the slots and doors of a scsi one that belong to this instance; all if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<Vec<Spanned<String>>>,
    /// What a cartridge of a scsi one holds whose label does not say what medium it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cartridge_capacity: Option<Spanned<Size>>,
    /// Portals at which changer and drives of a scsi one are looked for, beside the changer's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub portals: Vec<Spanned<String>>,
    /// Who asks there; a name made of this machine's if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initiator: Option<Spanned<String>>,
    /// How this machine proves there who it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chap: Option<Chap>,
    /// What a mount costs against one elsewhere, in percent.
    #[serde(default = "mount_cost_percent")]
    pub mount_cost_percent: Spanned<u32>,
    /// Whose time its machines take; nobody's if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
}

impl Library {
    /// How many tape drives it has.
    pub fn drive_count(&self) -> u16 {
        match self.drives.get_ref() {
            Drives::Count(count) => *count,
            Drives::Serials(all) => u16::try_from(all.len()).unwrap_or(u16::MAX),
        }
    }
}

/// The drives of a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Drives {
    /// So many; of a changer, its first ones.
    Count(u16),
    /// Those of a changer with these serial numbers.
    Serials(Vec<String>),
}

/// `[library.chap]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chap {
    /// The name.
    pub user: String,
    /// The file of the secret.
    pub secret_file: PathBuf,
}

fn mount_cost_percent() -> Spanned<u32> {
    Spanned::new(0..0, 100)
}

fn library_name() -> Spanned<String> {
    Spanned::new(0..0, "library".to_owned())
}

/// How far apart the copies of a class are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Apart {
    /// In different libraries.
    Library,
    /// At different sites.
    Site,
}

/// `[library.timing]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// The model of the drives.
    pub drive: Spanned<String>,
    /// So many times as fast.
    #[serde(default = "real_time")]
    pub scale: Spanned<f64>,
    /// Robots.
    #[serde(default = "one_robot")]
    pub robots: Spanned<u16>,
}

fn real_time() -> Spanned<f64> {
    Spanned::new(0..0, 1.0)
}

fn one_robot() -> Spanned<u16> {
    Spanned::new(0..0, 1)
}

/// The kinds of libraries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LibraryKind {
    /// Made of files.
    Virtual,
    /// A medium changer and its drives.
    Scsi,
}

/// `[tape]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tape {
    /// Block size of new volumes.
    pub block: Spanned<Size>,
    /// Flush after so much.
    pub flush_bytes: Spanned<Size>,
    /// Or so long.
    pub flush_age: Span,
    /// Index after so much.
    pub index_bytes: Spanned<Size>,
    /// Buffers of a drive.
    pub buffer: Spanned<Size>,
    /// Recall when the oldest waits so long.
    pub recall_age: Span,
    /// Or when so much is wanted.
    pub recall_bytes: Size,
    /// What the order of a recall is to make short.
    #[serde(default)]
    pub recall_order: RecallOrder,
    /// Whose order that is.
    #[serde(default)]
    pub recall_order_from: RecallOrderFrom,
    /// Or so many files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall_files: Option<Spanned<u64>>,
    /// Or one of this priority or a higher one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall_at_once: Option<Spanned<u8>>,
    /// Drives kept for recall.
    #[serde(default = "no_drive")]
    pub recall_drives_min: Spanned<usize>,
    /// Most drives for recall at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recall_drives_max: Option<Spanned<usize>>,
    /// Drives kept for migration.
    #[serde(default = "no_drive")]
    pub migration_drives_min: Spanned<usize>,
    /// Most drives for migration at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration_drives_max: Option<Spanned<usize>>,
    /// What waits longer goes first.
    #[serde(default = "starvation")]
    pub starvation: Span,
    /// Drive time used so long ago counts half.
    #[serde(default = "share_half_life")]
    pub share_half_life: Spanned<Span>,
    /// Most mounts and unmounts under way in a library; 0: any number.
    #[serde(default)]
    pub mounts_at_once: usize,
    /// A tape that was unmounted rests for so long.
    #[serde(default = "no_time")]
    pub remount_delay: Span,
    /// Unless so much waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remount_bytes: Option<Size>,
    /// Keep idle tapes mounted.
    pub dismount_delay: Span,
    /// Leave what failed alone.
    pub retry_delay: Span,
    /// So often a cleaning cartridge is used; 0: drives are not cleaned by policy.
    #[serde(default = "cleaning_uses_max")]
    pub cleaning_uses_max: u32,
    /// A drive is given so long to be cleaned.
    #[serde(default = "cleaning_time_max")]
    pub cleaning_time_max: Span,
    /// What the pool owes each tape stream before clients, a second; what the drives' model takes if it is
    /// missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_rate: Option<Size>,
    /// Most sessions on tapes at once; 0: one a drive.
    #[serde(default)]
    pub streams_max: usize,
}

fn cleaning_uses_max() -> u32 {
    archive::CleaningSettings::default().uses_max
}

fn cleaning_time_max() -> Span {
    Span(archive::CleaningSettings::default().time_max)
}

fn no_drive() -> Spanned<usize> {
    Spanned::new(0..0, 0)
}

fn no_time() -> Span {
    Span(std::time::Duration::ZERO)
}

fn starvation() -> Span {
    Span(archive::MountSettings::default().starvation)
}

fn share_half_life() -> Spanned<Span> {
    Spanned::new(0..0, Span(archive::MountSettings::default().share_half_life))
}

fn one() -> Spanned<u32> {
    Spanned::new(0..0, 1)
}

/// What the order of a recall is to make short.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecallOrder {
    /// The time until the last file is there.
    #[default]
    LastFile,
    /// The time until a file is there, in the mean.
    MeanWait,
}

/// Whose order a recall follows, where the drive has one of its own (RAO).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecallOrderFrom {
    /// Kist's.
    Own,
    /// The drive's.
    Drive,
    /// The cheaper one by the model.
    #[default]
    Cheaper,
}

/// `[[tape_pools]]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TapePool {
    /// Its name.
    pub name: Spanned<String>,
    /// Mount when so much waits.
    pub mount_bytes: Size,
    /// Or so long.
    pub mount_age: Span,
    /// Most drives at once.
    pub drives_max: Spanned<usize>,
    /// Drives kept for it.
    #[serde(default = "no_drive")]
    pub drives_min: Spanned<usize>,
    /// Most tapes that are begun and not full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_tapes_max: Option<Spanned<usize>>,
    /// The library whose tapes it has; any if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<Spanned<String>>,
    /// How its tapes are encrypted; not at all if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<PoolEncryption>,
}

/// `encryption` of a tape pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolEncryption {
    /// The id of the key of tapes that are labelled from now on; not said: they are in clear, and keys are
    /// for those of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Spanned<String>>,
    /// Where keys come from: `file:PATH` or `command:PATH`. The keys themselves never stand here.
    pub keys: Spanned<String>,
}

/// `[[classes]]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Its name.
    pub name: Spanned<String>,
    /// Default for files up to this size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<Spanned<Size>>,
    /// Tape pools.
    pub copies: Spanned<Vec<String>>,
    /// What the copies must not share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<Spanned<Apart>>,
    /// Not packed from this size on.
    pub large: Size,
    /// Size of a pack.
    pub pack: Spanned<Size>,
    /// Seal a pack that is not full after so long.
    pub pack_age: Span,
    /// How deep in the tree the directories are that make a data set; 0: none do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_set_depth: Option<u8>,
    /// What of a pack is recalled when a file of it is wanted.
    #[serde(default)]
    pub recall: Recall,
    /// The group of drives that gets its files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_group: Option<Spanned<String>>,
    /// What nobody has used for so long moves from there to the drives in no group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_group_for: Option<Spanned<Span>>,
    /// Where its files live once tapes have them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residency: Option<Spanned<Residency>>,
    /// Recalls bring no more into the pool than leaves the class at this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_max: Option<Spanned<Size>>,
    /// Files leave the pool by themselves only if so much of the class stays there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_min: Option<Spanned<Size>>,
    /// Smaller files do not leave it by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evict_min: Option<Size>,
    /// Its part of the drive time.
    #[serde(default = "one")]
    pub weight: Spanned<u32>,
    /// Drives kept for it.
    #[serde(default = "no_drive")]
    pub drives_min: Spanned<usize>,
    /// Most drives at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drives_max: Option<Spanned<usize>>,
}

/// What is recalled when a file in a pack is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recall {
    /// That file.
    #[default]
    File,
    /// The whole pack.
    Pack,
}

fn scrub_days() -> Spanned<u32> {
    Spanned::new(0..0, 14)
}

fn requests_kept() -> Span {
    Span(std::time::Duration::from_secs(30 * 86_400))
}

fn requests_kept_max() -> u64 {
    100_000
}

fn base_changes() -> u64 {
    ChangeLogSettings::default().base_changes
}

fn base_log_percent() -> u64 {
    ChangeLogSettings::default().base_log_percent
}

fn keep_changes() -> u64 {
    ChangeLogSettings::default().keep_changes
}

fn keep_age() -> Span {
    Span(ChangeLogSettings::default().keep_age)
}

fn unknown_kept() -> Span {
    Span(std::time::Duration::from_secs(3 * 86_400))
}

fn rebuild_after() -> Span {
    Span(std::time::Duration::from_secs(12 * 3600))
}
