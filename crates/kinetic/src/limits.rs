//! What a device accepts.

use crate::frame::{MESSAGE_BYTES_MAX, VALUE_BYTES_MAX};
use crate::wire;

/// What is not stated is taken for this: it is what Seagate's simulator and drives state.
pub mod assumed {
    /// Bytes of a key.
    pub const KEY_BYTES: u32 = 4096;
    /// Bytes of a version.
    pub const VERSION_BYTES: u32 = 2048;
    /// Bytes of a tag. No device that we know states it; the longest hash of the list has 64 bytes.
    pub const TAG_BYTES: u32 = 128;
    /// Connections at a time. Not stated by the simulator: enough for two paths from a few coders.
    pub const CONNECTIONS: u32 = 64;
    /// Reads that a connection may have outstanding. Not stated by the simulator: 32 values of 1 MiB keep a
    /// link of 10 Gb/s busy for 27 ms.
    pub const READS: u32 = 32;
    /// Writes that a connection may have outstanding. Each may hold a value in the memory of the device.
    pub const WRITES: u32 = 16;
    /// Keys of one answer to a range.
    pub const RANGE_KEYS: u32 = 200;
    /// Identities.
    pub const IDENTITIES: u32 = 30;
    /// Bytes of a PIN.
    pub const PIN_BYTES: u32 = 64;
    /// Operations of a batch.
    pub const BATCH_OPERATIONS: u32 = 15;
    /// Batches that a device has open.
    pub const BATCHES: u32 = 5;
}

/// The number that stands for "not stated": −1, as 32 bits without a sign.
const NOT_STATED: u32 = u32::MAX;

/// Limits as a device states them; `None` is "not stated".
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Limits {
    /// Bytes of a key.
    pub key_bytes: Option<u32>,
    /// Bytes of a value.
    pub value_bytes: Option<u32>,
    /// Bytes of a version.
    pub version_bytes: Option<u32>,
    /// Bytes of a tag.
    pub tag_bytes: Option<u32>,
    /// Connections at a time.
    pub connections: Option<u32>,
    /// Reads outstanding.
    pub reads: Option<u32>,
    /// Writes outstanding.
    pub writes: Option<u32>,
    /// Bytes of a message.
    pub message_bytes: Option<u32>,
    /// Keys of one answer to a range.
    pub range_keys: Option<u32>,
    /// Identities.
    pub identities: Option<u32>,
    /// Bytes of a PIN.
    pub pin_bytes: Option<u32>,
    /// Operations of a batch.
    pub batch_operations: Option<u32>,
    /// Batches that a device has open.
    pub batches: Option<u32>,
    /// Bytes of all values of a batch.
    pub batch_bytes: Option<u32>,
    /// Deletes of a batch.
    pub batch_deletes: Option<u32>,
}

/// The numbers to go by: stated, or assumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields of Limits")]
pub struct Bounds {
    pub key_bytes: u32,
    pub value_bytes: u32,
    pub version_bytes: u32,
    pub tag_bytes: u32,
    pub connections: u32,
    pub reads: u32,
    pub writes: u32,
    pub message_bytes: u32,
    pub range_keys: u32,
    pub identities: u32,
    pub pin_bytes: u32,
    pub batch_operations: u32,
    pub batches: u32,
    pub batch_bytes: u64,
    pub batch_deletes: u32,
}

impl Limits {
    /// Limits that are all stated, as a server of ours announces them where nothing else is said.
    #[must_use]
    pub fn stated() -> Self {
        Limits {
            key_bytes: Some(assumed::KEY_BYTES),
            value_bytes: Some(VALUE_BYTES_MAX),
            version_bytes: Some(assumed::VERSION_BYTES),
            tag_bytes: Some(assumed::TAG_BYTES),
            connections: Some(assumed::CONNECTIONS),
            reads: Some(assumed::READS),
            writes: Some(assumed::WRITES),
            message_bytes: Some(MESSAGE_BYTES_MAX),
            range_keys: Some(assumed::RANGE_KEYS),
            identities: Some(assumed::IDENTITIES),
            pin_bytes: Some(assumed::PIN_BYTES),
            batch_operations: Some(assumed::BATCH_OPERATIONS),
            batches: Some(assumed::BATCHES),
            batch_bytes: Some(assumed::BATCH_OPERATIONS * VALUE_BYTES_MAX),
            batch_deletes: Some(assumed::BATCH_OPERATIONS),
        }
    }

    /// The numbers to go by. No message and no value is ever longer than the protocol allows.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        let batch_operations = self.batch_operations.unwrap_or(assumed::BATCH_OPERATIONS);
        let value_bytes = self.value_bytes.unwrap_or(VALUE_BYTES_MAX).min(VALUE_BYTES_MAX);
        let all_values = u64::from(batch_operations) * u64::from(value_bytes);
        Bounds {
            key_bytes: self.key_bytes.unwrap_or(assumed::KEY_BYTES),
            value_bytes,
            version_bytes: self.version_bytes.unwrap_or(assumed::VERSION_BYTES),
            tag_bytes: self.tag_bytes.unwrap_or(assumed::TAG_BYTES),
            connections: self.connections.unwrap_or(assumed::CONNECTIONS),
            reads: self.reads.unwrap_or(assumed::READS),
            writes: self.writes.unwrap_or(assumed::WRITES),
            message_bytes: self.message_bytes.unwrap_or(MESSAGE_BYTES_MAX).min(MESSAGE_BYTES_MAX),
            range_keys: self.range_keys.unwrap_or(assumed::RANGE_KEYS),
            identities: self.identities.unwrap_or(assumed::IDENTITIES),
            pin_bytes: self.pin_bytes.unwrap_or(assumed::PIN_BYTES),
            batch_operations,
            batches: self.batches.unwrap_or(assumed::BATCHES),
            batch_bytes: self.batch_bytes.map_or(all_values, u64::from),
            batch_deletes: self.batch_deletes.unwrap_or(batch_operations),
        }
    }

    /// From the message of a device. A number of 2^31 and more was negative once: not stated.
    #[must_use]
    pub fn read(from: &wire::Limits) -> Self {
        let stated = |number: Option<u32>| number.filter(|number| i32::try_from(*number).is_ok());
        Limits {
            key_bytes: stated(from.max_key_size),
            value_bytes: stated(from.max_value_size),
            version_bytes: stated(from.max_version_size),
            tag_bytes: stated(from.max_tag_size),
            connections: stated(from.max_connections),
            reads: stated(from.max_outstanding_read_requests),
            writes: stated(from.max_outstanding_write_requests),
            message_bytes: stated(from.max_message_size),
            range_keys: stated(from.max_key_range_count),
            identities: stated(from.max_identity_count),
            pin_bytes: stated(from.max_pin_size),
            batch_operations: stated(from.max_operation_count_per_batch),
            batches: stated(from.max_batch_count_per_device),
            batch_bytes: stated(from.max_batch_size),
            batch_deletes: stated(from.max_deletes_per_batch),
        }
    }

    /// As a message.
    #[must_use]
    pub fn write(&self) -> wire::Limits {
        let stated = |number: Option<u32>| Some(number.unwrap_or(NOT_STATED));
        wire::Limits {
            max_key_size: stated(self.key_bytes),
            max_value_size: stated(self.value_bytes),
            max_version_size: stated(self.version_bytes),
            max_tag_size: stated(self.tag_bytes),
            max_connections: stated(self.connections),
            max_outstanding_read_requests: stated(self.reads),
            max_outstanding_write_requests: stated(self.writes),
            max_message_size: stated(self.message_bytes),
            max_key_range_count: stated(self.range_keys),
            max_identity_count: stated(self.identities),
            max_pin_size: stated(self.pin_bytes),
            max_operation_count_per_batch: stated(self.batch_operations),
            max_batch_count_per_device: stated(self.batches),
            max_batch_size: stated(self.batch_bytes),
            max_deletes_per_batch: stated(self.batch_deletes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_stated_is_assumed() {
        let wire = wire::Limits {
            max_key_size: Some(100),
            max_tag_size: Some(u32::MAX),
            max_value_size: Some(8 << 20),
            ..wire::Limits::default()
        };
        let limits = Limits::read(&wire);
        assert_eq!((limits.key_bytes, limits.tag_bytes, limits.reads), (Some(100), None, None));
        let bounds = limits.bounds();
        assert_eq!((bounds.key_bytes, bounds.tag_bytes, bounds.reads), (100, 128, 32));
        assert_eq!(bounds.value_bytes, VALUE_BYTES_MAX, "more than the protocol allows is not taken");
        assert_eq!(Limits::read(&Limits::stated().write()), Limits::stated());
        assert_eq!(Limits::read(&Limits::default().write()), Limits::default());
    }
}
