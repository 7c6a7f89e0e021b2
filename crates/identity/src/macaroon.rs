//! Macaroons: bearer credentials of ours that whoever holds one can narrow and nobody can widen.
//!
//! A macaroon stands for the caller who asked for it. Its identifier, which only this server reads, says who
//! that is; its caveats say what is left. The signature is a chain of HMACs over both (Birgisson et al.,
//! NDSS 2014), in the form of libmacaroons, which XRootD, dCache and their clients use: a client appends a
//! caveat by making the signature the key of the next one. No caveat gives anything.

mod caveat;
mod hmac;
#[cfg(test)]
mod tests;
mod wire;

use std::fmt;
use std::net::IpAddr;

use base::{ArchivePath, Duration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::caller::{Caller, Capability, How, NAME_BYTES_MAX};
use crate::constant_time::same;
use crate::decision::Target;
use crate::macaroon::caveat::{Caveat, is_within, rfc3339};
use crate::macaroon::hmac::{derived, hmac};
use crate::macaroon::wire::{Parts, decode};
use crate::rights::Rights;

pub(crate) use crate::macaroon::wire::encode;
pub use crate::macaroon::wire::{CAVEATS_MAX, MACAROON_BYTES_MAX};

/// How long a macaroon is valid whose asker says nothing.
pub const MACAROON_VALIDITY: Duration = Duration::from_secs(3600);
/// How long one is valid at most.
pub const MACAROON_VALIDITY_MAX: Duration = Duration::from_secs(7 * 86_400);
/// The most caveats that one may be asked for with; its own and those that holders add are beside them.
pub const CAVEATS_ASKED_MAX: usize = 32;
/// Where macaroons say that they are from. It is signed by nobody, and one that says something else is none
/// of ours.
const LOCATION: &str = "kist";
/// The form of the identifier.
const FORMAT: u32 = 1;

/// What macaroons are made with, and nobody else knows.
#[derive(Clone, PartialEq, Eq)]
pub struct RootSecret(pub [u8; 32]);

impl fmt::Debug for RootSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RootSecret(..)")
    }
}

/// What somebody asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MacaroonRequest {
    /// The file or directory that it is to be for.
    pub path: ArchivePath,
    /// Further caveats.
    pub caveats: Vec<String>,
    /// For how long; [`MACAROON_VALIDITY`] if nothing is said. Longer than [`MACAROON_VALIDITY_MAX`] is cut.
    pub validity: Option<Duration>,
}

/// Why a macaroon is refused. For the log: its bearer is told less.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MacaroonError {
    /// Neither of the two binary formats in base64url.
    #[error("it is malformed")]
    Malformed,
    /// The format in JSON.
    #[error("it is in JSON: only the binary formats are taken")]
    Json,
    /// Longer than any may be.
    #[error("it has {0} bytes, more than {MACAROON_BYTES_MAX}")]
    TooLong(usize),
    /// More caveats than any may have.
    #[error("it has too many caveats")]
    TooMany,
    /// Somebody else would have to discharge a caveat.
    #[error("it has a caveat for a third party")]
    ThirdParty,
    /// It says that it is somebody else's.
    #[error("it is from somewhere else")]
    Location,
    /// It is not made with the secret, or was changed.
    #[error("its signature is wrong")]
    Signature,
    /// A caveat is not understood.
    #[error("the caveat '{0}' is not understood")]
    Caveat(String),
    /// It has ended.
    #[error("it has expired")]
    Expired,
    /// One is asked for that would have ended already.
    #[error("a caveat before: names a time that is over")]
    Ended,
    /// It would never end.
    #[error("it has no caveat that says when it ends")]
    NoEnd,
    /// It comes from elsewhere.
    #[error("it comes from an address that its caveats do not name")]
    Address,
    /// Its caveats exclude each other.
    #[error("its caveats leave nothing")]
    Nothing,
    /// Whoever asks may not have one.
    #[error("{0}")]
    Asker(&'static str),
}

/// Whom a macaroon stands for: what its identifier says.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Identifier {
    format: u32,
    /// Random: no two macaroons are the same.
    nonce: String,
    name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    how: Asked,
    origin: String,
    /// Whether an admin asked: the caveats are all that it gives then.
    #[serde(default, skip_serializing_if = "is_false")]
    admin: bool,
    /// What the asker was confined to, so far as it is of use at the macaroon's path. `None`: to nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scopes: Option<Vec<Scope>>,
}

/// Bits of rights, a path, and whether only a directory is meant there.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Scope(u32, String, bool);

/// With what the asker came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Asked {
    Key,
    Signature,
    Token,
    Certificate,
}

/// A macaroon that is genuine and whose caveats hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Macaroon {
    /// With what its asker came in: one of key, signature, token and certificate.
    pub how: How,
    /// What has to be in force still: [`Caller::origin`] of its asker.
    pub origin: String,
    /// Whether its asker was an admin.
    pub of_admin: bool,
    /// Whom it stands for; never an admin, and bounded.
    pub caller: Caller,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// Whether a bearer credential begins like a macaroon, in version 1 or 2: only to say so in a log.
#[must_use]
pub fn is_like_macaroon(credential: &str) -> bool {
    !credential.contains('.') && (credential.starts_with("MD") || credential.starts_with("Ag"))
}

/// Makes a macaroon for a caller. It is bounded to the path of the request, to all of its caveats, and in
/// time.
///
/// # Errors
/// If the caller may have none, or a caveat would make it worthless.
pub fn make_macaroon(
    secret: &RootSecret,
    caller: &Caller,
    request: &MacaroonRequest,
    now: Timestamp,
    nonce: [u8; 16],
) -> Result<String, MacaroonError> {
    let how = match caller.how {
        How::Key => Asked::Key,
        How::Signature => Asked::Signature,
        How::Token => Asked::Token,
        How::Certificate => Asked::Certificate,
        How::Macaroon => {
            return Err(MacaroonError::Asker(
                "a macaroon is not asked for with another one: add caveats to that",
            ));
        }
        How::Nothing | How::Local | How::Xrootd => {
            return Err(MacaroonError::Asker("it is asked for with a credential"));
        }
    };
    // What cannot be taken back any more must not become a macaroon.
    if caller.is_anonymous() || caller.origin.is_empty() || caller.is_bounded() {
        return Err(MacaroonError::Asker("it is asked for with a credential that can be taken back"));
    }
    if request.caveats.len() > CAVEATS_ASKED_MAX {
        return Err(MacaroonError::TooMany);
    }
    let validity = request.validity.unwrap_or(MACAROON_VALIDITY).min(MACAROON_VALIDITY_MAX);
    let end = now.plus(validity);
    let end = caller.until.map_or(end, |until| until.min(end));
    let mut caveats = vec![format!("path:{}", request.path)];
    caveats.extend(request.caveats.iter().cloned());
    caveats.push(format!("before:{}", rfc3339(end)));
    let read = caveats.iter().map(|caveat| Caveat::read(caveat)).collect::<Result<Vec<Caveat>, _>>()?;
    // The last one is our own.
    if read.iter().rev().skip(1).any(|caveat| matches!(caveat, Caveat::Before(end) if *end <= now)) {
        return Err(MacaroonError::Ended);
    }
    let bound = bound_of(&read)?;
    let identifier = Identifier {
        format: FORMAT,
        nonce: nonce.iter().map(|byte| format!("{byte:02x}")).collect(),
        name: caller.name.clone(),
        groups: caller.groups.clone(),
        how,
        origin: caller.origin.clone(),
        admin: caller.is_admin,
        scopes: scopes_at(caller, &bound.path)?,
    };
    let identifier = serde_json::to_vec(&identifier).map_err(|_| MacaroonError::Malformed)?;
    // As letters: clients take an identifier for text.
    let identifier = encode(&identifier).into_bytes();
    let caveats: Vec<Vec<u8>> = caveats.into_iter().map(String::into_bytes).collect();
    let signature = signature_of(secret, &identifier, &caveats);
    let text = Parts { location: LOCATION.to_owned(), identifier, caveats, signature }.to_text();
    if text.len() > MACAROON_BYTES_MAX { Err(MacaroonError::TooLong(text.len())) } else { Ok(text) }
}

/// Whom a macaroon stands for. Nothing of it is believed before its signature. That the credential by which
/// it was asked for is in force still is for the caller to see to.
///
/// # Errors
/// Says what is wrong with it.
pub fn verify_macaroon(
    text: &str,
    secret: &RootSecret,
    now: Timestamp,
    peer: Option<IpAddr>,
) -> Result<Macaroon, MacaroonError> {
    let Parts { location, identifier, caveats, signature } = Parts::read(text)?;
    if location != LOCATION {
        return Err(MacaroonError::Location);
    }
    if !same(&signature_of(secret, &identifier, &caveats), &signature) {
        return Err(MacaroonError::Signature);
    }
    behind_signature(&identifier, &caveats, now, peer)
}

/// What a macaroon says behind a signature that is right.
pub(crate) fn behind_signature(
    identifier: &[u8],
    caveats: &[Vec<u8>],
    now: Timestamp,
    peer: Option<IpAddr>,
) -> Result<Macaroon, MacaroonError> {
    let wrong = || MacaroonError::Malformed;
    let text = std::str::from_utf8(identifier).ok().and_then(decode).ok_or_else(wrong)?;
    let identifier: Identifier = serde_json::from_slice(&text).map_err(|_| wrong())?;
    let mut known = Vec::with_capacity(caveats.len());
    for caveat in caveats {
        let shown = || MacaroonError::Caveat("bytes that are no text".to_owned());
        known.push(Caveat::read(std::str::from_utf8(caveat).map_err(|_| shown())?)?);
    }
    let mut end = None;
    for caveat in &known {
        match caveat {
            Caveat::Before(at) => end = Some(end.map_or(*at, |end: Timestamp| end.min(*at))),
            Caveat::Ip(networks) if !peer.is_some_and(|peer| is_within(peer, networks)) => {
                return Err(MacaroonError::Address);
            }
            _ => {}
        }
    }
    match end {
        None => return Err(MacaroonError::NoEnd),
        Some(end) if now >= end => return Err(MacaroonError::Expired),
        Some(_) => {}
    }
    let bound = bound_of(&known)?;
    identifier.macaroon(bound, end)
}

/// The chain of signatures: each is the key of the next.
fn signature_of(secret: &RootSecret, identifier: &[u8], caveats: &[Vec<u8>]) -> [u8; 32] {
    let first = hmac(&derived(&secret.0), identifier);
    caveats.iter().fold(first, |key, caveat| hmac(&key, caveat))
}

/// What caveats leave together: one path, some rights.
fn bound_of(caveats: &[Caveat]) -> Result<Capability, MacaroonError> {
    // What would outlast the macaroon: lists, holds, buckets of one's own.
    let lasting = Rights::MANAGE | Rights::MAKE_BUCKETS;
    let mut bound =
        Capability { rights: Rights::ALL.without(lasting), path: ArchivePath::root(), is_directory: false };
    for caveat in caveats {
        match caveat {
            Caveat::Path(path) if bound.covers(path, Target::File) => bound.path = path.clone(),
            Caveat::Path(path) if is_below(&bound.path, path) => {}
            Caveat::Path(_) => return Err(MacaroonError::Nothing),
            Caveat::Activity(rights) => bound.rights = bound.rights & *rights,
            Caveat::Before(_) | Caveat::Ip(_) | Caveat::Name => {}
        }
    }
    if bound.rights.is_empty() { Err(MacaroonError::Nothing) } else { Ok(bound) }
}

fn is_below(path: &ArchivePath, above: &ArchivePath) -> bool {
    let above = Capability { rights: Rights::NONE, path: above.clone(), is_directory: false };
    above.covers(path, Target::File)
}

/// What a token's capabilities are of use at a path; `None` if the caller is not confined.
fn scopes_at(caller: &Caller, path: &ArchivePath) -> Result<Option<Vec<Scope>>, MacaroonError> {
    if !caller.is_confined() {
        return Ok(None);
    }
    let of_use =
        |capability: &&Capability| is_below(path, &capability.path) || is_below(&capability.path, path);
    let scope = |one: &Capability| Scope(one.rights.bits(), one.path.to_string(), one.is_directory);
    let scopes: Vec<Scope> = caller.capabilities.iter().filter(of_use).map(scope).collect();
    // None at all would read as confined to nothing.
    if scopes.is_empty() {
        Err(MacaroonError::Asker("the token has no scope there"))
    } else {
        Ok(Some(scopes))
    }
}

impl Identifier {
    fn macaroon(self, bound: Capability, until: Option<Timestamp>) -> Result<Macaroon, MacaroonError> {
        let Identifier { format, nonce: _, name, groups, how, origin, admin, scopes } = self;
        let wrong = || MacaroonError::Malformed;
        let is_named = (1..=NAME_BYTES_MAX).contains(&name.len());
        if format != FORMAT || !is_named || origin.is_empty() || (admin && scopes.is_some()) {
            return Err(wrong());
        }
        let capability = |Scope(bits, path, is_directory): Scope| {
            let (rights, path) = (Rights::from_bits(bits)?, ArchivePath::new(&path).ok()?);
            Some(Capability { rights, path, is_directory })
        };
        let scopes = scopes.map(|scopes| scopes.into_iter().map(capability).collect::<Option<Vec<_>>>());
        let capabilities = match scopes {
            // What an admin may, lists and owners do not say.
            None if admin => vec![bound.clone()],
            None => Vec::new(),
            Some(Some(scopes)) if !scopes.is_empty() => scopes,
            Some(_) => return Err(wrong()),
        };
        let how = match how {
            Asked::Key => How::Key,
            Asked::Signature => How::Signature,
            Asked::Token => How::Token,
            Asked::Certificate => How::Certificate,
        };
        let caller = Caller {
            name,
            groups,
            is_admin: false,
            is_operator: false,
            capabilities,
            bounds: Some(vec![bound]),
            how: How::Macaroon,
            origin: origin.clone(),
            until,
        };
        Ok(Macaroon { how, origin, of_admin: admin, caller })
    }
}
