//! What a target looks like.

use std::path::PathBuf;
use std::time::Duration;

use base::ByteCount;
use iscsi::login::Name;
use library::LibraryError;
use scsi::Text;
use scsi::density::Density;

/// How a cartridge that holds nothing is divided when it comes into a drive. What has been formatted through
/// this target keeps the division that it was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Blank {
    /// Into the partitions of the library's cartridges: 0 is the index partition, 1 the data partition.
    #[default]
    TwoPartitions,
    /// Not at all, as a new LTO cartridge: partition 0 is the data partition. For programs that know nothing
    /// of partitions.
    OnePartition,
}

/// How a target presents a library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Its iSCSI name.
    pub target: Name,
    /// The library's serial number; those of changer and drives are made from it. Printable ASCII, at most
    /// [`Options::SERIAL_MAX`] characters.
    pub serial: String,
    /// The vendor that changer and drives name.
    pub vendor: Text<8>,
    /// The changer's product.
    pub changer_product: Text<16>,
    /// The drives' product.
    pub drive_product: Text<16>,
    /// The revision of both.
    pub revision: Text<4>,
    /// Storage elements. `None`: one for each cartridge and [`Options::SLOTS_SPARE`] more.
    pub slots: Option<u16>,
    /// Import and export elements.
    pub import_export: u16,
    /// How blank cartridges are divided.
    pub blank: Blank,
    /// What volume tags have behind the VID, for example `L8`: at most 26 characters.
    pub barcode_suffix: String,
    /// The drives know their tapes' geometry: they recommend access orders and tell where wraps end, as
    /// drives of a library with timing do. If not, both commands are unknown to them.
    pub geometry: bool,
    /// A cartridge is taken out of a drive that was not told to unload it: the changer does that then.
    pub unload_on_move: bool,
    /// The density that the drives write.
    pub density: Density,
    /// When so much has passed through a drive it asks to be cleaned (TapeAlert 21), and after twice as much
    /// it must be (20). `None`: only if the library's drive asks for it.
    pub cleaning_after: Option<ByteCount>,
    /// How long a drive says that it cleans itself, after the library has cleaned it.
    pub cleaning_time: Duration,
    /// The file in which it is written down which cartridge stands in which element. `None`: that is
    /// forgotten when the target ends.
    pub places: Option<PathBuf>,
}

impl Options {
    /// The longest serial number of a library in characters.
    pub const SERIAL_MAX: usize = 20;
    /// The longest suffix of a volume tag in characters: a tag has 32, a VID 6.
    pub const SUFFIX_MAX: usize = 26;
    /// Free storage elements beside those for the cartridges that there are.
    pub const SLOTS_SPARE: u16 = 16;
    /// The most storage elements.
    pub const SLOTS_MAX: u16 = 60_000;
    /// The most import and export elements.
    pub const IMPORT_EXPORT_MAX: u16 = 128;
    /// The most drives: with the changer, what an iSCSI target may have units.
    pub const DRIVES_MAX: usize = iscsi::target::LUNS_MAX - 1;

    /// The usual ones under this name.
    #[must_use]
    pub fn new(target: Name) -> Options {
        Options {
            target,
            serial: "KISTVTL0".to_owned(),
            vendor: text("KIST"),
            changer_product: text("VIRTUAL LIBRARY"),
            drive_product: text("VIRTUAL DRIVE"),
            revision: text("0001"),
            slots: None,
            import_export: 4,
            blank: Blank::default(),
            barcode_suffix: String::new(),
            geometry: false,
            unload_on_move: false,
            density: lto8(),
            cleaning_after: None,
            cleaning_time: Duration::from_secs(2),
            places: None,
        }
    }

    /// Whether they can be used.
    ///
    /// # Errors
    /// [`TargetError`]: which one cannot.
    pub fn checked(&self) -> Result<(), TargetError> {
        let printable = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let serial_fits = (1..=Options::SERIAL_MAX).contains(&self.serial.len()) && printable(&self.serial);
        if !serial_fits {
            return Err(TargetError::Serial { serial: self.serial.clone() });
        }
        if self.barcode_suffix.len() > Options::SUFFIX_MAX || !printable(&self.barcode_suffix) {
            return Err(TargetError::Suffix { suffix: self.barcode_suffix.clone() });
        }
        if self.import_export > Options::IMPORT_EXPORT_MAX {
            return Err(TargetError::ImportExport { count: self.import_export });
        }
        Ok(())
    }
}

fn text<const N: usize>(value: &str) -> Text<N> {
    Text::new(value).unwrap_or_default()
}

/// LTO-8 as its drives report it (REPORT DENSITY SUPPORT; IBM LTO SCSI reference, table of densities).
fn lto8() -> Density {
    Density {
        primary: 0x5e,
        secondary: 0x5e,
        writable: true,
        default: true,
        bits_per_millimetre: 20_668,
        width_tenths: 127,
        tracks: 6_656,
        capacity_megabytes: 12_000_000,
        organization: text("LTO-CVE"),
        name: text("U-832"),
        description: text("Ultrium 8/32T"),
        ..Density::default()
    }
}

/// Why there is no target.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The serial number cannot be used.
    #[error("'{serial}' is no serial number: use 1 to {} printable characters of ASCII", Options::SERIAL_MAX)]
    Serial {
        /// What was configured.
        serial: String,
    },
    /// The suffix of volume tags cannot be used.
    #[error("'{suffix}' cannot stand behind a VID: use at most {} printable characters", Options::SUFFIX_MAX)]
    Suffix {
        /// What was configured.
        suffix: String,
    },
    /// Too many import and export elements.
    #[error("{count} import and export slots are too many: at most {}", Options::IMPORT_EXPORT_MAX)]
    ImportExport {
        /// What was configured.
        count: u16,
    },
    /// Too many drives.
    #[error("{count} drives are too many for one target: at most {}", Options::DRIVES_MAX)]
    Drives {
        /// What the library has.
        count: usize,
    },
    /// More cartridges than storage elements.
    #[error("{cartridges} cartridges do not fit {slots} slots: give the library more slots")]
    Slots {
        /// Cartridges of the library.
        cartridges: usize,
        /// Storage elements.
        slots: u16,
    },
    /// The library.
    #[error(transparent)]
    Library(#[from] LibraryError),
}
