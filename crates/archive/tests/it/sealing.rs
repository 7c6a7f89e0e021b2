//! Packs with many members are sealed in pieces, so that puts need not wait for all of one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use archive::Archive;
use base::{BlobPiece, ByteCount, FileId, StreamChecksums};
use catalogue::{BULK_FILES, Command, Envelope, MemberRecord, OpenPack, Outcome, PoolData, TodoFile, Work};
use store::{CatalogueStore, StoreOptions};

use crate::common::{Instance, SystemClock, bytes, migrate_all, path, put, stop};
use crate::history::{Contents, evict_all, recall_and_compare};
use crate::restoring::{at_rest, back_to, check, open, shipped};

const FILES: u64 = 3 * BULK_FILES as u64 + 7;

fn instance() -> Instance {
    Instance::with(ByteCount::mib(256), at_rest)
}

fn fill(archive: &Archive) -> Contents {
    let contents: Contents = (0..FILES).map(|n| (format!("/t/file{n:04}"), bytes(n + 1, 90))).collect();
    let all: Vec<_> = contents.iter().collect();
    put(archive, all[0].0, all[0].1);
    std::thread::scope(|scope| {
        for some in all.chunks(100) {
            scope.spawn(move || some.iter().for_each(|(name, content)| drop(put(archive, name, content))));
        }
    });
    contents
}

/// The catalogue of an instance that is not running.
fn store(instance: &Instance) -> CatalogueStore {
    let options = StoreOptions::new(instance.settings.catalogue_map_size, Arc::new(SystemClock));
    CatalogueStore::open(&instance.settings.catalogue_directory, options).unwrap()
}

/// The changes that seal packs, by their numbers.
fn seals(instance: &Instance) -> Vec<(u64, Command)> {
    let changes = store(instance).read(|view| view.changes(1, usize::MAX, usize::MAX)).unwrap();
    let commands = changes.iter().map(|(number, bytes)| (*number, Envelope::decode(bytes).unwrap().command));
    let is_seal = |command: &Command| {
        matches!(
            command,
            Command::SealContainer(_)
                | Command::OpenPack(_)
                | Command::AddMembers { .. }
                | Command::ClosePack { .. }
                | Command::DissolvePack { .. }
                | Command::DoSome { work: Work::DissolvePack(_), .. }
        )
    };
    commands.filter(|(_, command)| is_seal(command)).collect()
}

/// Story: the seal of a pack of 20,000 members was one command of 455 ms, and puts waited for it.
#[test]
fn no_command_of_a_seal_has_many_members() {
    let instance = instance();
    let archive = instance.open();
    let contents = fill(&archive);
    migrate_all(&archive);
    stop(archive);
    let members: Vec<usize> = seals(&instance)
        .iter()
        .filter_map(|(_, command)| match command {
            Command::SealContainer(seal) => Some(seal.members.len()),
            Command::AddMembers { members, .. } => Some(members.len()),
            _ => None,
        })
        .collect();
    assert_eq!(members, [BULK_FILES, BULK_FILES, BULK_FILES, 7]);
    let archive = instance.open();
    evict_all(&archive);
    recall_and_compare(&archive, &contents);
    check(&archive);
    archive.close();
}

/// A crash in the middle: the pack is given up at the start, and its files go into others.
#[test]
fn a_seal_that_was_cut_off_is_given_up_at_the_start() {
    let instance = instance();
    let archive = instance.open();
    let mut contents = fill(&archive);
    contents.insert("/t/large".to_owned(), bytes(7, 300_000));
    put(&archive, "/t/large", &contents["/t/large"]);
    stop(archive);
    {
        let store = store(&instance);
        let class = store.read(|view| Ok(view.classes()?.remove(0).0)).unwrap();
        let todo = store.read(|view| view.todo(class, None, 600)).unwrap();
        let blobs = store.read(|view| view.blobs(None, usize::MAX)).unwrap();
        let striped = blobs.iter().find(|(_, blob)| blob.length.0 > 0).unwrap().0;
        let Outcome::Container(container) = store.execute(Command::ReserveContainer).unwrap() else {
            panic!("it gives a container")
        };
        let skeleton = PoolData {
            blobs: vec![store.read(|view| view.blob(striped)).unwrap().unwrap()],
            pieces: vec![BlobPiece { blob: striped, offset: ByteCount(0), length: ByteCount(1_000) }],
        };
        let open = OpenPack {
            container,
            class,
            members: 600,
            length: ByteCount(1 << 20),
            checksums: StreamChecksums::of(b"pack"),
            tape_path: "/.kist/pack".to_owned(),
            skeleton,
        };
        store.execute(Command::OpenPack(Box::new(open))).unwrap();
        let member = |(n, ((_, file), TodoFile { size, .. })): (u64, &((u64, FileId), TodoFile))| {
            let offset = ByteCount(n * 1024);
            MemberRecord {
                file: *file,
                header_offset: offset,
                data_offset: offset,
                length: *size,
                file_offset: ByteCount(0),
            }
        };
        let members = (0u64..).zip(todo.iter().take(550)).map(member).collect();
        store.execute(Command::AddMembers { container, members }).unwrap();
        assert_eq!(store.read(|view| view.sealing(9)).unwrap().len(), 1);
    }
    let archive = instance.open();
    assert_eq!(archive.totals().unwrap().todo.files, FILES + 1, "all wait again");
    check(&archive);
    migrate_all(&archive);
    stop(archive);
    assert_eq!(store(&instance).read(|view| view.sealing(9)).unwrap(), []);
    let archive = instance.open();
    evict_all(&archive);
    recall_and_compare(&archive, &contents);
    check(&archive);
    archive.close();
}

/// Files that are deleted or replaced while their pack is sealed: it is given up and gathered anew, and
/// nothing is lost or sealed twice.
#[test]
fn files_go_and_change_while_their_pack_is_sealed() {
    let instance = instance();
    let archive = instance.open();
    let mut contents = fill(&archive);
    let names: Vec<String> = contents.keys().cloned().collect();
    let changed = |n: usize| bytes(n as u64 + 50_000, 80);
    let is_sealed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (archive, names, is_sealed) = (&archive, &names, &is_sealed);
        scope.spawn(move || {
            for (n, name) in names.iter().enumerate().rev().filter(|(n, _)| n % 5 == 0) {
                match n % 2 {
                    0 => archive.remove(&path(name)).unwrap(),
                    _ => drop(put(archive, name, &changed(n))),
                }
            }
            is_sealed.store(true, Ordering::SeqCst);
        });
        while !is_sealed.load(Ordering::SeqCst) {
            archive.migrate_now(None).unwrap();
            std::thread::yield_now();
        }
    });
    for (n, name) in names.iter().enumerate().filter(|(n, _)| n % 5 == 0) {
        match n % 2 {
            0 => drop(contents.remove(name)),
            _ => drop(contents.insert(name.clone(), changed(n))),
        }
    }
    migrate_all(&archive);
    check(&archive);
    evict_all(&archive);
    recall_and_compare(&archive, &contents);
    check(&archive);
    archive.close();
}

/// A restore to each point within a seal: the tapes have the pack as it was sealed afterwards.
#[test]
fn a_point_within_a_seal_finds_the_pack_on_tape() {
    let instance = instance();
    let archive = open(&instance);
    // Tapes that are in use at the point are looked at.
    put(&archive, "/first", &bytes(5, 5_000));
    migrate_all(&archive);
    let mut contents = fill(&archive);
    contents.insert("/first".to_owned(), bytes(5, 5_000));
    migrate_all(&archive);
    stop(archive);
    let seals = seals(&instance);
    let at = |is: fn(&Command) -> bool| seals.iter().find(|(_, command)| is(command)).unwrap().0;
    let opened = at(|command| matches!(command, Command::OpenPack(_)));
    let closed = at(|command| matches!(command, Command::ClosePack { .. }));
    assert_eq!(closed - opened, 5);
    for point in [closed - 1, opened] {
        let archive = open(&instance);
        shipped(&archive);
        let archive = back_to(&instance, archive, point);
        check(&archive);
        evict_all(&archive);
        recall_and_compare(&archive, &contents);
        check(&archive);
        stop(archive);
    }
}
