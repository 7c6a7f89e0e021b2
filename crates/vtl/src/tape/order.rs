//! Recommended access order and ends of wraps (IBM LTO SCSI reference; tape.md 3.1 and 3.2).

use base::{BlockAddress, Partition};
use library::ORDER_SEGMENTS_MAX;
use scsi::Packed;
use scsi::command::RaoProcess;
use scsi::position::{Wrap, WrapEnd, WrapEnds};
use scsi::rao::{PlacedSegment, RaoLimits, RaoList, RaoRequest, Segment};

use super::{Run, Tape};
use crate::answer::{Outcome, Refusal, give, parameters};

/// Bytes of a segment in a list, its length included.
const DESCRIPTOR: usize = 2 + Segment::LENGTH;
/// The most parameter data of GENERATE RECOMMENDED ACCESS ORDER.
const REQUEST_MAX: usize = 8 + ORDER_SEGMENTS_MAX * DESCRIPTOR;

/// Wraps that one answer can tell of, by its length field of two bytes.
const WRAPS_MAX: u16 = 5_461;

/// Segments in the order that was recommended.
pub struct Recommended {
    process: RaoProcess,
    segments: Vec<Segment>,
}

impl Tape {
    pub fn generate_order(&mut self, run: &mut Run<'_>, process: RaoProcess, length: u32) -> Outcome {
        self.medium()?;
        if usize::try_from(length).map_or(true, |length| length > REQUEST_MAX) {
            return Err(Refusal::field(6));
        }
        let data = parameters(run.out, u64::from(length))?;
        let RaoRequest(segments) = RaoRequest::decode(data).map_err(|error| Refusal::malformed(&error))?;
        let number = self.medium()?.number(Partition::Data);
        if segments.iter().any(|segment| segment.partition != number || segment.end < segment.begin) {
            return Err(Refusal::illegal(0x26, 0x02));
        }
        let segments = match process {
            RaoProcess::Unspecified => return Err(Refusal::bit(2, 2)),
            RaoProcess::Keep => segments,
            RaoProcess::Reorder => {
                let places: Vec<_> = segments
                    .iter()
                    .map(|segment| (BlockAddress(segment.begin), BlockAddress(segment.end)))
                    .collect();
                let order = self.drive.recommended_order(&places)?;
                // A drive that recommends none has no better one than theirs.
                let order = order.unwrap_or_else(|| (0..segments.len()).collect());
                order.into_iter().filter_map(|index| segments.get(index).cloned()).collect()
            }
        };
        self.order = Some(Recommended { process, segments });
        Ok(data.len())
    }

    pub fn receive_order(
        &mut self,
        run: &mut Run<'_>,
        limits: bool,
        offset: u32,
        allocation: u32,
    ) -> Outcome {
        let data = if limits {
            let segments = u16::try_from(ORDER_SEGMENTS_MAX).unwrap_or(u16::MAX);
            let descriptor_bytes = u16::try_from(DESCRIPTOR).unwrap_or(u16::MAX);
            RaoLimits { segments, descriptor_bytes }.encode()
        } else {
            self.medium()?;
            // 5/2C/00: nothing was generated.
            let order = self.order.as_ref().ok_or_else(|| Refusal::illegal(0x2c, 0))?;
            let placed = |segment: &Segment| PlacedSegment { segment: segment.clone(), more: Vec::new() };
            let process = match order.process {
                RaoProcess::Unspecified => 0,
                RaoProcess::Keep => 1,
                RaoProcess::Reorder => 2,
            };
            let mut data = RaoList::of(process, order.segments.iter().map(placed).collect()).encode();
            let offset = usize::try_from(offset).unwrap_or(usize::MAX);
            let behind = data.len().saturating_sub(8);
            if offset > behind || !offset.is_multiple_of(DESCRIPTOR) {
                return Err(Refusal::field(2));
            }
            data.drain(8..8 + offset);
            data
        };
        Ok(give(&data, u64::from(allocation), run.into))
    }

    /// Ends of the wraps of the data partition that hold something.
    pub fn end_of_wraps(
        &mut self,
        run: &mut Run<'_>,
        (is_given, wrap): (bool, u16),
        all: bool,
        allocation: u32,
    ) -> Outcome {
        let at = self.position()?;
        if is_given && all {
            return Err(Refusal::bit(3, 1));
        }
        let ends = self.drive.end_of_wrap_positions()?.ok_or_else(|| Refusal::illegal(0x20, 0))?;
        let partition = u16::from(self.medium()?.number(Partition::Data));
        let data = if all {
            let wraps = (0..WRAPS_MAX).zip(&ends).map(|(wrap, end)| Wrap { wrap, partition, object: end.0 });
            WrapEnds(wraps.collect()).encode()
        } else {
            let here = ends.iter().position(|end| *end > at.block).unwrap_or(ends.len().saturating_sub(1));
            let index = if is_given { usize::from(wrap) } else { here };
            let end = ends.get(index).ok_or_else(|| Refusal::field(4))?;
            WrapEnd { object: end.0, ..WrapEnd::default() }.encode()
        };
        Ok(give(&data, u64::from(allocation), run.into))
    }
}
