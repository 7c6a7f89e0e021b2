//! Tape data encryption: pages of security protocol 20h, and the list of protocols, 00h (SSC-5, 8.7; SPC-5,
//! 7.7.2).

mod pages;
#[cfg(test)]
mod tests;

pub use pages::{
    EncryptionAlgorithm, EncryptionCapabilities, EncryptionManagement, EncryptionStatus, NextBlockStatus,
    SetDataEncryption,
};

use std::fmt;

use zeroize::Zeroize;

use crate::bytes::{Fault, Malformed, Reader, set_length};
use crate::code::codes;

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
    /// AUTHENTICATED of data that the key authenticates, when no decryption was tried yet.
    pub const COVERED: u8 = 1;
    /// AUTHENTICATED of data that the last decryption found as they were written.
    pub const VERIFIED: u8 = 2;

    /// What stands in a list under this type; empty if it is not there.
    #[must_use]
    pub fn find(list: &[KeyAssociatedData], kind: KadType) -> &[u8] {
        list.iter().find(|one| one.kind == kind).map_or(&[], |one| &one.data)
    }

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

/// A key. It is not shown by `Debug`, and wiped when it is dropped.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct EncryptionKey(pub Vec<u8>);

impl Drop for EncryptionKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

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

/// The formats of keys that a drive takes, 0011h (SSC-5, 8.7.2.5).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyFormats(pub Vec<u8>);

impl KeyFormats {
    /// The key as it is.
    pub const PLAIN_TEXT: u8 = 0;

    const NAME: &'static str = "supported key formats page";

    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off or is another page.
    pub fn decode(bytes: &[u8]) -> Result<KeyFormats, Malformed> {
        let mut list = body(KeyFormats::NAME, page::KEY_FORMATS, bytes)?;
        let mut formats = Vec::new();
        while !list.is_empty() {
            formats.push(list.u8()?);
        }
        Ok(KeyFormats(formats))
    }

    /// Writes it.
    ///
    /// # Panics
    /// If there are more than 65,535.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        finish(page::KEY_FORMATS, &self.0)
    }
}
