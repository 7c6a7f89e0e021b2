//! A session of an initiator: numbers, tags, and what a target sends beside the answers to commands.

use std::io;
use std::time::{Duration, Instant};

use scsi::TransportFault;

use crate::login::{Agreed, LoginError, Name, ParameterError, status};
use crate::pdu::{
    Answered, AsyncMessage, LogoutRequest, Lun, NopOut, Pdu, Reject, Sent, Serial, Tag, TaskRequest,
    TaskResponse,
};
use crate::text::TextError;
use crate::wire::{Incoming, Receiver, Sender, WireError};

use super::Statistics;
use super::connect::FIRST_COMMAND;

/// Why there is no session, or none any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Settings that cannot be used.
    #[error("{0}")]
    Settings(&'static str),
    /// The system gave no random bits.
    #[error("the system gives no random bits")]
    NoRandom,
    /// More data than a command may have.
    #[error("{length} bytes of data, a command may have {most}")]
    TooLong {
        /// Bytes of data.
        length: usize,
        /// The most.
        most: usize,
    },
    /// There is no connection.
    #[error("cannot connect ({0}): {step}", step = step_after(.0))]
    Connect(io::Error),
    /// What listens at the portal has closed the connection instead of answering the login.
    #[error(
        "what listens there closes the connection at the login: see whether it is an iSCSI target and lets \
         this host in"
    )]
    ClosedAtLogin,
    /// The login failed on this side.
    #[error("login: {0}")]
    Login(#[from] LoginError),
    /// The target refused the login.
    #[error("the target refused the login with status {0:04X}h: {words}", words = status::words(*.0))]
    Refused(u16),
    /// The target does not let this initiator in.
    #[error("the target refused the login with status 0202h: allow the initiator {0} there")]
    NotAllowed(Name),
    /// Each address led to another one.
    #[error("the target has moved, and moved again: set its address anew")]
    MovedTooOften,
    /// No answer in time.
    #[error("no answer in time")]
    Late,
    /// The target does not even answer a ping.
    #[error("the target does not answer a ping")]
    Silent,
    /// The connection.
    #[error("{0}")]
    Wire(WireError),
    /// Text that is none.
    #[error("{0}")]
    Text(TextError),
    /// The target broke the protocol.
    #[error("the target broke the protocol: {0}")]
    Broken(&'static str),
    /// The target did not understand a PDU.
    #[error("the target rejected a PDU, reason {0:02X}h")]
    Rejected(u8),
    /// The target failed within itself.
    #[error("the target failed to deliver the command, response {0:02X}h")]
    TargetFailure(u8),
    /// The target refused a task management function.
    #[error("the target refused task management, response {0}")]
    FunctionRefused(u8),
    /// The target, or this side, has ended the session.
    #[error("the session was ended")]
    Dropped,
}

impl From<WireError> for SessionError {
    fn from(error: WireError) -> SessionError {
        match error {
            WireError::Late => SessionError::Late,
            other => SessionError::Wire(other),
        }
    }
}

/// What an operator looks at first after a connection that was not made.
fn step_after(error: &io::Error) -> &'static str {
    use io::ErrorKind;
    match error.kind() {
        ErrorKind::ConnectionRefused => {
            "nothing listens at this port: start the target, or name the port that it has"
        }
        ErrorKind::TimedOut | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable => {
            "the host does not answer: look at its address, the network and firewalls"
        }
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => {
            "see whether it is an iSCSI target and lets this host in"
        }
        _ => "look at the name or address and at the network",
    }
}

impl SessionError {
    pub(super) fn fault(&self) -> TransportFault {
        match self {
            SessionError::Settings(_)
            | SessionError::NoRandom
            | SessionError::TooLong { .. }
            | SessionError::Login(
                LoginError::Method(_)
                | LoginError::TargetProof
                | LoginError::Parameter(ParameterError::Unsupported { .. }),
            )
            | SessionError::NotAllowed(_)
            | SessionError::Refused(0x0200..0x0300) => TransportFault::Host,
            SessionError::Late => TransportFault::TimeOut,
            SessionError::Wire(wire) if !wire.is_protocol() => TransportFault::Path,
            SessionError::Connect(_)
            | SessionError::ClosedAtLogin
            | SessionError::Refused(_)
            | SessionError::MovedTooOften
            | SessionError::Silent
            | SessionError::TargetFailure(_)
            | SessionError::FunctionRefused(_)
            | SessionError::Dropped => TransportFault::Path,
            SessionError::Login(_)
            | SessionError::Wire(_)
            | SessionError::Text(_)
            | SessionError::Broken(_)
            | SessionError::Rejected(_) => TransportFault::Protocol,
        }
    }
}

/// A session that has passed its login.
pub(super) struct Session {
    pub(super) receiver: Receiver,
    pub(super) sender: Sender,
    pub(super) agreed: Agreed,
    /// CmdSN of the next command.
    next_command: Serial,
    /// MaxCmdSN: the last command that the target takes.
    last_command: Serial,
    /// ExpStatSN: the next answer.
    expected_answer: Serial,
    next_tag: u32,
    /// When the target was heard last.
    heard: Instant,
    must_end: bool,
    /// A ping whose answer was not there when the command ended during which it was sent.
    pub(super) late_pong: Option<Tag>,
}

/// The most PDUs that are read for a target that was silent to: what it sends in a day of pings, and no more
/// than a hostile one may keep a command waiting with.
const CATCH_UP_MAX: usize = 10_000;

impl Session {
    pub(super) fn new(receiver: Receiver, sender: Sender, agreed: Agreed, expected_answer: Serial) -> Self {
        Session {
            receiver,
            sender,
            agreed,
            next_command: FIRST_COMMAND,
            last_command: FIRST_COMMAND,
            expected_answer,
            next_tag: 1,
            heard: Instant::now(),
            must_end: false,
            late_pong: None,
        }
    }

    pub(super) fn is_quiet_for(&self, time: Duration) -> bool {
        self.heard.elapsed() >= time
    }

    /// Whether the target wants to see the session end.
    pub(super) fn must_end(&self) -> bool {
        self.must_end
    }

    pub(super) fn tag(&mut self) -> Tag {
        let tag = Tag(self.next_tag);
        // The last one stands for no task.
        self.next_tag = if self.next_tag == u32::MAX - 1 { 1 } else { self.next_tag + 1 };
        tag
    }

    /// The numbers of a PDU that does not count among commands.
    pub(super) fn numbers(&self) -> Sent {
        Sent { command: self.next_command, expected_answer: self.expected_answer }
    }

    /// The numbers of a command.
    pub(super) fn count_command(&mut self) -> Sent {
        let numbers = self.numbers();
        self.next_command = self.next_command.plus(1);
        numbers
    }

    /// Whether the target takes another command.
    pub(super) fn is_window_open(&self) -> bool {
        self.last_command.since(self.next_command) >= 0
    }

    /// The next PDU that is about a task, or the answer to a request. Its data, if it has any, is next on the
    /// wire. `None` if there was none until then.
    pub(super) fn receive(
        &mut self,
        until: Instant,
        statistics: &mut Statistics,
    ) -> Result<Option<Incoming>, SessionError> {
        // The number of pings is not limited, the time is: each round looks at it.
        loop {
            let Some(incoming) = self.receiver.next(Some(until))? else { return Ok(None) };
            self.heard = Instant::now();
            match incoming.pdu {
                Pdu::NopIn(ping) if ping.tag == Tag::NONE => {
                    self.hear(ping.numbers, Counts::No)?;
                    self.receiver.skip(incoming.data)?;
                    if ping.target_tag != Tag::NONE {
                        let pong = NopOut {
                            immediate: true,
                            lun: ping.lun,
                            tag: Tag::NONE,
                            target_tag: ping.target_tag,
                            numbers: self.numbers(),
                        };
                        self.send(&Pdu::NopOut(pong), &[], until)?;
                        statistics.pings_answered += 1;
                    }
                }
                Pdu::NopIn(pong) if self.late_pong == Some(pong.tag) => {
                    self.hear(pong.numbers, Counts::Yes)?;
                    self.receiver.skip(incoming.data)?;
                    self.late_pong = None;
                    statistics.pings_sent += 1;
                }
                Pdu::AsyncMessage(message) => {
                    self.hear(message.numbers, Counts::Yes)?;
                    self.receiver.skip(incoming.data)?;
                    statistics.async_messages += 1;
                    match message.event {
                        AsyncMessage::SCSI => statistics.unit_messages += 1,
                        AsyncMessage::LOGOUT | AsyncMessage::NEGOTIATE => self.must_end = true,
                        AsyncMessage::DROP_CONNECTION | AsyncMessage::DROP_SESSION => {
                            return Err(SessionError::Dropped);
                        }
                        // A vendor's own.
                        _ => {}
                    }
                }
                Pdu::Reject(Reject { reason, .. }) => return Err(SessionError::Rejected(reason)),
                Pdu::NopIn(ref pdu) => return self.pass(pdu.numbers, Counts::Yes, incoming),
                Pdu::Response(ref pdu) => return self.pass(pdu.numbers, Counts::Yes, incoming),
                Pdu::TaskResponse(ref pdu) => return self.pass(pdu.numbers, Counts::Yes, incoming),
                Pdu::TextResponse(ref pdu) => return self.pass(pdu.numbers, Counts::Yes, incoming),
                Pdu::LogoutResponse(ref pdu) => return self.pass(pdu.numbers, Counts::Yes, incoming),
                Pdu::DataIn(ref pdu) => {
                    let counts = if pdu.end.is_some() { Counts::Yes } else { Counts::Silent };
                    return self.pass(pdu.numbers, counts, incoming);
                }
                Pdu::ReadyToTransfer(ref pdu) => return self.pass(pdu.numbers, Counts::No, incoming),
                _ => {
                    return Err(SessionError::Broken("it sent what only initiators send, or a second login"));
                }
            }
        }
    }

    fn pass(
        &mut self,
        numbers: Answered,
        counts: Counts,
        incoming: Incoming,
    ) -> Result<Option<Incoming>, SessionError> {
        self.hear(numbers, counts)?;
        Ok(Some(incoming))
    }

    /// Takes the numbers of a PDU. With one connection and nothing lost, each answer has the number that
    /// follows.
    fn hear(&mut self, numbers: Answered, counts: Counts) -> Result<(), SessionError> {
        if counts != Counts::Silent && numbers.answer != self.expected_answer {
            return Err(SessionError::Broken("an answer has a number (StatSN) out of order"));
        }
        if counts == Counts::Yes {
            self.expected_answer = self.expected_answer.plus(1);
        }
        // A pair that contradicts itself says nothing (RFC 7143, 4.2.2.1).
        let is_pair = numbers.last_command.since(numbers.expected_command.plus(u32::MAX)) >= 0;
        if is_pair && numbers.last_command.since(self.last_command) > 0 {
            self.last_command = numbers.last_command;
        }
        Ok(())
    }

    pub(super) fn send(&mut self, pdu: &Pdu, data: &[u8], until: Instant) -> Result<(), SessionError> {
        self.send_parts(pdu, [data, &[]], until)
    }

    pub(super) fn send_parts(
        &mut self,
        pdu: &Pdu,
        data: [&[u8]; 2],
        until: Instant,
    ) -> Result<(), SessionError> {
        Ok(self.sender.send_parts(pdu, data, until)?)
    }

    /// Reads what has come since the last command, without waiting.
    pub(super) fn catch_up(&mut self, statistics: &mut Statistics) -> Result<(), SessionError> {
        for _ in 0..CATCH_UP_MAX {
            if !self.receiver.has_come()? {
                return Ok(());
            }
            // What has come has at least begun, so this does not wait for another.
            let now = Instant::now() + Duration::from_millis(1);
            if self.receive(now, statistics)?.is_some() {
                return Err(SessionError::Broken("it answered what nobody asked"));
            }
        }
        Err(SessionError::Broken("it does not stop to talk between commands"))
    }

    /// Asks for a sign of life and waits for it.
    pub(super) fn ping(
        &mut self,
        lun: Lun,
        until: Instant,
        statistics: &mut Statistics,
    ) -> Result<(), SessionError> {
        let tag = self.send_ping(lun, until)?;
        let incoming = self.receive(until, statistics)?.ok_or(SessionError::Late)?;
        let Pdu::NopIn(pong) = incoming.pdu else {
            return Err(SessionError::Broken("it answered a ping with something else"));
        };
        if pong.tag != tag {
            return Err(SessionError::Broken("it answered another ping"));
        }
        self.receiver.skip(incoming.data)?;
        statistics.pings_sent += 1;
        Ok(())
    }

    pub(super) fn send_ping(&mut self, lun: Lun, until: Instant) -> Result<Tag, SessionError> {
        let tag = self.tag();
        let numbers = self.numbers();
        let ping = NopOut { immediate: true, lun, tag, target_tag: Tag::NONE, numbers };
        self.send(&Pdu::NopOut(ping), &[], until)?;
        Ok(tag)
    }

    /// Asks for a task management function.
    pub(super) fn send_function(
        &mut self,
        (function, lun): (u8, Lun),
        (referenced, referenced_command): (Tag, Serial),
        until: Instant,
    ) -> Result<Tag, SessionError> {
        let tag = self.tag();
        let request = TaskRequest {
            immediate: true,
            function,
            lun,
            tag,
            referenced,
            numbers: self.numbers(),
            referenced_command,
            expected_data: Serial::default(),
        };
        self.send(&Pdu::TaskRequest(request), &[], until)?;
        Ok(tag)
    }

    /// Asks for a task management function while no command is under way, and waits for its end.
    pub(super) fn function_alone(
        &mut self,
        function: u8,
        lun: Lun,
        until: Instant,
        statistics: &mut Statistics,
    ) -> Result<(), SessionError> {
        let tag = self.send_function((function, lun), (Tag::NONE, Serial::default()), until)?;
        let incoming = self.receive(until, statistics)?.ok_or(SessionError::Late)?;
        self.receiver.skip(incoming.data)?;
        match incoming.pdu {
            Pdu::TaskResponse(done) if done.tag == tag && done.response == TaskResponse::COMPLETE => {
                statistics.task_functions += 1;
                Ok(())
            }
            Pdu::TaskResponse(done) if done.tag == tag => Err(SessionError::FunctionRefused(done.response)),
            _ => Err(SessionError::Broken("it answered task management with something else")),
        }
    }

    /// Ends the session.
    pub(super) fn log_out(
        &mut self,
        until: Instant,
        statistics: &mut Statistics,
    ) -> Result<(), SessionError> {
        let (tag, numbers) = (self.tag(), self.numbers());
        let request = LogoutRequest { immediate: true, reason: 0, tag, connection: 0, numbers };
        self.send(&Pdu::LogoutRequest(request), &[], until)?;
        let incoming = self.receive(until, statistics)?.ok_or(SessionError::Late)?;
        match incoming.pdu {
            Pdu::LogoutResponse(response) if response.tag == tag => Ok(()),
            _ => Err(SessionError::Broken("it answered a logout with something else")),
        }
    }
}

/// What a PDU is in the sequence of answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counts {
    /// It is one.
    Yes,
    /// It carries the number of the next one.
    No,
    /// Its number says nothing.
    Silent,
}
