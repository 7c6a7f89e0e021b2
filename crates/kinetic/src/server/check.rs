//! Whether a request may be: identity, key, connection, priority.

use super::device::{Device, Known};
use crate::code::{Permission, PowerLevel, StatusCode};
use crate::entry::Change;
use crate::push::Push;
use crate::request::{Refusal, Request, SecurityChange, Treatment};

/// How awake the device is: in which levels it does what it is asked.
pub(super) fn is_awake(device: &Device, request: &Request) -> Result<(), Refusal> {
    let refused = |code, text| Err(Refusal::new(code, text));
    match device.power() {
        _ if matches!(request, Request::SetPowerLevel(_)) => Ok(()),
        PowerLevel::Operational => Ok(()),
        PowerLevel::Hibernate => refused(StatusCode::Hibernate, "the device hibernates"),
        PowerLevel::Shutdown => refused(StatusCode::Shutdown, "the device shuts down"),
        PowerLevel::Fail => refused(StatusCode::InternalError, "the device has failed"),
    }
}

/// Whether the identity may ask for it.
pub(super) fn is_allowed(
    device: &Device,
    known: &Known,
    is_tls: bool,
    request: &Request,
    treatment: &Treatment,
) -> Result<(), Refusal> {
    let acl = &known.acl;
    let refuse = |text| Err(Refusal::new(StatusCode::NotAuthorized, text));
    if treatment.priority.is_some_and(|priority| priority > acl.max_priority) {
        return refuse("the identity may not ask for this priority");
    }
    let of_key = |permission, key: &[u8]| acl.allows_key(permission, is_tls, key);
    let of_any = |permission| acl.allows(permission, is_tls);
    let is_allowed = match request {
        Request::Get { which: crate::Which::Exact, key, .. }
        | Request::GetPart { key, .. }
        | Request::GetVersion { key } => of_key(Permission::Read, key),
        // From where they look says nothing; what they find is filtered.
        Request::Get { .. } => of_any(Permission::Read),
        Request::Change(Change::Put(put)) => of_key(Permission::Write, &put.key),
        Request::Change(Change::Delete(delete)) => of_key(Permission::Delete, &delete.key),
        Request::GetKeyRange(_) | Request::MediaScan(_) | Request::MediaOptimize(_) => {
            of_any(Permission::Range)
        }
        Request::SetClusterVersion(_) | Request::Firmware(_) => of_any(Permission::Setup),
        Request::Security(_) => {
            if device.is_security_over_tls() && !is_tls {
                return Err(Refusal::invalid("keys and PINs are set over TLS only"));
            }
            of_any(Permission::Security)
        }
        Request::GetLog { .. } => of_any(Permission::GetLog),
        Request::Push(push) => push.operations.iter().all(|one| of_key(Permission::PeerToPeer, &one.key)),
        Request::SetPowerLevel(_) => of_any(Permission::PowerManagement),
        // What batches hold is checked change by change.
        Request::Noop
        | Request::FlushAllData
        | Request::StartBatch
        | Request::EndBatch { .. }
        | Request::AbortBatch => true,
        Request::Pin(_) => return refuse("a PIN is not for an identity"),
    };
    if is_allowed { Ok(()) } else { refuse("no scope of the identity allows it") }
}

/// What cannot be, whoever asks.
pub(super) fn is_sound(device: &Device, request: &Request) -> Result<(), Refusal> {
    if request.check(device.bounds()).is_err() {
        return Err(Refusal::new(
            StatusCode::InvalidRequest,
            "a part of the request is larger than the device accepts: see its limits",
        ));
    }
    let state = device.state();
    let wrong_pin = Refusal::new(StatusCode::NotAuthorized, "the present PIN is another one");
    match request {
        Request::Change(change) if change.key().is_empty() => Err(Refusal::invalid("the key is empty")),
        Request::Push(push) if has_empty_key(push) => Err(Refusal::invalid("a key is empty")),
        // Nobody could set another.
        Request::Security(SecurityChange::Acls(acls)) if acls.is_empty() => {
            Err(Refusal::invalid("there is no access list"))
        }
        Request::Security(SecurityChange::Acls(acls)) => {
            let is_double = acls
                .iter()
                .enumerate()
                .any(|(place, acl)| acls.iter().take(place).any(|other| other.identity == acl.identity));
            if is_double { Err(Refusal::invalid("an identity is named twice")) } else { Ok(()) }
        }
        Request::Security(SecurityChange::ErasePin { old, .. }) if !state.erase_pin.is(old.bytes()) => {
            Err(wrong_pin)
        }
        Request::Security(SecurityChange::LockPin { old, .. }) if !state.lock_pin.is(old.bytes()) => {
            Err(wrong_pin)
        }
        _ => Ok(()),
    }
}

fn has_empty_key(push: &Push) -> bool {
    push.operations.iter().any(|one| {
        one.key.is_empty()
            || one.new_key.as_ref().is_some_and(bytes::Bytes::is_empty)
            || one.then.as_ref().is_some_and(has_empty_key)
    })
}
