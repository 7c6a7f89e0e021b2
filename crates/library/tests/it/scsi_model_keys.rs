//! Encryption of the model of a SCSI tape drive: parameters, keys and their counter, as a drive keeps them.

use scsi::command::Primary;
use scsi::security::{
    BlockEncryption, DecryptionMode, EncryptionAlgorithm, EncryptionCapabilities, EncryptionKey,
    EncryptionMode, EncryptionScope, EncryptionStatus, NextBlockStatus, SetDataEncryption, page,
};
use scsi::{Sense, SenseKey};

/// What a drive offers.
#[derive(Clone, Debug)]
pub struct KeyQuirks {
    /// It knows tape data encryption.
    pub offered: bool,
    /// It takes LOCK, and CKOD.
    pub lock: bool,
    pub clear_on_demount: bool,
    /// The only key length that it has.
    pub key_size: u16,
    /// Key-associated data have their full length.
    pub fixed: bool,
    /// Another host sets its own key, in the same modes, as soon as the drive was reset: the counter of keys
    /// then is what it was.
    pub intruder: bool,
    /// PARAMETERS CONTROL.
    pub control: u8,
    /// It takes no parameters of the application.
    pub refuses: bool,
    /// Its status page is cut off.
    pub nonsense: bool,
}

impl Default for KeyQuirks {
    fn default() -> Self {
        KeyQuirks {
            offered: true,
            lock: true,
            clear_on_demount: true,
            key_size: 32,
            fixed: false,
            intruder: false,
            control: 1,
            refuses: false,
            nonsense: false,
        }
    }
}

/// The key of the intruder.
pub const INTRUDER: [u8; 32] = [0xee; 32];

/// Encryption as it is set.
#[derive(Default)]
pub struct Keys {
    pub set: SetDataEncryption,
    pub instance: u32,
    locked_to: Option<u32>,
}

type Answer = Result<Vec<u8>, Box<Sense>>;

fn refusal() -> Box<Sense> {
    Box::new(Sense::new(SenseKey::IllegalRequest, 0x26, 0))
}

fn protect(asc: u8, ascq: u8) -> Box<Sense> {
    Box::new(Sense::new(SenseKey::DataProtect, asc, ascq))
}

/// A record as it is kept: with the key that encrypted it, and what stands beside it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sealed {
    pub parameters: SetDataEncryption,
    pub data: Vec<u8>,
}

impl Keys {
    pub fn reset(&mut self, quirks: &KeyQuirks) {
        let before = std::mem::take(self);
        if quirks.intruder && before.set.encryption == EncryptionMode::Encrypt {
            self.set = SetDataEncryption { key: EncryptionKey(INTRUDER.to_vec()), ..before.set };
            self.instance = before.instance;
        }
    }

    /// What a record becomes; `None`: it stays plain.
    pub fn seal(&self, data: &[u8]) -> Result<Option<Sealed>, Box<Sense>> {
        if self.locked_to.is_some_and(|instance| instance != self.instance) {
            return Err(protect(0x2a, 0x13));
        }
        let encrypts = self.set.encryption == EncryptionMode::Encrypt;
        Ok(encrypts.then(|| Sealed { parameters: self.set.clone(), data: data.to_vec() }))
    }

    pub fn open(&self, sealed: Option<&Sealed>) -> Result<(), Box<Sense>> {
        match (sealed, self.set.decryption) {
            (None, DecryptionMode::Decrypt) => Err(protect(0x74, 0x02)),
            (None, _) => Ok(()),
            (Some(_), DecryptionMode::Disable) => Err(protect(0x74, 0x01)),
            (Some(sealed), _) if sealed.parameters.key != self.set.key => Err(protect(0x74, 0x03)),
            (Some(_), _) => Ok(()),
        }
    }

    pub fn security(
        &mut self,
        quirks: &KeyQuirks,
        command: Primary,
        out: &[u8],
        next: (u64, Option<Option<&Sealed>>),
    ) -> Answer {
        if !quirks.offered {
            return Err(Box::new(Sense::new(SenseKey::IllegalRequest, 0x24, 0)));
        }
        match command {
            Primary::SecurityProtocolIn { protocol: 0x20, specific, .. } => self.page(quirks, specific, next),
            Primary::SecurityProtocolOut { protocol: 0x20, specific: page::SET_DATA_ENCRYPTION, .. } => {
                let set = SetDataEncryption::decode(out).unwrap();
                let refused = quirks.refuses
                    || set.lock && !quirks.lock
                    || set.clear_on_demount && !quirks.clear_on_demount;
                if refused {
                    return Err(refusal());
                }
                assert_eq!(set.scope, EncryptionScope::AllNexus);
                self.instance += 1;
                self.locked_to = set.lock.then_some(self.instance);
                self.set = set;
                Ok(Vec::new())
            }
            other => panic!("{other:?}"),
        }
    }

    fn page(&self, quirks: &KeyQuirks, code: u16, (object, next): (u64, Option<Option<&Sealed>>)) -> Answer {
        Ok(match code {
            page::CAPABILITIES => {
                let other = EncryptionAlgorithm { index: 1, algorithm: 0x0001_0010, ..Default::default() };
                let ours = EncryptionAlgorithm {
                    index: 4,
                    decrypts: EncryptionAlgorithm::BY_HARDWARE,
                    encrypts: EncryptionAlgorithm::BY_HARDWARE,
                    unauthenticated_max: 32,
                    authenticated_max: 12,
                    unauthenticated_fixed: quirks.fixed,
                    authenticated_fixed: quirks.fixed,
                    key_size: quirks.key_size,
                    algorithm: EncryptionAlgorithm::AES_256_GCM,
                    ..Default::default()
                };
                EncryptionCapabilities { algorithms: vec![other, ours], ..Default::default() }.encode()
            }
            page::STATUS if quirks.nonsense => vec![0, 0x20, 0, 99],
            page::STATUS => EncryptionStatus {
                key_scope: EncryptionScope::AllNexus,
                encryption: self.set.encryption,
                decryption: self.set.decryption,
                algorithm: self.set.algorithm,
                key_instance: self.instance,
                control: quirks.control,
                associated: self.set.associated.clone(),
                ..Default::default()
            }
            .encode(),
            page::NEXT_BLOCK => {
                let mut status = NextBlockStatus { object, ..Default::default() };
                status.encryption = match next {
                    None => BlockEncryption::NotABlock,
                    Some(None) => BlockEncryption::Plain,
                    Some(Some(sealed)) => {
                        status.associated = sealed.parameters.associated.clone();
                        let is_ours = self.open(Some(sealed)).is_ok();
                        if is_ours { BlockEncryption::Decryptable } else { BlockEncryption::OtherKey }
                    }
                };
                status.encode()
            }
            other => panic!("page {other:04x}"),
        })
    }
}
