//! Renames and new buckets of callers with few rights, over the engine itself.

use std::sync::Arc;

use archive::{AclEntry, Archive, ArchiveError, BucketSettings, PutOptions, RenameOf};
use authority::{Bytes, Guard, Guarded, Namespace, Objects};
use base::{ArchivePath, ByteCount, Name};
use catalogue::Attributes;
use identity::{Caller, Capability, Rights};

use crate::common::Instance;

fn path(text: &str) -> ArchivePath {
    ArchivePath::new(text).unwrap()
}

fn owned(owner: &str) -> Attributes {
    Attributes { owner: owner.to_owned(), mode: 0o644, ..Attributes::default() }
}

/// Directories and files of these owners; names that end in a slash are directories.
fn tree(archive: &Archive, entries: &[(&str, &str)]) {
    for (at, owner) in entries {
        match at.strip_suffix('/') {
            Some(directory) => archive.make_directory(&path(directory), owned(owner), None, false).unwrap(),
            None => {
                let options = PutOptions { attributes: owned(owner), ..PutOptions::default() };
                let mut upload = archive.begin_put(&path(at), options).unwrap();
                upload.write(b"secret").unwrap();
                upload.finish().unwrap();
            }
        }
    }
}

fn grant(archive: &Archive, at: &str, entries: &[&str]) {
    let entry = |text: &&str| {
        let entry: identity::AclEntry = text.parse().unwrap();
        AclEntry { subject: entry.subject.to_string(), rights: entry.rights.bits() }
    };
    archive.set_acl(&path(at), Some(entries.iter().map(entry).collect())).unwrap();
}

fn enter(archive: &Archive, caller: Caller) -> Arc<Guarded<Archive>> {
    Guard::new(Arc::default(), Arc::new(archive.clone())).enter(&Arc::new(caller))
}

fn is_denied<T>(outcome: Result<T, ArchiveError>) -> bool {
    matches!(outcome, Err(ArchiveError::Denied { .. }))
}

/// Whoever may write and not read renamed a file into a directory of their own, where all was theirs.
#[test]
fn a_rename_gives_nobody_rights() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    let entries = [
        ("/a/", "anna"),
        ("/a/f", "anna"),
        ("/a/g", "anna"),
        ("/a/of-bert", "bert"),
        ("/a/d/", "anna"),
        ("/a/listed/", "anna"),
        ("/a/plain/", ""),
        ("/b/", "bert"),
        ("/open/", "anna"),
        ("/carl/", "carl"),
    ];
    tree(&archive, &entries);
    grant(&archive, "/a", &["user:bert:w"]);
    grant(&archive, "/a/listed", &["user:bert:w"]);
    grant(&archive, "/open", &["anyone:rw"]);
    grant(&archive, "/carl", &["user:bert:w"]);
    let bert = enter(&archive, Caller::named("bert", []));
    let moves = |from: &str, to: &str| bert.rename(&path(from), &path(to), false);
    assert!(is_denied(moves("/a/f", "/b/f")), "a directory of one's own");
    assert!(is_denied(moves("/a/d", "/b/d")));
    assert!(is_denied(moves("/a/f", "/open/f")), "where others may read it");
    assert!(is_denied(moves("/a/f", "/carl/f")), "another owner with the same rights for the caller");
    bert.make_directory(&path("/a/mine"), Attributes::default(), None, false).unwrap();
    assert!(is_denied(moves("/a/f", "/a/mine/f")), "a directory of one's own below the same list");
    assert!(is_denied(bert.open_read_for(&path("/a/f"), "")));
    assert!(archive.stat(&path("/a/f")).is_ok());
    // What changes nothing, and what is one's own.
    moves("/a/f", "/a/f2").unwrap();
    moves("/a/f2", "/a/plain/f2").unwrap();
    moves("/a/plain/f2", "/a/f").unwrap();
    moves("/a/of-bert", "/b/of-bert").unwrap();
    // With the right to read, a file that would not become the caller's to stage; then a copy in effect.
    grant(&archive, "/a", &["user:bert:rw"]);
    moves("/a/f", "/open/f").unwrap();
    assert!(is_denied(moves("/a/g", "/b/g")), "it would be the caller's to stage");
    assert!(is_denied(moves("/a/d", "/b/d")));
    grant(&archive, "/a", &["user:bert:rws"]);
    moves("/a/g", "/b/g").unwrap();
    assert!(is_denied(moves("/a/d", "/b/d")), "what is held in it would be the caller's to let go");
    archive.close();
}

#[test]
fn a_token_moves_what_is_its_own_and_gains_nothing() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    tree(&archive, &[("/v/", "anna"), ("/v/theirs", "anna"), ("/v/own", "job"), ("/w/", "carl")]);
    let capability = |rights: Rights, at: &str| Capability {
        rights: rights.implied(),
        path: path(at),
        is_directory: false,
    };
    let job =
        |capabilities: Vec<Capability>| enter(&archive, Caller { capabilities, ..Caller::named("job", []) });
    let creates = job(vec![capability(Rights::CREATE, "/")]);
    assert!(is_denied(creates.rename(&path("/v/theirs"), &path("/w/theirs"), false)), "carl would read it");
    creates.rename(&path("/v/theirs"), &path("/v/other"), false).unwrap();
    creates.rename(&path("/v/own"), &path("/w/own"), false).unwrap();
    let reads = vec![capability(Rights::CREATE, "/"), capability(Rights::READ, "/v")];
    let refused = job(reads).rename(&path("/w/own"), &path("/v/own"), false);
    assert!(is_denied(refused), "the token may read in /v only");
    archive.close();
}

/// Names change between the look at rights and the rename: it goes by what was looked at.
#[test]
fn a_rename_of_what_was_looked_at_renames_nothing_else() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    tree(&archive, &[("/x/", "bert"), ("/x/own", "anna"), ("/x/secret", "bert"), ("/x/to/", "bert")]);
    tree(&archive, &[("/anna/", "anna")]);
    let looked = |at: &str| archive.access_chain(&path(at)).unwrap();
    let of = RenameOf {
        source: looked("/x/own").entry.unwrap(),
        from_parent: looked("/x/own").directory.unwrap(),
        to_parent: looked("/x/to/f").directory.unwrap(),
        replace: false,
    };
    archive.rename(&path("/x/own"), &path("/x/aside"), false).unwrap();
    archive.rename(&path("/x/secret"), &path("/x/own"), false).unwrap();
    let renamed = archive.rename_entry(&path("/x/own"), &path("/x/to/f"), &of);
    assert!(matches!(renamed, Err(ArchiveError::TreeChanges)), "{renamed:?}");
    archive.rename(&path("/x/own"), &path("/x/secret"), false).unwrap();
    archive.rename(&path("/x/aside"), &path("/x/own"), false).unwrap();
    // Anna's directory gets the name of the one that was looked at.
    archive.rename(&path("/x/to"), &path("/x/was-to"), false).unwrap();
    archive.rename(&path("/anna"), &path("/x/to"), false).unwrap();
    archive.rename_entry(&path("/x/own"), &path("/x/to/f"), &of).unwrap();
    assert!(archive.stat(&path("/x/was-to/f")).is_ok());
    assert!(archive.stat(&path("/x/to/f")).is_err());
    archive.close();
}

/// `user:anna=lc` in the list of the root, the only way to let somebody make buckets, held in the buckets of
/// everybody else too.
#[test]
fn the_right_to_make_buckets_opens_nothing_else() {
    let instance = Instance::new(ByteCount::mib(64));
    let archive = instance.open();
    tree(&archive, &[("/theirs/", "bert"), ("/theirs/f", "bert"), ("/nobodys/", "")]);
    grant(&archive, "/", &["user:anna:b"]);
    let anna = enter(&archive, Caller::named("anna", []));
    let make = |name: &str| anna.make_bucket(&Name::new(name).unwrap(), "", &BucketSettings::default());
    make("mine").unwrap();
    anna.make_directory(&path("/also"), Attributes::default(), None, false).unwrap();
    for own in ["/mine", "/also"] {
        anna.list(&path(own), None, 10).unwrap();
        assert_eq!(archive.access_chain(&path(own)).unwrap().owner, "anna");
    }
    assert!(matches!(make("theirs"), Err(ArchiveError::Exists(_))), "as S3 has it");
    assert_eq!(archive.access_chain(&path("/theirs")).unwrap().owner, "bert");
    for closed in ["/theirs", "/nobodys", "/"] {
        assert!(is_denied(anna.list(&path(closed), None, 10)), "{closed}");
    }
    assert!(is_denied(anna.stat(&path("/theirs"))));
    let begun = anna.begin_put(&path("/nobodys/f"), PutOptions::default());
    assert!(is_denied(begun), "only directories, and only in the root");
    assert!(is_denied(anna.begin_put(&path("/f"), PutOptions::default())));
    for below in ["/nobodys/d", "/new/d"] {
        let made = anna.make_directory(&path(below), Attributes::default(), None, true);
        assert!(is_denied(made), "{below}");
    }
    assert_eq!(anna.buckets().unwrap().len(), 2);
    let bert = enter(&archive, Caller::named("bert", []));
    assert!(is_denied(bert.make_bucket(&Name::new("more").unwrap(), "", &BucketSettings::default())));
    let token = Capability { rights: Rights::READ.implied(), path: path("/"), is_directory: true };
    let confined = enter(&archive, Caller { capabilities: vec![token], ..Caller::named("anna", []) });
    assert!(is_denied(confined.make_bucket(&Name::new("more").unwrap(), "", &BucketSettings::default())));
    archive.close();
}
