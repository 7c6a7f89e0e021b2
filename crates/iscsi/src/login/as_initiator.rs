//! The initiator's side of a login.

use crate::pdu::Stage;
use crate::text::{Keys, binary, hexadecimal, number};

use super::chap::{CHALLENGE_MAX, Hash};
use super::{Account, Agreed, Challenge, Name, ParameterError, Parameters};

/// What an initiator says next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The stage it speaks in.
    pub stage: Stage,
    /// The stage it wants to go to.
    pub transit: Option<Stage>,
    /// What it says.
    pub keys: Keys,
}

/// What follows from an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// There is more to say.
    Say(Message),
    /// The session begins.
    Done(Agreed),
}

/// Why a login fails on the initiator's side.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LoginError {
    /// The target answers for another stage than it was asked in, or skips one.
    #[error("the target is in another stage of the login")]
    Stage,
    /// The target wants another way of authentication.
    #[error("the target wants AuthMethod={0}: give it a name and a secret (CHAP), or allow access without")]
    Method(String),
    /// A key of CHAP is missing or has a value that it cannot have.
    #[error("{0} of CHAP is missing or malformed")]
    Chap(&'static str),
    /// The target could not prove that it knows its secret.
    #[error(
        "the target could not prove who it is: compare the target's name and secret of CHAP on both sides"
    )]
    TargetProof,
    /// The target asks what it was asked itself, to let this side answer for it.
    #[error("the target sends back the challenge that it should answer")]
    Reflected,
    /// How the session goes on.
    #[error("{0}")]
    Parameter(#[from] ParameterError),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// No authentication was offered.
    Open,
    /// CHAP was offered.
    Method,
    /// The hashes were offered.
    Hash,
    /// The target's challenge was answered.
    Proof,
    /// Parameters were offered.
    Operational,
}

/// A login from its first word on.
pub struct InitiatorLogin<'a> {
    initiator: &'a Name,
    /// None: a discovery.
    target: Option<&'a Name>,
    account: Option<&'a Account>,
    target_account: Option<&'a Account>,
    /// Those that are offered, and once the target has chosen, the one it chose.
    hashes: Vec<Hash>,
    parameters: &'a Parameters,
    /// What the target is asked, if it must prove who it is.
    challenge: Challenge,
    state: State,
    agreed: Agreed,
}

impl<'a> InitiatorLogin<'a> {
    /// A login of `initiator` at `target`, or for a discovery. With an `account` nothing but CHAP is taken,
    /// with a `target_account` the target must answer `challenge`, which is random. `hashes` are offered in
    /// this order.
    #[must_use]
    pub fn new(
        (initiator, target): (&'a Name, Option<&'a Name>),
        (account, target_account): (Option<&'a Account>, Option<&'a Account>),
        hashes: &[Hash],
        parameters: &'a Parameters,
        challenge: Challenge,
    ) -> Self {
        let state = if account.is_some() { State::Method } else { State::Open };
        let agreed = Agreed::default();
        let hashes = hashes.to_vec();
        InitiatorLogin {
            initiator,
            target,
            account,
            target_account,
            hashes,
            parameters,
            challenge,
            state,
            agreed,
        }
    }

    /// The first message.
    #[must_use]
    pub fn begin(&self) -> Message {
        let mut keys = Keys::new();
        keys.push("InitiatorName", self.initiator);
        match self.target {
            Some(target) => {
                keys.push("SessionType", "Normal");
                keys.push("TargetName", target);
            }
            None => keys.push("SessionType", "Discovery"),
        }
        match self.account {
            Some(_) => {
                keys.push("AuthMethod", "CHAP");
                Message { stage: Stage::Security, transit: None, keys }
            }
            None => {
                keys.push("AuthMethod", "None");
                Message { stage: Stage::Security, transit: Some(Stage::Operational), keys }
            }
        }
    }

    /// What follows from an answer of the target's.
    pub fn answered(
        &mut self,
        stage: Stage,
        transit: Option<Stage>,
        keys: &Keys,
    ) -> Result<Outcome, LoginError> {
        let (ours, next) = match self.state {
            State::Operational => (Stage::Operational, Stage::FullFeature),
            _ => (Stage::Security, Stage::Operational),
        };
        if stage != ours || transit.is_some_and(|transit| transit != next) {
            return Err(LoginError::Stage);
        }
        match self.state {
            State::Open => {
                self.method(keys, "None")?;
                Ok(self.over(transit, Keys::new()))
            }
            State::Method => {
                self.method(keys, "CHAP")?;
                if transit.is_some() {
                    return Err(LoginError::Stage);
                }
                self.state = State::Hash;
                let mut hashes = Keys::new();
                let numbers: Vec<String> = self.hashes.iter().map(|hash| hash.number().to_string()).collect();
                hashes.push("CHAP_A", numbers.join(","));
                Ok(Outcome::Say(Message { stage: Stage::Security, transit: None, keys: hashes }))
            }
            State::Hash => {
                if transit.is_some() {
                    return Err(LoginError::Stage);
                }
                let proof = self.proof(keys)?;
                self.state = State::Proof;
                let transit = Some(Stage::Operational);
                Ok(Outcome::Say(Message { stage: Stage::Security, transit, keys: proof }))
            }
            State::Proof => {
                self.check_target(keys)?;
                Ok(self.over(transit, Keys::new()))
            }
            State::Operational => {
                let replies = self.agreed.settle(self.parameters, keys)?;
                Ok(match transit {
                    Some(_) => Outcome::Done(self.agreed),
                    None => self.operational(replies),
                })
            }
        }
    }

    /// The method that was offered is the one that is used.
    fn method(&self, keys: &Keys, offered: &str) -> Result<(), LoginError> {
        match keys.get("AuthMethod") {
            Some(method) if method != offered => Err(LoginError::Method(method.to_owned())),
            None if offered != "None" => Err(LoginError::Chap("AuthMethod")),
            _ => Ok(()),
        }
    }

    /// The security stage is over as soon as the target says so too.
    fn over(&mut self, transit: Option<Stage>, keys: Keys) -> Outcome {
        if transit.is_none() {
            return Outcome::Say(Message { stage: Stage::Security, transit: Some(Stage::Operational), keys });
        }
        self.state = State::Operational;
        self.operational(self.parameters.offer(self.target.is_none()))
    }

    fn operational(&self, keys: Keys) -> Outcome {
        Outcome::Say(Message { stage: Stage::Operational, transit: Some(Stage::FullFeature), keys })
    }

    /// The answer to the target's challenge, and one of our own if the target must prove who it is.
    fn proof(&mut self, keys: &Keys) -> Result<Keys, LoginError> {
        let Some(account) = self.account else { return Err(LoginError::Chap("AuthMethod")) };
        let hash = keys.get("CHAP_A").and_then(Hash::of).filter(|hash| self.hashes.contains(hash));
        let hash = hash.ok_or(LoginError::Chap("CHAP_A"))?;
        self.hashes = vec![hash];
        let id = keys.get("CHAP_I").and_then(number).and_then(|id| u8::try_from(id).ok());
        let bytes = keys.get("CHAP_C").and_then(binary);
        let bytes = bytes.filter(|bytes| (1..=CHALLENGE_MAX).contains(&bytes.len()));
        let challenge = Challenge {
            id: id.ok_or(LoginError::Chap("CHAP_I"))?,
            bytes: bytes.ok_or(LoginError::Chap("CHAP_C"))?,
        };
        let mut proof = Keys::new();
        proof.push("CHAP_N", account.name());
        proof.push("CHAP_R", hexadecimal(&account.response(hash, &challenge)));
        if self.target_account.is_some() {
            if challenge.bytes == self.challenge.bytes {
                return Err(LoginError::Reflected);
            }
            proof.push("CHAP_I", self.challenge.id);
            proof.push("CHAP_C", hexadecimal(&self.challenge.bytes));
        }
        Ok(proof)
    }

    fn check_target(&mut self, keys: &Keys) -> Result<(), LoginError> {
        let Some(account) = self.target_account else { return Ok(()) };
        let response = keys.get("CHAP_R").and_then(binary).ok_or(LoginError::TargetProof)?;
        let accepted = self.hashes.iter().any(|hash| account.accepts(*hash, &self.challenge, &response));
        if keys.get("CHAP_N") != Some(account.name()) || !accepted {
            return Err(LoginError::TargetProof);
        }
        // Proven once; the target may need another round to end the stage.
        self.target_account = None;
        Ok(())
    }
}
