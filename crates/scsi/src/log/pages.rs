//! What the parameters of log pages mean (SSC-5, 8.3; page 31h the IBM LTO SCSI reference, 6.4.20).

use super::{LogPage, LogParameter, page};
use crate::bytes::{Layout, Malformed, Packed};
use crate::code::codes;

/// Names numbers: codes of parameters.
macro_rules! parameters {
    ($(#[$meta:meta])* $module:ident { $($(#[$doc:meta])* $name:ident = $code:literal,)* }) => {
        $(#[$meta])*
        pub mod $module {
            $($(#[$doc])* pub const $name: u16 = $code;)*
        }
    };
}

parameters! {
    /// Parameters of the error counter pages 02h and 03h (SPC-5, 7.3.8).
    error_counter {
        /// Errors corrected without substantial delay.
        CORRECTED_AT_ONCE = 0x0000,
        /// Errors corrected with possible delays.
        CORRECTED_LATE = 0x0001,
        /// Rewrites or rereads in total.
        RETRIES = 0x0002,
        /// Errors corrected in total.
        CORRECTED = 0x0003,
        /// How often the correction algorithm was used.
        ALGORITHM_USED = 0x0004,
        /// Bytes processed.
        BYTES = 0x0005,
        /// Errors that were not corrected.
        UNCORRECTED = 0x0006,
    }
}

parameters! {
    /// Parameters of the sequential access device page 0Ch (SSC-5, 8.3.2).
    sequential_access {
        /// Bytes that came from hosts, before compression.
        BYTES_FROM_HOST = 0x0000,
        /// Bytes written to the medium, as compressed.
        BYTES_TO_MEDIUM = 0x0001,
        /// Bytes read from the medium, as compressed.
        BYTES_FROM_MEDIUM = 0x0002,
        /// Bytes that went to hosts, after decompression.
        BYTES_TO_HOST = 0x0003,
        /// Megabytes from the begin of the partition to its end of data.
        NATIVE_TO_END_OF_DATA = 0x0004,
        /// Megabytes from the begin of the partition to early warning.
        NATIVE_TO_EARLY_WARNING = 0x0005,
        /// Megabytes from early warning to the end of the partition, at least.
        NATIVE_BEHIND_EARLY_WARNING = 0x0006,
        /// Megabytes from the begin of the partition to the position.
        NATIVE_TO_POSITION = 0x0007,
        /// Megabytes that the buffer can hold.
        NATIVE_IN_BUFFER = 0x0008,
        /// Not zero: the drive wants to be cleaned.
        CLEANING_REQUESTED = 0x0100,
    }
}

parameters! {
    /// Parameters of the device statistics page 14h (SSC-5, 8.3.6): over the drive's life if nothing else is
    /// said.
    device_statistics {
        /// Volumes loaded.
        LOADS = 0x0000,
        /// Cleanings.
        CLEANINGS = 0x0001,
        /// Hours with power.
        POWER_ON_HOURS = 0x0002,
        /// Hours with the medium in motion.
        MOTION_HOURS = 0x0003,
        /// Metres of tape.
        METRES = 0x0004,
        /// Hours with the medium in motion since the last cleaning.
        MOTION_HOURS_SINCE_CLEANING = 0x0008,
        /// Times that power came on.
        POWER_CYCLES = 0x000c,
        /// Volumes loaded since the page was reset.
        LOADS_SINCE_RESET = 0x000d,
        /// Write errors that could not be corrected.
        HARD_WRITE_ERRORS = 0x000e,
        /// Read errors that could not be corrected.
        HARD_READ_ERRORS = 0x000f,
        /// The drive's serial number as its manufacturer gave it.
        MANUFACTURER_SERIAL = 0x0040,
        /// The drive's serial number.
        SERIAL = 0x0041,
        /// Removal of the medium is prevented.
        REMOVAL_PREVENTED = 0x0080,
        /// The greatest recommended temperature was exceeded.
        TOO_HOT = 0x0081,
    }
}

parameters! {
    /// Parameters of the volume statistics page 17h (SSC-5, 8.3.9).
    volume_statistics {
        /// Not zero: the page is about a volume that is loaded.
        PAGE_VALID = 0x0000,
        /// Times that the volume was threaded.
        THREADS = 0x0001,
        /// Data sets written.
        DATA_SETS_WRITTEN = 0x0002,
        /// Write retries.
        WRITE_RETRIES = 0x0003,
        /// Write errors that could not be corrected.
        UNRECOVERED_WRITE_ERRORS = 0x0004,
        /// Writes that were suspended.
        SUSPENDED_WRITES = 0x0005,
        /// Writes that were suspended and failed.
        FATAL_SUSPENDED_WRITES = 0x0006,
        /// Data sets read.
        DATA_SETS_READ = 0x0007,
        /// Read retries.
        READ_RETRIES = 0x0008,
        /// Read errors that could not be corrected.
        UNRECOVERED_READ_ERRORS = 0x0009,
        /// Reads that were suspended.
        SUSPENDED_READS = 0x000a,
        /// Reads that were suspended and failed.
        FATAL_SUSPENDED_READS = 0x000b,
        /// Write errors that could not be corrected, of the last mount.
        LAST_UNRECOVERED_WRITE_ERRORS = 0x000c,
        /// Read errors that could not be corrected, of the last mount.
        LAST_UNRECOVERED_READ_ERRORS = 0x000d,
        /// Megabytes written, of the last mount.
        LAST_MEGABYTES_WRITTEN = 0x000e,
        /// Megabytes read, of the last mount.
        LAST_MEGABYTES_READ = 0x000f,
        /// Megabytes written.
        MEGABYTES_WRITTEN = 0x0010,
        /// Megabytes read.
        MEGABYTES_READ = 0x0011,
        /// Compression of what the last mount wrote, in hundredths.
        LAST_WRITE_COMPRESSION = 0x0012,
        /// Compression of what the last mount read, in hundredths.
        LAST_READ_COMPRESSION = 0x0013,
        /// Milliseconds that the medium took to mount.
        MOUNT_MILLISECONDS = 0x0014,
        /// Milliseconds that the medium took to be ready.
        READY_MILLISECONDS = 0x0015,
        /// Megabytes that the volume holds without compression.
        NATIVE_CAPACITY = 0x0016,
        /// Megabytes of that in use.
        NATIVE_USED = 0x0017,
        /// The volume's serial number.
        SERIAL = 0x0040,
        /// The tape lot.
        LOT = 0x0041,
        /// The barcode.
        BARCODE = 0x0042,
        /// The manufacturer.
        MANUFACTURER = 0x0043,
        /// The license code.
        LICENSE = 0x0044,
        /// What the volume is: its personality.
        PERSONALITY = 0x0045,
        /// The date of manufacture.
        MANUFACTURED = 0x0046,
        /// Not zero: write protected.
        WRITE_PROTECTED = 0x0080,
        /// Not zero: WORM.
        WORM = 0x0081,
        /// Not zero: the greatest recommended temperature was exceeded.
        TOO_HOT = 0x0082,
        /// Passes over the begin of the medium.
        PASSES_BEGIN = 0x0101,
        /// Passes over its middle.
        PASSES_MIDDLE = 0x0102,
        /// The first encrypted block of each partition.
        FIRST_ENCRYPTED = 0x0200,
        /// The first block that is not encrypted behind it.
        FIRST_UNENCRYPTED = 0x0201,
        /// Megabytes that each partition holds without compression.
        PARTITION_CAPACITY = 0x0202,
        /// Megabytes of that in use.
        PARTITION_USED = 0x0203,
        /// Megabytes of that left.
        PARTITION_REMAINING = 0x0204,
        /// The drives that had it last.
        MOUNT_HISTORY = 0x0300,
    }
}

parameters! {
    /// Parameters of the data compression page 1Bh (SSC-5, 8.3.10).
    compression {
        /// Of what was read, in hundredths.
        READ_RATIO = 0x0000,
        /// Of what was written, in hundredths.
        WRITE_RATIO = 0x0001,
        /// Megabytes to hosts.
        MEGABYTES_TO_HOST = 0x0002,
        /// And bytes beyond these.
        BYTES_TO_HOST = 0x0003,
        /// Megabytes from the medium.
        MEGABYTES_FROM_MEDIUM = 0x0004,
        /// And bytes beyond these.
        BYTES_FROM_MEDIUM = 0x0005,
        /// Megabytes from hosts.
        MEGABYTES_FROM_HOST = 0x0006,
        /// And bytes beyond these.
        BYTES_FROM_HOST = 0x0007,
        /// Megabytes to the medium.
        MEGABYTES_TO_MEDIUM = 0x0008,
        /// And bytes beyond these.
        BYTES_TO_MEDIUM = 0x0009,
        /// Not zero: compression is on.
        ENABLED = 0x0100,
    }
}

parameters! {
    /// Parameters of the tape capacity page 31h, in 1,048,576 bytes.
    capacity {
        /// Left in partition 0.
        MAIN_REMAINING = 0x0001,
        /// Left in partition 1.
        ALTERNATE_REMAINING = 0x0002,
        /// All of partition 0.
        MAIN_MAXIMUM = 0x0003,
        /// All of partition 1.
        ALTERNATE_MAXIMUM = 0x0004,
    }
}

/// The temperature page 0Dh (SPC-5, 7.3.21).
pub mod temperature {
    use super::LogPage;

    /// The temperature now.
    pub const NOW: u16 = 0x0000;
    /// The greatest at which the device works all the time.
    pub const REFERENCE: u16 = 0x0001;
    /// The value of one that is not known.
    const UNKNOWN: u8 = 0xff;

    /// The temperature now in degrees Celsius, `None` if the device does not know it.
    #[must_use]
    pub fn celsius(log: &LogPage) -> Option<u8> {
        let [_, celsius] = *log.find(NOW)?.value.as_slice() else { return None };
        (celsius != UNKNOWN).then_some(celsius)
    }
}

codes! {
    open
    /// What a drive is doing (SSC-5 and ADC-4, very high frequency data).
    Activity {
        None = 0x00 "nothing",
        Cleaning = 0x01 "cleaning",
        Loading = 0x02 "loading",
        Unloading = 0x03 "unloading",
        OtherMedium = 0x04 "something else with the medium",
        Reading = 0x05 "reading",
        Writing = 0x06 "writing",
        Locating = 0x07 "locating",
        Rewinding = 0x08 "rewinding",
        Erasing = 0x09 "erasing",
        Formatting = 0x0a "formatting",
        Calibrating = 0x0b "calibrating",
        OtherDevice = 0x0c "something else",
        Microcode = 0x0d "updating its microcode",
        ReadingEncrypted = 0x0e "reading, encrypted",
        WritingEncrypted = 0x0f "writing, encrypted",
    }
}

/// The first parameter of the DT device status page 11h: very high frequency data (SSC-5, 8.3.4).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceStatus {
    /// Removal of the medium is prevented.
    pub removal_prevented: bool,
    /// The host has asked for an unload.
    pub unload_requested: bool,
    /// The cartridge memory can be read.
    pub memory_accessible: bool,
    /// Data is compressed.
    pub compressing: bool,
    /// The medium is write protected.
    pub write_protected: bool,
    /// Cleaning is requested.
    pub cleaning_requested: bool,
    /// Cleaning is required.
    pub cleaning_required: bool,
    /// The drive is initialized.
    pub initialized: bool,
    /// The drive is in a transition.
    pub in_transition: bool,
    /// A robot may access the medium.
    pub robotic_access: bool,
    /// A medium is there.
    pub medium_present: bool,
    /// It is seated.
    pub medium_seated: bool,
    /// It is threaded.
    pub medium_threaded: bool,
    /// It is mounted.
    pub medium_mounted: bool,
    /// What the drive is doing.
    pub activity: Activity,
    /// Encryption parameters are there.
    pub encryption_parameters: bool,
    /// An interface changed.
    pub interface_changed: bool,
    /// A TapeAlert flag changed.
    pub tape_alert_changed: bool,
}

impl Packed for DeviceStatus {
    const NAME: &'static str = "very high frequency data";
    const LENGTH: usize = 4;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.flag(0, 7, &mut self.removal_prevented);
        l.flag(0, 6, &mut self.unload_requested);
        l.flag(0, 5, &mut self.memory_accessible);
        l.flag(0, 4, &mut self.compressing);
        l.flag(0, 3, &mut self.write_protected);
        l.flag(0, 2, &mut self.cleaning_requested);
        l.flag(0, 1, &mut self.cleaning_required);
        l.flag(0, 0, &mut self.initialized);
        l.flag(1, 7, &mut self.in_transition);
        l.flag(1, 5, &mut self.robotic_access);
        l.flag(1, 4, &mut self.medium_present);
        l.flag(1, 2, &mut self.medium_seated);
        l.flag(1, 1, &mut self.medium_threaded);
        l.flag(1, 0, &mut self.medium_mounted);
        l.code(2, 0, 8, "the activity", &mut self.activity);
        l.flag(3, 4, &mut self.encryption_parameters);
        l.flag(3, 1, &mut self.interface_changed);
        l.flag(3, 0, &mut self.tape_alert_changed);
    }
}

impl DeviceStatus {
    /// From page 11h. `None` if the page has no such parameter.
    ///
    /// # Errors
    /// If it is too short.
    pub fn of_log(log: &LogPage) -> Result<Option<DeviceStatus>, Malformed> {
        log.find(0).map(|parameter| DeviceStatus::decode(&parameter.value)).transpose()
    }
}

/// TapeAlert flags (SSC-5, annex A): flag 1 is the highest bit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TapeAlerts(pub u64);

impl TapeAlerts {
    /// With this flag, 1 to 64; others change nothing.
    #[must_use]
    pub fn with(self, flag: u8) -> TapeAlerts {
        TapeAlerts(self.0 | TapeAlerts::bit(flag))
    }

    fn bit(flag: u8) -> u64 {
        if (1..=64).contains(&flag) { 1 << (64 - flag) } else { 0 }
    }

    /// Whether the flag is set.
    #[must_use]
    pub fn has(self, flag: u8) -> bool {
        self.0 & TapeAlerts::bit(flag) != 0
    }

    /// The flags that are set.
    pub fn flags(self) -> impl Iterator<Item = u8> {
        (1..=64).filter(move |flag| self.has(*flag))
    }

    /// From page 2Eh, which has a parameter for each flag.
    #[must_use]
    pub fn of_log(log: &LogPage) -> TapeAlerts {
        let set = log
            .parameters
            .iter()
            .filter(|parameter| parameter.value.last().is_some_and(|byte| byte & 1 == 1));
        set.filter_map(|parameter| u8::try_from(parameter.code).ok()).fold(TapeAlerts(0), TapeAlerts::with)
    }

    /// As page 2Eh.
    #[must_use]
    pub fn to_log(self) -> LogPage {
        let one = |flag: u8| {
            LogParameter::of_number(u16::from(flag), LogParameter::BINARY_LIST, 1, u64::from(self.has(flag)))
        };
        LogPage { code: page::TAPE_ALERT, parameters: (1..=64).map(one).collect(), ..LogPage::default() }
    }

    /// From page 12h, which has all flags in its first parameter. `None` if that is missing or has not eight
    /// bytes.
    #[must_use]
    pub fn of_response(log: &LogPage) -> Option<TapeAlerts> {
        let value = log.find(0)?.value.as_slice().try_into().ok()?;
        Some(TapeAlerts(u64::from_be_bytes(value)))
    }

    /// As page 12h.
    #[must_use]
    pub fn to_response(self) -> LogPage {
        let all = LogParameter::of_number(0, LogParameter::BINARY_LIST, 8, self.0);
        LogPage { code: page::TAPE_ALERT_RESPONSE, parameters: vec![all], ..LogPage::default() }
    }
}

/// The name of a TapeAlert flag.
#[must_use]
pub fn tape_alert_name(flag: u8) -> Option<&'static str> {
    let index = usize::from(flag).checked_sub(1)?;
    TAPE_ALERTS.get(index).copied().filter(|name| !name.is_empty())
}

/// Names of TapeAlert flags, the first is that of flag 1; empty if obsolete.
pub const TAPE_ALERTS: [&str; 64] = [
    "read warning",
    "write warning",
    "hard error",
    "medium",
    "read failure",
    "write failure",
    "medium life",
    "not data grade",
    "write protect",
    "medium removal prevented",
    "cleaning medium",
    "unsupported format",
    "recoverable mechanical cartridge failure",
    "unrecoverable mechanical cartridge failure",
    "memory chip in cartridge failure",
    "forced eject",
    "read only format",
    "tape directory corrupted on load",
    "nearing medium life",
    "cleaning required",
    "cleaning requested",
    "expired cleaning medium",
    "invalid cleaning medium",
    "retension requested",
    "multi-port interface error on a primary port",
    "cooling fan failure",
    "power supply failure",
    "power consumption",
    "drive preventive maintenance required",
    "hardware A",
    "hardware B",
    "primary interface",
    "eject medium",
    "microcode update failure",
    "drive humidity",
    "drive temperature",
    "drive voltage",
    "predictive failure",
    "diagnostics required",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "diminished native capacity",
    "lost statistics",
    "tape directory invalid at unload",
    "tape system area write failure",
    "tape system area read failure",
    "no start of data",
    "loading or threading failure",
    "unrecoverable unload failure",
    "automation interface failure",
    "microcode failure",
    "WORM volume integrity check failed",
    "WORM volume overwrite attempted",
    "",
    "",
    "",
    "",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::{hex, packed};

    #[test]
    fn flags_are_counted_from_the_left() {
        let alerts = TapeAlerts::default().with(1).with(20).with(64).with(0).with(65);
        assert_eq!(alerts.0, 1 << 63 | 1 << 44 | 1);
        assert_eq!(alerts.flags().collect::<Vec<_>>(), [1, 20, 64]);
        assert_eq!(TapeAlerts::of_log(&alerts.to_log()), alerts);
        assert_eq!(TapeAlerts::of_response(&alerts.to_response()), Some(alerts));
        assert_eq!(alerts.to_log().encode()[..14], hex("2e 00 01 40 00 01 03 01 01 00 02 03 01 00"));
        assert_eq!(
            (tape_alert_name(20), tape_alert_name(40), tape_alert_name(0)),
            (Some("cleaning required"), None, None)
        );
    }

    #[test]
    fn a_drive_says_what_it_is_doing() {
        packed::<DeviceStatus>();
        let status = DeviceStatus::decode(&[0x21, 0x17, 0x07, 0x01]).unwrap();
        // As sg_logs (sg3_utils 2.10) names the bits.
        assert_eq!(DeviceStatus::usage(), [0xff, 0xb7, 0xff, 0x13]);
        assert!(status.memory_accessible && status.medium_mounted && status.tape_alert_changed);
        assert_eq!(status.activity, Activity::Locating);
    }
}
