//! The key of a cartridge: found by what stands beside its blocks, and given to the drive.

use base::{BlockAddress, KeyId, Partition, TapePosition, Vid};
use library::{
    BlockEncryption, KeyError, KeySource, TapeDrive, TapeEncryption, TapeError, TapeKeys, key_on_tape,
};

use crate::VolumeError;
use crate::label::FIRST_INDEX;

/// What is looked for to read a cartridge behind its labels.
#[derive(Clone, Copy, Debug)]
pub struct Unlock<'a> {
    /// Where keys come from.
    pub keys: &'a TapeKeys,
    /// What the cartridge's tape pool has, which is asked first.
    pub first: Option<&'a KeySource>,
    /// The key that the catalogue knows, if it knows one.
    pub known: Option<&'a KeyId>,
}

/// Gives the drive the key with which the mounted cartridge is encrypted behind its labels, and leaves a drive
/// alone that holds a cartridge in clear. Gives the id of the key; `None`: nothing is encrypted, as far as the
/// drive can tell. Looks at the first record of the first index, which each volume has, and which is never
/// written over: what the whole data partition is encrypted with.
///
/// # Errors
/// [`VolumeError::Key`] if there is no key, or the cartridge has another one than the catalogue says; a drive
/// that fails, or that does not encrypt.
pub fn unlock(drive: &mut dyn TapeDrive, vid: Vid, how: Unlock<'_>) -> Result<Option<KeyId>, VolumeError> {
    let failed = |source| VolumeError::Key { vid, source };
    let found = match on_tape(drive)? {
        BlockEncryption::Encrypted { identity, .. } => Some(key_on_tape(&identity).map_err(failed)?),
        BlockEncryption::Plain | BlockEncryption::NoBlock => None,
        // A drive that does not tell: the first block that is read shows it.
        BlockEncryption::Unknown => how.known.cloned(),
    };
    if let Some(known) = how.known
        && found.as_ref() != Some(known)
    {
        let found = found.map_or_else(|| "none".to_owned(), |found| found.to_string());
        return Err(failed(KeyError::Differs { found, known: known.clone() }));
    }
    let Some(id) = found else { return Ok(None) };
    let setting = how.keys.find(&id, how.first).map_err(failed)?;
    drive.set_encryption(Some(&setting))?;
    match on_tape(drive)? {
        BlockEncryption::Encrypted { is_readable: false, .. } => Err(failed(KeyError::Wrong(id))),
        _ => Ok(Some(id)),
    }
}

/// What a cartridge is labelled with.
#[derive(Clone, Copy, Debug)]
pub struct LabelKeys<'a> {
    /// Where keys come from: a labelling cut short may have left an index that one of them opens.
    pub keys: &'a TapeKeys,
    /// With what all behind the labels is encrypted; `None`: it is written in clear.
    pub setting: Option<&'a TapeEncryption>,
}

/// As [`unlock`], of a cartridge that is to be labelled: what cannot be opened is found when it is read, if
/// that is needed at all.
///
/// # Errors
/// If the drive fails, or does not encrypt.
pub fn unlock_if_possible(drive: &mut dyn TapeDrive, vid: Vid, keys: &TapeKeys) -> Result<(), VolumeError> {
    match unlock(drive, vid, Unlock { keys, first: None, known: None }) {
        Err(error) if !error.is_of_the_key() => Err(error),
        _ => Ok(()),
    }
}

/// How the first record of the first index of the data partition is encrypted.
fn on_tape(drive: &mut dyn TapeDrive) -> Result<BlockEncryption, TapeError> {
    let at = TapePosition { partition: Partition::Data, block: BlockAddress(FIRST_INDEX.0) };
    match drive.locate(at) {
        Ok(()) => drive.block_encryption(),
        Err(TapeError::BeyondEndOfData { .. }) => Ok(BlockEncryption::NoBlock),
        Err(error) => Err(error),
    }
}
