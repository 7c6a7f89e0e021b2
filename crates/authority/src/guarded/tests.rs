//! Rights before an engine that has two roles and no others.

use std::sync::Arc;

use archive::{AccessChain, ArchiveError, Listed, RenameOf, Stat};
use base::{ArchivePath, DirId, FileId, Name};
use catalogue::{Attributes, DirectoryOwner, Entry};
use identity::Caller;
use threads::Mutex;

use crate::guard::Guard;
use crate::roles::{Access, Namespace};

/// A directory `/a` of anna's with a file `f` in it.
#[derive(Default)]
struct Tree {
    renamed: Mutex<Vec<String>>,
}

const FILE: Entry = Entry::File(FileId(1));

impl Access for Tree {
    fn access_chain(&self, path: &ArchivePath) -> Result<AccessChain, ArchiveError> {
        let exists = path.as_str() == "/a/f";
        let anna = DirectoryOwner { owner: "anna".to_owned(), group: String::new(), mode: 0o755 };
        Ok(AccessChain {
            exists,
            entry: exists.then_some(FILE),
            owner: if exists { "anna".to_owned() } else { String::new() },
            above: vec![anna; path.components().count()],
            directory: Some(DirId(1)),
            ..AccessChain::default()
        })
    }
}

impl Namespace for Tree {
    fn space_left(&self, _: &ArchivePath, _: &str) -> Result<archive::SpaceLeft, ArchiveError> {
        unreachable!("nobody asks for it here")
    }

    fn stat(&self, _: &ArchivePath) -> Result<Stat, ArchiveError> {
        unreachable!("nobody looks")
    }

    fn list(&self, _: &ArchivePath, _: Option<&Name>, _: usize) -> Result<(Vec<Listed>, bool), ArchiveError> {
        unreachable!("nobody lists")
    }

    fn make_directory(
        &self,
        _: &ArchivePath,
        _: Attributes,
        _: Option<&str>,
        _: bool,
    ) -> Result<(), ArchiveError> {
        unreachable!("nobody makes directories")
    }

    fn rename(&self, _: &ArchivePath, _: &ArchivePath, _: bool) -> Result<(), ArchiveError> {
        unreachable!("only what was looked at is renamed")
    }

    fn rename_entry(&self, from: &ArchivePath, to: &ArchivePath, of: &RenameOf) -> Result<(), ArchiveError> {
        self.renamed.lock().unwrap().push(format!("{from} {to} {:?}", of.source));
        Ok(())
    }

    fn remove(&self, _: &ArchivePath) -> Result<(), ArchiveError> {
        unreachable!("nobody removes")
    }
}

#[test]
fn what_a_door_looked_at_is_renamed_if_the_guard_sees_the_same() {
    let tree = Arc::new(Tree::default());
    let guard = Guard::new(Arc::default(), tree.clone());
    let (from, to) = (ArchivePath::new("/a/f").unwrap(), ArchivePath::new("/a/g").unwrap());
    let of = RenameOf { source: FILE, from_parent: DirId(1), to_parent: DirId(1), replace: false };
    let other = RenameOf { source: Entry::File(FileId(2)), ..of };
    let anna = guard.enter(&Arc::new(Caller::named("anna", [])));
    assert!(matches!(anna.rename_entry(&from, &to, &other), Err(ArchiveError::TreeChanges)));
    let bert = guard.enter(&Arc::new(Caller::named("bert", [])));
    assert!(matches!(bert.rename_entry(&from, &to, &of), Err(ArchiveError::Denied { .. })));
    assert!(tree.renamed.lock().unwrap().is_empty());
    anna.rename_entry(&from, &to, &of).unwrap();
    anna.rename(&from, &to, false).unwrap();
    assert_eq!(*tree.renamed.lock().unwrap(), vec![format!("{from} {to} {FILE:?}"); 2]);
}
