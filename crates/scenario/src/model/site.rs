//! Hardware, classes, and what stands on the tapes at the beginning.

use base::{ByteCount, Duration};
use mechanics::{DriveTiming, Geometry, RobotTiming};
use session::WritingRules;

use super::file::{ClassIndex, SizeLaw};
use super::pool::{DataPath, PoolModel};

/// Index of a library in [`Site::libraries`]; it is also its `LibraryId`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LibraryIndex(pub u16);

/// A site.
#[derive(Clone, PartialEq, Debug)]
pub struct Site {
    /// Tape libraries; at least one.
    pub libraries: Vec<LibraryModel>,
    /// Tape pools; index + 1 is the `TapePoolId`.
    pub tape_pools: Vec<TapePoolModel>,
    /// Storage classes; index + 1 is the `ClassId`, index + 1 also the `ShareId` it is charged to.
    pub classes: Vec<ClassModel>,
    /// What was written before the run.
    pub holdings: Vec<Holding>,
    /// The disk pool.
    pub pool: PoolModel,
    /// What the way between pool and tape costs beside the drive.
    pub path: DataPath,
    /// How sessions write and read.
    pub work: TapeWork,
}

/// A tape library.
#[derive(Clone, PartialEq, Debug)]
pub struct LibraryModel {
    /// Its name.
    pub name: String,
    /// Its robots.
    pub robots: RobotTiming,
    /// Its drives.
    pub drives: Vec<DriveGroup>,
    /// Its cartridges: all of one kind.
    pub tape: TapeModel,
    /// Scratch tapes at the beginning.
    pub scratch: u32,
    /// Reads and writes of labels and of the index at a mount, beside what the drive takes to load.
    pub mount_extra: Duration,
}

/// Drives of one kind.
#[derive(Clone, PartialEq, Debug)]
pub struct DriveGroup {
    /// How many.
    pub count: u32,
    /// What they take for each thing.
    pub timing: DriveTiming,
}

/// A cartridge.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeModel {
    /// Where its bytes stand.
    pub geometry: Geometry,
    /// Bytes that are written to it before it is full.
    pub capacity: ByteCount,
}

/// A tape pool; what decides when it is written is in the policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapePoolModel {
    /// Its name.
    pub name: String,
    /// The library that holds its tapes.
    pub library: LibraryIndex,
}

/// A storage class.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassModel {
    /// Its name.
    pub name: String,
    /// Indices of the tape pools that get a copy each; may be empty.
    pub copies: Vec<u16>,
    /// How large its files are.
    pub sizes: SizeLaw,
    /// Files from here on are containers of their own, smaller ones go into packs.
    pub large: ByteCount,
    /// The size of a pack.
    pub pack: ByteCount,
    /// A recall of a file brings back its whole pack.
    pub recall_packs: bool,
    /// A file stays in the pool for so long after it was put, recalled or read, if it has its copies and
    /// there is room.
    pub residency: Duration,
    /// The most pool space of the class; `None`: no limit of its own.
    pub pool_max: Option<ByteCount>,
    /// Files of a data set: written one after the other, wanted together.
    pub data_set_files: u32,
    /// Which of them go together when packs are made.
    pub gather: GatherBy,
}

/// Which files of a class are one data set when packs are made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GatherBy {
    /// Those of a data set, so many each.
    DataSet,
    /// All of the class, in the order in which they were put.
    Class,
    /// As it was recorded: the data set of each file, by number.
    Listed(Vec<u64>),
}

impl ClassModel {
    /// The data set of a file when packs are made.
    #[must_use]
    pub fn data_set(&self, sequence: u64) -> u64 {
        match &self.gather {
            GatherBy::DataSet => sequence / u64::from(self.data_set_files.max(1)),
            GatherBy::Class => 0,
            GatherBy::Listed(sets) => {
                usize::try_from(sequence).ok().and_then(|at| sets.get(at)).copied().unwrap_or(0)
            }
        }
    }
}

/// Files that are on tape at the beginning.
///
/// They are laid out in *runs*: so many files one behind the other on one tape. With `spread` 1 and
/// `run_files` no less than `data_set_files` a data set lies in one piece; with more, the runs of a data set
/// go to so many tapes in turn, as concurrent writers without gathering leave them.
#[derive(Clone, PartialEq, Debug)]
pub struct Holding {
    /// Their class; they are its first files.
    pub class: ClassIndex,
    /// How many.
    pub files: u64,
    /// Most files of a run.
    pub run_files: u32,
    /// Tapes that are written at the same time, run by run in turn.
    pub spread: u32,
    /// A tape takes so many bytes of this holding before the next is begun; more than the cartridge's
    /// capacity counts as that.
    pub fill: ByteCount,
    /// Of so many files in a thousand there is one more copy on a tape of its own kind (a second version of
    /// the same bytes, written by mistake, lies on the tapes that `duplicate_tapes` counts).
    pub duplicates_per_mille: u16,
    /// Tapes over which these lie.
    pub duplicate_tapes: u32,
    /// Of so many files in a thousand the bytes are in the pool at the beginning: the newest ones.
    pub resident_per_mille: u16,
}

/// How sessions write and read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeWork {
    /// Bytes between two synchronous flushes of a writing session.
    pub flush_bytes: ByteCount,
    /// The longest time between two flushes.
    pub flush_age: Duration,
    /// Bytes between two indexes on the data partition.
    pub index_bytes: ByteCount,
    /// The size of an index: so many bytes for each file on the tape.
    pub index_bytes_a_file: u64,
    /// Each file is flushed by itself, as systems without packs and run records do.
    pub flush_each_file: bool,
    /// Bytes that are read and committed together.
    pub recall_batch: ByteCount,
    /// Requests that arrive while a tape is read join at most so often.
    pub replan: Duration,
}

impl TapeWork {
    /// When what is written becomes safe, for who writes it.
    #[must_use]
    pub fn writing_rules(&self) -> WritingRules {
        WritingRules { flush_age: self.flush_age, index_bytes: self.index_bytes }
    }
}

impl Site {
    /// The largest file of a class that an empty cartridge takes of each of its tape pools' libraries.
    #[must_use]
    pub fn largest_on_tape(&self, class: &ClassModel) -> u64 {
        let pools = class.copies.iter().filter_map(|pool| self.tape_pools.get(usize::from(*pool)));
        let libraries = pools.filter_map(|pool| self.libraries.get(usize::from(pool.library.0)));
        libraries.map(|library| library.tape.capacity.0).min().unwrap_or(u64::MAX)
    }
}
