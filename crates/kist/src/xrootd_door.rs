//! The XRootD door of `kist serve`.

use std::sync::Arc;

use archive::{Archive, PoolInfo};
use authority::{Authority, Guard};
use base::{ByteCount, Clock, StripeCode};
use config::XrootdSettings;
use terminal::{Exit, Failure, Outcome};
use transfer::Transfers;
use xrootd::{Limits, Server, Settings, Space};

/// Opens it.
///
/// # Errors
/// If its socket cannot be made.
pub fn open(
    archive: &Archive,
    authority: &Arc<Authority>,
    transfers: &Transfers,
    settings: XrootdSettings,
    clock: Arc<dyn Clock>,
) -> Outcome<Server> {
    let XrootdSettings { socket, uid, gid, trust, nearline, pin } = settings;
    let pool = archive.clone();
    let space = move || pool.pool_info().ok().map(|info| space(&info));
    let settings = Settings {
        socket,
        uid,
        gid,
        trust,
        nearline,
        pin,
        clock,
        space: Arc::new(space),
        limits: Limits::default(),
    };
    let guard = Guard::new(authority.clone(), Arc::new(archive.clone()) as Arc<dyn xrootd::Engine>);
    let opened = xrootd::open(guard, transfers.clone(), settings);
    opened.map_err(|error| Failure::new(Exit::Refused, error.to_string()))
}

/// The room of the pool for bytes of files, as its code has them.
fn space(pool: &PoolInfo) -> Space {
    let code = StripeCode { data: pool.data, local: pool.local_parity, global: pool.parity };
    let sum = |of: fn(&archive::PoolDriveInfo) -> u64| {
        code.of_raw(ByteCount(pool.drives.iter().map(of).fold(0, u64::saturating_add)))
    };
    Space {
        total: sum(|drive| drive.capacity.0),
        free: sum(|drive| drive.capacity.0.saturating_sub(drive.used.0)),
    }
}
