//! Who asks, and the engine as they may use it.

use std::net::SocketAddr;
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
    let peer: Option<SocketAddr> = asker.address.parse().ok();
    let token = Some(asker.token.as_str()).filter(|token| !token.is_empty());
    match guard.xrootd(&asker.entity, token, &settings.trust) {
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
