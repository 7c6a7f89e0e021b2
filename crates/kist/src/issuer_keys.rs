//! Fetches the public keys of issuers of tokens, now and then, from where they publish them. What was fetched
//! is kept in the instance: a start without network knows the keys of the last time.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use authority::Authority;
use client::tls_of_a_server;
use config::{Identity, KeyAddress, TokenIssuer};
use identity::{IssuerError, read_keys};
use serde::Deserialize;
use terminal::{Failure, Outcome};
use ureq::Agent;

use crate::instance;

/// One answer of an issuer may take so long, all of it.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The longest answer of an issuer.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// After a failure an issuer is asked again so soon, or after `refresh` if that is sooner.
const RETRY: Duration = Duration::from_secs(30);

/// Fetches for one server, with the settings that were taken last.
#[derive(Clone)]
pub struct IssuerKeys {
    inner: Arc<Inner>,
    wake: SyncSender<()>,
}

struct Inner {
    directory: PathBuf,
    authority: Arc<Authority>,
    /// Held while keys are read and taken, so that of two that do, the first does not have the last word.
    taken: Mutex<Identity>,
}

impl IssuerKeys {
    /// Begins to fetch for the instance in a directory. The thread ends with the last of the clones.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub fn start(directory: PathBuf, identity: Identity, authority: Arc<Authority>) -> Outcome<Self> {
        // One message that waits says as much as many.
        let (wake, woken) = sync_channel(1);
        let inner = Arc::new(Inner { directory, authority, taken: Mutex::new(identity) });
        let thread_inner = inner.clone();
        std::thread::Builder::new()
            .name("issuer-keys".to_owned())
            .spawn(move || thread_inner.keep_fetching(&woken))
            .map_err(|error| Failure::internal(format!("no thread to fetch keys of issuers: {error}")))?;
        Ok(IssuerKeys { inner, wake })
    }

    /// Takes other settings, and fetches at once.
    ///
    /// # Errors
    /// If a file of keys is not good; all stays as it was.
    pub fn take(&self, identity: Identity) -> Result<(), String> {
        let mut taken = self.inner.taken.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.authority.set_identities(identity.load(&self.inner.directory)?);
        *taken = identity;
        if self.wake.try_send(()) == Err(TrySendError::Disconnected(())) {
            tracing::error!("keys of issuers are not fetched any more: start the server again");
        }
        Ok(())
    }
}

impl Inner {
    fn keep_fetching(&self, woken: &Receiver<()>) {
        // What was fetched and is not in use yet.
        let mut owed = false;
        loop {
            let identity = self.taken.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let (changed, failed) = fetch_all(&self.directory, &identity);
            owed |= changed;
            if owed {
                owed = !self.use_fetched();
            }
            let refresh = identity.refresh.0;
            let pause = if failed || owed { refresh.min(RETRY) } else { refresh };
            if woken.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    fn use_fetched(&self) -> bool {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.load(&self.directory) {
            Ok(identities) => {
                self.authority.set_identities(identities);
                true
            }
            Err(error) => {
                tracing::error!(%error, "fetched keys of issuers cannot be used yet");
                false
            }
        }
    }
}

/// Fetches from everywhere; gives whether anything is new, and whether anything failed.
fn fetch_all(directory: &Path, identity: &Identity) -> (bool, bool) {
    let (mut changed, mut failed) = (false, false);
    let addresses: Vec<KeyAddress> = identity.issuers.iter().flat_map(TokenIssuer::addresses).collect();
    forget_others(directory, &addresses);
    for address in addresses {
        match fetch(&address, directory, identity).and_then(|text| keep(&address.file(directory), &text)) {
            Ok(new) => changed |= new,
            Err(error) => {
                // It may have been written all the same.
                (changed, failed) = (true, true);
                tracing::warn!(?address, %error, "keys of an issuer cannot be fetched: known ones stay");
            }
        }
    }
    (changed, failed)
}

/// Removes what was fetched from where no issuer points any more: keys of long ago must not come back.
fn forget_others(directory: &Path, addresses: &[KeyAddress]) {
    let files: Vec<PathBuf> = addresses.iter().map(|address| address.file(directory)).collect();
    let Ok(kept) = std::fs::read_dir(directory.join(config::FETCHED_DIRECTORY)) else { return };
    for file in kept.flatten().map(|entry| entry.path()).filter(|file| !files.contains(file)) {
        if let Err(error) = std::fs::remove_file(&file) {
            tracing::warn!(file = %file.display(), %error, "keys fetched earlier cannot be removed");
        }
    }
}

/// Keeps a set of keys; gives whether it is another one than before.
fn keep(file: &Path, text: &str) -> Outcome<bool> {
    if std::fs::read_to_string(file).is_ok_and(|kept| kept == text) {
        return Ok(false);
    }
    if let Some(parent) = file.parent() {
        let failed = |error: std::io::Error| Failure::io("making the directory", parent, &error);
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    instance::write_durable(file, text.as_bytes(), 0o644)?;
    Ok(true)
}

/// What an issuer says of itself.
#[derive(Deserialize)]
struct Metadata {
    issuer: String,
    jwks_uri: String,
}

/// A set of keys, which can be read.
fn fetch(address: &KeyAddress, directory: &Path, identity: &Identity) -> Outcome<String> {
    let refused = |what: String| Failure::usage(what);
    let url = match address {
        KeyAddress::Set(url) => url.clone(),
        KeyAddress::Issuer(issuer) => {
            let at = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
            let text = get(&at, directory, identity)?;
            let metadata: Metadata =
                serde_json::from_str(&text).map_err(|error| refused(format!("{at}: {error}")))?;
            if metadata.issuer != *issuer {
                return Err(refused(format!("{at} speaks for another issuer, {}", metadata.issuer)));
            }
            metadata.jwks_uri
        }
    };
    let needs_tls = matches!(address, KeyAddress::Issuer(issuer) if issuer.starts_with("https://"));
    if !KeyAddress::may_be_asked(&url) || needs_tls && !url.starts_with("https://") {
        return Err(refused(format!("{url}: keys are fetched from https:// only")));
    }
    let text = get(&url, directory, identity)?;
    match read_keys(&text, None, None) {
        Ok(_) => {}
        // An issuer may have withdrawn its last key.
        Err(IssuerError::NoKey) => tracing::warn!(url, "an issuer publishes no key that can be used"),
        Err(error) => return Err(refused(format!("{url}: {error}"))),
    }
    Ok(text)
}

fn get(url: &str, directory: &Path, identity: &Identity) -> Outcome<String> {
    let builder = Agent::config_builder();
    let builder = if url.starts_with("https://") {
        builder.tls_config(tls_of_a_server(identity.ca.as_ref().map(|ca| directory.join(ca)))?)
    } else {
        // Plain text is for this machine, and a proxy is another one.
        builder.proxy(None)
    };
    let config = builder
        .max_redirects(0)
        .user_agent(concat!("kist/", env!("CARGO_PKG_VERSION")))
        .timeout_global(Some(ANSWER_WITHIN))
        .build();
    let failed = |error: ureq::Error| Failure::internal(format!("{url}: {error}"));
    let mut answer = Agent::from(config).get(url).call().map_err(failed)?;
    if answer.status() != 200 {
        return Err(Failure::internal(format!("{url}: it answers {}", answer.status())));
    }
    answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string().map_err(failed)
}
