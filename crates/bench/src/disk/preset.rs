//! Loads that sites have measured and published.
//!
//! What was not published is ours and stands here as such: no page of either site gives all settings.

use base::ByteCount;
use disk_load::{Access, Mix};

/// A site's load.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preset {
    /// KISTI, VDBench: sizes from 4 KiB to 16 MiB on a JBOD, read, write and 95:5
    KistiVdbench,
    /// KISTI, IOZone: files of 2 GB, written and read in order
    KistiIozone,
    /// KIT: two reads for each write in large blocks, beside a tape drive that reads
    Kit,
}

/// What a preset settles; the rest is as usual.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Sizes of operations.
    pub sizes: Option<Vec<ByteCount>>,
    /// Mixes.
    pub mixes: Option<Vec<Mix>>,
    /// Orders.
    pub access: Option<Vec<Access>>,
    /// Operations under way at once.
    pub depth: Option<u32>,
    /// Bytes of a file.
    pub bytes: Option<ByteCount>,
    /// Bytes a second of a tape drive.
    pub stream: Option<u64>,
}

/// KISTI's files (DOMA-QoS workshop, 7 February 2020): 70 disks of 12 TB, XFS, full rate from 2 MiB on.
const KISTI_FILE: ByteCount = ByteCount(2_000_000_000);
/// What KIT's drives read from the cache at (doi 10.5445/IR/1000167191): 400 MB/s; two reads a write.
const KIT_STREAM: u64 = 400_000_000;
const KIT_MIX: &str = "2:1";
/// Both tools have one thread a file, if nothing else is said.
const KISTI_DEPTH: u32 = 1;

fn kibibytes(sizes: &[u64]) -> Option<Vec<ByteCount>> {
    Some(sizes.iter().map(|size| ByteCount(size << 10)).collect())
}

fn mix(text: &str) -> Mix {
    Mix::parse(text).unwrap_or(Mix::READ)
}

impl Preset {
    /// Its settings.
    pub fn settings(self) -> Settings {
        match self {
            Preset::KistiVdbench => Settings {
                sizes: kibibytes(&[4, 16, 64, 256, 1_024, 2_048, 4_096, 8_192, 16_384]),
                mixes: Some(vec![Mix::READ, mix("95:5"), Mix::WRITE]),
                access: Some(vec![Access::Sequential, Access::Random]),
                depth: Some(KISTI_DEPTH),
                bytes: Some(KISTI_FILE),
                stream: None,
            },
            Preset::KistiIozone => Settings {
                sizes: kibibytes(&[64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192, 16_384]),
                mixes: Some(vec![Mix::READ, Mix::WRITE]),
                access: Some(vec![Access::Sequential]),
                depth: Some(KISTI_DEPTH),
                bytes: Some(KISTI_FILE),
                stream: None,
            },
            Preset::Kit => Settings {
                sizes: kibibytes(&[1_024, 4_096, 16_384]),
                mixes: Some(vec![mix(KIT_MIX)]),
                access: Some(vec![Access::Sequential, Access::Random]),
                depth: Some(8),
                bytes: None,
                stream: Some(KIT_STREAM),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixes_of_presets_are_what_they_say() {
        assert_eq!(Preset::Kit.settings().mixes, Some(vec![Mix::parse(KIT_MIX).unwrap()]));
        let vdbench = Preset::KistiVdbench.settings().mixes.unwrap();
        assert_eq!(vdbench.iter().map(Mix::to_string).collect::<Vec<_>>(), ["read", "95:5", "write"]);
    }
}
