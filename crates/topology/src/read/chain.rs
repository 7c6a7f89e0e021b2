//! What the place of a device in `/sys/devices` says: Linux nests each device in what it is attached to.

use crate::machine::{Hop, HostKind};

/// The steps of a place.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Chain {
    /// Functions on PCI from the processor on, each with whether it is directly below a root.
    pub pci: Vec<(String, bool)>,
    /// The SCSI host.
    pub host: Option<String>,
    /// Ports from the host on, each with the expander that it leads to.
    pub ports: Vec<(String, Option<String>)>,
    /// The SAS end device.
    pub end_device: Option<String>,
    /// The SCSI device.
    pub device: Option<String>,
    /// What else was on the way.
    pub is_usb: bool,
    pub is_ata: bool,
    pub is_virtio: bool,
}

/// `0000:18:00.0`, and `10000:01:00.0` behind an Intel VMD.
pub(super) fn is_pci_address(part: &str) -> bool {
    let mut fields = part.split([':', '.']);
    let hex = |field: Option<&str>, least: usize, most: usize| {
        field.is_some_and(|field| {
            (least..=most).contains(&field.len()) && field.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    hex(fields.next(), 4, 8)
        && hex(fields.next(), 2, 2)
        && hex(fields.next(), 2, 2)
        && hex(fields.next(), 1, 1)
        && fields.next().is_none()
        && part.contains('.')
}

/// `7:0:3:0`.
pub(super) fn is_scsi_address(part: &str) -> bool {
    let fields: Vec<&str> = part.split(':').collect();
    fields.len() == 4
        && fields.iter().all(|field| !field.is_empty() && field.bytes().all(|b| b.is_ascii_digit()))
}

fn numbered<'a>(part: &'a str, word: &str) -> Option<&'a str> {
    part.strip_prefix(word).filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

impl Chain {
    /// Reads the steps of a place.
    pub fn of(place: &str) -> Chain {
        let mut chain = Chain::default();
        let mut below_root = false;
        for part in place.split('/') {
            if is_pci_address(part) {
                chain.pci.push((part.to_owned(), below_root));
                below_root = false;
            } else if numbered(part, "pci").is_some() {
                below_root = true;
            } else if numbered(part, "host").is_some() && chain.host.is_none() {
                chain.host = Some(part.to_owned());
            } else if numbered(part, "port-").is_some() {
                chain.ports.push((part.to_owned(), None));
            } else if numbered(part, "expander-").is_some() {
                if let Some((_, expander @ None)) = chain.ports.last_mut() {
                    *expander = Some(part.to_owned());
                }
            } else if numbered(part, "end_device-").is_some() {
                chain.end_device = Some(part.to_owned());
            } else if is_scsi_address(part) && chain.device.is_none() {
                chain.device = Some(part.to_owned());
            } else if numbered(part, "usb").is_some() {
                chain.is_usb = true;
            } else if numbered(part, "ata").is_some() {
                chain.is_ata = true;
            } else if numbered(part, "virtio").is_some() {
                chain.is_virtio = true;
            }
        }
        chain
    }

    /// The steps for the machine.
    pub fn hops(&self) -> Vec<Hop> {
        let pci = self.pci.iter().map(|(address, _)| Hop::Pci(address.clone()));
        pci.chain(self.ports.iter().map(|(port, _)| Hop::Port(port.clone()))).collect()
    }

    /// Whether each function is the lower end of a link. Below a root stands a root port, or a device within
    /// the processor; below a root port a device or the upper side of a switch, which has a link; below that
    /// the lower side of the switch, which has none to it; and so on (PCI Express Base Specification, 1.3).
    pub fn linked(&self) -> Vec<(String, bool)> {
        let mut depth = 0;
        let one = |(address, below_root): &(String, bool)| {
            depth = if *below_root { 0 } else { depth + 1 };
            (address.clone(), depth % 2 == 1)
        };
        self.pci.iter().map(one).collect()
    }

    /// What kind of adapter the host is.
    pub fn host_kind(&self, has_sas_objects: bool, driver: Option<&str>) -> HostKind {
        const SAS_DRIVERS: [&str; 9] = [
            "mpt2sas",
            "mpt3sas",
            "mpi3mr",
            "mptsas",
            "megaraid_sas",
            "aacraid",
            "smartpqi",
            "hisi_sas",
            "pm80xx",
        ];
        let is_sas = driver.is_some_and(|driver| SAS_DRIVERS.iter().any(|known| driver.starts_with(known)));
        match self {
            _ if has_sas_objects || is_sas => HostKind::Sas,
            chain if chain.is_usb => HostKind::Usb,
            chain if chain.is_virtio => HostKind::Virtual,
            chain if chain.is_ata => HostKind::Sata,
            _ => HostKind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_behind_two_expanders_and_a_switch() {
        let place = "/sys/devices/pci0000:17/0000:17:00.0/0000:18:00.0/0000:19:04.0/0000:1a:00.0/host7/\
            port-7:0/expander-7:0/port-7:0:10/expander-7:1/port-7:1:3/end_device-7:1:3/target7:0:3/\
            7:0:3:0/block/sdd";
        let chain = Chain::of(place);
        let linked: Vec<bool> = chain.linked().into_iter().map(|(_, linked)| linked).collect();
        assert_eq!(linked, [false, true, false, true]);
        let ports: Vec<_> = chain.ports.iter().map(|(port, to)| (port.as_str(), to.as_deref())).collect();
        let expected =
            [("port-7:0", Some("expander-7:0")), ("port-7:0:10", Some("expander-7:1")), ("port-7:1:3", None)];
        assert_eq!(ports, expected);
        assert_eq!((chain.host.as_deref(), chain.device.as_deref()), (Some("host7"), Some("7:0:3:0")));
        assert_eq!(chain.end_device.as_deref(), Some("end_device-7:1:3"));
        assert_eq!(chain.hops().len(), 7);
    }

    #[test]
    fn other_ways() {
        let vmd = "/sys/devices/pci0000:00/0000:00:0e.0/pci10000:00/10000:00:01.0/10000:01:00.0/nvme/nvme0";
        let linked: Vec<bool> = Chain::of(vmd).linked().into_iter().map(|(_, linked)| linked).collect();
        assert_eq!(linked, [false, false, true]);
        let sata = Chain::of("/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda");
        assert_eq!(sata.host_kind(false, Some("ahci")), HostKind::Sata);
        let usb =
            Chain::of("/sys/devices/pci0000:00/0000:00:14.0/usb2/2-1/2-1:1.0/host9/target9:0:0/9:0:0:0");
        assert_eq!(usb.host_kind(false, Some("usb-storage")), HostKind::Usb);
        assert_eq!(usb.device.as_deref(), Some("9:0:0:0"));
        let virtio = Chain::of("/sys/devices/pci0000:00/0000:00:02.0/virtio1/block/vda");
        assert!(virtio.is_virtio && virtio.host.is_none());
        assert!(!is_pci_address("0000:18:00"), "three fields");
        assert!(!is_pci_address("7:0:3:0") && !is_scsi_address("0000:18:00.0"));
        assert_eq!(Chain::of("/sys/devices/portal/hostel/expander-x"), Chain::default());
    }
}
