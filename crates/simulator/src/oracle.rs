//! What must be there: what was acknowledged, and what nobody can know until somebody looks.

use std::collections::{BTreeMap, BTreeSet};

use base::{ArchivePath, RequestId};

use crate::content::Content;

/// What a path may hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Possible {
    /// `None`: there is no such file.
    pub contents: BTreeSet<Option<Content>>,
}

impl Possible {
    /// The one thing that it holds, if that is known.
    #[must_use]
    pub fn known(&self) -> Option<Option<Content>> {
        let mut contents = self.contents.iter();
        contents.next().copied().filter(|_| contents.next().is_none())
    }
}

/// What is known of every path, and all that each ever held.
#[derive(Default)]
pub struct Oracle {
    paths: BTreeMap<ArchivePath, Possible>,
    /// Every content with the number of the change that made it possible and of the one that ended it.
    history: BTreeMap<ArchivePath, Vec<(Option<Content>, u64, u64)>>,
    changes: u64,
    next_content: u64,
    /// Requests that were acknowledged.
    pub requests: Vec<RequestId>,
}

impl Oracle {
    /// A content that no file ever had; nothing is always the same.
    pub fn new_content(&mut self, length: usize) -> Content {
        if length == 0 {
            return Content { id: 0, length };
        }
        self.next_content += 1;
        Content { id: self.next_content, length }
    }

    /// What a path may hold now.
    #[must_use]
    pub fn possible(&self, path: &ArchivePath) -> Possible {
        self.paths.get(path).cloned().unwrap_or_else(|| Possible { contents: BTreeSet::from([None]) })
    }

    /// The number of changes so far: a moment of the history.
    #[must_use]
    pub fn moment(&self) -> u64 {
        self.changes
    }

    /// Whether a path may have held this at some moment from `since` on.
    #[must_use]
    pub fn was_possible(&self, path: &ArchivePath, content: Option<Content>, since: u64) -> bool {
        match self.history.get(path) {
            None => content.is_none(),
            Some(history) => {
                let never_made = history.first().is_none_or(|(_, from, _)| *from > since);
                (never_made && content.is_none())
                    || history.iter().any(|(held, _, until)| *held == content && *until > since)
            }
        }
    }

    /// All contents with which a path was ever put.
    #[must_use]
    pub fn ever(&self, path: &ArchivePath) -> Vec<Content> {
        let history = self.history.get(path).map_or(&[][..], Vec::as_slice);
        history.iter().filter_map(|(content, _, _)| *content).collect()
    }

    /// From now on the path may hold any of these.
    pub fn set(&mut self, path: &ArchivePath, contents: BTreeSet<Option<Content>>) {
        assert!(!contents.is_empty(), "a path holds something or nothing");
        self.changes += 1;
        let now = self.changes;
        let history = self.history.entry(path.clone()).or_default();
        for (content, _, until) in history.iter_mut() {
            if *until == u64::MAX && !contents.contains(content) {
                *until = now;
            }
        }
        for content in &contents {
            if !history.iter().any(|(held, _, until)| held == content && *until == u64::MAX) {
                history.push((*content, now, u64::MAX));
            }
        }
        self.paths.insert(path.clone(), Possible { contents });
    }

    /// From now on the path holds this.
    pub fn know(&mut self, path: &ArchivePath, content: Option<Content>) {
        self.set(path, BTreeSet::from([content]));
    }

    /// From now on the path may hold this as well.
    pub fn doubt(&mut self, path: &ArchivePath, content: Option<Content>) {
        let mut contents = self.possible(path).contents;
        contents.insert(content);
        self.set(path, contents);
    }

    /// All paths that ever held something, with what they may hold now.
    pub fn paths(&self) -> impl Iterator<Item = (&ArchivePath, &Possible)> {
        self.paths.iter()
    }
}
