//! Who asks, and the engine as they may use it.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use authority::{Denied, Guard, Guarded};
use identity::{Caller, How};
use rustix::io::Errno;

use crate::engine::Engine;
use crate::errors::Refused;
use crate::frame::Asker;
use crate::settings::Settings;

/// Somebody, and the engine as they may use it.
pub struct Client {
    /// Who it is.
    pub caller: Arc<Caller>,
    /// The engine.
    pub engine: Arc<Guarded<dyn Engine>>,
}

/// Lets somebody in. `verb` and `what` are for the log, if they are refused.
pub fn let_in(
    guard: &Guard<dyn Engine>,
    settings: &Settings,
    asker: &Asker,
    verb: &str,
    what: &str,
) -> Result<Client, Refused> {
    let peer = address(&asker.address);
    let token = Some(asker.token.as_str()).filter(|token| !token.is_empty());
    match guard.xrootd(&asker.entity, token, &settings.trust, peer) {
        Ok(caller) => {
            let engine = guard.enter_from(&caller, peer);
            Ok(Client { caller, engine })
        }
        Err(Denied::Invalid(why)) => {
            let how = match token {
                Some(token) if token.contains('.') => How::Token,
                Some(_) => How::Key,
                None => How::Xrootd,
            };
            guard.refused(how, peer, verb, what, &why);
            // What is wrong with a credential is for the log.
            Err(Refused::new(Errno::ACCESS, "the credential is not valid: see the server's audit log"))
        }
        Err(_) => Err(Refused::new(Errno::ACCESS, "the credential is not valid")),
    }
}

/// The address of the client. XRootD writes those of version 4 as `[::ffff:10.0.0.1]:1094` or
/// `[::10.0.0.1]:1094`.
fn address(text: &str) -> Option<SocketAddr> {
    let address: SocketAddr = text.parse().ok()?;
    let IpAddr::V6(ip) = address.ip() else { return Some(address) };
    let is_local = ip.is_loopback() || ip.is_unspecified();
    let bare = ip.to_ipv4().filter(|_| !is_local);
    Some(bare.map_or(address, |bare| SocketAddr::new(bare.into(), address.port())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_those_that_other_doors_write() {
        for (text, wanted) in [
            ("[::ffff:10.0.0.1]:1094", Some("10.0.0.1:1094")),
            ("[::10.0.0.1]:1094", Some("10.0.0.1:1094")),
            ("10.0.0.1:1", Some("10.0.0.1:1")),
            ("[::1]:5", Some("[::1]:5")),
            ("[2001:db8::1]:5", Some("[2001:db8::1]:5")),
            ("host:5", None),
            ("", None),
        ] {
            assert_eq!(address(text).map(|address| address.to_string()).as_deref(), wanted, "{text}");
        }
    }
}
