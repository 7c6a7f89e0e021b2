//! What is archived together is recalled together: packs by data set, data sets in one piece on tape.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use crate::common::{Instance, SystemClock, bytes, migrate_all, path, put, put_with, wait_until};
use crate::history::destroy_catalogue;
use archive::{Archive, PutOptions, Settings, Stat, open_library, pool_seen};
use backup::rebuild;
use base::{BlockAddress, ByteCount, Clock, ContainerId, Vid};

/// An instance of which nothing is sealed before it is asked for.
fn patient(change: impl FnOnce(&mut Settings)) -> Instance {
    Instance::with(ByteCount::mib(512), |settings| {
        for class in &mut settings.classes {
            class.pack_age = Duration::from_secs(3600);
            class.pack_bytes = ByteCount::mib(4);
        }
        for pool in &mut settings.tape_pools {
            pool.mount_age = Duration::from_secs(3600);
        }
        change(settings);
    })
}

fn containers(archive: &Archive, file: &str) -> BTreeSet<ContainerId> {
    let Stat::File(stat) = archive.stat(&path(file)).unwrap() else { panic!("{file} is a file") };
    stat.copies.iter().map(|copy| copy.container).collect()
}

fn containers_of(archive: &Archive, files: &[String]) -> BTreeSet<ContainerId> {
    files.iter().flat_map(|file| containers(archive, file)).collect()
}

/// Where the containers of these files stand, by tape: the first block of each.
fn blocks(archive: &Archive, files: &[String]) -> BTreeMap<Vid, BTreeSet<BlockAddress>> {
    let mut blocks: BTreeMap<Vid, BTreeSet<BlockAddress>> = BTreeMap::new();
    for file in files {
        let Stat::File(stat) = archive.stat(&path(file)).unwrap() else { panic!("{file} is a file") };
        for (vid, block) in stat.copies.iter().filter_map(|copy| copy.vid.zip(copy.block)) {
            blocks.entry(vid).or_default().insert(block);
        }
    }
    blocks
}

/// Puts `count` files of `size` bytes in turn into each directory; gives their paths, by directory.
fn interleaved(archive: &Archive, directories: &[&str], count: u64, size: usize) -> Vec<Vec<String>> {
    let mut files = vec![Vec::new(); directories.len()];
    for n in 0..count {
        for (number, directory) in directories.iter().enumerate() {
            let file = format!("{directory}/f{n:03}");
            put(archive, &file, &bytes(n * 100 + number as u64, size));
            files[number].push(file);
        }
    }
    files
}

#[test]
fn each_directory_has_packs_of_its_own() {
    let instance = patient(|_| {});
    let archive = instance.open();
    let files = interleaved(&archive, &["/run/a", "/run/b", "/run/c"], 30, 200_000);
    let small = interleaved(&archive, &["/s/x", "/s/y"], 3, 1_000).concat();
    migrate_all(&archive);
    let sets: Vec<_> = files.iter().map(|files| containers_of(&archive, files)).collect();
    for (number, set) in sets.iter().enumerate() {
        // 6 MB are more than one pack of 4 MiB and less than one and a half of them and a file.
        assert_eq!(set.len(), 2, "{sets:?}");
        assert!(sets.iter().skip(number + 1).all(|other| set.is_disjoint(other)), "{sets:?}");
    }
    // What is small goes together, and with nobody else.
    let together = containers_of(&archive, &small);
    assert_eq!(together.len(), 1);
    assert!(sets.iter().all(|set| set.is_disjoint(&together)));
    archive.close();
}

#[test]
fn a_hint_goes_before_the_directory_and_survives_a_rebuild() {
    let instance = patient(|_| {});
    let archive = instance.open();
    let mut files = vec![Vec::new(); 2];
    for n in 0..40u64 {
        let hint = n % 2;
        // In turn by twos, so that the directory is not the hint.
        let file = format!("/d{}/f{n:03}", n / 2 % 2);
        let options = PutOptions {
            make_parents: true,
            dataset: Some(format!("sample {hint}")),
            ..PutOptions::default()
        };
        put_with(&archive, &file, &bytes(n, 200_000), options).unwrap();
        files[usize::try_from(hint).unwrap()].push(file);
    }
    // Of another class, so that the changes come to tape and the hinted files go on waiting.
    put(&archive, "/big", &bytes(1_000, 3_000_000));
    archive.migrate_now(Some("large")).unwrap();
    wait_until("the large file is on tape", || {
        let Stat::File(stat) = archive.stat(&path("/big")).unwrap() else { panic!("a file") };
        let indexed = stat.copies.iter().filter(|copy| copy.state == archive::CopyProgress::Indexed);
        indexed.count() == 2
    });
    assert!(containers_of(&archive, &files.concat()).is_empty(), "they wait still");
    archive.close();
    drop(archive);

    destroy_catalogue(&instance);
    let settings = &instance.settings;
    let library = open_library(&settings.library).unwrap();
    let spool = instance.directory.path().join("spool");
    let (seen, _) = pool_seen(settings);
    let (map_size, now) = (settings.catalogue_map_size, SystemClock.now());
    let into = &settings.catalogue_directory;
    rebuild(
        (library.as_ref(), &library::TapeKeys::default()),
        seen,
        into,
        &spool,
        map_size,
        now,
        &mut |_| {},
    )
    .unwrap();
    fs::remove_dir_all(&spool).unwrap();
    drop(library);

    let archive = instance.open();
    migrate_all(&archive);
    let sets: Vec<_> = files.iter().map(|files| containers_of(&archive, files)).collect();
    assert!(sets[0].is_disjoint(&sets[1]) && !sets[0].is_empty(), "{sets:?}");
    archive.close();
}

#[test]
fn a_class_may_say_how_deep_its_data_sets_are() {
    for (depth, packs) in [(Some(1), vec![1, 1]), (Some(2), vec![2, 2]), (Some(9), vec![2, 2])] {
        let instance = patient(|settings| {
            settings.classes.iter_mut().for_each(|class| class.data_set_depth = depth);
        });
        let archive = instance.open();
        // Less than a pack in all of /p, and more than half a one in each of its directories.
        let p = interleaved(&archive, &["/p/a", "/p/b"], 10, 211_000).concat();
        let q = interleaved(&archive, &["/q/a", "/q/b"], 10, 211_000).concat();
        migrate_all(&archive);
        let sets = [&p, &q].map(|files| containers_of(&archive, files));
        // 4.22 MB are a whole pack, which is cut in two equal ones.
        let expected = if depth == Some(1) { 2 } else { 4 };
        assert!(sets.iter().all(|set| set.len() <= expected && !set.is_empty()), "{packs:?} {sets:?}");
        assert!(sets[0].is_disjoint(&sets[1]), "{sets:?}");
        archive.close();
    }
    // Zero: all of the class is one.
    let instance = patient(|settings| {
        settings.classes.iter_mut().for_each(|class| class.data_set_depth = Some(0));
    });
    let archive = instance.open();
    let files = interleaved(&archive, &["/p", "/q"], 10, 205_000);
    migrate_all(&archive);
    let sets: Vec<_> = files.iter().map(|files| containers_of(&archive, files)).collect();
    assert_eq!(sets[0], sets[1]);
    archive.close();
}

/// Large files are containers of their own, sealed as they came: on tape those of a directory follow each
/// other.
#[test]
fn large_files_of_a_directory_stand_together_on_tape() {
    let instance = patient(|settings| settings.tape.flush_bytes = ByteCount::mib(8));
    let archive = instance.open();
    let files = interleaved(&archive, &["/run/a", "/run/b", "/run/c"], 6, 2_200_000);
    migrate_all(&archive);
    let places: Vec<_> = files.iter().map(|files| blocks(&archive, files)).collect();
    for (vid, all) in blocks(&archive, &files.concat()) {
        let order: Vec<BlockAddress> = all.into_iter().collect();
        for set in &places {
            let at = |block| order.iter().position(|at| at == block).unwrap();
            let set = &set[&vid];
            let (first, last) = (at(set.first().unwrap()), at(set.last().unwrap()));
            assert_eq!(last - first + 1, set.len(), "nothing else stands between them");
        }
    }
    archive.close();
}

/// Two drives write one pool: a data set goes to the tape that has begun it. All of it is there before the
/// first mount: what arrives when its tape is home again may go to another one, and on a slow machine it did.
#[test]
fn two_drives_do_not_scatter_a_data_set() {
    let mut instance = patient(|settings| {
        settings.tape_pools.truncate(1);
        settings.tape_pools[0].mount_bytes = ByteCount::gib(1);
        settings.classes.iter_mut().for_each(|class| class.copies.truncate(1));
        settings.tape.flush_bytes = ByteCount::mib(8);
    });
    let archive = instance.open();
    let names: Vec<String> = (0..10).map(|n| format!("/run/{n}")).collect();
    let directories: Vec<&str> = names.iter().map(String::as_str).collect();
    let files = interleaved(&archive, &directories, 8, 2_200_000);
    archive.close();
    drop(archive);
    instance.settings.tape_pools[0].mount_bytes = ByteCount::mib(24);
    let archive = instance.open();
    migrate_all(&archive);
    for files in &files {
        assert_eq!(blocks(&archive, files).len(), 1, "one tape has it all");
    }
    archive.close();
}
