//! The best order in which to read: parameter data of GENERATE and RECEIVE RECOMMENDED ACCESS ORDER
//! (IBM LTO SCSI reference, 5.2.4 and 5.2.24; tape.md 3.2).

use crate::bytes::{Fault, Layout, Malformed, Packed, Reader, Text, set_length};

/// A user data segment, without the length before it and what a drive may have put behind it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// A name that the drive gives back.
    pub name: Text<10>,
    /// The partition.
    pub partition: u8,
    /// Its first block.
    pub begin: u64,
    /// The block behind it; the same as `begin` for a single object, which may bind the begin or the end.
    pub end: u64,
}

impl Packed for Segment {
    const NAME: &'static str = "user data segment descriptor";
    const LENGTH: usize = 30;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.text(3, &mut self.name);
        l.number(13, 1, &mut self.partition);
        l.number(14, 8, &mut self.begin);
        l.number(22, 8, &mut self.end);
    }
}

/// A user data segment with what the drive put behind it: an estimate of the time to get there, its geometry.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PlacedSegment {
    /// The segment.
    pub segment: Segment,
    /// As it came.
    pub more: Vec<u8>,
}

impl PlacedSegment {
    fn decode(list: &mut Reader<'_>) -> Result<PlacedSegment, Malformed> {
        let length = list.length16()?;
        let mut body = list.part(Segment::NAME, length)?;
        let segment = body.packed()?;
        Ok(PlacedSegment { segment, more: body.rest().to_vec() })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let at = out.len();
        out.extend([0; 2]);
        set_length(out, at, 2, Segment::LENGTH + self.more.len());
        out.extend(self.segment.encode());
        out.extend(&self.more);
    }
}

/// What GENERATE RECOMMENDED ACCESS ORDER is given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RaoRequest(pub Vec<Segment>);

impl RaoRequest {
    const NAME: &'static str = "GENERATE RECOMMENDED ACCESS ORDER parameter list";

    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off or a descriptor has another length than 32 bytes.
    pub fn decode(bytes: &[u8]) -> Result<RaoRequest, Malformed> {
        let mut reader = Reader::new(RaoRequest::NAME, bytes);
        reader.take(4)?;
        let length = reader.length32()?;
        let mut list = reader.part(RaoRequest::NAME, length)?;
        let mut all = Vec::new();
        while !list.is_empty() {
            let at = list.at();
            let length = list.length16()?;
            if length != Segment::LENGTH {
                return Err(
                    list.fault(at, Fault::Length { field: "the length of a descriptor", value: length })
                );
            }
            all.push(list.packed()?);
        }
        Ok(RaoRequest(all))
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 8];
        for segment in &self.0 {
            out.extend([0, 30]);
            out.extend(segment.encode());
        }
        let length = out.len() - 8;
        set_length(&mut out, 4, 4, length);
        out
    }
}

/// How many segments a drive takes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RaoLimits {
    /// The most segments in one list.
    pub segments: u16,
    /// The longest descriptor in bytes.
    pub descriptor_bytes: u16,
}

impl Packed for RaoLimits {
    const NAME: &'static str = "UDS limits page";
    const LENGTH: usize = 4;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.number(0, 2, &mut self.segments);
        l.number(2, 2, &mut self.descriptor_bytes);
    }
}

/// What RECEIVE RECOMMENDED ACCESS ORDER gives: the order, or as much of it as was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RaoList {
    /// The process that made it.
    pub process: u8,
    /// Its status, zero if it is valid.
    pub status: u8,
    /// Bytes of all descriptors, also of those that did not come over.
    pub list_length: u32,
    /// Those that came over whole, in the order in which to read.
    pub segments: Vec<PlacedSegment>,
}

impl RaoList {
    const NAME: &'static str = "recommended access order list";

    /// The list of these segments, whole.
    #[must_use]
    pub fn of(process: u8, segments: Vec<PlacedSegment>) -> RaoList {
        let bytes: usize = segments.iter().map(|one| 2 + Segment::LENGTH + one.more.len()).sum();
        RaoList { process, status: 0, list_length: u32::try_from(bytes).unwrap_or(u32::MAX), segments }
    }

    /// Reads it. A list may be read in portions: a descriptor that is cut off at the end is left to the next.
    ///
    /// # Errors
    /// If the header is cut off or a descriptor is too short.
    pub fn decode(bytes: &[u8]) -> Result<RaoList, Malformed> {
        let mut reader = Reader::new(RaoList::NAME, bytes);
        let [process, status, _, _] = reader.array()?;
        let list_length = reader.u32()?;
        let announced = usize::try_from(list_length).unwrap_or(usize::MAX);
        let is_cut = reader.rest().len() < announced;
        let mut list = reader.part(RaoList::NAME, announced.min(reader.rest().len()))?;
        let mut segments = Vec::new();
        while !list.is_empty() {
            let whole = list.clone().length16().is_ok_and(|length| list.rest().len() >= 2 + length);
            if is_cut && !whole {
                break;
            }
            segments.push(PlacedSegment::decode(&mut list)?);
        }
        Ok(RaoList { process: process & 0x07, status: status & 0x07, list_length, segments })
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.process & 0x07, self.status & 0x07, 0, 0];
        out.extend(self.list_length.to_be_bytes());
        self.segments.iter().for_each(|segment| segment.encode(&mut out));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::{any_bytes, hex, packed};

    fn segment(name: &str, begin: u64) -> Segment {
        Segment { name: Text::new(name).unwrap(), partition: 1, begin, end: begin + 9 }
    }

    #[test]
    fn a_request_is_as_tape_md_has_it() {
        packed::<Segment>();
        packed::<RaoLimits>();
        let bytes = hex("00 00 00 00 00 00 00 20 00 1e 00 00 00 66 69 6c 65 31 20 20 20 20 20 01
             00 00 00 00 00 00 00 05 00 00 00 00 00 00 00 0e");
        let request = RaoRequest(vec![segment("file1", 5)]);
        assert_eq!((request.encode(), RaoRequest::decode(&bytes)), (bytes.clone(), Ok(request)));
        let mut wrong = bytes;
        wrong[9] = 0x1f;
        assert_eq!(RaoRequest::decode(&wrong).unwrap_err().at, 8);
        // 2,730 segments are what LTO-9 takes (IBM LTO SCSI reference, 4.6.3.2).
        assert_eq!(RaoLimits::decode(&hex("0a aa 00 20")).unwrap().segments, 2730);
    }

    #[test]
    fn a_list_is_read_in_portions() {
        let one = |name: &str| PlacedSegment { segment: segment(name, 1), more: vec![1, 2, 3, 4] };
        let list = RaoList::of(2, vec![one("a"), one("b")]);
        let bytes = list.encode();
        assert_eq!(RaoList::decode(&bytes), Ok(list));
        let part = RaoList::decode(&bytes[..60]).unwrap();
        assert_eq!((part.segments.len(), part.list_length), (1, 72));
    }

    #[test]
    fn nothing_panics() {
        let one = PlacedSegment { segment: segment("a", 1), more: vec![9] };
        any_bytes(&[RaoRequest(vec![segment("x", 1)]).encode()], |bytes| {
            if let Ok(request) = RaoRequest::decode(bytes) {
                assert_eq!(RaoRequest::decode(&request.encode()), Ok(request));
            }
        });
        any_bytes(&[RaoList::of(1, vec![one.clone(), one]).encode()], |bytes| {
            if let Ok(list) = RaoList::decode(bytes) {
                assert_eq!(RaoList::decode(&list.encode()), Ok(list));
            }
        });
    }
}
