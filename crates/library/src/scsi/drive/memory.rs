//! Cartridge memory.

use ::scsi::attribute::{Attribute, AttributeFormat, Attributes, kind_of};
use ::scsi::command::{AttributeService, Primary};
use ::scsi::{Command, Data, SenseKey};
use base::Partition;

use super::super::unit::attribute_of;
use super::Drive;
use super::ability::op;
use super::condition::Stop;
use crate::drive::is_host_attribute;
use crate::{MEMORY_VALUE_BYTES_MAX, TapeError};

/// Bytes of attributes that are asked for: more than any memory has (16 KiB, LTO-9), so that no list is cut.
const ANSWER_BYTES: u32 = 64 * 1024;
/// As if it were a service action of WRITE ATTRIBUTE: writing through.
const THROUGH: u16 = 0x100;
const WRITE_ATTRIBUTE: u8 = 0x8d;
/// AUXILIARY MEMORY OUT OF SPACE.
const FULL: (u8, u8) = (0x55, 0x06);

impl Drive {
    /// The attributes of a partition from one on, none if the drive has no such.
    fn attributes(&mut self, partition: Partition, first: u16) -> Result<Option<Vec<u8>>, TapeError> {
        let command = Command::from(Primary::ReadAttribute {
            service: AttributeService::Values,
            element: 0,
            element_type: 0,
            volume: 0,
            partition: partition.scsi_number(),
            first,
            allocation_length: ANSWER_BYTES,
            cached: false,
        });
        match self.answer("memory read", &command, ANSWER_BYTES as usize) {
            Ok(answer) => Ok(Some(answer)),
            Err(Stop::Heard(heard)) if heard.sense.key == SenseKey::IllegalRequest => {
                if heard.sense.is_unknown_command() {
                    self.abilities.refused(op::READ_ATTRIBUTE, 0);
                }
                Ok(None)
            }
            Err(stop) => Err(self.error_of("memory read", stop)),
        }
    }

    /// The value of an attribute, if it is set.
    pub fn attribute(&mut self, partition: Partition, id: u16) -> Result<Option<Vec<u8>>, TapeError> {
        if self.session()?.is_missing(partition) || !self.abilities.may(op::READ_ATTRIBUTE, 0) {
            return Ok(None);
        }
        match self.attributes(partition, id)? {
            Some(answer) => attribute_of(&answer, id).map_err(|error| self.strange("memory read", error)),
            None => Ok(None),
        }
    }

    /// Sets an attribute, or removes it with an empty value.
    pub fn set_attribute(&mut self, partition: Partition, id: u16, value: &[u8]) -> Result<(), TapeError> {
        if !is_host_attribute(id) {
            return Err(TapeError::AttributeReadOnly { id });
        }
        let fixed = kind_of(id).map(|kind| usize::from(kind.length)).filter(|length| *length > 0);
        let max = fixed.unwrap_or(MEMORY_VALUE_BYTES_MAX);
        if value.len() > max {
            return Err(TapeError::AttributeLength { id, length: value.len(), max });
        }
        self.check_writable()?;
        if self.session()?.is_missing(partition) {
            return Err(self.unfit("memory write"));
        }
        let mut attribute = Attribute::new(id, value.to_vec());
        // Texts have a width.
        if let Some(length) = fixed.filter(|_| !value.is_empty()) {
            match attribute.format {
                AttributeFormat::Ascii => attribute.value.resize(length, b' '),
                AttributeFormat::Text => attribute.value.resize(length, 0),
                _ => {}
            }
        }
        let list = Attributes(vec![attribute]).encode();
        for through in [true, false] {
            if through && !self.abilities.may(WRITE_ATTRIBUTE, THROUGH) {
                continue;
            }
            let command = Command::from(Primary::WriteAttribute {
                through,
                element: 0,
                element_type: 0,
                volume: 0,
                partition: partition.scsi_number(),
                length: u32::try_from(list.len()).unwrap_or(u32::MAX),
            });
            match self.anywhere("memory write", &command, Data::Out(&list)) {
                Ok(_) => return Ok(()),
                Err(Stop::Heard(heard)) => {
                    let sense = &heard.sense;
                    if (sense.additional.asc, sense.additional.ascq) == FULL {
                        return Err(self.memory_full(partition)?);
                    }
                    if through && sense.key == SenseKey::IllegalRequest && sense.additional.asc == 0x24 {
                        self.abilities.refused(WRITE_ATTRIBUTE, THROUGH);
                        continue;
                    }
                    return Err(self.typed("memory write", sense));
                }
                Err(stop) => return Err(self.error_of("memory write", stop)),
            }
        }
        Err(self.unfit("memory write"))
    }

    /// The error of a memory without room: what fits is told by what is in it.
    fn memory_full(&mut self, partition: Partition) -> Result<TapeError, TapeError> {
        let vid = self.session()?.vid;
        let answer = self.attributes(partition, 0)?.unwrap_or_default();
        let all = Attributes::decode(&answer).unwrap_or_default();
        let max = all.0.iter().filter(|one| is_host_attribute(one.id)).count();
        Ok(TapeError::AttributesFull { vid, max })
    }
}
