//! What stands before every command of a unit: its sessions, their unit attentions, reservations, and who
//! prevents the removal of the medium.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use iscsi::login::Name;
use iscsi::pdu::Isid;
use iscsi::target::{Nexus, NexusId};
use scsi::command::{Changer, PersistentOut, Prevention, Primary, Stream};
use scsi::reservation::{FullStatus, Reservation, ReservationKeys, ReserveOut};
use scsi::sense::AdditionalSense;
use scsi::{Command, SenseKey};

use crate::answer::Refusal;
use crate::reservation::Reservations;

/// An initiator's port: what registrations belong to, over the end of a session.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Port {
    pub initiator: Name,
    pub isid: Isid,
}

impl Port {
    pub fn of(nexus: &Nexus) -> Port {
        Port { initiator: nexus.initiator.clone(), isid: nexus.isid }
    }
}

/// A unit attention condition.
pub type Attention = AdditionalSense;

const fn attention(asc: u8, ascq: u8) -> Attention {
    AdditionalSense { asc, ascq }
}

/// Power came on, or the unit was reset.
pub const RESET: Attention = attention(0x29, 0x00);
/// The session before this one was lost.
pub const NEXUS_LOST: Attention = attention(0x29, 0x07);
/// A medium may have come (a changer: the inventory may be another).
pub const MEDIUM_CHANGED: Attention = attention(0x28, 0x00);
/// An operator got at import and export elements: what is in them may be another.
pub const IMPORT_EXPORT_ACCESSED: Attention = attention(0x28, 0x01);
/// Somebody else has changed mode parameters.
pub const MODE_CHANGED: Attention = attention(0x2a, 0x01);
/// Somebody else has changed log parameters.
pub const LOG_CHANGED: Attention = attention(0x2a, 0x02);
/// Somebody else has changed how data is encrypted.
pub const ENCRYPTION_CHANGED: Attention = attention(0x2a, 0x11);
/// A reservation was taken away.
pub const RESERVATIONS_PREEMPTED: Attention = attention(0x2a, 0x03);
/// A reservation was given up.
pub const RESERVATIONS_RELEASED: Attention = attention(0x2a, 0x04);
/// A registration was taken away.
pub const REGISTRATIONS_PREEMPTED: Attention = attention(0x2a, 0x05);

/// Unit attentions that wait for one session. Each kind waits once, and there are fewer kinds than this.
const ATTENTIONS_MAX: usize = 16;

#[derive(Default)]
pub struct Gate(Mutex<State>);

/// Persistent reservations that ended, since the program began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Losses {
    /// Taken away by another initiator.
    pub preempted: u64,
    /// All, those included.
    pub lost: u64,
}

#[derive(Default)]
struct State {
    losses: Losses,
    sessions: BTreeMap<NexusId, Session>,
    reservations: Reservations,
    /// Sessions that prevent removal.
    preventing: BTreeSet<NexusId>,
    /// Who has reserved the unit with RESERVE(6).
    reserved: Option<NexusId>,
}

struct Session {
    port: Port,
    attentions: VecDeque<Attention>,
}

impl Session {
    fn tell(&mut self, attention: Attention) {
        if !self.attentions.contains(&attention) && self.attentions.len() < ATTENTIONS_MAX {
            self.attentions.push_back(attention);
        }
    }
}

impl State {
    fn session(&mut self, nexus: &Nexus) -> &mut Session {
        self.sessions
            .entry(nexus.id)
            .or_insert_with(|| Session { port: Port::of(nexus), attentions: VecDeque::from([RESET]) })
    }

    /// PREEMPT AND ABORT also allows the removal that those prevent whose registrations it takes: who takes a
    /// drive from a host that has died gets the medium out (SPC-4, PREVENT ALLOW MEDIUM REMOVAL).
    fn let_go_of_preempted(&mut self, told: &[(Port, Attention)]) {
        let is_gone = |port: &Port| {
            told.iter().any(|(gone, attention)| gone == port && *attention == REGISTRATIONS_PREEMPTED)
        };
        let sessions = &self.sessions;
        self.preventing.retain(|id| !sessions.get(id).is_some_and(|session| is_gone(&session.port)));
    }

    fn tell_ports(&mut self, told: Vec<(Port, Attention)>) {
        for (port, attention) in told {
            self.sessions
                .values_mut()
                .filter(|session| session.port == port)
                .for_each(|session| session.tell(attention));
        }
    }
}

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session begins: with a unit attention.
    pub fn begin(&self, nexus: &Nexus, first: Attention) {
        let session = Session { port: Port::of(nexus), attentions: VecDeque::from([first]) };
        self.lock().sessions.insert(nexus.id, session);
    }

    /// A session has ended: what belongs to it goes, registrations stay.
    pub fn end(&self, nexus: &Nexus) {
        let mut state = self.lock();
        state.sessions.remove(&nexus.id);
        state.preventing.remove(&nexus.id);
        if state.reserved == Some(nexus.id) {
            state.reserved = None;
        }
    }

    /// The unit was reset. Persistent reservations stay.
    pub fn reset(&self) {
        let mut state = self.lock();
        state.preventing.clear();
        state.reserved = None;
        state.sessions.values_mut().for_each(|session| session.attentions = VecDeque::from([RESET]));
    }

    /// Tells all sessions but this one.
    pub fn tell_others(&self, nexus: Option<&Nexus>, attention: Attention) {
        let but = nexus.map(|nexus| nexus.id);
        let mut state = self.lock();
        let others = state.sessions.iter_mut().filter(|(id, _)| Some(**id) != but);
        others.for_each(|(_, session)| session.tell(attention));
    }

    /// Takes the unit attention that waits longest.
    pub fn take_attention(&self, nexus: &Nexus) -> Option<Attention> {
        self.lock().session(nexus).attentions.pop_front()
    }

    /// Whether a command may be carried out; `None` is one that is not known. A unit attention is told
    /// once, instead of the command.
    pub fn pass(&self, nexus: &Nexus, command: Option<&Command>) -> Result<(), Refusal> {
        let primary = match command {
            Some(Command::Primary(primary)) => Some(primary),
            _ => None,
        };
        // They tell of the device whatever has happened; REQUEST SENSE gives the attention as its data.
        let exempt = matches!(
            primary,
            Some(Primary::Inquiry { .. } | Primary::ReportLuns { .. } | Primary::RequestSense { .. })
        );
        if exempt {
            return Ok(());
        }
        let mut state = self.lock();
        if let Some(attention) = state.session(nexus).attentions.pop_front() {
            return Err(Refusal::new(SenseKey::UnitAttention, attention.asc, attention.ascq));
        }
        let Some(command) = command else { return Ok(()) };
        let reserved_by_other = state.reserved.is_some_and(|holder| holder != nexus.id);
        if reserved_by_other && !passes_reserve(command) {
            return Err(Refusal::Conflict);
        }
        if !passes_persistent(command) && !state.reservations.admits(&Port::of(nexus)) {
            return Err(Refusal::Conflict);
        }
        Ok(())
    }

    /// PREVENT ALLOW MEDIUM REMOVAL.
    pub fn prevent(&self, nexus: &Nexus, prevention: Prevention) {
        let mut state = self.lock();
        match prevention {
            Prevention::Allow | Prevention::PreventAttached => state.preventing.remove(&nexus.id),
            Prevention::Prevent | Prevention::PreventBoth => state.preventing.insert(nexus.id),
        };
    }

    /// Whether anybody prevents the removal of the medium.
    pub fn is_prevented(&self) -> bool {
        !self.lock().preventing.is_empty()
    }

    /// RESERVE(6) as SPC-2 has it.
    pub fn reserve(&self, nexus: &Nexus) -> Result<(), Refusal> {
        let mut state = self.lock();
        if state.reservations.is_registered_by_any() {
            return Err(Refusal::Conflict);
        }
        state.reserved = Some(nexus.id);
        Ok(())
    }

    /// RELEASE(6): of one who has not reserved it, nothing.
    pub fn release(&self, nexus: &Nexus) -> Result<(), Refusal> {
        let mut state = self.lock();
        if state.reservations.is_registered_by_any() {
            return Err(Refusal::Conflict);
        }
        if state.reserved == Some(nexus.id) {
            state.reserved = None;
        }
        Ok(())
    }

    pub fn keys(&self) -> ReservationKeys {
        self.lock().reservations.keys()
    }

    pub fn reservation(&self) -> Reservation {
        self.lock().reservations.reservation()
    }

    pub fn full_status(&self) -> FullStatus {
        self.lock().reservations.full_status()
    }

    /// PERSISTENT RESERVE OUT; tells those whose registration or reservation it takes away.
    pub fn persist(
        &self,
        nexus: &Nexus,
        service: PersistentOut,
        (scope, kind): (u8, u8),
        parameters: &ReserveOut,
    ) -> Result<(), Refusal> {
        let mut state = self.lock();
        let before = state.reservations.reservation().holder;
        let told = state.reservations.change(&Port::of(nexus), service, (scope, kind), parameters)?;
        if before.is_some() && state.reservations.reservation().holder != before {
            state.losses.lost += 1;
            let is_preempted = matches!(service, PersistentOut::Preempt | PersistentOut::PreemptAndAbort);
            state.losses.preempted += u64::from(is_preempted);
        }
        if service == PersistentOut::PreemptAndAbort {
            state.let_go_of_preempted(&told);
        }
        state.tell_ports(told);
        Ok(())
    }

    /// How many reservations have ended.
    pub fn losses(&self) -> Losses {
        self.lock().losses
    }
}

/// Commands that another initiator's RESERVE(6) does not stop (SPC-2, table 10).
fn passes_reserve(command: &Command) -> bool {
    matches!(
        command,
        Command::Primary(
            Primary::Inquiry { .. }
                | Primary::ReportLuns { .. }
                | Primary::RequestSense { .. }
                | Primary::LogSense { .. }
                | Primary::Release6
                | Primary::PreventAllowMediumRemoval { prevention: Prevention::Allow }
        )
    )
}

/// Commands that a persistent reservation of another initiator does not stop (SPC-5, table of commands that
/// are allowed; SSC-5 and SMC-3, theirs). What moves a medium, or reads it, is stopped by every type.
fn passes_persistent(command: &Command) -> bool {
    match command {
        Command::Primary(primary) => matches!(
            primary,
            Primary::Inquiry { .. }
                | Primary::ReportLuns { .. }
                | Primary::RequestSense { .. }
                | Primary::TestUnitReady
                | Primary::LogSense { .. }
                | Primary::ReadAttribute { .. }
                | Primary::ReportSupportedOperationCodes { .. }
                | Primary::PersistentReserveIn { .. }
                | Primary::PersistentReserveOut { .. }
                | Primary::PreventAllowMediumRemoval { prevention: Prevention::Allow }
                // They have conflicts of their own.
                | Primary::Reserve6
                | Primary::Release6
        ),
        Command::Stream(stream) => {
            matches!(stream, Stream::ReadBlockLimits { .. } | Stream::ReportDensitySupport { .. })
        }
        Command::Changer(changer) => matches!(changer, Changer::ReadElementStatus { current: true, .. }),
    }
}
