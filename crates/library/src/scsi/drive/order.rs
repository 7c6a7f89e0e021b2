//! What the drive knows of its tape's geometry: the ends of wraps, and the best order to read in.

use ::scsi::command::{RaoProcess, Stream};
use ::scsi::position::WrapEnds;
use ::scsi::rao::{RaoLimits, RaoList, RaoRequest, Segment};
use ::scsi::{Command, Data, Packed, SenseKey, Text};
use base::{BlockAddress, Partition};

use super::Drive;
use super::ability::op;
use super::condition::Stop;
use crate::TapeError;

const WRAPS: u16 = 0x1f;
const RAO: u16 = 0x1d;
/// Bytes of wrap ends: 280 wraps (LTO-9) of 12 bytes are 3.4 kB.
const WRAP_BYTES: u32 = 64 * 1024;
/// Bytes that a drive may put behind each segment, beside those that its limits tell.
const SEGMENT_MORE: usize = 64;
/// Bytes before the segments of a list.
const LIST_HEAD: usize = 8;

impl Drive {
    /// Whether the answer was a refusal that is remembered.
    fn forget(&mut self, operation: u8, service_action: u16, stop: Stop) -> Result<(), TapeError> {
        match stop {
            Stop::Heard(heard) if heard.sense.key == SenseKey::IllegalRequest => {
                if heard.sense.additional.asc != 0x26 {
                    self.abilities.refused(operation, service_action);
                }
                Ok(())
            }
            stop => Err(self.error_of("recommend order", stop)),
        }
    }

    /// The first block behind each wrap of the data partition that has data.
    pub fn wrap_ends(&mut self) -> Result<Option<Vec<BlockAddress>>, TapeError> {
        if self.session()?.is_missing(Partition::Data) {
            return Ok(Some(Vec::new()));
        }
        if !self.abilities.may(op::MAINTENANCE_IN, WRAPS) {
            return Ok(None);
        }
        let command = Command::from(Stream::ReadEndOfWrapPosition {
            wrap_valid: false,
            all: true,
            wrap: 0,
            allocation_length: WRAP_BYTES,
        });
        let answer = match self.answer("end of wrap positions", &command, WRAP_BYTES as usize) {
            Ok(answer) => answer,
            Err(stop) => return self.forget(op::MAINTENANCE_IN, WRAPS, stop).map(|()| None),
        };
        let wraps =
            WrapEnds::decode(&answer).map_err(|error| self.strange("end of wrap positions", error))?;
        let data = u16::from(Partition::Data.scsi_number());
        let mut ends: Vec<_> = wraps
            .0
            .iter()
            .filter(|wrap| wrap.partition == data)
            .map(|wrap| BlockAddress(wrap.object))
            .collect();
        // Wraps without data repeat the end, or say zero.
        ends.dedup();
        let rising = ends.iter().zip(ends.iter().skip(1)).take_while(|(one, next)| one < next).count() + 1;
        ends.truncate(rising);
        ends.retain(|end| end.0 > 0);
        Ok(Some(ends))
    }

    /// How many segments the drive orders, `None` if it does not.
    fn order_limits(&mut self) -> Result<Option<RaoLimits>, TapeError> {
        if !self.abilities.may(op::GENERATE_RAO, RAO) || !self.abilities.may(op::MAINTENANCE_IN, RAO) {
            return Ok(None);
        }
        let length = RaoLimits::LENGTH;
        let command = Command::from(Stream::ReceiveRao {
            limits: true,
            offset: 0,
            allocation_length: u32::try_from(length).unwrap_or(0),
            uds_type: 0,
        });
        match self.answer("recommend order", &command, length) {
            Ok(answer) => {
                let limits =
                    RaoLimits::decode(&answer).map_err(|error| self.strange("recommend order", error))?;
                Ok(Some(limits).filter(|limits| limits.segments > 0))
            }
            Err(stop) => self.forget(op::MAINTENANCE_IN, RAO, stop).map(|()| None),
        }
    }

    /// The order in which the drive would read segments of the data partition.
    pub fn order(
        &mut self,
        segments: &[(BlockAddress, BlockAddress)],
    ) -> Result<Option<Vec<usize>>, TapeError> {
        self.settle()?;
        let Some(limits) = self.order_limits()? else { return Ok(None) };
        let each = usize::from(limits.descriptor_bytes).max(2 + Segment::LENGTH) + SEGMENT_MORE;
        let fits = (self.unit.transfer_max().saturating_sub(LIST_HEAD)) / each;
        let max = usize::from(limits.segments).min(fits);
        if segments.len() > max {
            return Err(TapeError::SegmentCount { count: segments.len(), max });
        }
        if segments.is_empty() {
            return Ok(Some(Vec::new()));
        }
        let named = |(index, (begin, end)): (usize, &(BlockAddress, BlockAddress))| Segment {
            name: Text::new(&index.to_string()).unwrap_or_default(),
            partition: Partition::Data.scsi_number(),
            begin: begin.0,
            end: end.0,
        };
        let list = RaoRequest(segments.iter().enumerate().map(named).collect()).encode();
        let length = u32::try_from(list.len()).unwrap_or(u32::MAX);
        let generate =
            Command::from(Stream::GenerateRao { process: RaoProcess::Reorder, uds_type: 0, length });
        if let Err(stop) = self.anywhere("recommend order", &generate, Data::Out(&list)) {
            return self.forget(op::GENERATE_RAO, RAO, stop).map(|()| None);
        }
        let allocation = LIST_HEAD + segments.len() * each;
        let receive = Command::from(Stream::ReceiveRao {
            limits: false,
            offset: 0,
            allocation_length: u32::try_from(allocation).unwrap_or(u32::MAX),
            uds_type: 0,
        });
        match self.answer("recommend order", &receive, allocation) {
            Ok(answer) => {
                let list =
                    RaoList::decode(&answer).map_err(|error| self.strange("recommend order", error))?;
                let no_order = || TapeError::NotAnOrder { drive: self.name.clone() };
                order_of(&list, segments.len()).ok_or_else(no_order).map(Some)
            }
            Err(stop) => self.forget(op::MAINTENANCE_IN, RAO, stop).map(|()| None),
        }
    }
}

/// The order of a list, if it names each segment once.
fn order_of(list: &RaoList, count: usize) -> Option<Vec<usize>> {
    if list.status != 0 {
        return None;
    }
    let order: Option<Vec<usize>> =
        list.segments.iter().map(|placed| placed.segment.name.trimmed().parse().ok()).collect();
    let order = order?;
    let mut seen = vec![false; count];
    for index in &order {
        let seen = seen.get_mut(*index)?;
        if std::mem::replace(seen, true) {
            return None;
        }
    }
    (order.len() == count).then_some(order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::scsi::rao::PlacedSegment;

    #[test]
    fn an_order_names_each_segment_once() {
        let list = |names: &[&str], status| {
            let one = |name: &&str| PlacedSegment {
                segment: Segment { name: Text::new(name).unwrap(), ..Segment::default() },
                more: Vec::new(),
            };
            RaoList { status, ..RaoList::of(2, names.iter().map(one).collect()) }
        };
        assert_eq!(order_of(&list(&["2", "0", "1"], 0), 3), Some(vec![2, 0, 1]));
        for wrong in [&["0", "1"][..], &["0", "1", "1"], &["0", "1", "3"], &["0", "1", "x"]] {
            assert_eq!(order_of(&list(wrong, 0), 3), None, "{wrong:?}");
        }
        assert_eq!(order_of(&list(&["0"], 1), 1), None, "the drive says that it is not valid");
    }
}
