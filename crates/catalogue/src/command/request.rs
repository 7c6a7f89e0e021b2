//! Paths that are asked for one by one.

use base::{Duration, FileId};

use crate::record::PathRefusal;

/// What a path that is asked for stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskedFor {
    /// This file.
    File(FileId),
    /// Nothing that can be brought.
    Refused(PathRefusal),
}

/// A path of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskedPath {
    /// As the client wrote it, at most [`PATH_BYTES_MAX`](base::PATH_BYTES_MAX) bytes.
    pub path: String,
    /// What it stands for.
    pub file: AskedFor,
    /// For how long the file is pinned once online; `None`: as the request says.
    pub pin: Option<Duration>,
}
