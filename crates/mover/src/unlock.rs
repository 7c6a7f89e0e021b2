//! The key of a cartridge: shown by what stands beside its blocks, and given to the drive.

use base::{Partition, TapeKey, TapePosition, Vid};
use library::{BlockEncryption, TapeDrive, TapeEncryption, TapeError, TapeKeys, key_on_tape};

use crate::VolumeError;
use crate::label::FIRST_INDEX;

/// What a cartridge shows of how it is encrypted behind its labels.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shown {
    /// It is not, or what encrypts it needs nothing of Kist: the library or a key manager.
    Clear,
    /// With this key.
    Key(TapeKey),
    /// Nothing stands there, or the drive cannot tell.
    Nothing,
}

/// Looks at the first record of the first index of the data partition, which each volume has, and which is
/// never written over: all behind the labels is encrypted as it is. The drive has no key of Kist afterwards.
///
/// # Errors
/// [`library::KeyError::NotOurs`] if the key is none of Kist; a drive that fails.
pub fn shown_key(drive: &mut dyn TapeDrive, vid: Vid) -> Result<Shown, VolumeError> {
    // One that a look before this has left there would open it, as if nothing were encrypted.
    drive.set_encryption(None)?;
    let mut found = first_record(drive, Partition::Data)?;
    if matches!(found, BlockEncryption::NoBlock | BlockEncryption::Unknown) {
        // It may be damaged: each index of the other partition is encrypted with the same key.
        found = first_record(drive, Partition::Index)?;
    }
    Ok(match found {
        BlockEncryption::Encrypted { is_readable: true, .. } | BlockEncryption::Plain => Shown::Clear,
        BlockEncryption::Encrypted { identity, .. } => {
            Shown::Key(key_on_tape(&identity).map_err(|source| VolumeError::Key { vid, source })?)
        }
        BlockEncryption::NoBlock | BlockEncryption::Unknown => Shown::Nothing,
    })
}

/// Gives the drive the key of the mounted cartridge, if it decrypts what stands behind the labels.
///
/// # Errors
/// If it does not; a drive that fails, or does not encrypt.
pub fn unlock(drive: &mut dyn TapeDrive, vid: Vid, key: &TapeEncryption) -> Result<(), VolumeError> {
    assert!(!key.identity.unauthenticated().is_empty(), "what is written must show which key it has");
    drive.set_encryption(Some(key))?;
    match first_record(drive, Partition::Data)? {
        BlockEncryption::Encrypted { is_readable: false, .. } => {
            Err(TapeError::WrongKey { vid, at: first_of(Partition::Data) }.into())
        }
        _ => Ok(()),
    }
}

/// Gives the drive the key that the mounted cartridge shows, if it shows one, and tells it.
///
/// # Errors
/// [`VolumeError::Key`] if it cannot be had; else as [`shown_key`] and [`unlock`].
pub fn unlock_as_shown(
    drive: &mut dyn TapeDrive,
    vid: Vid,
    keys: &TapeKeys,
) -> Result<Option<TapeKey>, VolumeError> {
    let Shown::Key(key) = shown_key(drive, vid)? else { return Ok(None) };
    let found = keys.find(&key.id, Some(key.check), None);
    unlock(drive, vid, &found.map_err(|source| VolumeError::Key { vid, source })?)?;
    Ok(Some(key))
}

/// What a cartridge is labelled with.
#[derive(Clone, Copy, Debug)]
pub struct LabelKeys<'a> {
    /// Where keys come from: a labelling cut short may have left an index that one of them opens.
    pub keys: &'a TapeKeys,
    /// With what all behind the labels is encrypted; `None`: it is written in clear.
    pub setting: Option<&'a TapeEncryption>,
}

/// Refuses a cartridge that must not be labelled, as [`crate::check_may_be_labelled`]; what a labelling cut
/// short has left on it is read with its key.
///
/// # Errors
/// [`VolumeError::NotBlank`]; [`VolumeError::Key`] if what stands there must be read first, and its key
/// cannot be had; a drive that fails.
pub fn check_encrypted_may_be_labelled(
    drive: &mut dyn TapeDrive,
    vid: Vid,
    (uuid, replaces): (base::Uuid, Option<base::Uuid>),
    keys: &TapeKeys,
) -> Result<(), VolumeError> {
    let missing = match unlock_as_shown(drive, vid, keys) {
        Ok(_) => None,
        // Perhaps nothing of it need be read.
        Err(VolumeError::Key { source, .. }) => Some(source),
        Err(error) => return Err(error),
    };
    match (crate::check_may_be_labelled(drive, vid, uuid, replaces), missing) {
        (Err(error), Some(source)) if error.is_of_the_key() => Err(VolumeError::Key { vid, source }),
        (checked, _) => checked,
    }
}

fn first_of(partition: Partition) -> TapePosition {
    TapePosition { partition, block: FIRST_INDEX }
}

/// How the first record of the first index of a partition is encrypted. A place on the medium that cannot be
/// read tells nothing, and is no reason to leave alone all that stands behind it.
fn first_record(drive: &mut dyn TapeDrive, partition: Partition) -> Result<BlockEncryption, TapeError> {
    let told = drive.locate(first_of(partition)).and_then(|()| drive.block_encryption());
    match told {
        Err(TapeError::BeyondEndOfData { .. }) => Ok(BlockEncryption::NoBlock),
        Err(error @ TapeError::Medium { .. }) => {
            tracing::warn!(%error, "the first index cannot be read: it does not tell of a key");
            Ok(BlockEncryption::Unknown)
        }
        told => told,
    }
}
