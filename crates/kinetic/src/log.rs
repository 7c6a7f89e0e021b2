//! Logs: what a device says of itself.

use bytes::Bytes;

use crate::code::{LogType, MessageType, PowerLevel};
use crate::limits::Limits;
use crate::status::text;
use crate::wire;

/// How busy a part of a device is.
#[derive(Clone, PartialEq, Debug)]
pub struct Utilization {
    /// The part: `HDA`, `EN0`, `EN1`, or a name of the maker's own.
    pub name: String,
    /// From 0 to 1.
    pub portion: f32,
}

/// How warm a part is, in degrees Celsius.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct Temperature {
    /// The part: `HDA`, or a name of the maker's own.
    pub name: String,
    /// Now.
    pub current: f32,
    /// The lowest seen, or allowed.
    pub minimum: Option<f32>,
    /// The highest.
    pub maximum: Option<f32>,
    /// What it should be.
    pub target: Option<f32>,
}

/// How much fits.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct Capacity {
    /// Bytes.
    pub nominal_bytes: u64,
    /// From 0 to 1.
    pub portion_full: f32,
}

/// A network interface.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The bytes that the device gives: some write the address as text.
    pub mac: Bytes,
    /// See [`Interface::mac`].
    pub ipv4: Bytes,
    /// See [`Interface::mac`].
    pub ipv6: Bytes,
}

/// Who made a device, and where it is reached.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Configuration {
    /// The maker.
    pub vendor: String,
    /// The model.
    pub model: String,
    /// The serial number.
    pub serial_number: Bytes,
    /// The world wide name: by it a drive is known again.
    pub world_wide_name: Bytes,
    /// The version of its program.
    pub version: String,
    /// When that was built.
    pub compilation_date: String,
    /// From what.
    pub source_hash: String,
    /// The version of the protocol it was built with.
    pub protocol_version: String,
    /// Its interfaces.
    pub interfaces: Vec<Interface>,
    /// Port without TLS.
    pub port: Option<u16>,
    /// Port with TLS.
    pub tls_port: Option<u16>,
    /// Operational or hibernating; nothing with devices before version 4.
    pub power_level: Option<PowerLevel>,
}

/// Requests of one type since a device started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// The number of the message type, which may be one of an answer.
    pub message_type: i32,
    /// How many.
    pub count: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// The longest; with us in microseconds.
    pub latency_max: Option<u64>,
}

impl Statistics {
    /// The request that is meant, if it is known.
    #[must_use]
    pub fn request(&self) -> Option<MessageType> {
        let number = self.message_type;
        MessageType::from_number(number).or_else(|| MessageType::from_response_number(number))
    }
}

/// Logs of an answer. What was not asked for is empty.
#[derive(Clone, PartialEq, Default, Debug)]
#[expect(missing_docs, reason = "the types of LogType")]
pub struct Log {
    pub types: Vec<LogType>,
    pub utilizations: Vec<Utilization>,
    pub temperatures: Vec<Temperature>,
    pub capacity: Option<Capacity>,
    pub configuration: Option<Configuration>,
    pub statistics: Vec<Statistics>,
    pub messages: Bytes,
    pub limits: Option<Limits>,
    /// The name of a log of the maker, which is the value of the answer.
    pub device: Option<Bytes>,
}

impl Log {
    /// From a message. Types that are not known are left out.
    #[must_use]
    pub fn read(from: &wire::GetLog) -> Self {
        Log {
            types: from.types.iter().filter_map(|number| LogType::from_number(*number)).collect(),
            utilizations: from.utilizations.iter().map(read_utilization).collect(),
            temperatures: from.temperatures.iter().map(read_temperature).collect(),
            capacity: from.capacity.as_ref().map(|capacity| Capacity {
                nominal_bytes: capacity.nominal_capacity_in_bytes.unwrap_or(0),
                portion_full: capacity.portion_full.unwrap_or(0.0),
            }),
            configuration: from.configuration.as_ref().map(read_configuration),
            statistics: from.statistics.iter().filter_map(read_statistics).collect(),
            messages: from.messages.clone().unwrap_or_default(),
            limits: from.limits.as_ref().map(Limits::read),
            device: from.device.as_ref().and_then(|device| device.name.clone()),
        }
    }

    /// As a message.
    #[must_use]
    pub fn write(&self) -> wire::GetLog {
        wire::GetLog {
            types: self.types.iter().map(|one| one.number()).collect(),
            utilizations: self.utilizations.iter().map(write_utilization).collect(),
            temperatures: self.temperatures.iter().map(write_temperature).collect(),
            capacity: self.capacity.map(|capacity| wire::Capacity {
                nominal_capacity_in_bytes: Some(capacity.nominal_bytes),
                portion_full: Some(capacity.portion_full),
            }),
            configuration: self.configuration.as_ref().map(write_configuration),
            statistics: self.statistics.iter().map(write_statistics).collect(),
            messages: filled(&self.messages),
            limits: self.limits.as_ref().map(Limits::write),
            device: self.device.clone().map(|name| wire::DeviceLog { name: Some(name) }),
        }
    }
}

fn filled(bytes: &Bytes) -> Option<Bytes> {
    (!bytes.is_empty()).then(|| bytes.clone())
}

fn filled_text(text: &str) -> Option<Bytes> {
    (!text.is_empty()).then(|| Bytes::copy_from_slice(text.as_bytes()))
}

fn read_utilization(from: &wire::Utilization) -> Utilization {
    Utilization { name: text(from.name.as_ref()), portion: from.value.unwrap_or(0.0) }
}

fn write_utilization(from: &Utilization) -> wire::Utilization {
    wire::Utilization { name: filled_text(&from.name), value: Some(from.portion) }
}

fn read_temperature(from: &wire::Temperature) -> Temperature {
    Temperature {
        name: text(from.name.as_ref()),
        current: from.current.unwrap_or(0.0),
        minimum: from.minimum,
        maximum: from.maximum,
        target: from.target,
    }
}

fn write_temperature(from: &Temperature) -> wire::Temperature {
    let Temperature { name, current, minimum, maximum, target } = from;
    wire::Temperature {
        name: filled_text(name),
        current: Some(*current),
        minimum: *minimum,
        maximum: *maximum,
        target: *target,
    }
}

fn read_statistics(from: &wire::Statistics) -> Option<Statistics> {
    Some(Statistics {
        message_type: from.message_type?,
        count: from.count.unwrap_or(0),
        bytes: from.bytes.unwrap_or(0),
        latency_max: from.max_latency,
    })
}

fn write_statistics(from: &Statistics) -> wire::Statistics {
    wire::Statistics {
        message_type: Some(from.message_type),
        count: Some(from.count),
        bytes: Some(from.bytes),
        max_latency: from.latency_max,
    }
}

fn read_configuration(from: &wire::Configuration) -> Configuration {
    let port = |port: Option<i32>| port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
    Configuration {
        vendor: text(from.vendor.as_ref()),
        model: text(from.model.as_ref()),
        serial_number: from.serial_number.clone().unwrap_or_default(),
        world_wide_name: from.world_wide_name.clone().unwrap_or_default(),
        version: text(from.version.as_ref()),
        compilation_date: text(from.compilation_date.as_ref()),
        source_hash: text(from.source_hash.as_ref()),
        protocol_version: text(from.protocol_version.as_ref()),
        interfaces: from.interface.iter().map(read_interface).collect(),
        port: port(from.port),
        tls_port: port(from.tls_port),
        power_level: from.current_power_level.and_then(PowerLevel::from_number),
    }
}

fn write_configuration(from: &Configuration) -> wire::Configuration {
    wire::Configuration {
        vendor: filled_text(&from.vendor),
        model: filled_text(&from.model),
        serial_number: filled(&from.serial_number),
        world_wide_name: filled(&from.world_wide_name),
        version: filled_text(&from.version),
        compilation_date: filled_text(&from.compilation_date),
        source_hash: filled_text(&from.source_hash),
        protocol_version: filled_text(&from.protocol_version),
        interface: from.interfaces.iter().map(write_interface).collect(),
        port: from.port.map(i32::from),
        tls_port: from.tls_port.map(i32::from),
        current_power_level: from.power_level.map(PowerLevel::number),
        ..wire::Configuration::default()
    }
}

fn read_interface(from: &wire::Interface) -> Interface {
    Interface {
        name: text(from.name.as_ref()),
        mac: from.mac.clone().unwrap_or_default(),
        ipv4: from.ipv4_address.clone().unwrap_or_default(),
        ipv6: from.ipv6_address.clone().unwrap_or_default(),
    }
}

fn write_interface(from: &Interface) -> wire::Interface {
    wire::Interface {
        name: filled_text(&from.name),
        mac: filled(&from.mac),
        ipv4_address: filled(&from.ipv4),
        ipv6_address: filled(&from.ipv6),
    }
}
