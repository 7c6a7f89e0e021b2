//! Answers as values.

use bytes::Bytes;

use crate::code::{Algorithm, MessageType, StatusCode};
use crate::entry::Metadata;
use crate::ids::Sequence;
use crate::log::Log;
use crate::push::{Push, PushOutcome};
use crate::status::Status;
use crate::wire;

/// An entry as it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its key.
    pub key: Bytes,
    /// Version and tag.
    pub metadata: Metadata,
    /// The value; empty if only the metadata were asked for.
    pub value: Bytes,
}

/// What an answer carries beside its status. With a failure there is no entry, no version and no key, even
/// where a device sends an empty one.
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// The status says all.
    Nothing,
    /// Of GET, GETNEXT, GETPREVIOUS.
    Entry(Entry),
    /// Of GETVERSION.
    Version(Bytes),
    /// Of GETKEYRANGE.
    Keys(Vec<Bytes>),
    /// Of MEDIASCAN.
    Scanned {
        /// The keys whose values are damaged, as far as the device says it.
        damaged: Vec<Bytes>,
        /// With [`crate::StatusCode::Expired`]: the last key that was looked at; the next scan begins behind
        /// it.
        last: Option<Bytes>,
    },
    /// Of GETLOG.
    Log {
        /// The logs.
        log: Box<Log>,
        /// The log of the maker that was asked for.
        device: Bytes,
    },
    /// Of PEER2PEERPUSH.
    Push(Vec<PushOutcome>),
    /// Of END_BATCH.
    Batch {
        /// The operations that were committed.
        committed: Vec<Sequence>,
        /// The first operation that could not be.
        failed: Option<Sequence>,
    },
}

impl Answer {
    /// What the answer to a request of this type carries. Anything else in it is passed over.
    #[must_use]
    pub fn read(request: MessageType, status: &Status, body: Option<wire::Body>, value: Bytes) -> Self {
        let body = body.unwrap_or_default();
        let may_fail =
            matches!(request, MessageType::GetLog | MessageType::Peer2PeerPush | MessageType::EndBatch)
                || (request == MessageType::MediaScan && status.code == StatusCode::Expired);
        match request {
            _ if !status.is_success() && !may_fail => Answer::Nothing,
            MessageType::Get | MessageType::GetNext | MessageType::GetPrevious => {
                body.key_value.map_or(Answer::Nothing, |entry| {
                    Answer::Entry(Entry {
                        key: entry.key.unwrap_or_default(),
                        metadata: Metadata {
                            version: entry.db_version.unwrap_or_default(),
                            tag: entry.tag.unwrap_or_default(),
                            algorithm: entry.algorithm.map(Algorithm),
                        },
                        value,
                    })
                })
            }
            MessageType::GetVersion => body
                .key_value
                .map_or(Answer::Nothing, |entry| Answer::Version(entry.db_version.unwrap_or_default())),
            // Seagate's simulator leaves an empty list out.
            MessageType::GetKeyRange => Answer::Keys(body.range.unwrap_or_default().keys),
            MessageType::MediaScan => {
                let range = body.range.unwrap_or_default();
                let last = range.end_key.filter(|_| status.code == StatusCode::Expired);
                Answer::Scanned { damaged: range.keys, last }
            }
            MessageType::GetLog => body
                .get_log
                .map_or(Answer::Nothing, |log| Answer::Log { log: Box::new(Log::read(&log)), device: value }),
            MessageType::Peer2PeerPush => {
                body.p2p_operation.map_or(Answer::Nothing, |push| Answer::Push(PushOutcome::read(&push)))
            }
            MessageType::EndBatch => body.batch.map_or(Answer::Nothing, |batch| Answer::Batch {
                committed: batch.sequence.into_iter().map(Sequence).collect(),
                failed: batch.failed_sequence.map(Sequence),
            }),
            _ => Answer::Nothing,
        }
    }
}

/// An answer to a request.
#[derive(Clone, PartialEq, Debug)]
pub struct Response {
    /// The type of the request.
    pub request: MessageType,
    /// How it ended.
    pub status: Status,
    /// The cluster version of the device, where it says so, as it should with a version failure.
    pub cluster_version: Option<crate::ClusterVersion>,
    /// What it carries.
    pub answer: Answer,
}

/// What a server answers with.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// The status says all.
    Nothing,
    /// An entry, with or without its value.
    Entry(Entry),
    /// A version.
    Version(Bytes),
    /// Keys.
    Keys(Vec<Bytes>),
    /// A scan.
    Scanned {
        /// The keys whose values are damaged.
        damaged: Vec<Bytes>,
        /// The last key that was looked at, if there are more.
        last: Option<Bytes>,
    },
    /// Logs.
    Log {
        /// The logs.
        log: Box<Log>,
        /// A log of the maker.
        device: Bytes,
    },
    /// A push with the status of each operation.
    Push(Push),
    /// A batch.
    Batch {
        /// The operations that were committed.
        committed: Vec<Sequence>,
        /// The first operation that could not be.
        failed: Option<Sequence>,
    },
}

impl Reply {
    /// Body and value of the message.
    #[must_use]
    pub fn write(&self) -> (Option<wire::Body>, Bytes) {
        let (mut body, mut value) = (wire::Body::default(), Bytes::new());
        match self {
            Reply::Nothing => return (None, value),
            Reply::Entry(entry) => {
                body.key_value = Some(wire::KeyValue {
                    key: Some(entry.key.clone()),
                    db_version: Some(entry.metadata.version.clone()),
                    tag: Some(entry.metadata.tag.clone()),
                    algorithm: entry.metadata.algorithm.map(|algorithm| algorithm.0),
                    ..wire::KeyValue::default()
                });
                value = entry.value.clone();
            }
            Reply::Version(version) => {
                body.key_value =
                    Some(wire::KeyValue { db_version: Some(version.clone()), ..Default::default() });
            }
            Reply::Keys(keys) => {
                body.range = Some(wire::Range { keys: keys.clone(), ..wire::Range::default() });
            }
            Reply::Scanned { damaged, last } => {
                let end_key_inclusive = last.as_ref().map(|_| true);
                let (keys, end_key) = (damaged.clone(), last.clone());
                body.range = Some(wire::Range { end_key, end_key_inclusive, keys, ..wire::Range::default() });
            }
            Reply::Log { log, device } => {
                body.get_log = Some(log.write());
                value = device.clone();
            }
            Reply::Push(push) => body.p2p_operation = Some(push.write_answer()),
            Reply::Batch { committed, failed } => {
                body.batch = Some(wire::Batch {
                    count: None,
                    sequence: committed.iter().map(|sequence| sequence.0).collect(),
                    failed_sequence: failed.map(|sequence| sequence.0),
                });
            }
        }
        (Some(body), value)
    }
}
