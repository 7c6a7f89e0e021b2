//! Quantities as a site or a scenario file writes them: a number and its unit in one string.
//!
//! Each is a newtype that serde reads and writes as text: `"20TB"`, `"300MB/s"`, `"7d"`, `"85%"`, `"100M"`.
//! Numbers may have a fraction and underscores; negative and infinite ones do not exist. Decimal units are
//! powers of 1000, binary ones (`MiB`) of 1024; `b` is a bit and `B` a byte.

use std::fmt;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A size in whole bytes, as `"20TB"` or `"64MiB"`; at most 18.4 EB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Bytes(pub u64);

/// Bytes per second, as `"300MB/s"`, `"12Gb/s"`, `"100Gbit/s"` or `"223GB/d"`; finite and not negative.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Rate(pub f64);

/// A span of time in whole microseconds, as `"55s"`, `"2.5ms"`, `"7d"` or `"1y"` (365 days).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Span(pub u64);

/// A proportion that may exceed 1, as `"120%"`; held as 1.2.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Percent(pub f64);

/// A proportion from 0 to 1, as `"85%"`; held as 0.85.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Share(pub f64);

/// A whole number, as `27079`, `"100M"` or `"1.5k"`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Count(pub u64);

/// Electrical power in watts, as `"9.5W"` or `"1.2kW"`.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Default)]
pub struct Power(pub f64);

/// Why a text is no quantity.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// No number stands at the front.
    #[error("'{text}' does not begin with a number: write {example}")]
    Number {
        /// What was written.
        text: String,
        /// A right one.
        example: &'static str,
    },
    /// The unit is missing or not one of this quantity.
    #[error("'{text}' has no unit that is known here ({units}): write {example}")]
    Unit {
        /// What was written.
        text: String,
        /// All units.
        units: String,
        /// A right one.
        example: &'static str,
    },
    /// The value cannot be held.
    #[error("'{text}' is out of range: at most {most}")]
    Range {
        /// What was written.
        text: String,
        /// The largest value.
        most: &'static str,
    },
}

/// A unit's name and how many of the smallest unit it is.
type UnitScale = (&'static str, u64);

const BYTES: &[UnitScale] = &[
    ("EiB", 1 << 60),
    ("EB", 1_000_000_000_000_000_000),
    ("PiB", 1 << 50),
    ("PB", 1_000_000_000_000_000),
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];
const BITS: &[UnitScale] = &[
    ("Tbit", 1_000_000_000_000),
    ("Tb", 1_000_000_000_000),
    ("Gbit", 1_000_000_000),
    ("Gb", 1_000_000_000),
    ("Mbit", 1_000_000),
    ("Mb", 1_000_000),
];
const SPANS: &[UnitScale] = &[
    ("y", 31_536_000_000_000),
    ("w", 604_800_000_000),
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("min", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1_000),
    ("us", 1),
];
const COUNTS: &[UnitScale] = &[("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000), ("", 1)];
const PER: &[(&str, f64)] = &[("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0), ("y", 31_536_000.0)];

const BYTES_EXAMPLE: &str = "\"20TB\" or \"64MiB\"";
const RATE_EXAMPLE: &str = "\"300MB/s\", \"12Gb/s\" or \"223GB/d\"";
const SPAN_EXAMPLE: &str = "\"55s\", \"2h\" or \"7d\"";
const COUNT_EXAMPLE: &str = "27079 or \"100M\"";
const PERCENT_EXAMPLE: &str = "\"85%\"";
const POWER_EXAMPLE: &str = "\"9.5W\" or \"1.2kW\"";

/// Number and unit apart.
fn parts<'a>(text: &'a str, example: &'static str) -> Result<(String, &'a str), QuantityError> {
    let text = text.trim();
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number.replace('_', "");
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((number, unit.trim_start())),
        _ => Err(QuantityError::Number { text: text.to_owned(), example }),
    }
}

fn unknown(text: &str, units: &[&[UnitScale]], example: &'static str) -> QuantityError {
    let names = units.iter().flat_map(|units| units.iter()).map(|(name, _)| *name);
    let units = names.filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ");
    QuantityError::Unit { text: text.to_owned(), units, example }
}

/// A whole number of smallest units: exact when written without a fraction, else to the nearest.
fn whole(
    text: &str,
    units: &[UnitScale],
    example: &'static str,
    most: &'static str,
) -> Result<u64, QuantityError> {
    let (number, unit) = parts(text, example)?;
    let scale = units.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
    let scale = scale.ok_or_else(|| unknown(text, &[units], example))?;
    let range = || QuantityError::Range { text: text.to_owned(), most };
    if let Ok(number) = number.parse::<u64>() {
        return number.checked_mul(scale).ok_or_else(range);
    }
    let value = number.parse::<f64>().map_err(|_| range())? * scale as f64;
    if value < u64::MAX as f64 { Ok(value.round() as u64) } else { Err(range()) }
}

/// The exact value in the largest unit that divides it.
fn write_whole(f: &mut fmt::Formatter<'_>, value: u64, units: &[UnitScale]) -> fmt::Result {
    let unit = units.iter().filter(|(_, scale)| value > 0 && value.is_multiple_of(*scale));
    match unit.max_by_key(|(_, scale)| *scale) {
        Some((unit, scale)) => write!(f, "{}{unit}", value / scale),
        None => write!(f, "{value}{}", units.last().map_or("", |(unit, _)| unit)),
    }
}

impl Bytes {
    /// Reads `20TB`.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        whole(text, BYTES, BYTES_EXAMPLE, "18.4EB").map(Bytes)
    }

    /// The bytes as a number to compute with.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

impl Rate {
    /// Reads `300MB/s`; a `b` is a bit.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let (number, unit) = parts(text, RATE_EXAMPLE)?;
        let wrong = || unknown(text, &[BYTES, BITS], RATE_EXAMPLE);
        let (amount, per) = unit.split_once('/').ok_or_else(wrong)?;
        let bytes = BYTES.iter().find(|(name, _)| *name == amount).map(|(_, scale)| *scale as f64);
        let bits = BITS.iter().find(|(name, _)| *name == amount).map(|(_, scale)| *scale as f64 / 8.0);
        let scale = bytes.or(bits).ok_or_else(wrong)?;
        let seconds = PER.iter().find(|(name, _)| *name == per).map(|(_, seconds)| *seconds);
        let value = number.parse::<f64>().unwrap_or(f64::INFINITY) * scale / seconds.ok_or_else(wrong)?;
        if value < 1e30 {
            return Ok(Rate(value));
        }
        Err(QuantityError::Range { text: text.to_owned(), most: "1e30 bytes a second" })
    }

    /// Bytes per second.
    pub fn per_second(self) -> f64 {
        self.0
    }

    /// Bytes per day of 86,400 s.
    pub fn per_day(self) -> f64 {
        self.0 * 86_400.0
    }
}

impl Span {
    /// Reads `7d`.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        whole(text, SPANS, SPAN_EXAMPLE, "584000y").map(Span)
    }

    /// Whole microseconds.
    pub fn micros(self) -> u64 {
        self.0
    }

    /// Seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Days of 86,400 s.
    pub fn days(self) -> f64 {
        self.seconds() / 86_400.0
    }
}

fn percent(text: &str) -> Result<f64, QuantityError> {
    let (number, unit) = parts(text, PERCENT_EXAMPLE)?;
    if unit != "%" {
        return Err(unknown(text, &[&[("%", 1)]], PERCENT_EXAMPLE));
    }
    let value = number.parse::<f64>().unwrap_or(f64::INFINITY) / 100.0;
    if value <= 1e9 {
        return Ok(value);
    }
    Err(QuantityError::Range { text: text.to_owned(), most: "1e11%" })
}

impl Percent {
    /// Reads `120%`.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        percent(text).map(Percent)
    }

    /// 1.2 for 120 %.
    pub fn ratio(self) -> f64 {
        self.0
    }
}

impl Share {
    /// Reads `85%`.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        match percent(text)? {
            share if share <= 1.0 => Ok(Share(share)),
            _ => Err(QuantityError::Range { text: text.to_owned(), most: "100%" }),
        }
    }

    /// 0.85 for 85 %.
    pub fn ratio(self) -> f64 {
        self.0
    }
}

impl Count {
    /// Reads `100M` or `27079`.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        whole(text, COUNTS, COUNT_EXAMPLE, "18.4e18").map(Count)
    }

    /// The number to compute with.
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }
}

impl Power {
    /// Reads `9.5W`.
    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        const UNITS: &[UnitScale] = &[("MW", 1_000_000), ("kW", 1_000), ("W", 1)];
        let (number, unit) = parts(text, POWER_EXAMPLE)?;
        let scale = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale as f64);
        let scale = scale.ok_or_else(|| unknown(text, &[UNITS], POWER_EXAMPLE))?;
        let value = number.parse::<f64>().unwrap_or(f64::INFINITY) * scale;
        if value <= 1e15 {
            return Ok(Power(value));
        }
        Err(QuantityError::Range { text: text.to_owned(), most: "1e15 W" })
    }

    /// Watts.
    pub fn watts(self) -> f64 {
        self.0
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_whole(f, self.0, BYTES)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimal = BYTES.iter().filter(|(name, _)| !name.contains('i'));
        let unit = decimal.copied().find(|(_, scale)| self.0 >= *scale as f64).unwrap_or(("B", 1));
        write!(f, "{}{}/s", self.0 / unit.1 as f64, unit.0)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_whole(f, self.0, &SPANS[2..])
    }
}

/// Without the last digits that the division by 100 brings.
fn write_percent(f: &mut fmt::Formatter<'_>, ratio: f64) -> fmt::Result {
    write!(f, "{}%", (ratio * 1e14).round() / 1e12)
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_percent(f, self.0)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_percent(f, self.0)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}W", self.0)
    }
}

macro_rules! as_text {
    ($name:ident, $what:literal $(, $number:ident)?) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl std::str::FromStr for $name {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<Self, QuantityError> {
                $name::parse(text)
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
                    $(
                        fn $number<E: de::Error>(self, number: i64) -> Result<$name, E> {
                            u64::try_from(number).map($name).map_err(|_| E::custom("a count is not negative"))
                        }
                        fn visit_u64<E: de::Error>(self, number: u64) -> Result<$name, E> {
                            Ok($name(number))
                        }
                    )?
                }
                deserializer.deserialize_any(Text)
            }
        }
    };
}

as_text!(Bytes, "a size in quotes with its unit, such as \"20TB\"");
as_text!(Rate, "a rate in quotes with its unit, such as \"300MB/s\"");
as_text!(Span, "a span of time in quotes with its unit, such as \"7d\"");
as_text!(Percent, "a proportion in quotes with its sign, such as \"120%\"");
as_text!(Share, "a share in quotes with its sign, such as \"85%\"");
as_text!(Count, "a whole number, such as 27079 or \"100M\"", visit_i64);
as_text!(Power, "a power in quotes with its unit, such as \"9.5W\"");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn units_are_read() {
        assert_eq!(Bytes::parse("20TB"), Ok(Bytes(20_000_000_000_000)));
        assert_eq!(Bytes::parse("1.5 GiB"), Ok(Bytes(3 << 29)));
        assert_eq!(Bytes::parse("1_000B"), Ok(Bytes(1000)));
        assert_eq!(Rate::parse("300MB/s"), Ok(Rate(3e8)));
        assert_eq!(Rate::parse("12Gb/s"), Ok(Rate(1.5e9)));
        assert_eq!(Rate::parse("100Gbit/s"), Ok(Rate(1.25e10)));
        assert!((Rate::parse("86.4GB/d").unwrap().0 - 1e6).abs() < 1e-6);
        assert_eq!(Span::parse("7d"), Ok(Span(7 * 86_400_000_000)));
        assert_eq!(Span::parse("2.5ms"), Ok(Span(2500)));
        assert_eq!(Percent::parse("120%"), Ok(Percent(1.2)));
        assert_eq!(Share::parse("85 %"), Ok(Share(0.85)));
        assert_eq!(Count::parse("1.5k"), Ok(Count(1500)));
        assert_eq!(Power::parse("1.2kW"), Ok(Power(1200.0)));
    }

    #[test]
    fn what_is_no_quantity_says_what_to_write() {
        for bad in ["", "TB", "20", "20 tb", "-1TB", "NaNTB", "infTB", "1..2TB", "1e3TB", "20TB/s"] {
            let error = Bytes::parse(bad).unwrap_err().to_string();
            assert!(error.contains("\"20TB\""), "{error}");
        }
        for bad in ["300MB", "300/s", "MB/s", "1MB/", "1MB/fortnight"] {
            assert!(Rate::parse(bad).unwrap_err().to_string().contains("\"300MB/s\""), "{bad}");
        }
        assert!(Share::parse("101%").unwrap_err().to_string().contains("at most 100%"));
        assert!(Share::parse("0.85").unwrap_err().to_string().contains("\"85%\""));
        assert!(Bytes::parse("20EB").unwrap_err().to_string().contains("at most 18.4EB"));
        assert!(Bytes::parse("18.5EB").is_err() && Bytes::parse("18.4EB").is_ok());
        let long = format!("{}MB/s", "9".repeat(400));
        assert!(Rate::parse(&long).is_err() && Percent::parse(&long).is_err());
    }

    #[test]
    fn toml_holds_them_as_text_and_counts_as_numbers_too() {
        #[derive(Deserialize, PartialEq, Debug)]
        struct All {
            bytes: Bytes,
            rate: Rate,
            span: Span,
            share: Share,
            count: Count,
            large: Count,
            power: Power,
        }
        let text = "bytes = \"20TB\"\nrate = \"300MB/s\"\nspan = \"90min\"\nshare = \"7%\"\n\
                    count = 27079\nlarge = \"100M\"\npower = \"9.5W\"";
        let all: All = toml::from_str(text).unwrap();
        assert_eq!(
            (all.count, all.large, all.span),
            (Count(27_079), Count(100_000_000), Span(5_400_000_000))
        );
        assert_eq!((all.bytes.to_string(), all.rate.to_string()), ("20TB".into(), "300MB/s".into()));
        assert_eq!((all.share.to_string(), all.power.to_string()), ("7%".into(), "9.5W".into()));
        assert!(toml::from_str::<All>(&text.replace("27079", "-1")).is_err());
        let error = toml::from_str::<All>(&text.replace("\"20TB\"", "20")).unwrap_err().to_string();
        assert!(error.contains("a size in quotes"), "{error}");
    }

    proptest! {
        #[test]
        fn whole_values_round_trip(value: u64) {
            prop_assert_eq!(Bytes::parse(&Bytes(value).to_string()), Ok(Bytes(value)));
            prop_assert_eq!(Span::parse(&Span(value).to_string()), Ok(Span(value)));
            prop_assert_eq!(Count::parse(&Count(value).to_string()), Ok(Count(value)));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,12}") {
            let _ = (Bytes::parse(&text), Rate::parse(&text), Span::parse(&text), Count::parse(&text));
            let _ = (Percent::parse(&text), Share::parse(&text), Power::parse(&text));
        }
    }
}
