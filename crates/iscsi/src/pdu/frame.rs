//! What stands around a header: additional headers, data, padding, checksums.

use base::Crc32c;

use super::{DIGEST, HEADER, Pdu, PduError};

/// Which checksums are agreed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Digests {
    /// CRC-32C behind the headers.
    pub header: bool,
    /// CRC-32C behind the data, if there is any.
    pub data: bool,
}

/// The lengths that a basic header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes of additional headers.
    pub additional: usize,
    /// Bytes of data, without padding.
    pub data: usize,
}

impl Shape {
    /// What this header says.
    #[must_use]
    pub fn of(header: &[u8; HEADER]) -> Shape {
        let length = u32::from_be_bytes([0, header[5], header[6], header[7]]);
        // 24 bits.
        Shape { additional: usize::from(header[4]) * 4, data: length as usize }
    }

    /// The same, if the receiver has declared to take so much data.
    pub fn checked(self, data_max: usize) -> Result<Shape, PduError> {
        if self.data > data_max {
            return Err(PduError::TooLong { length: self.data, most: data_max });
        }
        Ok(self)
    }
}

/// Bytes of padding behind so much data.
#[must_use]
pub fn padding(length: usize) -> usize {
    length.wrapping_neg() & 3
}

/// The checksum of all headers.
#[must_use]
pub fn header_digest(header: &[u8; HEADER], additional: &[u8]) -> [u8; DIGEST] {
    // The bytes of the reflected checksum go out lowest first (RFC 7143, appendix A).
    Crc32c::of(header).extend(additional).0.to_le_bytes()
}

/// The checksum of data with its padding.
#[must_use]
pub fn data_digest(data: &[u8], padding: &[u8]) -> [u8; DIGEST] {
    Crc32c::of(data).extend(padding).0.to_le_bytes()
}

/// A PDU with its data, and how many bytes it took.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Whole<'a> {
    /// The PDU.
    pub pdu: Pdu,
    /// Its data.
    pub data: &'a [u8],
    /// Bytes of all of it.
    pub length: usize,
}

impl Pdu {
    /// All bytes of a PDU with this data.
    #[must_use]
    pub fn whole(&self, data: &[u8], digests: Digests) -> Vec<u8> {
        let header = self.encode(data.len());
        let mut bytes = header.to_vec();
        if digests.header {
            bytes.extend(header_digest(&header, &[]));
        }
        bytes.extend(data);
        let padding = &[0; 3][..padding(data.len())];
        bytes.extend(padding);
        if digests.data && !data.is_empty() {
            bytes.extend(data_digest(data, padding));
        }
        bytes
    }
}

/// The PDU at the beginning of some bytes, if it has no more data than `data_max`.
pub fn split(bytes: &[u8], digests: Digests, data_max: usize) -> Result<Whole<'_>, PduError> {
    let mut rest = Rest(bytes);
    let header = rest.0.first_chunk::<HEADER>().ok_or(PduError::Short)?;
    rest.take(HEADER)?;
    let pdu = Pdu::decode(header)?;
    let shape = Shape::of(header).checked(data_max)?;
    let additional = rest.take(shape.additional)?;
    if digests.header && rest.take(DIGEST)? != header_digest(header, additional) {
        return Err(PduError::HeaderDigest);
    }
    let data = rest.take(shape.data)?;
    let padding = rest.take(padding(shape.data))?;
    if digests.data && !data.is_empty() && rest.take(DIGEST)? != data_digest(data, padding) {
        return Err(PduError::DataDigest);
    }
    Ok(Whole { pdu, data, length: bytes.len() - rest.0.len() })
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], PduError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(PduError::Short)?;
        self.0 = rest;
        Ok(taken)
    }
}
