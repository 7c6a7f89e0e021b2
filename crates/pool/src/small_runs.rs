//! Looking for many values of a segment: neighbours are read together.

use base::{BlobDescription, BlobPiece};
use drive::{AlignedBuffer, ExtentId, PAGE};

use crate::drives::{PoolDrive, Present};
use crate::gather::Gather;
use crate::pool::Pool;
use crate::reading::ReadPlace;
use crate::record::{RECORD_HEADER_BYTES, RecordIdentity, record_bytes};

/// Bytes of a segment that are read at once.
const RUN_BYTES_MAX: u64 = 1 << 20;
/// Bytes between two values that are rather read than left out.
const GAP_BYTES_MAX: u64 = 64 << 10;

/// A value that is looked for, and its number among those that were asked for.
type Wanted = (usize, RecordIdentity);

impl Pool {
    /// Which of some values of a segment are there: read from the first copy at hand and verified, in the
    /// order of `pieces`. Of the others nothing is known; [`Pool::verify_piece`] looks at all copies of one.
    pub fn verify_together(&self, blob: &BlobDescription, pieces: &[BlobPiece]) -> Vec<bool> {
        let mut verified = vec![false; pieces.len()];
        let drives = blob.stripes.first().map_or(&[][..], |set| &set.drives);
        let at_hand = drives.iter().enumerate().find_map(|(copy, id)| {
            let present = self.drive(*id).and_then(PoolDrive::present)?;
            (!present.device.is_stuck()).then_some((copy, present))
        });
        let Some((copy, present)) = at_hand else { return verified };
        let identity = |piece| self.record(blob, piece).ok().map(|(identity, _)| identity);
        let mut wanted: Vec<Wanted> = pieces
            .iter()
            .map(identity)
            .enumerate()
            .filter_map(|(number, identity)| Some((number, identity?)))
            .collect();
        wanted.sort_by_key(|(_, identity)| identity.offset);
        for run in runs(&wanted) {
            for number in read_run(run, &present, copy) {
                verified[number] = true;
            }
        }
        verified
    }
}

/// Values in the order of their places, parted into those that are read together.
fn runs(wanted: &[Wanted]) -> Vec<&[Wanted]> {
    let mut runs = Vec::new();
    let mut begin = 0;
    for (number, two) in wanted.windows(2).enumerate() {
        let [(_, before), (_, next)] = two else { continue };
        let is_near = next.offset <= end(before) + GAP_BYTES_MAX;
        if !is_near || end(next) - wanted[begin].1.offset > RUN_BYTES_MAX {
            runs.push(&wanted[begin..=number]);
            begin = number + 1;
        }
    }
    runs.push(&wanted[begin..]);
    assert_eq!(runs.iter().map(|run| run.len()).sum::<usize>(), wanted.len(), "each record is in one run");
    runs
}

/// Where the record ends.
fn end(identity: &RecordIdentity) -> u64 {
    identity.offset + record_bytes(identity.length as usize) as u64
}

/// Reads a run of values in one copy; gives the numbers of those that are whole.
fn read_run(run: &[Wanted], present: &Present, copy: usize) -> Vec<usize> {
    let (Some((_, first)), Some((_, last))) = (run.first(), run.last()) else { return Vec::new() };
    let page = PAGE as u64;
    let (begin, end) = (first.offset / page * page, end(last).next_multiple_of(page));
    let shard = u8::try_from(copy).unwrap_or(u8::MAX);
    let id = ExtentId { blob: first.segment, stripe: 0, shard };
    let (gather, run) = (Gather::new(), run.to_vec());
    let ticket = gather.ticket();
    let length = usize::try_from(end - begin).unwrap_or(usize::MAX);
    let place = ReadPlace::whole(id, begin, length);
    present.read(place, AlignedBuffer::new(length), move |_, buffer, read| {
        let mut whole = Vec::new();
        // What does not come is looked at, and told of, one by one.
        if read.is_ok() {
            for (number, identity) in run {
                let at = usize::try_from(identity.offset - begin).unwrap_or(usize::MAX);
                let record = buffer.as_slice().get(at..).unwrap_or_default();
                let record = record.get(..RECORD_HEADER_BYTES + identity.length as usize);
                if record.is_some_and(|record| identity.verify(record).is_ok()) {
                    whole.push(number);
                }
            }
        }
        ticket.done(whole);
    });
    gather.wait_unless(|_| present.device.is_away()).pop().unwrap_or_default()
}
