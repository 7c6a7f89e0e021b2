//! What may be done: a small set of rights with numbers that never change.

use std::fmt;
use std::ops::{BitAnd, BitOr};

/// A set of rights. Its numbers are stored with access control lists and never change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rights(u32);

/// The letters of rights, in the order in which they are written.
const LETTERS: [(char, Rights); 9] = [
    ('t', Rights::STAT),
    ('l', Rights::LIST),
    ('r', Rights::READ),
    ('c', Rights::CREATE),
    ('w', Rights::MODIFY),
    ('s', Rights::STAGE),
    ('p', Rights::POLL),
    ('m', Rights::MANAGE),
    ('b', Rights::MAKE_BUCKETS),
];

/// A letter that stands for no right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "'{0}' is no right: there are t (stat), l (list), r (read), c (create), w (write), s (stage), \
     p (poll), m (manage), b (make buckets)"
)]
pub struct RightsError(pub char);

impl Rights {
    /// None at all.
    pub const NONE: Rights = Rights(0);
    /// To see that something is there and its attributes (`t`).
    pub const STAT: Rights = Rights(1);
    /// To list a directory (`l`).
    pub const LIST: Rights = Rights(1 << 1);
    /// To read bytes (`r`).
    pub const READ: Rights = Rights(1 << 2);
    /// To make what is not there yet (`c`).
    pub const CREATE: Rights = Rights(1 << 3);
    /// To overwrite, change, rename and delete (`w`).
    pub const MODIFY: Rights = Rights(1 << 4);
    /// To have bytes brought back from tape, kept and let go (`s`).
    pub const STAGE: Rights = Rights(1 << 5);
    /// To see where bytes are and how a request stands (`p`).
    pub const POLL: Rights = Rights(1 << 6);
    /// To set lists, holds, and a bucket's settings (`m`).
    pub const MANAGE: Rights = Rights(1 << 7);
    /// To make directories right in the directory that has the list, which are then one's own (`b`): in the
    /// root these are buckets. The only right that a list does not give for what stands below.
    pub const MAKE_BUCKETS: Rights = Rights(1 << 8);
    /// All rights.
    pub const ALL: Rights = Rights(0x1ff);

    /// The set of these bits; `None` if there are bits that no right has.
    #[must_use]
    pub fn from_bits(bits: u32) -> Option<Self> {
        (bits & !Rights::ALL.0 == 0).then_some(Rights(bits))
    }

    /// The bits, as they are stored.
    #[must_use]
    pub fn bits(self) -> u32 {
        self.0
    }

    /// The rights of both sets.
    pub(crate) const fn from_two(one: Rights, other: Rights) -> Rights {
        Rights(one.0 | other.0)
    }

    /// The set without these.
    #[must_use]
    pub fn without(self, others: Rights) -> Rights {
        Rights(self.0 & !others.0)
    }

    /// Whether all of `wanted` are in the set.
    #[must_use]
    pub fn contains(self, wanted: Rights) -> bool {
        self.0 & wanted.0 == wanted.0
    }

    /// Whether no right is in the set.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// With what these rights bring along: `w` brings `c`, `s` brings `p`, and each of `l`, `r`, `c`, `w`,
    /// `s` brings `t`. Staging does not bring reading.
    #[must_use]
    pub fn implied(self) -> Rights {
        let mut all = self;
        if all.contains(Rights::MODIFY) {
            all = all | Rights::CREATE;
        }
        if all.contains(Rights::STAGE) {
            all = all | Rights::POLL;
        }
        let showing = Rights::LIST | Rights::READ | Rights::CREATE | Rights::MODIFY | Rights::STAGE;
        if all.0 & showing.0 != 0 { all | Rights::STAT } else { all }
    }

    /// Reads letters such as `rwl`.
    ///
    /// # Errors
    /// If one of them is no right.
    pub fn parse(text: &str) -> Result<Self, RightsError> {
        text.chars().try_fold(Rights::NONE, |set, letter| {
            let known = LETTERS.iter().find(|(known, _)| *known == letter);
            known.map(|(_, right)| set | *right).ok_or(RightsError(letter))
        })
    }

    /// The word for a single right, for people and the audit log; of several the most telling one's.
    #[must_use]
    pub fn word(self) -> &'static str {
        const WORDS: [(Rights, &str); 9] = [
            (Rights::MANAGE, "manage"),
            (Rights::MODIFY, "modify"),
            (Rights::CREATE, "create"),
            (Rights::STAGE, "stage"),
            (Rights::READ, "read"),
            (Rights::LIST, "list"),
            (Rights::POLL, "poll"),
            (Rights::STAT, "stat"),
            (Rights::MAKE_BUCKETS, "make buckets in"),
        ];
        WORDS.iter().find(|(right, _)| self.contains(*right)).map_or("do nothing with", |(_, word)| *word)
    }
}

impl BitOr for Rights {
    type Output = Rights;

    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

impl BitAnd for Rights {
    type Output = Rights;

    fn bitand(self, other: Rights) -> Rights {
        Rights(self.0 & other.0)
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        LETTERS
            .iter()
            .filter(|(_, right)| self.contains(*right))
            .try_for_each(|(letter, _)| write!(f, "{letter}"))
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rights({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_numbers_never_change() {
        assert_eq!(Rights::parse("tlrcwspmb"), Ok(Rights::ALL));
        assert_eq!(Rights::ALL.to_string(), "tlrcwspmb");
        let bits =
            ["t", "l", "r", "c", "w", "s", "p", "m", "b"].map(|letter| Rights::parse(letter).unwrap().bits());
        assert_eq!(bits, [1, 2, 4, 8, 16, 32, 64, 128, 256]);
        assert_eq!(Rights::parse("rx"), Err(RightsError('x')));
        assert_eq!(Rights::parse(""), Ok(Rights::NONE));
        assert_eq!(Rights::from_bits(512), None);
        assert_eq!(Rights::from_bits(511), Some(Rights::ALL));
    }

    #[test]
    fn some_rights_bring_others_and_staging_does_not_bring_reading() {
        let implied = |text: &str| Rights::parse(text).unwrap().implied().to_string();
        assert_eq!(implied("w"), "tcw");
        assert_eq!(implied("s"), "tsp");
        assert_eq!(implied("c"), "tc");
        assert_eq!(implied("r"), "tr");
        assert_eq!(implied("l"), "tl");
        assert_eq!(implied("p"), "p");
        assert_eq!(implied("m"), "m");
        assert_eq!(implied("b"), "b", "what it makes is its maker's, and it shows nothing else");
        assert_eq!(implied(""), "");
    }
}
