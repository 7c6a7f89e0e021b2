//! Opening a volume whose newest index is damaged.

use base::{BlockAddress, Generation, Partition, TapePosition, Timestamp, Uuid, Vid};
use library::TapeDrive;
use ltfs::{BlockSize, CREATOR, Index, Tree, VolumeLock};

use crate::survey::{Stray, Stretch, survey};
use crate::volume::INDEX_PARTITION_START;
use crate::{Volume, VolumeError};

impl Volume {
    /// Opens a volume like [`Volume::open`], but a newest index that cannot be used costs nobody the tape:
    /// the newest one of the index partition takes its place, or an empty one. [`Volume::enter_from`] says
    /// from which block on the catalogue's containers have to be entered then, and a new index is owed. The
    /// second value says what is wrong with the index, for people. `unlock` gives the drive the key of the
    /// volume when its labels, which stand in clear, are known to be the right ones.
    ///
    /// # Errors
    /// If the label is another volume's, or the drive or medium as a whole fails.
    pub fn open_or_mend<E: From<VolumeError>>(
        drive: &mut dyn TapeDrive,
        (vid, uuid): (Vid, Uuid),
        generation: Generation,
        index_block: BlockAddress,
        now: Timestamp,
        unlock: impl FnOnce(&mut dyn TapeDrive) -> Result<(), E>,
    ) -> Result<(Self, Option<String>), E> {
        let label = crate::label::check_label(drive, vid, uuid)?;
        unlock(drive)?;
        let reason = match Volume::load(drive, (vid, uuid), generation, index_block, label.clone()) {
            Ok(volume) => return Ok((volume, None)),
            Err(error @ VolumeError::Index { .. }) => error.to_string(),
            Err(error) => return Err(error.into()),
        };
        let (block_size, label_fault) = label;
        let newest = newest_of_index_partition(drive, uuid, generation, block_size)?;
        let here = TapePosition { partition: Partition::Data, block: index_block };
        // A copy on the index partition points to its twin on the data partition.
        let twin = newest.as_ref().and_then(|index| index.previous).filter(|at| at.block <= index_block);
        let enter_from = match &newest {
            Some(index) if index.generation == generation => BlockAddress(index_block.0 + 1),
            Some(_) => twin.map_or(BlockAddress(0), |at| BlockAddress(at.block.0 + 1)),
            None => BlockAddress(0),
        };
        assert!(
            enter_from.0 <= index_block.0 + 1,
            "what stands behind the last index is entered in any case"
        );
        let tree = match newest {
            Some(index) if enter_from.0 > 0 => index.tree,
            _ => Tree::new(vid.as_str(), now),
        };
        let index = Index {
            creator: CREATOR.to_owned(),
            volume_uuid: uuid,
            generation,
            update_time: now,
            location: here,
            previous: None,
            allow_policy_update: false,
            lock: VolumeLock::Unlocked,
            tree,
        };
        Ok((Volume::mended(vid, block_size, index, enter_from, label_fault), Some(reason)))
    }
}

/// The newest whole index of the index partition that is not newer than `generation`.
///
/// # Errors
/// If the drive fails, or the way to it. What cannot be read of the medium is passed over.
pub fn newest_of_index_partition(
    drive: &mut dyn TapeDrive,
    uuid: Uuid,
    generation: Generation,
    block_size: BlockSize,
) -> Result<Option<Index>, VolumeError> {
    let end = match drive.space_to_end_of_data(Partition::Index) {
        Ok(end) => end.block,
        Err(error) if error.spares_the_medium() => return Err(error.into()),
        Err(_) => return Ok(None),
    };
    let stretch =
        Stretch { partition: Partition::Index, from: BlockAddress(INDEX_PARTITION_START.0), to: end };
    let mut newest: Option<Index> = None;
    let result = survey(drive, uuid, block_size, stretch, &mut |stray| {
        if let Stray::Index(_, index) = stray
            && index.generation <= generation
            && newest.as_ref().is_none_or(|best| best.generation <= index.generation)
        {
            newest = Some(*index);
        }
        true
    });
    match result {
        Err(VolumeError::Tape(error)) if error.spares_the_medium() => Err(error.into()),
        // A medium error further on leaves what was found before it.
        _ => {
            let is_known = newest.as_ref().is_none_or(|newest| newest.generation <= generation);
            assert!(is_known, "no index is taken that the catalogue does not know of");
            Ok(newest)
        }
    }
}
