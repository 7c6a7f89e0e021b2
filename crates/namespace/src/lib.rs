//! The room of names: the tree of directories, objects and their versions, buckets, keys, quotas, owners and
//! access lists, and the removing of whole trees. None of it touches bytes.

use std::sync::Arc;

use ground::Ground;

mod access;
mod buckets;
mod keys;
mod names;
mod objects;
mod placing;
mod quotas;
mod select;
mod trees;
mod versions;

pub use names::{Containers, LIST_PAGE_MAX, TREE_RETRIES_MAX, file_stat, in_words, locality, missing_for};
pub use objects::{FoundFile, file_of, implied};
pub use quotas::{count as count_quotas, nearest as nearest_directory};
pub use select::SELECTION_PATHS_MAX;
pub use trees::{RemovalWait, RemoveTree, TreeRemoval};

/// The names of one instance.
pub struct Namespace {
    ground: Arc<Ground>,
    removals: Arc<trees::Removals>,
}

impl Namespace {
    /// The names in a catalogue.
    #[must_use]
    pub fn new(ground: Arc<Ground>) -> Self {
        Namespace { ground, removals: Arc::default() }
    }
}
