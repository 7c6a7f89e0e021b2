//! The files and directories of a volume, as its index holds them.

use std::collections::{BTreeMap, btree_map};

use base::{BlockAddress, ByteCount, Partition, Timestamp};
use unicode_normalization::is_nfc;

/// The most levels of directories, the root included, and so the most components of a path: an archive path
/// has up to 2,048.
pub const TREE_DEPTH_MAX: usize = 2_050;
/// The longest name in bytes. LTFS allows 255 characters, file systems allow 255 bytes.
pub const TAPE_NAME_BYTES_MAX: usize = 255;

/// The number of a file or directory within its volume; never used twice on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileUid(pub u64);

impl FileUid {
    /// The root directory.
    pub const ROOT: FileUid = FileUid(1);
}

/// The five times of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Times {
    /// When the entry was made.
    pub creation: Timestamp,
    /// When its metadata last changed.
    pub change: Timestamp,
    /// When its content last changed.
    pub modify: Timestamp,
    /// When it was last read.
    pub access: Timestamp,
    /// When it was last backed up.
    pub backup: Timestamp,
}

impl Times {
    /// All five the same.
    #[must_use]
    pub fn all(time: Timestamp) -> Self {
        Times { creation: time, change: time, modify: time, access: time, backup: time }
    }
}

/// A run of a file's bytes on tape. It starts `byte_offset` bytes into a block and goes on through the
/// following ones; every block of it but the last is full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Where in the file it starts.
    pub file_offset: ByteCount,
    /// The partition it stands in.
    pub partition: Partition,
    /// Its first block.
    pub start_block: BlockAddress,
    /// Where in its first block it starts; below the volume's block size.
    pub byte_offset: u32,
    /// Its length, at least 1.
    pub byte_count: ByteCount,
}

/// A file or symbolic link. Its name is the key under which its directory holds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct File {
    /// Its number. [`Tree::insert_file`] replaces it with a fresh one.
    pub uid: FileUid,
    /// Its length in bytes; holes read as zeros. 0 for a symbolic link.
    pub length: ByteCount,
    /// Its times.
    pub times: Times,
    /// Whether it may be changed.
    pub read_only: bool,
    /// Extended attributes in the order written. Keys are unique.
    pub xattrs: Vec<(String, Vec<u8>)>,
    /// Where its bytes are, rising by file offset, without overlap. Empty for a symbolic link.
    pub extents: Vec<Extent>,
    /// The target, if it is a symbolic link.
    pub symlink: Option<String>,
}

/// A directory. Its name is the key under which its parent holds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Directory {
    /// Its times.
    pub times: Times,
    /// Whether it may be changed.
    pub read_only: bool,
    /// Extended attributes in the order written.
    pub xattrs: Vec<(String, Vec<u8>)>,
    /// What it holds, by name.
    pub entries: BTreeMap<String, Entry>,
}

impl Directory {
    pub(crate) fn new(now: Timestamp) -> Self {
        Directory { times: Times::all(now), read_only: false, xattrs: Vec::new(), entries: BTreeMap::new() }
    }
}

/// What a name in a directory stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Entry {
    /// A directory of the same tree.
    Directory(FileUid),
    /// A file or symbolic link.
    File(Box<File>),
}

/// Why a file cannot be put at a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InsertError {
    /// A file or directory has the name already.
    #[error("'{0}' exists on the volume: give the file its '~<file id>' name")]
    Occupied(String),
    /// A file has the name of a directory on the way.
    #[error("'{0}' is a file on the volume, not a directory: put the file under its fallback path")]
    NotADirectory(String),
    /// A name that an index cannot hold as it is.
    #[error("'{0}' is no name on tape: it must be NFC, 1 to 255 bytes, no '/', NUL, '.' or '..'")]
    Name(String),
    /// No component, or more than [`TREE_DEPTH_MAX`].
    #[error("a path of {0} components cannot be on tape: 1 to {TREE_DEPTH_MAX} are possible")]
    Depth(usize),
    /// The volume has given away all its numbers; only a damaged or hostile index can have done so.
    #[error("the volume has no number left for a new file: set the tape read-only")]
    Uids,
}

/// All that a volume holds. Directories are kept by number and not within one another, so that no depth of
/// nesting can exhaust the stack. Two trees are equal if they give the same index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree {
    /// The name of the root directory: the name of the volume.
    pub volume_name: String,
    directories: BTreeMap<FileUid, Directory>,
    highest_uid: FileUid,
    files: usize,
}

impl Tree {
    /// An empty volume.
    #[must_use]
    pub fn new(volume_name: &str, now: Timestamp) -> Self {
        Tree {
            volume_name: volume_name.to_owned(),
            directories: BTreeMap::from([(FileUid::ROOT, Directory::new(now))]),
            highest_uid: FileUid::ROOT,
            files: 0,
        }
    }

    /// Puts a tree together from what a parser has checked: all numbers unique and at most `highest_uid`,
    /// every directory but the root held by exactly one other.
    pub(crate) fn from_parts(
        volume_name: String,
        directories: BTreeMap<FileUid, Directory>,
        highest_uid: FileUid,
        files: usize,
    ) -> Self {
        assert!(directories.contains_key(&FileUid::ROOT), "a tree has a root");
        Tree { volume_name, directories, highest_uid, files }
    }

    /// The root directory.
    #[must_use]
    pub fn root(&self) -> &Directory {
        self.directories.get(&FileUid::ROOT).expect("a tree has a root")
    }

    /// A directory by its number.
    #[must_use]
    pub fn directory(&self, uid: FileUid) -> Option<&Directory> {
        self.directories.get(&uid)
    }

    /// The highest number given so far.
    #[must_use]
    pub fn highest_uid(&self) -> FileUid {
        self.highest_uid
    }

    /// Number of files and symbolic links.
    #[must_use]
    pub fn files_len(&self) -> usize {
        self.files
    }

    /// Number of directories, the root included.
    #[must_use]
    pub fn directories_len(&self) -> usize {
        self.directories.len()
    }

    /// What stands at a path. `None` for the root and for what does not exist.
    #[must_use]
    pub fn lookup<S: AsRef<str>>(&self, path: &[S]) -> Option<&Entry> {
        let (name, parents) = path.split_last()?;
        let mut directory = self.root();
        for parent in parents {
            match directory.entries.get(parent.as_ref())? {
                Entry::Directory(uid) => directory = self.directories.get(uid)?,
                Entry::File(_) => return None,
            }
        }
        directory.entries.get(name.as_ref())
    }

    /// The number of the directory in which a path's last name stands, if there is one.
    #[must_use]
    pub fn directory_of<S: AsRef<str>>(&self, path: &[S]) -> Option<FileUid> {
        let (_, parents) = path.split_last()?;
        parents.iter().try_fold(FileUid::ROOT, |at, parent| {
            match self.directories.get(&at)?.entries.get(parent.as_ref())? {
                Entry::Directory(uid) => Some(*uid),
                Entry::File(_) => None,
            }
        })
    }

    /// Whether [`Tree::insert_file`] would take a file at this path.
    ///
    /// # Errors
    /// Says what is in the way.
    pub fn check<S: AsRef<str>>(&self, path: &[S]) -> Result<(), InsertError> {
        if path.is_empty() || path.len() > TREE_DEPTH_MAX {
            return Err(InsertError::Depth(path.len()));
        }
        if let Some(bad) = path.iter().find(|name| !is_tape_name(name.as_ref())) {
            return Err(InsertError::Name(bad.as_ref().to_owned()));
        }
        let mut directory = Some(self.root());
        for (at, name) in path.iter().enumerate() {
            let last = at + 1 == path.len();
            let entry = directory.and_then(|directory| directory.entries.get(name.as_ref()));
            directory = match entry {
                Some(_) if last => return Err(InsertError::Occupied(join(path))),
                Some(Entry::Directory(uid)) => self.directories.get(uid),
                Some(Entry::File(_)) => {
                    return Err(InsertError::NotADirectory(join(path.get(..=at).unwrap_or(path))));
                }
                None => None,
            };
        }
        Ok(())
    }

    /// Puts a file at a path and gives it a fresh number; directories on the way that do not exist are made
    /// with all their times `now`. Nothing changes if it fails. Costs one map lookup a component.
    ///
    /// # Errors
    /// If the path is taken, leads through a file, or is no path on tape.
    pub fn insert_file<S: AsRef<str>>(
        &mut self,
        path: &[S],
        mut file: File,
        now: Timestamp,
    ) -> Result<FileUid, InsertError> {
        self.check(path)?;
        let (name, parents) = path.split_last().ok_or(InsertError::Depth(0))?;
        if self.highest_uid.0.checked_add(path.len() as u64).is_none() {
            return Err(InsertError::Uids);
        }
        let mut at = FileUid::ROOT;
        for parent in parents {
            at = self.subdirectory(at, parent.as_ref(), now);
        }
        file.uid = self.fresh_uid();
        let uid = file.uid;
        self.change(at, now).insert(name.as_ref().to_owned(), Entry::File(Box::new(file)));
        self.files += 1;
        Ok(uid)
    }

    /// Takes files out of a directory, and gives how many those were. The directory stays, empty or not; the
    /// numbers of the files are not given again.
    pub fn remove_files(
        &mut self,
        directory: FileUid,
        mut which: impl FnMut(&File) -> bool,
        now: Timestamp,
    ) -> usize {
        let Some(found) = self.directories.get_mut(&directory) else { return 0 };
        let before = found.entries.len();
        found.entries.retain(|_, entry| !matches!(entry, Entry::File(file) if which(file)));
        let removed = before - found.entries.len();
        if removed > 0 {
            found.times.modify = now;
            found.times.change = now;
        }
        self.files -= removed;
        removed
    }

    /// All files with the directories that hold them, in no order that means anything.
    pub fn files_by_directory(&self) -> impl Iterator<Item = (FileUid, &File)> {
        self.directories.iter().flat_map(|(uid, directory)| {
            directory.entries.values().filter_map(|entry| match entry {
                Entry::File(file) => Some((*uid, file.as_ref())),
                Entry::Directory(_) => None,
            })
        })
    }

    /// All files with their paths, depth first, in order of names.
    pub fn iter(&self) -> Files<'_> {
        Files { tree: self, path: Vec::new(), levels: vec![self.root().entries.iter()] }
    }

    fn subdirectory(&mut self, parent: FileUid, name: &str, now: Timestamp) -> FileUid {
        let existing = self.directories.get(&parent).and_then(|directory| directory.entries.get(name));
        if let Some(Entry::Directory(uid)) = existing {
            return *uid;
        }
        let uid = self.fresh_uid();
        self.change(parent, now).insert(name.to_owned(), Entry::Directory(uid));
        self.directories.insert(uid, Directory::new(now));
        uid
    }

    fn change(&mut self, uid: FileUid, now: Timestamp) -> &mut BTreeMap<String, Entry> {
        let directory = self.directories.get_mut(&uid).expect("an entry's directory is in the tree");
        directory.times.modify = now;
        directory.times.change = now;
        &mut directory.entries
    }

    fn fresh_uid(&mut self) -> FileUid {
        self.highest_uid = FileUid(self.highest_uid.0 + 1);
        self.highest_uid
    }
}

impl<'a> IntoIterator for &'a Tree {
    type Item = (Vec<&'a str>, &'a File);
    type IntoIter = Files<'a>;

    fn into_iter(self) -> Files<'a> {
        self.iter()
    }
}

/// The files of a tree; see [`Tree::iter`].
#[derive(Debug)]
pub struct Files<'a> {
    tree: &'a Tree,
    path: Vec<&'a str>,
    levels: Vec<btree_map::Iter<'a, String, Entry>>,
}

impl<'a> Iterator for Files<'a> {
    type Item = (Vec<&'a str>, &'a File);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.levels.last_mut()?.next() {
                Some((name, Entry::File(file))) => {
                    let mut path = self.path.clone();
                    path.push(name);
                    return Some((path, file));
                }
                Some((name, Entry::Directory(uid))) => {
                    if let Some(directory) = self.tree.directory(*uid) {
                        self.path.push(name);
                        self.levels.push(directory.entries.iter());
                    }
                }
                None => {
                    self.levels.pop();
                    self.path.pop();
                }
            }
        }
    }
}

/// Whether an index may hold the name as it is, percent-encoding apart.
pub(crate) fn is_tape_name(name: &str) -> bool {
    let length = (1..=TAPE_NAME_BYTES_MAX).contains(&name.len());
    length && !name.contains(['/', '\0']) && name != "." && name != ".." && is_nfc(name)
}

fn join<S: AsRef<str>>(path: &[S]) -> String {
    path.iter().map(|name| format!("/{}", name.as_ref())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> File {
        File {
            uid: FileUid(0),
            length: ByteCount(0),
            times: Times::all(Timestamp(0)),
            read_only: false,
            xattrs: Vec::new(),
            extents: Vec::new(),
            symlink: None,
        }
    }

    #[test]
    fn directories_are_made_and_conflicts_named() {
        let mut tree = Tree::new("KS0001", Timestamp(0));
        assert_eq!(tree.insert_file(&["a", "b", "c"], file(), Timestamp(5)), Ok(FileUid(4)));
        assert_eq!(tree.insert_file(&["a", "d"], file(), Timestamp(6)), Ok(FileUid(5)));
        let before = tree.clone();
        let occupied = Err(InsertError::Occupied("/a/b".into()));
        assert_eq!(tree.insert_file(&["a", "b"], file(), Timestamp(7)), occupied);
        let through = Err(InsertError::NotADirectory("/a/d".into()));
        assert_eq!(tree.insert_file(&["a", "d", "x"], file(), Timestamp(7)), through);
        for bad in ["", ".", "..", "e\u{301}", "a/b", "a\0"] {
            assert_eq!(tree.insert_file(&[bad], file(), Timestamp(7)), Err(InsertError::Name(bad.into())));
        }
        assert_eq!(tree.insert_file(&[] as &[&str], file(), Timestamp(7)), Err(InsertError::Depth(0)));
        assert_eq!(tree, before);
        let paths: Vec<String> = tree.iter().map(|(path, _)| path.join("/")).collect();
        assert_eq!(paths, ["a/b/c", "a/d"]);
        assert_eq!((tree.files_len(), tree.directories_len(), tree.highest_uid()), (2, 3, FileUid(5)));
        assert_eq!(tree.root().times.modify, Timestamp(5));
        assert!(matches!(tree.lookup(&["a", "b"]), Some(Entry::Directory(FileUid(3)))));
        assert!(tree.lookup(&["a", "d", "x"]).is_none());
    }

    #[test]
    fn a_file_is_taken_out_and_nothing_else() {
        let mut tree = Tree::new("KS0001", Timestamp(0));
        for path in [&["a", "b"][..], &["a", "c"], &["a", "d", "e"], &["f"]] {
            assert!(tree.insert_file(path, file(), Timestamp(1)).is_ok());
        }
        let of = |tree: &Tree, name: &str| match tree.lookup(&["a", name]) {
            Some(Entry::File(file)) => file.uid,
            other => panic!("{other:?}"),
        };
        let (directory, gone) = (FileUid(2), of(&tree, "b"));
        assert_eq!(tree.remove_files(directory, |file| file.uid == gone, Timestamp(9)), 1);
        assert_eq!(tree.remove_files(directory, |file| file.uid == gone, Timestamp(11)), 0);
        let paths: Vec<String> = tree.iter().map(|(path, _)| path.join("/")).collect();
        assert_eq!((paths, tree.files_len()), (vec!["a/c".into(), "a/d/e".into(), "f".into()], 3));
        assert_eq!(tree.directory(directory).unwrap().times.modify, Timestamp(9));
        let highest = tree.highest_uid();
        assert_eq!(tree.insert_file(&["a", "b"], file(), Timestamp(12)), Ok(FileUid(highest.0 + 1)));
        assert_eq!(tree.files_by_directory().filter(|(uid, _)| *uid == directory).count(), 2);
    }

    #[test]
    fn the_deepest_path_is_possible_and_one_more_is_not() {
        let mut tree = Tree::new("KS0001", Timestamp(0));
        let path = vec!["a"; TREE_DEPTH_MAX + 1];
        let deepest = &path[1..];
        assert!(tree.insert_file(deepest, file(), Timestamp(0)).is_ok());
        assert_eq!(
            tree.insert_file(&path, file(), Timestamp(0)),
            Err(InsertError::Depth(TREE_DEPTH_MAX + 1))
        );
        assert_eq!(tree.iter().next().unwrap().0.len(), TREE_DEPTH_MAX);
    }
}
