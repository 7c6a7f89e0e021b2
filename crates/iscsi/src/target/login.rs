//! The login of a client.

use std::time::Instant;

use crate::login::{CHALLENGE, Challenge, LoginReply, Name, Opened, SEGMENT_DEFAULT, TargetLogin, status};
use crate::pdu::{Answered, LoginRequest, LoginResponse, Pdu, Serial, Stage, VERSION};
use crate::text::{Keys, TEXT_MAX};
use crate::wire::{Receiver, Sender};

use super::registry::{Place, SessionName, SessionPlace};
use super::server::Shared;

/// The most requests of a login, those that go on another included.
const REQUESTS_MAX: usize = 64;

/// A client that has passed its login.
pub(super) struct LoggedIn {
    pub(super) opened: Opened,
    /// Its place; none for a discovery.
    pub(super) place: Option<SessionPlace>,
    pub(super) request: LoginRequest,
    /// StatSN of the next answer.
    pub(super) answer: Serial,
}

pub(super) struct Login<'a> {
    pub(super) shared: &'a Shared,
    pub(super) place: &'a Place,
    pub(super) receiver: &'a mut Receiver,
    pub(super) sender: &'a mut Sender,
    pub(super) until: Instant,
}

impl Login<'_> {
    /// Goes through a login; `None` if it fails, of which the client has been told as far as it listens.
    pub(super) fn run(mut self) -> Option<LoggedIn> {
        let config = &self.shared.config;
        let mut bits = [0; CHALLENGE + 1];
        getrandom::fill(&mut bits).ok()?;
        let mut machine = TargetLogin::new(&config.access, &config.parameters, Challenge::random(bits));
        let targets = self.shared.units.targets();
        let knows = |name: &Name| targets.contains(name);
        let (mut text, mut answer, mut first) = (Vec::new(), None, None);
        for _ in 0..REQUESTS_MAX {
            let incoming = self.receiver.next(Some(self.until)).ok()??;
            let Pdu::LoginRequest(request) = incoming.pdu else { return None };
            let next = *answer.get_or_insert(request.numbers.expected_answer);
            text.extend(self.receiver.data_owned(incoming.data, SEGMENT_DEFAULT).ok()?);
            let first: &LoginRequest = first.get_or_insert(request);
            let refused = self.refused(first, &request, text.len());
            answer = Some(next.plus(1));
            if let Some(status) = refused {
                return self.refuse(&request, next, status);
            }
            if request.goes_on {
                self.answer(&request, next, (None, &Keys::new()), (0, status::SUCCESS))?;
                continue;
            }
            let Ok(keys) = Keys::parse_once(&text) else {
                return self.refuse(&request, next, status::INITIATOR_ERROR);
            };
            text.clear();
            let LoginReply { transit, keys } =
                match machine.request(request.stage, request.transit, &keys, &knows) {
                    Ok(reply) => reply,
                    Err(status) => return self.refuse(&request, next, status),
                };
            let Some(opened) = machine.opened() else {
                self.answer(&request, next, (transit, &keys), (0, status::SUCCESS))?;
                continue;
            };
            let place = match self.open(&opened, &request) {
                Ok(place) => place,
                Err(status) => return self.refuse(&request, next, status),
            };
            // A discovery needs a handle too, which nobody will name.
            let handle = place.as_ref().map_or(1, |place| place.handle);
            self.answer(&request, next, (transit, &keys), (handle, status::SUCCESS))?;
            return Some(LoggedIn { opened, place, request, answer: next.plus(1) });
        }
        None
    }

    /// Why a request is not even looked at.
    fn refused(&self, first: &LoginRequest, request: &LoginRequest, text: usize) -> Option<u16> {
        let same =
            (first.isid, first.tag, first.connection) == (request.isid, request.tag, request.connection);
        if request.version_min > VERSION {
            Some(status::VERSION)
        } else if request.session != 0 {
            // One connection a session: no other can be added, and none is kept after it was lost.
            Some(status::NO_SESSION)
        } else if !same || text > TEXT_MAX || (request.goes_on && request.transit.is_some()) {
            Some(status::INITIATOR_ERROR)
        } else {
            None
        }
    }

    fn open(&self, opened: &Opened, request: &LoginRequest) -> Result<Option<SessionPlace>, u16> {
        let Some(target) = opened.target.clone() else { return Ok(None) };
        let name = SessionName { target, initiator: opened.initiator.clone(), isid: request.isid };
        self.shared.registry.open(self.place, name, self.until).map(Some)
    }

    fn refuse<T>(&mut self, request: &LoginRequest, answer: Serial, status: u16) -> Option<T> {
        self.answer(request, answer, (None, &Keys::new()), (0, status));
        None
    }

    /// `None` if it did not leave.
    fn answer(
        &mut self,
        request: &LoginRequest,
        answer: Serial,
        (transit, keys): (Option<Stage>, &Keys),
        (session, status): (u16, u16),
    ) -> Option<()> {
        let text = keys.bytes();
        let too_long = text.len() > SEGMENT_DEFAULT;
        // Only who offers hundreds of unknown keys is answered so much.
        let (text, transit, session, status) = match too_long {
            true => (Vec::new(), None, 0, status::INITIATOR_ERROR),
            false => (text, transit, session, status),
        };
        let response = LoginResponse {
            transit,
            goes_on: false,
            stage: request.stage,
            version_max: VERSION,
            version: VERSION,
            isid: request.isid,
            session,
            tag: request.tag,
            numbers: Answered {
                answer,
                expected_command: request.numbers.command,
                last_command: request.numbers.command.plus(self.shared.config.limits.commands - 1),
            },
            status,
        };
        // A refusal may be what came of waiting to the end of the time for the login.
        let until = Instant::now() + self.shared.config.limits.pdu;
        self.sender.send(&Pdu::LoginResponse(response), &text, until).ok()?;
        (!too_long).then_some(())
    }
}
