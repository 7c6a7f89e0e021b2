//! Values with units.

use std::fmt;
use std::time::Duration;

use base::ByteCount;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use terminal::text;

/// A size as `"64MiB"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Size(pub ByteCount);

/// A span of time as `"30s"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Span(pub Duration);

/// A part of a whole as `"90%"`, 1 to 100.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Percent(pub u8);

impl Percent {
    /// Reads `90%`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').and_then(|number| number.trim_end().parse().ok());
        match number {
            Some(percent @ 1..=100) => Ok(Percent(percent)),
            _ => {
                Err(format!("'{text}' is no percentage: write a whole number from 1 to 100, such as \"90%\""))
            }
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl Size {
    /// Reads `64MiB`.
    pub fn parse(text: &str) -> Result<Self, String> {
        ByteCount::parse(text).map(Size).ok_or_else(|| {
            format!("'{text}' is not a size: write a whole number and a unit, such as \"64MiB\" or \"100GB\"")
        })
    }
}

impl Span {
    /// Reads `30s`.
    pub fn parse(text: &str) -> Result<Self, String> {
        text::parse_span(text).map(Span).ok_or_else(|| {
            format!(
                "'{text}' is not a span of time: write a whole number and ms, s, min, h or d, such as \"30s\""
            )
        })
    }
}

/// How long the files of a class stay in the pool once all their copies are on tape.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Residency {
    /// Until somebody evicts them, or their room is needed.
    #[default]
    Pool,
    /// Only for as long as somebody pins them.
    Tape,
    /// Until nobody has used them for so long.
    Unused(Span),
}

impl Residency {
    /// Reads `pool`, `tape` or `30d`.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "pool" => Ok(Residency::Pool),
            "tape" => Ok(Residency::Tape),
            text => Span::parse(text).map(Residency::Unused).map_err(|_| {
                format!(
                    "'{text}' is no residency: write \"pool\", \"tape\", or how long a file stays that \
                     nobody uses, such as \"30d\", of 100 years at most"
                )
            }),
        }
    }
}

impl fmt::Display for Residency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Residency::Pool => f.write_str("pool"),
            Residency::Tape => f.write_str("tape"),
            Residency::Unused(span) => span.fmt(f),
        }
    }
}

impl fmt::Display for Size {
    /// The exact size in the largest unit that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.0;
        const UNITS: [(u64, &str); 8] = [
            (1 << 40, "TiB"),
            (1_000_000_000_000, "TB"),
            (1 << 30, "GiB"),
            (1_000_000_000, "GB"),
            (1 << 20, "MiB"),
            (1_000_000, "MB"),
            (1 << 10, "KiB"),
            (1_000, "kB"),
        ];
        match UNITS.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", bytes / unit),
            None => write!(f, "{bytes}B"),
        }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::write_span(self.0))
    }
}

macro_rules! as_text {
    ($name:ident, $what:literal) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($what)
                    }
                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$name, E> {
                        $name::parse(text).map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }
    };
}

as_text!(Size, "a size in quotes with its unit, such as \"64MiB\"");
as_text!(Percent, "a percentage in quotes, such as \"90%\"");
as_text!(Residency, "\"pool\", \"tape\", or a span of time in quotes with its unit, such as \"30d\"");
as_text!(Span, "a span of time in quotes with its unit, such as \"30s\"");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sizes_round_trip(bytes in 0u64..1 << 62) {
            let size = Size(ByteCount(bytes));
            prop_assert_eq!(Size::parse(&size.to_string()), Ok(size));
        }

        #[test]
        fn spans_round_trip(millis in 0u64..1 << 40) {
            let span = Span(Duration::from_millis(millis));
            prop_assert_eq!(Span::parse(&span.to_string()), Ok(span));
        }
    }

    #[test]
    fn percentages_and_residencies_are_what_they_say_or_refused() {
        for text in ["1%", "90%", "100%"] {
            assert_eq!(Percent::parse(text).unwrap().to_string(), text);
        }
        for text in ["0%", "101%", "90", "%", "-1%", "9.5%"] {
            assert!(Percent::parse(text).unwrap_err().contains("\"90%\""), "{text}");
        }
        for text in ["pool", "tape", "30d", "90min"] {
            assert_eq!(Residency::parse(text).unwrap().to_string(), text);
        }
        assert!(Residency::parse("disk").unwrap_err().contains("\"30d\""));
    }

    #[test]
    fn sizes_keep_their_unit() {
        for text in ["64MiB", "100GB", "1GiB", "20kB", "7B"] {
            assert_eq!(Size::parse(text).unwrap().to_string(), text);
        }
    }
}
