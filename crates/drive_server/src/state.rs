//! What a device keeps: its state, its name, and how often it was started. It stands among the store's own
//! keys.

use base::Uuid;
use kinetic::ConnectionId;
use kinetic::server::DeviceState;
use valuelog::{Expected, LogError, Put, ValueLog};

use crate::error::StartError;

const STATE: &[u8] = b"kinetic state";
const IDENTITY: &[u8] = b"kinetic identity";
const STARTS: &[u8] = b"kinetic starts";

/// What stands there when a device starts.
pub(crate) struct Kept {
    pub(crate) state: DeviceState,
    /// By which it is known again: that of the store when it was made. An erased device keeps it.
    pub(crate) identity: Uuid,
    /// The number of its first connection: one that no earlier start has used.
    pub(crate) connection_first: ConnectionId,
    pub(crate) starts: u32,
}

/// Reads it, and counts the start, durable on return.
pub(crate) fn load(log: &ValueLog) -> Result<Kept, StartError> {
    let state = match get(log, STATE)? {
        None => DeviceState::factory(),
        Some(bytes) => DeviceState::from_bytes(&bytes).ok_or(StartError::UnknownState)?,
    };
    let identity = match get(log, IDENTITY)? {
        None => {
            put(log, IDENTITY, &log.id().0)?;
            log.id()
        }
        Some(bytes) => Uuid(bytes.try_into().map_err(|_| StartError::UnknownState)?),
    };
    let starts = match get(log, STARTS)? {
        None => 0,
        Some(bytes) => u32::from_le_bytes(bytes.try_into().map_err(|_| StartError::UnknownState)?),
    };
    let starts = starts.wrapping_add(1);
    put(log, STARTS, &starts.to_le_bytes())?;
    Ok(Kept {
        state,
        identity,
        connection_first: ConnectionId(i64::from(starts & (u32::MAX >> 1)) << 32),
        starts,
    })
}

/// Makes a state durable.
pub(crate) fn save(log: &ValueLog, state: &DeviceState) -> Result<(), LogError> {
    put(log, STATE, &state.to_bytes())
}

/// After an erase: all of it again.
pub(crate) fn renew(
    log: &ValueLog,
    state: &DeviceState,
    identity: Uuid,
    starts: u32,
) -> Result<(), LogError> {
    put(log, IDENTITY, &identity.0)?;
    put(log, STARTS, &starts.to_le_bytes())?;
    save(log, state)
}

fn get(log: &ValueLog, key: &[u8]) -> Result<Option<Vec<u8>>, LogError> {
    match log.get_own(key) {
        Ok(entry) => Ok(Some(entry.value.to_vec())),
        Err(LogError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

fn put(log: &ValueLog, key: &[u8], value: &[u8]) -> Result<(), LogError> {
    log.put_own(&Put { key, value, version: &[], tag: &[], algorithm: 0, expected: Expected::Any })
}
