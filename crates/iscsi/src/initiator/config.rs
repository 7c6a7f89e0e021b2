//! What an initiator is told.

use std::time::Duration;

use crate::login::{Account, Hash, Name, Parameters};
use crate::pdu::{Isid, Lun};

use super::SessionError;

/// How far an initiator goes to end a command that has no answer in time. After the last step the session is
/// ended, which ends its tasks too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Escalation {
    /// ABORT TASK.
    Task,
    /// Then LOGICAL UNIT RESET, which ends what other initiators have in the unit.
    #[default]
    Unit,
    /// Then TARGET WARM RESET, which ends what all initiators have in all units of the target.
    Target,
}

/// Limits of an initiator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InitiatorLimits {
    /// For a connection.
    pub connect: Duration,
    /// For a login, the connection included.
    pub login: Duration,
    /// For a PDU, from its first byte to its last.
    pub pdu: Duration,
    /// After so long without a word from the target it is pinged.
    pub ping_after: Duration,
    /// For the answer to a ping.
    pub ping: Duration,
    /// For each step of giving a command up.
    pub abort: Duration,
    /// The most data of a command, in bytes.
    pub transfer_max: usize,
}

impl Default for InitiatorLimits {
    fn default() -> InitiatorLimits {
        InitiatorLimits {
            connect: Duration::from_secs(10),
            login: Duration::from_secs(20),
            pdu: Duration::from_secs(10),
            ping_after: Duration::from_secs(10),
            ping: Duration::from_secs(10),
            abort: Duration::from_secs(10),
            // The longest record that the three bytes of READ and WRITE of a tape can say, in whole KiB.
            transfer_max: 16 * 1024 * 1024 - 1024,
        }
    }
}

impl InitiatorLimits {
    fn has_no_time(&self) -> bool {
        let InitiatorLimits { connect, login, pdu, ping_after, ping, abort, transfer_max: _ } = self;
        [connect, login, pdu, ping_after, ping, abort].iter().any(|time| time.is_zero())
    }
}

/// Where the unit is, who asks, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InitiatorConfig {
    /// Host and port, as in `[fd00::1]:3260`.
    pub portal: String,
    /// Who asks.
    pub initiator: Name,
    /// The target.
    pub target: Name,
    /// The unit.
    pub lun: Lun,
    /// The initiator's part of the session's name: the same after each loss of the session, so that the
    /// target ends what is left of it, and another one for each unit.
    pub isid: Isid,
    /// With it this initiator proves who it is, and takes no session without.
    pub account: Option<Account>,
    /// With it the target must prove who it is.
    pub target_account: Option<Account>,
    /// The hashes that are offered for these proofs, in this order.
    pub hashes: Vec<Hash>,
    /// How a session should go on.
    pub parameters: Parameters,
    /// How a command is given up.
    pub escalation: Escalation,
    /// Limits.
    pub limits: InitiatorLimits,
}

impl InitiatorConfig {
    /// The usual settings, with a random ISID.
    ///
    /// # Errors
    /// If the system has no random bits.
    pub fn new(portal: &str, initiator: Name, target: Name, lun: Lun) -> Result<Self, SessionError> {
        let mut bits = [0; 5];
        getrandom::fill(&mut bits).map_err(|_| SessionError::NoRandom)?;
        Ok(InitiatorConfig {
            portal: portal.to_owned(),
            initiator,
            target,
            lun,
            isid: Isid::random(bits),
            account: None,
            target_account: None,
            hashes: Hash::ALL.to_vec(),
            parameters: Parameters::default(),
            escalation: Escalation::default(),
            limits: InitiatorLimits::default(),
        })
    }

    pub(super) fn checked(&self) -> Result<(), SessionError> {
        self.parameters.checked().map_err(|error| SessionError::Login(error.into()))?;
        match (&self.account, &self.target_account) {
            (None, Some(_)) => Err(SessionError::Settings("a target proves itself only to who does so too")),
            (Some(ours), Some(theirs)) if ours.shares_secret(theirs) => {
                Err(SessionError::Settings("both directions of CHAP have the same secret"))
            }
            (Some(_), _) if self.hashes.is_empty() => {
                Err(SessionError::Settings("there is no hash for CHAP to go by"))
            }
            _ if self.limits.has_no_time() => Err(SessionError::Settings("a limit of time is 0")),
            _ if u32::try_from(self.limits.transfer_max).is_err() => {
                Err(SessionError::Settings("transfers are longer than 4 GiB"))
            }
            _ => Ok(()),
        }
    }
}
