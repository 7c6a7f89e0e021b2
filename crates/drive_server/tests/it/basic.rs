//! Put, get, delete, and what is there after a stop.

use kinetic::{Answer, Request, StatusCode};

use crate::wire::{Wire, delete, get, noise, put, serve, value};

/// Requests and answers for which something is waited that comes by itself.
const ROUNDS_MAX: u32 = 20_000;

#[test]
fn what_is_put_is_got_and_stays() {
    let directory = tempfile::tempdir().unwrap();
    let lengths = [0, 1, 4_095, 16_384, 16_385, 32_767, 32_768, 65_536, 262_145, 1_048_576];
    {
        let server = serve(directory.path());
        let mut wire = Wire::connect(server.plain()[0]);
        for (number, length) in lengths.into_iter().enumerate() {
            let (key, value) = (format!("key {number}"), noise(length, number as u64));
            assert_eq!(wire.code(put(&key, "", "1", value)), StatusCode::Success, "{length}");
        }
        assert_eq!(wire.code(Request::Noop), StatusCode::Success);
        assert_eq!(wire.code(delete("key 1", "2")), StatusCode::VersionMismatch);
        assert_eq!(wire.code(delete("key 1", "1")), StatusCode::Success);
        assert_eq!(wire.code(delete("key 1", "1")), StatusCode::NotFound);
        assert_eq!(server.connections(), 1);
        server.stop().unwrap();
    }
    let server = serve(directory.path());
    let mut wire = Wire::connect(server.plain()[0]);
    for (number, length) in lengths.into_iter().enumerate() {
        let stands = value(&mut wire, &format!("key {number}"));
        let expected = (number != 1).then(|| noise(length, number as u64));
        assert!(stands == expected, "{length}");
    }
    // An answer is here before the server is done with its memory.
    for _ in 0..ROUNDS_MAX {
        if server.memory() == 0 {
            break;
        }
        assert_eq!(wire.code(Request::Noop), StatusCode::Success);
    }
    assert_eq!(server.memory(), 0, "all memory of values is given back");
}

#[test]
fn requests_are_pipelined() {
    let directory = tempfile::tempdir().unwrap();
    let server = serve(directory.path());
    let mut wire = Wire::connect(server.plain()[0]);
    let tickets: Vec<_> = (0..40)
        .map(|number| wire.submit(put(&format!("{number}"), "", "1", noise(100_000, number))))
        .collect();
    for ticket in tickets {
        assert_eq!(wire.answer(ticket).unwrap().status.code, StatusCode::Success);
    }
    let tickets: Vec<_> = (0..40).map(|number| wire.submit(get(&format!("{number}")))).collect();
    for (number, ticket) in tickets.into_iter().enumerate() {
        let Answer::Entry(entry) = wire.answer(ticket).unwrap().answer else { panic!("an entry") };
        assert!(entry.value == noise(100_000, number as u64));
    }
}
