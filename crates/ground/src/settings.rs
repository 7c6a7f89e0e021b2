//! What the operator decides, as plain values. The program reads them from `kist.toml`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use base::{ByteCount, DriveGroup, DriveId, Duration, KeyId, StripeCode};
use cluster::{DriveEntry, DriveState, FailureDomain};
use drive::DriveIo;
use library::scsi::changer::DriveSeat;
use library::scsi::{DeviceChoice, IscsiName};
use library::{KeySource, TapeKeys};
use location::DriveLocation;
use session::order::{Aim, OrderFrom};
use session::{Water, WritingRules};

/// All settings of the engine.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// Where the catalogue lies.
    pub catalogue_directory: PathBuf,
    /// Address space reserved for the catalogue; the most that it can grow to.
    pub catalogue_map_size: ByteCount,
    /// The pool.
    pub pool: PoolSettings,
    /// The tape library.
    pub library: LibrarySettings,
    /// Further libraries, here or at other sites.
    pub more_libraries: Vec<LibrarySettings>,
    /// Storage classes; the first one whose `up_to` a file fits is its default class.
    pub classes: Vec<ClassSettings>,
    /// Tape pools.
    pub tape_pools: Vec<TapePoolSettings>,
    /// How tapes are written and read.
    pub tape: TapeSettings,
    /// How long the catalogue's log of changes becomes.
    pub change_log: ChangeLogSettings,
}

/// When the catalogue is written to tapes as a base, and which changes are kept in its log all the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChangeLogSettings {
    /// A tape pool gets a base when more changes than these came behind its newest; 0: never, and the log is
    /// never trimmed ...
    pub base_changes: u64,
    /// ... and the log is at least so large, in percent of the rest of the catalogue, which is about what a
    /// base takes on tape.
    pub base_log_percent: u64,
    /// As many of the newest changes stay in the log.
    pub keep_changes: u64,
    /// Changes that are not older stay in the log.
    pub keep_age: Duration,
}

impl Default for ChangeLogSettings {
    /// A base a million changes, if what came behind the last one takes as many bytes as it: so bases take no
    /// more of the tapes than the change-log segments do, which every change goes into anyway, and a
    /// catalogue that changes little is not written again and again. A million changes take a few hundred
    /// megabytes of log: an archive that never makes as many needs no base. A hundred thousand changes and a
    /// month stay, for people who look into the log for what happened.
    fn default() -> Self {
        ChangeLogSettings {
            base_changes: 1_000_000,
            base_log_percent: 100,
            keep_changes: 100_000,
            keep_age: Duration::from_secs(30 * 86_400),
        }
    }
}

/// The disk pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSettings {
    /// The code of new stripes, but for those that a group of drives gets.
    pub code: StripeCode,
    /// The groups of drives, in the order of [`DriveGroup`] from 1 on.
    pub groups: Vec<GroupSettings>,
    /// Memory for buffers of the pool.
    pub arena: ByteCount,
    /// How drives that are directories are read and written.
    pub io: DriveIo,
    /// Extents that nothing in the catalogue names are kept for so long.
    pub unknown_kept: Duration,
    /// How full it becomes before files that tapes have leave it by themselves; `None`: none do for want of
    /// room.
    pub water: Option<Water>,
    /// The drives at the start: of a running server `Ground::pool_drives` has those added since, too.
    pub drives: Vec<PoolDriveSettings>,
}

impl PoolSettings {
    /// The group of this name; empty: the drives that are in none.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<DriveGroup> {
        if name.is_empty() {
            return Some(DriveGroup::MAIN);
        }
        self.numbered_groups().find(|(_, group)| group.name == name).map(|(number, _)| number)
    }

    /// The groups, with their numbers.
    pub fn numbered_groups(&self) -> impl Iterator<Item = (DriveGroup, &GroupSettings)> {
        (1..).map(DriveGroup).zip(&self.groups)
    }

    /// The name of a group; of the drives that are in none it is empty.
    #[must_use]
    pub fn group_name(&self, group: DriveGroup) -> &str {
        self.settings_of(group).map_or("", |group| &group.name)
    }

    /// What is said of a group; of the drives that are in none nothing.
    #[must_use]
    pub fn settings_of(&self, group: DriveGroup) -> Option<&GroupSettings> {
        self.groups.get(usize::from(group.0).checked_sub(1)?)
    }
}

/// A group of drives of the pool: faster ones, for what is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupSettings {
    /// Its name.
    pub name: String,
    /// The code of what it gets.
    pub code: StripeCode,
    /// How full it becomes before what was not used for longest moves to the drives in no group.
    pub water: Water,
}

/// A drive of the pool; a directory is best of a file system of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolDriveSettings {
    /// Its number; never given to another drive.
    pub id: u16,
    /// Where it is.
    pub at: DriveLocation,
    /// The machine that it stands in; `None`: the one that its location says.
    pub host: Option<String>,
    /// The failure domain above the drive, such as `enclosure-1`; may be empty.
    pub enclosure: String,
    /// The group that it is in; empty: none.
    pub group: String,
}

impl PoolDriveSettings {
    /// The machine that it stands in: drives that share one fail together.
    #[must_use]
    pub fn host(&self) -> &str {
        self.host.as_deref().unwrap_or_else(|| self.at.host())
    }

    /// What the map of the pool says of it while it is in use. A group that nobody knows is none.
    #[must_use]
    pub fn entry(&self, pool: &PoolSettings) -> DriveEntry {
        let domain = FailureDomain {
            host: self.host().to_owned(),
            enclosure: self.enclosure.clone(),
            disk: self.at.to_string(),
        };
        let group = pool.group(&self.group).unwrap_or(DriveGroup::MAIN);
        DriveEntry { id: DriveId(self.id), domain, group, state: DriveState::Up, weight: 1 }
    }
}

/// A tape library.
#[derive(Clone, PartialEq, Debug)]
pub struct LibrarySettings {
    /// Its name; drives of further libraries are called after it.
    pub name: String,
    /// Where it stands; may be empty.
    pub site: String,
    /// What a mount there costs against one elsewhere, in percent: see [`scheduler::LibraryPolicy`].
    pub mount_cost_percent: u32,
    /// What its machines are.
    pub kind: LibraryKind,
}

/// What the machines of a library are, with all that is needed to open them.
#[derive(Clone, PartialEq, Debug)]
pub enum LibraryKind {
    /// Files.
    Virtual(VirtualLibrarySettings),
    /// A medium changer and its drives.
    Scsi(ScsiLibrarySettings),
}

/// A library behind a medium changer.
#[derive(Clone, PartialEq, Debug)]
pub struct ScsiLibrarySettings {
    /// The changer.
    pub changer: DeviceChoice,
    /// Its drives that belong to this instance, in the order of their names.
    pub drives: Vec<DriveSeat>,
    /// Addresses of slots and doors that belong to it; `None`: all.
    pub slots: Option<Vec<RangeInclusive<u16>>>,
    /// iSCSI portals at which changer and drives are looked for, beside the changer's own and this machine.
    pub portals: Vec<String>,
    /// Who asks there; `None`: a name made of this machine's.
    pub initiator: Option<IscsiName>,
    /// With it this machine proves who it is.
    pub chap: Option<ChapSettings>,
    /// What the data partition of an empty cartridge holds whose label does not say what medium it is; 0:
    /// not known, and nothing is written to such.
    pub capacity: ByteCount,
    /// What its machines take, for forecasts; `None`: a usual one.
    pub timing: Option<TimingSettings>,
}

/// Who this machine is for iSCSI targets that ask for a proof (CHAP).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChapSettings {
    /// The name.
    pub user: String,
    /// The file of the secret.
    pub secret_file: PathBuf,
}

/// A library made of files.
#[derive(Clone, PartialEq, Debug)]
pub struct VirtualLibrarySettings {
    /// Where the cartridges lie.
    pub directory: PathBuf,
    /// How many tape drives.
    pub drives: u16,
    /// Whose time its machines take; `None`: they are as fast as their files.
    pub timing: Option<TimingSettings>,
}

impl LibrarySettings {
    /// A library of so many drives that needs no name, since it is the only one.
    #[must_use]
    pub fn only(directory: PathBuf, drives: u16) -> Self {
        LibrarySettings {
            name: "library".to_owned(),
            site: String::new(),
            mount_cost_percent: 100,
            kind: LibraryKind::Virtual(VirtualLibrarySettings { directory, drives, timing: None }),
        }
    }

    /// The files of a library that is made of them.
    #[must_use]
    pub fn files(&self) -> Option<&VirtualLibrarySettings> {
        match &self.kind {
            LibraryKind::Virtual(files) => Some(files),
            LibraryKind::Scsi(_) => None,
        }
    }

    /// The same, to change it.
    pub fn files_mut(&mut self) -> Option<&mut VirtualLibrarySettings> {
        match &mut self.kind {
            LibraryKind::Virtual(files) => Some(files),
            LibraryKind::Scsi(_) => None,
        }
    }

    /// Whose time its machines take, if that is told.
    #[must_use]
    pub fn timing(&self) -> Option<&TimingSettings> {
        match &self.kind {
            LibraryKind::Virtual(files) => files.timing.as_ref(),
            LibraryKind::Scsi(scsi) => scsi.timing.as_ref(),
        }
    }

    /// The same, to change it.
    pub fn timing_mut(&mut self) -> &mut Option<TimingSettings> {
        match &mut self.kind {
            LibraryKind::Virtual(files) => &mut files.timing,
            LibraryKind::Scsi(scsi) => &mut scsi.timing,
        }
    }

    /// How many tape drives it has for this instance.
    #[must_use]
    pub fn drives(&self) -> u16 {
        match &self.kind {
            LibraryKind::Virtual(files) => files.drives,
            LibraryKind::Scsi(scsi) => u16::try_from(scsi.drives.len()).unwrap_or(u16::MAX),
        }
    }

    /// Gives it another number of drives, for a twin of it.
    pub fn set_drives(&mut self, drives: u16) {
        match &mut self.kind {
            LibraryKind::Virtual(files) => files.drives = drives,
            LibraryKind::Scsi(scsi) => scsi.drives = (0..drives).map(DriveSeat::Number).collect(),
        }
    }
}

/// What the machines of a library take.
#[derive(Clone, PartialEq, Debug)]
pub struct TimingSettings {
    /// The model of all drives, such as `LTO-8`, each with the medium that it is made for.
    pub drive: String,
    /// So many times as fast as the real ones; above 0.
    pub scale: f64,
    /// Robots that move cartridges at the same time, at least one.
    pub robots: u16,
}

/// A storage class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassSettings {
    /// Its name.
    pub name: String,
    /// Files up to this size get it by default; `None`: any size.
    pub up_to: Option<ByteCount>,
    /// The tape pools that get a copy each.
    pub copies: Vec<String>,
    /// Files from this size on are not packed.
    pub large_bytes: ByteCount,
    /// The size of a pack.
    pub pack_bytes: ByteCount,
    /// Seal a pack that is not full when its oldest file waits longer than this.
    pub pack_age: Duration,
    /// What belongs together unless a client says so: files below one directory this deep in the tree (1:
    /// below the root); 0: the whole class. `None`: files of one directory.
    pub data_set_depth: Option<u8>,
    /// Recall a pack as a whole when one file of it is wanted (full-aggregate recall).
    pub recall_packs: bool,
    /// Its files leave the pool by themselves when tapes have all their copies and nobody pins them.
    pub cold: bool,
    /// Recalls bring no more of the class into the pool than leaves it at this much; `None`: no ceiling. With
    /// [`PoolSettings::water`] files of a class leave it as from a pool of this size.
    pub pool_max: Option<ByteCount>,
    /// Which drives hold its files.
    pub placing: PlacingSettings,
    /// Which of its files leave the pool by themselves.
    pub leaving: LeavingSettings,
    /// What it may have of the tape drives.
    pub share: ShareSettings,
}

/// Which drives of the pool hold the files of a class.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct PlacingSettings {
    /// The group whose drives get what is put or comes back from tape, as long as it has room; empty: none.
    pub group: String,
    /// What nobody has used for so long moves from there to the drives in no group; what is used again in
    /// another hour within that time comes back. `None`: only what the group has no room for moves.
    pub unused_for: Option<Duration>,
}

/// Which files of a class leave the pool by themselves, once tapes have all their copies and nobody pins
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LeavingSettings {
    /// Those that nobody has used for so long, whether there is room or not; `None`: none for that.
    pub unused_for: Option<Duration>,
    /// None smaller than this: they take little room, and a mount for one costs as much as for a large one.
    pub size_min: ByteCount,
    /// None if the class would then have less than this in the pool.
    pub pool_min: ByteCount,
}

/// A tape pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapePoolSettings {
    /// Its name.
    pub name: String,
    /// Mount a tape to write when this much is queued.
    pub mount_bytes: ByteCount,
    /// Or when the oldest container waits longer than this.
    pub mount_age: Duration,
    /// Most drives writing to this pool at once.
    pub drives_max: usize,
    /// Drives that are kept for it while it has enough to write.
    pub drives_min: usize,
    /// Most tapes that are begun and not full; `None`: any number.
    pub open_tapes_max: Option<usize>,
    /// The library whose scratch tapes it gets; `None`: any.
    pub library: Option<String>,
    /// How its tapes are encrypted; `None`: tapes labelled from now on are written in clear.
    pub encryption: Option<PoolEncryption>,
}

/// How the tapes of a pool are encrypted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolEncryption {
    /// The key of tapes that are labelled from now on; `None`: they are in clear. Nothing new goes to tapes
    /// that have it otherwise.
    pub key: Option<KeyId>,
    /// Where it comes from, and those of older tapes.
    pub keys: KeySource,
}

impl Settings {
    /// Where the keys of all tapes come from.
    #[must_use]
    pub fn tape_keys(&self) -> TapeKeys {
        TapeKeys::of(self.tape_pools.iter().filter_map(|pool| Some(&pool.encryption.as_ref()?.keys)))
    }
}

/// How tapes are written and read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeSettings {
    /// Block size of volumes labelled from now on.
    pub block_bytes: ByteCount,
    /// Synchronous flush and commit after this many bytes ...
    pub flush_bytes: ByteCount,
    /// ... or this long after the last one.
    pub flush_age: Duration,
    /// Index on the data partition after this many bytes.
    pub index_bytes: ByteCount,
    /// Memory for tape buffers, per drive.
    pub buffer: ByteCount,
    /// Recall: mount when the oldest wanted file waits longer than this ...
    pub recall_age: Duration,
    /// ... or when this much is wanted from a tape.
    pub recall_bytes: ByteCount,
    /// What the order of a recall is to make short.
    pub recall_aim: Aim,
    /// Whose order that is: Kist's, or the drive's own (RAO).
    pub recall_order_from: OrderFrom,
    /// Keep an idle tape mounted for this long.
    pub dismount_delay: Duration,
    /// Leave a drive or tape that failed alone for this long.
    pub retry_delay: Duration,
    /// When tapes are mounted, and for whom.
    pub mounts: MountSettings,
    /// How tape streams and clients share the pool.
    pub flow: FlowSettings,
}

impl TapeSettings {
    /// When what is written becomes safe, for who writes it.
    pub fn writing_rules(&self) -> WritingRules {
        WritingRules { flush_age: self.flush_age, index_bytes: self.index_bytes }
    }
}

/// How many drives something may have.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DriveLimits {
    /// Drives that are kept for it while it has work that is worth a mount.
    pub min: usize,
    /// Most drives at once, at least one; `None`: any number.
    pub max: Option<usize>,
}

impl DriveLimits {
    /// The most drives as a number.
    pub fn most(&self) -> usize {
        self.max.unwrap_or(usize::MAX)
    }
}

/// What a class may have of the tape drives: its recalls, and the writing to tape pools that no other class
/// has copies in if anything here is not the default.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareSettings {
    /// Its part of the drive time, against the weights of the others that have work; at least 1.
    pub weight: u32,
    /// Its drives.
    pub drives: DriveLimits,
}

impl Default for ShareSettings {
    /// Weight 1, no drive of its own, any number at most.
    fn default() -> Self {
        ShareSettings { weight: 1, drives: DriveLimits::default() }
    }
}

/// When tapes are mounted, and for whom.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountSettings {
    /// Recall: mount also when so many files are wanted from a tape; `None`: never for that.
    pub recall_files: Option<u64>,
    /// Recall: mount at once for a file of this priority or a higher one; `None`: never for that.
    pub recall_at_once: Option<u8>,
    /// A tape that was just unmounted stays in its slot for so long, unless it starves ...
    pub remount_delay: Duration,
    /// ... or so much waits for it; `None`: however much.
    pub remount_bytes: Option<ByteCount>,
    /// What waits longer than this goes first, oldest first.
    pub starvation: Duration,
    /// Drive time that a class used so long ago counts half.
    pub share_half_life: Duration,
    /// Drives that read.
    pub recall: DriveLimits,
    /// Drives that write.
    pub migration: DriveLimits,
    /// Most mounts and unmounts under way at once in each library; `None`: any number.
    pub mounts_at_once: Option<usize>,
    /// How drives are cleaned.
    pub cleaning: CleaningSettings,
}

/// How drives are cleaned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CleaningSettings {
    /// So often a cleaning cartridge is used; 0: drives are cleaned on an operator's word only, since their
    /// library does it.
    pub uses_max: u32,
    /// A drive that has not done with a cleaning cartridge for so long was not cleaned.
    pub time_max: Duration,
}

impl CleaningSettings {
    /// Whether a drive that asks for it is cleaned.
    pub fn is_by_policy(&self) -> bool {
        self.uses_max > 0
    }
}

impl Default for CleaningSettings {
    /// 50 uses, what makers say of the LTO universal cleaning cartridge, and 15 minutes: drives take two to
    /// five.
    fn default() -> Self {
        CleaningSettings { uses_max: 50, time_max: Duration::from_secs(15 * 60) }
    }
}

impl Default for MountSettings {
    /// What [`scheduler::Policy::default`] says.
    fn default() -> Self {
        let policy = scheduler::Policy::default();
        MountSettings {
            recall_files: None,
            recall_at_once: None,
            remount_delay: policy.remount_delay,
            remount_bytes: None,
            starvation: policy.starvation,
            share_half_life: policy.share_half_life,
            recall: DriveLimits::default(),
            migration: DriveLimits::default(),
            mounts_at_once: None,
            cleaning: CleaningSettings::default(),
        }
    }
}

/// How tape streams and clients share the pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowSettings {
    /// What the pool owes each tape stream before clients, in bytes a second; 0: nothing.
    pub stream_rate: ByteCount,
    /// Most sessions that read or write tapes at once; 0: as many as there are drives.
    pub streams_max: usize,
}

impl Default for FlowSettings {
    /// What an LTO-9 drive takes, 400 MB/s, and a session on every drive.
    fn default() -> Self {
        FlowSettings { stream_rate: ByteCount(400_000_000), streams_max: 0 }
    }
}
