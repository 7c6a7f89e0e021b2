//! The device server of a virtual library: any commands with any data, one after the other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base::{BlockAddress, ByteCount, Partition, TapePosition, Vid};
use iscsi::login::Name;
use library::{
    CartridgeInfo, DriveName, Library, LibraryError, MotionReport, Place, ReadBlock, Slot, TapeAlert,
    TapeDrive, TapeError, Track, WriteResult,
};
use scsi::command::cdb_length;
use scsi::{Cdb, Completion, Data, Sense, Status, Transport};
use vtl::{Blank, Options, Target};

use crate::split;

/// The most bytes that a partition holds.
const PARTITION_MAX: usize = 64 * 1024;
/// The longest data that an initiator has room for here.
const ROOM_MAX: usize = 70_000;
/// Commands of one input.
const COMMANDS_MAX: usize = 64;

/// A cartridge in memory: records, and filemarks as empty ones.
#[derive(Default)]
struct Cartridge {
    partitions: [Vec<Vec<u8>>; 2],
    memory: BTreeMap<(u8, u16), Vec<u8>>,
}

struct Bay {
    name: DriveName,
    /// What is in it, and where it stands.
    loaded: Option<(Vid, usize, usize)>,
}

#[derive(Default)]
struct State {
    cartridges: BTreeMap<Vid, Cartridge>,
    bays: Vec<Bay>,
}

/// A library in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<State>>);

impl Memory {
    fn new() -> Memory {
        let mut state = State::default();
        for vid in ["KT0001", "KT0002"] {
            state.cartridges.insert(Vid::new(vid).unwrap(), Cartridge::default());
        }
        let bays = ["d0", "d1"].map(|name| Bay { name: DriveName::new(name).unwrap(), loaded: None });
        state.bays.extend(bays);
        Memory(Arc::new(Mutex::new(state)))
    }
}

impl Library for Memory {
    fn inventory(&self) -> Result<Vec<CartridgeInfo>, LibraryError> {
        let state = self.0.lock().unwrap();
        let place = |vid: &Vid, rank: u32| {
            let bay = state.bays.iter().find(|bay| bay.loaded.is_some_and(|(held, ..)| held == *vid));
            bay.map_or(Place::Slot(Slot(rank)), |bay| Place::Drive(bay.name.clone()))
        };
        let info = |(rank, vid): (u32, &Vid)| CartridgeInfo {
            vid: *vid,
            place: place(vid, rank),
            capacity: ByteCount(PARTITION_MAX as u64),
            write_protected: false,
            damaged: false,
            library: 0,
        };
        Ok((0..).zip(state.cartridges.keys()).map(info).collect())
    }

    fn changes(&self) -> Result<u64, LibraryError> {
        Ok(0)
    }

    fn without_vid(&self) -> Vec<String> {
        Vec::new()
    }

    fn out_of_reach(&self) -> Vec<String> {
        Vec::new()
    }

    fn drives(&self) -> Vec<DriveName> {
        self.0.lock().unwrap().bays.iter().map(|bay| bay.name.clone()).collect()
    }

    fn library_of(&self, _drive: &DriveName) -> u16 {
        0
    }

    fn take_drive(&self, name: &DriveName) -> Result<Box<dyn TapeDrive>, LibraryError> {
        let number = self.drives().iter().position(|drive| drive == name).unwrap();
        Ok(Box::new(Drive { library: self.clone(), name: name.clone(), number }))
    }

    fn mount(&self, vid: Vid, drive: &DriveName) -> Result<(), LibraryError> {
        let mut state = self.0.lock().unwrap();
        assert!(state.cartridges.contains_key(&vid), "a cartridge that is not there was moved");
        let elsewhere = state.bays.iter().any(|bay| bay.loaded.is_some_and(|(held, ..)| held == vid));
        assert!(!elsewhere, "{vid} was moved out of a drive that had not unloaded it");
        let bay = state.bays.iter_mut().find(|bay| bay.name == *drive).unwrap();
        assert_eq!(bay.loaded, None, "a full drive was loaded");
        bay.loaded = Some((vid, 0, 0));
        Ok(())
    }

    fn unmount(&self, drive: &DriveName) -> Result<Vid, LibraryError> {
        let mut state = self.0.lock().unwrap();
        let bay = state.bays.iter_mut().find(|bay| bay.name == *drive).unwrap();
        let (vid, ..) = bay.loaded.take().expect("an empty drive was unloaded");
        Ok(vid)
    }
}

/// What is loaded, and where it stands.
struct At<'a> {
    vid: Vid,
    cartridge: &'a mut Cartridge,
    partition: &'a mut usize,
    block: &'a mut usize,
}

struct Drive {
    library: Memory,
    name: DriveName,
    number: usize,
}

fn index_of(partition: Partition) -> usize {
    usize::from(partition.scsi_number())
}

fn address(partition: usize, block: usize) -> TapePosition {
    let partition = if partition == 0 { Partition::Index } else { Partition::Data };
    TapePosition { partition, block: BlockAddress(block as u64) }
}

impl Drive {
    fn with<T>(&self, run: impl FnOnce(At<'_>) -> Result<T, TapeError>) -> Result<T, TapeError> {
        let mut state = self.library.0.lock().unwrap();
        let State { cartridges, bays } = &mut *state;
        match &mut bays[self.number].loaded {
            Some((vid, partition, block)) => {
                let cartridge = cartridges.get_mut(vid).unwrap();
                let result = run(At { vid: *vid, cartridge, partition, block });
                assert!(*block <= cartridge.partitions[*partition].len(), "the tape left its partition");
                result
            }
            None => Err(TapeError::NotLoaded { drive: self.name.clone() }),
        }
    }

    fn append(&self, record: &[u8]) -> Result<WriteResult, TapeError> {
        self.with(|At { vid, cartridge, partition, block }| {
            let records = &mut cartridge.partitions[*partition];
            let used: usize = records[..*block].iter().map(Vec::len).sum();
            if used + record.len() > PARTITION_MAX {
                return Err(TapeError::EndOfMedium { vid, at: address(*partition, *block) });
            }
            records.truncate(*block);
            records.push(record.to_vec());
            *block += 1;
            Ok(WriteResult { early_warning: used + record.len() > PARTITION_MAX * 3 / 4 })
        })
    }
}

impl TapeDrive for Drive {
    fn id(&self) -> &DriveName {
        &self.name
    }

    fn read_block(&mut self, buffer: &mut [u8]) -> Result<ReadBlock, TapeError> {
        self.with(|At { cartridge, partition, block, .. }| {
            let Some(record) = cartridge.partitions[*partition].get(*block) else {
                return Ok(ReadBlock::EndOfData);
            };
            let Some(front) = buffer.get_mut(..record.len()) else {
                return Err(TapeError::BufferTooSmall { record: record.len(), buffer: buffer.len() });
            };
            front.copy_from_slice(record);
            *block += 1;
            Ok(if record.is_empty() { ReadBlock::FileMark } else { ReadBlock::Data(record.len()) })
        })
    }

    fn write_block(&mut self, block: &[u8]) -> Result<WriteResult, TapeError> {
        assert!(!block.is_empty(), "an empty block was written");
        self.append(block)
    }

    fn write_filemarks(&mut self, count: u32) -> Result<WriteResult, TapeError> {
        assert!(count <= library::FILE_MARKS_MAX);
        let mut result = self.with(|_| Ok(WriteResult::default()))?;
        for _ in 0..count {
            result = self.append(&[])?;
        }
        Ok(result)
    }

    fn locate(&mut self, to: TapePosition) -> Result<(), TapeError> {
        self.with(|At { vid, cartridge, partition, block }| {
            let index = index_of(to.partition);
            let end = cartridge.partitions[index].len();
            if to.block.0 > end as u64 {
                return Err(TapeError::BeyondEndOfData { vid, to, end: address(index, end) });
            }
            (*partition, *block) = (index, usize::try_from(to.block.0).unwrap());
            Ok(())
        })
    }

    fn space_to_end_of_data(&mut self, to: Partition) -> Result<TapePosition, TapeError> {
        self.with(|At { cartridge, partition, block, .. }| {
            (*partition, *block) = (index_of(to), cartridge.partitions[index_of(to)].len());
            Ok(address(*partition, *block))
        })
    }

    fn position(&mut self) -> Result<TapePosition, TapeError> {
        self.with(|At { partition, block, .. }| Ok(address(*partition, *block)))
    }

    fn rewind(&mut self) -> Result<(), TapeError> {
        self.with(|At { block, .. }| {
            *block = 0;
            Ok(())
        })
    }

    fn loaded(&self) -> bool {
        self.with(|_| Ok(())).is_ok()
    }

    fn format_partitions(&mut self) -> Result<(), TapeError> {
        self.with(|At { cartridge, partition, block, .. }| {
            cartridge.partitions = Default::default();
            (*partition, *block) = (0, 0);
            Ok(())
        })
    }

    fn read_attribute(&mut self, partition: Partition, id: u16) -> Result<Option<Vec<u8>>, TapeError> {
        self.with(|At { cartridge, .. }| Ok(cartridge.memory.get(&(partition.scsi_number(), id)).cloned()))
    }

    fn write_attribute(&mut self, partition: Partition, id: u16, value: &[u8]) -> Result<(), TapeError> {
        assert!((0x0800..=0x0bff).contains(&id) || (0x1400..=0x17ff).contains(&id), "not the host's");
        assert!(value.len() <= library::MEMORY_VALUE_BYTES_MAX);
        self.with(|At { cartridge, .. }| {
            let key = (partition.scsi_number(), id);
            match value.is_empty() {
                true => drop(cartridge.memory.remove(&key)),
                false => drop(cartridge.memory.insert(key, value.to_vec())),
            }
            Ok(())
        })
    }

    fn remaining(&mut self) -> Result<ByteCount, TapeError> {
        self.with(|At { cartridge, .. }| {
            let used: usize = cartridge.partitions[1].iter().map(Vec::len).sum();
            Ok(ByteCount((PARTITION_MAX - used) as u64))
        })
    }

    fn end_of_wrap_positions(&mut self) -> Result<Option<Vec<BlockAddress>>, TapeError> {
        self.with(|At { cartridge, .. }| {
            let end = cartridge.partitions[1].len() as u64;
            Ok(Some((1..=end).step_by(4).map(BlockAddress).collect()))
        })
    }

    fn recommended_order(
        &mut self,
        segments: &[(BlockAddress, BlockAddress)],
    ) -> Result<Option<Vec<usize>>, TapeError> {
        assert!(segments.len() <= library::ORDER_SEGMENTS_MAX);
        self.with(|_| Ok(Some((0..segments.len()).rev().collect())))
    }

    fn track(&mut self, _block_size: u32) -> Result<Option<Track>, TapeError> {
        Ok(None)
    }

    fn motion_report(&mut self) -> Option<MotionReport> {
        None
    }

    fn set_encryption(&mut self, _encryption: Option<&library::TapeEncryption>) -> Result<(), TapeError> {
        Ok(())
    }

    fn block_encryption(&mut self) -> Result<library::BlockEncryption, TapeError> {
        Ok(library::BlockEncryption::Unknown)
    }

    fn alerts(&mut self) -> Result<Vec<TapeAlert>, TapeError> {
        Ok(vec![TapeAlert(20)])
    }

    fn counters(&mut self) -> Result<library::DriveCounters, TapeError> {
        Ok(library::DriveCounters::default())
    }
}

/// A completion as no device may break it.
fn holds(completion: &Completion, room: usize) {
    assert!(completion.transferred <= room, "more than there is room for");
    match completion.status {
        Status::Good => assert!(completion.sense.is_empty()),
        Status::CheckCondition => {
            assert!(completion.sense.len() <= Completion::SENSE_MAX);
            Sense::decode(&completion.sense).unwrap();
        }
        Status::ReservationConflict => {}
        other => panic!("{other:?}"),
    }
}

/// Commands for the three units: for each a byte that selects the unit and the initiator, the command, a byte
/// with the length of its data, the data.
pub fn commands(data: &[u8]) {
    let (kind, mut data) = split(data);
    let mut options = Options::new(Name::new("iqn.2026-01.org.kist:fuzz").unwrap());
    options.blank = if kind & 1 == 0 { Blank::TwoPartitions } else { Blank::OnePartition };
    options.geometry = kind & 2 == 0;
    options.unload_on_move = kind & 4 == 0;
    let target = Target::new(Arc::new(Memory::new()), options).unwrap();
    let transport = |lun, name: &str| target.transport(lun, name).unwrap();
    let mut units: Vec<_> = (0..6)
        .map(|number: u16| {
            let initiator = if number < 3 { "iqn.2026-01.org.kist:one" } else { "iqn.2026-01.org.kist:two" };
            transport(number % 3, initiator)
        })
        .collect();
    let limit = std::time::Duration::from_secs(1);
    let ready = Cdb::new(&[0; 6]).unwrap();
    for unit in &mut units {
        // Its unit attention.
        unit.execute(&ready, Data::None, limit).unwrap();
    }
    let mut load = [0; 12];
    (load[0], load[4], load[6]) = (0xa5, 4, 1);
    units[0].execute(&Cdb::new(&load).unwrap(), Data::None, limit).unwrap();
    units.iter_mut().for_each(|unit| drop(unit.execute(&ready, Data::None, limit)));
    let mut room = vec![0; ROOM_MAX];
    for _ in 0..COMMANDS_MAX {
        let Some((number, rest)) = data.split_first() else { break };
        let length = rest.first().and_then(|operation| cdb_length(*operation)).unwrap_or(6);
        let Some((bytes, rest)) = rest.split_at_checked(length) else { break };
        let (given, rest) = split(rest);
        let (out, rest) = rest.split_at(usize::from(given).min(rest.len()));
        data = rest;
        let number = usize::from(*number) % units.len();
        let cdb = Cdb::new(bytes).unwrap();
        // With data for the device, or with room for its own.
        let completion = match out.is_empty() {
            true => units[number].execute(&cdb, Data::In(&mut room), limit).unwrap(),
            false => units[number].execute(&cdb, Data::Out(out), limit).unwrap(),
        };
        holds(&completion, ROOM_MAX);
        // It still answers, whatever it was asked.
        holds(&units[number].execute(&ready, Data::None, limit).unwrap(), 0);
    }
}
