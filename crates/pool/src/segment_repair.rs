//! Repair of a copy of a segment: record by record from whichever copy has it whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{BlobDescription, ByteCount, StripeSet};
use drive::{AlignedBuffer, DriveError, ExtentId, PAGE};

use crate::drives::{Device, PoolDrive};
use crate::error::PoolError;
use crate::gather::Gather;
use crate::pool::Pool;
use crate::record::{
    RECORD_ALIGN, RECORD_HEADER_BYTES, RECORD_PAYLOAD_MAX, announced, footer_at_end, record_bytes,
};
use crate::repair::{Repaired, Target, break_off, targets};
use crate::scrub::BadShard;
use crate::shard::{Outgoing, Step};

/// Bytes of a segment looked at together.
const WINDOW_BYTES: usize = 4 << 20;
/// What a record that begins in a window may reach beyond it, in whole pages.
const REACH_BYTES: usize = (RECORD_HEADER_BYTES + RECORD_PAYLOAD_MAX).next_multiple_of(PAGE);

/// What is read of each copy around one window.
struct Window {
    at: u64,
    copies: Vec<Given>,
}

/// What is known of a window that was written.
struct Written {
    /// It ends with a whole footer.
    has_footer: bool,
    /// Records of which a header is whole and no value: damaged, or deleted.
    doubtful: u64,
    /// Pages of zeros, by their numbers: what was given back, or padding.
    zeros: BTreeSet<u32>,
}

/// What a copy gives from the beginning of a window on.
#[derive(Clone)]
enum Given {
    /// Its drive is not there.
    NoDrive,
    /// It ends before, or does not exist.
    Ended,
    /// Its bytes, shorter at its end, and the pages among them that the drive refused twice; they are zeros.
    Read(Arc<Vec<u8>>, Arc<BTreeSet<usize>>),
    /// There may be more that could not be read.
    Unknown(String),
}

impl Given {
    fn bytes(&self) -> &[u8] {
        match self {
            Given::Read(bytes, _) => bytes,
            _ => &[],
        }
    }

    /// Whether a page was read.
    fn gives(&self, page: usize) -> bool {
        matches!(self, Given::Read(bytes, holes) if page * PAGE < bytes.len() && !holes.contains(&page))
    }
}

impl Window {
    fn longest(&self) -> usize {
        self.copies.iter().map(|copy| copy.bytes().len()).max().unwrap_or(0)
    }

    fn without_drive(&self) -> Vec<usize> {
        let copies = self.copies.iter().enumerate();
        copies.filter(|(_, copy)| matches!(copy, Given::NoDrive)).map(|(copy, _)| copy).collect()
    }
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
        let kept = repaired.in_place.len();
        let mut carry: Vec<Vec<u8>> = vec![Vec::new(); targets.len()];
        let (mut at, mut has_footer, mut gone, mut doubtful) = (0, false, Vec::new(), 0);
        let mut zeros = BTreeSet::new();
        loop {
            let window = self.read_window(blob, set, at);
            if at == 0 {
                gone = window.without_drive();
            }
            let unknown = window.copies.iter().find_map(|copy| match copy {
                Given::Unknown(why) => Some(why.as_str()),
                _ => None,
            });
            // What cannot be read at this moment may be the rest of the segment.
            if let Some(why) = unknown.or((window.without_drive() != gone).then_some("a drive went away")) {
                break_off(bad, why, repaired);
                return Ok(());
            }
            let longest = window.longest();
            if longest == 0 {
                break;
            }
            let length = longest.min(WINDOW_BYTES);
            assert!(length > 0 && length.is_multiple_of(PAGE), "each window gets on, by whole pages");
            for (target, carry) in targets.iter().zip(&mut carry) {
                let written = self.write_window(blob, &window, target, carry, length);
                has_footer |= written.has_footer;
                doubtful += written.doubtful;
                zeros.extend(written.zeros);
            }
            let written = (length * targets.len()) as u64;
            repaired.bytes.0 += written;
            if !pace(ByteCount(written)) {
                break_off(bad, "broken off", repaired);
                return Ok(());
            }
            at += length as u64;
            if longest <= WINDOW_BYTES {
                break;
            }
        }
        let is_target = |copy: &usize| bad.iter().any(|bad| usize::from(bad.shard) == *copy);
        if at == 0 {
            break_off(bad, "no copy of the segment can be read", repaired);
        } else if !has_footer && !gone.iter().all(is_target) {
            break_off(bad, "a copy whose drive does not answer may be longer than the others", repaired);
        } else {
            self.finish(&targets, (set, to), repaired);
            self.give_back_zeros(blob, to, bad, zeros);
        }
        if doubtful > 0 && !gone.iter().all(is_target) {
            // Values that were deleted look the same. It is tried again when the drive is back.
            let why = "written anew, but values may be whole in a copy whose drive does not answer alone";
            repaired.failed.extend(repaired.in_place.drain(kept..).map(|bad| (bad, why.to_owned())));
        }
        Ok(())
    }

    /// What was given back takes no space on copies that were written anew either.
    fn give_back_zeros(
        &self,
        blob: &BlobDescription,
        to: &StripeSet,
        bad: &[BadShard],
        zeros: BTreeSet<u32>,
    ) {
        let copies: Vec<usize> = bad.iter().map(|bad| bad.shard.into()).collect();
        let there = BlobDescription { stripes: vec![to.clone()], ..blob.clone() };
        self.punch_zeros(&there, &copies, zeros);
    }

    fn read_window(self: &Arc<Self>, blob: &BlobDescription, set: &StripeSet, at: u64) -> Window {
        let copies = set.drives.iter().enumerate().map(|(copy, drive)| {
            let id = ExtentId { blob: blob.id, stripe: 0, shard: u8::try_from(copy).unwrap_or(u8::MAX) };
            let Some(present) = self.drive(*drive).and_then(PoolDrive::present) else {
                return Given::NoDrive;
            };
            let gather = Gather::new();
            let ticket = gather.ticket();
            present.call_reader(Box::new(move |device| ticket.done(read_up_to(device, id, at))));
            let read = gather.wait_unless(|_| present.device.is_away()).pop();
            read.unwrap_or_else(|| Given::Unknown(format!("drive {drive} did not answer")))
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
    ) -> Written {
        let longest = window.longest();
        let mut doubtful = 0;
        let mut bytes = base_of(window, target, carry.len(), length);
        bytes[..carry.len().min(longest)].copy_from_slice(&carry[..carry.len().min(longest)]);
        let instance = self.config().instance;
        let mut begin = carry_end(carry, longest);
        while begin + RECORD_HEADER_BYTES <= longest && begin < length {
            let offset = window.at + begin as u64;
            let mut is_announced = false;
            let whole = window.copies.iter().map(Given::bytes).find_map(|copy| {
                let identity = announced(copy.get(begin..)?, instance, blob.id, offset)?;
                is_announced = true;
                let end = begin + RECORD_HEADER_BYTES + identity.length as usize;
                identity.verify(copy.get(begin..end)?).ok()?;
                copy.get(begin..(begin + record_bytes(identity.length as usize)).min(copy.len()))
            });
            match whole {
                Some(record) => {
                    bytes[begin..begin + record.len()].copy_from_slice(record);
                    begin += record.len().next_multiple_of(RECORD_ALIGN);
                }
                None => {
                    doubtful += u64::from(is_announced);
                    begin += RECORD_ALIGN;
                }
            }
        }
        let has_footer = longest <= WINDOW_BYTES && self.lay_footer(blob, window, &mut bytes);
        let rest = bytes.split_off(length.min(bytes.len()));
        // What reaches into the next window, up to the end of the last record.
        *carry = rest[..begin.saturating_sub(length).min(rest.len())].to_vec();
        assert!(carry.len() <= REACH_BYTES, "no record reaches further");
        let first = u32::try_from(window.at / PAGE as u64).unwrap_or(u32::MAX);
        let pages = (first..=u32::MAX).zip(bytes.chunks(PAGE));
        let zeros =
            pages.filter(|(_, page)| page.iter().all(|byte| *byte == 0)).map(|(page, _)| page).collect();
        self.on_targets(std::iter::once((target, Step::Append(Outgoing::Bytes(bytes)))));
        Written { has_footer, doubtful, zeros }
    }

    /// Puts in the footer of the first copy that has a whole one; whether there is one.
    fn lay_footer(&self, blob: &BlobDescription, window: &Window, bytes: &mut [u8]) -> bool {
        for copy in window.copies.iter().map(Given::bytes) {
            if let Some(length) = footer_at_end(copy, self.config().instance, blob.id)
                && copy.len() == bytes.len()
            {
                let at = copy.len() - length;
                bytes[at..].copy_from_slice(&copy[at..]);
                return true;
            }
        }
        false
    }
}

/// The window as the target's own copy has it. Pages that its drive refuses are taken from another copy; if
/// none gives such a page, the target is refused: what lies there may be readable later.
fn base_of(window: &Window, target: &Target, carried: usize, length: usize) -> Vec<u8> {
    let longest = window.longest();
    let own = window.copies.get(usize::from(target.bad.shard));
    let mut bytes = own.map_or_else(Vec::new, |own| own.bytes().to_vec());
    bytes.resize(longest, 0);
    if let Some(Given::Read(_, holes)) = own {
        for page in holes.iter().copied().filter(|page| page * PAGE < length) {
            let range = page * PAGE..((page + 1) * PAGE).min(longest);
            match window.copies.iter().find(|copy| copy.gives(page)) {
                Some(other) => bytes[range.clone()].copy_from_slice(&other.bytes()[range]),
                None if range.end <= carried => {}
                None => target.refuse("a page of the segment can be read in no copy"),
            }
        }
    }
    bytes
}

/// Where the records behind those carried over begin.
fn carry_end(carry: &[u8], longest: usize) -> usize {
    carry.len().next_multiple_of(RECORD_ALIGN).min(longest)
}

/// The pages of an extent from `at` on, as far as a window goes.
fn read_up_to(device: &Device, id: ExtentId, at: u64) -> Given {
    let limit = WINDOW_BYTES + REACH_BYTES;
    let mut buffer = AlignedBuffer::new(limit);
    match device.read(id, at, buffer.as_mut_slice()) {
        Ok(()) => return Given::Read(Arc::new(buffer.as_slice().to_vec()), Arc::default()),
        Err(error) if error.is_shortage() => return Given::Unknown(error.to_string()),
        Err(_) => {}
    }
    // The end of the extent, or pages that the drive does not give. Extents end at pages.
    let (mut end, mut any, mut holes) = (limit, false, BTreeSet::new());
    let mut refusal = None;
    for page in 0..limit / PAGE {
        let range = page * PAGE..(page + 1) * PAGE;
        let part = &mut buffer.as_mut_slice()[range.clone()];
        let from = at + range.start as u64;
        let read = match device.read(id, from, part) {
            Err(DriveError::Io { .. }) => device.read(id, from, part),
            read => read,
        };
        match read {
            Ok(()) => any = true,
            Err(DriveError::Truncated { .. } | DriveError::NotFound { .. }) => {
                end = range.start;
                break;
            }
            Err(error) if error.is_shortage() => return Given::Unknown(error.to_string()),
            Err(error) => {
                part.fill(0);
                holes.insert(page);
                refusal = Some(error);
            }
        }
    }
    if let Some(error) = &refusal {
        device.read_failed(id.blob, error);
    }
    match refusal {
        _ if end == 0 => Given::Ended,
        Some(error) if !any => Given::Unknown(error.to_string()),
        _ => Given::Read(Arc::new(buffer.as_slice()[..end].to_vec()), Arc::new(holes)),
    }
}
