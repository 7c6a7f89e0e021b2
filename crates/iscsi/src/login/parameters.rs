//! How a session goes on after the login (RFC 7143, section 13): what one side wishes, and what both agree
//! on. Pure.

use crate::pdu::{DATA_LENGTH_MAX, Digests};
use crate::text::{Keys, is_yes, number, yes_no};

/// The least that MaxRecvDataSegmentLength, MaxBurstLength and FirstBurstLength may be.
pub const LENGTH_MIN: u32 = 512;
/// The most.
pub const LENGTH_MAX: u32 = DATA_LENGTH_MAX as u32;
/// MaxRecvDataSegmentLength until something else is said, and during a login.
pub const SEGMENT_DEFAULT: usize = 8192;

/// What is wished of a checksum.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DigestWish {
    /// None.
    #[default]
    Never,
    /// One, if the other side has it.
    Prefer,
    /// One; without it there is no session.
    Require,
}

impl DigestWish {
    fn offer(self) -> &'static str {
        match self {
            DigestWish::Never => "None",
            DigestWish::Prefer => "CRC32C,None",
            DigestWish::Require => "CRC32C",
        }
    }

    fn takes(self, word: &str) -> Option<bool> {
        match word {
            "None" if self != DigestWish::Require => Some(false),
            "CRC32C" if self != DigestWish::Never => Some(true),
            _ => None,
        }
    }

    /// What a target chooses from an initiator's list.
    fn choose(self, list: &str) -> Option<bool> {
        list.split(',').find_map(|word| self.takes(word))
    }
}

fn digest_word(is: bool) -> &'static str {
    if is { "CRC32C" } else { "None" }
}

/// What one side wishes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// HeaderDigest.
    pub header_digest: DigestWish,
    /// DataDigest.
    pub data_digest: DigestWish,
    /// MaxRecvDataSegmentLength: the most data that this side takes in one PDU, in bytes.
    pub segment_max: u32,
    /// MaxBurstLength: the most data of one sequence, in bytes.
    pub burst_max: u32,
    /// FirstBurstLength: the most data that is sent before it is asked for, in bytes.
    pub first_burst_max: u32,
    /// InitialR2T: no data but the immediate is sent before it is asked for.
    pub initial_r2t: bool,
    /// ImmediateData: data may go with the command.
    pub immediate_data: bool,
}

impl Default for Parameters {
    /// Records of tapes are 256 KiB to 1 MiB: whole ones, with what protects them, go without being asked
    /// for and in one PDU. Four bytes in a PDU of their own would cost as much as many KiB.
    fn default() -> Parameters {
        Parameters {
            header_digest: DigestWish::Never,
            data_digest: DigestWish::Never,
            segment_max: 1024 * 1024 + 512,
            burst_max: 2 * 1024 * 1024,
            first_burst_max: 1024 * 1024 + 512,
            initial_r2t: false,
            immediate_data: true,
        }
    }
}

/// Why parameters cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ParameterError {
    /// A length is out of its range.
    #[error("{key} is from {LENGTH_MIN} to {LENGTH_MAX}, not {value}")]
    Length {
        /// Which.
        key: &'static str,
        /// What it was.
        value: u32,
    },
    /// The first burst is longer than a burst.
    #[error("FirstBurstLength {first} is more than MaxBurstLength {most}")]
    FirstBurst {
        /// FirstBurstLength.
        first: u32,
        /// MaxBurstLength.
        most: u32,
    },
    /// The other side has said a value that this key cannot have.
    #[error("{key}={value} is not possible")]
    Value {
        /// Which.
        key: String,
        /// What it was.
        value: String,
    },
    /// The other side wants what this one does not do.
    #[error("{key}={value} is not supported")]
    Unsupported {
        /// Which.
        key: String,
        /// What it was.
        value: String,
    },
}

impl Parameters {
    /// Itself, if it keeps the ranges of RFC 7143.
    pub fn checked(&self) -> Result<(), ParameterError> {
        let lengths = [
            ("MaxRecvDataSegmentLength", self.segment_max),
            ("MaxBurstLength", self.burst_max),
            ("FirstBurstLength", self.first_burst_max),
        ];
        if let Some((key, value)) = lengths.into_iter().find(|(_, value)| !is_length(*value)) {
            return Err(ParameterError::Length { key, value });
        }
        if self.first_burst_max > self.burst_max {
            return Err(ParameterError::FirstBurst { first: self.first_burst_max, most: self.burst_max });
        }
        Ok(())
    }

    /// What an initiator says first. A discovery session has no data of commands, so nothing about it.
    #[must_use]
    pub fn offer(&self, discovery: bool) -> Keys {
        let mut keys = Keys::new();
        keys.push("HeaderDigest", self.header_digest.offer());
        keys.push("DataDigest", self.data_digest.offer());
        keys.push("MaxRecvDataSegmentLength", self.segment_max);
        keys.push("DefaultTime2Wait", 2);
        keys.push("DefaultTime2Retain", 0);
        keys.push("ErrorRecoveryLevel", 0);
        if !discovery {
            keys.push("MaxBurstLength", self.burst_max);
            keys.push("FirstBurstLength", self.first_burst_max);
            keys.push("InitialR2T", yes_no(self.initial_r2t));
            keys.push("ImmediateData", yes_no(self.immediate_data));
            keys.push("MaxOutstandingR2T", 1);
            keys.push("MaxConnections", 1);
            keys.push("DataPDUInOrder", "Yes");
            keys.push("DataSequenceInOrder", "Yes");
        }
        keys
    }
}

fn is_length(value: u32) -> bool {
    (LENGTH_MIN..=LENGTH_MAX).contains(&value)
}

/// What both sides go by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Agreed {
    /// Checksums.
    pub digests: Digests,
    /// The most data that the other side takes in one PDU, in bytes.
    pub send_segment_max: usize,
    /// The most data of one sequence, in bytes.
    pub burst_max: usize,
    /// The most data that is sent before it is asked for, in bytes.
    pub first_burst_max: usize,
    /// No data but the immediate is sent before it is asked for.
    pub initial_r2t: bool,
    /// Data may go with the command.
    pub immediate_data: bool,
}

impl Default for Agreed {
    /// What holds where nothing was said.
    fn default() -> Agreed {
        Agreed {
            digests: Digests::default(),
            send_segment_max: SEGMENT_DEFAULT,
            burst_max: 256 * 1024,
            first_burst_max: 64 * 1024,
            initial_r2t: true,
            immediate_data: true,
        }
    }
}

/// What a target says to a key that it does not know.
const NOT_UNDERSTOOD: &str = "NotUnderstood";
/// Values that end the negotiation of a key without a result.
const NO_RESULT: [&str; 3] = [NOT_UNDERSTOOD, "Irrelevant", "Reject"];

impl Agreed {
    /// Takes what the target has answered to [`Parameters::offer`], and says what must be answered in turn:
    /// nothing, unless the target has offered what this initiator does not know.
    pub fn settle(&mut self, wishes: &Parameters, answers: &Keys) -> Result<Keys, ParameterError> {
        let mut replies = Keys::new();
        for (key, value) in answers.iter() {
            let unsupported = || ParameterError::Unsupported { key: key.to_owned(), value: value.to_owned() };
            if NO_RESULT.contains(&value) {
                match key {
                    "HeaderDigest" if wishes.header_digest == DigestWish::Require => {
                        return Err(unsupported());
                    }
                    "DataDigest" if wishes.data_digest == DigestWish::Require => return Err(unsupported()),
                    _ => continue,
                }
            }
            match key {
                "HeaderDigest" => {
                    self.digests.header = wishes.header_digest.takes(value).ok_or_else(unsupported)?;
                }
                "DataDigest" => {
                    self.digests.data = wishes.data_digest.takes(value).ok_or_else(unsupported)?;
                }
                "MaxRecvDataSegmentLength" => self.send_segment_max = length(key, value)?,
                "MaxBurstLength" => self.burst_max = length(key, value)?.min(wishes.burst_max as usize),
                "FirstBurstLength" => {
                    self.first_burst_max = length(key, value)?.min(wishes.first_burst_max as usize);
                }
                "InitialR2T" => self.initial_r2t = boolean(key, value)? || wishes.initial_r2t,
                "ImmediateData" => self.immediate_data = boolean(key, value)? && wishes.immediate_data,
                "DataPDUInOrder" | "DataSequenceInOrder" if !boolean(key, value)? => {
                    return Err(unsupported());
                }
                "ErrorRecoveryLevel" if count(key, value)? != 0 => return Err(unsupported()),
                "MaxOutstandingR2T" | "MaxConnections" if count(key, value)? != 1 => {
                    return Err(unsupported());
                }
                _ if DECLARED.contains(&key) || OFFERED.contains(&key) => {}
                _ => replies.push(key, NOT_UNDERSTOOD),
            }
        }
        self.first_burst_max = self.first_burst_max.min(self.burst_max);
        Ok(replies)
    }

    /// Takes what an initiator offers, and says what the target answers.
    pub fn answer(&mut self, wishes: &Parameters, offers: &Keys) -> Result<Keys, ParameterError> {
        let mut answers = Keys::new();
        for (key, value) in offers.iter() {
            let unsupported = || ParameterError::Unsupported { key: key.to_owned(), value: value.to_owned() };
            match key {
                "HeaderDigest" => {
                    self.digests.header = wishes.header_digest.choose(value).ok_or_else(unsupported)?;
                    answers.push(key, digest_word(self.digests.header));
                }
                "DataDigest" => {
                    self.digests.data = wishes.data_digest.choose(value).ok_or_else(unsupported)?;
                    answers.push(key, digest_word(self.digests.data));
                }
                "MaxRecvDataSegmentLength" => self.send_segment_max = length(key, value)?,
                "MaxBurstLength" => {
                    self.burst_max = length(key, value)?.min(wishes.burst_max as usize);
                    answers.push(key, self.burst_max);
                }
                "FirstBurstLength" => {
                    self.first_burst_max = length(key, value)?.min(wishes.first_burst_max as usize);
                    answers.push(key, self.first_burst_max);
                }
                "InitialR2T" => {
                    self.initial_r2t = boolean(key, value)? || wishes.initial_r2t;
                    answers.push(key, yes_no(self.initial_r2t));
                }
                "ImmediateData" => {
                    self.immediate_data = boolean(key, value)? && wishes.immediate_data;
                    answers.push(key, yes_no(self.immediate_data));
                }
                // Either side can demand order, and this one does.
                "DataPDUInOrder" | "DataSequenceInOrder" => {
                    boolean(key, value)?;
                    answers.push(key, "Yes");
                }
                "MaxOutstandingR2T" | "MaxConnections" => {
                    count(key, value)?;
                    answers.push(key, 1);
                }
                "ErrorRecoveryLevel" | "DefaultTime2Retain" => {
                    count(key, value)?;
                    answers.push(key, 0);
                }
                "DefaultTime2Wait" => {
                    // The larger one: this target has no wish.
                    answers.push(key, count(key, value)?);
                }
                "IFMarker" | "OFMarker" => answers.push(key, "No"),
                _ if DECLARED.contains(&key) => {}
                _ => answers.push(key, NOT_UNDERSTOOD),
            }
        }
        self.first_burst_max = self.first_burst_max.min(self.burst_max);
        Ok(answers)
    }
}

/// Keys that one side says and the other does not answer.
const DECLARED: [&str; 7] = [
    "InitiatorName",
    "InitiatorAlias",
    "TargetName",
    "TargetAlias",
    "TargetAddress",
    "TargetPortalGroupTag",
    "SessionType",
];
/// Keys whose answers change nothing for this initiator.
const OFFERED: [&str; 8] = [
    "DataPDUInOrder",
    "DataSequenceInOrder",
    "ErrorRecoveryLevel",
    "MaxOutstandingR2T",
    "MaxConnections",
    "DefaultTime2Wait",
    "DefaultTime2Retain",
    "AuthMethod",
];

fn bad(key: &str, value: &str) -> ParameterError {
    ParameterError::Value { key: key.to_owned(), value: value.to_owned() }
}

fn length(key: &str, value: &str) -> Result<usize, ParameterError> {
    let length = number(value).filter(|length| is_length(*length)).ok_or_else(|| bad(key, value))?;
    // At most 24 bits.
    Ok(length as usize)
}

fn boolean(key: &str, value: &str) -> Result<bool, ParameterError> {
    is_yes(value).ok_or_else(|| bad(key, value))
}

/// Any of the small numbers, none of which is above 65,535.
fn count(key: &str, value: &str) -> Result<u32, ParameterError> {
    number(value).filter(|count| *count <= 65_535).ok_or_else(|| bad(key, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(initiator: &Parameters, target: &Parameters) -> Result<(Agreed, Agreed), ParameterError> {
        let (mut ours, mut theirs) = (Agreed::default(), Agreed::default());
        let mut answers = theirs.answer(target, &initiator.offer(false))?;
        answers.push("MaxRecvDataSegmentLength", target.segment_max);
        let more = ours.settle(initiator, &answers)?;
        assert!(more.is_empty(), "{more:?}");
        Ok((ours, theirs))
    }

    #[test]
    fn both_sides_agree_on_the_same() {
        let small = Parameters {
            segment_max: 512,
            burst_max: 2048,
            first_burst_max: 1024,
            initial_r2t: true,
            immediate_data: false,
            ..Parameters::default()
        };
        for (initiator, target) in [(Parameters::default(), small.clone()), (small, Parameters::default())] {
            let (ours, theirs) = both(&initiator, &target).unwrap();
            assert_eq!((ours.burst_max, ours.first_burst_max), (2048, 1024));
            assert_eq!((ours.initial_r2t, ours.immediate_data), (true, false));
            assert_eq!(ours.send_segment_max, target.segment_max as usize);
            assert_eq!(theirs.send_segment_max, initiator.segment_max as usize);
            assert_eq!(Agreed { send_segment_max: 0, ..ours }, Agreed { send_segment_max: 0, ..theirs });
        }
    }

    #[test]
    fn checksums_are_used_if_both_wish_and_never_left_out_if_one_requires_them() {
        use DigestWish::{Never, Prefer, Require};
        let wish = |digest| Parameters { data_digest: digest, ..Parameters::default() };
        let results = [
            (Never, Never, Some(false)),
            (Never, Prefer, Some(false)),
            (Prefer, Never, Some(false)),
            (Prefer, Prefer, Some(true)),
            (Require, Prefer, Some(true)),
            (Prefer, Require, Some(true)),
            (Never, Require, None),
            (Require, Never, None),
        ];
        for (initiator, target, result) in results {
            let agreed = both(&wish(initiator), &wish(target)).ok();
            assert_eq!(agreed.map(|(ours, _)| ours.digests.data), result, "{initiator:?} {target:?}");
            assert_eq!(agreed.map(|(_, theirs)| theirs.digests.data), result);
        }
        let mut keys = Keys::new();
        keys.push("DataDigest", "Reject");
        assert!(Agreed::default().settle(&wish(Require), &keys).is_err());
        assert!(Agreed::default().settle(&wish(Prefer), &keys).is_ok());
    }

    #[test]
    fn unknown_keys_are_not_understood_by_either_side() {
        let mut keys = Keys::new();
        keys.push("X-com.example.speed", "11");
        let wishes = Parameters::default();
        let expected = [("X-com.example.speed", "NotUnderstood")];
        let answers = Agreed::default().answer(&wishes, &keys).unwrap();
        assert_eq!(answers.iter().collect::<Vec<_>>(), expected);
        let answers = Agreed::default().settle(&wishes, &keys).unwrap();
        assert_eq!(answers.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn impossible_values_are_refused() {
        let wishes = Parameters::default();
        let bad = [
            ("MaxRecvDataSegmentLength", "511"),
            ("MaxRecvDataSegmentLength", "16777216"),
            ("MaxBurstLength", "many"),
            ("FirstBurstLength", "0"),
            ("InitialR2T", "yes"),
            ("ErrorRecoveryLevel", "70000"),
            ("HeaderDigest", "SHA1"),
            ("DataPDUInOrder", ""),
        ];
        for (key, value) in bad {
            let mut keys = Keys::new();
            keys.push(key, value);
            assert!(Agreed::default().answer(&wishes, &keys).is_err(), "{key}={value}");
            assert!(Agreed::default().settle(&wishes, &keys).is_err(), "{key}={value}");
        }
        for (length, fits) in [(511, false), (512, true), (LENGTH_MAX, true), (LENGTH_MAX + 1, false)] {
            let wishes = Parameters { segment_max: length, ..Parameters::default() };
            assert_eq!(wishes.checked().is_ok(), fits, "{length}");
        }
        let crossed = Parameters { first_burst_max: 1024, burst_max: 512, ..Parameters::default() };
        assert!(crossed.checked().is_err());
    }
}
