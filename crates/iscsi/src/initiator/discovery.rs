//! Which targets there are (RFC 7143, 4.2.7 and appendix C).

use std::time::Instant;

use crate::login::Name;
use crate::pdu::{Lun, Pdu, Tag, TextRequest};
use crate::text::{Keys, TEXT_MAX};

use super::connect::connect;
use super::session::{Session, SessionError};
use super::{InitiatorConfig, Statistics, end_of};

/// A target that a portal knows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiscoveredTarget {
    /// Its name.
    pub name: Name,
    /// Its addresses, as they came: host, port, and the portal group behind a comma. None: that of the
    /// portal.
    pub addresses: Vec<String>,
}

/// Asks the portal of `config` for its targets. Target and unit in it say nothing.
///
/// # Errors
/// If there is no session, or no list.
pub fn discover(config: &InitiatorConfig) -> Result<Vec<DiscoveredTarget>, SessionError> {
    config.checked()?;
    let until = end_of(config.limits.login);
    let mut session = connect(config, None, until)?;
    let text = session.send_targets(until)?;
    let targets = targets(&Keys::parse(&text).map_err(SessionError::Text)?)?;
    // The list is there; how the session ends changes nothing about it.
    let _ = session.log_out(end_of(config.limits.abort), &mut Statistics::default());
    Ok(targets)
}

impl Session {
    fn send_targets(&mut self, until: Instant) -> Result<Vec<u8>, SessionError> {
        let mut keys = Keys::new();
        keys.push("SendTargets", "All");
        let (mut asked, mut target_tag, mut lun) = (keys.bytes(), Tag::NONE, Lun::default());
        let (tag, mut text) = (self.tag(), Vec::new());
        loop {
            let request = TextRequest {
                immediate: false,
                last: true,
                goes_on: false,
                lun,
                tag,
                target_tag,
                numbers: self.count_command(),
            };
            self.send(&Pdu::TextRequest(request), &asked, until)?;
            asked.clear();
            let incoming = self.receive(until, &mut Statistics::default())?.ok_or(SessionError::Late)?;
            let Pdu::TextResponse(response) = incoming.pdu else {
                return Err(SessionError::Broken("it answered a text request with something else"));
            };
            if response.tag != tag {
                return Err(SessionError::Broken("it answered another text request"));
            }
            let part = self.receiver.data_owned(incoming.data, TEXT_MAX)?;
            let is_over = response.last && !response.goes_on;
            if text.len() + part.len() > TEXT_MAX {
                return Err(SessionError::Broken("its list of targets is too long"));
            }
            if !is_over && (part.is_empty() || response.target_tag == Tag::NONE) {
                return Err(SessionError::Broken("its list of targets does not end"));
            }
            text.extend(part);
            if is_over {
                return Ok(text);
            }
            (target_tag, lun) = (response.target_tag, response.lun);
        }
    }
}

fn targets(keys: &Keys) -> Result<Vec<DiscoveredTarget>, SessionError> {
    let mut targets: Vec<DiscoveredTarget> = Vec::new();
    for (key, value) in keys.iter() {
        match (key, targets.last_mut()) {
            ("TargetName", _) => {
                let name = Name::new(value).map_err(|_| SessionError::Broken("a target's name is none"))?;
                targets.push(DiscoveredTarget { name, addresses: Vec::new() });
            }
            ("TargetAddress", Some(target)) => target.addresses.push(value.to_owned()),
            ("TargetAddress", None) => {
                return Err(SessionError::Broken("its list of targets begins with an address"));
            }
            _ => {}
        }
    }
    Ok(targets)
}
