//! The small words of the protocol: serial numbers, tags, units, the name of an initiator's port.

use std::fmt;

/// A sequence number that wraps around (RFC 1982): commands, answers, data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Serial(pub u32);

impl Serial {
    /// The number that is `by` further.
    #[must_use]
    pub fn plus(self, by: u32) -> Serial {
        Serial(self.0.wrapping_add(by))
    }

    /// How far it is from `other` to this one; negative if this one comes before it.
    #[must_use]
    pub fn since(self, other: Serial) -> i32 {
        // The sign of the difference is what serial arithmetic is about.
        self.0.wrapping_sub(other.0) as i32
    }
}

/// What ties the PDUs of a task together: the initiator's or the target's tag.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Tag(pub u32);

impl Tag {
    /// The tag that stands for no task.
    pub const NONE: Tag = Tag(u32::MAX);
}

/// A logical unit number as it goes over the wire (SAM-6, 4.7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lun(pub [u8; 8]);

impl Lun {
    /// The well-known unit that lists the others (SPC-5, REPORT LUNS).
    pub const REPORT_LUNS: Lun = Lun([0xc1, 0x01, 0, 0, 0, 0, 0, 0]);
    /// One more than the largest number that fits the flat addressing method.
    pub const NUMBER_LIMIT: u16 = 1 << 14;

    /// The unit with this number at one level: peripheral addressing below 256, flat above. `None` from
    /// [`Lun::NUMBER_LIMIT`] on.
    #[must_use]
    pub fn of(number: u16) -> Option<Lun> {
        let [high, low] = number.to_be_bytes();
        match number {
            0..256 => Some(Lun([0, low, 0, 0, 0, 0, 0, 0])),
            256..Lun::NUMBER_LIMIT => Some(Lun([0x40 | high, low, 0, 0, 0, 0, 0, 0])),
            _ => None,
        }
    }

    /// The number of a unit at one level, by either method of addressing; `None` for all others.
    #[must_use]
    pub fn number(self) -> Option<u16> {
        let [high, low, rest @ ..] = self.0;
        let one_level = rest == [0; 6] && (high == 0 || high & 0xc0 == 0x40);
        one_level.then(|| u16::from_be_bytes([high & 0x3f, low]))
    }
}

impl fmt::Display for Lun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number() {
            Some(number) => write!(f, "{number}"),
            None => write!(f, "{:016X}", u64::from_be_bytes(self.0)),
        }
    }
}

impl fmt::Debug for Lun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lun({self})")
    }
}

/// The initiator's part of a session's name: with the initiator's name it names its port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Isid(pub [u8; 6]);

impl Isid {
    /// One that is made of random bits (type 10b of RFC 7143, 11.12.5).
    #[must_use]
    pub fn random(bits: [u8; 5]) -> Isid {
        let [a, b, c, d, e] = bits;
        Isid([0x80, a, b, c, d, e])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_wrap_around() {
        assert_eq!(Serial(u32::MAX).plus(2), Serial(1));
        assert_eq!(Serial(1).since(Serial(u32::MAX)), 2);
        assert_eq!(Serial(u32::MAX).since(Serial(1)), -2);
    }

    #[test]
    fn units_have_numbers_below_the_limit_and_no_others() {
        for number in 0..=u16::MAX {
            let back = Lun::of(number).and_then(Lun::number);
            assert_eq!(back, (number < Lun::NUMBER_LIMIT).then_some(number));
        }
        assert_eq!(Lun([0x40, 7, 0, 0, 0, 0, 0, 0]).number(), Some(7), "flat addressing of a small number");
        assert_eq!(Lun::REPORT_LUNS.number(), None);
        assert_eq!(Lun([0, 1, 0, 1, 0, 0, 0, 0]).number(), None, "two levels");
    }
}
