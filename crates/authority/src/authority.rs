//! Who comes in, and the engine as they may use it.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use archive::{ArchiveError, HealthProblem};
use base::{Blake3, Clock, Duration, Timestamp};
use identity::{
    Caller, CertificateMapping, How, Issuer, Macaroon, MacaroonError, MacaroonRequest, RootSecret,
    TokenLimits, XrootdEntity, XrootdTrust, certificate_caller, is_like_macaroon, make_macaroon, same,
    verify_macaroon, verify_token, xrootd_caller,
};
use journal::{AuditEntry, Outcome, Room};
use threads::Mutex;

use crate::audit::Audit;
use crate::keyring::{AccessKey, KeyError, KeyInfo, KeyRequest, Keyring, NewKey};
use crate::locks::Locks;
use crate::macaroons::Secret;
use crate::notices::Notices;
use crate::strangers::Strangers;

/// The longest address of a refused request in the audit log, and the longest reason; the rest is cut.
const REFUSED_BYTES_MAX: usize = 512;

/// By whom and with what one may come in.
#[derive(Clone, Debug, Default)]
pub struct Identities {
    /// Issuers of tokens.
    pub issuers: Vec<Issuer>,
    /// Bounds of tokens.
    pub tokens: TokenLimits,
    /// Whom certificates stand for.
    pub certificates: Vec<CertificateMapping>,
}

/// How an authority is set up.
#[derive(Default)]
pub struct AuthoritySettings {
    /// What time it is. Without one, nothing that ends in time is valid.
    pub clock: Option<Arc<dyn Clock>>,
    /// Where given-out keys are kept. Without one they are forgotten at the end.
    pub keys_file: Option<PathBuf>,
    /// Where the secret is kept that macaroons are made with. Without one they end with the process.
    pub macaroons_file: Option<PathBuf>,
    /// Names and BLAKE3 hashes of admins' keys.
    pub admin_keys: Vec<(String, [u8; 32])>,
    /// By whom and with what one may come in.
    pub identities: Identities,
    /// Where it is written down who did what.
    pub audit: Option<Arc<Audit>>,
    /// What operators are told beside what the engine says.
    pub notices: Notices,
}

/// Hashes of the keys of admins, and whose they are.
type AdminKeys = Vec<([u8; 32], Arc<Caller>)>;

/// Knows who comes in, and writes down what they do. What they may do with an engine is for
/// [`Guard`](crate::Guard).
pub struct Authority {
    clock: Option<Arc<dyn Clock>>,
    keyring: Keyring,
    secret: Secret,
    admin_keys: Mutex<Arc<AdminKeys>>,
    identities: Mutex<Arc<Identities>>,
    audit: Option<Arc<Audit>>,
    strangers: Strangers,
    locks: Arc<Locks>,
    notices: Notices,
}

/// Why somebody does not come in. What is wrong with a credential is for the log, not for its bearer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Denied {
    /// The credential is none of ours.
    #[error("the credential is not valid: {0}")]
    Invalid(String),
}

impl Default for Authority {
    /// No keys yet, no clock and no audit log.
    fn default() -> Self {
        let (secret, settings) = (Secret::none(), AuthoritySettings::default());
        Authority::of(Keyring::none(), secret, settings)
    }
}

impl Authority {
    /// With these settings.
    ///
    /// # Errors
    /// If the file of keys cannot be read, or that of the secret of macaroons.
    pub fn with(settings: AuthoritySettings) -> Result<Self, KeyError> {
        let keyring = match &settings.keys_file {
            Some(path) => Keyring::open(path)?,
            None => Keyring::none(),
        };
        let secret = Secret::open(settings.macaroons_file.as_deref())?;
        Ok(Authority::of(keyring, secret, settings))
    }

    fn of(keyring: Keyring, secret: Secret, settings: AuthoritySettings) -> Self {
        let AuthoritySettings { clock, admin_keys, identities, audit, notices, .. } = settings;
        let identities = Mutex::new(Arc::new(identities));
        let (known, strangers) = (Mutex::default(), Strangers::default());
        let locks = Arc::new(Locks::default());
        let authority = Authority {
            clock,
            keyring,
            secret,
            admin_keys: known,
            identities,
            audit,
            strangers,
            locks,
            notices,
        };
        authority.add_admin_keys(admin_keys);
        authority
    }

    /// Takes further keys of admins, as names and BLAKE3 hashes. One of all zeros is never taken.
    pub fn add_admin_keys(&self, keys: impl IntoIterator<Item = (String, [u8; 32])>) {
        let mut known = self.admin_keys.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = Vec::clone(&known);
        let new = keys.into_iter().filter(|(_, hash)| *hash != [0; 32]);
        let caller = |name: &str, hash: &_| Caller { origin: id_of(hash), ..Caller::admin(name) };
        all.extend(new.map(|(name, hash)| (hash, Arc::new(caller(&name, &hash)))));
        *known = Arc::new(all);
    }

    /// Puts other issuers and certificates in place of those so far, from the next request on.
    pub fn set_identities(&self, identities: Identities) {
        *self.identities.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(identities);
    }

    /// Reads the file of given-out keys again, and the secret of macaroons.
    ///
    /// # Errors
    /// If one cannot be read; what it holds stays as it was.
    pub fn reload_keys(&self) -> Result<(), KeyError> {
        self.keyring.reload()?;
        self.secret.reload()
    }

    /// The key of that id, if it is valid now.
    #[must_use]
    pub fn access_key(&self, id: &str) -> Option<AccessKey> {
        self.keyring.signing(id, self.now())
    }

    /// Whoever bears this key, token or macaroon, and comes from this address.
    ///
    /// # Errors
    /// If it is not valid now, or not from there.
    pub fn bearer(&self, token: &str, peer: Option<SocketAddr>) -> Result<Arc<Caller>, Denied> {
        let hash = Blake3::of(token.as_bytes()).0;
        let admins = self.admin_keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut found = None;
        for (known, caller) in admins.iter() {
            if same(known, &hash) {
                found = Some(caller.clone());
            }
        }
        if let Some(caller) = found {
            return Ok(caller);
        }
        let invalid = |why: String| Denied::Invalid(why);
        if let Some(caller) = self.keyring.bearer(token, self.now()).map_err(|why| invalid(why.to_owned()))? {
            return Ok(Arc::new(caller));
        }
        if is_like_macaroon(token) {
            let caller = self.bearer_of_macaroon(token, peer).map(Arc::new);
            return caller.map_err(|why| invalid(format!("the macaroon: {why}")));
        }
        let identities = self.identities();
        if !token.contains('.') || identities.issuers.is_empty() {
            return Err(invalid("no such key".to_owned()));
        }
        let now = self.now().ok_or_else(|| invalid("there is no clock for tokens".to_owned()))?;
        let verified = verify_token(token, &identities.issuers, &identities.tokens, now);
        verified.map(Arc::new).map_err(|error| invalid(format!("the token: {error}")))
    }

    fn bearer_of_macaroon(&self, text: &str, peer: Option<SocketAddr>) -> Result<Caller, String> {
        let now = self.now().ok_or("there is no clock")?;
        let secret = self.secret.get().ok_or("none was ever given out here, or all were revoked")?;
        let verified = verify_macaroon(text, &secret, now, peer.map(|peer| peer.ip()));
        let Macaroon { how, origin, of_admin, mut caller } = verified.map_err(|error| error.to_string())?;
        let asker =
            self.asker(how, &origin, &caller.name, now).ok_or("that by which it was asked for has ended")?;
        // What the asker is not any more, the macaroon is not either.
        if asker.name != caller.name || asker.is_admin != of_admin {
            return Err("its asker is somebody else by now".to_owned());
        }
        caller.groups.retain(|group| how == How::Token || asker.groups.contains(group));
        Ok(caller)
    }

    /// Who would come in now with what a macaroon was asked for by; `None` if nobody. Of a token only its
    /// issuer can be asked for: the macaroon ends with it.
    fn asker(&self, how: How, origin: &str, name: &str, now: Timestamp) -> Option<Caller> {
        match how {
            How::Key | How::Signature => {
                let admins = self.admin_keys.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let admin = admins.iter().find(|(_, caller)| caller.origin == origin);
                let admin = admin.map(|(_, caller)| Caller::clone(caller));
                admin.or_else(|| self.keyring.of_id(origin, Some(now)))
            }
            How::Token => {
                let known = self.identities().issuers.iter().any(|issuer| issuer.issuer == origin);
                known.then(|| Caller::named(name, []))
            }
            How::Certificate => {
                let identities = self.identities();
                let found =
                    identities.certificates.iter().find(|one| one.subject == origin && one.name == name)?;
                let groups = found.groups.clone();
                Some(Caller { groups, is_admin: found.is_admin, ..Caller::named(&found.name, []) })
            }
            _ => None,
        }
    }

    /// Makes a macaroon for a caller: whoever bears it comes in as they would, confined to the path, the
    /// caveats and the time of the request. The secret that it is made with is durable on return.
    ///
    /// # Errors
    /// [`Refusing`].
    pub fn macaroon(
        &self,
        caller: &Arc<Caller>,
        peer: Option<SocketAddr>,
        request: &MacaroonRequest,
    ) -> Result<String, Refusing> {
        let (ledger, verb) = (self.ledger(caller, peer), "macaroon-create");
        ledger.admit(verb)?;
        let made = self.new_macaroon(caller, request);
        ledger.outcome(verb, request.path.as_str(), &made);
        made
    }

    fn new_macaroon(&self, caller: &Caller, request: &MacaroonRequest) -> Result<String, Refusing> {
        let now = self.now().ok_or(Refusing::NoClock)?;
        let mut nonce = [0; 16];
        getrandom::fill(&mut nonce).map_err(|_| KeyError::NoEntropy)?;
        // What is refused needs no secret.
        make_macaroon(&RootSecret([0; 32]), caller, request, now, nonce)?;
        Ok(make_macaroon(&self.secret.get_or_make()?, caller, request, now, nonce)?)
    }

    /// Ends all macaroons at once. For admins. Durable on return.
    ///
    /// # Errors
    /// [`Refusing`].
    pub fn revoke_macaroons(&self, caller: &Arc<Caller>, peer: Option<SocketAddr>) -> Result<(), Refusing> {
        let verb = "macaroon-revoke";
        let ledger = self.admin(caller, peer, verb, "all")?;
        ledger.admit(verb)?;
        let done = self.secret.replace();
        ledger.outcome(verb, "all", &done);
        Ok(done?)
    }

    /// Whom a certificate (DER) stands for that TLS has accepted.
    ///
    /// # Errors
    /// If nobody has its subject.
    pub fn certificate(&self, der: &[u8]) -> Result<Arc<Caller>, Denied> {
        let caller = certificate_caller(der, &self.identities().certificates);
        caller.map(Arc::new).map_err(|error| Denied::Invalid(error.to_string()))
    }

    /// Whom an XRootD server in front of us stands for that has authenticated them. Where they have shown a
    /// token, it alone says who they are, and it is verified here; where they are, `peer`, XRootD says.
    ///
    /// # Errors
    /// If the token is not valid now, or what a trusted protocol says makes nobody.
    pub fn xrootd(
        &self,
        entity: &XrootdEntity,
        token: Option<&str>,
        trust: &XrootdTrust,
        peer: Option<SocketAddr>,
    ) -> Result<Arc<Caller>, Denied> {
        if let Some(token) = token {
            return self.bearer(token, peer);
        }
        let caller = xrootd_caller(entity, trust, &self.identities().certificates);
        caller.map(Arc::new).map_err(|refusal| Denied::Invalid(refusal.to_string()))
    }

    /// What one caller does is written down with it.
    pub(crate) fn ledger(&self, caller: &Arc<Caller>, peer: Option<SocketAddr>) -> Ledger {
        Ledger { clock: self.clock.clone(), audit: self.audit.clone(), caller: caller.clone(), peer }
    }

    /// The locks that clients hold.
    pub(crate) fn locks(&self) -> &Arc<Locks> {
        &self.locks
    }

    /// What operators are told beside what the engine says.
    #[must_use]
    pub fn notices(&self) -> &Notices {
        &self.notices
    }

    /// Writes down that somebody was not let in; does not wait. `how` is what they came with; the credential
    /// itself must not be in `why`. Of many at a time some are written down, and the number of the others:
    /// strangers must not fill the log until the lines about others are gone.
    pub fn refused(&self, how: How, peer: Option<SocketAddr>, verb: &str, what: &str, why: &str) {
        let Some(audit) = &self.audit else { return };
        let now = self.clock.as_ref().map_or(Duration::ZERO, |clock| clock.steady());
        let Some(left_out) = self.strangers.admit(now) else { return };
        let caller = Arc::new(Caller { how, ..Caller::anonymous() });
        let ledger = Ledger { clock: self.clock.clone(), audit: None, caller, peer };
        let cut = |text: &str| {
            text.get(..text.floor_char_boundary(text.len().min(REFUSED_BYTES_MAX)))
                .unwrap_or_default()
                .to_owned()
        };
        let note = match left_out {
            0 => cut(why),
            _ => format!("{} ({left_out} refusals before it were not written down)", cut(why)),
        };
        if !audit.try_record(ledger.entry(&cut(verb), &cut(what), Outcome::Refused, &note)) {
            self.strangers.not_written(left_out.saturating_add(1));
        }
    }

    /// All given-out keys, without their secrets. For admins.
    ///
    /// # Errors
    /// [`Refusing::Denied`] for others.
    pub fn keys(&self, caller: &Arc<Caller>, peer: Option<SocketAddr>) -> Result<Vec<KeyInfo>, Refusing> {
        self.admin(caller, peer, "key-ls", "")?;
        Ok(self.keyring.list())
    }

    /// Gives a key out. For admins. It is durable and valid on return.
    ///
    /// # Errors
    /// [`Refusing`].
    pub fn create_key(
        &self,
        caller: &Arc<Caller>,
        peer: Option<SocketAddr>,
        request: &KeyRequest,
    ) -> Result<NewKey, Refusing> {
        let ledger = self.admin(caller, peer, "key-create", &request.name)?;
        ledger.admit("key-create")?;
        let now = self.now().unwrap_or(Timestamp(0));
        let made = self.keyring.create(request, now);
        let what = made.as_ref().map_or_else(|_| request.name.clone(), |made| made.info.id.clone());
        ledger.outcome("key-create", &what, &made);
        Ok(made?)
    }

    /// Disables or enables a key, at once. For admins.
    ///
    /// # Errors
    /// [`Refusing`].
    pub fn set_key_disabled(
        &self,
        caller: &Arc<Caller>,
        peer: Option<SocketAddr>,
        id: &str,
        disabled: bool,
    ) -> Result<(), Refusing> {
        let verb = if disabled { "key-disable" } else { "key-enable" };
        let ledger = self.admin(caller, peer, verb, id)?;
        ledger.admit(verb)?;
        let done = self.keyring.set_disabled(id, disabled);
        ledger.outcome(verb, id, &done);
        Ok(done?)
    }

    /// Removes a key, at once. For admins.
    ///
    /// # Errors
    /// [`Refusing`].
    pub fn remove_key(
        &self,
        caller: &Arc<Caller>,
        peer: Option<SocketAddr>,
        id: &str,
    ) -> Result<(), Refusing> {
        let ledger = self.admin(caller, peer, "key-rm", id)?;
        ledger.admit("key-rm")?;
        let done = self.keyring.remove(id);
        ledger.outcome("key-rm", id, &done);
        Ok(done?)
    }

    /// What keeps changes from being written down.
    pub(crate) fn problem(&self) -> Option<HealthProblem> {
        audit_problem(self.audit.as_deref())
    }

    /// Waits until all that was written down is durable.
    pub fn flush_audit(&self) {
        if let Some(audit) = &self.audit {
            audit.flush();
        }
    }

    fn admin(
        &self,
        caller: &Arc<Caller>,
        peer: Option<SocketAddr>,
        verb: &str,
        what: &str,
    ) -> Result<Ledger, Refusing> {
        let ledger = self.ledger(caller, peer);
        if caller.is_admin {
            return Ok(ledger);
        }
        ledger.write(verb, what, Outcome::Refused, "only admins may");
        Err(Refusing::Denied(caller.label().to_owned()))
    }

    fn identities(&self) -> Arc<Identities> {
        self.identities.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn now(&self) -> Option<Timestamp> {
        self.clock.as_ref().map(|clock| clock.now())
    }
}

/// Why keys are not shown or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusing {
    /// Only admins may.
    #[error("{0} is no admin: only admins see and change keys")]
    Denied(String),
    /// It cannot be written down.
    #[error("{0}")]
    Audit(Box<ArchiveError>),
    /// The keys cannot be changed like that.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// There is no such macaroon for this caller.
    #[error("no macaroon is made: {0}")]
    Macaroon(#[from] MacaroonError),
    /// Macaroons end in time.
    #[error("no macaroon is made: there is no clock")]
    NoClock,
}

/// What stands for a key of an admin in the macaroons that were asked for with it: it tells nothing of the
/// key.
fn id_of(hash: &[u8; 32]) -> String {
    let [a, b, c, d, e, f, g, h, ..] = Blake3::of(hash).0;
    format!("admin-{:016x}", u64::from_be_bytes([a, b, c, d, e, f, g, h]))
}

impl From<ArchiveError> for Refusing {
    fn from(error: ArchiveError) -> Self {
        Refusing::Audit(Box::new(error))
    }
}

/// Writes down what one caller does.
#[derive(Clone)]
pub(crate) struct Ledger {
    pub clock: Option<Arc<dyn Clock>>,
    pub audit: Option<Arc<Audit>>,
    pub caller: Arc<Caller>,
    pub peer: Option<SocketAddr>,
}

fn audit_problem(audit: Option<&Audit>) -> Option<HealthProblem> {
    let audit = audit.filter(|audit| audit.room() != Room::Enough)?;
    Some(HealthProblem::AuditFull(audit.directory().to_owned()))
}

/// What makes the archive, or what is known of it, larger: not taken from the reserve of the log.
const GROWING: [&str; 21] = [
    "acl-set",
    "change-class",
    "chown",
    "complete-upload",
    "copy",
    "hold",
    "key-create",
    "lock",
    "macaroon-create",
    "make-bucket",
    "mkdir",
    "open-upload",
    "put",
    "put-part",
    "quota-set",
    "rename",
    "restore",
    "set-attributes",
    "set-bucket",
    "stage",
    "priority",
];

impl Ledger {
    /// A time that never goes back; without a clock it stands still.
    pub(crate) fn steady(&self) -> Duration {
        self.clock.as_ref().map_or(Duration::ZERO, |clock| clock.steady())
    }

    /// That a change can be written down. To be asked before it is made.
    pub(crate) fn admit(&self, verb: &str) -> Result<(), ArchiveError> {
        let Some(audit) = &self.audit else { return Ok(()) };
        match audit.room() {
            Room::Enough => Ok(()),
            Room::Reserve if !GROWING.contains(&verb) => Ok(()),
            Room::Reserve | Room::None => Err(ArchiveError::AuditFull(audit.directory().to_owned())),
        }
    }

    pub(crate) fn write(&self, verb: &str, what: &str, outcome: Outcome, note: &str) {
        if let Some(audit) = &self.audit {
            audit.record(self.entry(verb, what, outcome, note));
        }
    }

    fn entry(&self, verb: &str, what: &str, outcome: Outcome, note: &str) -> AuditEntry {
        let at = self.clock.as_ref().map_or(Timestamp(0), |clock| clock.now());
        let note = note.get(..note.floor_char_boundary(note.len().min(1024))).unwrap_or_default();
        AuditEntry {
            at,
            who: self.caller.label().to_owned(),
            how: self.caller.how.word().to_owned(),
            peer: self.peer.map(|peer| peer.to_string()).unwrap_or_default(),
            verb: verb.to_owned(),
            what: what.to_owned(),
            outcome,
            note: note.to_owned(),
        }
    }

    /// What keeps changes from being written down.
    pub(crate) fn problem(&self) -> Option<HealthProblem> {
        audit_problem(self.audit.as_deref())
    }

    pub(crate) fn failed(&self, verb: &str, what: &str, error: &ArchiveError) {
        self.write(verb, what, Outcome::Failed, &error.to_string());
    }

    pub(crate) fn outcome<T, E: fmt::Display>(&self, verb: &str, what: &str, result: &Result<T, E>) {
        match result {
            Ok(_) => self.write(verb, what, Outcome::Done, ""),
            Err(error) => self.write(verb, what, Outcome::Failed, &error.to_string()),
        }
    }
}
