//! Requests: who wants which files online, for how long, and how far that is.

use base::{Blake3, ByteCount, Duration, FileId, RequestId, Timestamp};

/// How a request stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestState {
    /// Files are still being added.
    Filling,
    /// Waiting for files.
    Active,
    /// Every file is done, failed or cancelled.
    Completed,
    /// Cancelled by its owner.
    Cancelled,
    /// Being cancelled in batches: takes no more files; what still waits comes until its batch is there.
    Cancelling,
    /// Ended, and being deleted in batches.
    Forgetting,
}

/// A user's request to have files online.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestRecord {
    /// Who asked; at most 64 bytes.
    pub owner: String,
    /// When.
    pub created: Timestamp,
    /// How it stands.
    pub state: RequestState,
    /// When the last file ended.
    pub ended: Option<Timestamp>,
    /// For how long its files are pinned once online.
    pub pin: Duration,
    /// Files in it.
    pub files: u32,
    /// Their bytes.
    pub bytes: ByteCount,
    /// Files that are online by it.
    pub done: u32,
    /// Bytes of those.
    pub done_bytes: ByteCount,
    /// Files that failed for good.
    pub failed: u32,
    /// Files cancelled.
    pub cancelled: u32,
    /// Items before this number were treated by the cancel that is under way; 0 if none is.
    pub swept: u32,
    /// When work on the first of its files began: it was online, or a drive began to read it. `None` before,
    /// and of requests that a Kist of before began.
    pub started: Option<Timestamp>,
    /// Of a request that names paths one by one: what there is of them. `None`: it names files only.
    pub list: Option<PathList>,
}

/// The paths of a request that names them one by one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathList {
    /// How many, refused ones among them.
    pub paths: u32,
    /// Paths that were refused when they were added: no item stands for them.
    pub refused: u32,
    /// By what a repeated submission finds it; from its closing on, as long as it has not ended.
    pub submission: Option<Blake3>,
}

/// Why a path of a request is not worked on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathRefusal {
    /// Nothing has this path.
    NotFound,
    /// It is a directory.
    Directory,
    /// It has no bytes, which no tape keeps: an empty file, or a link.
    NoData,
    /// It cannot be a path.
    NoPath,
    /// Who asks may not stage it.
    NotAllowed,
    /// The pool cannot make room for it.
    NeverFits,
}

impl PathRefusal {
    /// Why, in words for who asked.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            PathRefusal::NotFound => "no such file or directory",
            PathRefusal::Directory => "it is a directory: name the files in it",
            PathRefusal::NoData => "it has no bytes, and never goes to tape",
            PathRefusal::NoPath => "it is no path of the archive",
            PathRefusal::NotAllowed => "the caller may not stage it",
            PathRefusal::NeverFits => "it is larger than the pool can hold",
        }
    }
}

/// What a path of a request stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathTarget {
    /// The item of this number. Several paths may lead to one item.
    Item(u32),
    /// Nothing that is worked on.
    Refused(PathRefusal),
}

/// One path of a request that names paths one by one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestPath {
    /// As it was asked for, at most [`PATH_BYTES_MAX`](base::PATH_BYTES_MAX) bytes.
    pub path: String,
    /// What it stands for.
    pub target: PathTarget,
}

/// Where a path stands among those of all requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct PathPlace {
    pub(crate) request: RequestId,
    pub(crate) number: u32,
}

/// How one file of a request stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ItemState {
    /// Not online yet.
    Waiting,
    /// Online since.
    Done(Timestamp),
    /// Will not come; the reason in words for the user, at most 512 bytes.
    Failed(String),
    /// Cancelled.
    Cancelled,
    /// Came online, and its pin was given back, or it got none.
    Released,
    /// Not online yet, and given back already: it gets no pin.
    WaitingUnpinned,
}

impl ItemState {
    /// Whether the file is waited for.
    #[must_use]
    pub fn waits(&self) -> bool {
        matches!(self, ItemState::Waiting | ItemState::WaitingUnpinned)
    }
}

/// One file of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestItem {
    /// The file.
    pub file: FileId,
    /// How it stands.
    pub state: ItemState,
    /// When work on it began: it was online, or a drive began to read it.
    pub started: Option<Timestamp>,
    /// When it failed or was cancelled, or came and was given back since; see [`RequestItem::ended`].
    pub over: Option<Timestamp>,
    /// For how long it is pinned once online, if not for as long as the request says.
    pub pin: Option<Duration>,
}

impl RequestItem {
    /// A file that was not worked on yet.
    #[must_use]
    pub fn new(file: FileId, state: ItemState) -> RequestItem {
        RequestItem { file, state, started: None, over: None, pin: None }
    }

    /// When it was done, failed or was cancelled; of what a Kist of before ended this is known only while it
    /// is held.
    #[must_use]
    pub fn ended(&self) -> Option<Timestamp> {
        match self.state {
            ItemState::Done(at) => Some(at),
            _ => self.over,
        }
    }

    /// The same file in a state that has ended at `at`, or had at an earlier time; `None`: times are not kept
    /// ([`Rule::RequestTimes`](crate::Rule)).
    #[must_use]
    pub(crate) fn over(self, state: ItemState, at: Option<Timestamp>) -> RequestItem {
        assert!(!state.waits() && !matches!(state, ItemState::Done(_)), "what ends does not wait");
        let over = at.and_then(|at| self.ended().or(Some(at)));
        RequestItem { state, over, ..self }
    }
}
