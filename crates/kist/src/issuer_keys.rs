//! Fetches the public keys of issuers of tokens, now and then, from where they publish them. What was fetched
//! is kept in the instance: a start without network knows the keys of the last time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use authority::Authority;
use identity::read_keys;
use serde::Deserialize;
use ureq::Agent;
use ureq::tls::TlsConfig;

use crate::config::{self, Identity, KeyAddress};
use crate::failure::{Failure, Outcome};
use crate::instance::{self, CONFIG_FILE};
use crate::people;
use crate::trust::Trust;

/// One answer of an issuer may take so long, all of it.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The longest answer of an issuer.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// After a failure an issuer is asked again so soon, or after `refresh` if that is sooner.
const RETRY: Duration = Duration::from_secs(30);

/// Begins to fetch for the instance in a directory. A message fetches at once; the thread ends when nobody
/// can send one any more.
///
/// # Errors
/// If there is no thread to be had.
pub fn start(directory: PathBuf, authority: Arc<Authority>) -> Outcome<SyncSender<()>> {
    // One message that waits says as much as many.
    let (wake, woken) = sync_channel(1);
    std::thread::Builder::new()
        .name("issuer-keys".to_owned())
        .spawn(move || keep_fetching(&directory, &authority, &woken))
        .map_err(|error| Failure::internal(format!("no thread to fetch keys of issuers: {error}")))?;
    Ok(wake)
}

fn keep_fetching(directory: &Path, authority: &Authority, woken: &Receiver<()>) {
    loop {
        let pause = match config::load(&directory.join(CONFIG_FILE)) {
            Ok(config) => {
                let (changed, failed) = fetch_all(directory, &config.identity);
                if changed {
                    people::reload(directory, authority);
                }
                let refresh = config.identity.refresh.0;
                if failed { refresh.min(RETRY) } else { refresh }
            }
            // Whoever wrote it is told by SIGHUP and at the next start.
            Err(_) => RETRY,
        };
        if woken.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// Fetches from everywhere; gives whether anything is new, and whether anything failed.
fn fetch_all(directory: &Path, identity: &Identity) -> (bool, bool) {
    let (mut changed, mut failed) = (false, false);
    for address in identity.issuers.iter().flat_map(config::TokenIssuer::addresses) {
        match fetch(&address, directory, identity).and_then(|text| keep(&address.file(directory), &text)) {
            Ok(new) => changed |= new,
            Err(error) => {
                failed = true;
                tracing::warn!(?address, %error, "keys of an issuer cannot be fetched: known ones stay");
            }
        }
    }
    (changed, failed)
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
    if !KeyAddress::may_be_asked(&url) {
        return Err(refused(format!("{url}: keys are fetched from https:// only")));
    }
    let text = get(&url, directory, identity)?;
    read_keys(&text, None, None).map_err(|error| refused(format!("{url}: {error}")))?;
    Ok(text)
}

fn get(url: &str, directory: &Path, identity: &Identity) -> Outcome<String> {
    let tls = if url.starts_with("https://") {
        Trust { ca: identity.ca.as_ref().map(|ca| directory.join(ca)), ..Trust::default() }.tls()?
    } else {
        TlsConfig::default()
    };
    let config = Agent::config_builder()
        .tls_config(tls)
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
