//! The doors of the grid at the listener of WebDAV, and what stands below it.

use std::sync::Arc;

use authority::{Authority, Guard};
use config::Config;
use transfer::Transfers;
use webdav::{Mounted, WebDavService, WebDavSettings};

/// WebDAV, with the Tape REST API below it.
pub fn webdav(
    config: &Config,
    authority: &Arc<Authority>,
    engine: &Arc<archive::Archive>,
    transfers: &Transfers,
) -> WebDavService {
    let guard = Guard::new(authority.clone(), engine.clone() as Arc<dyn tape_rest::Engine>);
    let tape_rest = tape_rest::service(guard, transfers.clone(), config.tape_rest.settings());
    let mounted = Mounted { prefix: tape_rest::ROOT, service: tape_rest };
    let guard = Guard::new(authority.clone(), engine.clone() as Arc<dyn webdav::Engine>);
    webdav::service(guard, transfers.clone(), WebDavSettings::default(), vec![mounted])
}
