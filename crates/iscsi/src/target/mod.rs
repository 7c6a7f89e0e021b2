//! The target: logical units of this process for initiators elsewhere.
//!
//! One thread a connection receives; one thread a unit and session carries its commands out in the order in
//! which they came, and answers. Commands that take no time the receiving one answers itself, when nothing is
//! before them. What a client may take is limited by [`TargetLimits`].

mod absent;
mod answer;
mod assembly;
mod connection;
mod login;
mod registry;
mod server;
mod tasks;
mod worker;

use std::time::Duration;

use scsi::{Cdb, Completion};

use crate::login::{Access, Name, ParameterError, Parameters};
use crate::pdu::{Isid, Lun};

pub use server::Server;

/// A session as units see it. Reservations and unit attentions belong to one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nexus {
    /// Differs from all others of the server, earlier ones included.
    pub id: NexusId,
    /// Who it is.
    pub initiator: Name,
    /// The initiator's part of the session's name: with the name the same port, also after a new login.
    pub isid: Isid,
    /// The target.
    pub target: Name,
}

/// The number of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NexusId(pub u64);

/// The units that a target serves. All calls come from threads of sessions: for one session and unit
/// [`LogicalUnits::execute`] is called by one thread at a time, all else at any time.
pub trait LogicalUnits: Send + Sync + 'static {
    /// The names of the targets.
    fn targets(&self) -> Vec<Name>;

    /// The units of a target, at most [`LUNS_MAX`]. The target answers REPORT LUNS with them, and commands
    /// for other units by itself.
    fn luns(&self, target: &Name) -> Vec<Lun>;

    /// Carries a command out. `out` is the data that came with it, `into` as long as the data that the
    /// initiator expects. What the completion says is transferred may be more than either: then the initiator
    /// is told by how much it expected too little.
    fn execute(&self, nexus: &Nexus, lun: Lun, cdb: &Cdb, out: &[u8], into: &mut [u8]) -> Completion;

    /// Carries out a command that takes no time, or gives nothing if it may: then it goes the usual way. Called
    /// by the thread that receives, which must not wait, for commands without data from the initiator and
    /// with little for it, and only while the session has no other command for the unit.
    fn execute_at_once(&self, _nexus: &Nexus, _lun: Lun, _cdb: &Cdb, _into: &mut [u8]) -> Option<Completion> {
        None
    }

    /// A session has begun.
    fn begun(&self, _nexus: &Nexus) {}

    /// A session has ended: none of its commands is carried out any more.
    fn ended(&self, _nexus: &Nexus) {}

    /// Nobody waits any more for the command that this session has running in the unit: it should end soon,
    /// and its completion is not sent.
    fn abort(&self, _nexus: &Nexus, _lun: Lun) {}

    /// The unit is reset on request of this session, whose own tasks in it have ended. It should end those of
    /// the others, and tell all by a unit attention.
    fn reset(&self, _nexus: &Nexus, _lun: Lun) {}
}

/// The most units of a target.
pub const LUNS_MAX: usize = 256;

/// The most commands of a session that a target may be set to take.
pub const COMMANDS_MAX: u32 = 4096;

/// Limits of a target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetLimits {
    /// Connections, those in their login included. Another one is closed at once.
    pub connections: usize,
    /// Sessions that have passed their login, discoveries not included. Another one is refused.
    pub sessions: usize,
    /// For a login, from the connection on. Also what a new session waits at most for the end of the one that
    /// it takes the place of.
    pub login: Duration,
    /// For a PDU that was begun, in either direction.
    pub pdu: Duration,
    /// After so long without a word a client is pinged, and after as long again dropped.
    pub idle: Duration,
    /// Commands of a session that wait or are carried out: the window that the initiator is told.
    pub commands: u32,
    /// The most data of a command, in bytes.
    pub transfer_max: usize,
    /// Data of all commands of a session, in bytes: one that begins writes and sends no data takes no more from the
    /// others.
    pub session_memory: usize,
    /// Data of all commands of all sessions, in bytes. A command without room ends with TASK SET FULL.
    pub memory: usize,
    /// What a stop waits for commands that are carried out.
    pub stop: Duration,
}

impl Default for TargetLimits {
    fn default() -> TargetLimits {
        TargetLimits {
            connections: 128,
            sessions: 64,
            login: Duration::from_secs(15),
            pdu: Duration::from_secs(30),
            idle: Duration::from_secs(60),
            commands: 32,
            transfer_max: 16 * 1024 * 1024,
            session_memory: 64 * 1024 * 1024,
            memory: 256 * 1024 * 1024,
            stop: Duration::from_secs(60),
        }
    }
}

/// How a target serves.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TargetConfig {
    /// Who may begin a session.
    pub access: Access,
    /// How sessions should go on.
    pub parameters: Parameters,
    /// The address that a discovery tells, if it is not the one that the client has reached.
    pub address: Option<String>,
    /// Limits.
    pub limits: TargetLimits,
}

/// Why a target does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// Parameters that cannot be used.
    #[error("{0}")]
    Parameter(#[from] ParameterError),
    /// A limit that lets nobody in, or commands above [`COMMANDS_MAX`].
    #[error("a limit of the target is 0, or more than {COMMANDS_MAX} commands")]
    Limit,
    /// The listener, or its thread.
    #[error("{0}")]
    Listen(#[from] std::io::Error),
}

impl TargetConfig {
    fn checked(&self) -> Result<(), TargetError> {
        self.parameters.checked()?;
        let TargetLimits {
            connections,
            sessions,
            login,
            pdu,
            idle,
            commands,
            transfer_max,
            session_memory,
            memory,
            stop: _,
        } = &self.limits;
        let counts = [*connections, *sessions, *commands as usize, *transfer_max, *session_memory, *memory];
        let times = [login, pdu, idle];
        if counts.contains(&0) || *commands > COMMANDS_MAX || times.iter().any(|time| time.is_zero()) {
            return Err(TargetError::Limit);
        }
        Ok(())
    }
}
