//! The initiator: the way to one logical unit over one session with one connection.
//!
//! There is no thread behind it: what a target sends between two commands is read before the next one.

mod command;
mod config;
mod connect;
mod discovery;
mod session;

use std::time::{Duration, Instant};

use scsi::{Cdb, Completion, Data, Transport, TransportError, TransportFault};

use crate::pdu::TaskRequest;
use command::Ended;
use session::Session;

pub use config::{Escalation, InitiatorConfig, InitiatorLimits};
pub use discovery::{DiscoveredTarget, discover};
pub use session::SessionError;

/// What an initiator has done since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Statistics {
    /// Commands that the target answered.
    pub commands: u64,
    /// Bytes that came with them.
    pub bytes_in: u64,
    /// Bytes that went with them.
    pub bytes_out: u64,
    /// Sessions that were begun.
    pub logins: u64,
    /// Those among them that followed one that was lost.
    pub reconnects: u64,
    /// Commands that had no answer in time.
    pub time_outs: u64,
    /// Tasks that were aborted, and units and targets that were reset, for that reason or on request.
    pub task_functions: u64,
    /// Pings of the target's that were answered.
    pub pings_answered: u64,
    /// Pings of our own that were answered.
    pub pings_sent: u64,
    /// Messages that the target sent unasked.
    pub async_messages: u64,
    /// Those among them in which a unit reported sense data.
    pub unit_messages: u64,
}

/// The way to one logical unit of an iSCSI target.
pub struct Initiator {
    config: InitiatorConfig,
    address: String,
    session: Option<Session>,
    statistics: Statistics,
}

/// A limit of time that cannot be reckoned with is as good as none: a year.
fn end_of(limit: Duration) -> Instant {
    const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
    Instant::now() + limit.min(LONGEST)
}

impl Initiator {
    /// An initiator that logs in at its first command.
    ///
    /// # Errors
    /// If the settings cannot be used.
    pub fn new(config: InitiatorConfig) -> Result<Initiator, SessionError> {
        config.checked()?;
        let address = format!("iscsi://{}/{}/{}", config.portal, config.target, config.lun);
        Ok(Initiator { config, address, session: None, statistics: Statistics::default() })
    }

    /// What it has done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Logs in, if there is no session.
    ///
    /// # Errors
    /// If that fails.
    pub fn connect(&mut self) -> Result<(), TransportError> {
        let until = end_of(self.config.limits.login);
        self.ready(until).map_err(|error| self.failed(&error, false))
    }

    /// Reads what the target has sent meanwhile and asks it for a sign of life. To be called now and then if
    /// no commands go this way: a target may drop a session whose initiator does not answer.
    ///
    /// # Errors
    /// If there is none. The session is ended then.
    pub fn keep_alive(&mut self) -> Result<(), TransportError> {
        let until = end_of(self.config.limits.ping);
        self.connect()?;
        self.within(|session, config, statistics| session.ping(config.lun, until, statistics))
            .map_err(|error| self.failed(&error, false))
    }

    /// Sets the unit back, which ends what all initiators have in it.
    ///
    /// # Errors
    /// If the target does not answer, or refuses. The session is ended then.
    pub fn reset_unit(&mut self) -> Result<(), TransportError> {
        self.function(TaskRequest::LUN_RESET)
    }

    /// Sets all units of the target back, which ends what all initiators have in them.
    ///
    /// # Errors
    /// If the target does not answer, or refuses. The session is ended then.
    pub fn reset_target(&mut self) -> Result<(), TransportError> {
        self.function(TaskRequest::TARGET_WARM_RESET)
    }

    /// Ends the session as the protocol has it. The next command begins another one.
    pub fn log_out(&mut self) {
        if let Some(mut session) = self.session.take() {
            let until = end_of(self.config.limits.abort);
            // It ends in any case; a target that does not answer finds the connection closed.
            let _ = session.log_out(until, &mut self.statistics);
        }
    }

    fn function(&mut self, function: u8) -> Result<(), TransportError> {
        self.connect()?;
        let until = end_of(self.config.limits.abort);
        self.within(|session, config, statistics| {
            session.function_alone(function, config.lun, until, statistics)
        })
        .map_err(|error| self.failed(&error, true))
    }

    /// A session that is there and alive as far as can be seen.
    fn ready(&mut self, until: Instant) -> Result<(), SessionError> {
        if self.session.is_some() {
            let after = self.config.limits.ping_after;
            let ping_until = until.min(end_of(self.config.limits.ping));
            // A session that was lost between two commands costs nothing but a login.
            let _ = self.within(|session, config, statistics| {
                session.catch_up(statistics)?;
                if session.is_quiet_for(after) {
                    session.ping(config.lun, ping_until, statistics)?;
                }
                Ok(())
            });
        }
        if self.session.as_ref().is_some_and(Session::must_end) {
            self.log_out();
        }
        if self.session.is_none() {
            let until = until.min(end_of(self.config.limits.login));
            let session = connect::connect(&self.config, Some(&self.config.target), until)?;
            self.statistics.reconnects += u64::from(self.statistics.logins > 0);
            self.statistics.logins += 1;
            self.session = Some(session);
        }
        Ok(())
    }

    /// Does something with the session and drops it if that fails: nobody knows then what is on the
    /// connection.
    fn within<T>(
        &mut self,
        work: impl FnOnce(&mut Session, &InitiatorConfig, &mut Statistics) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        let Some(mut session) = self.session.take() else { return Err(SessionError::Dropped) };
        let done = work(&mut session, &self.config, &mut self.statistics)?;
        self.session = Some(session);
        Ok(done)
    }

    fn failed(&self, error: &SessionError, may_be_done: bool) -> TransportError {
        let fault = error.fault();
        TransportError { fault, may_be_done, what: format!("{}: {error}", self.address) }
    }

    fn timed_out(&mut self, limit: Duration, how: &str, may_be_done: bool) -> TransportError {
        self.statistics.time_outs += 1;
        let what = format!("{}: no answer within {limit:?}; {how}", self.address);
        TransportError { fault: TransportFault::TimeOut, may_be_done, what }
    }
}

impl Transport for Initiator {
    fn execute(&mut self, cdb: &Cdb, data: Data<'_>, limit: Duration) -> Result<Completion, TransportError> {
        let until = end_of(limit);
        let length = data.length();
        if length > self.transfer_max() {
            let what = SessionError::TooLong { length, most: self.transfer_max() };
            return Err(self.failed(&what, false));
        }
        self.ready(until).map_err(|error| match error {
            SessionError::Late if Instant::now() >= until => {
                self.timed_out(limit, "the command was not sent", false)
            }
            error => self.failed(&error, false),
        })?;
        let Some(mut session) = self.session.take() else {
            return Err(self.failed(&SessionError::Dropped, false));
        };
        let (is_out, config) = (data.is_out(), &self.config);
        match session.command(config, cdb, data, until, &mut self.statistics) {
            Ok(Ended::Completed(completion)) => {
                self.session = Some(session);
                self.statistics.commands += 1;
                let bytes = completion.transferred as u64;
                match is_out {
                    true => self.statistics.bytes_out += bytes,
                    false => self.statistics.bytes_in += bytes,
                }
                Ok(completion)
            }
            Ok(Ended::Aborted(how)) => {
                self.session = Some(session);
                Err(self.timed_out(limit, how, true))
            }
            // The session is dropped, and with it the connection, before anybody hears of it.
            Err(failure) => {
                drop(session);
                match failure.error {
                    SessionError::Late => {
                        Err(self.timed_out(limit, "the session was ended", failure.may_be_done))
                    }
                    error => Err(self.failed(&error, failure.may_be_done)),
                }
            }
        }
    }

    fn transfer_max(&self) -> usize {
        self.config.limits.transfer_max
    }

    fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Initiator {
    /// Tells the target that the session is over, so that it does not wait for more. Takes no longer than one
    /// step of giving a command up.
    fn drop(&mut self) {
        self.log_out();
    }
}
