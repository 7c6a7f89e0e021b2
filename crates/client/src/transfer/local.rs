//! Local trees.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use terminal::{Failure, Outcome};

use super::attributes::Attributes;

/// What a local name is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LocalKind {
    /// A file with bytes.
    File,
    /// A symbolic link and its target.
    Link(String),
    /// A directory.
    Directory,
}

/// A file, link or directory of a local tree.
#[derive(Clone, Debug)]
pub struct LocalItem {
    /// Where it is.
    pub path: PathBuf,
    /// Its path below the root of the walk; empty for the root itself.
    pub relative: String,
    /// What it is.
    pub kind: LocalKind,
    /// Bytes of a file.
    pub size: u64,
    /// Times, mode, owner.
    pub attributes: Attributes,
}

/// A tree: directories before what is in them, names in byte order.
#[derive(Debug, Default)]
pub struct LocalTree {
    /// Directories, the root first.
    pub directories: Vec<LocalItem>,
    /// Files and links.
    pub files: Vec<LocalItem>,
    /// What cannot be taken along, and why.
    pub left_out: Vec<(PathBuf, Failure)>,
}

impl LocalTree {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }
}

/// Reads a tree, or one file. Links are not followed, except when `root` is one itself.
pub fn walk(root: &Path) -> Outcome<LocalTree> {
    let metadata = fs::metadata(root).map_err(|error| Failure::io("reading", root, &error))?;
    let mut tree = LocalTree::default();
    let mut waiting = Vec::new();
    match item(root.to_owned(), String::new(), &metadata) {
        Ok(item) if item.kind == LocalKind::Directory => waiting.push(item),
        Ok(item) => tree.files.push(item),
        Err(failure) => return Err(failure),
    }
    while let Some(directory) = waiting.pop() {
        let inside = read_directory(&directory, &mut tree);
        // The stack is taken from its end, so the last of these comes next in byte order.
        waiting.extend(inside.into_iter().rev());
        tree.directories.push(directory);
    }
    Ok(tree)
}

/// Adds the files of a directory to the tree and returns its directories.
fn read_directory(directory: &LocalItem, tree: &mut LocalTree) -> Vec<LocalItem> {
    let failed = |error: &std::io::Error| Failure::io("reading the directory", &directory.path, error);
    let mut names = Vec::new();
    match fs::read_dir(&directory.path) {
        Ok(entries) => {
            for entry in entries {
                match entry {
                    Ok(entry) => names.push(entry.file_name()),
                    Err(error) => tree.left_out.push((directory.path.clone(), failed(&error))),
                }
            }
        }
        Err(error) => tree.left_out.push((directory.path.clone(), failed(&error))),
    }
    names.sort_unstable();
    let mut inside = Vec::new();
    for name in names {
        let path = directory.path.join(&name);
        let Some(name) = name.to_str() else {
            let failure =
                Failure::usage(format!("{}: the name is not UTF-8: rename the file", path.display()));
            tree.left_out.push((path, failure));
            continue;
        };
        let relative = match directory.relative.as_str() {
            "" => name.to_owned(),
            parent => format!("{parent}/{name}"),
        };
        let read = fs::symlink_metadata(&path).map_err(|error| Failure::io("reading", &path, &error));
        match read.and_then(|metadata| item(path.clone(), relative, &metadata)) {
            Ok(item) if item.kind == LocalKind::Directory => inside.push(item),
            Ok(item) => tree.files.push(item),
            Err(failure) => tree.left_out.push((path, failure)),
        }
    }
    inside
}

fn item(path: PathBuf, relative: String, metadata: &Metadata) -> Outcome<LocalItem> {
    let kind = if metadata.is_dir() {
        LocalKind::Directory
    } else if metadata.is_symlink() {
        let target = fs::read_link(&path).map_err(|error| Failure::io("reading the link", &path, &error))?;
        let Some(target) = target.to_str() else {
            return Err(Failure::usage(format!("{}: the link's target is not UTF-8", path.display())));
        };
        LocalKind::Link(target.to_owned())
    } else if metadata.is_file() {
        LocalKind::File
    } else {
        let message = format!("{}: neither file, directory nor link: left out", path.display());
        return Err(Failure::usage(message));
    };
    let size = if kind == LocalKind::File { metadata.len() } else { 0 };
    let attributes = Attributes::of(metadata).ok_or_else(|| {
        let (path, range) = (path.display(), base::Timestamp::RANGE);
        Failure::usage(format!(
            "{path}: its modification time is out of range: {range}: set another: touch FILE"
        ))
    })?;
    Ok(LocalItem { path, relative, kind, size, attributes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_are_read_in_order_and_links_are_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("b/empty")).unwrap();
        fs::create_dir(root.join("a")).unwrap();
        fs::write(root.join("b/f"), "12345").unwrap();
        fs::write(root.join("z"), "").unwrap();
        std::os::unix::fs::symlink("..", root.join("b/up")).unwrap();
        let tree = walk(root).unwrap();
        let names = |items: &[LocalItem]| items.iter().map(|i| i.relative.clone()).collect::<Vec<_>>();
        assert_eq!(names(&tree.directories), ["", "a", "b", "b/empty"]);
        assert_eq!(names(&tree.files), ["z", "b/f", "b/up"]);
        assert_eq!(tree.bytes(), 5);
        assert_eq!(tree.files[2].kind, LocalKind::Link("..".to_owned()));
        assert!(tree.left_out.is_empty());
    }

    #[test]
    fn sockets_are_left_out_with_a_reason() {
        let directory = tempfile::tempdir().unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(directory.path().join("s")).unwrap();
        let tree = walk(directory.path()).unwrap();
        assert_eq!((tree.files.len(), tree.left_out.len()), (0, 1));
    }
}
