//! The pages of tape data encryption that hold fields (SSC-5, 8.7.2 and 8.7.3).

use super::{
    BlockEncryption, DecryptionMode, EncryptionKey, EncryptionMode, EncryptionScope, KeyAssociatedData, body,
    finish, page,
};
use crate::bytes::{Fault, Layout, Malformed, Packed, set_length};

/// An algorithm that a drive encrypts with (SSC-5, 8.7.2.4). Names as there.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // The fields have the names of the standard.
pub struct EncryptionAlgorithm {
    /// The index by which it is chosen.
    pub index: u8,
    /// Bytes behind this field, 20.
    pub length: u16,
    /// Encryption is possible with the volume that is loaded (AVFMV).
    pub usable_with_volume: bool,
    pub supplemental_keys: bool,
    pub authenticates: bool,
    pub distinguishes_blocks: bool,
    /// 0 no, 1 by software, 2 by hardware, 3 with external control.
    pub decrypts: u8,
    pub encrypts: u8,
    pub volume_position: u8,
    pub nonce: u8,
    pub associated_data_format: bool,
    pub contains_encrypted: bool,
    pub unauthenticated_fixed: bool,
    pub authenticated_fixed: bool,
    pub unauthenticated_max: u16,
    pub authenticated_max: u16,
    /// Bytes of a key.
    pub key_size: u16,
    pub decryption_data: u8,
    pub external_mode: u8,
    pub raw_mode: u8,
    pub raw_mode_enabled: bool,
    pub encrypted_keys_max: u8,
    pub supplemental_keys_max: u16,
    pub encrypted_key_size_max: u16,
    /// 00010014h: AES-256 in Galois/counter mode.
    pub algorithm: u32,
}

impl Default for EncryptionAlgorithm {
    fn default() -> Self {
        EncryptionAlgorithm {
            index: 0,
            length: 20,
            usable_with_volume: false,
            supplemental_keys: false,
            authenticates: false,
            distinguishes_blocks: false,
            decrypts: 0,
            encrypts: 0,
            volume_position: 0,
            nonce: 0,
            associated_data_format: false,
            contains_encrypted: false,
            unauthenticated_fixed: false,
            authenticated_fixed: false,
            unauthenticated_max: 0,
            authenticated_max: 0,
            key_size: 0,
            decryption_data: 0,
            external_mode: 0,
            raw_mode: 0,
            raw_mode_enabled: false,
            encrypted_keys_max: 0,
            supplemental_keys_max: 0,
            encrypted_key_size_max: 0,
            algorithm: 0,
        }
    }
}

impl EncryptionAlgorithm {
    /// AES-256 in Galois/counter mode.
    pub const AES_256_GCM: u32 = 0x0001_0014;
    /// The drive encrypts, or decrypts, in software.
    pub const BY_SOFTWARE: u8 = 1;
    /// The drive encrypts, or decrypts, in hardware.
    pub const BY_HARDWARE: u8 = 2;
}

impl Packed for EncryptionAlgorithm {
    const NAME: &'static str = "data encryption algorithm descriptor";
    const LENGTH: usize = 24;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.number(0, 1, &mut self.index);
        l.number(2, 2, &mut self.length);
        l.flag(4, 7, &mut self.usable_with_volume);
        l.flag(4, 6, &mut self.supplemental_keys);
        l.flag(4, 5, &mut self.authenticates);
        l.flag(4, 4, &mut self.distinguishes_blocks);
        l.bits(4, 2, 2, &mut self.decrypts);
        l.bits(4, 0, 2, &mut self.encrypts);
        l.bits(5, 6, 2, &mut self.volume_position);
        l.bits(5, 4, 2, &mut self.nonce);
        l.flag(5, 3, &mut self.associated_data_format);
        l.flag(5, 2, &mut self.contains_encrypted);
        l.flag(5, 1, &mut self.unauthenticated_fixed);
        l.flag(5, 0, &mut self.authenticated_fixed);
        l.number(6, 2, &mut self.unauthenticated_max);
        l.number(8, 2, &mut self.authenticated_max);
        l.number(10, 2, &mut self.key_size);
        l.bits(12, 6, 2, &mut self.decryption_data);
        l.bits(12, 4, 2, &mut self.external_mode);
        l.bits(12, 1, 3, &mut self.raw_mode);
        l.flag(12, 0, &mut self.raw_mode_enabled);
        l.bits(13, 0, 4, &mut self.encrypted_keys_max);
        l.number(14, 2, &mut self.supplemental_keys_max);
        l.number(16, 2, &mut self.encrypted_key_size_max);
        l.number(20, 4, &mut self.algorithm);
    }
}

/// What a drive can do with encryption, 0010h (SSC-5, 8.7.2.4).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EncryptionCapabilities {
    /// EXTDECC: whether encryption is controlled from outside: 0 not told, 1 not, 2 it is.
    pub external_control: u8,
    /// CFG_P: whether configuration is prevented: 0 not told, 1 not, 2 it is.
    pub configuration_prevented: u8,
    /// The algorithms.
    pub algorithms: Vec<EncryptionAlgorithm>,
}

impl EncryptionCapabilities {
    const NAME: &'static str = "data encryption capabilities page";

    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off, is another page or has descriptors of another length.
    pub fn decode(bytes: &[u8]) -> Result<EncryptionCapabilities, Malformed> {
        let mut list = body(EncryptionCapabilities::NAME, page::CAPABILITIES, bytes)?;
        let flags = list.u8()?;
        list.take(15)?;
        let mut algorithms = Vec::new();
        while !list.is_empty() {
            let at = list.at();
            let algorithm: EncryptionAlgorithm = list.packed()?;
            if algorithm.length != 20 {
                let value = usize::from(algorithm.length);
                let fault = Fault::Length { field: "the length of a descriptor", value };
                return Err(list.fault(at + 2, fault));
            }
            algorithms.push(algorithm);
        }
        Ok(EncryptionCapabilities {
            external_control: flags >> 2 & 0x03,
            configuration_prevented: flags & 0x03,
            algorithms,
        })
    }

    /// Writes it.
    ///
    /// # Panics
    /// If there are more than 2,730 algorithms, or a value is too large for its field.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![(self.external_control & 0x03) << 2 | self.configuration_prevented & 0x03];
        out.resize(16, 0);
        self.algorithms.iter().for_each(|algorithm| out.extend(algorithm.encode()));
        finish(page::CAPABILITIES, &out)
    }
}

/// How long a drive keeps parameters and for whom, 0012h (SSC-5, 8.7.2.6; positions as FreeBSD,
/// sys/cam/scsi/scsi_sa.h, `tde_data_enc_man_cap_page`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EncryptionManagement {
    /// LOCK_C: it takes LOCK.
    pub lock: bool,
    /// CKOD_C: it takes CKOD.
    pub clear_on_demount: bool,
    /// CKORP_C: it takes CKORP.
    pub clear_on_preempt: bool,
    /// CKORL_C: it takes CKORL.
    pub clear_on_reservation_loss: bool,
    /// AITN_C: it takes the scope of all I_T nexuses.
    pub all_nexus: bool,
    /// LOCAL_C: it takes the scope of one I_T nexus.
    pub local: bool,
    /// PUBLIC_C: it takes the public scope.
    pub public: bool,
}

impl Packed for EncryptionManagement {
    const NAME: &'static str = "data encryption management capabilities page";
    const LENGTH: usize = 12;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.flag(0, 0, &mut self.lock);
        l.flag(1, 2, &mut self.clear_on_demount);
        l.flag(1, 1, &mut self.clear_on_preempt);
        l.flag(1, 0, &mut self.clear_on_reservation_loss);
        l.flag(3, 2, &mut self.all_nexus);
        l.flag(3, 1, &mut self.local);
        l.flag(3, 0, &mut self.public);
    }
}

impl EncryptionManagement {
    /// Reads the page.
    ///
    /// # Errors
    /// If it is cut off or is another page.
    pub fn decode_page(bytes: &[u8]) -> Result<EncryptionManagement, Malformed> {
        body(EncryptionManagement::NAME, page::MANAGEMENT_CAPABILITIES, bytes)?.packed()
    }

    /// Writes the page.
    #[must_use]
    pub fn encode_page(&self) -> Vec<u8> {
        finish(page::MANAGEMENT_CAPABILITIES, &self.encode())
    }
}

/// The fields of [`EncryptionStatus`] before its list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct StatusHead {
    page: EncryptionStatus,
}

impl Packed for StatusHead {
    const NAME: &'static str = "data encryption status page";
    const LENGTH: usize = 20;

    fn layout(&mut self, l: &mut Layout<'_>) {
        let page = &mut self.page;
        l.code(0, 5, 3, "the scope", &mut page.nexus_scope);
        l.code(0, 0, 3, "the scope of the key", &mut page.key_scope);
        l.code(1, 0, 8, "the encryption mode", &mut page.encryption);
        l.code(2, 0, 8, "the decryption mode", &mut page.decryption);
        l.number(3, 1, &mut page.algorithm);
        l.number(4, 4, &mut page.key_instance);
        l.bits(8, 4, 3, &mut page.control);
        l.flag(8, 3, &mut page.contains_encrypted);
        l.bits(8, 1, 2, &mut page.external_check);
        l.flag(8, 0, &mut page.raw_disabled);
        l.number(9, 1, &mut page.associated_format);
        l.number(10, 2, &mut page.supplemental_keys);
    }
}

/// How data is encrypted, 0020h (SSC-5, 8.7.2.6).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EncryptionStatus {
    /// For whom this nexus set parameters.
    pub nexus_scope: EncryptionScope,
    /// For whom the key counts.
    pub key_scope: EncryptionScope,
    /// How data is encrypted.
    pub encryption: EncryptionMode,
    /// How data is decrypted.
    pub decryption: DecryptionMode,
    /// The index of the algorithm.
    pub algorithm: u8,
    /// Counts keys.
    pub key_instance: u32,
    /// Who controls the parameters: 1 the application, 2 the drive, 3 the library, 4 key management.
    pub control: u8,
    /// VCELB: the volume contains encrypted blocks.
    pub contains_encrypted: bool,
    /// CEEMS: whether external encryption is checked for.
    pub external_check: u8,
    /// RDMD: what is written cannot be read raw.
    pub raw_disabled: bool,
    /// The format of the key-associated data.
    pub associated_format: u8,
    /// Supplemental decryption keys that can be added.
    pub supplemental_keys: u16,
    /// Key-associated data.
    pub associated: Vec<KeyAssociatedData>,
}

impl EncryptionStatus {
    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off or is another page.
    pub fn decode(bytes: &[u8]) -> Result<EncryptionStatus, Malformed> {
        let mut list = body(StatusHead::NAME, page::STATUS, bytes)?;
        let StatusHead { mut page } = list.packed()?;
        page.associated = KeyAssociatedData::decode_all(&mut list)?;
        Ok(page)
    }

    /// Writes it.
    ///
    /// # Panics
    /// If a value is too large for its field or the page longer than 65,535 bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = StatusHead { page: self.clone() }.encode();
        self.associated.iter().for_each(|data| data.encode(&mut out));
        finish(page::STATUS, &out)
    }
}

/// The fields of [`NextBlockStatus`] before its list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct NextBlockHead {
    page: NextBlockStatus,
}

impl Packed for NextBlockHead {
    const NAME: &'static str = "next block encryption status page";
    const LENGTH: usize = 12;

    fn layout(&mut self, l: &mut Layout<'_>) {
        let page = &mut self.page;
        l.number(0, 8, &mut page.object);
        l.bits(8, 4, 4, &mut page.compression);
        l.code(8, 0, 4, "the encryption status", &mut page.encryption);
        l.number(9, 1, &mut page.algorithm);
        l.flag(10, 1, &mut page.external);
        l.flag(10, 0, &mut page.raw_disabled);
        l.number(11, 1, &mut page.associated_format);
    }
}

/// How the next block is encrypted, 0021h (SSC-5, 8.7.2.7).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NextBlockStatus {
    /// The number of the block.
    pub object: u64,
    /// What is known of its compression.
    pub compression: u8,
    /// What is known of its encryption.
    pub encryption: BlockEncryption,
    /// The index of the algorithm.
    pub algorithm: u8,
    /// EMES: it was encrypted outside of the drive.
    pub external: bool,
    /// RDMDS: it cannot be read raw.
    pub raw_disabled: bool,
    /// The format of the key-associated data.
    pub associated_format: u8,
    /// Key-associated data.
    pub associated: Vec<KeyAssociatedData>,
}

impl NextBlockStatus {
    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off or is another page.
    pub fn decode(bytes: &[u8]) -> Result<NextBlockStatus, Malformed> {
        let mut list = body(NextBlockHead::NAME, page::NEXT_BLOCK, bytes)?;
        let NextBlockHead { mut page } = list.packed()?;
        page.associated = KeyAssociatedData::decode_all(&mut list)?;
        Ok(page)
    }

    /// Writes it.
    ///
    /// # Panics
    /// If a value is too large for its field or the page longer than 65,535 bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = NextBlockHead { page: self.clone() }.encode();
        self.associated.iter().for_each(|data| data.encode(&mut out));
        finish(page::NEXT_BLOCK, &out)
    }
}

/// The fields of [`SetDataEncryption`] before the key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct SetHead {
    page: SetDataEncryption,
}

impl Packed for SetHead {
    const NAME: &'static str = "set data encryption page";
    const LENGTH: usize = 14;

    fn layout(&mut self, l: &mut Layout<'_>) {
        let page = &mut self.page;
        l.code(0, 5, 3, "the scope", &mut page.scope);
        l.flag(0, 0, &mut page.lock);
        l.bits(1, 6, 2, &mut page.external_check);
        l.bits(1, 4, 2, &mut page.raw_control);
        l.flag(1, 3, &mut page.supplemental);
        l.flag(1, 2, &mut page.clear_on_demount);
        l.flag(1, 1, &mut page.clear_on_preempt);
        l.flag(1, 0, &mut page.clear_on_reservation_loss);
        l.code(2, 0, 8, "the encryption mode", &mut page.encryption);
        l.code(3, 0, 8, "the decryption mode", &mut page.decryption);
        l.number(4, 1, &mut page.algorithm);
        l.number(5, 1, &mut page.key_format);
        l.number(6, 1, &mut page.associated_format);
    }
}

/// How data is encrypted from now on, 0010h of SECURITY PROTOCOL OUT (SSC-5, 8.7.3.2).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SetDataEncryption {
    /// For whom.
    pub scope: EncryptionScope,
    /// Writing fails if another changes the parameters.
    pub lock: bool,
    /// CEEM: whether external encryption is checked for.
    pub external_check: u8,
    /// RDMC: whether what is written can be read raw.
    pub raw_control: u8,
    /// SDK: the key is a further one, for reading only.
    pub supplemental: bool,
    /// CKOD: the key is cleared with the unloading of the volume.
    pub clear_on_demount: bool,
    /// CKORP: the key is cleared if the reservation is preempted.
    pub clear_on_preempt: bool,
    /// CKORL: the key is cleared if the reservation is lost.
    pub clear_on_reservation_loss: bool,
    /// How data is encrypted.
    pub encryption: EncryptionMode,
    /// How data is decrypted.
    pub decryption: DecryptionMode,
    /// The index of the algorithm.
    pub algorithm: u8,
    /// 0: the key as it is.
    pub key_format: u8,
    /// The format of the key-associated data.
    pub associated_format: u8,
    /// The key.
    pub key: EncryptionKey,
    /// Key-associated data.
    pub associated: Vec<KeyAssociatedData>,
}

impl SetDataEncryption {
    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off or is another page.
    pub fn decode(bytes: &[u8]) -> Result<SetDataEncryption, Malformed> {
        let mut list = body(SetHead::NAME, page::SET_DATA_ENCRYPTION, bytes)?;
        let SetHead { mut page } = list.packed()?;
        let length = list.length16()?;
        page.key = EncryptionKey(list.take(length)?.to_vec());
        page.associated = KeyAssociatedData::decode_all(&mut list)?;
        Ok(page)
    }

    /// Writes it.
    ///
    /// # Panics
    /// If a value is too large for its field or the page longer than 65,535 bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = SetHead { page: self.clone() }.encode();
        out.extend([0; 2]);
        set_length(&mut out, SetHead::LENGTH, 2, self.key.0.len());
        out.extend(&self.key.0);
        self.associated.iter().for_each(|data| data.encode(&mut out));
        finish(page::SET_DATA_ENCRYPTION, &out)
    }
}
