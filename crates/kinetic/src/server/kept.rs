//! The state of a device as bytes, to be kept while it is off.

use bytes::Bytes;
use prost::Message as _;

use super::device::DeviceState;
use crate::access::Acl;
use crate::auth::Secret;
use crate::ids::ClusterVersion;
use crate::wire;

/// The version of the form.
const VERSION: u32 = 1;

/// As it is kept.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
struct Kept {
    #[prost(uint32, tag = "1")]
    version: u32,
    #[prost(message, repeated, tag = "2")]
    acls: Vec<wire::Acl>,
    #[prost(int64, tag = "3")]
    cluster_version: i64,
    #[prost(bytes = "bytes", tag = "4")]
    lock_pin: Bytes,
    #[prost(bytes = "bytes", tag = "5")]
    erase_pin: Bytes,
    #[prost(bool, tag = "6")]
    is_locked: bool,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("version", &self.version).finish_non_exhaustive()
    }
}

impl DeviceState {
    /// As bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let kept = Kept {
            version: VERSION,
            acls: self.acls.iter().map(Acl::write).collect(),
            cluster_version: self.cluster_version.0,
            lock_pin: self.lock_pin.bytes().clone(),
            erase_pin: self.erase_pin.bytes().clone(),
            is_locked: self.is_locked,
        };
        kept.encode_to_vec()
    }

    /// From bytes; nothing if they are no state, or one that this program does not know all of.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let kept = Kept::decode(bytes).ok().filter(|kept| kept.version == VERSION)?;
        let acls = kept.acls.iter().map(|acl| Acl::read(acl).ok()).collect::<Option<Vec<_>>>()?;
        if acls.is_empty() {
            return None;
        }
        Some(DeviceState {
            acls,
            cluster_version: ClusterVersion(kept.cluster_version),
            lock_pin: Secret::new(kept.lock_pin),
            erase_pin: Secret::new(kept.erase_pin),
            is_locked: kept.is_locked,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_and_half_of_one_does_not() {
        let state = DeviceState {
            cluster_version: ClusterVersion(-7),
            lock_pin: Secret::new("lock"),
            is_locked: true,
            ..DeviceState::factory()
        };
        let bytes = state.to_bytes();
        assert_eq!(DeviceState::from_bytes(&bytes), Some(state));
        for end in 0..bytes.len() {
            let cut = DeviceState::from_bytes(&bytes[..end]);
            assert!(cut.is_none_or(|state| !state.acls.is_empty()));
        }
        assert_eq!(DeviceState::from_bytes(b""), None, "no state is no state of anybody");
        let later = Kept { version: VERSION + 1, ..Kept::decode(&bytes[..]).unwrap() };
        assert_eq!(DeviceState::from_bytes(&later.encode_to_vec()), None);
    }
}
