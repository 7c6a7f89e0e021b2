use std::sync::Arc;

use ::library::{
    Library, LibraryError, ReadBlock, TapeDrive, TapeError, VirtualCartridgeOptions, VirtualLibrary,
    VirtualLibraryConfig,
};
use base::{BlobId, BlockAddress, ByteCount, Epoch, Partition, TapePosition, Vid};
use drive::{DriveError, ExtentId, PAGE};

use super::*;

const CAPACITY: ByteCount = ByteCount::mib(64);

fn config() -> MachineConfig {
    MachineConfig { disks: 3, tapes: 3, tape_capacity: CAPACITY, ..MachineConfig::default() }
}

fn world(seed: u64) -> SimMachines {
    SimMachines::new(&config(), Arc::new(StillPace::new(seed)))
}

fn vid(number: u32) -> Vid {
    Vid::new(&format!("KT{number:04}")).unwrap()
}

fn at(partition: Partition, block: u64) -> TapePosition {
    TapePosition { partition, block: BlockAddress(block) }
}

fn extent(number: u64) -> ExtentId {
    ExtentId { blob: BlobId::new(Epoch(1), number).unwrap(), stripe: 0, shard: 0 }
}

/// One step on a tape in words that do not depend on the library: results must be alike on both.
fn step(library: &dyn Library, drive: &mut Option<Box<dyn TapeDrive>>, dice: &mut Dice) -> String {
    let name = library.drives()[0].clone();
    let partition = if dice.one_in(2) { Partition::Index } else { Partition::Data };
    let (kind, number) = (dice.below(15), dice.below(30));
    let Some(tape) = drive else {
        let (mounted, handle) = (library.mount(vid(1), &name), library.take_drive(&name));
        *drive = handle.ok();
        return format!("{mounted:?}");
    };
    match kind {
        0..=3 => format!("{:?}", tape.write_block(&vec![number as u8; number as usize * 7 + 1])),
        4 => format!("{:?}", tape.write_filemarks(number as u32 % 3)),
        5..=8 => {
            let mut buffer = [0u8; 150];
            let found = tape.read_block(&mut buffer);
            let length = if let Ok(ReadBlock::Data(length)) = found { length } else { 0 };
            format!("{found:?} {:?}", &buffer[..length])
        }
        9 => format!("{:?}", tape.locate(at(partition, number))),
        10 => format!("{:?}", tape.space_to_end_of_data(partition)),
        11 => format!("{:?} {:?}", tape.rewind(), tape.remaining()),
        12 => {
            let written = tape.write_attribute(partition, 0x0800 + number as u16 % 3, &[number as u8; 3]);
            format!("{written:?} {:?}", tape.write_attribute(partition, 0x0009, &[0; 4]))
        }
        13 => {
            let known = tape.read_attribute(partition, 0x0800 + number as u16 % 3);
            format!("{known:?} {:?} {:?}", tape.read_attribute(partition, 0x0009), tape.position())
        }
        _ if number == 0 => format!("{:?}", tape.format_partitions()),
        _ => {
            *drive = None;
            format!("{:?}", library.unmount(&name))
        }
    }
}

#[test]
fn the_simulated_library_behaves_as_the_virtual_one() {
    for seed in 0..40 {
        let directory = tempfile::tempdir().unwrap();
        let options = VirtualCartridgeOptions::default();
        let cartridges = (1..=3).map(|number| (vid(number), CAPACITY)).collect();
        let drives = config().drive_names();
        let real = VirtualLibraryConfig { drives, robots: 1, cartridges, options, drop_cache: false };
        let real = VirtualLibrary::create(directory.path(), &real).unwrap();
        let simulated = world(seed).library().clone();
        assert_eq!(real.inventory().unwrap(), simulated.inventory().unwrap());
        let (mut one, mut other) = (None, None);
        let (mut dice, mut same) = (Dice::new(seed), Dice::new(seed));
        for number in 0..120 {
            let found = step(&simulated, &mut other, &mut dice);
            assert_eq!(found, step(&real, &mut one, &mut same), "seed {seed} step {number}");
        }
    }
}

#[test]
fn the_end_of_a_tape_is_where_the_virtual_one_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let config = MachineConfig { tape_capacity: ByteCount::mib(20), ..config() };
    let real = VirtualLibraryConfig {
        drives: config.drive_names(),
        robots: 1,
        cartridges: vec![(vid(1), ByteCount::mib(20))],
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    let real = VirtualLibrary::create(directory.path(), &real).unwrap();
    let simulated = SimMachines::new(&config, Arc::new(StillPace::new(1))).library().clone();
    let fill = |library: &dyn Library| {
        let name = library.drives()[0].clone();
        library.mount(vid(1), &name).unwrap();
        let mut drive = library.take_drive(&name).unwrap();
        drive.locate(at(Partition::Data, 0)).unwrap();
        let results = (0..22).map(|_| format!("{:?}", drive.write_block(&vec![3; 1 << 20])));
        results.collect::<Vec<_>>()
    };
    assert_eq!(fill(&real), fill(&simulated));
}

fn mounted(library: &SimLibrary, number: u32) -> Box<dyn TapeDrive> {
    let name = library.drives()[0].clone();
    library.mount(vid(number), &name).unwrap();
    let mut drive = library.take_drive(&name).unwrap();
    drive.locate(at(Partition::Data, 0)).unwrap();
    drive
}

#[test]
fn unflushed_blocks_are_lost_from_the_end() {
    let mut kept = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let world = world(seed);
        let mut drive = mounted(world.library(), 1);
        (0..3).for_each(|n| assert!(!drive.write_block(&[n; 10]).unwrap().early_warning));
        drive.write_filemarks(0).unwrap();
        (3..9).for_each(|n| assert!(!drive.write_block(&[n; 10]).unwrap().early_warning));
        world.power_loss();
        assert!(matches!(drive.position(), Err(TapeError::NotLoaded { .. })), "a dead process reads nothing");
        drop(drive);
        let objects = world.library().objects(vid(1), Partition::Data);
        let whole = objects.iter().take_while(|o| !matches!(o, TapeObject::Damaged(_))).count();
        assert!(whole >= 3 && objects.len() <= whole + 1, "only the last one may be torn");
        for (n, object) in objects.iter().take(whole).enumerate() {
            assert_eq!(*object, TapeObject::Record(vec![n as u8; 10].into()));
        }
        kept.insert(objects.len());
    }
    assert!(kept.len() > 4, "{kept:?}");
}

#[test]
fn tape_faults_do_what_they_say() {
    let world = world(5);
    let (library, faults) = (world.library(), world.faults());
    let name = library.drives()[0].clone();
    faults.once(Fault::RobotJam, Target::Tape(vid(2)), 0);
    faults.once(Fault::MountFails, Target::TapeDrive(name.clone()), 1);
    assert!(matches!(library.mount(vid(2), &name), Err(LibraryError::RobotJam { .. })));
    assert!(matches!(library.mount(vid(2), &name), Err(LibraryError::Cartridge(_))));
    let mut drive = mounted(library, 2);
    faults.once(Fault::TapeWrite, Target::Any, 1);
    drive.write_block(&[1]).unwrap();
    assert!(matches!(drive.write_block(&[2]), Err(TapeError::Medium { .. })));
    assert!(matches!(drive.write_block(&[2]), Err(TapeError::Poisoned { .. })));
    drop(drive);
    library.unmount(&name).unwrap();
    faults.once(Fault::WrongCartridge, Target::Any, 0);
    let mut drive = mounted(library, 3);
    assert_ne!(
        library.objects(vid(2), Partition::Data).len(),
        library.objects(vid(1), Partition::Data).len()
    );
    drive.space_to_end_of_data(Partition::Data).unwrap();
    drive.write_block(&[9]).unwrap();
    assert!(library.objects(vid(3), Partition::Data).is_empty(), "another one is in the drive");
    faults.once(Fault::PositionLost, Target::Any, 0);
    assert!(drive.read_block(&mut [0; 8]).is_err());
    assert_eq!(drive.position().unwrap(), at(Partition::Index, 0));
    drop(drive);
    library.unmount(&name).unwrap();
    let mut drive = mounted(library, 1);
    drive.write_block(&[1]).unwrap();
    drive.write_filemarks(1).unwrap();
    faults.once(Fault::TapeEarlyEnd, Target::Any, 0);
    assert!(matches!(drive.write_block(&[1]), Err(TapeError::EndOfMedium { .. })));
    drive.locate(at(Partition::Data, 0)).unwrap();
    assert!(library.overwrites().is_empty());
    drive.write_block(&[2]).unwrap();
    assert_eq!(library.overwrites(), [Overwrite { vid: vid(1), at: 0, end: 2 }]);
    let counts = faults.counts();
    assert_eq!((counts.len(), counts.values().sum::<u64>()), (6, 6), "{counts:?}");
}

#[test]
fn drives_die_in_every_state() {
    for state in MountState::ALL {
        let world = world(7);
        let library = world.library();
        let name = library.drives()[0].clone();
        library.kill_drive(&name, state);
        let mut alive = library.mount(vid(1), &name).is_ok();
        if alive {
            let mut drive = library.take_drive(&name).unwrap();
            alive = drive.locate(at(Partition::Data, 0)).is_ok()
                && drive.read_block(&mut [0; 8]).is_ok()
                && drive.write_block(&[1]).is_ok();
            drop(drive);
            alive &= library.unmount(&name).is_ok();
        }
        assert!(!alive && library.is_drive_dead(&name), "{state:?}");
        assert!(world.faults().fired(Fault::TapeDriveDead) > 0);
        library.revive_drive(&name);
        if state != MountState::Mounting {
            library.unmount(&name).unwrap();
        }
        library.mount(vid(1), &name).unwrap();
    }
}

#[test]
fn what_was_synced_survives_a_loss_of_power() {
    let (mut absent, mut torn, mut whole, mut risen) = (0, 0, 0, 0);
    for seed in 0..200 {
        let world = world(seed);
        let drive = world.disks()[0].open().unwrap();
        let (synced, half, deleted) = (extent(1), extent(2), extent(3));
        for id in [deleted, synced, half] {
            let mut writer = drive.create(id, ByteCount(0)).unwrap();
            writer.append(&vec![1; 2 * PAGE]).unwrap();
            if id != half {
                writer.sync().unwrap();
            }
            writer.append(&vec![2; 2 * PAGE]).unwrap();
            if id == deleted {
                writer.seal().unwrap();
                drive.delete(id).unwrap();
            }
        }
        world.power_loss();
        assert!(matches!(drive.list(None, 9), Err(DriveError::List { .. })), "handles of before are dead");
        let disk = &world.disks()[0];
        let found = disk.bytes(synced).unwrap();
        assert_eq!(found[..2 * PAGE], vec![1; 2 * PAGE]);
        assert!(found.iter().skip(2 * PAGE).all(|byte| [0, 2].contains(byte)));
        match disk.bytes(half) {
            None => absent += 1,
            Some(bytes) if *bytes == [vec![1; 2 * PAGE], vec![2; 2 * PAGE]].concat() => whole += 1,
            Some(_) => torn += 1,
        }
        risen += u32::from(disk.bytes(deleted).is_some());
    }
    assert!(absent > 20 && torn > 10 && whole > 5 && risen > 20, "{absent} {torn} {whole} {risen}");
}

#[test]
fn disk_faults_do_what_they_say() {
    let kinds = [
        Fault::DiskSync,
        Fault::DiskWrite,
        Fault::DiskFull,
        Fault::DiskRead,
        Fault::DiskBitFlip,
        Fault::DiskLostWrite,
        Fault::DiskMisdirectedWrite,
        Fault::DiskStalePage,
    ];
    for fault in kinds {
        let world = world(3);
        let disk = &world.disks()[1];
        let drive = disk.open().unwrap();
        let mut before = drive.create(extent(1), ByteCount(0)).unwrap();
        before.append(&vec![7; 4 * PAGE]).unwrap();
        before.seal().unwrap();
        world.faults().once(fault, Target::Disk(disk.id()), 0);
        let write = || {
            let mut writer = drive.create(extent(2), ByteCount(0))?;
            writer.append(&vec![9; 2 * PAGE])?;
            let synced = writer.sync();
            assert!(synced.is_ok() || matches!(writer.sync(), Err(DriveError::Poisoned { .. })));
            synced?;
            let mut found = vec![0; 2 * PAGE];
            drive.read_at(extent(2), ByteCount(0), &mut found)?;
            Ok::<_, DriveError>(found == vec![9; 2 * PAGE])
        };
        let result = write();
        let is_right = match fault {
            Fault::DiskFull => matches!(result, Err(DriveError::Full { .. })),
            Fault::DiskSync | Fault::DiskWrite | Fault::DiskRead => {
                matches!(result, Err(DriveError::Io { .. }))
            }
            _ => matches!(result, Ok(false)),
        };
        assert!(is_right, "{fault:?}: {result:?}");
        assert_eq!(world.faults().fired(fault), 1);
        let damaged = *disk.bytes(extent(1)).unwrap() != vec![7; 4 * PAGE];
        assert!(!damaged || fault == Fault::DiskMisdirectedWrite, "{fault:?}");
    }
}

#[test]
fn a_replacement_is_seen_when_it_is_sealed() {
    let world = world(4);
    let disk = &world.disks()[0];
    let drive = disk.open().unwrap();
    let mut writer = drive.create(extent(1), ByteCount(0)).unwrap();
    writer.append(&[1; PAGE]).unwrap();
    writer.seal().unwrap();
    let mut dropped = drive.replace(extent(1), ByteCount(0)).unwrap();
    dropped.append(&[2; PAGE]).unwrap();
    drop(dropped);
    let mut writer = drive.replace(extent(1), ByteCount(0)).unwrap();
    writer.append(&[3; PAGE]).unwrap();
    writer.append(&[4; PAGE]).unwrap();
    assert_eq!(disk.bytes(extent(1)), Some(Arc::new(vec![1; PAGE])));
    writer.seal().unwrap();
    world.power_loss();
    assert_eq!(disk.bytes(extent(1)), Some(Arc::new([[3; PAGE], [4; PAGE]].concat())));
    assert_eq!(disk.extents(), [extent(1)]);
    let drive = disk.open().unwrap();
    world.faults().once(Fault::DiskSync, Target::Any, 0);
    let mut writer = drive.create(extent(2), ByteCount(0)).unwrap();
    assert!(writer.sync().is_err() && drive.status().unwrap().suspect);
    drive.probe().unwrap();
    assert!(!drive.status().unwrap().suspect);
}

#[test]
fn a_disk_that_was_away_comes_back_as_it_was() {
    let world = world(4);
    let disk = &world.disks()[2];
    let drive = disk.open().unwrap();
    let mut writer = drive.create(extent(1), ByteCount(0)).unwrap();
    disk.set_gone(true);
    assert!(disk.open().is_none());
    assert!(matches!(writer.append(&[0; PAGE]), Err(DriveError::Io { .. })));
    assert!(drive.status().is_err() && drive.set_stamp(Epoch(4), 4).is_err());
    disk.set_gone(false);
    assert!(matches!(writer.append(&[0; PAGE]), Err(DriveError::Poisoned { .. })));
    assert!(drive.status().unwrap().suspect);
    assert_eq!(drive.list(None, 9).unwrap(), [extent(1)]);
    assert!(world.faults().fired(Fault::DiskGone) > 0);
}

#[test]
fn an_image_holds_what_was_durable_at_its_point() {
    let pace: Arc<dyn Pace> = Arc::new(StillPace::new(1));
    let world = SimMachines::with_journal(&config(), Arc::clone(&pace));
    let drive = world.disks()[0].open().unwrap();
    let mut writer = drive.create(extent(1), ByteCount(0)).unwrap();
    writer.append(&vec![1; PAGE]).unwrap();
    writer.sync().unwrap();
    let point = world.journal().unwrap().len();
    writer.append(&vec![2; PAGE]).unwrap();
    writer.sync().unwrap();
    let mut replay = world.replay().unwrap();
    replay.advance(point);
    let mut dice = Dice::new(1);
    let image = replay.image(&mut dice, Arc::clone(&pace), None);
    assert_eq!(image.disks()[0].bytes(extent(1)), Some(Arc::new(vec![1; PAGE])));
    replay.advance(world.journal().unwrap().len());
    let image = replay.image(&mut dice, pace, None);
    assert_eq!(image.disks()[0].bytes(extent(1)), world.disks()[0].bytes(extent(1)));
}
