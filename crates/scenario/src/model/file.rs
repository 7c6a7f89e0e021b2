//! Files that are not there: each is known by its number alone.

use base::FileId;

/// Index of a class in [`Site::classes`](super::Site::classes).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClassIndex(pub u16);

/// Most files of a class.
pub const SEQUENCE_MAX: u64 = (1 << 40) - 1;

/// A file: its class, and its number in the order in which files of the class were put. All else follows from
/// it: its size from the class's law, its data set and place from the run that it is in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileNumber {
    /// Its class.
    pub class: ClassIndex,
    /// From 0, at most [`SEQUENCE_MAX`].
    pub sequence: u64,
}

impl FileNumber {
    /// As the scheduler knows it: class and number in one, in order of both.
    #[must_use]
    pub fn id(self) -> FileId {
        FileId((u64::from(self.class.0) << 40) | self.sequence)
    }

    /// The file of an id that [`FileNumber::id`] made.
    #[must_use]
    pub fn of(id: FileId) -> FileNumber {
        FileNumber { class: ClassIndex((id.0 >> 40) as u16), sequence: id.0 & SEQUENCE_MAX }
    }
}

/// How large the files of a class are.
#[derive(Clone, PartialEq, Debug)]
pub enum SizeLaw {
    /// All of one size, bytes.
    Fixed(u64),
    /// Drawn by the file's number from this table of quantiles, each entry as likely: 4,096 sizes in bytes,
    /// ascending. What a lognormal law, a mix, or a measured distribution becomes.
    Table(Vec<u64>),
    /// As a table, but files of so many numbers, one behind the other, are of one size: files that were put
    /// together are often alike.
    Alike {
        /// The quantiles, as of `Table`.
        table: Vec<u64>,
        /// How many are alike; 0 counts as 1.
        files: u32,
    },
    /// Given one by one, bytes, by number; files beyond the end are as large as the last one.
    Listed(Vec<u64>),
}

impl SizeLaw {
    /// The size of the largest file, in bytes.
    #[must_use]
    pub fn largest(&self) -> u64 {
        let size = match self {
            SizeLaw::Fixed(bytes) => Some(*bytes),
            SizeLaw::Table(sizes) | SizeLaw::Listed(sizes) | SizeLaw::Alike { table: sizes, .. } => {
                sizes.iter().max().copied()
            }
        };
        size.unwrap_or(1).max(1)
    }

    /// The size of a file, in bytes, at least 1.
    #[must_use]
    pub fn size(&self, file: FileNumber) -> u64 {
        let size = match self {
            SizeLaw::Fixed(bytes) => Some(*bytes),
            SizeLaw::Alike { table, files } => {
                let sequence = file.sequence / u64::from((*files).max(1));
                drawn(table, FileNumber { sequence, ..file })
            }
            SizeLaw::Table(table) => drawn(table, file),
            SizeLaw::Listed(sizes) => sizes.get(file.sequence as usize).or(sizes.last()).copied(),
        };
        size.unwrap_or(1).max(1)
    }

    /// The mean size in bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let mean =
            |sizes: &[u64]| sizes.iter().map(|size| *size as f64).sum::<f64>() / sizes.len().max(1) as f64;
        match self {
            SizeLaw::Fixed(bytes) => *bytes as f64,
            SizeLaw::Table(sizes) | SizeLaw::Listed(sizes) | SizeLaw::Alike { table: sizes, .. } => {
                mean(sizes)
            }
        }
    }
}

/// The entry of a table that a file has; nothing of an empty one.
fn drawn(table: &[u64], file: FileNumber) -> Option<u64> {
    let at = (u128::from(scatter(file.id().0)) * table.len() as u128) >> 64;
    table.get(at as usize).copied()
}

/// SplitMix64's finish: a number scattered over all others.
#[must_use]
pub fn scatter(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
