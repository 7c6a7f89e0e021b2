//! Directories that are removed at once with all that is in them: over a restart, under readers and writers,
//! and from the tapes.

use std::fs;
use std::sync::Arc;

use archive::{Archive, ArchiveError, Machines, PutOptions, RemoveTree, Stat, TreeRemoval, Which};
use base::{ByteCount, DirId};
use catalogue::{BULK_FILES, Command, Entry, Hold, Outcome, Work};

use crate::common::{
    Instance, SystemClock, bytes, get, migrate_all, path, put, put_with, stage, stop, wait_for, wait_until,
};

fn how() -> RemoveTree {
    RemoveTree { owner: "test".to_owned(), directory: None, with_lists: true }
}

fn wait_ended(archive: &Archive, id: DirId) -> TreeRemoval {
    wait_until("the tree is gone", || archive.tree_removal(id).unwrap().record.ended.is_some());
    archive.tree_removal(id).unwrap()
}

fn live(archive: &Archive) -> u64 {
    archive.totals().unwrap().live.files
}

fn is_gone(archive: &Archive, at: &str) -> bool {
    matches!(archive.stat(&path(at)), Err(ArchiveError::NotFound(_)))
}

#[test]
fn the_name_is_free_at_once_and_the_files_go_behind() {
    let instance = Instance::new(ByteCount::mib(128));
    let archive = instance.open();
    for number in 0..20 {
        put(&archive, &format!("/t/d{}/f{number}", number % 3), &bytes(number, 1_000));
    }
    put(&archive, "/kept/f", b"kept");
    let removal = archive.remove_tree(&path("/t"), how()).unwrap();
    assert_eq!((removal.record.path.as_str(), removal.record.owner.as_str()), ("/t", "test"));
    assert!(is_gone(&archive, "/t") && is_gone(&archive, "/t/d1/f1"));
    put(&archive, "/t/d1/f1", b"anew");
    let ended = wait_ended(&archive, removal.id);
    assert_eq!((ended.record.files, ended.record.directories), (20, 4));
    assert_eq!(ended.record.bytes, ByteCount(20_000));
    assert_eq!(archive.tree_removals().unwrap(), [ended]);
    assert_eq!(get(&archive, "/t/d1/f1").unwrap(), b"anew");
    assert_eq!(live(&archive), 2);
    // A file, nothing and the root are not removed like that.
    let refused = |at: &str| archive.remove_tree(&path(at), how()).unwrap_err();
    assert!(matches!(refused("/kept/f"), ArchiveError::NotADirectory(_)));
    assert!(matches!(refused("/nothing"), ArchiveError::NotFound(_)));
    assert!(matches!(refused("/"), ArchiveError::NotEmpty(_)));
    let other = RemoveTree { directory: Some(DirId(1)), ..how() };
    assert!(matches!(archive.remove_tree(&path("/kept"), other), Err(ArchiveError::TreeChanges)));
    archive.close();
}

/// The server dies when the name is gone and one batch was removed: the next start goes on.
#[test]
fn a_restart_goes_on_where_the_last_server_was() {
    let instance = Instance::new(ByteCount::mib(128));
    let archive = instance.open();
    for number in 0..6 {
        put(&archive, &format!("/t/d/f{number}"), &bytes(number, 1_000));
    }
    stop(archive);
    let machines = Machines::open(&instance.settings, Arc::new(SystemClock)).unwrap();
    let catalogue = &machines.catalogue;
    let (parent, name) = (DirId::ROOT, base::Name::new("t").unwrap());
    let Some(Entry::Directory(directory)) = catalogue.read(|view| view.entry(parent, &name)).unwrap() else {
        panic!()
    };
    let owner = "test".to_owned();
    let condemn = Command::CondemnTree { parent, name, directory, owner, with_lists: true };
    catalogue.execute(condemn).unwrap();
    let some = Command::DoSome { work: Work::RemoveTree(directory), most: 2 };
    assert!(matches!(catalogue.execute(some), Ok(Outcome::TreeRemoved { more: true, .. })));
    drop(machines);
    let archive = instance.open();
    let ended = wait_ended(&archive, directory);
    assert_eq!((ended.record.files, ended.record.directories), (6, 2));
    assert_eq!(live(&archive), 0);
    archive.close();
}

#[test]
fn who_reads_a_file_of_the_tree_reads_it_to_its_end() {
    let instance = Instance::new(ByteCount::mib(128));
    let archive = instance.open();
    let content = bytes(1, 5_000_000);
    put(&archive, "/t/big", &content);
    let mut download = archive.open_read(&path("/t/big")).unwrap();
    let mut read = download.next().unwrap().unwrap().as_ref().to_vec();
    let removal = archive.remove_tree(&path("/t"), how()).unwrap();
    wait_ended(&archive, removal.id);
    while let Some(chunk) = download.next().unwrap() {
        read.extend_from_slice(chunk.as_ref());
    }
    assert!(read == content);
    archive.close();
}

/// A put that began in a directory which is removed at once would be acknowledged and removed behind, if its
/// commit went into that directory.
#[test]
fn a_put_on_its_way_into_the_tree_is_kept_at_its_path() {
    let instance = Instance::new(ByteCount::mib(128));
    let archive = instance.open();
    for number in 0..2 * BULK_FILES {
        put(&archive, &format!("/t/d/f{number}"), b"");
    }
    let options = || PutOptions { make_parents: true, ..PutOptions::default() };
    let mut begun = archive.begin_put(&path("/t/d/late"), options()).unwrap();
    begun.write(&bytes(1, 1_000_000)).unwrap();
    let removal = archive.remove_tree(&path("/t"), how()).unwrap();
    begun.finish().unwrap();
    put_with(&archive, "/t/d/later", b"later", options()).unwrap();
    wait_ended(&archive, removal.id);
    assert_eq!(get(&archive, "/t/d/late").unwrap(), bytes(1, 1_000_000));
    assert_eq!(get(&archive, "/t/d/later").unwrap(), b"later");
    assert_eq!(live(&archive), 2);
    archive.close();
}

#[test]
fn a_held_file_is_named_and_nothing_is_done() {
    let instance = Instance::new(ByteCount::mib(128));
    let archive = instance.open();
    put(&archive, "/t/a/held", b"held");
    put(&archive, "/t/b/free", b"free");
    let hold = |legal| Hold { retention: None, legal };
    archive.set_hold(&path("/t/a/held"), Which::Current, hold(true), false).unwrap();
    match archive.remove_tree(&path("/t"), how()) {
        Err(ArchiveError::NotAtOnce { why, .. }) => {
            assert_eq!(why.to_string(), "/t/a/held has a retention or a legal hold");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(get(&archive, "/t/b/free").unwrap(), b"free");
    assert_eq!(archive.tree_removals().unwrap(), []);
    // Beside it all may go; and all of it when nothing holds it any more.
    let beside = archive.remove_tree(&path("/t/b"), how()).unwrap();
    archive.set_hold(&path("/t/a/held"), Which::Current, hold(false), false).unwrap();
    let all = archive.remove_tree(&path("/t"), how()).unwrap();
    wait_ended(&archive, beside.id);
    wait_ended(&archive, all.id);
    assert_eq!(live(&archive), 0);
    archive.close();
}

/// What was removed does not come back, neither with the catalogue that is made anew from the tapes nor by a
/// request that waited for it; what stands beside it does.
#[test]
fn a_removed_tree_does_not_come_back_from_the_tapes() {
    let instance = Instance::new(ByteCount::mib(128));
    let archive = instance.open();
    for number in 0..4 {
        put(&archive, &format!("/t/f{number}"), &bytes(number, 100_000));
    }
    put(&archive, "/kept/f", &bytes(9, 100_000));
    migrate_all(&archive);
    archive.evict(&crate::common::all(&["/"])).unwrap();
    let request = stage(&archive, &["/t"]);
    let removal = archive.remove_tree(&path("/t"), how()).unwrap();
    wait_for(&archive, request);
    wait_ended(&archive, removal.id);
    // The changes go to tape with the next session.
    put(&archive, "/kept/g", &bytes(10, 100_000));
    migrate_all(&archive);
    stop(archive);

    fs::remove_dir_all(&instance.settings.catalogue_directory).unwrap();
    crate::rebuild::rebuild_all(&instance);
    let archive = instance.open();
    assert!(is_gone(&archive, "/t"));
    assert!(matches!(archive.stat(&path("/kept/f")), Ok(Stat::File(_))));
    assert_eq!(live(&archive), 2);
    archive.close();
}

/// Story: `kist mv /t /t/below/x` was refused in numbers of directories.
#[test]
fn a_directory_is_not_moved_into_itself_and_paths_say_so() {
    let instance = Instance::new(ByteCount::mib(128));
    let archive = instance.open();
    put(&archive, "/t/below/f", b"f");
    let refused = archive.rename(&path("/t"), &path("/t/below/x"), false).unwrap_err();
    let said = "/t cannot be moved to /t/below/x, which is in it: choose another target";
    assert_eq!(refused.to_string(), said);
    stop(archive);
}
