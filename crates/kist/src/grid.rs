//! The doors of the grid at the listener of WebDAV, and what stands below it.

use std::path::Path;
use std::sync::Arc;

use authority::{Authority, Guard};
use config::{CONFIG_FILE, Config};
use terminal::{Failure, Outcome};
use tpc::Client;
use transfer::Transfers;
use webdav::{Mounted, WebDavService, WebDavSettings};

/// The client of third-party copies, if any are made.
pub fn copies(config: &Config, directory: &Path) -> Outcome<Option<Arc<Client>>> {
    let Some(settings) =
        config.third_party_copy.settings(directory).filter(|_| config.server.webdav_listen.is_some())
    else {
        return Ok(None);
    };
    let wrong = |error| {
        let file = directory.join(CONFIG_FILE);
        Failure::usage(format!(
            "{}: third_party_copy.authorities: {error}: name them, or set enabled = false",
            file.display()
        ))
    };
    Ok(Some(Arc::new(Client::new(settings).map_err(wrong)?)))
}

/// Takes the rules of third-party copies from `kist.toml` as it is now, and reads the authorities again; what
/// is wrong with them is logged, and they stay as they were.
pub fn reload(copies: Option<&Arc<Client>>, config: &Config, directory: &Path) {
    if let Some((copies, settings)) = copies.zip(config.third_party_copy.settings(directory))
        && let Err(error) = copies.reload(settings)
    {
        tracing::error!(%error, "third-party copies keep their rules and authorities");
    }
}

/// WebDAV, with the Tape REST API below it.
pub fn webdav(
    config: &Config,
    authority: &Arc<Authority>,
    engine: &Arc<archive::Archive>,
    transfers: &Transfers,
    copies: Option<Arc<Client>>,
) -> WebDavService {
    let guard = Guard::new(authority.clone(), engine.clone() as Arc<dyn tape_rest::Engine>);
    let tape_rest = tape_rest::service(guard, transfers.clone(), config.tape_rest.settings());
    let mounted = Mounted { prefix: tape_rest::ROOT, service: tape_rest };
    let guard = Guard::new(authority.clone(), engine.clone() as Arc<dyn webdav::Engine>);
    webdav::service(guard, transfers.clone(), WebDavSettings::default(), copies, vec![mounted])
}
