//! What the demonstration archives: a tree that the user names, else a part of the Rust toolchain, else files
//! made up.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use client::transfer::{LocalItem, LocalTree, walk};
use terminal::{Failure, Outcome};

/// The least that a demonstration archives by itself.
const FILES_MIN: usize = 5_000;
const BYTES_MIN: u64 = 1 << 30;
/// Of smaller files than this only some are taken.
const SMALL_BYTES: u64 = 16 << 10;
/// One of so many.
const SMALL_ONE_OF: usize = 16;
/// Where files are made up, below the instance's directory.
const MADE_UP: &str = "made-up";

/// The files to put and what they are called.
pub struct Source {
    /// Files, links and directories.
    pub tree: LocalTree,
    /// Where they come from, for people.
    pub name: String,
}

/// The tree that somebody named.
pub fn named(from: &Path) -> Outcome<Source> {
    let tree = walk(from)?;
    if tree.files.is_empty() {
        return Err(Failure::usage(format!("{}: there are no files in it", from.display())));
    }
    Ok(Source { tree, name: from.display().to_string() })
}

/// What is archived if nobody named anything; what has to be made up for that is made in the instance.
pub fn usual(instance: &Path) -> Outcome<Source> {
    let toolchain = toolchain();
    let mut tree = match &toolchain {
        Some(root) => subset(walk(root)?),
        None => LocalTree::default(),
    };
    let mut name = match &toolchain {
        Some(root) => format!("a part of {}", root.display()),
        None => String::new(),
    };
    let (files, bytes) = (tree.files.len(), tree.bytes());
    if files < FILES_MIN || bytes < BYTES_MIN {
        let directory = instance.join(MADE_UP);
        make_up(&directory, FILES_MIN.saturating_sub(files), BYTES_MIN.saturating_sub(bytes))?;
        let made = walk(&directory)?;
        let below = |mut item: LocalItem| {
            let slash = if item.relative.is_empty() { "" } else { "/" };
            item.relative = format!("{MADE_UP}{slash}{}", item.relative);
            item
        };
        tree.directories.extend(made.directories.into_iter().map(below));
        tree.files.extend(made.files.into_iter().map(below));
        let and = if name.is_empty() { "" } else { " and " };
        name = format!("{name}{and}files made up in {}", directory.display());
    }
    Ok(Source { tree, name })
}

fn toolchain() -> Option<PathBuf> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "sysroot"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(text.trim())).filter(|path| path.is_dir())
}

/// All larger files and some of the small ones, in path order, until there are enough; the same ones each
/// time.
fn subset(tree: LocalTree) -> LocalTree {
    let total = tree.files.len();
    let mut chosen = LocalTree::default();
    let (mut bytes, mut taken) = (0u64, BTreeSet::new());
    let take_all = total < FILES_MIN * 2;
    for (at, file) in tree.files.into_iter().enumerate() {
        if chosen.files.len() >= FILES_MIN && bytes >= BYTES_MIN + BYTES_MIN / 16 {
            break;
        }
        if take_all || file.size >= SMALL_BYTES || at % SMALL_ONE_OF == 0 {
            bytes += file.size;
            for (end, _) in file.relative.match_indices('/') {
                taken.insert(file.relative[..end].to_owned());
            }
            chosen.files.push(file);
        }
    }
    let keep = |directory: &LocalItem| directory.relative.is_empty() || taken.contains(&directory.relative);
    chosen.directories = tree.directories.into_iter().filter(keep).collect();
    chosen
}

/// Makes at least so many files and bytes, of all sizes, the same each time; what is there already is kept.
fn make_up(directory: &Path, files: usize, bytes: u64) -> Outcome {
    let failed = |error: std::io::Error| Failure::io("making files up", directory, &error);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let (mut made, mut made_bytes) = (0usize, 0u64);
    while made < files || made_bytes < bytes {
        let size = match made % 100 {
            0 => 24 << 20,
            1..=6 => (1 << 20) + next(&mut state) % (1 << 20),
            _ => next(&mut state) % (64 << 10),
        };
        let below = directory.join(format!("{:03}", made / 100));
        fs::create_dir_all(&below).map_err(failed)?;
        let path = below.join(format!("{made:06}.bin"));
        if fs::metadata(&path).map(|metadata| metadata.len()).ok() != Some(size) {
            write_random(&path, size, made as u64).map_err(failed)?;
        }
        made += 1;
        made_bytes += size;
    }
    Ok(())
}

fn write_random(path: &Path, size: u64, seed: u64) -> std::io::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut state = seed.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
    let mut left = size;
    while left > 0 {
        let bytes = next(&mut state).to_le_bytes();
        let count = left.min(8);
        file.write_all(bytes.get(..count as usize).unwrap_or_default())?;
        left -= count;
    }
    file.flush()
}

/// Xorshift: enough to make bytes that differ.
fn next(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_made_up_once_and_alike() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("m");
        make_up(&root, 20, 1000).unwrap();
        let first = walk(&root).unwrap();
        assert!(first.files.len() >= 20 && first.bytes() >= 1000);
        let times = |tree: &LocalTree| tree.files.iter().map(|f| f.attributes.mtime).collect::<Vec<_>>();
        make_up(&root, 20, 1000).unwrap();
        assert_eq!(times(&walk(&root).unwrap()), times(&first));
    }

    #[test]
    fn a_named_tree_is_taken_whole() {
        let directory = tempfile::tempdir().unwrap();
        assert!(named(directory.path()).is_err());
        fs::write(directory.path().join("a"), "x").unwrap();
        assert_eq!(named(directory.path()).unwrap().tree.files.len(), 1);
    }
}
