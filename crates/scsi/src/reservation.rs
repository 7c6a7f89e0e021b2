//! Persistent reservations: what PERSISTENT RESERVE IN gives and PERSISTENT RESERVE OUT is given (SPC-5, 6.16
//! and 6.17).

use crate::bytes::{Fault, Layout, Malformed, Packed, Reader, set_length};
use crate::code::codes;

codes! {
    open
    /// What a reservation lets others do (SPC-5, 6.16.3.4).
    ReservationType {
        None = 0x0 "none",
        WriteExclusive = 0x1 "write exclusive",
        ExclusiveAccess = 0x3 "exclusive access",
        WriteExclusiveRegistrants = 0x5 "write exclusive, registrants only",
        ExclusiveAccessRegistrants = 0x6 "exclusive access, registrants only",
        WriteExclusiveAll = 0x7 "write exclusive, all registrants",
        ExclusiveAccessAll = 0x8 "exclusive access, all registrants",
    }
}

/// The key of a registration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ReservationKey(pub u64);

impl From<u64> for ReservationKey {
    fn from(key: u64) -> Self {
        ReservationKey(key)
    }
}

impl From<ReservationKey> for u64 {
    fn from(key: ReservationKey) -> u64 {
        key.0
    }
}

/// Registered keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReservationKeys {
    /// Counts registrations since power came on.
    pub generation: u32,
    /// A key for each nexus that registered one.
    pub keys: Vec<ReservationKey>,
}

impl ReservationKeys {
    const NAME: &'static str = "PERSISTENT RESERVE IN keys";

    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off.
    pub fn decode(bytes: &[u8]) -> Result<ReservationKeys, Malformed> {
        let mut reader = Reader::new(ReservationKeys::NAME, bytes);
        let generation = reader.u32()?;
        let length = reader.length32()?;
        let mut list = reader.part(ReservationKeys::NAME, length)?;
        let mut keys = Vec::new();
        while !list.is_empty() {
            keys.push(ReservationKey(list.u64()?));
        }
        Ok(ReservationKeys { generation, keys })
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.generation.to_be_bytes().to_vec();
        out.extend([0; 4]);
        set_length(&mut out, 4, 4, self.keys.len() * 8);
        self.keys.iter().for_each(|key| out.extend(key.0.to_be_bytes()));
        out
    }
}

/// Who holds the reservation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holder {
    /// The key of the holder, zero for types of all registrants.
    pub key: ReservationKey,
    /// 0: the logical unit.
    pub scope: u8,
    /// The type.
    pub kind: ReservationType,
}

impl Packed for Holder {
    const NAME: &'static str = "PERSISTENT RESERVE IN reservation descriptor";
    const LENGTH: usize = 16;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.number(0, 8, &mut self.key);
        l.bits(13, 4, 4, &mut self.scope);
        l.code(13, 0, 4, "the type", &mut self.kind);
    }
}

/// The reservation.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reservation {
    /// Counts registrations since power came on.
    pub generation: u32,
    /// Who holds it, if there is one.
    pub holder: Option<Holder>,
}

impl Reservation {
    const NAME: &'static str = "PERSISTENT RESERVE IN reservation";

    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off or has another length than none or one reservation.
    pub fn decode(bytes: &[u8]) -> Result<Reservation, Malformed> {
        let mut reader = Reader::new(Reservation::NAME, bytes);
        let generation = reader.u32()?;
        let holder = match reader.length32()? {
            0 => None,
            Holder::LENGTH => Some(reader.packed()?),
            value => return Err(reader.fault(4, Fault::Length { field: "the additional length", value })),
        };
        Ok(Reservation { generation, holder })
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.generation.to_be_bytes().to_vec();
        let holder = self.holder.as_ref().map(Packed::encode).unwrap_or_default();
        out.extend([0; 4]);
        set_length(&mut out, 4, 4, holder.len());
        out.extend(holder);
        out
    }
}

/// What a device can do with reservations (SPC-5, 6.16.4).
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // Flags are explained where their names do not.
pub struct ReservationCapabilities {
    /// Bytes of this, 8.
    pub length: u16,
    /// A lost reservation can be replaced.
    pub replace_lost: bool,
    /// RESERVE(6) is handled as SPC-2 says.
    pub compatible_reserve: bool,
    pub initiator_ports: bool,
    pub all_target_ports: bool,
    /// Registrations can be kept without power.
    pub persist_capable: bool,
    /// The mask of types is valid.
    pub types_valid: bool,
    pub allowed_commands: u8,
    /// Registrations are kept without power.
    pub persist_active: bool,
    /// A bit for each type, that of type 0 the lowest of the first byte, that of type 8 the lowest of the
    /// second.
    pub types: [u8; 2],
}

impl Default for ReservationCapabilities {
    fn default() -> Self {
        ReservationCapabilities {
            length: 8,
            replace_lost: false,
            compatible_reserve: false,
            initiator_ports: false,
            all_target_ports: false,
            persist_capable: false,
            types_valid: false,
            allowed_commands: 0,
            persist_active: false,
            types: [0; 2],
        }
    }
}

impl Packed for ReservationCapabilities {
    const NAME: &'static str = "PERSISTENT RESERVE IN capabilities";
    const LENGTH: usize = 8;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.number(0, 2, &mut self.length);
        l.flag(2, 7, &mut self.replace_lost);
        l.flag(2, 4, &mut self.compatible_reserve);
        l.flag(2, 3, &mut self.initiator_ports);
        l.flag(2, 2, &mut self.all_target_ports);
        l.flag(2, 0, &mut self.persist_capable);
        l.flag(3, 7, &mut self.types_valid);
        l.bits(3, 4, 3, &mut self.allowed_commands);
        l.flag(3, 0, &mut self.persist_active);
        l.slice(4, &mut self.types);
    }
}

impl ReservationCapabilities {
    /// Whether reservations of this type can be made.
    #[must_use]
    pub fn has(&self, kind: ReservationType) -> bool {
        let mask = u16::from_le_bytes(self.types);
        mask.checked_shr(u32::from(kind.byte())).is_some_and(|shifted| shifted & 1 == 1)
    }
}

/// The fields of [`Registration`] before the name of the initiator.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct RegistrationHead {
    key: ReservationKey,
    all_ports: bool,
    holds: bool,
    scope: u8,
    kind: ReservationType,
    port: u16,
    length: u32,
}

impl Packed for RegistrationHead {
    const NAME: &'static str = "PERSISTENT RESERVE IN full status descriptor";
    const LENGTH: usize = 24;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.number(0, 8, &mut self.key);
        l.flag(12, 1, &mut self.all_ports);
        l.flag(12, 0, &mut self.holds);
        l.bits(13, 4, 4, &mut self.scope);
        l.code(13, 0, 4, "the type", &mut self.kind);
        l.number(18, 2, &mut self.port);
        l.number(20, 4, &mut self.length);
    }
}

/// The TransportID of an initiator's port that is reached by iSCSI: its name and its part of the session's
/// name (SPC-5, 7.6.4.6, format 01b).
#[must_use]
pub fn iscsi_transport_id(name: &str, isid: [u8; 6]) -> Vec<u8> {
    let isid: String = isid.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut text = format!("{name},i,0x{isid}").into_bytes();
    text.push(0);
    text.resize(text.len().next_multiple_of(4).max(20), 0);
    let mut out = vec![0x45, 0, 0, 0];
    set_length(&mut out, 2, 2, text.len());
    out.extend(text);
    out
}

/// The name of the initiator and its part of the session's name, if this is the TransportID of one that is
/// reached by iSCSI and says both.
#[must_use]
pub fn iscsi_port_of(transport_id: &[u8]) -> Option<(String, [u8; 6])> {
    let mut reader = Reader::new("TransportID", transport_id);
    let [first, _] = reader.array().ok()?;
    let length = reader.length16().ok().filter(|_| first == 0x45)?;
    let text = std::str::from_utf8(reader.take(length).ok()?).ok()?;
    let (name, number) = text.trim_end_matches('\0').split_once(",i,0x")?;
    let all = u64::from_str_radix(number, 16).ok().filter(|_| number.len() == 12)?;
    let [_, _, isid @ ..] = all.to_be_bytes();
    Some((name.to_owned(), isid))
}

/// A registration.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Registration {
    /// Its key.
    pub key: ReservationKey,
    /// It is valid for all ports of the target.
    pub all_ports: bool,
    /// It holds the reservation.
    pub holds: bool,
    /// The scope of the reservation.
    pub scope: u8,
    /// The type of the reservation.
    pub kind: ReservationType,
    /// The port of the target.
    pub port: u16,
    /// The TransportID of the initiator (SPC-5, 7.6.4).
    pub initiator: Vec<u8>,
}

/// All registrations.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FullStatus {
    /// Counts registrations since power came on.
    pub generation: u32,
    /// The registrations.
    pub registrations: Vec<Registration>,
}

impl FullStatus {
    const NAME: &'static str = "PERSISTENT RESERVE IN full status";

    /// Reads it.
    ///
    /// # Errors
    /// If it or a descriptor is cut off.
    pub fn decode(bytes: &[u8]) -> Result<FullStatus, Malformed> {
        let mut reader = Reader::new(FullStatus::NAME, bytes);
        let generation = reader.u32()?;
        let length = reader.length32()?;
        let mut list = reader.part(FullStatus::NAME, length)?;
        let mut registrations = Vec::new();
        while !list.is_empty() {
            let RegistrationHead { key, all_ports, holds, scope, kind, port, length } = list.packed()?;
            let initiator = list.take(usize::try_from(length).unwrap_or(usize::MAX))?.to_vec();
            registrations.push(Registration { key, all_ports, holds, scope, kind, port, initiator });
        }
        Ok(FullStatus { generation, registrations })
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.generation.to_be_bytes().to_vec();
        out.extend([0; 4]);
        for Registration { key, all_ports, holds, scope, kind, port, initiator } in &self.registrations {
            let mut head = RegistrationHead {
                key: *key,
                all_ports: *all_ports,
                holds: *holds,
                scope: *scope,
                kind: *kind,
                port: *port,
                length: 0,
            }
            .encode();
            set_length(&mut head, 20, 4, initiator.len());
            out.extend(head);
            out.extend(initiator);
        }
        let length = out.len() - 8;
        set_length(&mut out, 4, 4, length);
        out
    }
}

/// What PERSISTENT RESERVE OUT is given, but for REGISTER AND MOVE: 24 bytes (SPC-5, 6.17.3).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReserveOut {
    /// The key that is registered.
    pub key: ReservationKey,
    /// The key that the service action is about: the new one, or that of the one whose place is taken.
    pub action_key: ReservationKey,
    /// More initiators follow, as [`ReserveOutList`] reads them.
    pub specify_initiators: bool,
    /// It is valid for all ports of the target.
    pub all_ports: bool,
    /// It is kept without power.
    pub persist: bool,
}

impl Packed for ReserveOut {
    const NAME: &'static str = "PERSISTENT RESERVE OUT parameter list";
    const LENGTH: usize = 24;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.number(0, 8, &mut self.key);
        l.number(8, 8, &mut self.action_key);
        l.flag(20, 3, &mut self.specify_initiators);
        l.flag(20, 2, &mut self.all_ports);
        l.flag(20, 0, &mut self.persist);
    }
}

/// [`ReserveOut`] with the initiators behind it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReserveOutList {
    /// The parameters.
    pub parameters: ReserveOut,
    /// TransportIDs one behind the other; only if the parameters say that they follow.
    pub initiators: Vec<u8>,
}

impl ReserveOutList {
    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off.
    pub fn decode(bytes: &[u8]) -> Result<ReserveOutList, Malformed> {
        let mut reader = Reader::new(ReserveOut::NAME, bytes);
        let parameters: ReserveOut = reader.packed()?;
        let mut initiators = Vec::new();
        if parameters.specify_initiators {
            let length = reader.length32()?;
            initiators = reader.take(length)?.to_vec();
        }
        Ok(ReserveOutList { parameters, initiators })
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.parameters.encode();
        if self.parameters.specify_initiators {
            out.extend([0; 4]);
            set_length(&mut out, ReserveOut::LENGTH, 4, self.initiators.len());
            out.extend(&self.initiators);
        }
        out
    }
}

/// What REGISTER AND MOVE is given, before the TransportID (SPC-5, 6.17.4).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct MoveHead {
    key: ReservationKey,
    action_key: ReservationKey,
    unregister: bool,
    persist: bool,
    port: u16,
    length: u32,
}

impl Packed for MoveHead {
    const NAME: &'static str = "REGISTER AND MOVE parameter list";
    const LENGTH: usize = 24;

    fn layout(&mut self, l: &mut Layout<'_>) {
        l.number(0, 8, &mut self.key);
        l.number(8, 8, &mut self.action_key);
        l.flag(17, 1, &mut self.unregister);
        l.flag(17, 0, &mut self.persist);
        l.number(18, 2, &mut self.port);
        l.number(20, 4, &mut self.length);
    }
}

/// What REGISTER AND MOVE is given.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RegisterAndMove {
    /// The key that is registered.
    pub key: ReservationKey,
    /// The key that the other initiator gets.
    pub action_key: ReservationKey,
    /// The registration of this initiator ends.
    pub unregister: bool,
    /// It is kept without power.
    pub persist: bool,
    /// The port of the target that the other initiator uses.
    pub port: u16,
    /// The TransportID of the other initiator.
    pub initiator: Vec<u8>,
}

impl RegisterAndMove {
    /// Reads it.
    ///
    /// # Errors
    /// If it is cut off.
    pub fn decode(bytes: &[u8]) -> Result<RegisterAndMove, Malformed> {
        let mut reader = Reader::new(MoveHead::NAME, bytes);
        let MoveHead { key, action_key, unregister, persist, port, length } = reader.packed()?;
        let initiator = reader.take(usize::try_from(length).unwrap_or(usize::MAX))?.to_vec();
        Ok(RegisterAndMove { key, action_key, unregister, persist, port, initiator })
    }

    /// Writes it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let RegisterAndMove { key, action_key, unregister, persist, port, initiator } = self;
        let head = MoveHead {
            key: *key,
            action_key: *action_key,
            unregister: *unregister,
            persist: *persist,
            port: *port,
            length: 0,
        };
        let mut out = head.encode();
        set_length(&mut out, 20, 4, initiator.len());
        out.extend(initiator);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::tests::{any_bytes, hex, packed};

    #[test]
    fn hold_as_structures() {
        packed::<Holder>();
        packed::<ReservationCapabilities>();
        packed::<RegistrationHead>();
        packed::<ReserveOut>();
        packed::<MoveHead>();
    }

    #[test]
    fn an_initiator_has_a_name_of_whole_words() {
        let isid = [0x80, 1, 2, 3, 0, 0xff];
        let id = iscsi_transport_id("iqn.2026-01.org.kist:a", isid);
        assert_eq!(id[..4], [0x45, 0, 0, 40]);
        assert_eq!(&id[4..], b"iqn.2026-01.org.kist:a,i,0x8001020300ff\0");
        assert_eq!(iscsi_port_of(&id), Some(("iqn.2026-01.org.kist:a".into(), isid)));
        for wrong in [&[][..], &[0x45, 0, 0, 9, 1], &[0x05, 0, 0, 0], b"\x45\0\0\x08iqn.a,i,"] {
            assert_eq!(iscsi_port_of(wrong), None);
        }
    }

    #[test]
    fn answers_are_the_bytes_of_the_tables() {
        let keys = ReservationKeys { generation: 3, keys: vec![ReservationKey(0x123_abc)] };
        assert_eq!(keys.encode(), hex("00 00 00 03 00 00 00 08 00 00 00 00 00 12 3a bc"));
        let holder = Holder { key: ReservationKey(1), scope: 0, kind: ReservationType::ExclusiveAccess };
        let reservation = Reservation { generation: 3, holder: Some(holder) };
        let bytes = hex("00 00 00 03 00 00 00 10 00 00 00 00 00 00 00 01 00 00 00 00 00 03 00 00");
        assert_eq!((reservation.encode(), Reservation::decode(&bytes)), (bytes.clone(), Ok(reservation)));
        let mut wrong = bytes;
        wrong[7] = 8;
        assert_eq!(Reservation::decode(&wrong).unwrap_err().at, 4);
        // All types but "write exclusive, all registrants", which is the highest bit of the first byte.
        let some = ReservationCapabilities { types: [0x6a, 0x01], ..Default::default() };
        assert!(some.has(ReservationType::WriteExclusive) && some.has(ReservationType::ExclusiveAccessAll));
        assert!(!some.has(ReservationType::WriteExclusiveAll) && !some.has(ReservationType::Other(0xff)));
    }

    #[test]
    fn nothing_panics() {
        let registration =
            Registration { holds: true, port: 1, initiator: vec![5; 24], ..Default::default() };
        let full = FullStatus { generation: 1, registrations: vec![registration.clone(), registration] };
        let list = ReserveOutList {
            parameters: ReserveOut { specify_initiators: true, ..Default::default() },
            initiators: vec![1; 24],
        };
        let moved = RegisterAndMove { port: 2, initiator: vec![9; 8], ..Default::default() };
        let keys = ReservationKeys { generation: 0, keys: vec![ReservationKey(7); 2] };
        let held = Reservation { generation: 9, holder: Some(Holder::default()) };
        let samples = [full.encode(), list.encode(), moved.encode(), keys.encode(), held.encode()];
        assert_eq!(FullStatus::decode(&samples[0]), Ok(full));
        any_bytes(&samples, |bytes| {
            if let Ok(read) = FullStatus::decode(bytes) {
                assert_eq!(FullStatus::decode(&read.encode()), Ok(read));
            }
            if let Ok(read) = ReserveOutList::decode(bytes) {
                assert_eq!(ReserveOutList::decode(&read.encode()), Ok(read));
            }
            if let Ok(read) = RegisterAndMove::decode(bytes) {
                assert_eq!(RegisterAndMove::decode(&read.encode()), Ok(read));
            }
            if let Ok(read) = ReservationKeys::decode(bytes) {
                assert_eq!(ReservationKeys::decode(&read.encode()), Ok(read));
            }
            if let Ok(read) = Reservation::decode(bytes) {
                assert_eq!(Reservation::decode(&read.encode()), Ok(read));
            }
        });
    }
}
