//! The parts below the server, measured without it.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use base::{ArchivePath, ByteCount, DriveGroup, DriveId, Epoch, Partition, StripeCode, Vid};
use cluster::{DriveEntry, DriveMap, DriveState, FailureDomain};
use drive::DriveIo;
use library::{DriveName, Library, ReadBlock, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};
use location::DriveLocation;
use pool::{Pool, PoolConfig};
use store::{CatalogueStore, StoreOptions};
use terminal::{Failure, Outcome, text};

use super::rows::Row;

/// Data and parity shards, and drives, as `kist init` makes them.
const DATA: u8 = 4;
const PARITY: u8 = 2;
const DRIVES: u16 = 8;
/// Bytes of a tape block.
const TAPE_BLOCK_BYTES: usize = 512 << 10;

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::internal(format!("measuring the engine: {error}"))
}

/// Writes and reads one blob of the pool: put and get without HTTP, hashes and catalogue.
pub fn pool(directory: &Path, bytes: u64, io: DriveIo) -> Outcome<(Row, Row)> {
    let pool = open_pool(&directory.join("raw-pool"), io)?;
    let buffer = vec![9u8; 1 << 20];
    let started = Instant::now();
    let mut writer = pool.create_sized(ByteCount(bytes)).map_err(failed)?;
    let mut left = bytes;
    while left > 0 {
        let part = left.min(buffer.len() as u64);
        writer.write(buffer.get(..part as usize).unwrap_or_default()).map_err(failed)?;
        left -= part;
    }
    let blob = writer.finish().map_err(failed)?;
    let write = Row::bytes("pool alone, write", bytes, started.elapsed().as_secs_f64());
    let started = Instant::now();
    let mut reader = pool.read(&blob, ByteCount(0), ByteCount(bytes)).map_err(failed)?;
    let mut read = 0u64;
    while let Some(part) = reader.next().map_err(failed)? {
        read += part.as_ref().len() as u64;
    }
    let row = Row::bytes("pool alone, read", read, started.elapsed().as_secs_f64());
    pool.remove(&blob).map_err(failed)?;
    Ok((write, row))
}

fn open_pool(directory: &Path, io: DriveIo) -> Outcome<Arc<Pool>> {
    let instance = text::random_uuid()?;
    let (mut entries, mut drives) = (Vec::new(), Vec::new());
    for number in 0..DRIVES {
        let (id, name) = (DriveId(number), format!("d{number}"));
        let at = DriveLocation::parse(Path::new(&name), directory).map_err(failed)?;
        at.format(instance, id).map_err(failed)?;
        drives.push((id, Some(at.open(instance, id, io).map_err(failed)?)));
        let domain = FailureDomain { host: at.host().to_owned(), enclosure: String::new(), disk: name };
        entries.push(DriveEntry { id, domain, group: DriveGroup::MAIN, state: DriveState::Up, weight: 1 });
    }
    let map = DriveMap::new(Epoch(1), entries).map_err(failed)?;
    Pool::open(
        PoolConfig::new(instance, StripeCode::reed_solomon(DATA, PARITY)),
        Epoch(1),
        map,
        drives,
        Vec::new(),
    )
    .map_err(failed)
}

/// Writes and reads the data partition of a virtual cartridge: migrate and recall without all the rest.
pub fn tape(directory: &Path, bytes: u64) -> Outcome<(Row, Row)> {
    let name = DriveName::new("raw").map_err(failed)?;
    let vid = Vid::new("RAW001").map_err(failed)?;
    let config = VirtualLibraryConfig {
        drives: vec![name.clone()],
        robots: 1,
        cartridges: vec![(vid, ByteCount(bytes.saturating_mul(2).max(1 << 30)))],
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    let library = VirtualLibrary::create(&directory.join("raw-library"), &config).map_err(failed)?;
    let mut drive = library.take_drive(&name).map_err(failed)?;
    library.mount(vid, &name).map_err(failed)?;
    drive.format_partitions().map_err(failed)?;
    drive.space_to_end_of_data(Partition::Data).map_err(failed)?;
    let mut buffer = vec![11u8; TAPE_BLOCK_BYTES];
    let (started, mut written) = (Instant::now(), 0u64);
    while written < bytes {
        drive.write_block(&buffer).map_err(failed)?;
        written += TAPE_BLOCK_BYTES as u64;
    }
    drive.write_filemarks(0).map_err(failed)?;
    let write = Row::bytes("virtual drive alone, write", written, started.elapsed().as_secs_f64());
    drive.rewind().map_err(failed)?;
    let (started, mut read) = (Instant::now(), 0u64);
    while let ReadBlock::Data(length) = drive.read_block(&mut buffer).map_err(failed)? {
        read += length as u64;
    }
    let row = Row::bytes("virtual drive alone, read", read, started.elapsed().as_secs_f64());
    drop(drive);
    library.unmount(&name).map_err(failed)?;
    Ok((write, row))
}

/// Resolves paths in the catalogue of a stopped server and reads the files' records, by one thread.
pub fn catalogue(directory: &Path, options: StoreOptions, paths: &[String], name: &str) -> Outcome<Row> {
    let store = CatalogueStore::open(directory, options).map_err(failed)?;
    let paths: Vec<ArchivePath> =
        paths.iter().map(|p| ArchivePath::new(p)).collect::<Result<_, _>>().map_err(failed)?;
    let started = Instant::now();
    let found = store.read(|view| {
        let mut found = 0u64;
        for path in &paths {
            found += u64::from(view.resolve(path)?.is_some());
        }
        Ok(found)
    });
    let seconds = started.elapsed().as_secs_f64();
    let found = found.map_err(failed)?;
    if found != paths.len() as u64 {
        return Err(Failure::internal(format!(
            "{found} of {} paths were found in the catalogue",
            paths.len()
        )));
    }
    Ok(Row::operations(name, found, 0, seconds))
}
