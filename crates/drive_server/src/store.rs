//! What is asked for, done on the store.

use std::ops::Bound;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use base::{ByteCount, Uuid};
use bytes::Bytes;
use kinetic::server::{Operation, Outcome};
use kinetic::{
    Algorithm, Change, Entry, KeyFilter, KeyRange, Limits, Log, Metadata, StatusCode, Synchronization,
    TagCheck, Which, check_tag,
};
use threads::Mutex;
use valuelog::{Durability, Erase, Expected, Found, LogError, ValueLog};

use crate::limits::{BACKGROUND_MAX, COPIED_BYTES_MAX, RECORD_BYTES_BESIDE, SCAN_WITHIN, WALK_KEYS};
use crate::state;

/// Stands in the store for "no algorithm was given".
const NO_ALGORITHM: i32 = i32::MIN;

/// The store of a device.
pub(crate) struct Store {
    pub(crate) log: ValueLog,
    limits: Limits,
    pub(crate) identity: Uuid,
    starts: u32,
    background: AtomicUsize,
    /// What people are told, the last at the end.
    messages: Mutex<Vec<String>>,
}

/// How work goes on.
pub(crate) enum Done {
    /// It is done.
    Now(Outcome),
    /// It is done, and durable after the next sync.
    AfterSync,
}

fn refused(code: StatusCode, text: &str) -> Done {
    Done::Now(Outcome::refused(code, text))
}

fn not_found() -> Done {
    refused(StatusCode::NotFound, "there is no such entry")
}

/// What a failure of the store is to a client.
pub(crate) fn code_of(error: &LogError) -> StatusCode {
    match error {
        LogError::NotFound => StatusCode::NotFound,
        LogError::VersionMismatch => StatusCode::VersionMismatch,
        LogError::TooLarge { .. } | LogError::EmptyKey | LogError::BeyondEnd { .. } => {
            StatusCode::InvalidRequest
        }
        LogError::NoSpace | LogError::IndexFull { .. } => StatusCode::NoSpace,
        LogError::Damaged(_) => StatusCode::PermDataError,
        LogError::Batch { source, .. } => code_of(source),
        _ => StatusCode::InternalError,
    }
}

fn failed(error: &LogError) -> Done {
    Done::Now(Outcome::refused(code_of(error), &error.to_string()))
}

pub(crate) fn metadata_of(found: &valuelog::Metadata) -> Metadata {
    Metadata {
        version: Bytes::copy_from_slice(&found.version),
        tag: Bytes::copy_from_slice(&found.tag),
        algorithm: (found.algorithm != NO_ALGORITHM).then_some(Algorithm(found.algorithm)),
    }
}

fn expected(db_version: &Bytes, force: bool) -> Expected<'_> {
    if force { Expected::Any } else { Expected::Version(db_version) }
}

fn change_of(change: &Change) -> valuelog::Change<'_> {
    match change {
        Change::Put(put) => valuelog::Change::Put(valuelog::Put {
            key: &put.key,
            value: &put.value,
            version: &put.metadata.version,
            tag: &put.metadata.tag,
            algorithm: put.metadata.algorithm.map_or(NO_ALGORITHM, |algorithm| algorithm.0),
            expected: expected(&put.db_version, put.force),
        }),
        Change::Delete(delete) => valuelog::Change::Delete(valuelog::Delete {
            key: &delete.key,
            expected: expected(&delete.db_version, delete.force),
        }),
    }
}

/// Whether a value is the one that its writer meant: nothing else protects it on its way.
fn agrees(change: &Change) -> bool {
    match change {
        Change::Put(put) => check_tag(&put.metadata, &put.value) != TagCheck::Differs,
        Change::Delete(_) => true,
    }
}

const TAG_DIFFERS: &str =
    "the value does not agree with its tag: it was changed on its way, or the tag is wrong";

impl Store {
    pub(crate) fn new(log: ValueLog, limits: Limits, identity: Uuid, starts: u32) -> Store {
        let messages = Mutex::new(Vec::new());
        Store { log, limits, identity, starts, background: AtomicUsize::new(0), messages }
    }

    /// Tells people something, by the log of messages.
    pub(crate) fn tell(&self, message: String) {
        const MESSAGES_MAX: usize = 100;
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        if messages.len() == MESSAGES_MAX {
            messages.remove(0);
        }
        messages.push(message);
    }

    /// What people were told.
    pub(crate) fn messages(&self) -> String {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = messages.join("\n");
        if let Some(failure) = self.log.failure() {
            text = format!("{text}\n{failure}");
        }
        // So that it fits into a message.
        const TEXT_BYTES_MAX: usize = 64 << 10;
        let start = text.len().saturating_sub(TEXT_BYTES_MAX);
        text.get(start..).map(str::to_owned).unwrap_or_default()
    }

    /// Memory that the answer will need.
    pub(crate) fn memory(&self, operation: &Operation) -> u64 {
        let bounds = self.limits.bounds();
        let longest = u64::from(bounds.value_bytes) + RECORD_BYTES_BESIDE;
        let of_value = |bytes: u64| bytes.min(longest) + RECORD_BYTES_BESIDE;
        match operation {
            Operation::Get { metadata_only: true, .. } => 0,
            Operation::Get { which: Which::Exact, key, .. } => {
                self.log.metadata(key).map_or(0, |found| of_value(found.length.0))
            }
            Operation::Get { .. } => longest,
            Operation::GetPart { length, .. } => {
                of_value(length.saturating_add(2 * valuelog::BLOCK_BYTES as u64))
            }
            Operation::KeyRange { range, .. } => {
                let keys = u64::from(range.max_returned) * u64::from(bounds.key_bytes);
                keys.min(kinetic::server::RANGE_ANSWER_BYTES_MAX as u64)
            }
            // What each operation of a push has in memory.
            Operation::Push(push) => push.count() as u64 * 1024,
            _ => 0,
        }
    }

    /// Does it. `until`: when nobody waits for the answer any more.
    pub(crate) fn execute(&self, operation: Operation, until: Option<Instant>) -> Done {
        match operation {
            Operation::Get { which, key, metadata_only, filter } => {
                self.get(which, key, metadata_only, &filter)
            }
            Operation::GetPart { key, offset, length } => {
                match self.log.get_part(&key, ByteCount(offset), ByteCount(length)) {
                    Ok(found) => Done::Now(Outcome::Entry(entry(key, found))),
                    Err(error) => failed(&error),
                }
            }
            Operation::GetVersion { key } => match self.log.metadata(&key) {
                Ok(found) => Done::Now(Outcome::Version(Bytes::copy_from_slice(&found.version))),
                Err(error) => failed(&error),
            },
            Operation::Change(change) => self.change(&change),
            Operation::Batch(changes) => self.batch(&changes),
            Operation::KeyRange { range, filter } => Done::Now(Outcome::Keys(self.keys(&range, &filter))),
            Operation::Flush => Done::AfterSync,
            Operation::MediaScan { range, filter } => {
                self.in_background(|| self.scan(&range, &filter, until))
            }
            Operation::MediaOptimize { .. } => self.in_background(|| self.optimize(until)),
            Operation::Log(types) => Done::Now(Outcome::Log(Box::new(Log { types, ..Log::default() }))),
            Operation::DeviceLog(name) => self.device_log(&name),
            Operation::Push(_) => refused(StatusCode::InternalError, "pushes are done elsewhere"),
            Operation::Firmware(_) => refused(
                StatusCode::InvalidRequest,
                "the program of this device is not replaced through the protocol: install another Kist",
            ),
            Operation::Save(state) => match state::save(&self.log, &state) {
                Ok(()) => Done::Now(Outcome::Done),
                Err(error) => failed(&error),
            },
            Operation::Erase { is_secure, state } => {
                let how = if is_secure { Erase::Secure } else { Erase::Quick };
                let Some(id) = new_id() else {
                    return refused(
                        StatusCode::InternalError,
                        "the operating system gives no random numbers",
                    );
                };
                let erased = self.log.erase(id, how);
                match erased.and_then(|()| state::renew(&self.log, &state, self.identity, self.starts)) {
                    Ok(()) => Done::Now(Outcome::Done),
                    Err(error) => failed(&error),
                }
            }
            Operation::Power(_) => Done::AfterSync,
        }
    }

    fn get(&self, which: Which, key: Bytes, metadata_only: bool, filter: &KeyFilter) -> Done {
        let mut key = key;
        loop {
            if which != Which::Exact {
                match self.neighbour(which, &key, filter) {
                    Some((found, metadata)) if metadata_only => {
                        let metadata = metadata_of(&metadata);
                        let entry = Entry { key: Bytes::from(found), metadata, value: Bytes::new() };
                        return Done::Now(Outcome::Entry(entry));
                    }
                    Some((found, _)) => key = Bytes::from(found),
                    None => return not_found(),
                }
            } else if metadata_only {
                return match self.log.metadata(&key) {
                    Ok(found) => {
                        let metadata = metadata_of(&found);
                        Done::Now(Outcome::Entry(Entry { key, metadata, value: Bytes::new() }))
                    }
                    Err(error) => failed(&error),
                };
            }
            return match self.log.get(&key) {
                Ok(found) => Done::Now(Outcome::Entry(entry(key, found))),
                // Deleted meanwhile: the one behind it is the neighbour now.
                Err(LogError::NotFound) if which != Which::Exact => continue,
                Err(error) => {
                    if matches!(error, LogError::Damaged(_)) {
                        self.tell(error.to_string());
                    }
                    failed(&error)
                }
            };
        }
    }

    /// The next key that the identity sees.
    fn neighbour(&self, which: Which, from: &[u8], filter: &KeyFilter) -> Option<Found> {
        let mut key: Box<[u8]> = from.into();
        loop {
            let found = match which {
                // Every key is behind the empty one.
                Which::Next if key.is_empty() => {
                    let first = self.log.keys(&valuelog::KeyRange::all(1)).pop()?;
                    let metadata = self.log.metadata(&first).ok()?;
                    Some((first, metadata))
                }
                Which::Next => self.log.next(&key).ok()?,
                _ if key.is_empty() => None,
                _ => self.log.previous(&key).ok()?,
            };
            let (found, metadata) = found?;
            if filter.sees(&found) {
                return Some((found, metadata));
            }
            key = found;
        }
    }

    /// Keys of a range, in steps; `wanted` says of each whether it is one of those asked for, or that it is
    /// enough.
    fn walk(&self, range: &KeyRange, mut step: impl FnMut(&[u8]) -> bool) {
        let bound = |key: &Bytes, inclusive: bool| match inclusive {
            true => Bound::Included(key.to_vec()),
            false => Bound::Excluded(key.to_vec()),
        };
        let mut start = bound(&range.start, range.start_inclusive);
        let mut end = bound(&range.end, range.end_inclusive);
        loop {
            let bounds = valuelog::KeyRange {
                start: start.as_ref().map(Vec::as_slice),
                end: end.as_ref().map(Vec::as_slice),
                most: WALK_KEYS,
                reverse: range.reverse,
            };
            let keys = self.log.keys(&bounds);
            if !keys.iter().all(|key| step(key)) || keys.len() < WALK_KEYS {
                return;
            }
            let Some(last) = keys.last() else { return };
            match range.reverse {
                false => start = Bound::Excluded(last.to_vec()),
                true => end = Bound::Excluded(last.to_vec()),
            }
        }
    }

    fn keys(&self, range: &KeyRange, filter: &KeyFilter) -> Vec<Bytes> {
        let most = range.max_returned as usize;
        let (mut keys, mut bytes) = (Vec::new(), 0);
        if most == 0 {
            return keys;
        }
        self.walk(range, |key| {
            if filter.sees(key) {
                bytes += key.len();
                keys.push(Bytes::copy_from_slice(key));
            }
            keys.len() < most && bytes < kinetic::server::RANGE_ANSWER_BYTES_MAX
        });
        keys
    }

    fn change(&self, change: &Change) -> Done {
        if !agrees(change) {
            return refused(StatusCode::DataError, TAG_DIFFERS);
        }
        let synchronization = match change {
            Change::Put(put) => put.synchronization,
            Change::Delete(delete) => delete.synchronization,
        };
        let done = match change_of(change) {
            valuelog::Change::Put(put) => self.log.put(&put, Durability::Back),
            valuelog::Change::Delete(delete) => self.log.delete(&delete, Durability::Back),
        };
        match (done, synchronization) {
            (Err(error), _) => failed(&error),
            (Ok(()), Synchronization::WriteBack) => Done::Now(Outcome::Done),
            // One sync for all who wait.
            (Ok(()), _) => Done::AfterSync,
        }
    }

    fn batch(&self, changes: &[Change]) -> Done {
        if let Some(place) = changes.iter().position(|change| !agrees(change)) {
            return Done::Now(Outcome::BatchFailed { place, code: StatusCode::DataError });
        }
        let all: Vec<valuelog::Change<'_>> = changes.iter().map(change_of).collect();
        match self.log.batch(&all, Durability::Back) {
            Ok(()) => Done::AfterSync,
            Err(LogError::Batch { place, source }) => {
                Done::Now(Outcome::BatchFailed { place, code: code_of(&source) })
            }
            Err(error) if error.is_full() => {
                Done::Now(Outcome::BatchFailed { place: 0, code: code_of(&error) })
            }
            Err(error) => failed(&error),
        }
    }

    /// Work that takes long, of which there is little at a time.
    fn in_background(&self, work: impl FnOnce() -> Done) -> Done {
        if self.background.fetch_add(1, Ordering::SeqCst) >= BACKGROUND_MAX {
            self.background.fetch_sub(1, Ordering::SeqCst);
            return refused(StatusCode::ServiceBusy, "as many scans are under way as there may be");
        }
        let done = work();
        self.background.fetch_sub(1, Ordering::SeqCst);
        done
    }

    fn scan(&self, range: &KeyRange, filter: &KeyFilter, until: Option<Instant>) -> Done {
        let until = until.unwrap_or_else(|| Instant::now() + SCAN_WITHIN);
        let most = range.max_returned as usize;
        let (mut damaged, mut last, mut failure) = (Vec::new(), None, None);
        self.walk(range, |key| {
            if last.is_some() && (damaged.len() >= most || Instant::now() >= until) {
                return false;
            }
            if filter.sees(key) {
                let is_damaged = match self.log.get(key) {
                    Ok(found) => {
                        let metadata = metadata_of(&found.metadata);
                        check_tag(&metadata, &found.value) == TagCheck::Differs
                    }
                    Err(LogError::NotFound) => false,
                    Err(LogError::Damaged(damage)) => {
                        self.tell(damage.to_string());
                        true
                    }
                    Err(error) => {
                        failure = Some(error);
                        return false;
                    }
                };
                if is_damaged {
                    damaged.push(Bytes::copy_from_slice(key));
                }
            }
            last = Some(Bytes::copy_from_slice(key));
            true
        });
        if let Some(error) = failure {
            return failed(&error);
        }
        // Whether anything is behind the last one that was looked at.
        let mut is_whole = true;
        if let Some(last) = &last {
            let rest = match range.reverse {
                false => KeyRange { start: last.clone(), start_inclusive: false, ..range.clone() },
                true => KeyRange { end: last.clone(), end_inclusive: false, ..range.clone() },
            };
            self.walk(&rest, |_| {
                is_whole = false;
                false
            });
        }
        Done::Now(Outcome::Scanned { damaged, last: last.filter(|_| !is_whole) })
    }

    fn optimize(&self, until: Option<Instant>) -> Done {
        let until = until.unwrap_or_else(|| Instant::now() + SCAN_WITHIN);
        loop {
            match self.log.clean() {
                Ok(false) => return Done::Now(Outcome::Done),
                Ok(true) if Instant::now() >= until => {
                    return refused(StatusCode::Expired, "there is more to be tidied: ask again");
                }
                Ok(true) => {}
                Err(error) => return failed(&error),
            }
        }
    }

    fn device_log(&self, name: &[u8]) -> Done {
        if name == kinetic::EXTENSIONS_LOG.as_bytes() {
            let extensions = format!("{}\n", kinetic::EXTENSION_GET_PART);
            return Done::Now(Outcome::DeviceLog(Bytes::from(extensions)));
        }
        refused(StatusCode::NotFound, "there is no log of this name")
    }
}

fn entry(key: Bytes, found: valuelog::Entry) -> Entry {
    let metadata = metadata_of(&found.metadata);
    let value = match found.value.len() {
        0..=COPIED_BYTES_MAX => Bytes::copy_from_slice(&found.value),
        _ => Bytes::from_owner(found.value),
    };
    Entry { key, metadata, value }
}

/// A number that nobody has used.
pub(crate) fn new_id() -> Option<Uuid> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(Uuid::from_random(bytes))
}
