//! From an address to a session.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Instant;

use crate::login::{
    Agreed, CHALLENGE, Challenge, InitiatorLogin, Message, Name, Outcome, SEGMENT_DEFAULT, status,
};
use crate::pdu::{Isid, LoginRequest, LoginResponse, Pdu, Sent, Serial, Stage, Tag, VERSION};
use crate::text::{Keys, TEXT_MAX};
use crate::wire::{Receiver, Sender, WireError, halves};

use super::session::{Session, SessionError};
use super::{InitiatorConfig, end_of};

/// The most requests of a login.
const EXCHANGES_MAX: usize = 32;
/// The most addresses that targets may send an initiator on to.
const MOVES_MAX: usize = 4;

/// Begins a session with a target, or one for a discovery.
pub(super) fn connect(
    config: &InitiatorConfig,
    target: Option<&Name>,
    until: Instant,
) -> Result<Session, SessionError> {
    let mut portal = config.portal.clone();
    for _ in 0..=MOVES_MAX {
        let stream = dial(&portal, config, until)?;
        let (receiver, sender) =
            halves(&stream, SEGMENT_DEFAULT, config.limits.pdu).map_err(SessionError::Connect)?;
        let mut login = Login { config, receiver, sender, until, expected_answer: Serial::default() };
        match login.run(target).map_err(at_login)? {
            End::Open(agreed) => {
                let Login { mut receiver, mut sender, expected_answer, .. } = login;
                receiver.agree(agreed.digests, config.parameters.segment_max as usize);
                sender.agree(agreed.digests);
                return Ok(Session::new(receiver, sender, agreed, expected_answer));
            }
            End::Moved(to) => portal = to,
        }
    }
    Err(SessionError::MovedTooOften)
}

/// A connection that ends before the login does: perhaps no target is there at all.
fn at_login(error: SessionError) -> SessionError {
    match error {
        SessionError::Wire(WireError::Closed | WireError::Cut) => SessionError::ClosedAtLogin,
        SessionError::Wire(WireError::Socket(error)) if is_cut_off(&error) => SessionError::ClosedAtLogin,
        other => other,
    }
}

fn is_cut_off(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted | io::ErrorKind::BrokenPipe
    )
}

fn dial(portal: &str, config: &InitiatorConfig, until: Instant) -> Result<TcpStream, SessionError> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in portal.to_socket_addrs().map_err(SessionError::Connect)? {
        let until = until.min(end_of(config.limits.connect));
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(SessionError::Late);
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(SessionError::Connect(last))
}

enum End {
    Open(Agreed),
    Moved(String),
}

struct Login<'a> {
    config: &'a InitiatorConfig,
    receiver: Receiver,
    sender: Sender,
    until: Instant,
    expected_answer: Serial,
}

/// All requests of a login have one tag and one number.
const LOGIN_TAG: Tag = Tag(0);

impl Login<'_> {
    fn run(&mut self, target: Option<&Name>) -> Result<End, SessionError> {
        let config = self.config;
        let mut bits = [0; CHALLENGE + 1];
        getrandom::fill(&mut bits).map_err(|_| SessionError::NoRandom)?;
        let mut machine = InitiatorLogin::new(
            (&config.initiator, target),
            (config.account.as_ref(), config.target_account.as_ref()),
            &config.hashes,
            &config.parameters,
            Challenge::random(bits),
        );
        let mut message = machine.begin();
        for _ in 0..EXCHANGES_MAX {
            self.say(&message)?;
            let (response, keys) = self.hear(message.stage)?;
            match response.status {
                status::SUCCESS => {}
                moved @ 0x0100..0x0200 => {
                    let to = keys.get("TargetAddress").ok_or(SessionError::Refused(moved))?;
                    // Behind the comma stands the portal group.
                    return Ok(End::Moved(to.split(',').next().unwrap_or(to).to_owned()));
                }
                status::NOT_ALLOWED => return Err(SessionError::NotAllowed(config.initiator.clone())),
                other => return Err(SessionError::Refused(other)),
            }
            match machine.answered(response.stage, response.transit, &keys)? {
                Outcome::Say(next) => message = next,
                Outcome::Done(_) if response.session == 0 => {
                    return Err(SessionError::Broken("it gave the session no handle"));
                }
                Outcome::Done(agreed) => return Ok(End::Open(agreed)),
            }
        }
        Err(SessionError::Broken("the login does not end"))
    }

    fn request(&self, stage: Stage, transit: Option<Stage>, goes_on: bool) -> Pdu {
        Pdu::LoginRequest(LoginRequest {
            transit,
            goes_on,
            stage,
            version_max: VERSION,
            version_min: VERSION,
            isid: self.config.isid,
            session: 0,
            tag: LOGIN_TAG,
            connection: 0,
            numbers: Sent { command: FIRST_COMMAND, expected_answer: self.expected_answer },
        })
    }

    fn say(&mut self, message: &Message) -> Result<(), SessionError> {
        let text = message.keys.bytes();
        // Only a target that offers hundreds of unknown keys makes us say so much.
        if text.len() > SEGMENT_DEFAULT {
            return Err(SessionError::Broken("it offers too many unknown keys"));
        }
        let request = self.request(message.stage, message.transit, false);
        Ok(self.sender.send(&request, &text, self.until)?)
    }

    /// A whole answer, which may come in several PDUs.
    fn hear(&mut self, stage: Stage) -> Result<(LoginResponse, Keys), SessionError> {
        let mut text = Vec::new();
        // Each but the last has something to say.
        for _ in 0..TEXT_MAX {
            let incoming = self.receiver.next(Some(self.until))?.ok_or(SessionError::Late)?;
            let data = self.receiver.data_owned(incoming.data, SEGMENT_DEFAULT)?;
            let Pdu::LoginResponse(response) = incoming.pdu else {
                return Err(SessionError::Broken("it answered a login with something else"));
            };
            // tgt leaves the ISID out while it asks for a proof.
            let is_ours = [self.config.isid, Isid::default()].contains(&response.isid);
            if response.tag != LOGIN_TAG || !is_ours {
                return Err(SessionError::Broken("it answered the login of another"));
            }
            text.extend(data);
            if text.len() > TEXT_MAX {
                return Err(SessionError::Broken("its answer to a login is too long"));
            }
            self.expected_answer = response.numbers.answer.plus(1);
            if response.status != status::SUCCESS {
                // Some refuse with text that is none; the status says it.
                return Ok((response, Keys::parse_once(&text).unwrap_or_default()));
            }
            if !response.goes_on {
                let keys = Keys::parse_once(&text).map_err(SessionError::Text)?;
                return Ok((response, keys));
            }
            let request = self.request(stage, None, false);
            self.sender.send(&request, &[], self.until)?;
        }
        Err(SessionError::Broken("its answer to a login does not end"))
    }
}

/// The number of the first command, which a login carries already.
pub(super) const FIRST_COMMAND: Serial = Serial(1);
