//! A command whose data is on its way: what comes with it, what comes unasked, and what is asked for. No I/O
//! here.

use std::ops::Range;

use scsi::Cdb;

use crate::pdu::{DataOut, Serial, Tag};

use super::answer::Asked;
use super::registry::Share;
use super::tasks::TaskId;
use super::worker::Work;

/// A command and its data so far.
pub(super) struct Assembly {
    pub(super) id: TaskId,
    pub(super) asked: Asked,
    cdb: Cdb,
    is_read: bool,
    data: Vec<u8>,
    reserved: Share,
    /// Bytes that are there, from the beginning on.
    received: usize,
    expects: Expects,
    /// The number of the next Data-Out of the sequence.
    number: Serial,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expects {
    /// Nothing before something is asked for.
    Nothing,
    /// Unasked data up to here at most, or less.
    Unasked(usize),
    /// Data up to here, exactly, under this tag.
    Asked(usize, Tag),
}

/// Data that does not fit what is expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unexpected;

impl Assembly {
    /// A command with a buffer for all its data, of which `received` bytes came with it, and up to `unasked`
    /// are to come before something is asked for.
    pub(super) fn new(
        (id, asked): (TaskId, Asked),
        (cdb, is_read): (Cdb, bool),
        (data, reserved): (Vec<u8>, Share),
        (received, unasked): (usize, Option<usize>),
    ) -> Assembly {
        assert!(received <= data.len(), "no more data came than there is room for");
        let expects = unasked.map_or(Expects::Nothing, |end| Expects::Unasked(end.min(data.len())));
        Assembly { id, asked, cdb, is_read, data, reserved, received, expects, number: Serial(0) }
    }

    /// Whether all data is there.
    pub(super) fn is_whole(&self) -> bool {
        self.received == self.data.len() && self.expects == Expects::Nothing
    }

    /// Where the data of this PDU belongs.
    pub(super) fn room(&self, pdu: &DataOut, length: usize) -> Result<Range<usize>, Unexpected> {
        let (limit, tag) = match self.expects {
            Expects::Nothing => return Err(Unexpected),
            Expects::Unasked(limit) => (limit, Tag::NONE),
            Expects::Asked(limit, tag) => (limit, tag),
        };
        let begins = pdu.offset as usize == self.received && pdu.number == self.number;
        let end = self.received.checked_add(length).filter(|end| *end <= limit).ok_or(Unexpected)?;
        // A sequence ends where it must; an empty PDU that is not the last would be one for ever.
        let ends = if pdu.last {
            end == limit || matches!(self.expects, Expects::Unasked(_))
        } else {
            end < limit && length > 0
        };
        if !begins || !ends || pdu.target_tag != tag {
            return Err(Unexpected);
        }
        Ok(self.received..end)
    }

    /// The bytes of that room.
    pub(super) fn bytes(&mut self, room: Range<usize>) -> &mut [u8] {
        &mut self.data[room]
    }

    /// The data of this PDU is there.
    pub(super) fn taken(&mut self, pdu: &DataOut, length: usize) {
        self.received += length;
        assert!(self.received <= self.data.len(), "data stays within its room");
        self.number = self.number.plus(1);
        if pdu.last {
            self.expects = Expects::Nothing;
        }
    }

    /// What to ask for next, if it is time: R2TSN, offset and length.
    pub(super) fn ask(&mut self, burst_max: usize, tag: Tag) -> Option<(Serial, u32, u32)> {
        if self.expects != Expects::Nothing || self.received == self.data.len() {
            return None;
        }
        let length = burst_max.min(self.data.len() - self.received);
        self.expects = Expects::Asked(self.received + length, tag);
        self.number = Serial(0);
        let number = Serial(self.asked.requests);
        self.asked.requests += 1;
        // Transfers are shorter than 4 GiB, as the four bytes of the command say.
        Some((number, self.received as u32, length as u32))
    }

    /// The command for the unit.
    pub(super) fn work(self) -> Work {
        assert!(self.is_whole(), "a unit gets commands with all their data");
        let Assembly { id, asked, cdb, is_read, data, reserved, .. } = self;
        Work { id, asked, cdb, is_read, out: data, reserved }
    }
}
