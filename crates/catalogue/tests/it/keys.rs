//! Which key a tape is encrypted with.

use base::*;
use catalogue::*;

use crate::common::{Bench, vid};

fn row(bench: &Bench, vid: Vid) -> Vec<u8> {
    let mut rows = bench.store.rows(Table::Tape);
    rows.find(|(key, _)| key.ends_with(vid.as_bytes())).unwrap().1.to_vec()
}

fn tape(bench: &Bench, vid: Vid) -> TapeRecord {
    bench.view().tape(vid).unwrap().unwrap()
}

fn key(id: &str, check: u8) -> TapeKey {
    TapeKey { id: KeyId::new(id).unwrap(), check: KeyCheck([check; KeyCheck::BYTES]) }
}

fn set(vid: Vid, key: Option<TapeKey>) -> Command {
    Command::SetTapeKey { vid, key }
}

/// The key comes behind what rows had before, whichever of that they have; rows without it are as they were.
#[test]
fn the_key_stands_behind_all_that_rows_had_before() {
    for (has_history, is_away) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut bench = Bench::new();
        let vid = bench.tapes[0];
        if has_history {
            let (cause, reason, retry) = (FailureCause::Drive, "jam".to_owned(), None);
            bench.ok(Command::TapeFailed { vid, cause, wrote: false, reason, retry });
        }
        if is_away {
            bench.ok(Command::SetTapeAway { vid, kind: Some(AwayKind::OffSite), place: "vault".into() });
        }
        let before = row(&bench, vid);
        bench.ok(set(vid, Some(key("vault-2026", 7))));
        let record = tape(&bench, vid);
        assert_eq!(record.key, Some(key("vault-2026", 7)));
        assert_eq!((record.history.is_some(), record.away.is_some()), (has_history, is_away));
        assert!(row(&bench, vid).len() > before.len());
        assert_eq!(bench.view().check().unwrap(), []);
        assert!(bench.replayed() == bench.store);
    }
}

/// What stands on a tape is encrypted as it is: only what labels it anew, or finds out, changes the word.
#[test]
fn the_key_of_a_volume_never_changes() {
    let mut bench = Bench::new();
    let known = bench.tapes[0];
    bench.ok(set(known, None));
    bench.ok(set(known, Some(key("a", 1))));
    bench.ok(set(known, Some(key("a", 1))));
    for other in [None, Some(key("a", 2)), Some(key("b", 1))] {
        assert!(bench.rejected(set(known, other)).contains("to be given a key"));
    }
    assert_eq!(tape(&bench, known).key, Some(key("a", 1)));

    // One that is being labelled has what it was given last, and a scratch one has none.
    let new = vid("KS0900");
    bench.ok(Command::RegisterTape { vid: new, capacity: ByteCount(1 << 40) });
    assert!(bench.rejected(set(new, Some(key("a", 1)))).contains("to be given a key"));
    let tape_pool = tape(&bench, known).tape_pool.unwrap();
    bench.ok(Command::AssignTape { vid: new, tape_pool, uuid: Uuid([9; 16]) });
    for given in [Some(key("a", 1)), None, Some(key("b", 1))] {
        bench.ok(set(new, given.clone()));
        assert_eq!(tape(&bench, new).key, given);
    }
    for state in [TapeState::Disabled, TapeState::Scratch] {
        bench.ok(Command::SetTapeState { vid: new, state, reason: String::new() });
    }
    assert_eq!(tape(&bench, new).key, None);
    assert!(bench.replayed() == bench.store);
}

/// Story: the source of keys was changed while two tapes were being labelled: each got another key, under one
/// id.
#[test]
fn two_tapes_get_no_two_keys_of_one_id() {
    let mut bench = Bench::new();
    bench.ok(Command::AdoptRule { rule: Rule::OneKeyOfAnId });
    let tape_pool = tape(&bench, bench.tapes[0]).tape_pool.unwrap();
    let new = [vid("KS0900"), vid("KS0901")];
    for (n, vid) in (8..).zip(new) {
        bench.ok(Command::RegisterTape { vid, capacity: ByteCount(1 << 40) });
        bench.ok(Command::AssignTape { vid, tape_pool, uuid: Uuid([n; 16]) });
    }
    bench.ok(set(new[0], Some(key("a", 1))));
    assert!(bench.rejected(set(new[1], Some(key("a", 2)))).contains("differs from another tape's"));
    bench.ok(set(new[1], Some(key("a", 1))));
    bench.ok(set(new[1], Some(key("b", 2))));
    // The only one of an id may get another one: nothing that counts has the first.
    bench.ok(set(new[0], Some(key("a", 3))));
    // What a labelled tape shows is so.
    bench.ok(set(bench.tapes[0], Some(key("a", 1))));
    assert!(bench.replayed() == bench.store);
}
