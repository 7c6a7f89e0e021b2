//! Who may come into a server: keys, tokens, certificates, and the log of what they do.

use std::path::Path;
use std::sync::Arc;

use authority::{Audit, Authority, AuthoritySettings, Identities, Notices};
use base::{Blake3, Clock};
use config::{CONFIG_FILE, Config};
use terminal::{Failure, Outcome};

use crate::instance::{self, Instance};
use crate::issuer_keys::IssuerKeys;
use crate::run_files::RunFiles;
use crate::warnings;

/// The name of whoever comes with the key in `run/admin-key`.
const LOCAL_ADMIN: &str = "local-admin";

/// What is needed to guard an engine.
pub struct People {
    settings: AuthoritySettings,
    audit: Arc<Audit>,
}

impl People {
    /// Reads keys and issuers, opens the audit log, and makes the key of the local admin.
    pub fn open(
        instance: &Instance,
        config: &Config,
        keys: &[instance::Key],
        run_files: &RunFiles,
        clock: Arc<dyn Clock>,
        notices: Notices,
    ) -> Outcome<Self> {
        let identities: Identities = config.identity.load(&instance.directory).map_err(Failure::usage)?;
        let entry = |key: &instance::Key| Blake3::parse(&key.blake3).map(|hash| (key.name.clone(), hash.0));
        let mut admin_keys: Vec<_> = keys.iter().filter_map(entry).collect();
        let local = instance::new_key()?;
        admin_keys.push((LOCAL_ADMIN.to_owned(), Blake3::of(local.as_bytes()).0));
        run_files.write(instance.path(client::RUN_KEY_FILE), format!("{local}\n").into_bytes(), 0o600)?;
        let logs = instance.path(instance::LOG_DIRECTORY);
        let audit = Audit::open(&logs, Arc::clone(&clock))
            .map_err(|error| Failure::io("opening the audit log", &logs, &error))?;
        warnings::check_audit(&logs, &notices);
        let audit = Arc::new(audit);
        let settings = AuthoritySettings {
            clock: Some(clock),
            keys_file: Some(instance.path(instance::ACCESS_KEYS_FILE)),
            macaroons_file: Some(instance.path(instance::MACAROONS_FILE)),
            admin_keys,
            identities,
            audit: Some(audit.clone()),
            notices,
        };
        Ok(People { settings, audit })
    }

    /// Who comes in to this engine; the log is to be closed at the end.
    pub fn authority(self, archive: &archive::Archive) -> Outcome<(Arc<Authority>, Arc<Audit>)> {
        warnings::warn_of_root_list(archive, &self.settings.notices);
        let authority = Authority::with(self.settings);
        let authority = authority.map_err(|error| Failure::usage(error.to_string()))?;
        Ok((Arc::new(authority), self.audit))
    }
}

/// Reads given-out keys again, and `[identity]` of `kist.toml` with the files that it names. What is not good
/// is not taken: what was in use stays in use, and the log says why. Gives the file as it is now, if it can
/// be read.
pub fn reload(directory: &Path, authority: &Authority, issuer_keys: &IssuerKeys) -> Option<Config> {
    if let Err(error) = authority.reload_keys() {
        tracing::error!(%error, "access keys, or the secret of macaroons, stay as they were");
    }
    let config = config::load(&directory.join(CONFIG_FILE)).map_err(|error| error.to_string());
    if let Ok(config) = &config {
        let instance = Instance { directory: directory.to_owned() };
        let listeners = config.server.listeners(directory);
        warnings::warn_of_permissions(&instance, config, &listeners, authority.notices());
    }
    let taken =
        config.as_ref().map_err(Clone::clone).and_then(|config| issuer_keys.take(config.identity.clone()));
    if let Err(error) = taken {
        let stays = match &config {
            Ok(_) => "issuers and certificates of clients stay as they were",
            Err(_) => "issuers, certificates of clients and rules of third-party copies stay as they were",
        };
        tracing::error!(%error, "{stays}");
    }
    config.ok()
}
