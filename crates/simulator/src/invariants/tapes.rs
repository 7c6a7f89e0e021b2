//! I3: what the cartridges hold against what the catalogue says that they hold.

use std::collections::{BTreeMap, BTreeSet};

use ::catalogue::{ContainerRecord, CopyState, ReadError, Table, TapeRecord, TapeState, View};
use base::{BlockAddress, ContainerId, Partition, StreamChecksums, TapePoolId, Vid};
use ltfs::catalogue_base::BasePart;
use ltfs::changes::ChangeNumber;
use ltfs::coherency::{self, VolumeCoherency};
use ltfs::{BlockSize, Index, VolumeLabel, naming};
use store::MemorySnapshot;

use super::{Found, Quiet, Rule, id_of};
use crate::machines::{SimLibrary, TapeObject};

/// Where the LTFS label stands in a partition: behind VOL1 and a file mark.
const LABEL_BLOCK: usize = 2;

/// The containers that the newest index of a tape names, with their first blocks.
type Named = BTreeMap<ContainerId, BlockAddress>;

pub(super) fn check(
    snapshot: &MemorySnapshot,
    view: &View<'_>,
    library: &SimLibrary,
    quiet: &Quiet,
    found: &mut Found,
) -> Result<(), ReadError> {
    let mut partitions: BTreeMap<Vid, Vec<TapeObject>> = BTreeMap::new();
    let mut named: BTreeMap<Vid, Named> = BTreeMap::new();
    let mut holders: BTreeMap<(TapePoolId, ContainerId), Vid> = BTreeMap::new();
    for vid in library.vids() {
        let objects = library.objects(vid, Partition::Data);
        let Some(tape) = view.tape(vid)? else { continue };
        let is_labelled = !matches!(tape.state, TapeState::Scratch | TapeState::Labelling);
        if let (Some(pool), true) = (tape.tape_pool, is_labelled && tape.generation.0 > 0) {
            let index = indexes(vid, &objects, &tape, library, quiet, found);
            if tape.run.is_none() && quiet.has_whole_runs {
                index_partition(vid, &tape, library, found);
            }
            if let Some(index) = index.as_ref().filter(|_| quiet.has_good_tapes) {
                bases(view, vid, index, &objects, found)?;
            }
            let entries = index.map(|index| entries(view, vid, &index, quiet, found)).transpose()?;
            for container in entries.iter().flatten().map(|(container, _)| *container) {
                if let Some(other) = holders.insert((pool, container), vid) {
                    let object = format!("container {container}");
                    let what =
                        format!("stands in the indexes of {other} and {vid}, both of tape pool {pool}");
                    found.expect(quiet.may_have_moved, Rule::TapeEntries, object, what);
                }
            }
            named.insert(vid, entries.unwrap_or_default());
        }
        partitions.insert(vid, objects);
    }
    let none = (Named::new(), Vec::new());
    for (key, _) in snapshot.rows(Table::Container) {
        let id = ContainerId(id_of(key));
        let Some(container) = view.container(id)? else { continue };
        for copy in &container.copies {
            let Some((vid, block)) = copy.state.place() else { continue };
            let object = format!("container {id} on {vid}, block {block}");
            if matches!(copy.state, CopyState::Indexed { .. }) {
                let is_named = named.get(&vid).unwrap_or(&none.0).get(&id) == Some(&block);
                let is_known = is_named || !quiet.has_good_tapes;
                found.expect(is_known, Rule::TapeEntries, &object, "the tape's index does not name it");
            }
            let objects = partitions.get(&vid).unwrap_or(&none.1);
            let bytes = read(objects, block, &container);
            found.expect(
                bytes || !quiet.has_good_tapes,
                Rule::TapeEntries,
                &object,
                "its bytes are not there",
            );
        }
    }
    Ok(())
}

/// Whether the bytes of a container stand at a block as they were sealed.
fn read(objects: &[TapeObject], block: BlockAddress, container: &ContainerRecord) -> bool {
    let (mut sums, mut length) = (StreamChecksums::default(), 0u64);
    for object in objects.iter().skip(block.0 as usize) {
        if length >= container.length.0 {
            break;
        }
        let TapeObject::Record(bytes) = object else { return false };
        sums = sums.extend(bytes);
        length += bytes.len() as u64;
    }
    length == container.length.0 && sums == container.checksums
}

/// Each base that the catalogue has on a tape is named by its index, part for part, and can be read.
fn bases(
    view: &View<'_>,
    vid: Vid,
    index: &Index,
    objects: &[TapeObject],
    found: &mut Found,
) -> Result<(), ReadError> {
    for (change, base) in view.bases(vid)? {
        let mut rows = 0;
        for number in 1..=base.parts {
            let object = format!("part {number} of the base at change {change} on {vid}");
            let path = naming::base_path(ChangeNumber(change), number, base.parts);
            let place = index.tree.iter().find(|(at, _)| *at == path);
            let place = place.and_then(|(_, file)| Some((file.extents.first()?.start_block, file.length.0)));
            let bytes = place.map(|(block, length)| file_bytes(objects, block, length)).unwrap_or_default();
            let is_right = BasePart::parse(&bytes).is_ok_and(|part| {
                let follows = part.head.rows_before == rows && part.head.change.0 == change;
                rows += part.rows.len() as u64;
                follows && part.head.part == number && part.head.is_last == (number == base.parts)
            });
            found.expect(is_right, Rule::TapeEntries, object, "is not there, or is not what it should be");
        }
    }
    Ok(())
}

/// The bytes of a file that begins at a block, as far as they can be read.
fn file_bytes(objects: &[TapeObject], block: BlockAddress, length: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for object in objects.iter().skip(block.0 as usize) {
        let TapeObject::Record(record) = object else { break };
        if bytes.len() as u64 >= length {
            break;
        }
        bytes.extend_from_slice(record);
    }
    bytes
}

/// All index constructs of a partition that can be read, with the block of each.
fn constructs(objects: &[TapeObject]) -> Vec<(u64, Index)> {
    let label = objects.get(LABEL_BLOCK).and_then(|object| match object {
        TapeObject::Record(bytes) => VolumeLabel::parse(bytes).ok(),
        _ => None,
    });
    let block_size = label.map_or(BlockSize::DEFAULT, |label| label.block_size);
    let mut found = Vec::new();
    let mut at = 0;
    while at < objects.len() {
        at += 1;
        if objects[at - 1] != TapeObject::FileMark {
            continue;
        }
        let begin = at;
        let mut xml: Vec<u8> = Vec::new();
        while let Some(TapeObject::Record(bytes)) = objects.get(at) {
            xml.extend_from_slice(bytes);
            at += 1;
        }
        let is_closed = objects.get(at) == Some(&TapeObject::FileMark);
        if !is_closed || !xml.starts_with(b"<?xml") {
            continue;
        }
        let index = Index::parse(&xml, block_size).ok();
        found.extend(index.filter(|index| index.location.block.0 == begin as u64).map(|i| (begin as u64, i)));
    }
    found
}

/// Checks the chain of indexes of a tape and gives the newest one.
fn indexes(
    vid: Vid,
    objects: &[TapeObject],
    tape: &TapeRecord,
    library: &SimLibrary,
    quiet: &Quiet,
    found: &mut Found,
) -> Option<Index> {
    let mut chain = constructs(objects);
    let place = |block: u64| format!("cartridge {vid}, data partition, block {block}");
    for pair in chain.windows(2) {
        let (before, after) = (pair[0].1.generation, pair[1].1.generation);
        let what = format!("an index of generation {after} follows one of {before}");
        found.expect(after > before, Rule::TapeEntries, place(pair[1].0), what);
    }
    for (block, index) in &chain {
        let is_ours = Some(index.volume_uuid) == tape.uuid;
        found.expect(is_ours, Rule::TapeEntries, place(*block), "the index is of another volume");
    }
    let known = chain.iter().find(|(block, _)| *block == tape.index_block.0);
    let is_there = known.is_some_and(|(_, index)| index.generation == tape.generation);
    let what = format!("index {} of the catalogue is not there", tape.generation);
    found.expect(is_there || !quiet.has_good_tapes, Rule::TapeEntries, place(tape.index_block.0), what);
    let newest = chain.pop().map(|(_, index)| index);
    let copies = constructs(&library.objects(vid, Partition::Index));
    let copy = copies.last().map(|(_, index)| index.generation);
    if copy > newest.as_ref().map(|index| index.generation) && quiet.has_good_tapes {
        let what = format!("is at generation {copy:?}, ahead of the data partition");
        found.add(Rule::TapeEntries, format!("cartridge {vid}, index partition"), what);
    }
    newest
}

/// A tape whose run has ended is one that any LTFS program mounts: the index partition has the newest index
/// of the data partition, and the cartridge memory says so of both. Not one that is only kept for reading: on
/// that something could not be written.
fn index_partition(vid: Vid, tape: &TapeRecord, library: &SimLibrary, found: &mut Found) {
    if !matches!(tape.state, TapeState::Active | TapeState::Full | TapeState::Repacking) {
        return;
    }
    let object = format!("cartridge {vid}, index partition");
    let copies = constructs(&library.objects(vid, Partition::Index));
    let copy = copies.last().map(|(_, index)| (index.generation, index.previous.map(|at| at.block)));
    let expected = (tape.generation, Some(tape.index_block));
    let what = format!("its last index is {copy:?} and not {expected:?}");
    found.expect(copy == Some(expected), Rule::IndexPartition, &object, what);
    let reference = library.attribute(vid, Partition::Index, coherency::VOLUME_CHANGE_REFERENCE);
    let last = copies.last().map(|(block, _)| BlockAddress(*block));
    for (partition, block) in [(Partition::Index, last), (Partition::Data, Some(tape.index_block))] {
        let value = library.attribute(vid, partition, coherency::VOLUME_COHERENCY.id);
        let told = value.and_then(|value| VolumeCoherency::parse(&value).ok());
        let what = format!("the cartridge memory of partition {} tells {told:?}", partition.ltfs_id());
        let is_right = told.is_some_and(|told| {
            let same = Some(told.volume_uuid) == tape.uuid && told.generation == tape.generation;
            let holds =
                reference.as_deref().is_some_and(|now| told.change_reference.0.to_be_bytes().ends_with(now));
            same && holds && Some(told.index_block) == block
        });
        found.expect(is_right, Rule::IndexPartition, &object, what);
    }
}

/// Checks that each file of an index is a container of the catalogue at that place, or Kist's own.
fn entries(
    view: &View<'_>,
    vid: Vid,
    index: &Index,
    quiet: &Quiet,
    found: &mut Found,
) -> Result<Named, ReadError> {
    let mut named = Named::new();
    let mut blocks: BTreeSet<BlockAddress> = BTreeSet::new();
    for (path, file) in &index.tree {
        let path = path.join("/");
        let object = format!("file {path} on {vid}");
        let start = file.extents.first().map(|extent| extent.start_block);
        if let Some(start) = start {
            let is_alone = blocks.insert(start);
            found.expect(
                is_alone,
                Rule::TapeEntries,
                &object,
                format!("another file begins at block {start}"),
            );
        }
        let Some(id) = container_of(file) else {
            let is_ours = path.starts_with(naming::KIST_DIRECTORY);
            found.expect(is_ours, Rule::TapeEntries, &object, "belongs to no container");
            continue;
        };
        let place = start.map(|block| (vid, block));
        let block = start.unwrap_or(BlockAddress(0));
        let is_first = named.insert(id, block).is_none();
        // A copy that was found damaged is written again, and its first file stays in the index.
        let is_damaged = !quiet.has_good_tapes;
        let what = format!("is another file of container {id}");
        found.expect(is_first || is_damaged, Rule::TapeEntries, &object, what);
        // A container of which nobody has a member any more is forgotten; its bytes are left on the tape.
        let Some(container) = view.container(id)? else { continue };
        let same_length = container.length == file.length;
        found.expect(same_length, Rule::TapeEntries, &object, "has another length than its container");
        let owners = container.copies.iter().filter(|copy| place.is_some() && copy.state.place() == place);
        let owners = owners.count();
        let what = format!("is {owners} copies of container {id} by the catalogue: {:?}", container.copies);
        found.expect(owners == 1 || quiet.may_have_moved, Rule::TapeEntries, &object, what);
    }
    Ok(named)
}

fn container_of(file: &ltfs::File) -> Option<ContainerId> {
    let (_, value) = file.xattrs.iter().find(|(key, _)| key == naming::XATTR_CONTAINER)?;
    std::str::from_utf8(value).ok()?.parse().ok().map(ContainerId)
}
