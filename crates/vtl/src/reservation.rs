//! Persistent reservations of a unit (SPC-5, 5.13): pure.

use std::collections::BTreeMap;

use scsi::SenseKey;
use scsi::command::PersistentOut;
use scsi::reservation::{
    FullStatus, Holder, Registration, Reservation, ReservationKey, ReservationKeys, ReservationType,
    ReserveOut, iscsi_transport_id,
};

use crate::answer::Refusal;
use crate::gate::{Attention, Port, REGISTRATIONS_PREEMPTED, RESERVATIONS_PREEMPTED, RESERVATIONS_RELEASED};

/// Registrations of one unit.
const REGISTRATIONS_MAX: usize = 256;

/// The types of reservation that can be made, by the mask of [`scsi::reservation::ReservationCapabilities`].
pub const TYPES: [u8; 2] = [0b1110_1010, 0b0000_0001];

/// Who is to be told what.
type Told = Vec<(Port, Attention)>;

#[derive(Default)]
pub struct Reservations {
    generation: u32,
    keys: BTreeMap<Port, ReservationKey>,
    held: Option<Held>,
}

struct Held {
    /// Who made it. For types of all registrants, each of them holds it.
    by: Port,
    kind: ReservationType,
}

fn of_all(kind: ReservationType) -> bool {
    matches!(kind, ReservationType::WriteExclusiveAll | ReservationType::ExclusiveAccessAll)
}

fn for_registrants(kind: ReservationType) -> bool {
    of_all(kind)
        || matches!(
            kind,
            ReservationType::WriteExclusiveRegistrants | ReservationType::ExclusiveAccessRegistrants
        )
}

impl Reservations {
    pub fn is_registered_by_any(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Whether commands of this port are not stopped by a reservation.
    pub fn admits(&self, port: &Port) -> bool {
        match &self.held {
            None => true,
            Some(held) if for_registrants(held.kind) => self.keys.contains_key(port),
            Some(held) => held.by == *port,
        }
    }

    fn holds(&self, port: &Port) -> bool {
        match &self.held {
            None => false,
            Some(held) if of_all(held.kind) => self.keys.contains_key(port),
            Some(held) => held.by == *port,
        }
    }

    pub fn keys(&self) -> ReservationKeys {
        ReservationKeys { generation: self.generation, keys: self.keys.values().copied().collect() }
    }

    pub fn reservation(&self) -> Reservation {
        let holder = self.held.as_ref().map(|held| Holder {
            key: if of_all(held.kind) {
                ReservationKey(0)
            } else {
                self.keys.get(&held.by).copied().unwrap_or_default()
            },
            scope: 0,
            kind: held.kind,
        });
        Reservation { generation: self.generation, holder }
    }

    pub fn full_status(&self) -> FullStatus {
        let registrations = self.keys.iter().map(|(port, key)| {
            let kind = self.held.as_ref().filter(|_| self.holds(port)).map(|held| held.kind);
            Registration {
                key: *key,
                all_ports: false,
                holds: kind.is_some(),
                scope: 0,
                kind: kind.unwrap_or_default(),
                port: 1,
                initiator: iscsi_transport_id(port.initiator.as_str(), port.isid.0),
            }
        });
        FullStatus { generation: self.generation, registrations: registrations.collect() }
    }

    /// PERSISTENT RESERVE OUT.
    pub fn change(
        &mut self,
        port: &Port,
        service: PersistentOut,
        (scope, kind): (u8, u8),
        parameters: &ReserveOut,
    ) -> Result<Told, Refusal> {
        let ReserveOut { key, action_key, specify_initiators, all_ports: _, persist } = parameters;
        // Neither initiators by name nor registrations without power are offered: see the capabilities.
        if *specify_initiators || *persist {
            return Err(Refusal::parameter(20));
        }
        let makes_type = matches!(
            service,
            PersistentOut::Reserve
                | PersistentOut::Release
                | PersistentOut::Preempt
                | PersistentOut::PreemptAndAbort
        );
        let kind = ReservationType::of(kind);
        let is_type = !matches!(kind, ReservationType::None | ReservationType::Other(_));
        if makes_type && (scope != 0 || !is_type) {
            return Err(Refusal::field(2));
        }
        let registered = self.keys.get(port).copied();
        let ignores_key = service == PersistentOut::RegisterAndIgnoreKey;
        let registers = ignores_key || service == PersistentOut::Register;
        let agrees = if registers {
            ignores_key || registered.unwrap_or_default() == *key
        } else {
            registered == Some(*key)
        };
        if !agrees {
            return Err(Refusal::Conflict);
        }
        match service {
            PersistentOut::Register | PersistentOut::RegisterAndIgnoreKey => self.register(port, *action_key),
            PersistentOut::Reserve => self.reserve(port, kind),
            PersistentOut::Release => self.release(port, kind),
            PersistentOut::Clear => Ok(self.clear(port)),
            PersistentOut::Preempt | PersistentOut::PreemptAndAbort => self.preempt(port, kind, *action_key),
            PersistentOut::RegisterAndMove => Err(Refusal::bit(1, 4)),
        }
    }

    fn others(&self, port: &Port, attention: Attention) -> Told {
        self.keys.keys().filter(|other| *other != port).map(|other| (other.clone(), attention)).collect()
    }

    fn register(&mut self, port: &Port, key: ReservationKey) -> Result<Told, Refusal> {
        if key == ReservationKey(0) {
            return Ok(self.unregister(port));
        }
        if self.keys.len() >= REGISTRATIONS_MAX && !self.keys.contains_key(port) {
            return Err(Refusal::illegal(0x55, 0x04));
        }
        self.keys.insert(port.clone(), key);
        self.generation = self.generation.wrapping_add(1);
        Ok(Told::new())
    }

    fn unregister(&mut self, port: &Port) -> Told {
        let was_holder = self.holds(port);
        if self.keys.remove(port).is_none() {
            return Told::new();
        }
        self.generation = self.generation.wrapping_add(1);
        let Some(held) = self.held.as_ref().filter(|_| was_holder) else { return Told::new() };
        let kind = held.kind;
        // One of all registrants stays until the last of them goes.
        if of_all(kind) && !self.keys.is_empty() {
            return Told::new();
        }
        self.held = None;
        if for_registrants(kind) { self.others(port, RESERVATIONS_RELEASED) } else { Told::new() }
    }

    fn reserve(&mut self, port: &Port, kind: ReservationType) -> Result<Told, Refusal> {
        match &self.held {
            Some(held) if !self.holds(port) || held.kind != kind => Err(Refusal::Conflict),
            Some(_) => Ok(Told::new()),
            None => {
                self.held = Some(Held { by: port.clone(), kind });
                Ok(Told::new())
            }
        }
    }

    fn release(&mut self, port: &Port, kind: ReservationType) -> Result<Told, Refusal> {
        if !self.holds(port) {
            return Ok(Told::new());
        }
        if self.held.as_ref().is_some_and(|held| held.kind != kind) {
            return Err(Refusal::new(SenseKey::IllegalRequest, 0x26, 0x04));
        }
        self.held = None;
        Ok(if for_registrants(kind) { self.others(port, RESERVATIONS_RELEASED) } else { Told::new() })
    }

    fn clear(&mut self, port: &Port) -> Told {
        let told = self.others(port, RESERVATIONS_PREEMPTED);
        self.keys.clear();
        self.held = None;
        self.generation = self.generation.wrapping_add(1);
        told
    }

    fn preempt(&mut self, port: &Port, kind: ReservationType, key: ReservationKey) -> Result<Told, Refusal> {
        let takes = match &self.held {
            Some(held) if of_all(held.kind) => key == ReservationKey(0),
            Some(held) => self.keys.get(&held.by) == Some(&key),
            None => false,
        };
        if !takes && key == ReservationKey(0) {
            return Err(Refusal::parameter(8));
        }
        let goes = |other: &Port, its: &ReservationKey| {
            other != port && (*its == key || takes && key == ReservationKey(0))
        };
        let gone: Vec<Port> = self
            .keys
            .iter()
            .filter(|(other, its)| goes(other, its))
            .map(|(other, _)| other.clone())
            .collect();
        if gone.is_empty() && !takes {
            return Err(Refusal::Conflict);
        }
        self.keys.retain(|other, _| !gone.contains(other));
        let mut told: Told = gone.into_iter().map(|other| (other, REGISTRATIONS_PREEMPTED)).collect();
        if takes {
            let before = self.held.replace(Held { by: port.clone(), kind });
            if before.is_some_and(|before| before.kind != kind && for_registrants(before.kind)) {
                told.extend(self.others(port, RESERVATIONS_RELEASED));
            }
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(told)
    }
}
