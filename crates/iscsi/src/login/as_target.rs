//! The target's side of a login.

use crate::pdu::Stage;
use crate::text::{Keys, binary, hexadecimal, number};

use super::chap::{CHALLENGE_MAX, Hash};
use super::{Account, Agreed, Challenge, Name, Parameters, status};

/// Who may begin a session.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Access {
    /// Everybody who reaches the port.
    #[default]
    Open,
    /// Who knows the secret of one of these accounts.
    Chap {
        /// The accounts.
        accounts: Vec<Account>,
        /// What the target proves itself with, if an initiator asks.
        own: Option<Account>,
    },
}

/// What a target answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoginReply {
    /// The stage that both go to.
    pub transit: Option<Stage>,
    /// What it says.
    pub keys: Keys,
}

/// A session that has passed its login.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Who it is.
    pub initiator: Name,
    /// The target; none for a discovery.
    pub target: Option<Name>,
    /// How it goes on.
    pub agreed: Agreed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// Nothing was agreed.
    None,
    /// CHAP was agreed.
    Method,
    /// The challenge was sent.
    Asked(Hash),
    /// Proven, or not asked for.
    Given,
}

/// A login from its first request on.
pub struct TargetLogin<'a> {
    access: &'a Access,
    parameters: &'a Parameters,
    /// What the initiator is asked.
    challenge: Challenge,
    stage: Option<Stage>,
    proof: Proof,
    names: Option<(Name, Option<Name>)>,
    declared: bool,
    agreed: Agreed,
}

/// Keys that are dealt with here and not negotiated.
const SECURITY: [&str; 6] = ["AuthMethod", "CHAP_A", "CHAP_I", "CHAP_C", "CHAP_N", "CHAP_R"];

impl<'a> TargetLogin<'a> {
    /// A login whose initiator is asked `challenge`, which is random, if access needs a proof.
    #[must_use]
    pub fn new(access: &'a Access, parameters: &'a Parameters, challenge: Challenge) -> Self {
        TargetLogin {
            access,
            parameters,
            challenge,
            stage: None,
            proof: Proof::None,
            names: None,
            declared: false,
            agreed: Agreed::default(),
        }
    }

    /// The session, as soon as the last stage is reached.
    #[must_use]
    pub fn opened(&self) -> Option<Opened> {
        let (initiator, target) = self.names.clone()?;
        let over = self.stage == Some(Stage::FullFeature);
        over.then_some(Opened { initiator, target, agreed: self.agreed })
    }

    /// What is answered to a request; `knows` tells whether there is a target of this name. An error is the
    /// status that ends the login.
    pub fn request(
        &mut self,
        stage: Stage,
        transit: Option<Stage>,
        keys: &Keys,
        knows: &dyn Fn(&Name) -> bool,
    ) -> Result<LoginReply, u16> {
        let mut answers = Keys::new();
        if stage == Stage::FullFeature {
            return Err(status::INITIATOR_ERROR);
        }
        if self.names.is_none() {
            self.stage = Some(stage);
            self.names = Some(names(keys, knows)?);
            if self.names.as_ref().is_some_and(|(_, target)| target.is_some()) {
                answers.push("TargetPortalGroupTag", 1);
            }
        }
        let forward = transit.is_none_or(|next| next > stage);
        if self.stage != Some(stage) || !forward {
            return Err(status::INITIATOR_ERROR);
        }
        match stage {
            Stage::Security => self.security(keys, &mut answers)?,
            _ if *self.access == Access::Open => self.proof = Proof::Given,
            // Who begins behind the stage in which to prove something has proven nothing.
            _ if self.proof != Proof::Given => return Err(status::AUTHENTICATION),
            _ => {}
        }
        self.negotiate(stage, keys, &mut answers)?;
        let transit = transit.filter(|_| self.proof == Proof::Given);
        if let Some(next) = transit {
            self.stage = Some(next);
        }
        Ok(LoginReply { transit, keys: answers })
    }

    fn security(&mut self, keys: &Keys, answers: &mut Keys) -> Result<(), u16> {
        let Access::Chap { accounts, own } = self.access else {
            if let Some(methods) = keys.get("AuthMethod") {
                if !methods.split(',').any(|method| method == "None") {
                    return Err(status::AUTHENTICATION);
                }
                answers.push("AuthMethod", "None");
            }
            self.proof = Proof::Given;
            return Ok(());
        };
        match self.proof {
            Proof::None => {
                let Some(methods) = keys.get("AuthMethod") else { return Ok(()) };
                if !methods.split(',').any(|method| method == "CHAP") {
                    return Err(status::AUTHENTICATION);
                }
                answers.push("AuthMethod", "CHAP");
                self.proof = Proof::Method;
            }
            Proof::Method => {
                let Some(list) = keys.get("CHAP_A") else { return Ok(()) };
                let hash = list.split(',').find_map(Hash::of).ok_or(status::AUTHENTICATION)?;
                answers.push("CHAP_A", hash.number());
                answers.push("CHAP_I", self.challenge.id);
                answers.push("CHAP_C", hexadecimal(&self.challenge.bytes));
                self.proof = Proof::Asked(hash);
            }
            Proof::Asked(hash) => {
                let name = keys.get("CHAP_N").ok_or(status::AUTHENTICATION)?;
                let response = keys.get("CHAP_R").and_then(binary).ok_or(status::AUTHENTICATION)?;
                let account = accounts.iter().find(|account| account.name() == name);
                if !account.is_some_and(|account| account.accepts(hash, &self.challenge, &response)) {
                    return Err(status::AUTHENTICATION);
                }
                if keys.get("CHAP_C").is_some() || keys.get("CHAP_I").is_some() {
                    let own = own.as_ref().ok_or(status::AUTHENTICATION)?;
                    let challenge = self.asked_back(keys).ok_or(status::AUTHENTICATION)?;
                    answers.push("CHAP_N", own.name());
                    answers.push("CHAP_R", hexadecimal(&own.response(hash, &challenge)));
                }
                self.proof = Proof::Given;
            }
            Proof::Given => {}
        }
        Ok(())
    }

    /// The challenge that an initiator asks in turn; none if it is our own, to get the answer from us.
    fn asked_back(&self, keys: &Keys) -> Option<Challenge> {
        let id = u8::try_from(number(keys.get("CHAP_I")?)?).ok()?;
        let bytes = binary(keys.get("CHAP_C")?)?;
        let fits = (1..=CHALLENGE_MAX).contains(&bytes.len()) && bytes != self.challenge.bytes;
        fits.then_some(Challenge { id, bytes })
    }

    fn negotiate(&mut self, stage: Stage, keys: &Keys, answers: &mut Keys) -> Result<(), u16> {
        let mut offers = Keys::new();
        keys.iter()
            .filter(|(key, _)| !SECURITY.contains(key))
            .for_each(|(key, value)| offers.push(key, value));
        let agreed = self.agreed.answer(self.parameters, &offers).map_err(|_| status::INITIATOR_ERROR)?;
        agreed.iter().for_each(|(key, value)| answers.push(key, value));
        if stage == Stage::Operational && !self.declared {
            self.declared = true;
            answers.push("MaxRecvDataSegmentLength", self.parameters.segment_max);
        }
        Ok(())
    }
}

fn names(keys: &Keys, knows: &dyn Fn(&Name) -> bool) -> Result<(Name, Option<Name>), u16> {
    let initiator = keys.get("InitiatorName").ok_or(status::MISSING)?;
    let initiator = Name::new(initiator).map_err(|_| status::INITIATOR_ERROR)?;
    match keys.get("SessionType").unwrap_or("Normal") {
        "Discovery" => Ok((initiator, None)),
        "Normal" => {
            let target = Name::new(keys.get("TargetName").ok_or(status::MISSING)?);
            let target = target.ok().filter(knows).ok_or(status::NOT_FOUND)?;
            Ok((initiator, Some(target)))
        }
        _ => Err(status::SESSION_TYPE),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{InitiatorLogin, LoginError, Message, Outcome};
    use super::*;

    fn challenge(byte: u8) -> Challenge {
        Challenge::random([byte; 17])
    }

    fn account(name: &str, secret: &str) -> Account {
        Account::new(name, secret).unwrap()
    }

    #[derive(Debug, PartialEq)]
    enum End {
        Open(Agreed, Opened),
        Refused(u16),
        Failed(LoginError),
    }

    /// Lets both machines talk until one of them ends it.
    fn talk(ours: Option<&Account>, theirs: Option<&Account>, access: &Access, discovery: bool) -> End {
        let hashes = if discovery { &[Hash::Sha256] } else { &Hash::ALL[..] };
        let parameters = Parameters::default();
        let (initiator, target) = (Name::new("iqn.a:i").unwrap(), Name::new("iqn.a:t").unwrap());
        let named = (&initiator, (!discovery).then_some(&target));
        let mut one = InitiatorLogin::new(named, (ours, theirs), hashes, &parameters, challenge(1));
        let mut other = TargetLogin::new(access, &parameters, challenge(2));
        let mut message = one.begin();
        for _ in 0..10 {
            let Message { stage, transit, keys } = message;
            let reply = match other.request(stage, transit, &keys, &|name| *name == target) {
                Ok(reply) => reply,
                Err(status) => return End::Refused(status),
            };
            match one.answered(stage, reply.transit, &reply.keys) {
                Ok(Outcome::Say(next)) => message = next,
                Ok(Outcome::Done(agreed)) => return End::Open(agreed, other.opened().unwrap()),
                Err(error) => return End::Failed(error),
            }
        }
        panic!("no end");
    }

    #[test]
    fn sessions_open_without_and_with_proofs() {
        let (user, own) = (account("user", "user's secret"), account("target", "target's secret"));
        let chap = |own: Option<&Account>| Access::Chap { accounts: vec![user.clone()], own: own.cloned() };
        for discovery in [false, true] {
            let runs = [
                talk(None, None, &Access::Open, discovery),
                talk(Some(&user), None, &chap(None), discovery),
                talk(Some(&user), Some(&own), &chap(Some(&own)), discovery),
            ];
            for run in runs {
                let End::Open(agreed, opened) = run else { panic!("{run:?}") };
                assert_eq!(opened.initiator.as_str(), "iqn.a:i");
                assert_eq!(opened.target.is_none(), discovery);
                assert_eq!(agreed.send_segment_max, Parameters::default().segment_max as usize);
                assert_eq!(agreed, opened.agreed);
            }
        }
    }

    #[test]
    fn who_cannot_prove_it_stays_outside() {
        let (user, own) = (account("user", "user's secret"), account("target", "target's secret"));
        let wrong = account("user", "another secret");
        let stranger = account("stranger", "user's secret");
        let access = Access::Chap { accounts: vec![user.clone()], own: None };
        assert_eq!(talk(None, None, &access, false), End::Refused(status::AUTHENTICATION));
        assert_eq!(talk(Some(&wrong), None, &access, false), End::Refused(status::AUTHENTICATION));
        assert_eq!(talk(Some(&stranger), None, &access, false), End::Refused(status::AUTHENTICATION));
        assert_eq!(talk(Some(&user), Some(&own), &access, false), End::Refused(status::AUTHENTICATION));
        assert_eq!(talk(Some(&user), None, &Access::Open, false), End::Refused(status::AUTHENTICATION));
        let impostor =
            Access::Chap { accounts: vec![user.clone()], own: Some(account("target", "any other secret")) };
        assert_eq!(talk(Some(&user), Some(&own), &impostor, false), End::Failed(LoginError::TargetProof));
        let renamed =
            Access::Chap { accounts: vec![user.clone()], own: Some(account("other", "target's secret")) };
        assert_eq!(talk(Some(&user), Some(&own), &renamed, false), End::Failed(LoginError::TargetProof));
    }

    fn keys(pairs: &[(&str, &str)]) -> Keys {
        let mut keys = Keys::new();
        pairs.iter().for_each(|(key, value)| keys.push(key, value));
        keys
    }

    const NAMES: [(&str, &str); 2] = [("InitiatorName", "iqn.a:i"), ("TargetName", "iqn.a:t")];

    #[test]
    fn no_stage_leads_around_the_proof() {
        let access = Access::Chap { accounts: vec![account("user", "user's secret")], own: None };
        let parameters = Parameters::default();
        for (stage, transit) in [
            (Stage::Operational, Some(Stage::FullFeature)),
            (Stage::Operational, None),
            (Stage::FullFeature, None),
        ] {
            let mut login = TargetLogin::new(&access, &parameters, challenge(1));
            assert!(login.request(stage, transit, &keys(&NAMES), &|_| true).is_err(), "{stage:?}");
            assert_eq!(login.opened(), None);
        }
        let mut login = TargetLogin::new(&access, &parameters, challenge(1));
        let reply =
            login.request(Stage::Security, Some(Stage::FullFeature), &keys(&NAMES), &|_| true).unwrap();
        assert_eq!((reply.transit, login.opened()), (None, None), "asked to end, without a method");
        let end = login.request(Stage::Operational, Some(Stage::FullFeature), &Keys::new(), &|_| true);
        assert_eq!((end, login.opened()), (Err(status::INITIATOR_ERROR), None));
    }

    #[test]
    fn our_own_challenge_is_not_answered_for_another() {
        let (user, own) = (account("user", "user's secret"), account("target", "target's secret"));
        let access = Access::Chap { accounts: vec![user.clone()], own: Some(own) };
        let parameters = Parameters::default();
        let mut login = TargetLogin::new(&access, &parameters, challenge(9));
        let mut first = keys(&NAMES);
        first.push("AuthMethod", "CHAP");
        login.request(Stage::Security, None, &first, &|_| true).unwrap();
        login.request(Stage::Security, None, &keys(&[("CHAP_A", "5")]), &|_| true).unwrap();
        let mut proof = keys(&[("CHAP_N", "user"), ("CHAP_I", "1")]);
        proof.push("CHAP_R", hexadecimal(&user.response(Hash::Md5, &challenge(9))));
        proof.push("CHAP_C", hexadecimal(&challenge(9).bytes));
        let end = login.request(Stage::Security, None, &proof, &|_| true);
        assert_eq!(end, Err(status::AUTHENTICATION));
    }

    #[test]
    fn names_are_needed_and_known() {
        let parameters = Parameters::default();
        let ask = |pairs: &[(&str, &str)]| {
            let mut login = TargetLogin::new(&Access::Open, &parameters, challenge(1));
            let known = |name: &Name| name.as_str() == "iqn.a:t";
            login.request(Stage::Security, None, &keys(pairs), &known).map(|_| ())
        };
        assert_eq!(ask(&NAMES), Ok(()));
        assert_eq!(ask(&NAMES[1..]), Err(status::MISSING));
        assert_eq!(ask(&NAMES[..1]), Err(status::MISSING));
        assert_eq!(ask(&[NAMES[0], ("TargetName", "iqn.a:other")]), Err(status::NOT_FOUND));
        assert_eq!(ask(&[NAMES[0], ("SessionType", "Discovery")]), Ok(()));
        assert_eq!(ask(&[NAMES[0], ("SessionType", "Party")]), Err(status::SESSION_TYPE));
        assert_eq!(ask(&[("InitiatorName", "me"), NAMES[1]]), Err(status::INITIATOR_ERROR));
    }
}
