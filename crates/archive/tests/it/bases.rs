//! The catalogue's log is trimmed behind bases on tape, and a rebuild begins with one.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::backup::{backup_directory, settings as backup_settings, wait_shipped};
use crate::bases_often::{
    base_behind, changes, changes_of_names, kept, lose_a_row, often, often_at_rest, swept,
    the_log_stays_if_no_base_can_be_read_back, the_log_stays_without_a_base,
};
use crate::common::{Instance, SystemClock, bytes, migrate_all, path, put, settled, wait_until};
use crate::emptied::{dismounted, tapes_of};
use crate::faulty::{Trouble, data, drive};
use crate::history::{
    blank_pool, compare, destroy_catalogue, facts, first_part, recall_and_compare, second_part,
};
use crate::rebuild::{blocks_with, destroyed_with_faults, rebuild_all, rebuild_from, try_rebuild};
use archive::{Archive, ArchiveError, CheckState, DamagedPart, LogKept, Machines, Settings, TapeUse};
use backup::{BackupDirectory, RebuildError, RestoreTo, restore};
use base::{BlockAddress, ByteCount, Vid};
use catalogue::{Command, Table, TapeState};
use store::{CatalogueStore, Replay, StoreOptions, TableDigest};

/// The catalogue of an instance that is not running.
fn store(instance: &Instance) -> CatalogueStore {
    let options = StoreOptions::new(instance.settings.catalogue_map_size, Arc::new(SystemClock));
    CatalogueStore::open(&instance.settings.catalogue_directory, options).unwrap()
}

/// The tables of a catalogue that nobody has open, without the log; what a restore and a rebuild draw anew
/// is in meta.
fn tables(catalogue: &Path) -> Vec<(Table, TableDigest)> {
    let replay = Replay::open(catalogue, ByteCount::mib(256)).unwrap();
    let mut digests = replay.digests().unwrap();
    digests.retain(|(table, _)| !matches!(table, Table::Meta | Table::Change));
    digests
}

/// The tables as they were after a change, by what the backup says.
fn tables_at(instance: &Instance, change: u64) -> Vec<(Table, TableDigest)> {
    let from = BackupDirectory::open(&backup_directory(instance)).unwrap();
    let into = instance.directory.path().join("restored");
    let restored = restore(&from, RestoreTo::Change(change), &into, ByteCount::mib(256), None, &mut |_| {});
    assert_eq!(restored.unwrap().change, change);
    let tables = tables(&into);
    fs::remove_dir_all(&into).unwrap();
    tables
}

fn close(archive: Archive) {
    archive.close();
    drop(archive);
}

/// The bases that the catalogue has on tapes.
fn recorded(instance: &Instance) -> Vec<(Vid, u64)> {
    let read = store(instance).read(|view| {
        let mut found = Vec::new();
        for (vid, _) in view.tapes()? {
            found.extend(view.bases(vid)?.into_iter().map(|(change, _)| (vid, change)));
        }
        Ok(found)
    });
    read.unwrap()
}

/// Flips a bit in what a tape has of the base at a change.
fn damage(instance: &Instance, vid: Vid, change: u64) {
    let mut head = b"KISTBAS1".to_vec();
    head.extend(1u32.to_le_bytes());
    head.extend(store::FORMAT_VERSION.to_le_bytes());
    let mut damaged = 0;
    for file in fs::read_dir(instance.cartridge(vid)).unwrap() {
        let file = file.unwrap().path();
        let mut content = fs::read(&file).unwrap();
        let mut places: Vec<usize> = memchr::memmem::find_iter(&content, &head).collect();
        places.retain(|at| content[at + 32..at + 40] == change.to_le_bytes());
        for at in places {
            content[at + 200] ^= 1;
            damaged += 1;
        }
        fs::write(&file, content).unwrap();
    }
    assert!(damaged > 0, "tape {vid} has the base at {change}");
}

#[test]
fn the_log_is_trimmed_behind_a_base_and_the_tapes_give_all_back() {
    let instance = Instance::with(ByteCount::mib(256), often_at_rest);
    let archive = instance.open();
    archive.start_backup(backup_settings(backup_directory(&instance))).unwrap();
    let mut contents = first_part(&archive);
    migrate_all(&archive);
    let log = base_behind(&archive, 1);
    second_part(&archive, &mut contents);
    changes(&archive, "more", 300);
    let made = archive.change_log().unwrap().last;
    // The base that came in the middle of the changes may be new enough for what is written now.
    let log = base_behind(&archive, log.last);
    wait_until("the log is trimmed", || archive.change_log().unwrap().first + 200 > log.base);
    let after = archive.change_log().unwrap();
    assert!(after.first > 1 && after.changes < made - 100, "{made} {after:?}");
    let facts_before = facts(&archive);
    wait_shipped(&archive);
    close(archive);
    let pools: Vec<Vid> = recorded(&instance).into_iter().map(|(vid, _)| vid).collect();
    assert!(pools.iter().any(|vid| *vid != pools[0]), "a base on a tape of each pool: {pools:?}");

    destroy_catalogue(&instance);
    let rebuilt = rebuild_all(&instance);
    assert!(rebuilt.base.is_some_and(|base| base >= log.base), "{rebuilt:?} {log:?}");
    let rebuilt_tables = tables(&instance.settings.catalogue_directory);
    // The same as by the backup, which knows of no base; and a point before what was trimmed is there too.
    assert_eq!(rebuilt_tables, tables_at(&instance, rebuilt.change));
    assert_ne!(rebuilt_tables, tables_at(&instance, 100));
    let archive = instance.open();
    assert_eq!(facts(&archive), facts_before);
    compare(&archive, &contents);
    // It goes on: another base, another rebuild, with nothing but the tapes.
    changes(&archive, "again", 200);
    let log = archive.change_log().unwrap();
    base_behind(&archive, log.last);
    let facts_before = facts(&archive);
    close(archive);
    destroy_catalogue(&instance);
    blank_pool(&instance);
    let rebuilt = rebuild_all(&instance);
    assert!(rebuilt.base.is_some_and(|base| base >= log.last), "{rebuilt:?} {log:?}");
    let archive = instance.open();
    assert_eq!(facts(&archive), facts_before);
    recall_and_compare(&archive, &contents);
    close(archive);
}

/// The newest base cannot be read: an older one and the changes behind it give the same. Without any the log
/// does not begin, and nothing is made up.
#[test]
fn a_damaged_base_gives_way_to_an_older_one_and_to_nothing_else() {
    let instance = Instance::with(ByteCount::mib(256), often_at_rest);
    let archive = instance.open();
    let contents = first_part(&archive);
    migrate_all(&archive);
    let older = base_behind(&archive, 1).base;
    changes(&archive, "more", 300);
    let last = archive.change_log().unwrap().last;
    let log = base_behind(&archive, last);
    wait_until("the log is trimmed", || archive.change_log().unwrap().first > older);
    let facts_before = facts(&archive);
    close(archive);
    let bases = recorded(&instance);
    destroy_catalogue(&instance);
    for (vid, change) in bases.iter().filter(|(_, change)| *change >= log.base) {
        damage(&instance, *vid, *change);
    }
    let rebuilt = rebuild_all(&instance);
    assert!(rebuilt.base.is_some_and(|base| base < log.base), "{rebuilt:?}");
    assert!(rebuilt.damaged.iter().any(|what| what.contains("base at change")), "{rebuilt:?}");
    let archive = instance.open();
    assert_eq!(facts(&archive), facts_before);
    compare(&archive, &contents);
    close(archive);

    // All bases: the changes since the first are on tape still, and are enough.
    destroy_catalogue(&instance);
    for (vid, change) in bases.iter().filter(|(_, change)| *change < log.base) {
        damage(&instance, *vid, *change);
    }
    let rebuilt = rebuild_all(&instance);
    assert_eq!(rebuilt.base, None);
    let archive = instance.open();
    assert_eq!(facts(&archive), facts_before);
    close(archive);
}

#[test]
fn nothing_is_trimmed_without_a_base() {
    the_log_stays_without_a_base();
}

/// A base on one pool only is none for the other: the log stays as far as that needs it.
#[test]
fn a_base_that_only_one_pool_has_trims_nothing() {
    let instance = Instance::with(ByteCount::mib(256), often_at_rest);
    let archive = instance.open();
    changes(&archive, "a", 300);
    base_behind(&archive, 1);
    wait_until("the log is trimmed", || archive.change_log().unwrap().first > 100);
    swept(&archive);
    let pools = archive.tapes().unwrap();
    let of_b = pools.iter().find(|tape| tape.tape_pool.as_deref() == Some("vault-b")).unwrap().vid;
    archive.set_tape(of_b, TapeUse::Disabled, "for the test").unwrap();
    let before = archive.change_log().unwrap();
    let expected = LogKept::NoBase { tape_pool: "vault-b".to_owned(), wanted: 1 };
    assert_eq!((before.base, &before.kept), (0, &expected));
    changes(&archive, "b", 200);
    swept(&archive);
    let after = archive.change_log().unwrap();
    assert_eq!((after.first, &after.kept), (before.first, &expected));
    // Another tape of the pool gets one at once, since the log does not go back to the beginning any more.
    base_behind(&archive, before.last);
    wait_until("the log is trimmed on", || archive.change_log().unwrap().first > before.first);
    let facts_before = facts(&archive);
    close(archive);
    destroy_catalogue(&instance);
    rebuild_all(&instance);
    let archive = instance.open();
    assert_eq!(facts(&archive), facts_before);
    close(archive);
}

/// A kill between the index that names a base and the change that records it; and one before the log is
/// trimmed.
#[test]
fn a_base_that_was_not_recorded_or_not_used_does_no_harm() {
    let mut instance = Instance::with(ByteCount::mib(256), kept);
    let archive = instance.open();
    changes(&archive, "a", 150);
    base_behind(&archive, 1);
    close(archive);
    let bases = recorded(&instance);
    assert!(bases.len() >= 2, "{bases:?}");
    let open = store(&instance);
    for (vid, change) in &bases {
        let (vid, change) = (*vid, *change);
        open.execute(Command::BaseOnTape { vid, change, parts: 0, bytes: ByteCount(0) }).unwrap();
    }
    drop(open);
    instance.settings.change_log.keep_changes = 20;
    instance.settings.change_log.base_changes = 1_000_000;
    let archive = instance.open();
    swept(&archive);
    let log = archive.change_log().unwrap();
    assert_eq!((log.first, log.base), (1, 0), "what nobody knows of trims nothing: {log:?}");
    close(archive);
    // The tapes have it all the same.
    let aside = instance.directory.path().join("aside");
    fs::rename(&instance.settings.catalogue_directory, &aside).unwrap();
    let rebuilt = rebuild_all(&instance);
    assert!(rebuilt.base.is_some(), "{rebuilt:?}");
    destroy_catalogue(&instance);
    fs::rename(&aside, &instance.settings.catalogue_directory).unwrap();

    instance.settings.change_log.base_changes = 60;
    let archive = instance.open();
    put(&archive, "/one more", &bytes(1, 90));
    base_behind(&archive, 1);
    wait_until("the log is trimmed", || archive.change_log().unwrap().first > 1);
    close(archive);
}

/// The tape with the only base of its pool is reclaimed when another tape has one.
#[test]
fn a_tape_with_the_only_base_is_not_reclaimed() {
    let instance = Instance::with(ByteCount::mib(256), often);
    let archive = instance.open();
    changes(&archive, "a", 300);
    base_behind(&archive, 1);
    wait_until("the log is trimmed", || archive.change_log().unwrap().first > 100);
    let tapes = archive.tapes().unwrap();
    let of_a = tapes.iter().find(|tape| tape.tape_pool.as_deref() == Some("vault-a")).unwrap().vid;
    archive.repack_tape(of_a, "for the test").unwrap();
    wait_until("the tape is empty", || archive.tape_repack(of_a).unwrap().is_some_and(|r| r.done));
    wait_until("another tape has a base", || archive.reclaim_tape(of_a).is_ok());
    assert!(archive.change_log().unwrap().base > 0);
    let facts_before = facts(&archive);
    close(archive);
    assert!(recorded(&instance).iter().all(|(vid, _)| *vid != of_a));
    destroy_catalogue(&instance);
    let rebuilt = rebuild_all(&instance);
    assert!(rebuilt.base.is_some());
    let archive = instance.open();
    assert_eq!(facts(&archive), facts_before);
    close(archive);
}

/// The first changes are on no tape any more, and the only bases are damaged: told, and nothing is made up.
#[test]
fn without_base_and_beginning_the_rebuild_is_refused() {
    let instance = Instance::with(ByteCount::mib(256), often);
    let archive = instance.open();
    changes(&archive, "a", 300);
    base_behind(&archive, 1);
    wait_until("the log is trimmed", || archive.change_log().unwrap().first > 100);
    let first: Vec<Vid> =
        archive.tapes().unwrap().iter().filter(|t| t.containers > 0).map(|t| t.vid).collect();
    // The tapes that have the beginning go away for good, one after the other.
    for vid in first {
        archive.repack_tape(vid, "for the test").unwrap();
        wait_until("the tape is empty", || archive.tape_repack(vid).unwrap().is_some_and(|r| r.done));
        wait_until("another tape has a base", || archive.reclaim_tape(vid).is_ok());
        fs::rename(instance.cartridge(vid), instance.directory.path().join(vid.as_str())).unwrap();
    }
    close(archive);
    let bases = recorded(&instance);
    let aside = instance.directory.path().join("aside");
    fs::rename(&instance.settings.catalogue_directory, &aside).unwrap();
    let rebuilt = try_rebuild(&instance).unwrap();
    assert!(rebuilt.base.is_some() && rebuilt.missing_from.is_none(), "{rebuilt:?}");
    destroy_catalogue(&instance);
    bases.iter().for_each(|(vid, change)| damage(&instance, *vid, *change));
    let refused = try_rebuild(&instance);
    assert!(matches!(refused, Err(RebuildError::NoBeginning { .. })), "{refused:?}");
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("nor a whole base") && said.contains("at change"), "{said}");
}

/// Nobody writes to the tapes any more: the bases are written all the same, or the log would only grow.
#[test]
fn pools_without_anything_to_write_get_their_bases() {
    let instance = Instance::with(ByteCount::mib(256), often_at_rest);
    let archive = instance.open();
    changes(&archive, "a", 10);
    migrate_all(&archive);
    let migrated = archive.change_log().unwrap().last;
    changes(&archive, "b", 300);
    swept(&archive);
    wait_until("the bases are written", || archive.change_log().unwrap().base > migrated + 100);
    assert!(archive.tapes().unwrap().iter().all(|tape| tape.state != TapeState::Suspect));
    close(archive);
}

/// The tape of a pool that has containers.
fn tape_of(archive: &Archive, pool: &str) -> Vid {
    let tapes = archive.tapes().unwrap();
    tapes.iter().find(|tape| tape.tape_pool.as_deref() == Some(pool) && tape.containers > 0).unwrap().vid
}

#[test]
fn a_base_that_cannot_be_read_back_trims_nothing() {
    the_log_stays_if_no_base_can_be_read_back();
}

/// The newest base cannot be read from one tape: another one gives it.
#[test]
fn a_base_is_read_from_any_tape_that_has_it_and_takes_no_room() {
    let instance = Instance::with(ByteCount::mib(256), often_at_rest);
    let archive = instance.open();
    changes(&archive, "a", 300);
    base_behind(&archive, 1);
    let facts_before = facts(&archive);
    let of_a = tape_of(&archive, "vault-a");
    close(archive);
    let bases = recorded(&instance);
    let change = bases.iter().find(|(vid, _)| *vid == of_a).unwrap().1;
    assert!(bases.iter().any(|(vid, of)| (*vid != of_a) && *of == change), "one base, two tapes: {bases:?}");
    damage(&instance, of_a, change);
    destroy_catalogue(&instance);
    let library = archive::open_library(&instance.settings.library).unwrap();
    let spool = instance.directory.path().join("spool");
    let mut seen = 0;
    let rebuilt = rebuild_from(&instance, library.as_ref(), &mut |told| {
        seen += u64::from(told.what == "parts of the base read");
        for file in fs::read_dir(&spool).unwrap() {
            assert_eq!(file.unwrap().path().extension().unwrap(), "kcl", "nothing else is gathered");
        }
    });
    let rebuilt = rebuilt.unwrap();
    assert!(rebuilt.base == Some(change) && seen > 0, "{rebuilt:?}");
    assert!(rebuilt.unread.iter().any(|unread| unread.vid == of_a), "{rebuilt:?}");
    let archive = instance.open();
    assert_eq!(facts(&archive), facts_before);
    close(archive);
}

/// Story: what one drive could not read of a base was given up, and no other drive was tried.
#[test]
fn a_base_that_one_drive_cannot_read_another_one_reads() {
    let instance = Instance::with(ByteCount::mib(256), often_at_rest);
    let archive = instance.open();
    changes(&archive, "a", 300);
    base_behind(&archive, 1);
    let facts_before = facts(&archive);
    close(archive);
    let (library, faults) = destroyed_with_faults(&instance, 2);
    let parts = blocks_with(&library, b"KISTBAS1");
    let rebuilt = rebuild_from(&instance, &library, &mut |told| {
        // Where bases stand is known, and none was read.
        if told.what == "tapes read" && told.done == told.total {
            let plan = |(vid, block): &(Vid, BlockAddress)| {
                faults.plan_unreadable_in(&drive(0), *vid, data(block.0));
            };
            parts.iter().for_each(plan);
        }
    });
    let rebuilt = rebuilt.unwrap();
    assert!(faults.fired() > 0, "the first drive had its try");
    assert!(rebuilt.base.is_some() && rebuilt.unread.is_empty(), "{rebuilt:?}");
    let archive = instance.open();
    assert_eq!(facts(&archive), facts_before);
    close(archive);
}

/// Story: a base was written in front of the index of the containers. The tape ended within it, and all that
/// had been written in the session was written again to another tape.
#[test]
fn a_tape_that_ends_within_a_base_has_its_index_before_it() {
    const FILE_BYTES: usize = 3_000_000;
    const BLOCK_BYTES: u64 = 65_536;
    let trouble = Trouble::with(2, std::time::Duration::from_millis(200), often_at_rest);
    let (archive, faults) = trouble.open();
    put(&archive, "/t/name", &bytes(1, 90));
    migrate_all(&archive);
    wait_until("the tapes are unmounted", || {
        archive.tapes().unwrap().iter().all(|tape| tape.drive.is_none())
    });
    changes_of_names(&archive, "/t/name", 80);
    put(&archive, "/t/large", &bytes(2, FILE_BYTES));
    let written: Vec<Vid> = ["vault-a", "vault-b"].iter().map(|pool| tape_of(&archive, pool)).collect();
    for vid in &written {
        let tape = archive.tapes().unwrap().into_iter().find(|tape| tape.vid == *vid).unwrap();
        // A segment, a file mark, an index of one block, a file mark; then the base.
        let base = tape.end_of_data.0 + (FILE_BYTES as u64).div_ceil(BLOCK_BYTES) + 4;
        faults.plan_end(*vid, data(base));
    }
    migrate_all(&archive);
    let ended = || {
        let tapes = archive.tapes().unwrap();
        let mut of = tapes.iter().filter(|tape| written.contains(&tape.vid));
        of.all(|tape| tape.state == TapeState::ReadOnly)
    };
    wait_until("the tapes ended", ended);
    assert!(faults.fired() >= 2);
    let archive::Stat::File(stat) = archive.stat(&crate::common::path("/t/large")).unwrap() else { panic!() };
    let places: Vec<Option<Vid>> = stat.copies.iter().map(|copy| copy.vid).collect();
    assert!(written.iter().all(|vid| places.contains(&Some(*vid))), "{places:?}");
    assert_eq!(archive.change_log().unwrap().base, 0);
    archive.close();
}

/// Story: checks of tapes took bases for torn blocks. A damaged one went on counting for the log, and was
/// found by the rebuild that needed it.
#[test]
fn a_check_finds_a_damaged_base_and_the_pool_gets_another_at_once() {
    let instance = Instance::with(ByteCount::mib(256), often_at_rest);
    let archive = instance.open();
    changes(&archive, "a", 300);
    base_behind(&archive, 1);
    wait_until("the log is trimmed", || archive.change_log().unwrap().first > 100);
    let of_b = tape_of(&archive, "vault-b");
    let check = |archive: &Archive| {
        archive.check_tapes(&[of_b]).unwrap();
        wait_until("the tape is checked", || {
            archive.tape_check(of_b).unwrap().is_some_and(|check| check.state == CheckState::Done)
        });
        archive.tape_check(of_b).unwrap().unwrap()
    };
    let sound = check(&archive);
    assert_eq!((sound.damage_count, sound.torn_blocks), (0, 0), "{sound:?}");
    close(archive);
    let before = recorded(&instance);
    for (_, change) in before.iter().filter(|(vid, _)| *vid == of_b) {
        damage(&instance, of_b, *change);
    }
    let archive = instance.open();
    let found = check(&archive);
    assert!(found.damage.iter().any(|damage| damage.part == DamagedPart::Base), "{found:?}");
    // Nobody writes anything, and few changes came: another one would not be due for long.
    wait_until("the pool has another base", || archive.change_log().unwrap().base > 1);
    let facts_before = facts(&archive);
    close(archive);
    let after = recorded(&instance);
    assert!(before.iter().filter(|(vid, _)| *vid == of_b).all(|bad| !after.contains(bad)), "{after:?}");
    destroy_catalogue(&instance);
    rebuild_all(&instance);
    let archive = instance.open();
    assert_eq!(facts(&archive), facts_before);
    close(archive);
}

/// Story: a base that was whole by its own checksums and lacked rows ended the rebuild, although an older one
/// and the changes behind it were there.
#[test]
fn a_base_that_lacks_a_row_gives_way_to_an_older_one() {
    let instance = Instance::with(ByteCount::mib(256), often_at_rest);
    let archive = instance.open();
    let contents = first_part(&archive);
    migrate_all(&archive);
    let older = base_behind(&archive, 1).base;
    changes(&archive, "more", 300);
    let last = archive.change_log().unwrap().last;
    let log = base_behind(&archive, last);
    wait_until("the log is trimmed", || archive.change_log().unwrap().first > older);
    let facts_before = facts(&archive);
    close(archive);
    let bases = recorded(&instance);
    destroy_catalogue(&instance);
    for (vid, change) in bases.iter().filter(|(_, change)| *change >= log.base) {
        lose_a_row(&instance, *vid, *change);
    }
    let rebuilt = rebuild_all(&instance);
    assert!(rebuilt.base.is_some_and(|base| base < log.base), "{rebuilt:?}");
    let told = |what: &String| what.contains("is not used") && what.contains("not all that were there");
    assert!(rebuilt.damaged.iter().any(told), "{rebuilt:?}");
    let archive = instance.open();
    assert_eq!(facts(&archive), facts_before);
    compare(&archive, &contents);
    close(archive);
}

/// One tape pool, and bases often.
fn single_pool(settings: &mut Settings) {
    often_at_rest(settings);
    settings.tape_pools.truncate(1);
    settings.classes.iter_mut().for_each(|class| class.copies = vec!["vault-a".to_owned()]);
}

/// Whatever one tape has is never the only thing that can take the place of a lost catalogue.
#[test]
fn with_a_single_pool_two_tapes_must_have_a_base_or_one_and_the_backup() {
    let instance = Instance::with(ByteCount::mib(256), single_pool);
    let archive = instance.open();
    changes(&archive, "a", 200);
    migrate_all(&archive);
    wait_until("the tape is unmounted", || archive.tapes().unwrap().iter().all(|tape| tape.drive.is_none()));
    let first = tape_of(&archive, "vault-a");
    swept(&archive);
    let log = archive.change_log().unwrap();
    let expected = LogKept::NoBase { tape_pool: "vault-a".to_owned(), wanted: 2 };
    assert_eq!((log.first, log.base, log.kept), (1, 0, expected));
    // A second tape comes into use: it gets one, and the first one is not given another.
    archive.set_tape(first, TapeUse::ReadOnly, "for the test").unwrap();
    changes(&archive, "b", 30);
    base_behind(&archive, 1);
    wait_until("the log is trimmed", || archive.change_log().unwrap().first > 100);
    close(archive);
    let tapes: Vec<Vid> = recorded(&instance).into_iter().map(|(vid, _)| vid).collect();
    assert!(tapes.len() == 2 && tapes[0] != tapes[1], "{tapes:?}");

    let instance = Instance::with(ByteCount::mib(256), single_pool);
    let archive = instance.open();
    archive.start_backup(backup_settings(backup_directory(&instance))).unwrap();
    changes(&archive, "a", 200);
    base_behind(&archive, 1);
    wait_until("the log is trimmed", || archive.change_log().unwrap().first > 100);
    close(archive);
    assert_eq!(recorded(&instance).len(), 1);
}

/// Story: a pool that no class uses any more, and whose tapes are all full or only read, can get no base. The
/// log was never trimmed for its sake.
#[test]
fn a_pool_that_nobody_uses_any_more_needs_no_base() {
    let mut instance = Instance::with(ByteCount::mib(256), often_at_rest);
    let archive = instance.open();
    changes(&archive, "a", 20);
    migrate_all(&archive);
    let of_b = tape_of(&archive, "vault-b");
    wait_until("the tapes are unmounted", || archive.tapes().unwrap().iter().all(|it| it.drive.is_none()));
    close(archive);
    instance.settings.classes.iter_mut().for_each(|class| class.copies = vec!["vault-a".to_owned()]);
    let archive = instance.open();
    archive.start_backup(backup_settings(backup_directory(&instance))).unwrap();
    archive.set_tape(of_b, TapeUse::ReadOnly, "for the test").unwrap();
    changes(&archive, "b", 200);
    base_behind(&archive, 1);
    wait_until("the log is trimmed", || archive.change_log().unwrap().first > 100);
    close(archive);
    assert!(recorded(&instance).iter().all(|(vid, _)| *vid != of_b));
}

/// Story: a class that nobody used, with a tape pool that had no tape, kept the log for ever.
#[test]
fn a_pool_without_any_tape_keeps_no_log() {
    let instance = Instance::with(ByteCount::mib(256), |settings| {
        often_at_rest(settings);
        let (mut pool, mut class) = (settings.tape_pools[0].clone(), settings.classes[0].clone());
        (pool.name, class.name) = ("vault-c".to_owned(), "unused".to_owned());
        class.copies = vec!["vault-c".to_owned()];
        settings.tape_pools.push(pool);
        settings.classes.push(class);
    });
    let archive = instance.open();
    changes(&archive, "a", 300);
    base_behind(&archive, 1);
    wait_until("the log is trimmed", || archive.change_log().unwrap().first > 100);
    close(archive);
}

/// Story: a backup that failed counted as one. The only other tape with a base was reclaimed for its sake.
#[test]
fn a_backup_that_fails_does_not_count() {
    let instance = Instance::with(ByteCount::mib(256), single_pool);
    let archive = instance.open();
    archive.start_backup(backup_settings(backup_directory(&instance))).unwrap();
    changes(&archive, "a", 200);
    base_behind(&archive, 1);
    wait_until("the log is trimmed", || archive.change_log().unwrap().first > 100);
    let first = tape_of(&archive, "vault-a");
    archive.repack_tape(first, "for the test").unwrap();
    wait_until("the tape is empty", || {
        archive.migrate_now(None).unwrap();
        archive.tape_repack(first).unwrap().is_some_and(|repack| repack.done)
    });
    let backup = backup_directory(&instance);
    let aside = backup.with_extension("aside");
    fs::rename(&backup, &aside).unwrap();
    fs::write(&backup, "in the way").unwrap();
    wait_until("the backup fails", || archive.backup_status().unwrap().failing.is_some());
    assert_eq!(archive.change_log().unwrap().kept, LogKept::Backup);
    // One other tape would do beside a backup; without one two must have a base.
    let mounts = |archive: &Archive| -> u64 {
        let tapes = archive.tapes().unwrap();
        tapes.iter().filter(|tape| tape.vid != first && tape.drive.is_none()).map(|tape| tape.mounts).sum()
    };
    let before = mounts(&archive);
    wait_until("another tape was mounted for its base", || {
        assert!(archive.reclaim_tape(first).is_err(), "it counted the backup");
        mounts(&archive) > before
    });
    assert!(archive.reclaim_tape(first).is_err(), "it counted the backup");
    close(archive);
    assert!(recorded(&instance).iter().any(|(vid, _)| *vid != first), "another tape has a base");
    fs::remove_file(&backup).unwrap();
    fs::rename(&aside, &backup).unwrap();
    let archive = instance.open();
    archive.start_backup(backup_settings(backup)).unwrap();
    wait_until("it can be reclaimed", || archive.reclaim_tape(first).is_ok());
    close(archive);
}

/// Nothing goes to tape: the backup alone says what may leave the log.
#[test]
fn without_tapes_the_log_is_trimmed_behind_the_backup() {
    let instance = Instance::with(ByteCount::mib(64), |settings| {
        often_at_rest(settings);
        settings.tape_pools.clear();
        settings.classes.iter_mut().for_each(|class| class.copies.clear());
    });
    let archive = instance.open();
    changes(&archive, "a", 200);
    swept(&archive);
    let log = archive.change_log().unwrap();
    assert_eq!((log.first, log.kept), (1, LogKept::NothingElse));
    archive.start_backup(backup_settings(backup_directory(&instance))).unwrap();
    wait_shipped(&archive);
    wait_until("the log is trimmed", || archive.change_log().unwrap().first > 100);
    close(archive);
}

/// Story: right after a start, before the backup had told what it has, a reclaim went by the rules of an
/// instance without one: a tape was mounted for changes that the backup has, and the base.
#[test]
fn nothing_is_written_to_tape_in_place_of_a_backup_that_has_not_told_yet() {
    let instance = Instance::with(ByteCount::mib(256), single_pool);
    let archive = instance.open();
    archive.start_backup(backup_settings(backup_directory(&instance))).unwrap();
    put(&archive, "/first", &bytes(1, 300_000));
    migrate_all(&archive);
    dismounted(&archive);
    let emptied = tapes_of(&archive, "vault-a")[0];
    archive.set_tape(emptied, TapeUse::ReadOnly, "for the test").unwrap();
    changes(&archive, "more", 100);
    let made = archive.change_log().unwrap().last;
    base_behind(&archive, made);
    archive.remove(&path("/first")).unwrap();
    archive.repack_tape(emptied, "for the test").unwrap();
    wait_until("the tape is empty", || archive.tape_repack(emptied).unwrap().is_some_and(|it| it.done));
    dismounted(&archive);
    wait_shipped(&archive);
    close(archive);
    let based: BTreeSet<Vid> = recorded(&instance).into_iter().map(|(vid, _)| vid).collect();
    assert!(based.iter().any(|vid| *vid != emptied) && based.len() <= 2, "one tape stays that has a base");

    let clock = Arc::new(SystemClock);
    let mut machines = Machines::open(&instance.settings, clock.clone()).unwrap();
    machines.backup = Some(backup_directory(&instance));
    let archive = settled(Archive::open_on(machines, instance.settings.clone(), clock).unwrap());
    let before = archive.totals().unwrap().mounts;
    for _ in 0..2 {
        let refused = archive.reclaim_tape(emptied).unwrap_err();
        assert!(matches!(refused, ArchiveError::Rejected(_)), "{refused}");
        assert!(refused.to_string().contains("has not told yet"), "{refused}");
    }
    archive.start_backup(backup_settings(backup_directory(&instance))).unwrap();
    wait_until("the backup has told", || archive.reclaim_tape(emptied).is_ok());
    assert_eq!(archive.totals().unwrap().mounts, before, "nothing was written to tape for that");
    close(archive);
}
