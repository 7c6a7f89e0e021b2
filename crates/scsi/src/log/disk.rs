//! What log parameters of disks mean (SPC-5, 7.3; those of the medium SBC-4, 6.4; of SAS ports SPL-4, 9.2.8).

use super::{LogPage, LogParameter};
use crate::bytes::{Malformed, Reader};
use crate::code::codes;

/// Parameters of the temperature page beyond the present one: see [`super::temperature`].
pub mod start_stop {
    /// Starts and stops that the disk was made for.
    pub const CYCLES_SPECIFIED: u16 = 0x0003;
    /// Starts and stops so far.
    pub const CYCLES: u16 = 0x0004;
}

/// Whether the device expects to fail: the informational exceptions page 2Fh (SPC-5, 7.3.11).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Informational {
    /// The additional sense code: 5Dh means that a failure is expected, 0Bh is a warning, 00h is neither.
    pub code: u8,
    /// What qualifies it.
    pub qualifier: u8,
    /// The temperature in degrees Celsius, if the device tells it here.
    pub celsius: Option<u8>,
}

impl Informational {
    const FAILURE_EXPECTED: u8 = 0x5d;
    const WARNING: u8 = 0x0b;

    /// Takes it from its page; `None` if the page does not have it.
    #[must_use]
    pub fn of_log(log: &LogPage) -> Option<Informational> {
        let value = log.find(0)?.value.as_slice();
        let (code, qualifier) = (*value.first()?, *value.get(1)?);
        let celsius = value.get(2).copied().filter(|celsius| !matches!(celsius, 0 | 0xff));
        Some(Informational { code, qualifier, celsius })
    }

    /// The device expects to fail.
    #[must_use]
    pub fn is_failure_expected(self) -> bool {
        self.code == Informational::FAILURE_EXPECTED
    }

    /// The device warns of its state, such as its temperature.
    #[must_use]
    pub fn is_warning(self) -> bool {
        self.code == Informational::WARNING
    }
}

/// The temperature above which the device is not to work, in degrees Celsius (page 0Dh).
#[must_use]
pub fn reference_celsius(log: &LogPage) -> Option<u8> {
    let [_, celsius] = *log.find(super::temperature::REFERENCE)?.value.as_slice() else { return None };
    (celsius != 0xff && celsius != 0).then_some(celsius)
}

/// Percent of a flash drive's life that are used (page 11h, parameter 0001h; SBC-4, 6.4.8). May exceed 100.
#[must_use]
pub fn life_used(log: &LogPage) -> Option<u8> {
    log.find(1)?.value.get(3).copied()
}

/// What a disk found when it read its medium by itself (page 15h; SBC-4, 6.4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BackgroundScan {
    /// Hours with power.
    pub power_on_hours: u32,
    /// Passes over the medium so far.
    pub scans: u16,
    /// Defects that are listed.
    pub defects: u32,
}

impl BackgroundScan {
    /// Codes of parameters that are a defect each (SBC-4, table of the background scan log page).
    const DEFECTS: std::ops::RangeInclusive<u16> = 0x0001..=0x0800;

    /// Takes it from its page; `None` if the page has no status.
    #[must_use]
    pub fn of_log(log: &LogPage) -> Option<BackgroundScan> {
        let status = log.find(0)?.value.as_slice();
        let mut reader = Reader::new("background scan status", status);
        let minutes = reader.u32().ok()?;
        reader.take(2).ok()?;
        let scans = reader.u16().ok()?;
        let is_defect = |parameter: &&LogParameter| BackgroundScan::DEFECTS.contains(&parameter.code);
        let defects = log.parameters.iter().filter(is_defect).count();
        let defects = u32::try_from(defects).unwrap_or(u32::MAX);
        Some(BackgroundScan { power_on_hours: minutes / 60, scans, defects })
    }
}

codes! {
    open
    /// How fast a link runs, or why it does not (SPL-4, table of the negotiated logical link rate).
    LinkRate {
        Unknown = 0x0 "unknown",
        Disabled = 0x1 "disabled",
        ResetProblem = 0x2 "reset problem",
        SpinUpHold = 0x3 "spin-up hold",
        PortSelector = 0x4 "port selector",
        ResetInProgress = 0x5 "reset in progress",
        Unsupported = 0x6 "no supported phy attached",
        G1 = 0x8 "1.5 Gbit/s",
        G2 = 0x9 "3 Gbit/s",
        G3 = 0xa "6 Gbit/s",
        G4 = 0xb "12 Gbit/s",
        G5 = 0xc "22.5 Gbit/s",
    }
}

impl LinkRate {
    /// Megabits a second on the wire; `None` if the link does not run.
    #[must_use]
    pub fn megabits(self) -> Option<u32> {
        match self {
            LinkRate::G1 => Some(1_500),
            LinkRate::G2 => Some(3_000),
            LinkRate::G3 => Some(6_000),
            LinkRate::G4 => Some(12_000),
            LinkRate::G5 => Some(22_500),
            _ => None,
        }
    }
}

/// A phy of a device, as it sees itself (page 18h; SPL-4, 9.2.8.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortPhy {
    /// Its number.
    pub number: u8,
    /// How fast its link runs.
    pub rate: LinkRate,
    /// Its own SAS address.
    pub address: u64,
    /// The SAS address at the other end.
    pub attached: u64,
    /// The number of the phy at the other end.
    pub attached_phy: u8,
    /// Words that were no words.
    pub invalid_dwords: u32,
    /// Words whose disparity was wrong.
    pub disparity_errors: u32,
    /// Times that synchronisation was lost.
    pub sync_losses: u32,
    /// Resets that did not succeed.
    pub reset_problems: u32,
}

/// The ports of a SAS device by their relative numbers, each with its phys.
///
/// # Errors
/// If a parameter is cut off. Parameters of other protocols are left out.
pub fn ports(log: &LogPage) -> Result<Vec<(u16, Vec<PortPhy>)>, Malformed> {
    const SAS: u8 = 6;
    let mut all = Vec::new();
    for parameter in &log.parameters {
        let mut reader = Reader::new("SAS port log parameter", &parameter.value);
        let [protocol, _, _, count] = reader.array()?;
        if protocol & 0x0f != SAS {
            continue;
        }
        let mut phys = Vec::new();
        for _ in 0..count {
            let [_, number, _, length] = reader.array()?;
            let mut phy = reader.part("SAS phy log descriptor", usize::from(length))?;
            let [_, rate, _, _] = phy.array()?;
            let (address, attached) = (phy.u64()?, phy.u64()?);
            let [attached_phy, ..] = phy.array::<8>()?;
            let mut counter = || phy.u32();
            phys.push(PortPhy {
                number,
                rate: LinkRate::of(rate & 0x0f),
                address,
                attached,
                attached_phy,
                invalid_dwords: counter()?,
                disparity_errors: counter()?,
                sync_losses: counter()?,
                reset_problems: counter()?,
            });
        }
        all.push((parameter.code, phys));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::{any_bytes, hex};
    use crate::log::page;

    /// The example of SPL-4's tables: one port with one phy at 12 Gbit/s.
    const PORTS: &str = "
        18 00 00 38 00 01 03 34 06 00 00 01
        00 00 00 2c 20 0b 0e 00 50 00 c5 00 a1 b2 c3 d5 50 0a 09 80 00 12 34 bf 07 00 00 00 00 00 00 00
        00 00 00 05 00 00 00 06 00 00 00 07 00 00 00 08 00 00 00 00";

    #[test]
    fn phys_of_ports() {
        let log = LogPage::decode(&hex(PORTS)).unwrap();
        assert_eq!(log.code, page::PROTOCOL_PORT);
        let all = ports(&log).unwrap();
        let (1, phys) = &all[0] else { panic!("{all:?}") };
        let [phy] = phys[..] else { panic!("{phys:?}") };
        assert_eq!((phy.rate, phy.rate.megabits()), (LinkRate::G4, Some(12_000)));
        assert_eq!((phy.address, phy.attached), (0x5000_c500_a1b2_c3d5, 0x500a_0980_0012_34bf));
        let counters = (phy.invalid_dwords, phy.disparity_errors, phy.sync_losses, phy.reset_problems);
        assert_eq!((phy.attached_phy, counters), (7, (5, 6, 7, 8)));
    }

    #[test]
    fn a_disk_that_expects_to_fail_and_one_that_is_worn() {
        let expects = LogPage::decode(&hex("2f 00 00 08 00 00 03 04 5d 10 28 00")).unwrap();
        let read = Informational::of_log(&expects).unwrap();
        assert!(read.is_failure_expected() && !read.is_warning());
        assert_eq!(read.celsius, Some(40));
        let worn = LogPage::decode(&hex("11 00 00 08 00 01 03 04 00 00 00 63")).unwrap();
        assert_eq!(life_used(&worn), Some(99));
        let warm = LogPage::decode(&hex("0d 00 00 0c 00 00 03 02 00 22 00 01 03 02 00 3c")).unwrap();
        assert_eq!((crate::log::temperature::celsius(&warm), reference_celsius(&warm)), (Some(34), Some(60)));
    }

    #[test]
    fn defects_of_a_scan_are_counted() {
        let status = "00 00 03 0c 00 00 17 70 00 03 00 07 00 00 00 00";
        let defect = "03 14 00 00 17 70 50 11 0b 00 00 00 00 00 00 00 00 00 00 12 34 56";
        let page = format!("15 00 00 40 {status} 00 01 {defect} 00 02 {defect}");
        let log = LogPage::decode(&hex(&page)).unwrap();
        let read = BackgroundScan::of_log(&log).unwrap();
        assert_eq!(read, BackgroundScan { power_on_hours: 100, scans: 7, defects: 2 });
    }

    #[test]
    fn nothing_panics() {
        any_bytes(&[hex(PORTS)], |bytes| {
            if let Ok(log) = LogPage::decode(bytes) {
                let _ = (ports(&log), Informational::of_log(&log), BackgroundScan::of_log(&log));
                let _ = (life_used(&log), reference_celsius(&log));
            }
        });
    }
}
