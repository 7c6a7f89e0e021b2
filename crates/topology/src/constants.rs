//! What links and disks carry, each number with its source.

/// Where a number is from.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Constant {
    /// What it is of.
    pub name: &'static str,
    /// The number.
    pub value: f64,
    /// Its unit; empty for a share.
    pub unit: &'static str,
    /// Where it was read, or from what it follows.
    pub source: &'static str,
    /// Whether it was read there, or follows from what was.
    pub verified: bool,
}

/// The share of a SAS link's bytes that are data. KISTI's slides say 80 %, their numbers have 11/12.
pub const SAS_SHARE: Constant = Constant {
    name: "SAS: data of a link's bytes",
    value: 11.0 / 12.0,
    unit: "",
    source: "the numbers of KISTI's table (DOMA-QoS workshop, 7 Feb 2020): 2200 of 2400, 4400 of 4800 MB/s",
    verified: true,
};

/// The share of a PCI Express link's bytes that are data.
pub const PCIE_SHARE: Constant = Constant {
    name: "PCIe: data of a link's bytes",
    value: 0.80,
    unit: "",
    source: "KISTI's table (DOMA-QoS workshop, 7 Feb 2020): 3200 of 4000, 6400 of 8000 MB/s",
    verified: true,
};

/// What KISTI took for a lane of PCI Express generation 3.
pub const PCIE3_LANE_KISTI: Constant = Constant {
    name: "PCIe generation 3: a lane, as KISTI took it",
    value: 1000.0,
    unit: "MB/s",
    source: "KISTI's table (DOMA-QoS workshop, 7 Feb 2020); 8 GT/s without the coding",
    verified: true,
};

/// How fast a disk that turns reads and writes large files.
pub const HDD_RATE: Constant = Constant {
    name: "HDD: large files",
    value: 230.0,
    unit: "MB/s",
    source: "printed in KISTI's table (DOMA-QoS workshop, 7 Feb 2020); its counts fit 220.7 to 228.6",
    verified: true,
};

/// The same so that KISTI's printed counts come out.
pub const HDD_RATE_FITTED: Constant = Constant {
    name: "HDD: large files, fitted to KISTI's counts",
    value: 225.0,
    unit: "MB/s",
    source: "the counts 9, 14, 14, 19, 28 of KISTI's table, rounded down",
    verified: true,
};

/// How fast a flash disk behind SAS or SATA reads and writes large files.
pub const SSD_RATE: Constant = Constant {
    name: "SSD behind SAS or SATA: large files",
    value: 500.0,
    unit: "MB/s",
    source: "the counts of KISTI's table fit 492 to 533",
    verified: true,
};

/// How fast a drive behind NVMe is: as fast as its link lets it.
pub const NVME_RATE: Constant = Constant {
    name: "NVMe drive: large files, if its link is faster",
    value: 7000.0,
    unit: "MB/s",
    source: "usual data sheets of drives with four lanes of generation 4",
    verified: false,
};

/// What one link between two sockets carries in a direction.
pub const SOCKET_LINK: Constant = Constant {
    name: "between two NUMA nodes: one link, one direction",
    value: 19_200.0,
    unit: "MB/s",
    source: "Intel QPI of 9.6 GT/s x 2 bytes; newer machines have two or three such links, and faster ones",
    verified: false,
};

/// All that can appear in a report.
pub const ALL: [Constant; 8] =
    [SAS_SHARE, PCIE_SHARE, PCIE3_LANE_KISTI, HDD_RATE, HDD_RATE_FITTED, SSD_RATE, NVME_RATE, SOCKET_LINK];

/// Megabytes a second on a SAS lane before [`SAS_SHARE`]: 8b/10b coding up to 12 Gbit/s, 128b/150b at 22.5
/// Gbit/s (SPL-4 and SPL-5, physical layer).
#[must_use]
pub fn sas_lane(megabits: u32) -> f64 {
    let coded = if megabits > 12_000 { 128.0 / 150.0 } else { 0.8 };
    f64::from(megabits) * coded / 8.0
}

/// Megabytes a second on a lane of PCI Express before [`PCIE_SHARE`]: 8b/10b coding up to 5 GT/s, 128b/130b
/// up to 32 GT/s, flits of 256 bytes with 242 of data at 64 GT/s (PCI Express Base Specification 6.0, 1.2
/// and 4.2).
#[must_use]
pub fn pcie_lane(megatransfers: u32) -> f64 {
    let coded = match megatransfers {
        0..=5_000 => 0.8,
        5_001..=32_000 => 128.0 / 130.0,
        _ => 242.0 / 256.0,
    };
    f64::from(megatransfers) * coded / 8.0
}

/// The share of an Ethernet link's bytes that are data of TCP over IPv4: of each packet 40 bytes are headers,
/// and around it are 38 of frame, preamble and gap (IEEE 802.3, RFC 791, RFC 9293).
#[must_use]
pub fn ethernet_share(mtu: u32) -> f64 {
    let mtu = f64::from(mtu.clamp(68, 65_536));
    (mtu - 40.0) / (mtu + 38.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_as_the_reference_has_them() {
        let usable = |lanes: u32, transfers| f64::from(lanes) * pcie_lane(transfers) * PCIE_SHARE.value;
        for (lanes, transfers, expected) in [
            (8, 5_000, 3200.0),
            (8, 8_000, 6302.0),
            (8, 16_000, 12_603.0),
            (16, 16_000, 25_206.0),
            (8, 32_000, 25_206.0),
            (16, 32_000, 50_412.0),
        ] {
            assert_eq!(usable(lanes, transfers).round(), expected, "{lanes} x {transfers}");
        }
        let usable = |lanes: u32, megabits| f64::from(lanes) * sas_lane(megabits) * SAS_SHARE.value;
        for (lanes, megabits, expected) in [
            (4, 6_000, 2200.0),
            (8, 6_000, 4400.0),
            (4, 12_000, 4400.0),
            (8, 12_000, 8800.0),
            (4, 22_500, 8800.0),
            (8, 22_500, 17_600.0),
        ] {
            assert_eq!(usable(lanes, megabits).round(), expected, "{lanes} x {megabits}");
        }
        assert!((ethernet_share(1500) - 0.949).abs() < 0.001 && (ethernet_share(9000) - 0.991).abs() < 0.001);
    }

    #[test]
    fn every_constant_has_a_source() {
        assert!(ALL.iter().all(|one| !one.source.is_empty() && one.value > 0.0 && !one.name.is_empty()));
    }
}
