//! What a client does with what comes.

use base::Timestamp;

use super::connection::{Owner, State};
use super::{Client, EndReason, Event, Greeting};
use crate::code::StatusCode;
use crate::frame::{Frame, FrameError, FrameValue, VALUE_BYTES_MAX};
use crate::ids::{ClusterVersion, ConnectionId, Sequence};
use crate::limits::Limits;
use crate::log::Log;
use crate::message::{MessageError, Sealed, Vouched};
use crate::response::{Answer, Response};
use crate::status::Status;
use crate::wire;

impl Client {
    /// A frame came.
    pub fn received(&mut self, now: Timestamp, frame: Frame) {
        if self.state == State::Ended {
            return;
        }
        if let Err(reason) = self.take(frame) {
            self.end(reason);
        }
        if self.state == State::Open {
            self.end_batches(now);
            self.check_books();
        }
    }

    fn take(&mut self, frame: Frame) -> Result<(), EndReason> {
        let value = match frame.value {
            FrameValue::Whole(value) => value,
            FrameValue::Skipped(length) => {
                return Err(FrameError::ValueTooLong { length, limit: VALUE_BYTES_MAX }.into());
            }
        };
        self.last_word = None;
        let sealed = Sealed::read(frame.message).map_err(|error| match error {
            // What Seagate's simulator says to an identity that it does not know.
            MessageError::NoCommand => {
                EndReason::KeyRefused(Status::new(StatusCode::HmacFailure, "an answer without a command"))
            }
            _ => EndReason::Malformed,
        })?;
        let (mut is_authentic, mut is_of_pin) = (false, false);
        match &sealed.vouched {
            Vouched::Unsolicited => {
                return self.unsolicited(sealed.open().map_err(|_| EndReason::Malformed)?);
            }
            Vouched::Identity { identity, hmac } => {
                let key = &self.settings.key;
                is_authentic = *identity == self.settings.identity && key.verify(&sealed.command, hmac);
            }
            // Who answers over TLS to a PIN is the device itself; there is no key in that.
            Vouched::Pin(_) => is_of_pin = self.settings.is_tls,
        }
        let command = sealed.open().map_err(|_| EndReason::Malformed)?;
        let header = command.header.clone().unwrap_or_default();
        let sequence = header.ack_sequence.map(Sequence);
        let status = Status::read(command.status.as_ref());
        let task = sequence.and_then(|sequence| self.under_way.get(&sequence));
        let task = task.and_then(|ticket| self.tasks.get(ticket));
        is_of_pin &= task.is_some_and(|task| task.message_type == crate::MessageType::PinOp);
        if !is_authentic && !is_of_pin {
            // A device that does not know the identity has no key to sign with. The connection is of no
            // use any more: nothing that is asked over it would be done.
            return Err(match status.code {
                StatusCode::HmacFailure => EndReason::KeyRefused(status),
                _ => EndReason::Unauthentic,
            });
        }
        let (Some(sequence), Some(task)) = (sequence, task) else {
            self.strays += 1;
            return Ok(());
        };
        let message_type = task.message_type;
        let is_other = header.message_type.is_some_and(|number| {
            number != message_type.response_number() && number != crate::StatusCode::Invalid.number()
        });
        if is_other {
            return Err(EndReason::WrongType);
        }
        let response = Response {
            request: message_type,
            answer: Answer::read(message_type, &status, command.body, value),
            cluster_version: header.cluster_version.map(ClusterVersion),
            status,
        };
        self.answer(sequence, response);
        Ok(())
    }

    fn answer(&mut self, sequence: Sequence, response: Response) {
        let Some((ticket, task)) = self.answered(sequence) else { return };
        match task.owner {
            Owner::Caller if task.is_overdue => self.events.push_back(Event::Late { ticket, response }),
            Owner::Caller => self.events.push_back(Event::Answered { ticket, response }),
            Owner::Start(batch) => self.batches.started(batch, response.status),
            Owner::End(batch) => {
                let (committed, failed) = match response.answer {
                    Answer::Batch { committed, failed } => (committed, failed),
                    _ => (Vec::new(), None),
                };
                self.batches.ended(batch, response.status, &committed, failed);
            }
            Owner::Abort(batch) => self.batches.aborted(batch),
        }
    }

    fn unsolicited(&mut self, command: wire::Command) -> Result<(), EndReason> {
        let status = Status::read(command.status.as_ref());
        match status.code {
            StatusCode::InvalidBatch => return Err(EndReason::InvalidBatch(status)),
            StatusCode::ConnectionTerminated => return Err(EndReason::Terminated(status)),
            _ => {}
        }
        let header = command.header.unwrap_or_default();
        if self.state == State::Open {
            // A device may give a connection another number.
            if let Some(connection) = header.connection_id.filter(|_| status.is_success()) {
                self.connection = ConnectionId(connection);
            }
            self.last_word = (!status.is_success()).then(|| status.clone());
            self.events.push_back(Event::Notice(status));
            return Ok(());
        }
        let Some(connection) = header.connection_id else { return Err(EndReason::NotGreeted(status)) };
        let log = command.body.and_then(|body| body.get_log).unwrap_or_default();
        let Log { configuration, limits, .. } = Log::read(&log);
        self.greeted(Greeting {
            connection: ConnectionId(connection),
            cluster_version: header.cluster_version.map(ClusterVersion),
            status,
            configuration: configuration.unwrap_or_default(),
            limits: limits.unwrap_or_else(Limits::default),
        });
        Ok(())
    }
}
