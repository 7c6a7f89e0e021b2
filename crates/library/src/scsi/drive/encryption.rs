//! Encryption by the drive, with keys of the application: SECURITY PROTOCOL 20h (SSC-5, 4.2.22 and 8.7).
//!
//! How blocks are to be encrypted is kept with the cartridge in use. What the drive has is compared with it
//! at each load, after whatever leaves a doubt (`condition`), and before the first write after another
//! command, where the drive is asked for its position too: by the status page, whose counter rises with each
//! key that is set. LOCK has the drive refuse a write if its key changes in between. So no block that is to
//! be encrypted is written in clear, and none with a key that somebody else has left behind.

use ::scsi::command::Primary;
use ::scsi::security::{
    BlockEncryption as NextBlock, DecryptionMode, EncryptionAlgorithm, EncryptionCapabilities,
    EncryptionKey as Key, EncryptionMode, EncryptionScope, EncryptionStatus, KadType, KeyAssociatedData,
    NextBlockStatus, PROTOCOL_TAPE_ENCRYPTION, SetDataEncryption, page,
};
use ::scsi::{Command, Data, Malformed, SenseKey};
use zeroize::Zeroizing;

use super::Drive;
use super::ability::op;
use super::condition::Stop;
use crate::encryption::{BlockEncryption, Decryption, EncryptionKey, KeyIdentity, TapeEncryption};
use crate::{DeviceError, TapeError};

/// Bytes of a page that are asked for: a capabilities page of eight algorithms takes 212.
const ANSWER_BYTES: u32 = 1024;
/// Times that parameters are set before the drive is taken for one that does not keep them.
const SETS_MAX: u32 = 3;
/// Times that the drive is asked for the next block if something comes between.
const QUESTIONS_MAX: u32 = 4;

/// The algorithm of a drive by which blocks are encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Algorithm {
    index: u8,
    unauthenticated_max: usize,
    authenticated_max: usize,
    /// Key-associated data have always the length above.
    unauthenticated_fixed: bool,
    authenticated_fixed: bool,
}

/// How the blocks of the cartridge in use are encrypted.
pub struct InUse {
    pub setting: TapeEncryption,
    algorithm: Algorithm,
    /// The drive's counter of keys after this one was set.
    key_instance: Option<u32>,
}

/// Whether the drive refuses a write if its key changed, and forgets the key with the cartridge.
#[derive(Clone, Copy)]
struct Bits {
    lock: bool,
    clear_on_demount: bool,
}

/// From the most that a drive may be asked for to the least: not all have both.
const BITS: [Bits; 3] = [
    Bits { lock: true, clear_on_demount: true },
    Bits { lock: false, clear_on_demount: true },
    Bits { lock: false, clear_on_demount: false },
];

/// The data as a drive takes them: filled up with 0 if their length is fixed.
fn filled(data: &[u8], max: usize, fixed: bool) -> Vec<u8> {
    let mut data = data.to_vec();
    if fixed {
        data.resize(max.max(data.len()), 0);
    }
    data
}

/// What was filled up.
fn stripped(data: &[u8]) -> &[u8] {
    let end = data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    data.get(..end).unwrap_or_default()
}

impl Algorithm {
    /// The algorithm if it is AES-256-GCM with keys of 256 bits, in both directions, by the drive itself and
    /// with nonces of its own.
    fn of(found: &EncryptionAlgorithm) -> Option<Algorithm> {
        let able = |how| matches!(how, EncryptionAlgorithm::BY_SOFTWARE | EncryptionAlgorithm::BY_HARDWARE);
        /// NONCE_C: the application must give the nonces.
        const NONCES_OF_THE_HOST: u8 = 3;
        let fits = found.algorithm == EncryptionAlgorithm::AES_256_GCM
            && usize::from(found.key_size) == EncryptionKey::BYTES
            && able(found.encrypts)
            && able(found.decrypts)
            && found.nonce != NONCES_OF_THE_HOST;
        fits.then_some(Algorithm {
            index: found.index,
            unauthenticated_max: usize::from(found.unauthenticated_max),
            authenticated_max: usize::from(found.authenticated_max),
            unauthenticated_fixed: found.unauthenticated_fixed,
            authenticated_fixed: found.authenticated_fixed,
        })
    }

    fn holds(&self, identity: &KeyIdentity) -> bool {
        identity.unauthenticated().len() <= self.unauthenticated_max
            && identity.authenticated().len() <= self.authenticated_max
    }

    /// The identity as key-associated data, in the order of their types.
    fn associated(&self, identity: &KeyIdentity) -> Vec<KeyAssociatedData> {
        let list = |kind, data: &[u8], max, fixed| {
            let is_there = !data.is_empty() || fixed && max > 0;
            is_there.then(|| KeyAssociatedData { kind, authenticated: 0, data: filled(data, max, fixed) })
        };
        let (one, other) = (identity.unauthenticated(), identity.authenticated());
        [
            list(KadType::Unauthenticated, one, self.unauthenticated_max, self.unauthenticated_fixed),
            list(KadType::Authenticated, other, self.authenticated_max, self.authenticated_fixed),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// The identity that key-associated data give. What other programs have written may be longer than ours:
/// then it is none of ours.
fn identity_of(associated: &[KeyAssociatedData]) -> KeyIdentity {
    let part = |kind| stripped(KeyAssociatedData::find(associated, kind));
    KeyIdentity::new(part(KadType::Unauthenticated), part(KadType::Authenticated)).unwrap_or_default()
}

/// How a block is encrypted, as a drive tells.
fn encryption_of(found: &NextBlockStatus) -> BlockEncryption {
    let encrypted =
        |is_readable| BlockEncryption::Encrypted { identity: identity_of(&found.associated), is_readable };
    match found.encryption {
        NextBlock::NotABlock => BlockEncryption::NoBlock,
        NextBlock::Plain => BlockEncryption::Plain,
        NextBlock::Decryptable => encrypted(true),
        NextBlock::OtherKey | NextBlock::OtherAlgorithm => encrypted(false),
        _ => BlockEncryption::Unknown,
    }
}

/// The modes of a setting as a drive has them.
fn modes(setting: &TapeEncryption) -> (EncryptionMode, DecryptionMode) {
    let encryption = if setting.encrypts { EncryptionMode::Encrypt } else { EncryptionMode::Disable };
    let decryption = match setting.decryption {
        Decryption::Off => DecryptionMode::Disable,
        Decryption::Required => DecryptionMode::Decrypt,
        Decryption::IfEncrypted => DecryptionMode::Mixed,
    };
    (encryption, decryption)
}

impl InUse {
    /// The key that the drive has may be another, whatever its counter says.
    pub fn is_in_doubt(&mut self) {
        self.key_instance = None;
    }

    /// Whether the drive encrypts with this, by its own word.
    fn is_set(&self, status: &EncryptionStatus) -> bool {
        (status.encryption, status.decryption) == modes(&self.setting)
            && status.algorithm == self.algorithm.index
            && (status.associated.is_empty() || identity_of(&status.associated) == self.setting.identity)
            && self.key_instance == Some(status.key_instance)
    }

    fn parameters(&self, bits: Bits) -> SetDataEncryption {
        let (encryption, decryption) = modes(&self.setting);
        SetDataEncryption {
            scope: EncryptionScope::AllNexus,
            lock: bits.lock,
            clear_on_demount: bits.clear_on_demount,
            encryption,
            decryption,
            algorithm: self.algorithm.index,
            key: Key(self.setting.key.secret().to_vec()),
            associated: self.algorithm.associated(&self.setting.identity),
            ..SetDataEncryption::default()
        }
    }
}

impl Drive {
    fn unsupported(&self) -> TapeError {
        TapeError::EncryptionUnsupported { drive: self.name.clone() }
    }

    /// A page of tape data encryption, `None` if the drive does not have it. Asked while the drive is looked
    /// at: conditions are taken note of.
    fn encryption_page<T>(
        &mut self,
        page: u16,
        decode: fn(&[u8]) -> Result<T, Malformed>,
    ) -> Result<Option<T>, TapeError> {
        const OPERATION: &str = "read encryption";
        if !self.abilities.may(op::SECURITY_PROTOCOL_IN, page) {
            return Ok(None);
        }
        let command = Command::from(Primary::SecurityProtocolIn {
            protocol: PROTOCOL_TAPE_ENCRYPTION,
            specific: page,
            blocks: false,
            allocation_length: ANSWER_BYTES,
        });
        match self.quiet_answer(OPERATION, &command, ANSWER_BYTES as usize) {
            Ok(answer) => decode(&answer).map(Some).map_err(|error| self.strange(OPERATION, error)),
            Err(Stop::Heard(heard)) if heard.sense.key == SenseKey::IllegalRequest => {
                self.abilities.refused(op::SECURITY_PROTOCOL_IN, page);
                Ok(None)
            }
            Err(stop) => Err(self.error_of(OPERATION, stop)),
        }
    }

    /// Sets parameters. `false` if the drive refuses them.
    fn set_parameters(&mut self, parameters: &SetDataEncryption) -> Result<bool, TapeError> {
        const OPERATION: &str = "set encryption";
        let list = Zeroizing::new(parameters.encode());
        let length = u32::try_from(list.len()).unwrap_or(u32::MAX);
        let command = Command::from(Primary::SecurityProtocolOut {
            protocol: PROTOCOL_TAPE_ENCRYPTION,
            specific: page::SET_DATA_ENCRYPTION,
            blocks: false,
            length,
        });
        match self.quiet(OPERATION, &command, Data::Out(&list)) {
            Ok(_) => Ok(true),
            Err(Stop::Heard(heard))
                if heard.sense.key == SenseKey::IllegalRequest || heard.sense.is_encryption() =>
            {
                Ok(false)
            }
            Err(stop) => Err(self.error_of(OPERATION, stop)),
        }
    }

    /// The algorithm by which this drive can encrypt.
    fn algorithm(&mut self) -> Result<Option<Algorithm>, TapeError> {
        let found = self.encryption_page(page::CAPABILITIES, EncryptionCapabilities::decode)?;
        Ok(found.and_then(|found| found.algorithms.iter().find_map(Algorithm::of)))
    }

    /// How blocks are to be encrypted from here on. If the drive does not take it, nothing is written until
    /// it takes this or another setting.
    pub fn set_encryption(&mut self, wanted: Option<&TapeEncryption>) -> Result<(), TapeError> {
        self.session()?.is_unsettled = true;
        self.look()?;
        let in_use = match wanted {
            None => None,
            Some(setting) => {
                let algorithm = self.algorithm()?.filter(|algorithm| algorithm.holds(&setting.identity));
                let algorithm = algorithm.ok_or_else(|| self.unsupported())?;
                Some(InUse { setting: setting.clone(), algorithm, key_instance: None })
            }
        };
        let session = self.session()?;
        // The next write asks what the drive has.
        session.had_key |= in_use.is_some();
        (session.encryption, session.writing) = (in_use, false);
        self.assure_encryption()?;
        // A condition meanwhile, after which it may be otherwise again.
        self.look()?;
        self.session()?.is_unsettled = false;
        Ok(())
    }

    /// Makes sure that the drive encrypts as it is to.
    pub fn assure_encryption(&mut self) -> Result<(), TapeError> {
        let is_wanted = self.session()?.encryption.is_some();
        let status = match self.encryption_page(page::STATUS, EncryptionStatus::decode) {
            // As little is known of one that answers nonsense as of one that does not know the page.
            Err(TapeError::DriveFailed { source: DeviceError::System(_), .. }) if !is_wanted => None,
            status => status?,
        };
        let Some(status) = status else {
            // One that cannot be asked cannot be set either.
            return if is_wanted { Err(self.unsupported()) } else { Ok(()) };
        };
        match &self.session()?.encryption {
            None => self.clear_encryption(&status),
            Some(in_use) if in_use.is_set(&status) => Ok(()),
            Some(_) => self.set_key(),
        }
    }

    /// Has the drive encrypt as it is to. What comes between, a reset or another host, may have put another
    /// key in the place of ours: then it is done again.
    fn set_key(&mut self) -> Result<(), TapeError> {
        for _ in 0..SETS_MAX {
            let before = self.doubt.take();
            let set = self.set_key_once();
            let is_calm = self.doubt.is_none();
            self.doubt = self.doubt.max(before);
            match (set?, &mut self.session()?.encryption) {
                (true, _) if is_calm => return Ok(()),
                (_, Some(in_use)) => in_use.key_instance = None,
                (_, None) => return Ok(()),
            }
        }
        Err(self.unsupported())
    }

    /// Whether the drive has the key then.
    fn set_key_once(&mut self) -> Result<bool, TapeError> {
        let Some(in_use) = &self.session()?.encryption else { return Ok(true) };
        let parameters = BITS.map(|bits| in_use.parameters(bits));
        let mut is_taken = false;
        for parameters in &parameters {
            is_taken = self.set_parameters(parameters)?;
            if is_taken {
                break;
            }
        }
        let status = self.encryption_page(page::STATUS, EncryptionStatus::decode)?;
        let Some(status) = status.filter(|_| is_taken) else { return Err(self.unsupported()) };
        let Some(in_use) = &mut self.session()?.encryption else { return Ok(true) };
        in_use.key_instance = Some(status.key_instance);
        Ok(in_use.is_set(&status))
    }

    /// Nothing is to be encrypted: a key that another program, or an earlier process, has left in the drive
    /// is cleared. Where the library or a key manager controls encryption, that is the site's own affair: a
    /// drive says so, or refuses.
    fn clear_encryption(&mut self, status: &EncryptionStatus) -> Result<(), TapeError> {
        /// PARAMETERS CONTROL: the drive, the library or a key manager.
        const CONTROLLED_ELSEWHERE: std::ops::RangeInclusive<u8> = 2..=4;
        let is_clear = |status: &EncryptionStatus| {
            (status.encryption, status.decryption) == (EncryptionMode::Disable, DecryptionMode::Disable)
        };
        if is_clear(status) || CONTROLLED_ELSEWHERE.contains(&status.control) {
            return Ok(());
        }
        let off = SetDataEncryption {
            scope: EncryptionScope::AllNexus,
            algorithm: status.algorithm,
            ..SetDataEncryption::default()
        };
        if !self.set_parameters(&off)? {
            // Of our own key it is known that the drive took it from us.
            return if self.session()?.had_key { Err(self.unsupported()) } else { Ok(()) };
        }
        let status = self.encryption_page(page::STATUS, EncryptionStatus::decode)?;
        if status.as_ref().is_none_or(is_clear) { Ok(()) } else { Err(self.unsupported()) }
    }

    /// Before the cartridge is unloaded: the key goes, as well as can be. The next load looks again.
    pub fn forget_key(&mut self) {
        if let Some(session) = &mut self.session
            && session.encryption.take().is_some()
        {
            let _ = self.assure_encryption();
        }
    }

    /// How the block under the head is encrypted.
    pub fn block_encryption(&mut self) -> Result<BlockEncryption, TapeError> {
        for _ in 0..QUESTIONS_MAX {
            self.settle()?;
            let session = self.session()?;
            let (at, is_missing) = (session.at, session.is_missing(session.at.partition));
            if is_missing {
                return Ok(BlockEncryption::NoBlock);
            }
            let found = self.encryption_page(page::NEXT_BLOCK, NextBlockStatus::decode)?;
            // What came between may have moved the tape.
            if self.doubt.is_none() {
                let found = found.filter(|found| found.object == at.block.0);
                return Ok(found.map_or(BlockEncryption::Unknown, |found| encryption_of(&found)));
            }
        }
        Ok(BlockEncryption::Unknown)
    }

    /// What sense data of a read say of the key, if they speak of it (SSC-5, 4.2.22.7).
    pub fn key_error(&self, sense: &::scsi::Sense) -> Option<TapeError> {
        let session = self.session.as_ref()?;
        let (vid, at) = (session.vid, session.at);
        match (sense.additional.asc, sense.additional.ascq) {
            (0x74, 0x01) => Some(TapeError::KeyMissing { vid, at }),
            (0x74, 0x02) => Some(TapeError::NotEncrypted { vid, at }),
            (0x74, 0x03) => Some(TapeError::WrongKey { vid, at }),
            // Cryptographic integrity validation failed.
            (0x74, 0x04) => Some(TapeError::Unreadable { vid, at }),
            _ => None,
        }
    }
}

/// The key of the drive is another than was locked to: nothing was written (SSC-5, 4.2.22.5).
pub fn is_key_changed(sense: &::scsi::Sense) -> bool {
    (sense.additional.asc, sense.additional.ascq) == (0x2a, 0x13)
}
