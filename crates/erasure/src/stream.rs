//! Checksums of the stream that is cut into data shards.

use crate::cells::Sink;
use crate::product::Product;
use crate::{Codec, CodecError, Lrc};
use base::{Adler32, Crc32c, Crc64};

/// Checksums of a stream that is encoded stripe by stripe: those that are there go on with every stripe.
///
/// Begin with `Some(Default::default())`, the checksum of nothing, for each that is wanted; `None` is not
/// computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamSums {
    /// Adler-32; costs about as much time as the coding.
    pub adler32: Option<Adler32>,
    /// CRC-32C; combined from those of the cells, so nearly free.
    pub crc32c: Option<Crc32c>,
    /// CRC-64/NVME.
    pub crc64nvme: Option<Crc64>,
}

impl StreamSums {
    /// Goes on with these bytes.
    fn extend(&mut self, bytes: &[u8]) {
        self.adler32 = self.adler32.map(|sum| sum.extend(bytes));
        self.crc32c = self.crc32c.map(|sum| sum.extend(bytes));
        self.crc64nvme = self.crc64nvme.map(|sum| sum.extend(bytes));
    }

    /// Goes on with `length` bytes whose checksums, all that are wanted here, are `next`.
    fn append(&mut self, next: &StreamSums, length: u64) {
        self.adler32 = self.adler32.zip(next.adler32).map(|(sum, next)| sum.combine(next, length));
        self.crc32c = self.crc32c.zip(next.crc32c).map(|(sum, next)| sum.combine(next, length));
        self.crc64nvme = self.crc64nvme.zip(next.crc64nvme).map(|(sum, next)| sum.combine(next, length));
    }
}

/// The checksums of each data shard's share of a stream, while they are computed.
pub(crate) struct Parts {
    /// Of each shard so far, without the CRC-32C, which follows from the cells.
    sums: Vec<StreamSums>,
    shard_bytes: usize,
    stream_bytes: usize,
}

impl Parts {
    /// No checksums at all.
    pub(crate) fn none() -> Parts {
        Parts { sums: Vec::new(), shard_bytes: 0, stream_bytes: 0 }
    }

    fn new(wanted: &StreamSums, data: &[&[u8]], stream_bytes: usize) -> Parts {
        let adler32 = wanted.adler32.map(|_| Adler32::default());
        let crc64nvme = wanted.crc64nvme.map(|_| Crc64::default());
        let begin = StreamSums { adler32, crc32c: None, crc64nvme };
        let any = begin != StreamSums::default();
        let shard_bytes = data.first().map_or(0, |shard| shard.len());
        Parts { sums: vec![begin; if any { data.len() } else { 0 }], shard_bytes, stream_bytes }
    }

    /// Bytes of a shard that are of the stream.
    fn own(&self, shard: usize) -> usize {
        self.stream_bytes.saturating_sub(shard * self.shard_bytes).min(self.shard_bytes)
    }

    /// Whether there is anything to compute from the bytes.
    pub(crate) fn is_none(&self) -> bool {
        self.sums.is_empty()
    }

    /// Goes on with bytes of a shard, at this offset.
    pub(crate) fn extend(&mut self, shard: usize, at: usize, bytes: &[u8]) {
        let own = self.own(shard).saturating_sub(at).min(bytes.len());
        if let (Some(sums), Some(bytes)) = (self.sums.get_mut(shard), bytes.get(..own)) {
            sums.extend(bytes);
        }
    }

    /// The stream so far followed by all shares; `checksums` are those of the cells of the shards.
    fn append_to(&self, stream: &mut StreamSums, data: &[&[u8]], cell: usize, checksums: &[Crc32c]) {
        let cells = crate::cells_of(self.shard_bytes, cell);
        for (shard, bytes) in data.iter().enumerate() {
            let own = self.own(shard);
            let mut sums = self.sums.get(shard).copied().unwrap_or_default();
            sums.crc32c = stream.crc32c.map(|_| {
                let parts = bytes[..own].chunks(cell).zip(&checksums[shard * cells..]).enumerate();
                parts.fold(Crc32c::default(), |sum, (index, (part, checksum))| {
                    // The stream ends within a cell at most once.
                    let whole = (self.shard_bytes - index * cell).min(cell) == part.len();
                    let next = if whole { *checksum } else { Crc32c::of(part) };
                    sum.combine(next, part.len() as u64)
                })
            });
            stream.append(&sums, own as u64);
        }
    }
}

impl Product {
    /// See [`Codec::encode_with_stream_sums`].
    fn encode_with_stream_sums(
        &self,
        data: &[&[u8]],
        parity: &mut [&mut [u8]],
        cell: usize,
        checksums: &mut [Crc32c],
        stream: &mut StreamSums,
        stream_bytes: usize,
    ) -> Result<(), CodecError> {
        self.check_encode(data, parity)?;
        let at_most = data.iter().map(|shard| shard.len()).sum();
        if stream_bytes > at_most {
            return Err(CodecError::StreamTooLong { given: stream_bytes, at_most });
        }
        let mut parts = Parts::new(stream, data, stream_bytes);
        let length = data.first().map_or(0, |shard| shard.len());
        Sink::new(self.shards(), length, cell, checksums)?.apply(self, data, parity, &mut parts);
        parts.append_to(stream, data, cell, checksums);
        Ok(())
    }
}

impl Lrc {
    /// As [`Codec::encode_with_stream_sums`], local parity before global.
    pub fn encode_with_stream_sums(
        &self,
        data: &[&[u8]],
        parity: &mut [&mut [u8]],
        cell: usize,
        checksums: &mut [Crc32c],
        stream: &mut StreamSums,
        stream_bytes: usize,
    ) -> Result<(), CodecError> {
        self.encoder().encode_with_stream_sums(data, parity, cell, checksums, stream, stream_bytes)
    }
}

impl Codec {
    /// As [`Codec::encode_with_checksums`], and goes on with checksums of the stream that the data shards,
    /// laid one after the other, are cut from.
    ///
    /// The first `stream_bytes` of the data are of the stream, what lies behind is padding; more than there
    /// are is [`CodecError::StreamTooLong`]. `stream` holds the checksums of what came before, and then of
    /// all; those that are `None` stay so. Every byte is read from memory once; each checksum costs its own
    /// computing time. On an error nothing has been written.
    pub fn encode_with_stream_sums(
        &self,
        data: &[&[u8]],
        parity: &mut [&mut [u8]],
        cell: usize,
        checksums: &mut [Crc32c],
        stream: &mut StreamSums,
        stream_bytes: usize,
    ) -> Result<(), CodecError> {
        self.encoder().encode_with_stream_sums(data, parity, cell, checksums, stream, stream_bytes)
    }
}
