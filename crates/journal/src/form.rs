//! What one log is: its records, and the description of its files.

use std::fmt::Debug;

use base::{Duration, Timestamp};

use crate::line::LineFault;

/// How the files of a log are named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Naming {
    /// `STEM.log` grows, `STEM.1.log` is the one before it, and so on: a rotation renames them all.
    ByAge,
    /// `STEM.000001.log` is the first one, and the one with the highest number grows.
    ByNumber,
}

/// What becomes of a last line without a line feed when its file is opened to be written on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TornEnd {
    /// It gets its line feed, and readers find it damaged.
    Ended,
    /// It is cut off: nobody was told that it was written. To find it all lines of the file are read.
    CutOff,
}

/// Blocks that are allocated ahead of the lines, for when the file system is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reserve {
    /// At least so many bytes are allocated behind the last line while the file system has room.
    pub bytes: u64,
    /// With fewer left there is [no room](crate::Room::None).
    pub least: u64,
}

/// The description of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogForm {
    /// What the names of its files begin with.
    pub stem: &'static str,
    /// How they go on.
    pub naming: Naming,
    /// A file of this many bytes is closed before another line is appended, and a new one begun.
    pub bytes_max: u64,
    /// Files kept, the one that grows included.
    pub files_max: u32,
    /// The longest line that is read, its end included. None that is written comes near it.
    pub line_bytes_max: usize,
    /// What becomes of a torn last line.
    pub torn: TornEnd,
    /// Whether a file is made durable with its first line, and its name with it.
    pub is_durable: bool,
    /// Permissions of a new file, before the process's mask.
    pub mode: u32,
    /// Blocks allocated ahead, if any are.
    pub reserve: Option<Reserve>,
}

/// What a line of a log says.
pub trait Record: Sized {
    /// What a line needs to know of the line before it. The default is that of the first line of all.
    type Link: Copy + Default + PartialEq + Debug;
    /// Why a line is no record.
    type Fault: Debug;
    /// The description of its log.
    const FORM: LogForm;

    /// Appends the line, its end included, to `out`, and gives what the next line needs to know.
    fn encode(&self, after: Self::Link, out: &mut String) -> Self::Link;

    /// Reads a line without its end. Whether it follows from the line before is not checked.
    ///
    /// # Errors
    /// If it is not one that [`Record::encode`] writes.
    fn decode(line: &[u8]) -> Result<(Self, Self::Link), Self::Fault>;

    /// The line with which the file of this number begins, if the log begins its files itself.
    fn first_of_file(number: u64, after: Self::Link) -> Option<Self> {
        let _ = (number, after);
        None
    }
}

/// A record that stands by itself, in a log whose lines are about in the order of their times.
pub(crate) trait TimedRecord: Record<Link = (), Fault = LineFault> {
    /// Lines are out of the order of their times by no more than this.
    const ORDER_SLACK: Duration;

    /// When it was written down, within the slack.
    fn written_at(&self) -> Timestamp;
}
