//! A mounted LTFS volume: its labels, its index in memory, and the three points at which a tape becomes
//! safer.

use std::collections::BTreeSet;

use base::planted::{Bug, is_planted};
use base::{BlockAddress, ByteCount, ContainerId, Generation, Partition, TapePosition, Timestamp, Uuid, Vid};
use library::{ReadBlock, TapeDrive, TapeError};
use ltfs::coherency::{self, ChangeReference, MamAttribute, VolumeCoherency};
use ltfs::naming::container_of;
use ltfs::{BlockSize, CREATOR, Extent, File, FileUid, Index, Times, Tree, VolumeLock};

use crate::VolumeError;
use crate::label::{check_label, check_may_be_labelled, write_labels};
use crate::unlock::{LabelKeys, check_encrypted_may_be_labelled};

/// A file to be entered in the index after its blocks were written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileOnTape {
    /// Its path, one name a component.
    pub path: Vec<String>,
    /// Its length.
    pub length: ByteCount,
    /// Its first block on the data partition.
    pub block: BlockAddress,
    /// The user's modification time.
    pub modified: Timestamp,
    /// Extended attributes.
    pub xattrs: Vec<(String, Vec<u8>)>,
}

/// A labelled volume in a drive, with its newest index in memory.
#[derive(Debug)]
pub struct Volume {
    vid: Vid,
    block_size: BlockSize,
    index: Index,
    /// Whether the index in memory holds more than the one on the data partition.
    changed: bool,
    /// Whether the index partition lacks the newest index of the data partition.
    partition_behind: bool,
    /// Bytes of indexes and small files that this mount wrote to the data partition.
    written: u64,
    /// The containers from this block on are not in the index in memory unless they were entered.
    enter_from: BlockAddress,
    /// The first object behind the newest index of the data partition.
    behind_index: BlockAddress,
    /// What is wrong with the label of one partition while the other one tells the volume.
    label_fault: Option<String>,
    /// The directories in which the index in memory names containers, once somebody has asked.
    named: Option<BTreeSet<(ContainerId, FileUid)>>,
}

pub(crate) const INDEX_PARTITION_START: BlockAddress = BlockAddress(4);

impl Volume {
    /// Labels a blank cartridge and writes the first index to both partitions. Durable on return.
    ///
    /// A cartridge that already carries exactly this UUID, no file and no data (a labelling cut short) is
    /// labelled again, and so is one that carries `replaces`: the volume that was reclaimed.
    ///
    /// The labels are written in clear, and all behind them as `keys` say: the drive has the key from then
    /// on, until the cartridge is unloaded. `None`: this instance has no keys.
    ///
    /// # Errors
    /// [`VolumeError::NotBlank`] if it holds anything else; nothing is destroyed then.
    pub fn label(
        drive: &mut dyn TapeDrive,
        vid: Vid,
        uuid: Uuid,
        block_size: BlockSize,
        replaces: Option<Uuid>,
        keys: Option<LabelKeys<'_>>,
        now: Timestamp,
    ) -> Result<Self, VolumeError> {
        match keys {
            Some(LabelKeys { keys, .. }) => {
                check_encrypted_may_be_labelled(drive, vid, (uuid, replaces), keys)?;
            }
            None => check_may_be_labelled(drive, vid, uuid, replaces)?,
        }
        let encryption = keys.and_then(|keys| keys.setting);
        assert!(encryption.is_none_or(|setting| setting.encrypts), "who gives a key to write means it");
        if keys.is_some() {
            // Before anything is written: a drive that cannot encrypt leaves the cartridge as it is. Then the
            // labels, in clear, which tell anybody whose it is.
            drive.set_encryption(encryption)?;
            drive.set_encryption(None)?;
        }
        drive.format_partitions()?;
        for partition in [Partition::Index, Partition::Data] {
            write_labels(drive, partition, vid, uuid, block_size, now)?;
        }
        if encryption.is_some() {
            drive.set_encryption(encryption)?;
        }
        let index = Index {
            creator: CREATOR.to_owned(),
            volume_uuid: uuid,
            generation: Generation(0),
            update_time: now,
            location: TapePosition { partition: Partition::Data, block: INDEX_PARTITION_START },
            previous: None,
            allow_policy_update: false,
            lock: VolumeLock::Unlocked,
            tree: Tree::new(vid.as_str(), now),
        };
        let mut volume = Volume::mended(vid, block_size, index, BlockAddress(0), None);
        volume.write_data_index(drive, now)?;
        volume.write_index_partition(drive, now)?;
        for (attribute, text) in [
            (coherency::APPLICATION_VENDOR, coherency::APPLICATION_VENDOR_KIST),
            (coherency::APPLICATION_NAME, "Kist"),
            (coherency::APPLICATION_VERSION, env!("CARGO_PKG_VERSION")),
            (coherency::BARCODE, vid.as_str()),
            (coherency::APPLICATION_FORMAT_VERSION, coherency::FORMAT_VERSION),
        ] {
            write_text_attribute(drive, attribute, text)?;
        }
        write_name_attributes(drive, vid)?;
        Ok(volume)
    }

    /// Checks the labels of both partitions and loads the index that the catalogue knows to be the newest on
    /// the data partition.
    ///
    /// # Errors
    /// If the label is another volume's, or the index is not there or not of that generation.
    pub fn open(
        drive: &mut dyn TapeDrive,
        vid: Vid,
        uuid: Uuid,
        generation: Generation,
        index_block: BlockAddress,
    ) -> Result<Self, VolumeError> {
        let label = check_label(drive, vid, uuid)?;
        Volume::load(drive, (vid, uuid), generation, index_block, label)
    }

    /// The same, of a volume whose labels were checked.
    pub(crate) fn load(
        drive: &mut dyn TapeDrive,
        (vid, uuid): (Vid, Uuid),
        generation: Generation,
        index_block: BlockAddress,
        (block_size, label_fault): (BlockSize, Option<String>),
    ) -> Result<Self, VolumeError> {
        let refuse = |reason: String| VolumeError::Index { vid, generation, block: index_block, reason };
        let xml = match read_index(drive, index_block, block_size) {
            Ok(xml) => xml.ok_or_else(|| refuse("there is no index construct".to_owned()))?,
            Err(
                error @ (TapeError::Unreadable { .. }
                | TapeError::BufferTooSmall { .. }
                | TapeError::BeyondEndOfData { .. }),
            ) => return Err(refuse(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        let behind_index = drive.position()?.block;
        let index = Index::parse(&xml, block_size).map_err(|error| refuse(error.to_string()))?;
        let here = TapePosition { partition: Partition::Data, block: index_block };
        if index.volume_uuid != uuid || index.generation != generation || index.location != here {
            return Err(refuse(format!(
                "it is generation {} of volume {} at block {}",
                index.generation, index.volume_uuid, index.location.block
            )));
        }
        let partition_behind = !memory_tells(drive, uuid, generation, index_block)?;
        let enter_from = BlockAddress(index_block.0 + 1);
        let mut volume = Volume::mended(vid, block_size, index, enter_from, label_fault);
        (volume.changed, volume.partition_behind, volume.behind_index) =
            (false, partition_behind, behind_index);
        Ok(volume)
    }

    /// A volume that owes its first, or its next, index.
    pub(crate) fn mended(
        vid: Vid,
        block_size: BlockSize,
        index: Index,
        enter_from: BlockAddress,
        label_fault: Option<String>,
    ) -> Self {
        let behind_index = index.location.block;
        Volume {
            vid,
            block_size,
            index,
            changed: true,
            partition_behind: true,
            written: 0,
            enter_from,
            behind_index,
            label_fault,
            named: None,
        }
    }

    /// Containers that stand from this block on are not in the index that was loaded: the caller enters them.
    #[must_use]
    pub fn enter_from(&self) -> BlockAddress {
        self.enter_from
    }

    /// The first object behind the newest index of the data partition.
    #[must_use]
    pub fn behind_index(&self) -> BlockAddress {
        self.behind_index
    }

    /// The volume's id.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.index.volume_uuid
    }

    /// What is wrong with the label of one partition, while the other one tells which volume this is. Such a
    /// tape can be read and must not be written.
    #[must_use]
    pub fn label_fault(&self) -> Option<&str> {
        self.label_fault.as_deref()
    }

    /// The cartridge.
    #[must_use]
    pub fn vid(&self) -> Vid {
        self.vid
    }

    /// Size of a full block.
    #[must_use]
    pub fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// The files on the volume.
    #[must_use]
    pub fn tree(&self) -> &Tree {
        &self.index.tree
    }

    /// The generation of the newest index.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.index.generation
    }

    /// Where the newest index of the data partition begins.
    #[must_use]
    pub fn index_block(&self) -> BlockAddress {
        self.index.location.block
    }

    /// Bytes of indexes and of Kist's own small files written to the data partition in this mount.
    #[must_use]
    pub fn own_bytes_written(&self) -> u64 {
        self.written
    }

    /// Says that a new index is owed although no file was added: torn blocks stand behind the last one.
    pub fn mark_changed(&mut self) {
        self.changed = true;
    }

    /// Leaves out all generations up to this one: a session cut short may have written indexes that the
    /// catalogue never heard of, and no two indexes of a volume may carry the same number.
    pub fn skip_generations(&mut self, to: Generation) {
        self.index.generation = self.index.generation.max(to);
        self.changed = true;
    }

    /// Whether files were added since the last index of the data partition.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.changed
    }

    /// Enters a file whose blocks are written. It counts from the next index on.
    ///
    /// # Errors
    /// If its path is taken.
    pub fn add(&mut self, file: FileOnTape, now: Timestamp) -> Result<(), ltfs::InsertError> {
        let extent = Extent {
            file_offset: ByteCount(0),
            partition: Partition::Data,
            start_block: file.block,
            byte_offset: 0,
            byte_count: file.length,
        };
        let times = Times { modify: file.modified, ..Times::all(now) };
        let entry = File {
            uid: FileUid(0),
            length: file.length,
            times,
            read_only: true,
            xattrs: file.xattrs,
            extents: if file.length.0 > 0 { vec![extent] } else { Vec::new() },
            symlink: None,
        };
        let (container, before) = (container_of(&entry), self.index.tree.files_len());
        self.index.tree.insert_file(&file.path, entry, now)?;
        assert_eq!(self.index.tree.files_len(), before + 1, "nothing was entered over another");
        self.changed = true;
        if let (Some(named), Some(container)) = (&mut self.named, container)
            && let Some(directory) = self.index.tree.directory_of(&file.path)
        {
            named.insert((container, directory));
        }
        Ok(())
    }

    /// Leaves entries of a container out of the index from now on: it was written here before and that place
    /// was given up, so that the next entry takes theirs. `kept`: the block of one that counts still. The
    /// first call looks through the whole index.
    pub fn leave_out(&mut self, container: ContainerId, kept: Option<BlockAddress>, now: Timestamp) {
        let tree = &mut self.index.tree;
        let named = self.named.get_or_insert_with(|| {
            let found = tree.files_by_directory();
            found.filter_map(|(directory, file)| Some((container_of(file)?, directory))).collect()
        });
        let of_it = (container, FileUid(0))..=(container, FileUid(u64::MAX));
        let directories: Vec<FileUid> = named.range(of_it).map(|(_, directory)| *directory).collect();
        for directory in directories {
            let is_old = |file: &File| {
                let place = file.extents.first().map(|extent| extent.start_block);
                container_of(file) == Some(container) && (kept.is_none() || place != kept)
            };
            let before = tree.files_len();
            let removed = tree.remove_files(directory, is_old, now);
            assert_eq!(tree.files_len() + removed, before, "nothing else is left out");
            self.changed |= removed > 0;
        }
    }

    /// Moves behind the last object of the data partition and checks that this is where it should be.
    ///
    /// # Errors
    /// [`VolumeError::EndOfData`] if it is elsewhere.
    pub fn go_to_end(&self, drive: &mut dyn TapeDrive, expected: BlockAddress) -> Result<(), VolumeError> {
        let end = drive.space_to_end_of_data(Partition::Data)?;
        if end.block == expected {
            Ok(())
        } else {
            Err(VolumeError::EndOfData { vid: self.vid, expected, actual: end.block })
        }
    }

    /// Writes a file of Kist's own (a change-log segment) at the end of data and enters it.
    ///
    /// # Errors
    /// If writing fails or the path is taken.
    pub fn write_small_file(
        &mut self,
        drive: &mut dyn TapeDrive,
        path: Vec<String>,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<(), VolumeError> {
        let block = drive.space_to_end_of_data(Partition::Data)?.block;
        for record in bytes.chunks(self.block_size.bytes() as usize) {
            drive.write_block(record)?;
        }
        self.written += bytes.len() as u64;
        let file = FileOnTape {
            path,
            length: ByteCount(bytes.len() as u64),
            block,
            modified: now,
            xattrs: Vec::new(),
        };
        self.add(file, now).map_err(|source| VolumeError::Path {
            vid: self.vid,
            container: base::ContainerId(0),
            source,
        })
    }

    /// Writes the index, one generation higher, at the end of the data partition. Durable on return.
    /// Gives its first block and the end of data behind it.
    ///
    /// # Errors
    /// If writing fails; the index on tape is the old one then.
    pub fn write_data_index(
        &mut self,
        drive: &mut dyn TapeDrive,
        now: Timestamp,
    ) -> Result<(BlockAddress, BlockAddress), VolumeError> {
        let first_ever = self.index.generation == Generation(0);
        let end = drive.space_to_end_of_data(Partition::Data)?;
        let begins = BlockAddress(end.block.0 + 1);
        let mut next = Index {
            creator: CREATOR.to_owned(),
            volume_uuid: self.index.volume_uuid,
            generation: Generation(self.index.generation.0 + 1),
            update_time: now,
            location: TapePosition { partition: Partition::Data, block: begins },
            previous: (!first_ever).then_some(self.index.location),
            allow_policy_update: false,
            lock: VolumeLock::Unlocked,
            tree: Tree::new("", now),
        };
        std::mem::swap(&mut next.tree, &mut self.index.tree);
        let true_generation = next.generation;
        if is_planted(Bug::WrongGeneration) {
            next.generation = self.index.generation;
        }
        let written = write_index_construct(drive, &next, self.block_size);
        next.generation = true_generation;
        std::mem::swap(&mut next.tree, &mut self.index.tree);
        let (end_of_data, bytes) = written?;
        std::mem::swap(&mut next.tree, &mut self.index.tree);
        assert!(next.generation > self.index.generation, "the generation only grows");
        assert_eq!(next.volume_uuid, self.index.volume_uuid, "a volume stays the same one");
        self.index = next;
        self.written += bytes;
        self.changed = false;
        self.partition_behind = true;
        (self.enter_from, self.behind_index) = (BlockAddress(begins.0 + 1), end_of_data);
        Ok((begins, end_of_data))
    }

    /// Where the next index would stand, and the end of data behind it. Writes nothing.
    ///
    /// # Errors
    /// If the drive fails.
    pub fn predict_index(
        &mut self,
        drive: &mut dyn TapeDrive,
        now: Timestamp,
    ) -> Result<(BlockAddress, BlockAddress), VolumeError> {
        let end = drive.space_to_end_of_data(Partition::Data)?;
        let begins = BlockAddress(end.block.0 + 1);
        let known = (self.index.location, self.index.previous, self.index.update_time, self.index.generation);
        self.index.location.block = begins;
        self.index.previous = Some(known.0);
        self.index.update_time = now;
        self.index.generation = Generation(known.3.0 + 1);
        let blocks = (self.index.encode().len() as u64).div_ceil(u64::from(self.block_size.bytes()));
        (self.index.location, self.index.previous, self.index.update_time, self.index.generation) = known;
        Ok((begins, BlockAddress(begins.0 + blocks + 1)))
    }

    /// Writes the newest index of the data partition to the index partition too, and says so in the cartridge
    /// memory. Only called when that index is durable. Does nothing if the index partition has it.
    ///
    /// # Errors
    /// If writing fails; the data partition alone still describes the volume.
    pub fn write_index_partition(
        &mut self,
        drive: &mut dyn TapeDrive,
        now: Timestamp,
    ) -> Result<(), VolumeError> {
        assert!(!self.changed, "the index partition never runs ahead of the data partition");
        if !self.partition_behind {
            return Ok(());
        }
        let on_data = self.index.location;
        let block = match self.write_copy(drive, now) {
            // Its partition is full of older generations: begin anew behind the labels.
            Err(VolumeError::Tape(TapeError::EndOfMedium { .. })) => {
                drive.locate(TapePosition { partition: Partition::Index, block: INDEX_PARTITION_START })?;
                self.write_copy_here(drive, INDEX_PARTITION_START, now)?
            }
            other => other?,
        };
        assert_eq!(self.index.location, on_data, "the newest index is still the one on the data partition");
        assert_eq!(on_data.partition, Partition::Data, "and the memory is told of its place there");
        let (volume_uuid, generation) = (self.index.volume_uuid, self.index.generation);
        // Read behind the last write: it holds until the next one.
        let change_reference = change_reference(drive)?;
        for (partition, index_block) in [(Partition::Index, block), (Partition::Data, on_data.block)] {
            let value = VolumeCoherency { change_reference, generation, index_block, volume_uuid }.encode();
            drive.write_attribute(partition, coherency::VOLUME_COHERENCY.id, &value)?;
        }
        self.partition_behind = false;
        Ok(())
    }

    fn write_copy(&mut self, drive: &mut dyn TapeDrive, now: Timestamp) -> Result<BlockAddress, VolumeError> {
        let end = drive.space_to_end_of_data(Partition::Index)?;
        self.write_copy_here(drive, end.block, now)
    }

    fn write_copy_here(
        &mut self,
        drive: &mut dyn TapeDrive,
        at: BlockAddress,
        now: Timestamp,
    ) -> Result<BlockAddress, VolumeError> {
        let on_data = (self.index.location, self.index.previous, self.index.update_time);
        let begins = BlockAddress(at.0 + 1);
        self.index.location = TapePosition { partition: Partition::Index, block: begins };
        self.index.previous = Some(on_data.0);
        self.index.update_time = now;
        let written = write_index_construct(drive, &self.index, self.block_size);
        (self.index.location, self.index.previous, self.index.update_time) = on_data;
        written.map(|_| begins).map_err(VolumeError::from)
    }
}

/// File mark, XML, file mark; durable on return. Gives the position behind it and the length of the XML.
fn write_index_construct(
    drive: &mut dyn TapeDrive,
    index: &Index,
    block_size: BlockSize,
) -> Result<(BlockAddress, u64), TapeError> {
    let xml = index.encode();
    debug_assert!(
        Index::parse(&xml, block_size).is_ok_and(|again| {
            (again.volume_uuid, again.generation, again.location)
                == (index.volume_uuid, index.generation, index.location)
        }),
        "an index is read again as it is written"
    );
    drive.write_filemarks(1)?;
    for record in xml.chunks(block_size.bytes() as usize) {
        drive.write_block(record)?;
    }
    drive.write_filemarks(1)?;
    Ok((drive.position()?.block, xml.len() as u64))
}

/// The XML of the index construct whose first record stands at `block` of the data partition.
fn read_index(
    drive: &mut dyn TapeDrive,
    block: BlockAddress,
    block_size: BlockSize,
) -> Result<Option<Vec<u8>>, TapeError> {
    let mut buffer = vec![0u8; block_size.bytes() as usize];
    let Some(mark) = block.0.checked_sub(1) else { return Ok(None) };
    drive.locate(TapePosition { partition: Partition::Data, block: BlockAddress(mark) })?;
    if drive.read_block(&mut buffer)? != ReadBlock::FileMark {
        return Ok(None);
    }
    let mut xml = Vec::new();
    loop {
        match drive.read_block(&mut buffer)? {
            ReadBlock::Data(length) => xml.extend_from_slice(buffer.get(..length).unwrap_or_default()),
            ReadBlock::FileMark => return Ok(Some(xml)),
            ReadBlock::EndOfData => return Ok(None),
        }
        if xml.len() as u64 > ltfs::INDEX_BYTES_MAX as u64 {
            return Ok(None);
        }
    }
}

/// Whether the cartridge memory says of both partitions that this index is their newest, and nothing was
/// written since. If not, a write of the index partition or of the memory is owed, wherever it broke off.
fn memory_tells(
    drive: &mut dyn TapeDrive,
    uuid: Uuid,
    generation: Generation,
    index_block: BlockAddress,
) -> Result<bool, TapeError> {
    let change_reference = change_reference(drive)?;
    for partition in [Partition::Index, Partition::Data] {
        let value = drive.read_attribute(partition, coherency::VOLUME_COHERENCY.id)?;
        let Some(known) = value.and_then(|value| VolumeCoherency::parse(&value).ok()) else {
            return Ok(false);
        };
        let here = partition == Partition::Index || known.index_block == index_block;
        let newest = known.volume_uuid == uuid && known.generation == generation && here;
        if !newest || known.change_reference != change_reference {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The volume change reference, which both partitions share.
fn change_reference(drive: &mut dyn TapeDrive) -> Result<ChangeReference, TapeError> {
    let value = drive.read_attribute(Partition::Index, coherency::VOLUME_CHANGE_REFERENCE)?;
    let bytes = value.unwrap_or_default();
    Ok(ChangeReference(bytes.iter().take(8).fold(0, |number, byte| (number << 8) | u64::from(*byte))))
}

/// The volume's name, which is its VID, and the encoding that it is in.
fn write_name_attributes(drive: &mut dyn TapeDrive, vid: Vid) -> Result<(), TapeError> {
    let (name, encoding) = (coherency::USER_MEDIUM_TEXT_LABEL, coherency::TEXT_LOCALIZATION);
    drive.write_attribute(Partition::Index, encoding.id, &[coherency::TEXT_LOCALIZATION_UTF8])?;
    match name.text(vid.as_str()) {
        Some(value) => drive.write_attribute(Partition::Index, name.id, &value),
        None => Ok(()),
    }
}

fn write_text_attribute(
    drive: &mut dyn TapeDrive,
    attribute: MamAttribute,
    text: &str,
) -> Result<(), TapeError> {
    match attribute.ascii(text) {
        Some(value) => drive.write_attribute(Partition::Index, attribute.id, &value),
        None => Ok(()),
    }
}
