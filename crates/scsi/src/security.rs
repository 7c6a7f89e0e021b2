//! Tape data encryption: pages of security protocol 20h, and the list of protocols, 00h (SSC-5, 8.7; SPC-5, 7.7.2).

use std::fmt;

use crate::bytes::{Fault, Layout, Malformed, Packed, Reader, codes, set_length};

/// The protocol that lists protocols.
pub const PROTOCOL_INFORMATION: u8 = 0x00;
/// The protocol of tape data encryption.
pub const PROTOCOL_TAPE_ENCRYPTION: u8 = 0x20;

/// Pages of tape data encryption: the protocol specific field of the commands.
pub mod page {
    /// In: the pages that SECURITY PROTOCOL IN gives.
    pub const IN_SUPPORT: u16 = 0x0000;
    /// In: the pages that SECURITY PROTOCOL OUT takes.
    pub const OUT_SUPPORT: u16 = 0x0001;
    /// In: what the drive can do. Out: set data encryption.
    pub const CAPABILITIES: u16 = 0x0010;
    /// Out: how data is encrypted from now on.
    pub const SET_DATA_ENCRYPTION: u16 = 0x0010;
    /// In: the formats of keys that the drive takes.
    pub const KEY_FORMATS: u16 = 0x0011;
    /// In: how long parameters are kept.
    pub const MANAGEMENT_CAPABILITIES: u16 = 0x0012;
    /// In: how data is encrypted.
    pub const STATUS: u16 = 0x0020;
    /// In: how the next block is encrypted.
    pub const NEXT_BLOCK: u16 = 0x0021;
}

codes! {
    open
    /// How data is encrypted on writing (SSC-5, 8.7.3.2).
    EncryptionMode {
        Disable = 0 "not encrypted",
        External = 1 "encrypted outside of the drive",
        Encrypt = 2 "encrypted",
    }
}

codes! {
    open
    /// How data is decrypted on reading (SSC-5, 8.7.3.2).
    DecryptionMode {
        Disable = 0 "not decrypted: encrypted blocks are an error",
        Raw = 1 "given as they are on the medium",
        Decrypt = 2 "decrypted: other blocks are an error",
        Mixed = 3 "decrypted if encrypted",
    }
}

codes! {
    open
    /// For whom parameters count (SSC-5, 8.7.3.2).
    EncryptionScope {
        Public = 0 "public: the nexus uses those of others",
        Local = 1 "local: this nexus",
        AllNexus = 2 "all I_T nexuses",
    }
}

codes! {
    open
    /// What is known of the next block's encryption (SSC-5, 8.7.2.7).
    BlockEncryption {
        Unable = 0 "the drive cannot tell",
        NotNow = 1 "the drive cannot tell now",
        NotABlock = 2 "it is no block",
        Plain = 3 "not encrypted",
        OtherAlgorithm = 4 "encrypted by an algorithm that the drive does not know",
        Decryptable = 5 "encrypted, the key is there",
        OtherKey = 6 "encrypted, the key is not there",
    }
}

codes! {
    open
    /// What a key-associated data descriptor holds (SSC-5, 8.7.4).
    KadType {
        Unauthenticated = 0 "unauthenticated key-associated data",
        Authenticated = 1 "authenticated key-associated data",
        Nonce = 2 "nonce",
        MetadataKey = 3 "metadata key-associated data",
        WrappedKey = 4 "wrapped key",
    }
}

/// Data that stands on the medium beside the blocks that a key encrypted, to find the key again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyAssociatedData {
    /// What it is.
    pub kind: KadType,
    /// Whether it was authenticated.
    pub authenticated: u8,
    /// The data.
    pub data: Vec<u8>,
}

impl KeyAssociatedData {
    fn decode_all(list: &mut Reader<'_>) -> Result<Vec<KeyAssociatedData>, Malformed> {
        let mut all = Vec::new();
        while !list.is_empty() {
            let [kind, authenticated] = list.array()?;
            let length = list.length16()?;
            let data = list.take(length)?.to_vec();
            all.push(KeyAssociatedData {
                kind: KadType::of(kind),
                authenticated: authenticated & 0x07,
                data,
            });
        }
        Ok(all)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend([self.kind.byte(), self.authenticated & 0x07, 0, 0]);
        let at = out.len() - 2;
        set_length(out, at, 2, self.data.len());
        out.extend(&self.data);
    }
}

/// A key. It is not shown by `Debug`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct EncryptionKey(pub Vec<u8>);

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncryptionKey({} bytes)", self.0.len())
    }
}

/// The body of a page, which must have the code that was asked for.
fn body<'a>(name: &'static str, code: u16, bytes: &'a [u8]) -> Result<Reader<'a>, Malformed> {
    let mut reader = Reader::new(name, bytes);
    let found = reader.u16()?;
    if found != code {
        let fault = Fault::Value { field: "the page code", value: u64::from(found) };
        return Err(reader.fault(0, fault));
    }
    let length = reader.length16()?;
    reader.part(name, length)
}

fn finish(code: u16, body: &[u8]) -> Vec<u8> {
    let mut out = code.to_be_bytes().to_vec();
    out.extend([0; 2]);
    set_length(&mut out, 2, 2, body.len());
    out.extend(body);
    out
}

/// The security protocols that a device knows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProtocolList(pub Vec<u8>);

impl ProtocolList {
    const NAME: &'static str = "supported security protocol list";

    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off.
    pub fn decode(bytes: &[u8]) -> Result<ProtocolList, Malformed> {
        let mut reader = Reader::new(ProtocolList::NAME, bytes);
        reader.take(6)?;
        let length = reader.length16()?;
        Ok(ProtocolList(reader.take(length)?.to_vec()))
    }

    /// Writes it.
    ///
    /// # Panics
    /// If there are more than 65,535.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 8];
        set_length(&mut out, 6, 2, self.0.len());
        out.extend(&self.0);
        out
    }
}

/// The pages that a command knows: 0000h is of SECURITY PROTOCOL IN, 0001h of OUT.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EncryptionPages {
    /// They are those of SECURITY PROTOCOL OUT.
    pub out: bool,
    /// Their codes.
    pub pages: Vec<u16>,
}

impl EncryptionPages {
    const NAME: &'static str = "tape data encryption support page";

    /// Reads either page.
    ///
    /// # Errors
    /// If it is cut off or is another page.
    pub fn decode(bytes: &[u8]) -> Result<EncryptionPages, Malformed> {
        let out = bytes.get(..2) == Some(&page::OUT_SUPPORT.to_be_bytes());
        let code = if out { page::OUT_SUPPORT } else { page::IN_SUPPORT };
        let mut list = body(EncryptionPages::NAME, code, bytes)?;
        let mut pages = Vec::new();
        while !list.is_empty() {
            pages.push(list.u16()?);
        }
        Ok(EncryptionPages { out, pages })
    }

    /// Writes it.
    ///
    /// # Panics
    /// If there are more than 32,767 pages.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let code = if self.out { page::OUT_SUPPORT } else { page::IN_SUPPORT };
        finish(code, &self.pages.iter().flat_map(|page| page.to_be_bytes()).collect::<Vec<_>>())
    }
}

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

/// The fields of [`EncryptionStatus`] before its list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct StatusHead {
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
struct NextBlockHead {
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
struct SetHead {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::{any_bytes, hex, packed};

    fn kad() -> KeyAssociatedData {
        KeyAssociatedData { kind: KadType::Authenticated, authenticated: 1, data: b"key-17".to_vec() }
    }

    fn set() -> SetDataEncryption {
        SetDataEncryption {
            scope: EncryptionScope::AllNexus,
            clear_on_demount: true,
            encryption: EncryptionMode::Encrypt,
            decryption: DecryptionMode::Mixed,
            algorithm: 1,
            key: EncryptionKey(vec![0xaa; 32]),
            associated: vec![kad()],
            ..SetDataEncryption::default()
        }
    }

    #[test]
    fn hold_as_structures() {
        packed::<EncryptionAlgorithm>();
        packed::<StatusHead>();
        packed::<NextBlockHead>();
        packed::<SetHead>();
    }

    /// By the table of SSC-5, 8.7.3.2, which CTA, taped/scsi/Structures.hpp, has as spoutSDEParam_t.
    #[test]
    fn a_key_is_set_by_the_bytes_of_the_table() {
        let mut bytes = hex("00 10 00 3a 40 04 02 03 01 00 00 00 00 00 00 00 00 00 00 20");
        bytes.resize(52, 0xaa);
        bytes.extend(hex("01 01 00 06 6b 65 79 2d 31 37"));
        assert_eq!((set().encode(), SetDataEncryption::decode(&bytes)), (bytes, Ok(set())));
        assert!(!format!("{:?}", set()).contains("170"), "the key is not shown");
    }

    #[test]
    fn another_page_is_refused() {
        let error = EncryptionStatus::decode(&set().encode()).unwrap_err();
        assert_eq!((error.at, error.fault), (0, Fault::Value { field: "the page code", value: 0x10 }));
        let mut bytes =
            EncryptionCapabilities { algorithms: vec![EncryptionAlgorithm::default()], ..Default::default() }
                .encode();
        bytes[23] = 21;
        assert_eq!(EncryptionCapabilities::decode(&bytes).unwrap_err().at, 22);
    }

    #[test]
    fn nothing_panics() {
        let status = EncryptionStatus { control: 1, associated: vec![kad(), kad()], ..Default::default() };
        let next = NextBlockStatus { object: 9, associated: vec![kad()], ..Default::default() };
        let algorithm = EncryptionAlgorithm {
            index: 1,
            key_size: 32,
            algorithm: EncryptionAlgorithm::AES_256_GCM,
            ..EncryptionAlgorithm::default()
        };
        let capabilities = EncryptionCapabilities { algorithms: vec![algorithm; 2], ..Default::default() };
        let pages = EncryptionPages { out: true, pages: vec![page::SET_DATA_ENCRYPTION] };
        let protocols = ProtocolList(vec![PROTOCOL_INFORMATION, PROTOCOL_TAPE_ENCRYPTION]);
        assert_eq!(protocols.encode(), hex("00 00 00 00 00 00 00 02 00 20"));
        assert_eq!(pages.encode(), hex("00 01 00 02 00 10"));
        let samples = [
            set().encode(),
            status.encode(),
            next.encode(),
            capabilities.encode(),
            pages.encode(),
            protocols.encode(),
        ];
        assert_eq!(NextBlockStatus::decode(&samples[2]), Ok(next));
        any_bytes(&samples, |bytes| {
            if let Ok(read) = SetDataEncryption::decode(bytes) {
                assert_eq!(SetDataEncryption::decode(&read.encode()), Ok(read));
            }
            if let Ok(read) = EncryptionStatus::decode(bytes) {
                assert_eq!(EncryptionStatus::decode(&read.encode()), Ok(read));
            }
            if let Ok(read) = NextBlockStatus::decode(bytes) {
                assert_eq!(NextBlockStatus::decode(&read.encode()), Ok(read));
            }
            if let Ok(read) = EncryptionCapabilities::decode(bytes) {
                assert_eq!(EncryptionCapabilities::decode(&read.encode()), Ok(read));
            }
            if let Ok(read) = EncryptionPages::decode(bytes) {
                assert_eq!(EncryptionPages::decode(&read.encode()), Ok(read));
            }
            if let Ok(read) = ProtocolList::decode(bytes) {
                assert_eq!(ProtocolList::decode(&read.encode()), Ok(read));
            }
        });
    }
}
