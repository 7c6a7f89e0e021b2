//! The cartridge's memory: READ ATTRIBUTE and WRITE ATTRIBUTE (SPC-5).

use base::Partition;
use library::{MEMORY_ATTRIBUTES_MAX, MEMORY_VALUE_BYTES_MAX};
use scsi::Packed;
use scsi::attribute::{ATTRIBUTES, Attribute, AttributeList, Attributes, NumberedList, id, kind_of};
use scsi::command::{AttributeService, Primary};

use super::{PARTITIONS_ATTRIBUTE, Run, Tape};
use crate::answer::{Outcome, Refusal, give, parameters};

/// Attributes that hosts may set, by their identifiers: the standard's and the vendor's range.
const HOSTS: [std::ops::RangeInclusive<u16>; 2] = [0x0800..=0x0bff, 0x1400..=0x17ff];

/// The most parameter data of WRITE ATTRIBUTE: a memory full of the longest values.
const LIST_MAX: usize = 4 + MEMORY_ATTRIBUTES_MAX * (5 + MEMORY_VALUE_BYTES_MAX);

const MEBIBYTE: u64 = 1 << 20;

impl Tape {
    pub fn read_attribute(&mut self, run: &mut Run<'_>, command: &Primary) -> Outcome {
        let Primary::ReadAttribute {
            service,
            element,
            element_type,
            volume,
            partition,
            first,
            allocation_length,
            ..
        } = *command
        else {
            return Err(Refusal::illegal(0x20, 0));
        };
        let partition = self.memory_of(element, element_type, volume, partition)?;
        let data = match service {
            AttributeService::Values => Attributes(self.attributes(run, partition, first)?).encode(),
            AttributeService::List => {
                let all = self.attributes(run, partition, 0)?;
                AttributeList(all.iter().map(|attribute| attribute.id).collect()).encode()
            }
            AttributeService::LogicalVolumes => NumberedList { count: 1, ..NumberedList::default() }.encode(),
            AttributeService::Partitions => {
                let count = self.medium()?.partitions;
                NumberedList { count, ..NumberedList::default() }.encode()
            }
            AttributeService::Supported => {
                let known = ATTRIBUTES.iter().map(|kind| kind.id);
                let supported = known.filter(|id| is_hosts(*id) || DEVICES.contains(id));
                AttributeList(supported.collect()).encode()
            }
        };
        Ok(give(&data, u64::from(allocation_length), run.into))
    }

    /// Whose memory it is: that of the cartridge in the drive.
    fn memory_of(
        &mut self,
        element: u16,
        element_type: u8,
        volume: u8,
        partition: u8,
    ) -> Result<Partition, Refusal> {
        for (is_wrong, byte) in [(element != 0, 2), (element_type != 0, 4), (volume != 0, 5)] {
            if is_wrong {
                return Err(Refusal::field(byte));
            }
        }
        self.medium()?.partition(u64::from(partition)).ok_or_else(|| Refusal::field(7))
    }

    /// All attributes that are set, from an identifier on.
    fn attributes(
        &mut self,
        run: &Run<'_>,
        partition: Partition,
        first: u16,
    ) -> Result<Vec<Attribute>, Refusal> {
        let mut all = Vec::new();
        for id in DEVICES {
            if id >= first
                && let Some(value) = self.device_attribute(run, partition, id)?
            {
                all.push(Attribute { read_only: true, ..Attribute::new(id, value) });
            }
        }
        for id in HOSTS.into_iter().flatten().filter(|id| *id >= first && *id != PARTITIONS_ATTRIBUTE) {
            if let Some(value) = self.drive.read_attribute(partition, id)? {
                all.push(Attribute::new(id, value));
            }
        }
        all.sort_by_key(|attribute| attribute.id);
        Ok(all)
    }

    /// An attribute that the drive sets.
    fn device_attribute(
        &mut self,
        run: &Run<'_>,
        partition: Partition,
        attribute: u16,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let is_data = partition == Partition::Data;
        let medium = self.medium()?;
        let (capacity, vid) = (medium.capacity.0, medium.vid);
        let density = run.shared.options.density.primary;
        let number = |value: u64| Some(value.to_be_bytes().to_vec());
        let text = |value: &str, length: usize| {
            let mut bytes = value.as_bytes().to_vec();
            bytes.resize(length, b' ');
            Some(bytes)
        };
        Ok(match attribute {
            // Of the index partition the library tells nothing.
            id::REMAINING_CAPACITY if is_data => number(self.drive.remaining()?.0 / MEBIBYTE),
            id::MAXIMUM_CAPACITY if is_data => number(capacity / MEBIBYTE),
            id::ASSIGNING_ORGANIZATION | id::MEDIUM_ORGANIZATION => text("LTO-CVE", 8),
            id::FORMATTED_DENSITY | id::MEDIUM_DENSITY => Some(vec![density]),
            id::VOLUME_CHANGE_REFERENCE => self.drive.read_attribute(partition, attribute)?,
            id::MEDIUM_MANUFACTURER => text("KIST", 8),
            id::MEDIUM_SERIAL => text(vid.as_str(), 32),
            id::MEDIUM_TYPE => Some(vec![0]),
            _ => None,
        })
    }

    pub fn write_attribute(&mut self, run: &mut Run<'_>, command: &Primary) -> Outcome {
        let Primary::WriteAttribute { element, element_type, volume, partition, length, .. } = *command
        else {
            return Err(Refusal::illegal(0x20, 0));
        };
        let partition = self.memory_of(element, element_type, volume, partition)?;
        if usize::try_from(length).map_or(true, |length| length > LIST_MAX) {
            return Err(Refusal::field(10));
        }
        if length == 0 {
            return Ok(0);
        }
        let data = parameters(run.out, u64::from(length))?;
        let list = Attributes::decode(data).map_err(|error| Refusal::malformed(&error))?;
        // All are looked at before the first is set.
        for attribute in &list.0 {
            let is_hosts = is_hosts(attribute.id) && attribute.id != PARTITIONS_ATTRIBUTE;
            let length = attribute.value.len();
            let known = kind_of(attribute.id).map_or(0, |kind| usize::from(kind.length));
            let fits = length == 0 || known == 0 || length == known;
            if !is_hosts || attribute.read_only {
                return Err(Refusal::illegal(0x26, 0x00));
            }
            if !fits || length > MEMORY_VALUE_BYTES_MAX {
                return Err(Refusal::illegal(0x26, 0x02));
            }
        }
        for attribute in &list.0 {
            self.drive.write_attribute(partition, attribute.id, &attribute.value)?;
        }
        Ok(data.len())
    }
}

fn is_hosts(id: u16) -> bool {
    HOSTS.iter().any(|range| range.contains(&id))
}

/// The attributes that the drive sets.
const DEVICES: [u16; 10] = [
    id::REMAINING_CAPACITY,
    id::MAXIMUM_CAPACITY,
    id::ASSIGNING_ORGANIZATION,
    id::FORMATTED_DENSITY,
    id::VOLUME_CHANGE_REFERENCE,
    id::MEDIUM_MANUFACTURER,
    id::MEDIUM_SERIAL,
    id::MEDIUM_ORGANIZATION,
    id::MEDIUM_DENSITY,
    id::MEDIUM_TYPE,
];
