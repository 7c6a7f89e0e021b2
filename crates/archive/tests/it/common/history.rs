//! A history with renames, deletes and new versions, and the comparison of two catalogues by what users see.

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use archive::{Archive, ListedKind, PutOptions, Stat};
use base::{DriveId, Timestamp, Uuid};
use catalogue::Attributes;

use crate::common::{Instance, all, bytes, get, path, put, put_with, stage, wait_for, wait_until};

/// The instance id that the tests' instances have.
pub const INSTANCE: Uuid = Uuid([7; 16]);

/// Names and bytes as they stand.
pub type Contents = BTreeMap<String, Vec<u8>>;

fn put_as(archive: &Archive, contents: &mut Contents, at: &str, seed: u64, length: usize) {
    let attributes = Attributes {
        mtime: Timestamp(1_600_000_000_123_456_789 + seed as i64),
        mode: 0o640,
        owner: "ada".to_owned(),
        group: "users".to_owned(),
        ..Attributes::default()
    };
    let options = PutOptions { make_parents: true, attributes, ..PutOptions::default() };
    let content = bytes(seed, length);
    put_with(archive, at, &content, options).unwrap();
    contents.insert(at.to_owned(), content);
}

/// The first part: many small files, some large ones, an empty one, renames, deletes, new versions.
pub fn first_part(archive: &Archive) -> Contents {
    let mut contents = Contents::new();
    for n in 0..40u64 {
        put_as(archive, &mut contents, &format!("/a/d{}/f{n}", n % 5), n + 1, 500 + 977 * n as usize);
    }
    for n in 0..4u64 {
        put_as(archive, &mut contents, &format!("/big/b{n}"), 100 + n, 2_500_000 + 333_333 * n as usize);
    }
    put(archive, "/a/empty", b"");
    contents.insert("/a/empty".to_owned(), Vec::new());
    put_as(archive, &mut contents, "/a/d0/f5", 900, 70_000);
    put_as(archive, &mut contents, "/big/b1", 901, 2_222_222);
    rename(archive, &mut contents, "/a/d1/f6", "/a/renamed é");
    rename(archive, &mut contents, "/big/b2", "/moved");
    for gone in ["/a/d2/f7", "/big/b3"] {
        archive.remove(&path(gone)).unwrap();
        contents.remove(gone);
    }
    contents
}

/// What comes later: it deletes, replaces and renames what the first part made.
pub fn second_part(archive: &Archive, contents: &mut Contents) {
    for n in 0..20u64 {
        put_as(archive, contents, &format!("/later/f{n}"), 2_000 + n, 3_000 + 100 * n as usize);
    }
    put_as(archive, contents, "/later/big", 2_100, 3_333_333);
    put_as(archive, contents, "/a/d0/f0", 2_200, 41_000);
    rename(archive, contents, "/a/d3/f8", "/later/was f8");
    for gone in ["/a/d4/f9", "/moved", "/a/d0/f10"] {
        archive.remove(&path(gone)).unwrap();
        contents.remove(gone);
    }
}

fn rename(archive: &Archive, contents: &mut Contents, from: &str, to: &str) {
    archive.rename(&path(from), &path(to), false).unwrap();
    let content = contents.remove(from).unwrap();
    contents.insert(to.to_owned(), content);
}

/// Everything that users see but where the bytes are: names, kinds, sizes, times, classes, checksums.
pub fn facts(archive: &Archive) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut directories = vec!["/".to_owned()];
    while let Some(directory) = directories.pop() {
        let (listed, more) = archive.list(&path(&directory), None, 1_000).unwrap();
        assert!(!more);
        for listed in listed {
            let at = format!("{}/{}", directory.trim_end_matches('/'), listed.name.as_str());
            let fact = match archive.stat(&path(&at)).unwrap() {
                Stat::Directory(stat) => format!("{:?}", (stat.created, stat.attributes, stat.class)),
                Stat::File(stat) => format!(
                    "{:?}",
                    (
                        stat.file,
                        stat.kind,
                        stat.size,
                        stat.created,
                        stat.attributes,
                        stat.checksums,
                        stat.class
                    )
                ),
            };
            if listed.what == ListedKind::Directory {
                directories.push(at.clone());
            }
            facts.insert(at, fact);
        }
    }
    facts
}

/// Brings everything online and compares every byte.
pub fn recall_and_compare(archive: &Archive, contents: &Contents) {
    let request = stage(archive, &["/"]);
    wait_for(archive, request);
    let record = archive.request(request).unwrap().record;
    assert_eq!(record.failed, 0, "{:?}", archive.why_request(request));
    compare(archive, contents);
    archive.release(request, None).unwrap();
}

/// Compares every byte.
pub fn compare(archive: &Archive, contents: &Contents) {
    for (name, content) in contents {
        assert!(&get(archive, name).unwrap() == content, "{name} differs");
    }
}

/// Takes every pool copy away that tapes have.
pub fn evict_all(archive: &Archive) {
    let evicted = archive.evict(&all(&["/"])).unwrap();
    assert_eq!(evicted.refused_count, 0, "{:?}", evicted.refused);
    wait_until("garbage is removed", || archive.pool_info().unwrap().garbage == 0);
}

/// Removes the catalogue.
pub fn destroy_catalogue(instance: &Instance) {
    fs::remove_dir_all(&instance.settings.catalogue_directory).unwrap();
}

/// Replaces all drives of the pool by blank ones.
pub fn blank_pool(instance: &Instance) {
    for drive in &instance.settings.pool.drives {
        fs::remove_dir_all(drive.at.directory()).unwrap();
        fs::create_dir_all(drive.at.directory()).unwrap();
        drive.at.format(Uuid::from_random(INSTANCE.0), DriveId(drive.id)).unwrap();
    }
}

/// Flips a bit in the middle of a file.
pub fn flip(file: &Path) {
    let mut content = fs::read(file).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 0x10;
    fs::write(file, content).unwrap();
}
