//! The cartridge in a drive as its unit sees it.

use base::{ByteCount, Partition, Vid};

/// What is known of a cartridge that is loaded.
pub struct Medium {
    pub vid: Vid,
    /// Partitions that initiators see: 1 or 2.
    pub partitions: u8,
    /// What the data partition holds.
    pub capacity: ByteCount,
    pub write_protected: bool,
    /// Filemarks of the index and the data partition.
    marks: [Marks; 2],
    /// In either partition, the block from which on a write told of the end coming near.
    warned: [Option<u64>; 2],
    /// The block of the data partition from which on the tape is in the programmable early warning zone, as
    /// far as that was met.
    in_zone: Option<u64>,
}

impl Medium {
    pub fn new(vid: Vid, partitions: u8, capacity: ByteCount, write_protected: bool) -> Medium {
        assert!((1..=2).contains(&partitions), "cartridges have one partition or two, not {partitions}");
        Medium {
            vid,
            partitions,
            capacity,
            write_protected,
            marks: Default::default(),
            warned: [None; 2],
            in_zone: None,
        }
    }

    /// The partition of the cartridge that initiators know by this number.
    pub fn partition(&self, number: u64) -> Option<Partition> {
        match (self.partitions, number) {
            (1, 0) | (_, 1) if number < u64::from(self.partitions) => Some(Partition::Data),
            (2, 0) => Some(Partition::Index),
            _ => None,
        }
    }

    /// The number by which initiators know a partition.
    pub fn number(&self, partition: Partition) -> u8 {
        if self.partitions == 1 { 0 } else { partition.scsi_number() }
    }

    pub fn marks(&mut self, partition: Partition) -> &mut Marks {
        let [index, data] = &mut self.marks;
        match partition {
            Partition::Index => index,
            Partition::Data => data,
        }
    }

    fn warned(&mut self, partition: Partition) -> &mut Option<u64> {
        let [index, data] = &mut self.warned;
        match partition {
            Partition::Index => index,
            Partition::Data => data,
        }
    }

    /// A write that ended before this block told of the end coming near, or did not.
    pub fn note_warning(&mut self, partition: Partition, block: u64, early_warning: bool) {
        let warned = self.warned(partition);
        *warned = match *warned {
            Some(from) if early_warning => Some(from.min(block)),
            None if early_warning => Some(block),
            // Whoever writes before it in a partition that was cut off there.
            Some(from) if from <= block => None,
            other => other,
        };
    }

    /// Whether a block lies behind early warning, as far as that is known.
    pub fn is_behind_warning(&mut self, partition: Partition, block: u64) -> bool {
        self.warned(partition).is_some_and(|from| from <= block)
    }

    /// What was written up to this block of the data partition, which ends there, lies in the programmable
    /// early warning zone, or does not. Whether the zone was entered with it.
    pub fn note_zone(&mut self, block: u64, is_in_zone: bool) -> bool {
        let before = self.in_zone;
        self.in_zone = match before {
            Some(from) if is_in_zone => Some(from.min(block)),
            None if is_in_zone => Some(block),
            _ => None,
        };
        is_in_zone && before.is_none()
    }

    /// Whether a block of the data partition lies in the programmable early warning zone, as far as that is
    /// known.
    pub fn is_in_zone(&self, partition: Partition, block: u64) -> bool {
        partition == Partition::Data && self.in_zone.is_some_and(|from| from <= block)
    }

    /// Another zone was set: where it begins has to be met anew.
    pub fn forget_zone(&mut self) {
        self.in_zone = None;
    }

    /// All was erased.
    pub fn forget(&mut self) {
        self.marks = Default::default();
        self.warned = [None; 2];
        self.in_zone = None;
    }
}

/// Where the filemarks of a partition are, as far as objects have been looked at: from its begin on.
#[derive(Default)]
pub struct Marks {
    /// Objects that were looked at.
    known: u64,
    /// The filemarks among them, ascending.
    at: Vec<u64>,
}

/// What an object of a partition is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Object {
    Record,
    Filemark,
    EndOfData,
}

/// Filemarks of a partition that are kept in memory: 8 MiB. Behind them objects are looked at each time.
const MARKS_MAX: usize = 1 << 20;

impl Marks {
    /// How many objects from the begin are known.
    pub fn known(&self) -> u64 {
        self.known
    }

    /// An object was seen where a partition holds one.
    pub fn saw(&mut self, at: u64, is_filemark: bool) {
        if at != self.known || is_filemark && self.at.len() >= MARKS_MAX {
            return;
        }
        if is_filemark {
            self.at.push(at);
        }
        self.known += 1;
    }

    /// An object was written: what was behind it is gone.
    pub fn wrote(&mut self, at: u64, is_filemark: bool) {
        self.cut(at);
        self.saw(at, is_filemark);
    }

    /// What stands from `at` on is gone.
    pub fn cut(&mut self, at: u64) {
        self.known = self.known.min(at);
        self.at.truncate(self.at.partition_point(|mark| *mark < at));
    }

    /// What an object is, if it was looked at.
    pub fn object(&self, at: u64) -> Option<Object> {
        let is_filemark = self.at.binary_search(&at).is_ok();
        (at < self.known).then_some(if is_filemark { Object::Filemark } else { Object::Record })
    }

    /// Filemarks before an object, if all before it are known.
    pub fn before(&self, at: u64) -> Option<usize> {
        (at <= self.known).then(|| self.at.partition_point(|mark| *mark < at))
    }

    /// The filemark with this number, counted from 0, if it is known.
    pub fn nth(&self, number: usize) -> Option<u64> {
        self.at.get(number).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filemarks_are_known_from_the_begin_on_and_cut_off_by_writes() {
        let mut marks = Marks::default();
        for (at, is_filemark) in [(0, false), (1, true), (2, false), (3, true), (4, false)] {
            marks.saw(at, is_filemark);
        }
        marks.saw(9, true);
        assert_eq!((marks.known(), marks.before(5), marks.before(6)), (5, Some(2), None));
        assert_eq!((marks.object(3), marks.object(4)), (Some(Object::Filemark), Some(Object::Record)));
        assert_eq!((marks.nth(1), marks.nth(2), marks.object(5)), (Some(3), None, None));
        marks.wrote(3, false);
        assert_eq!((marks.known(), marks.before(4), marks.nth(1)), (4, Some(1), None));
    }

    #[test]
    fn partitions_have_the_numbers_that_initiators_see() {
        let medium = |partitions| Medium::new(Vid::new("KT0001").unwrap(), partitions, ByteCount(1), false);
        let of = |partitions| [0, 1, 2].map(|number| medium(partitions).partition(number));
        assert_eq!(of(1), [Some(Partition::Data), None, None]);
        assert_eq!(of(2), [Some(Partition::Index), Some(Partition::Data), None]);
        assert_eq!((medium(1).number(Partition::Data), medium(2).number(Partition::Data)), (0, 1));
    }
}
