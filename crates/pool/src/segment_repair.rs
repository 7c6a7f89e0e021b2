//! Repair of a copy of a segment: record by record from whichever copy has it whole.

use std::sync::Arc;

use base::{BlobDescription, ByteCount, StripeSet};
use drive::{AlignedBuffer, ExtentId, PAGE};

use crate::drives::{Device, PoolDrive};
use crate::error::PoolError;
use crate::gather::Gather;
use crate::pool::Pool;
use crate::record::{
    RECORD_ALIGN, RECORD_HEADER_BYTES, RECORD_PAYLOAD_MAX, announced, footer_at_end, record_bytes,
};
use crate::repair::{Repaired, Target, targets};
use crate::scrub::BadShard;
use crate::shard::ShardStream;

/// Bytes of a segment looked at together.
const WINDOW_BYTES: usize = 4 << 20;
/// What a record that begins in a window may reach beyond it, in whole pages.
const REACH_BYTES: usize = (RECORD_HEADER_BYTES + RECORD_PAYLOAD_MAX).next_multiple_of(PAGE);

/// What is read of each copy around one window.
struct Window {
    at: u64,
    /// The bytes of each copy; shorter at its end, empty if it cannot be read.
    copies: Vec<Arc<Vec<u8>>>,
}

impl Pool {
    /// Writes copies of a sealed segment anew: as the damaged copy is, with every record put in that any
    /// copy has whole, and a whole footer if there is one. No list of values is needed, so that what is
    /// stored but not committed yet cannot be forgotten.
    pub(crate) fn repair_segment(
        self: &Arc<Self>,
        blob: &BlobDescription,
        (set, to): (&StripeSet, &StripeSet),
        bad: &[BadShard],
        repaired: &mut Repaired,
        pace: &mut dyn FnMut(ByteCount) -> bool,
    ) -> Result<(), PoolError> {
        if self.small().is_open(blob.id) {
            return Err(PoolError::SegmentOpen(blob.id));
        }
        let targets = targets(blob.id, to, bad, ByteCount(0));
        let mut carry: Vec<Vec<u8>> = vec![Vec::new(); targets.len()];
        let (mut at, mut any) = (0, false);
        loop {
            let window = self.read_window(blob, set, at);
            let longest = window.copies.iter().map(|copy| copy.len()).max().unwrap_or(0);
            if longest == 0 {
                break;
            }
            any = true;
            let length = longest.min(WINDOW_BYTES);
            for (target, carry) in targets.iter().zip(&mut carry) {
                self.write_window(blob, &window, target, carry, length);
            }
            let written = (length * targets.len()) as u64;
            repaired.bytes.0 += written;
            if !pace(ByteCount(written)) {
                repaired.failed.extend(bad.iter().map(|bad| (*bad, "broken off".to_owned())));
                return Ok(());
            }
            at += length as u64;
            if longest <= WINDOW_BYTES {
                break;
            }
        }
        if any {
            self.finish(&targets, (set, to), repaired);
        } else {
            let why = "no copy of the segment can be read".to_owned();
            repaired.failed.extend(bad.iter().map(|bad| (*bad, why.clone())));
        }
        Ok(())
    }

    fn read_window(self: &Arc<Self>, blob: &BlobDescription, set: &StripeSet, at: u64) -> Window {
        let copies = set.drives.iter().enumerate().map(|(copy, drive)| {
            let id = ExtentId { blob: blob.id, stripe: 0, shard: u8::try_from(copy).unwrap_or(u8::MAX) };
            let Some(present) = self.drive(*drive).and_then(PoolDrive::present) else {
                return Arc::default();
            };
            let gather = Gather::new();
            let ticket = gather.ticket();
            present.read(Box::new(move |device| ticket.done(read_up_to(device, id, at))));
            let read = gather.wait_unless(|_| present.device.is_away()).pop().unwrap_or_default();
            Arc::new(read)
        });
        Window { at, copies: copies.collect() }
    }

    /// Lays the window of one target together and appends it.
    fn write_window(
        &self,
        blob: &BlobDescription,
        window: &Window,
        target: &Target,
        carry: &mut Vec<u8>,
        length: usize,
    ) {
        let mut bytes =
            window.copies.get(usize::from(target.bad.shard)).map_or_else(Vec::new, |own| own.to_vec());
        let longest = window.copies.iter().map(|copy| copy.len()).max().unwrap_or(0);
        bytes.resize(longest, 0);
        bytes[..carry.len().min(longest)].copy_from_slice(&carry[..carry.len().min(longest)]);
        let instance = self.config().instance;
        let mut begin = carry_end(carry, longest);
        while begin + RECORD_HEADER_BYTES <= longest && begin < length {
            let offset = window.at + begin as u64;
            let whole = window.copies.iter().find_map(|copy| {
                let identity = announced(copy.get(begin..)?, instance, blob.id, offset)?;
                let end = begin + RECORD_HEADER_BYTES + identity.length as usize;
                identity.verify(copy.get(begin..end)?).ok()?;
                copy.get(begin..(begin + record_bytes(identity.length as usize)).min(copy.len()))
            });
            match whole {
                Some(record) => {
                    bytes[begin..begin + record.len()].copy_from_slice(record);
                    begin += record.len().next_multiple_of(RECORD_ALIGN);
                }
                None => begin += RECORD_ALIGN,
            }
        }
        if longest <= WINDOW_BYTES {
            self.lay_footer(blob, window, &mut bytes);
        }
        let rest = bytes.split_off(length.min(bytes.len()));
        // What reaches into the next window, up to the end of the last record.
        *carry = rest[..begin.saturating_sub(length).min(rest.len())].to_vec();
        self.on_targets(std::iter::once((target, move |stream: &ShardStream, device: &Device| {
            stream.append(device, &bytes);
        })));
    }

    /// Puts in the footer of the first copy that has a whole one.
    fn lay_footer(&self, blob: &BlobDescription, window: &Window, bytes: &mut [u8]) {
        for copy in &window.copies {
            if let Some(length) = footer_at_end(copy, self.config().instance, blob.id)
                && copy.len() == bytes.len()
            {
                let at = copy.len() - length;
                bytes[at..].copy_from_slice(&copy[at..]);
                return;
            }
        }
    }
}

/// Where the records behind those carried over begin.
fn carry_end(carry: &[u8], longest: usize) -> usize {
    carry.len().next_multiple_of(RECORD_ALIGN).min(longest)
}

/// The pages of an extent from `at` on, as far as they can be read and a window goes.
fn read_up_to(device: &Device, id: ExtentId, at: u64) -> Vec<u8> {
    let limit = WINDOW_BYTES + REACH_BYTES;
    let mut buffer = AlignedBuffer::new(limit);
    if device.read(id, at, buffer.as_mut_slice()).is_ok() {
        return buffer.as_slice().to_vec();
    }
    // The end of the extent, or pages that the drive does not give, which stay zero. Extents end at pages.
    let mut end = 0;
    for page in 0..limit / PAGE {
        let range = page * PAGE..(page + 1) * PAGE;
        let part = &mut buffer.as_mut_slice()[range.clone()];
        match device.read(id, at + range.start as u64, part) {
            Ok(()) => end = range.end,
            Err(drive::DriveError::Truncated { .. } | drive::DriveError::NotFound { .. }) => break,
            Err(_) => part.fill(0),
        }
    }
    buffer.as_slice()[..end].to_vec()
}
