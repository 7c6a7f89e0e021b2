//! Faults on demand, by operation code. Only with the feature `faults`, which a released daemon is built
//! without.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use iscsi::target::NexusId;
use scsi::sense::SenseFormat;
use scsi::{Cdb, Completion, Sense};

use crate::answer::{Refusal, completion};

/// What happens to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It is not carried out and ends with this sense data.
    Sense(Sense),
    /// It is not carried out and not answered.
    NoAnswer,
    /// It is carried out and not answered.
    LostAnswer,
    /// The unit is reset before it is carried out: it is not answered, and all sessions are told (6/29).
    ResetBefore,
    /// The unit is reset after it was carried out: it is not answered, and all sessions are told (6/29).
    ResetAfter,
    /// It is not carried out: another initiator holds a reservation.
    ReservationConflict,
    /// It is carried out and answered as always; then the tape stands so many objects further on, or back.
    WrongPosition(i64),
}

/// What a command meets.
pub enum Meets {
    Answer(Completion),
    Nothing,
    LostAnswer,
    Reset { is_done: bool },
    Shift(i64),
}

/// The faults planned for a target. Clones share one plan.
#[derive(Clone, Default)]
pub struct Faults(Arc<Inner>);

#[derive(Default)]
struct Inner {
    plan: Mutex<Plan>,
    released: Condvar,
}

#[derive(Default)]
struct Plan {
    planned: Vec<Planned>,
    fired: usize,
    /// Commands that were not answered and wait for somebody to give them up.
    held: BTreeSet<(NexusId, u16)>,
}

struct Planned {
    lun: u16,
    operation: u8,
    skip: u32,
    times: u32,
    fault: Fault,
}

/// The longest that a command which is not answered waits to be aborted.
const HELD_MAX: Duration = Duration::from_secs(60);

impl Faults {
    /// The next command with this operation code for a unit meets a fault.
    pub fn plan(&self, lun: u16, operation: u8, fault: Fault) {
        self.plan_at(lun, operation, 0, 1, fault);
    }

    /// The next commands with this operation code, after `skip` that are carried out, meet a fault `times`
    /// times.
    pub fn plan_at(&self, lun: u16, operation: u8, skip: u32, times: u32, fault: Fault) {
        self.lock().planned.push(Planned { lun, operation, skip, times, fault });
    }

    /// Forgets all plans.
    pub fn clear(&self) {
        self.lock().planned.clear();
    }

    /// How many faults have happened: a test of a fault asserts that this rose.
    #[must_use]
    pub fn fired(&self) -> usize {
        self.lock().fired
    }

    /// Commands that were not answered and wait to be given up.
    #[must_use]
    pub fn held(&self) -> usize {
        self.lock().held.len()
    }

    fn lock(&self) -> MutexGuard<'_, Plan> {
        self.0.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn meet(&self, lun: u16, cdb: &Cdb) -> Option<Meets> {
        let mut plan = self.lock();
        let matches = |planned: &Planned| planned.lun == lun && planned.operation == cdb.operation_code();
        let index = plan.planned.iter().position(matches)?;
        let planned = plan.planned.get_mut(index)?;
        if planned.skip > 0 {
            planned.skip -= 1;
            return None;
        }
        planned.times = planned.times.saturating_sub(1);
        let fault = planned.fault.clone();
        if planned.times == 0 {
            plan.planned.remove(index);
        }
        plan.fired += 1;
        let answer = |refusal| Meets::Answer(completion(Err(refusal), SenseFormat::Fixed));
        Some(match fault {
            Fault::Sense(sense) => {
                let format = sense.format;
                Meets::Answer(completion(Err(sense.into()), format))
            }
            Fault::NoAnswer => Meets::Nothing,
            Fault::LostAnswer => Meets::LostAnswer,
            Fault::ResetBefore => Meets::Reset { is_done: false },
            Fault::ResetAfter => Meets::Reset { is_done: true },
            Fault::ReservationConflict => answer(Refusal::Conflict),
            Fault::WrongPosition(by) => Meets::Shift(by),
        })
    }

    /// Waits until the initiator gives a command up that is not answered.
    pub(crate) fn hold(&self, nexus: NexusId, lun: u16) {
        let mut plan = self.lock();
        plan.held.insert((nexus, lun));
        let waits = |plan: &mut Plan| plan.held.contains(&(nexus, lun));
        let waited = self.0.released.wait_timeout_while(plan, HELD_MAX, waits);
        let (mut plan, _) = waited.unwrap_or_else(PoisonError::into_inner);
        plan.held.remove(&(nexus, lun));
    }

    /// The initiator has given it up.
    pub(crate) fn release(&self, nexus: NexusId, lun: u16) {
        self.lock().held.remove(&(nexus, lun));
        self.0.released.notify_all();
    }
}
