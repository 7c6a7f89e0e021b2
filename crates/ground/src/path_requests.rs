//! Requests that name paths one by one: each path has its own fate, and none is left out.

use base::{ArchivePath, ByteCount, Duration};
use catalogue::{PathRefusal, RequestItem};

use crate::{ItemFailure, Locality, RequestInfo};

/// Paths that are asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathSubmission {
    /// Who asks.
    pub owner: String,
    /// For how long a file is pinned once online, if its path says nothing else.
    pub pin: Duration,
    /// How urgent it is, from 0 to [`catalogue::PRIORITY_MAX`]; usually [`catalogue::PRIORITY_USUAL`].
    pub priority: u8,
    /// The paths; of several that are the same the first one counts.
    pub paths: Vec<SubmittedPath>,
}

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubmittedPath {
    /// As the client wrote it.
    pub text: String,
    /// The path that it is, or why it is not worked on.
    pub path: Result<ArchivePath, PathRefusal>,
    /// For how long the file is pinned once online; `None`: as the submission says.
    pub pin: Option<Duration>,
}

impl SubmittedPath {
    /// A path as a client wrote it, with slashes that stand several times in a row.
    #[must_use]
    pub fn new(text: String, pin: Option<Duration>) -> SubmittedPath {
        let path = ArchivePath::collapsed(&text).map_err(|_| PathRefusal::NoPath);
        SubmittedPath { text, path, pin }
    }

    /// What two ways to write one path have in common.
    #[must_use]
    pub fn key(&self) -> &str {
        self.path.as_ref().map_or(&self.text, ArchivePath::as_str)
    }
}

/// A request that names paths one by one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathRequest {
    /// The request.
    pub info: RequestInfo,
    /// Its paths in the order in which they were asked for.
    pub paths: Vec<(String, PathState)>,
}

/// How a path of a request stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PathState {
    /// It is not worked on.
    Refused(PathRefusal),
    /// So stands its file; and if it failed, what keeps it from being had now.
    File(RequestItem, Option<ItemFailure>),
}

/// Where the bytes of what has a path are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathLocality {
    /// Nothing has this path.
    Missing,
    /// Who asks may not know.
    NotAllowed,
    /// It is a directory.
    Directory,
    /// A file or link.
    File {
        /// Where its bytes are.
        locality: Locality,
        /// How many there are.
        size: ByteCount,
        /// Whether nothing can give it now, as far as that is known: of a file that only tapes have, its
        /// tapes are set aside, in no library, or without their key, or no drive is in use; of one that only
        /// the pool has, drives of the pool that hold it do not answer.
        unavailable: bool,
    },
}
