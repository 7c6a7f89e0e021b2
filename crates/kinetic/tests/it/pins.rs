//! Locking and erasing by PINs.

use kinetic::client::{EndReason, Options, SubmitError};
use kinetic::server::{Action, DeviceState, HMAC_FAILURES_MAX, PIN_COMMAND_BYTES_MAX};
use kinetic::{Change, ClusterVersion, PinOperation, Request, Secret, Sender, StatusCode, seal, wire};

use crate::world::{Making, World, a_put, arrived, get, put};

fn with_pins() -> World {
    let mut making = Making { is_tls: true, ..Making::default() };
    making.state = DeviceState {
        lock_pin: Secret::new("lock"),
        erase_pin: Secret::new("erase"),
        ..DeviceState::factory()
    };
    World::make(making)
}

#[test]
fn a_locked_device_only_unlocks() {
    let mut world = with_pins();
    assert_eq!(world.status(put("a", "", "1", "x")), StatusCode::Success);
    assert_eq!(world.pin(PinOperation::Unlock, "lock"), StatusCode::DeviceAlreadyUnlocked);
    assert_eq!(world.pin(PinOperation::Lock, "erase"), StatusCode::NotAuthorized);
    assert_eq!(world.pin(PinOperation::Lock, "lock"), StatusCode::Success);
    assert!(world.drive.state().is_locked, "durable before it is answered");
    assert_eq!(world.status(get("a")), StatusCode::DeviceLocked);
    assert_eq!(world.pin(PinOperation::Lock, "lock"), StatusCode::DeviceLocked);
    assert_eq!(world.pin(PinOperation::Unlock, "lock"), StatusCode::Success);
    assert_eq!(world.status(get("a")), StatusCode::Success);
}

#[test]
fn erasing_makes_a_new_device() {
    for operation in [PinOperation::Erase, PinOperation::SecureErase] {
        let mut world = with_pins();
        assert_eq!(world.status(put("a", "", "1", "x")), StatusCode::Success);
        assert_eq!(world.pin(operation, "lock"), StatusCode::NotAuthorized);
        assert_eq!(world.drive.count(), 1);
        assert_eq!(world.pin(PinOperation::Lock, "lock"), StatusCode::Success);
        assert_eq!(world.pin(operation, "erase"), StatusCode::Success, "a locked one, too");
        assert_eq!(world.drive.count(), 0);
        assert_eq!(
            (world.device.state(), world.drive.state()),
            (&DeviceState::factory(), &DeviceState::factory())
        );
        assert_eq!(world.status(get("a")), StatusCode::NotFound);
    }
}

#[test]
fn without_a_pin_nothing_is_locked_or_erased() {
    let mut world = World::tls();
    for operation in PinOperation::ALL {
        assert_eq!(world.pin(*operation, ""), StatusCode::NotAuthorized, "{operation:?}");
    }
}

#[test]
fn pins_go_over_tls_only() {
    let mut world = World::new();
    let pin = Secret::new("lock");
    let refused = world.client.submit_pin(world.now, PinOperation::Lock, pin.clone(), Options::default());
    assert_eq!(refused, Err(SubmitError::NeedsTls));
    // A client that does it all the same.
    let command = pin_command(&world, kinetic::MessageType::PinOp);
    assert_eq!(last_word(&mut world, &command, &pin), StatusCode::ConnectionTerminated);
    assert!(world.connection.is_closed());
}

#[test]
fn a_pin_is_for_pin_operations_alone() {
    let pin = Secret::new("lock");
    let mut world = with_pins();
    let command = pin_command(&world, kinetic::MessageType::Noop);
    assert_eq!(last_word(&mut world, &command, &pin), StatusCode::ConnectionTerminated);
    let mut world = with_pins();
    let mut command = pin_command(&world, kinetic::MessageType::PinOp);
    let range = wire::Range { keys: vec![vec![0; PIN_COMMAND_BYTES_MAX].into()], ..wire::Range::default() };
    command.body = Some(wire::Body { range: Some(range), ..command.body.unwrap() });
    assert_eq!(last_word(&mut world, &command, &pin), StatusCode::ConnectionTerminated);
    // And nobody's HMAC is worth a PIN.
    let mut world = with_pins();
    let command = pin_command(&world, kinetic::MessageType::PinOp);
    let key = kinetic::HmacKey::new(crate::world::KEY);
    let frame = seal(Sender::Identity(kinetic::Identity(1), &key), &command, bytes::Bytes::new()).unwrap();
    let mut actions = Vec::new();
    world.connection.received(&mut world.device, world.now, arrived(&frame), &mut actions);
    assert_eq!(code(&actions[0]), StatusCode::NotAuthorized);
}

#[test]
fn guessing_ends_the_connection() {
    let mut world = with_pins();
    for _ in 1..HMAC_FAILURES_MAX {
        assert_eq!(world.pin(PinOperation::Erase, "guess"), StatusCode::NotAuthorized);
    }
    let pin = Secret::new("guess");
    world.client.submit_pin(world.now, PinOperation::Erase, pin, Options::default()).unwrap();
    world.settle();
    assert!(matches!(world.ended(), Some(EndReason::Terminated(_))), "{:?}", world.ended());
}

#[test]
fn locking_drops_open_batches() {
    let mut world = with_pins();
    let batch = world.begin();
    world.client.add(batch, Change::Put(a_put("a", "", "1", "x"))).unwrap();
    world.settle();
    assert_eq!(world.device.batches(), 1);
    assert_eq!(world.pin(PinOperation::Lock, "lock"), StatusCode::Success);
    assert_eq!(world.device.batches(), 0);
    assert_eq!(world.pin(PinOperation::Unlock, "lock"), StatusCode::Success);
    world.client.commit(world.now, batch).unwrap();
    world.settle();
    assert!(matches!(world.ended(), Some(EndReason::InvalidBatch(_))), "{:?}", world.ended());
    assert_eq!((world.drive.count(), world.device.batches()), (0, 0));
}

#[test]
fn the_fence_does_not_keep_pins_out() {
    let mut world = with_pins();
    assert_eq!(world.status(Request::SetClusterVersion(ClusterVersion(9))), StatusCode::Success);
    assert_eq!(world.status(Request::Noop), StatusCode::VersionFailure);
    assert_eq!(world.pin(PinOperation::Lock, "lock"), StatusCode::Success);
}

fn pin_command(world: &World, message_type: kinetic::MessageType) -> wire::Command {
    let header = wire::Header {
        connection_id: Some(world.connection.id().0),
        sequence: Some(1),
        message_type: Some(message_type.number()),
        ..wire::Header::default()
    };
    let pin_op = Some(wire::PinOp { pin_op_type: Some(PinOperation::Lock.number()) });
    let body = Some(wire::Body { pin_op, ..wire::Body::default() });
    wire::Command { header: Some(header), body, status: None }
}

fn last_word(world: &mut World, command: &wire::Command, pin: &Secret) -> StatusCode {
    let frame = seal(Sender::Pin(Some(pin)), command, bytes::Bytes::new()).unwrap();
    let mut actions = Vec::new();
    world.connection.received(&mut world.device, world.now, arrived(&frame), &mut actions);
    assert_eq!(actions.get(1), Some(&Action::Close));
    code(&actions[0])
}

fn code(action: &Action) -> StatusCode {
    let Action::Send(frame) = action else { panic!("{action:?}") };
    let sealed = kinetic::Sealed::read(arrived(frame).message).unwrap();
    kinetic::Status::read(sealed.open().unwrap().status.as_ref()).code
}
