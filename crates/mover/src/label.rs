//! What stands at the beginning of both partitions: whose cartridge it is.

use std::fmt;

use base::planted::{Bug, is_planted};
use base::{BlockAddress, Partition, TapePosition, Timestamp, Uuid, Vid};
use library::{ReadBlock, TapeDrive, TapeError};
use ltfs::{BlockSize, CREATOR, Vol1Label, VolumeLabel};

use crate::VolumeError;
use crate::survey::{Stray, Stretch, survey};
use crate::volume::INDEX_PARTITION_START;

/// Objects of a partition's labels: VOL1, file mark, LTFS label, file mark.
const LABEL_OBJECTS: u64 = 4;
/// Where the first index of a volume stands, on both partitions: behind the labels and a file mark.
pub(crate) const FIRST_INDEX: BlockAddress = BlockAddress(LABEL_OBJECTS + 1);
/// The end of data of a volume without any file: its index is one record, and a file mark.
const BEHIND_FIRST_INDEX: BlockAddress = BlockAddress(FIRST_INDEX.0 + 2);
const _: () = assert!(INDEX_PARTITION_START.0 == LABEL_OBJECTS, "indexes stand behind the labels");

/// What a cartridge holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// Nothing.
    Blank,
    /// An LTFS volume.
    Volume {
        /// Its serial in VOL1.
        vid: Vid,
        /// Its UUID.
        uuid: Uuid,
        /// Whether Kist labelled it.
        by_kist: bool,
        /// Size of a full block.
        block_size: BlockSize,
    },
    /// Something else; in words.
    Foreign(String),
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Blank => f.write_str("nothing"),
            Found::Volume { vid, uuid, by_kist, .. } => {
                let by = if *by_kist { "of Kist" } else { "of another program" };
                write!(f, "the LTFS volume {uuid} ({vid}) {by}")
            }
            Found::Foreign(what) => write!(f, "something that is not LTFS ({what})"),
        }
    }
}

/// Reads the labels and says what the cartridge holds.
///
/// # Errors
/// If the drive fails; a label that cannot be understood is [`Found::Foreign`].
pub fn identify(drive: &mut dyn TapeDrive) -> Result<Found, VolumeError> {
    let [index, data] = identify_both(drive)?;
    Ok(match (index, data) {
        (Found::Foreign(what), _) | (_, Found::Foreign(what)) => Found::Foreign(what),
        (index, data) if index == data => index,
        (index, data) => Found::Foreign(format!("its partitions differ: {index} and {data}")),
    })
}

fn identify_both(drive: &mut dyn TapeDrive) -> Result<[Found; 2], VolumeError> {
    Ok([identify_partition(drive, Partition::Index)?, identify_partition(drive, Partition::Data)?])
}

fn identify_partition(drive: &mut dyn TapeDrive, partition: Partition) -> Result<Found, VolumeError> {
    drive.locate(TapePosition { partition, block: BlockAddress(0) })?;
    let mut buffer = vec![0u8; ltfs::label::LABEL_BYTES_MAX];
    let first = match drive.read_block(&mut buffer) {
        Ok(ReadBlock::EndOfData) => return Ok(Found::Blank),
        Ok(ReadBlock::FileMark) => return Ok(Found::Foreign("it begins with a file mark".to_owned())),
        Ok(ReadBlock::Data(length)) => buffer.get(..length).unwrap_or_default().to_vec(),
        Err(TapeError::BufferTooSmall { record, .. }) => {
            return Ok(Found::Foreign(format!("its first record has {record} bytes")));
        }
        Err(error) => return Err(error.into()),
    };
    let vol1 = match Vol1Label::parse(&first) {
        Ok(label) => label,
        Err(error) => return Ok(Found::Foreign(error.to_string())),
    };
    if drive.read_block(&mut buffer)? != ReadBlock::FileMark {
        return Ok(Found::Foreign("no file mark follows its VOL1 label".to_owned()));
    }
    let label = match drive.read_block(&mut buffer) {
        Ok(ReadBlock::Data(length)) => VolumeLabel::parse(buffer.get(..length).unwrap_or_default()),
        Ok(_) => return Ok(Found::Foreign("it has a VOL1 label and no LTFS label".to_owned())),
        Err(TapeError::BufferTooSmall { .. }) => {
            return Ok(Found::Foreign("its LTFS label is too long".to_owned()));
        }
        Err(error) => return Err(error.into()),
    };
    match label {
        Ok(label) if label.location != partition => {
            Ok(Found::Foreign("its LTFS label names the other partition".to_owned()))
        }
        Ok(label) => Ok(Found::Volume {
            vid: vol1.vid,
            uuid: label.volume_uuid,
            by_kist: label.is_kist(),
            block_size: label.block_size,
        }),
        Err(error) => Ok(Found::Foreign(error.to_string())),
    }
}

/// The block size of the volume if it is the right one. A label that cannot be read on one partition is a
/// fault in words as long as the other one tells the volume.
pub(crate) fn check_label(
    drive: &mut dyn TapeDrive,
    vid: Vid,
    uuid: Uuid,
) -> Result<(BlockSize, Option<String>), VolumeError> {
    let (mut size, mut fault) = (None, None);
    for partition in [Partition::Index, Partition::Data] {
        match identify_partition(drive, partition) {
            Ok(Found::Volume { vid: v, uuid: u, by_kist: true, block_size })
                if (v == vid && u == uuid) || is_planted(Bug::UncheckedLabel) =>
            {
                size = Some(block_size);
            }
            Ok(found) => return Err(VolumeError::WrongLabel { vid, found, expected: uuid }),
            Err(VolumeError::Tape(error @ TapeError::Unreadable { .. })) if fault.is_none() => {
                fault = Some(format!("the label of partition {} is damaged: {error}", partition.ltfs_id()));
            }
            Err(error) => return Err(error),
        }
    }
    match size {
        Some(size) => Ok((size, fault)),
        None => Err(VolumeError::WrongLabel { vid, found: Found::Blank, expected: uuid }),
    }
}

pub(crate) fn write_labels(
    drive: &mut dyn TapeDrive,
    partition: Partition,
    vid: Vid,
    uuid: Uuid,
    block_size: BlockSize,
    now: Timestamp,
) -> Result<(), TapeError> {
    let label = VolumeLabel {
        creator: CREATOR.to_owned(),
        format_time: now,
        volume_uuid: uuid,
        location: partition,
        block_size,
        compression: false,
    };
    let again = VolumeLabel::parse(&label.encode());
    assert!(
        again.is_ok_and(|again| (again.volume_uuid, again.location) == (uuid, partition) && again.is_kist()),
        "the label is read again as that of this volume"
    );
    let again = Vol1Label::parse(&Vol1Label { vid }.encode());
    assert!(again.is_ok_and(|again| again.vid == vid), "and that of this cartridge");
    drive.locate(TapePosition { partition, block: BlockAddress(0) })?;
    drive.write_block(&Vol1Label { vid }.encode())?;
    drive.write_filemarks(1)?;
    drive.write_block(&label.encode())?;
    drive.write_filemarks(1).map(|_| ())
}

/// Refuses a cartridge on which something stands that a labelling as `uuid` must not destroy. The same UUID
/// alone is no leave: a catalogue that was restored to a point before the labelling ended knows nothing of
/// what was written since.
///
/// # Errors
/// [`VolumeError::NotBlank`] with what was found; a drive that fails.
pub fn check_may_be_labelled(
    drive: &mut dyn TapeDrive,
    vid: Vid,
    uuid: Uuid,
    replaces: Option<Uuid>,
) -> Result<(), VolumeError> {
    for partition in [Partition::Index, Partition::Data] {
        let found = match identify_partition(drive, partition) {
            // A write that failed leaves a block that nobody can read.
            Err(VolumeError::Tape(error @ TapeError::Unreadable { .. })) => {
                if !is_torn_label(drive, partition, vid)? {
                    return Err(error.into());
                }
                tracing::warn!(%vid, %error, "a labelling was cut short here: it is done again");
                continue;
            }
            Err(VolumeError::Tape(error)) if error.is_of_the_key() => {
                let found = Found::Foreign(error.to_string());
                return Err(VolumeError::NotBlank { vid, found });
            }
            found => found?,
        };
        match found {
            Found::Blank => {}
            Found::Volume { uuid: same, .. } if Some(same) == replaces => {}
            Found::Volume { uuid: same, block_size, .. }
                if same == uuid && is_fresh(drive, partition, uuid, block_size)? => {}
            found if is_torn_label(drive, partition, vid)? => {
                tracing::warn!(%vid, %found, "a labelling was cut short here: it is done again");
            }
            found => return Err(VolumeError::NotBlank { vid, found }),
        }
    }
    Ok(())
}

/// Whether nothing stands behind the labels of a partition but the first index, whole without any file or
/// cut short.
fn is_fresh(
    drive: &mut dyn TapeDrive,
    partition: Partition,
    uuid: Uuid,
    block_size: BlockSize,
) -> Result<bool, VolumeError> {
    let to = drive.space_to_end_of_data(partition)?.block;
    let stretch = Stretch { partition, from: BlockAddress(LABEL_OBJECTS), to };
    let mut is_fresh = true;
    let surveyed = survey(drive, uuid, block_size, stretch, &mut |stray| {
        is_fresh = match stray {
            Stray::Index(FIRST_INDEX, index) => index.tree.iter().next().is_none(),
            Stray::BadIndex(FIRST_INDEX, ..) => true,
            _ => false,
        };
        is_fresh
    });
    match surveyed {
        // Nobody gives its key. All that is ever written to a volume stands behind the first index: so short
        // it is that, and nothing else.
        Err(VolumeError::Tape(error)) if error.is_of_the_key() && to <= BEHIND_FIRST_INDEX => {
            tracing::warn!(%error, "a labelling cut short has left its first index: it is done again");
            Ok(true)
        }
        surveyed => surveyed.map(|()| is_fresh),
    }
}

/// Whether a partition holds the beginning of labels of this cartridge, or of some that cannot be read, and
/// nothing behind them, so that there is nothing to be destroyed.
fn is_torn_label(drive: &mut dyn TapeDrive, partition: Partition, vid: Vid) -> Result<bool, VolumeError> {
    drive.locate(TapePosition { partition, block: BlockAddress(0) })?;
    let mut buffer = vec![0u8; ltfs::label::LABEL_BYTES_MAX];
    let begins = match drive.read_block(&mut buffer) {
        Ok(ReadBlock::Data(length)) => {
            let label = Vol1Label::parse(buffer.get(..length).unwrap_or_default());
            label.is_ok_and(|label| label.vid == vid)
        }
        Ok(_) | Err(TapeError::BufferTooSmall { .. }) => false,
        Err(TapeError::Unreadable { .. }) => true,
        Err(error) => return Err(error.into()),
    };
    Ok(begins && drive.space_to_end_of_data(partition)?.block.0 < LABEL_OBJECTS)
}
