//! Quantities with their unit in the type.

use std::fmt;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteCount(pub u64);

impl ByteCount {
    /// `n` KiB; saturates.
    #[must_use]
    pub const fn kib(n: u64) -> Self {
        ByteCount(n.saturating_mul(1 << 10))
    }

    /// `n` MiB; saturates.
    #[must_use]
    pub const fn mib(n: u64) -> Self {
        ByteCount(n.saturating_mul(1 << 20))
    }

    /// `n` GiB; saturates.
    #[must_use]
    pub const fn gib(n: u64) -> Self {
        ByteCount(n.saturating_mul(1 << 30))
    }

    /// Reads `"64MiB"`, `"20 GB"`, `"512"`: a whole number and an optional unit (`B`, `kB`, `MB`, `GB`, `TB`,
    /// `PB` of 1000, `KiB`, `MiB`, `GiB`, `TiB`, `PiB` of 1024). `None` if malformed or above 2^63.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text.get(..end)?.parse().ok()?;
        let unit = match text.get(end..)?.trim() {
            "" | "B" => 1,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            "PB" => 1_000_000_000_000_000,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "TiB" => 1 << 40,
            "PiB" => 1 << 50,
            _ => return None,
        };
        number.checked_mul(unit).filter(|n| *n < 1 << 63).map(ByteCount)
    }
}

impl fmt::Display for ByteCount {
    /// Three significant digits in units of 1000: `1.21 GB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 999.5 && unit + 1 < UNITS.len() {
            value /= 1000.0;
            unit += 1;
        }
        let digits = match () {
            () if unit == 0 || value >= 99.95 => 0,
            () if value >= 9.995 => 1,
            () => 2,
        };
        f.pad(&format!("{value:.digits$} {}", UNITS[unit]))
    }
}

/// How full something is, in whole percent, for every screen and warning: rounded down, so that 100 means
/// that nothing is left. `None` if it holds nothing.
#[must_use]
pub fn percent(used: ByteCount, capacity: ByteCount) -> Option<u64> {
    let percent = (u128::from(used.0) * 100).checked_div(u128::from(capacity.0))?;
    Some(u64::try_from(percent).unwrap_or(u64::MAX))
}

/// A difference between two percentages: 30 % and 35 % are 5 percentage points apart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PercentPoints(pub u8);

impl fmt::Display for PercentPoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let points = if self.0 == 1 { "point" } else { "points" };
        write!(f, "{} percentage {points}", self.0)
    }
}

/// A number of things as people read it, wherever Kist prints one: `12,345`. Ids, positions on tape and
/// numbers of changes are names, not counts: they have no separators.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Count(pub u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (at, digit) in digits.chars().enumerate() {
            if at > 0 && (digits.len() - at).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

impl fmt::Debug for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

/// A number of tape blocks (records), not a position.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct BlockCount(pub u64);

/// A logical object number within one partition: records and file marks both count, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct BlockAddress(pub u64);

impl fmt::Display for BlockAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// A partition of an LTFS volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Partition {
    /// SCSI partition 0, LTFS id `a`.
    Index,
    /// SCSI partition 1, LTFS id `b`.
    Data,
}

impl Partition {
    /// The LTFS id.
    #[must_use]
    pub fn ltfs_id(self) -> char {
        match self {
            Partition::Index => 'a',
            Partition::Data => 'b',
        }
    }

    /// The SCSI partition number.
    #[must_use]
    pub fn scsi_number(self) -> u8 {
        match self {
            Partition::Index => 0,
            Partition::Data => 1,
        }
    }
}

/// Where a tape stands: the object that a read or write would touch next.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TapePosition {
    /// The partition.
    pub partition: Partition,
    /// The object within it.
    pub block: BlockAddress,
}

/// The generation of an LTFS index; 1 is what a fresh volume holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Generation(pub u64);

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: `kist status` called a pool 90% full that its own warning called 89% full.
    #[test]
    fn percents_are_rounded_down_in_one_place() {
        let percent = |used, capacity| percent(ByteCount(used), ByteCount(capacity));
        assert_eq!(
            (percent(899, 1_000), percent(999, 1_000), percent(1_000, 1_000)),
            (Some(89), Some(99), Some(100))
        );
        assert_eq!((percent(5, 0), percent(u64::MAX, u64::MAX)), (None, Some(100)));
    }

    #[test]
    fn byte_counts_read_and_print() {
        for (text, bytes) in [("0", 0), ("512", 512), ("64MiB", 64 << 20), ("20 GB", 20_000_000_000)] {
            assert_eq!(ByteCount::parse(text), Some(ByteCount(bytes)), "{text}");
        }
        for bad in ["", "MiB", "-1", "1.5GB", "1 XB", "99999999999999999999", "9999999PiB"] {
            assert_eq!(ByteCount::parse(bad), None, "{bad}");
        }
        for (bytes, text) in
            [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (1_213_000_000, "1.21 GB"), (999_999, "1.00 MB")]
        {
            assert_eq!(ByteCount(bytes).to_string(), text);
        }
    }
}
