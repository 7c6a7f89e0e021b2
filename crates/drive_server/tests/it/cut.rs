//! A connection that is cut at each byte of what a client sends: nothing acknowledged is lost, nothing is
//! done twice, and the server goes on.

use kinetic::client::{BatchOutcome, ClientSettings, Options};
use kinetic::{Answer, Change, Identity, StatusCode};

use crate::wire::{KEY, Wire, a_delete, a_put, get, noise, serve};

/// What is told of the steps: a put, a batch over it, a put over that.
fn exchange(wire: &mut Wire, name: &str) -> (usize, usize) {
    let mut acknowledged = 0;
    let steps: [Vec<Change>; 3] = [
        vec![Change::Put(a_put(name, "", "1", noise(40, 1)))],
        vec![
            Change::Put(a_put(name, "1", "2", noise(50, 2))),
            Change::Put(a_put(&format!("{name} b"), "", "1", noise(30, 3))),
        ],
        vec![Change::Delete(a_delete(&format!("{name} b"), "1"))],
    ];
    let mut begun = 0;
    for mut step in steps {
        begun += 1;
        let is_done = if step.len() == 1 {
            let request = kinetic::Request::Change(step.remove(0));
            match wire.client.submit(wire.now(), request, Options::default()) {
                Ok(ticket) => {
                    wire.transmit();
                    wire.answer(ticket).is_some_and(|response| {
                        assert_eq!(response.status.code, StatusCode::Success);
                        true
                    })
                }
                Err(_) => false,
            }
        } else {
            match wire.client.begin_batch(wire.now(), Options::default()) {
                Ok(batch) => {
                    for change in step {
                        wire.client.add(batch, change).unwrap();
                    }
                    wire.client.commit(wire.now(), batch).unwrap();
                    wire.transmit();
                    match wire.batch_outcome(batch) {
                        Some(BatchOutcome::Committed(_)) => true,
                        Some(BatchOutcome::Unanswered(_)) | None => false,
                        other => panic!("{other:?}"),
                    }
                }
                Err(_) => false,
            }
        };
        if !is_done {
            break;
        }
        acknowledged += 1;
    }
    (acknowledged, begun)
}

/// How many steps are done, by what stands there; panics if one is done by half.
fn stands(wire: &mut Wire, name: &str) -> usize {
    let mut version = |key: &str| match wire.call(get(key)).answer {
        Answer::Entry(entry) => Some(entry.metadata.version.to_vec()),
        _ => None,
    };
    match (version(name).as_deref(), version(&format!("{name} b")).as_deref()) {
        (None, None) => 0,
        (Some(b"1"), None) => 1,
        (Some(b"2"), Some(b"1")) => 2,
        (Some(b"2"), None) => 3,
        other => panic!("by half: {other:?}"),
    }
}

#[test]
fn at_each_byte() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let address = server.plain()[0];
    let mut whole = Wire::connect(address);
    assert_eq!(exchange(&mut whole, "whole"), (3, 3));
    let bytes = whole.sent;
    assert!(bytes > 400, "{bytes}");
    let mut counts = [0; 4];
    for budget in 0..bytes {
        let name = format!("{budget:04}");
        let mut wire = Wire::open(address, ClientSettings::new(Identity(1), KEY));
        wire.greeted();
        wire.budget = budget;
        let (acknowledged, begun) = exchange(&mut wire, &name);
        // The device may still be at it when the connection is gone.
        drop(wire);
        let done = stands(&mut whole, &name);
        assert!((acknowledged..=begun).contains(&done), "{budget}: {done} of {acknowledged} to {begun}");
        counts[done] += 1;
    }
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    // What was cut off holds nothing.
    loop {
        if server.connections() == 1 {
            break;
        }
        assert_eq!(whole.code(kinetic::Request::Noop), StatusCode::Success);
    }
    assert_eq!(server.memory(), 0);
}
