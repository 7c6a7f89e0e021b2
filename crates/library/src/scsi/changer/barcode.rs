//! What stands on the label of a cartridge.

use std::fmt;

use base::{ByteCount, Vid, VidError};

/// The text that a changer read from a label: six characters, the VID, and behind them as a rule two that say
/// what medium it is, the media suffix (`KS0001L8`).
///
/// Two labels that differ only in the suffix name the same VID. A text of another length, or with other
/// characters than `A-Z0-9`, names none: such a cartridge is told and left alone. The suffix is looked for
/// behind the VID only: a library that puts it in front, or leaves characters of the VID away, is to be set
/// up otherwise.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Barcode(String);

/// Characters of the media suffix.
const SUFFIX: usize = 2;
/// Characters of a VID.
const VID: usize = 6;

impl Barcode {
    /// A label's text. `None` if there is nothing on it.
    #[must_use]
    pub fn new(text: &str) -> Option<Barcode> {
        let text = text.trim();
        (!text.is_empty()).then(|| Barcode(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The VID.
    ///
    /// # Errors
    /// If the text is not six characters of a VID, alone or with a media suffix.
    pub fn vid(&self) -> Result<Vid, VidError> {
        let (vid, suffix) = self.0.split_at_checked(VID).unwrap_or((&self.0, ""));
        let fits = suffix.is_empty()
            || suffix.len() == SUFFIX
                && suffix.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        if fits { Vid::new(vid) } else { Err(VidError(self.0.clone())) }
    }

    /// The media suffix behind a VID: `L5` to `L9` for LTO, `M8` for LTO-7 media that an LTO-8 drive
    /// formatted, `JD` and the like for 3592.
    #[must_use]
    pub fn suffix(&self) -> Option<&str> {
        let (_, suffix) = self.0.split_at_checked(VID)?;
        (suffix.len() == SUFFIX && self.vid().is_ok()).then_some(suffix)
    }

    /// Whether it is the label of a cleaning cartridge: those begin with `CLN` (libraries of IBM, HPE and
    /// Quantum alike).
    #[must_use]
    pub fn is_cleaning(&self) -> bool {
        self.0.starts_with("CLN")
    }

    /// What the data partition of such a medium holds, by its suffix; 0 if the suffix says nothing.
    #[must_use]
    pub fn capacity(&self) -> ByteCount {
        let medium = self.suffix().and_then(|suffix| mechanics::medium(suffix).ok());
        medium.map_or(ByteCount(0), mechanics::MediumModel::data_capacity)
    }
}

impl fmt::Display for Barcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn barcode(text: &str) -> Barcode {
        Barcode::new(text).unwrap()
    }

    #[test]
    fn a_vid_has_a_suffix_behind_it_or_none() {
        for (text, vid, suffix) in [
            ("KS0001L8", "KS0001", Some("L8")),
            ("KS0001M8", "KS0001", Some("M8")),
            ("A00017JD", "A00017", Some("JD")),
            ("KS0001", "KS0001", None),
            ("  KS0001L9 ", "KS0001", Some("L9")),
        ] {
            let barcode = barcode(text);
            assert_eq!((barcode.vid().unwrap().as_str(), barcode.suffix()), (vid, suffix), "{text}");
        }
        for text in ["KS001", "KS0001L", "KS00001L8", "ks0001L8", "KS0001l8", "KS-001L8", "KÖ0001L8", "?"] {
            assert!(barcode(text).vid().is_err(), "{text}");
            assert_eq!(barcode(text).suffix(), None, "{text}");
        }
        assert_eq!(Barcode::new("   "), None);
    }

    #[test]
    fn cleaning_cartridges_say_so() {
        for text in ["CLN001L1", "CLNU01CU", "CLN001"] {
            assert!(barcode(text).is_cleaning(), "{text}");
        }
        assert!(!barcode("KS0001L8").is_cleaning());
    }

    #[test]
    fn the_suffix_says_what_a_medium_holds() {
        let capacity = |text: &str| barcode(text).capacity();
        assert!(capacity("KS0001L9") > capacity("KS0001L8"));
        assert!(capacity("KS0001L8") > ByteCount(11_000_000_000_000));
        assert_eq!((capacity("KS0001"), capacity("KS0001ZZ")), (ByteCount(0), ByteCount(0)));
    }
}
