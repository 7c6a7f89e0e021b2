//! The names of extents.

use std::fmt;

use base::BlobId;

/// One shard of one stripe of a blob: what a drive stores as one object.
///
/// Ids order by the low byte of the blob, then blob, stripe and shard. This is the order of
/// [`crate::ObjectDrive::list`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ExtentId {
    /// The blob.
    pub blob: BlobId,
    /// The stripe within the blob, from 0.
    pub stripe: u32,
    /// The shard within the stripe, from 0, data shards first.
    pub shard: u8,
}

impl ExtentId {
    /// The directory that holds the extent: the low byte of the blob's id.
    #[must_use]
    pub(crate) fn bucket(self) -> u8 {
        (self.blob.0 & 0xff) as u8
    }

    /// Reads a file name such as `0000030000000007.0.5`. `None` if no extent is named so.
    #[must_use]
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('.');
        let (blob, stripe, shard) = (parts.next()?, parts.next()?, parts.next()?);
        let id = ExtentId {
            blob: BlobId(u64::from_str_radix(blob, 16).ok()?),
            stripe: stripe.parse().ok()?,
            shard: shard.parse().ok()?,
        };
        // Comparing with the one true spelling refuses signs, leading zeros and capitals.
        (parts.next().is_none() && id.to_string() == name).then_some(id)
    }

    fn order(self) -> (u8, u64, u32, u8) {
        (self.bucket(), self.blob.0, self.stripe, self.shard)
    }
}

impl PartialOrd for ExtentId {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ExtentId {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order().cmp(&other.order())
    }
}

impl fmt::Display for ExtentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.blob, self.stripe, self.shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn odd_names_are_no_extents() {
        for bad in [
            "",
            "x",
            "0000000000000001.0",
            "0000000000000001.0.1.2",
            "1.0.0",
            "0000000000000001.+0.0",
            "0000000000000001.00.0",
            "000000000000000A.0.0",
            "0000000000000001.0.256",
        ] {
            assert_eq!(ExtentId::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn names_round_trip(blob in any::<u64>(), stripe in any::<u32>(), shard in any::<u8>()) {
            let id = ExtentId { blob: BlobId(blob), stripe, shard };
            prop_assert_eq!(ExtentId::parse(&id.to_string()), Some(id));
        }
    }
}
