//! The protobuf messages, field by field (proto2: every field may be missing).
//!
//! The numbers are those of versions 3.0.6 to 4.0.1; each structure has the fields of all of them. Two
//! decisions keep an answer readable whatever a device adds: enums are numbers here and get their names in
//! the typed messages, and texts are bytes that need not be UTF-8. What has a secret in it is not printed.

use std::fmt;

use bytes::Bytes;

/// What a frame carries: a command and who vouches for it.
#[derive(Clone, PartialEq, prost::Message)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub struct Message {
    #[prost(int32, optional, tag = "4")]
    pub auth_type: Option<i32>,
    #[prost(message, optional, tag = "5")]
    pub hmac_auth: Option<HmacAuth>,
    #[prost(message, optional, tag = "6")]
    pub pin_auth: Option<PinAuth>,
    #[prost(bytes = "bytes", optional, tag = "7")]
    pub command_bytes: Option<Bytes>,
}

/// The proof of an identity.
#[derive(Clone, PartialEq, prost::Message)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub struct HmacAuth {
    #[prost(int64, optional, tag = "1")]
    pub identity: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub hmac: Option<Bytes>,
}

/// A PIN.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub struct PinAuth {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub pin: Option<Bytes>,
}

impl fmt::Debug for PinAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PinAuth { .. }")
    }
}

macro_rules! messages {
    ($($(#[$about:meta])* $name:ident { $($(#[$field:meta])* $field_name:ident: $field_type:ty,)+ })+) => {
        $(
            $(#[$about])*
            #[derive(Clone, PartialEq, prost::Message)]
            #[expect(missing_docs, reason = "the names are those of the protocol")]
            pub struct $name { $($(#[$field])* pub $field_name: $field_type,)+ }
        )+
    };
}

messages! {
    /// A request or an answer.
    Command {
        #[prost(message, optional, tag = "1")] header: Option<Header>,
        #[prost(message, optional, tag = "2")] body: Option<Body>,
        #[prost(message, optional, tag = "3")] status: Option<Status>,
    }

    /// What every command says of itself.
    Header {
        #[prost(int64, optional, tag = "1")] cluster_version: Option<i64>,
        #[prost(int64, optional, tag = "3")] connection_id: Option<i64>,
        #[prost(int64, optional, tag = "4")] sequence: Option<i64>,
        #[prost(int64, optional, tag = "6")] ack_sequence: Option<i64>,
        #[prost(int32, optional, tag = "7")] message_type: Option<i32>,
        #[prost(int64, optional, tag = "9")] timeout: Option<i64>,
        #[prost(bool, optional, tag = "10")] early_exit: Option<bool>,
        #[prost(int32, optional, tag = "12")] priority: Option<i32>,
        #[prost(int64, optional, tag = "13")] time_quanta: Option<i64>,
        #[prost(uint32, optional, tag = "14")] batch_id: Option<u32>,
    }

    /// What it is about: the part that goes with its type.
    Body {
        #[prost(message, optional, tag = "1")] key_value: Option<KeyValue>,
        #[prost(message, optional, tag = "2")] range: Option<Range>,
        #[prost(message, optional, tag = "3")] setup: Option<Setup>,
        #[prost(message, optional, tag = "4")] p2p_operation: Option<P2pOperation>,
        #[prost(message, optional, tag = "6")] get_log: Option<GetLog>,
        #[prost(message, optional, tag = "7")] security: Option<Security>,
        #[prost(message, optional, tag = "8")] pin_op: Option<PinOp>,
        #[prost(message, optional, tag = "9")] batch: Option<Batch>,
        #[prost(message, optional, tag = "10")] power: Option<Power>,
    }

    /// How a request ended.
    Status {
        #[prost(int32, optional, tag = "1")] code: Option<i32>,
        #[prost(bytes = "bytes", optional, tag = "2")] status_message: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "3")] detailed_message: Option<Bytes>,
    }

    /// An entry, or what is asked of one.
    KeyValue {
        #[prost(bytes = "bytes", optional, tag = "2")] new_version: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "3")] key: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "4")] db_version: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "5")] tag: Option<Bytes>,
        #[prost(int32, optional, tag = "6")] algorithm: Option<i32>,
        #[prost(bool, optional, tag = "7")] metadata_only: Option<bool>,
        #[prost(bool, optional, tag = "8")] force: Option<bool>,
        #[prost(int32, optional, tag = "9")] synchronization: Option<i32>,
        #[prost(uint64, optional, tag = "1001")] part_offset: Option<u64>,
        #[prost(uint64, optional, tag = "1002")] part_length: Option<u64>,
    }

    /// A range of keys, and the keys found in it.
    Range {
        #[prost(bytes = "bytes", optional, tag = "1")] start_key: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "2")] end_key: Option<Bytes>,
        #[prost(bool, optional, tag = "3")] start_key_inclusive: Option<bool>,
        #[prost(bool, optional, tag = "4")] end_key_inclusive: Option<bool>,
        #[prost(int32, optional, tag = "5")] max_returned: Option<i32>,
        #[prost(bool, optional, tag = "6")] reverse: Option<bool>,
        #[prost(bytes = "bytes", repeated, tag = "8")] keys: Vec<Bytes>,
    }

    /// Cluster version and firmware.
    Setup {
        #[prost(int64, optional, tag = "1")] new_cluster_version: Option<i64>,
        #[prost(bool, optional, tag = "5")] firmware_download: Option<bool>,
        #[prost(int32, optional, tag = "6")] setup_op_type: Option<i32>,
    }

    /// Entries that go to another device.
    P2pOperation {
        #[prost(message, optional, tag = "1")] peer: Option<Peer>,
        #[prost(message, repeated, tag = "2")] operation: Vec<PushOperation>,
        #[prost(bool, optional, tag = "3")] all_child_operations_succeeded: Option<bool>,
    }

    /// The other device.
    Peer {
        #[prost(bytes = "bytes", optional, tag = "1")] hostname: Option<Bytes>,
        #[prost(int32, optional, tag = "2")] port: Option<i32>,
        #[prost(bool, optional, tag = "3")] tls: Option<bool>,
    }

    /// One entry of a push.
    PushOperation {
        #[prost(bytes = "bytes", optional, tag = "3")] key: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "4")] version: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "5")] new_key: Option<Bytes>,
        #[prost(bool, optional, tag = "6")] force: Option<bool>,
        #[prost(message, optional, tag = "7")] status: Option<Status>,
        #[prost(message, optional, boxed, tag = "8")] p2pop: Option<Box<P2pOperation>>,
    }

    /// Logs asked for, and logs.
    GetLog {
        #[prost(int32, repeated, packed = "false", tag = "1")] types: Vec<i32>,
        #[prost(message, repeated, tag = "2")] utilizations: Vec<Utilization>,
        #[prost(message, repeated, tag = "3")] temperatures: Vec<Temperature>,
        #[prost(message, optional, tag = "4")] capacity: Option<Capacity>,
        #[prost(message, optional, tag = "5")] configuration: Option<Configuration>,
        #[prost(message, repeated, tag = "6")] statistics: Vec<Statistics>,
        #[prost(bytes = "bytes", optional, tag = "7")] messages: Option<Bytes>,
        #[prost(message, optional, tag = "8")] limits: Option<Limits>,
        #[prost(message, optional, tag = "9")] device: Option<DeviceLog>,
    }

    /// How busy a part is.
    Utilization {
        #[prost(bytes = "bytes", optional, tag = "1")] name: Option<Bytes>,
        #[prost(float, optional, tag = "2")] value: Option<f32>,
    }

    /// How warm a part is, in degrees Celsius.
    Temperature {
        #[prost(bytes = "bytes", optional, tag = "1")] name: Option<Bytes>,
        #[prost(float, optional, tag = "2")] current: Option<f32>,
        #[prost(float, optional, tag = "3")] minimum: Option<f32>,
        #[prost(float, optional, tag = "4")] maximum: Option<f32>,
        #[prost(float, optional, tag = "5")] target: Option<f32>,
    }

    /// Capacity in bytes, and the part that is used.
    Capacity {
        #[prost(uint64, optional, tag = "4")] nominal_capacity_in_bytes: Option<u64>,
        #[prost(float, optional, tag = "5")] portion_full: Option<f32>,
    }

    /// Who made a device, and where it is reached.
    Configuration {
        #[prost(bytes = "bytes", optional, tag = "5")] vendor: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "6")] model: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "7")] serial_number: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "8")] version: Option<Bytes>,
        #[prost(message, repeated, tag = "9")] interface: Vec<Interface>,
        #[prost(int32, optional, tag = "10")] port: Option<i32>,
        #[prost(int32, optional, tag = "11")] tls_port: Option<i32>,
        #[prost(bytes = "bytes", optional, tag = "12")] compilation_date: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "13")] source_hash: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "14")] world_wide_name: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "15")] protocol_version: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "16")] protocol_compilation_date: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "17")] protocol_source_hash: Option<Bytes>,
        #[prost(int32, optional, tag = "18")] current_power_level: Option<i32>,
    }

    /// A network interface.
    Interface {
        #[prost(bytes = "bytes", optional, tag = "1")] name: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "2")] mac: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "3")] ipv4_address: Option<Bytes>,
        #[prost(bytes = "bytes", optional, tag = "4")] ipv6_address: Option<Bytes>,
    }

    /// Requests of one type since the device started. What `max_latency` is counted in is not said anywhere.
    Statistics {
        #[prost(int32, optional, tag = "1")] message_type: Option<i32>,
        #[prost(uint64, optional, tag = "4")] count: Option<u64>,
        #[prost(uint64, optional, tag = "5")] bytes: Option<u64>,
        #[prost(uint64, optional, tag = "6")] max_latency: Option<u64>,
    }

    /// What a device accepts; 4,294,967,295 stands for "not stated".
    Limits {
        #[prost(uint32, optional, tag = "1")] max_key_size: Option<u32>,
        #[prost(uint32, optional, tag = "2")] max_value_size: Option<u32>,
        #[prost(uint32, optional, tag = "3")] max_version_size: Option<u32>,
        #[prost(uint32, optional, tag = "4")] max_tag_size: Option<u32>,
        #[prost(uint32, optional, tag = "5")] max_connections: Option<u32>,
        #[prost(uint32, optional, tag = "6")] max_outstanding_read_requests: Option<u32>,
        #[prost(uint32, optional, tag = "7")] max_outstanding_write_requests: Option<u32>,
        #[prost(uint32, optional, tag = "8")] max_message_size: Option<u32>,
        #[prost(uint32, optional, tag = "9")] max_key_range_count: Option<u32>,
        #[prost(uint32, optional, tag = "10")] max_identity_count: Option<u32>,
        #[prost(uint32, optional, tag = "11")] max_pin_size: Option<u32>,
        #[prost(uint32, optional, tag = "12")] max_operation_count_per_batch: Option<u32>,
        #[prost(uint32, optional, tag = "13")] max_batch_count_per_device: Option<u32>,
        #[prost(uint32, optional, tag = "14")] max_batch_size: Option<u32>,
        #[prost(uint32, optional, tag = "15")] max_deletes_per_batch: Option<u32>,
    }

    /// The name of a log of the maker; the log is the value of the frame.
    DeviceLog {
        #[prost(bytes = "bytes", optional, tag = "1")] name: Option<Bytes>,
    }

    /// What an identity may do with which keys.
    Scope {
        #[prost(int64, optional, tag = "1")] offset: Option<i64>,
        #[prost(bytes = "bytes", optional, tag = "2")] value: Option<Bytes>,
        #[prost(int32, repeated, packed = "false", tag = "3")] permission: Vec<i32>,
        #[prost(bool, optional, tag = "4")] tls_required: Option<bool>,
    }

    /// What is done with the PIN that came with the message.
    PinOp {
        #[prost(int32, optional, tag = "1")] pin_op_type: Option<i32>,
    }

    /// How many operations a batch has, or what became of them.
    Batch {
        #[prost(int32, optional, tag = "1")] count: Option<i32>,
        #[prost(int64, repeated, packed = "true", tag = "2")] sequence: Vec<i64>,
        #[prost(int64, optional, tag = "3")] failed_sequence: Option<i64>,
    }

    /// How awake the device shall be.
    Power {
        #[prost(int32, optional, tag = "1")] level: Option<i32>,
    }
}

/// Access lists and PINs.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub struct Security {
    #[prost(message, repeated, tag = "2")]
    pub acl: Vec<Acl>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub old_lock_pin: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub new_lock_pin: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub old_erase_pin: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub new_erase_pin: Option<Bytes>,
    #[prost(int32, optional, tag = "7")]
    pub security_op_type: Option<i32>,
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Security").field("acl", &self.acl).finish_non_exhaustive()
    }
}

/// One identity: its key and its scopes.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub struct Acl {
    #[prost(int64, optional, tag = "1")]
    pub identity: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub key: Option<Bytes>,
    #[prost(int32, optional, tag = "3")]
    pub hmac_algorithm: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    pub scope: Vec<Scope>,
    #[prost(int32, optional, tag = "5")]
    pub max_priority: Option<i32>,
}

impl fmt::Debug for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Acl")
            .field("identity", &self.identity)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}

/// The header of a command alone: reading it costs no memory, whatever the command holds.
#[derive(Clone, PartialEq, prost::Message)]
#[expect(missing_docs, reason = "the names are those of the protocol")]
pub struct CommandHeader {
    #[prost(message, optional, tag = "1")]
    pub header: Option<Header>,
}
