//! Reservations between two initiators.

use scsi::command::{PersistentIn, PersistentOut, Prevention, Primary, Stream};
use scsi::reservation::{
    FullStatus, Reservation, ReservationCapabilities, ReservationKey, ReservationKeys, ReservationType,
    ReserveOut, iscsi_port_of,
};
use scsi::{Data, Packed, Sense, Status};

use crate::common::*;

const OTHER: &str = "iqn.2026-01.org.kist:other";

/// How a PERSISTENT RESERVE OUT ended.
#[derive(Debug, PartialEq)]
enum End {
    Good,
    Conflict,
    Sense((u8, u8, u8)),
}
use End::{Conflict, Good};

fn end(completion: &scsi::Completion) -> End {
    match completion.status {
        Status::Good => Good,
        Status::ReservationConflict => Conflict,
        _ => End::Sense(code(&Sense::decode(&completion.sense).unwrap())),
    }
}

fn persist(host: &mut Host, service: PersistentOut, kind: ReservationType, key: u64, action_key: u64) -> End {
    let list = ReserveOut {
        key: ReservationKey(key),
        action_key: ReservationKey(action_key),
        ..ReserveOut::default()
    };
    let data = list.encode();
    let command = Primary::PersistentReserveOut { service, scope: 0, kind: kind.byte(), length: 24 };
    end(&host.send(&command.into(), Data::Out(&data)))
}

fn register(host: &mut Host, old: u64, new: u64) -> End {
    persist(host, PersistentOut::Register, ReservationType::None, old, new)
}

fn ask(host: &mut Host, service: PersistentIn) -> Vec<u8> {
    host.ask(Primary::PersistentReserveIn { service, allocation_length: 1000 }, 1000)
}

fn keys(host: &mut Host) -> Vec<u64> {
    ReservationKeys::decode(&ask(host, PersistentIn::Keys)).unwrap().keys.iter().map(|key| key.0).collect()
}

fn holder(host: &mut Host) -> Option<(u64, ReservationType)> {
    let reservation = Reservation::decode(&ask(host, PersistentIn::Reservation)).unwrap();
    reservation.holder.map(|holder| (holder.key.0, holder.kind))
}

fn ready(host: &mut Host) -> End {
    end(&host.send(&Primary::TestUnitReady.into(), Data::None))
}

fn write(host: &mut Host) -> End {
    end(&host.send(&Stream::Write6 { fixed: false, length: 3 }.into(), Data::Out(&[1, 2, 3])))
}

fn rewind(host: &mut Host) -> End {
    end(&host.send(&Stream::Rewind { immediate: false }.into(), Data::None))
}

#[test]
fn a_holder_keeps_all_others_out_until_it_releases() {
    let bench = Bench::new();
    let (mut one, mut other) = (bench.loaded(), bench.host_of(DRIVE, OTHER));
    let kind = ReservationType::ExclusiveAccess;
    assert_eq!(persist(&mut one, PersistentOut::Reserve, kind, 1, 0), Conflict, "not registered yet");
    assert_eq!(register(&mut one, 7, 1), Conflict, "a first registration has no key");
    assert_eq!(register(&mut one, 0, 1), Good);
    assert_eq!(register(&mut other, 0, 2), Good);
    assert_eq!(persist(&mut one, PersistentOut::Reserve, kind, 1, 0), Good);
    assert_eq!((keys(&mut other), holder(&mut other)), (vec![2, 1], Some((1, kind))));
    for kept_out in [write(&mut other), rewind(&mut other)] {
        assert_eq!(kept_out, Conflict);
    }
    assert_eq!(ready(&mut other), Good);
    assert_eq!(write(&mut one), Good);
    assert_eq!(persist(&mut other, PersistentOut::Reserve, kind, 2, 0), Conflict);
    assert_eq!(persist(&mut other, PersistentOut::Release, kind, 2, 0), Good, "it has none: nothing is done");
    let other_kind = ReservationType::WriteExclusive;
    assert_eq!(persist(&mut one, PersistentOut::Release, other_kind, 1, 0), End::Sense((5, 0x26, 4)));
    assert_eq!(persist(&mut one, PersistentOut::Release, kind, 1, 0), Good);
    assert_eq!((holder(&mut other), write(&mut other)), (None, Good));
    // The session's end is not the registration's: by name and ISID it is the same port.
    assert_eq!(persist(&mut one, PersistentOut::Reserve, kind, 1, 0), Good);
    drop(one);
    assert_eq!(write(&mut other), Conflict);
    let mut again = bench.host(DRIVE);
    assert_eq!(write(&mut again), Good);
    assert_eq!(register(&mut again, 1, 0), Good);
    assert_eq!((holder(&mut other), keys(&mut other)), (None, vec![2]));
}

#[test]
fn whoever_takes_over_tells_the_one_before() {
    let bench = Bench::new();
    let (mut one, mut other) = (bench.loaded(), bench.host_of(DRIVE, OTHER));
    let kind = ReservationType::WriteExclusive;
    register(&mut one, 0, 1);
    register(&mut other, 0, 2);
    persist(&mut one, PersistentOut::Reserve, kind, 1, 0);
    assert_eq!(persist(&mut other, PersistentOut::Preempt, kind, 2, 9), Conflict, "nobody has that key");
    assert_eq!(persist(&mut other, PersistentOut::Preempt, kind, 2, 0), End::Sense((5, 0x26, 0)));
    assert_eq!(persist(&mut other, PersistentOut::PreemptAndAbort, kind, 2, 1), Good);
    assert_eq!(holder(&mut other), Some((2, kind)));
    assert_eq!(ready(&mut one), End::Sense((6, 0x2a, 5)), "it is not registered any more");
    assert_eq!((write(&mut one), write(&mut other)), (Conflict, Good));
    let ignores = PersistentOut::RegisterAndIgnoreKey;
    assert_eq!(persist(&mut one, ignores, ReservationType::None, 99, 3), Good);
    assert_eq!(persist(&mut one, PersistentOut::Clear, ReservationType::None, 3, 0), Good);
    assert_eq!(ready(&mut other), End::Sense((6, 0x2a, 3)));
    assert_eq!((keys(&mut other), holder(&mut other), write(&mut other)), (vec![], None, Good));
}

/// Story: a host hung with the cartridge kept in. Who took the drive from it could not get the cartridge out.
#[test]
fn preempt_and_abort_lets_the_medium_go_that_the_one_before_kept_in() {
    let bench = Bench::new();
    let kind = ReservationType::ExclusiveAccess;
    for (service, is_free) in [(PersistentOut::Preempt, false), (PersistentOut::PreemptAndAbort, true)] {
        let (mut one, mut other) = (bench.loaded(), bench.host_of(DRIVE, OTHER));
        let mut third = bench.host_of(DRIVE, "iqn.2026-01.org.kist:third");
        register(&mut one, 0, 1);
        register(&mut other, 0, 2);
        persist(&mut one, PersistentOut::Reserve, kind, 1, 0);
        let keep = Primary::PreventAllowMediumRemoval { prevention: Prevention::Prevent };
        one.go(&keep.into(), Data::None);
        assert_eq!(persist(&mut other, service, kind, 2, 1), Good);
        let unloaded = end(&other.send(&unload(), Data::None));
        assert_eq!(unloaded, if is_free { Good } else { End::Sense((5, 0x53, 2)) }, "{service:?}");
        if is_free {
            // Of those that were not preempted nothing is taken, nor of who takes it.
            other.go(&load(), Data::None);
            assert_eq!(ready(&mut third), End::Sense((6, 0x28, 0)));
            assert_eq!(ready(&mut one), End::Sense((6, 0x2a, 5)));
            assert_eq!(ready(&mut one), End::Sense((6, 0x28, 0)));
            assert_eq!(register(&mut one, 0, 1), Good);
            other.go(&keep.into(), Data::None);
            assert_eq!(persist(&mut other, PersistentOut::PreemptAndAbort, kind, 2, 1), Good);
            assert_eq!(end(&other.send(&unload(), Data::None)), End::Sense((5, 0x53, 2)));
            continue;
        }
        // For the next round all is as it was.
        drop((one, other, third));
        let mut host = bench.host_of(DRIVE, OTHER);
        assert_eq!(register(&mut host, 2, 0), Good);
        host.go(&unload(), Data::None);
        bench.host(CHANGER).go(&move_medium(BAY, SLOT), Data::None);
    }
}

#[test]
fn all_who_are_registered_share_some_reservations() {
    for kind in [
        ReservationType::WriteExclusiveRegistrants,
        ReservationType::ExclusiveAccessRegistrants,
        ReservationType::WriteExclusiveAll,
        ReservationType::ExclusiveAccessAll,
    ] {
        let bench = Bench::new();
        let (mut one, mut other) = (bench.loaded(), bench.host_of(DRIVE, OTHER));
        register(&mut one, 0, 1);
        assert_eq!(persist(&mut one, PersistentOut::Reserve, kind, 1, 0), Good);
        assert_eq!(write(&mut other), Conflict);
        register(&mut other, 0, 2);
        assert_eq!(write(&mut other), Good);
        let is_of_all =
            matches!(kind, ReservationType::WriteExclusiveAll | ReservationType::ExclusiveAccessAll);
        assert_eq!(holder(&mut one), Some((u64::from(!is_of_all), kind)));
        // The one who made it goes. Those of all stay with the last.
        register(&mut one, 1, 0);
        assert_eq!(ready(&mut other), if is_of_all { Good } else { End::Sense((6, 0x2a, 4)) });
        assert_eq!(holder(&mut other).is_some(), is_of_all, "{kind}");
        register(&mut other, 2, 0);
        assert_eq!(holder(&mut other), None);
    }
}

#[test]
fn what_is_offered_and_who_is_registered_can_be_asked() {
    let bench = Bench::new();
    let mut one = bench.loaded();
    register(&mut one, 0, 1);
    let kind = ReservationType::ExclusiveAccess;
    persist(&mut one, PersistentOut::Reserve, kind, 1, 0);
    let capabilities = ReservationCapabilities::decode(&ask(&mut one, PersistentIn::Capabilities)).unwrap();
    assert!(capabilities.types_valid && capabilities.has(kind) && !capabilities.persist_capable);
    assert!(!capabilities.has(ReservationType::None));
    let full = FullStatus::decode(&ask(&mut one, PersistentIn::FullStatus)).unwrap();
    let [only] = &full.registrations[..] else { panic!("{full:?}") };
    assert_eq!((only.key, only.holds, only.kind, full.generation), (ReservationKey(1), true, kind, 1));
    assert_eq!(iscsi_port_of(&only.initiator), Some((INITIATOR.to_owned(), [0; 6])));
    let mut refused = |change: fn(&mut ReserveOut)| {
        let mut list = ReserveOut { key: ReservationKey(1), ..ReserveOut::default() };
        change(&mut list);
        let mut data = list.encode();
        data.extend([0; 4]);
        let service = PersistentOut::Register;
        let length = data.len() as u32;
        let command = Primary::PersistentReserveOut { service, scope: 0, kind: 0, length };
        end(&one.send(&command.into(), Data::Out(&data)))
    };
    assert_eq!(refused(|list| list.persist = true), End::Sense((5, 0x26, 0)));
    assert_eq!(refused(|list| list.specify_initiators = true), End::Sense((5, 0x26, 0)));
    let short =
        Primary::PersistentReserveOut { service: PersistentOut::Register, scope: 0, kind: 0, length: 8 };
    assert_eq!(end(&one.send(&short.into(), Data::Out(&[0; 8]))), End::Sense((5, 0x1a, 0)));
    let no_type =
        Primary::PersistentReserveOut { service: PersistentOut::Reserve, scope: 0, kind: 2, length: 24 };
    let data = ReserveOut { key: ReservationKey(1), ..ReserveOut::default() }.encode();
    assert_eq!(end(&one.send(&no_type.into(), Data::Out(&data))), End::Sense((5, 0x24, 0)));
}

#[test]
fn the_older_reservation_ends_with_its_session() {
    let bench = Bench::new();
    let (mut one, mut other) = (bench.loaded(), bench.host_of(DRIVE, OTHER));
    let send = |host: &mut Host, command: Primary| end(&host.send(&command.into(), Data::None));
    assert_eq!(send(&mut one, Primary::Reserve6), Good);
    assert_eq!((ready(&mut other), write(&mut other)), (Conflict, Conflict));
    assert_eq!(send(&mut other, Primary::Release6), Good, "of one who has not reserved it, nothing");
    assert_eq!((send(&mut other, Primary::Reserve6), write(&mut one)), (Conflict, Good));
    drop(one);
    assert_eq!(write(&mut other), Good);
    register(&mut other, 0, 2);
    assert_eq!(send(&mut other, Primary::Reserve6), Conflict, "registrations and it exclude each other");
}
