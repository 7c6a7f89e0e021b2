//! A small finished world in which each rule is broken once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ::catalogue::{Table, View};
use ::library::Library;
use archive::{Archive, PutOptions};
use base::{
    ArchivePath, BlobId, BlockAddress, ByteCount, Clock, Epoch, Partition, StripeCode, TapePosition,
    Timestamp, Vid,
};
use drive::{ExtentId, PAGE};
use mover::{FileOnTape, Volume};
use threads::simulated;

use super::*;
use crate::content::Content;
use crate::machines::{Fault, MachineConfig, RuntimePace, SimClock, StillPace};

const CELL: ByteCount = ByteCount::kib(16);
const SMALL: Content = Content { id: 1, length: 3_000 };
/// Too large for a segment.
const LARGE: Content = Content { id: 2, length: 300_000 };

fn path(text: &str) -> ArchivePath {
    ArchivePath::new(text).unwrap()
}

/// Two files in the pool, and if `migrated` on their tapes too.
fn world(migrated: bool) -> SimMachines {
    let config = MachineConfig { disks: 4, tapes: 4, ..MachineConfig::default() };
    let outcome = simulated::run(1, || {
        let machines = SimMachines::new(&config, Arc::new(RuntimePace));
        let clock: Arc<dyn Clock> = Arc::new(SimClock::new(Timestamp(1 << 60), simulated::now));
        let opened = machines.open(Arc::clone(&clock)).unwrap();
        let shape = archive::PoolShape { cell_size: Some(CELL), segment_size: Some(ByteCount::mib(1)) };
        let archive = Archive::open_shaped(
            opened,
            crate::world::settings(&config, StripeCode::reed_solomon(2, 2)),
            clock,
            shape,
        )
        .unwrap();
        for (name, content) in [("/small", SMALL), ("/large", LARGE)] {
            let mut upload = archive.begin_put(&path(name), PutOptions::default()).unwrap();
            upload.write(&content.bytes()).unwrap();
            upload.finish().unwrap();
        }
        if migrated {
            archive.migrate_now(None).unwrap();
            simulated::pause(Duration::from_secs(600));
        }
        archive.close();
        machines
    });
    outcome.result.unwrap()
}

fn broken(machines: &SimMachines) -> Vec<Violation> {
    check_quiet(machines, &Quiet::done(CELL))
}

/// The rules that `sabotage` breaks, by a copy of a finished world.
fn after(world: &SimMachines, sabotage: impl FnOnce(&SimMachines)) -> BTreeSet<Rule> {
    let machines = world.fork(Arc::new(StillPace::new(3)));
    assert_eq!(broken(&machines), []);
    sabotage(&machines);
    let found = broken(&machines);
    assert!(!found.iter().any(|violation| violation.object.is_empty() || violation.what.is_empty()));
    found.into_iter().map(|violation| violation.rule).collect()
}

fn blobs(machines: &SimMachines, layout_is_striped: bool) -> Vec<ExtentId> {
    let snapshot = machines.catalogue().tables().snapshot();
    let view = View::new(&snapshot);
    let extents = machines.disks().iter().flat_map(|disk| disk.extents());
    let striped = |id: &ExtentId| {
        let blob = view.blob(id.blob).unwrap();
        blob.is_some_and(|blob| matches!(blob.layout, base::Layout::Striped { .. }) == layout_is_striped)
    };
    extents.filter(striped).collect()
}

/// A tape with a container, and where that begins.
fn content(machines: &SimMachines) -> (Vid, BlockAddress) {
    let snapshot = machines.catalogue().tables().snapshot();
    let view = View::new(&snapshot);
    let tapes = view.tapes().unwrap();
    let (vid, _) = tapes.iter().find(|(_, tape)| tape.containers > 0).unwrap();
    let content = view.content(*vid, BlockAddress(0), 1).unwrap();
    (*vid, content[0].0)
}

#[test]
fn the_pool_is_judged() {
    let world = world(true);
    for striped in [true, false] {
        let extent = blobs(&world, striped)[0];
        let lost = after(&world, |machines| machines.disks().iter().for_each(|disk| disk.lose(extent)));
        assert_eq!(lost, BTreeSet::from([Rule::Pool]));
        let flipped = after(&world, |machines| {
            // The first value of a segment, or the first byte of a cell.
            let at = if striped { PAGE } else { 100 };
            let disks = machines.disks().iter();
            assert!(disks.filter(|disk| disk.flip(extent, at, 3)).count() == 1);
        });
        assert_eq!(flipped, BTreeSet::from([Rule::Pool]), "{striped}");
    }
    let orphan = after(&world, |machines| {
        let drive = machines.disks()[0].open().unwrap();
        let blob = BlobId::new(Epoch(0), 9).unwrap();
        drive.create(ExtentId { blob, stripe: 0, shard: 0 }, ByteCount(0)).unwrap().seal().unwrap();
    });
    assert_eq!(orphan, BTreeSet::from([Rule::Orphans]));
}

#[test]
fn tapes_are_judged() {
    let world = world(true);
    let (vid, block) = content(&world);
    let at = TapePosition { partition: Partition::Data, block };
    let damaged = after(&world, |machines| assert!(machines.library().damage(vid, at)));
    assert_eq!(damaged, BTreeSet::from([Rule::TapeEntries]));
    let flipped = after(&world, |machines| assert!(machines.library().flip(vid, at)));
    assert_eq!(flipped, BTreeSet::from([Rule::TapeEntries]));
    let overwritten = after(&world, |machines| {
        let library = machines.library();
        let name = library.drives()[0].clone();
        library.mount(vid, &name).unwrap();
        let mut drive = library.take_drive(&name).unwrap();
        drive.locate(at).unwrap();
        drive.write_block(&[1]).unwrap();
    });
    let rules = [Rule::Overwritten, Rule::TapeEntries, Rule::IndexPartition];
    assert_eq!(overwritten, BTreeSet::from(rules));
}

#[test]
fn the_index_partition_is_judged() {
    let world = world(true);
    let (vid, _) = content(&world);
    let end = world.library().objects(vid, Partition::Index).len() as u64;
    let last = TapePosition { partition: Partition::Index, block: BlockAddress(end - 2) };
    let older = after(&world, |machines| assert!(machines.library().damage(vid, last)));
    assert_eq!(older, BTreeSet::from([Rule::IndexPartition]));
    for partition in [Partition::Index, Partition::Data] {
        let untold = after(&world, |machines| {
            let library = machines.library();
            let name = library.drives()[0].clone();
            library.mount(vid, &name).unwrap();
            let mut drive = library.take_drive(&name).unwrap();
            drive.write_attribute(partition, ltfs::coherency::VOLUME_COHERENCY.id, &[]).unwrap();
        });
        assert_eq!(untold, BTreeSet::from([Rule::IndexPartition]));
    }
}

#[test]
fn entries_of_an_index_are_judged() {
    let world = world(true);
    let (vid, block) = content(&world);
    let snapshot = world.catalogue().tables().snapshot();
    let tape = View::new(&snapshot).tape(vid).unwrap().unwrap();
    let with = |xattrs: Vec<(String, Vec<u8>)>, generations: u64| {
        after(&world, |machines| {
            let library = machines.library();
            let name = library.drives()[0].clone();
            library.mount(vid, &name).unwrap();
            let mut drive = library.take_drive(&name).unwrap();
            let (uuid, generation) = (tape.uuid.unwrap(), tape.generation);
            let volume = Volume::open(drive.as_mut(), vid, uuid, generation, tape.index_block);
            let mut volume = volume.unwrap();
            let path = vec!["stray".to_owned()];
            let modified = Timestamp(1);
            let file = FileOnTape { path, length: ByteCount(1), block, modified, xattrs };
            volume.add(file, modified).unwrap();
            (0..generations).for_each(|_| {
                volume.write_data_index(drive.as_mut(), modified).unwrap();
            });
        })
    };
    let container = |id: u64| vec![(ltfs::naming::XATTR_CONTAINER.to_owned(), id.to_string().into_bytes())];
    // An index that only the data partition has is not what other programs expect either.
    let rules = BTreeSet::from([Rule::TapeEntries, Rule::IndexPartition]);
    assert_eq!(with(Vec::new(), 1), rules, "of no container");
    assert_eq!(with(container(1), 1), rules, "the second of a container");
    assert_eq!(with(Vec::new(), 0), BTreeSet::new(), "an index that was not written says nothing");
}

#[test]
fn the_catalogue_is_judged() {
    let world = world(true);
    let dropped = after(&world, |machines| {
        let tables = machines.catalogue().tables();
        let snapshot = tables.snapshot();
        let key = snapshot.rows(Table::Counter).next().unwrap().0;
        tables.overwrite(Table::Counter, key, None);
    });
    assert_eq!(dropped, BTreeSet::from([Rule::Catalogue, Rule::Replay]));
    let flipped = after(&world, |machines| {
        assert!(machines.catalogue().damage(Fault::RecordFlipped, Table::Container).is_some());
        assert_eq!(machines.faults().fired(Fault::RecordFlipped), 1);
    });
    assert!(flipped.contains(&Rule::Catalogue) && flipped.contains(&Rule::Replay), "{flipped:?}");
    let shortened = after(&world, |machines| {
        let tables = machines.catalogue().tables();
        let snapshot = tables.snapshot();
        let key = snapshot.rows(Table::Change).last().unwrap().0.to_vec();
        tables.overwrite(Table::Change, &key, None);
    });
    assert!(shortened.contains(&Rule::Replay), "{shortened:?}");
    let unsealed = broken(&self::world(false)).into_iter().map(|violation| violation.rule);
    assert_eq!(unsealed.collect::<BTreeSet<_>>(), BTreeSet::from([Rule::Copies]));
}

#[test]
fn the_tree_is_judged() {
    let world = world(false);
    let snapshot = world.catalogue().tables().snapshot();
    let view = View::new(&snapshot);
    let of = |content: Content| Some(Descriptor::of(&content.bytes()));
    let tree = |possible: Vec<Option<Descriptor>>| {
        check_tree(&view, &BTreeMap::from([(path("/small"), possible.into_iter().collect())])).len()
    };
    assert_eq!(tree(vec![of(SMALL)]), 0);
    assert_eq!(tree(vec![None, of(SMALL)]), 0);
    assert_eq!(tree(vec![of(LARGE)]), 1, "altered");
    assert_eq!(tree(vec![None]), 1, "should be gone");
    let absent = BTreeMap::from([(path("/other"), BTreeSet::from([of(SMALL)]))]);
    assert_eq!(check_tree(&view, &absent)[0].rule, Rule::Kept, "lost");
}
