//! Tapes that operators have taken out, and those that are never to be used again.

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

fn away(vid: Vid, kind: Option<AwayKind>, place: &str) -> Command {
    Command::SetTapeAway { vid, kind, place: place.into() }
}

/// Rows of before stay as they are: what is not away has the bytes that it had in Kists that knew of none.
#[test]
fn where_a_tape_is_stands_behind_all_that_rows_had_before() {
    let mut bench = Bench::new();
    let vid = bench.tapes[0];
    for has_history in [false, true] {
        if has_history {
            let (cause, reason, retry) = (FailureCause::Drive, "jam".to_owned(), None);
            bench.ok(Command::TapeFailed { vid, cause, wrote: false, reason, retry });
        }
        let before = row(&bench, vid);
        bench.ok(away(vid, Some(AwayKind::OffSite), "vault 3"));
        let record = tape(&bench, vid);
        let known = record.away.clone().unwrap();
        assert_eq!((known.kind, known.place.as_str()), (AwayKind::OffSite, "vault 3"));
        assert_eq!(record.history.is_some(), has_history);
        assert_eq!(known.to_string(), "off-site (vault 3)");
        let with = row(&bench, vid);
        assert!(with.len() > before.len());
        // Said again it changes nothing, not even since when.
        bench.ok(away(vid, Some(AwayKind::OffSite), "vault 3"));
        assert_eq!(row(&bench, vid), with);
        bench.ok(away(vid, None, ""));
        assert_eq!(row(&bench, vid), before, "one encoding for each value");
    }
    assert_eq!(bench.view().check().unwrap(), []);
    assert!(bench.replayed() == bench.store);
}

#[test]
fn what_is_said_of_a_place_is_short_and_of_a_tape_at_rest() {
    let mut bench = Bench::new();
    let vid = bench.tapes[0];
    bench.ok(away(vid, Some(AwayKind::Exported), &"v".repeat(TapeAway::PLACE_MAX)));
    let too_long = "v".repeat(TapeAway::PLACE_MAX + 1);
    assert!(bench.rejected(away(vid, Some(AwayKind::Exported), &too_long)).contains("256 bytes"));
    assert!(bench.rejected(away(vid, None, "here")).contains("256 bytes"));
    bench.ok(away(vid, None, ""));
    bench.begin(0);
    assert!(bench.rejected(away(vid, Some(AwayKind::Exported), "")).contains("open run"));
    bench.ok(away(vid, None, ""));
}

/// The rule is that of a reclaim; what comes of it is no scratch tape, whatever is said but "add".
#[test]
fn a_retired_tape_is_not_used_again() {
    let mut bench = Bench::new();
    let (used, scratch) = (bench.tapes[0], vid("ZZZ001"));
    let file = bench.put("f", "content");
    let pack = bench.pack(&[file]);
    bench.write_to(0, pack);
    assert!(bench.rejected(Command::RetireTape { vid: used }).contains("active"));
    bench.ok(Command::SetTapeState { vid: used, state: TapeState::Full, reason: String::new() });
    assert!(bench.rejected(Command::RetireTape { vid: used }).contains("holds containers"));

    bench.ok(Command::RegisterTape { vid: scratch, capacity: ByteCount(1 << 40) });
    bench.ok(Command::RetireTape { vid: scratch });
    assert_eq!(tape(&bench, scratch).state, TapeState::Retired);
    for state in [TapeState::Scratch, TapeState::Active, TapeState::Disabled, TapeState::Suspect] {
        let reason = String::new();
        bench.rejected(Command::SetTapeState { vid: scratch, state, reason });
    }
    let (reason, cause, retry) = (String::new(), FailureCause::Cartridge, None);
    bench.rejected(Command::TapeFailed { vid: scratch, cause, wrote: true, reason, retry });
    let tape_pool = bench.pools[0];
    bench.rejected(Command::AssignTape { vid: scratch, tape_pool, uuid: Uuid([9; 16]) });
    // The library shows it, as every few seconds.
    bench.ok(Command::RegisterTape { vid: scratch, capacity: ByteCount(1 << 40) });
    assert_eq!(tape(&bench, scratch).state, TapeState::Retired);
    let reason = String::new();
    bench.rejected(Command::SetTapeState { vid: used, state: TapeState::Retired, reason });

    assert!(bench.rejected(Command::AddTape { vid: used }).contains("retired"));
    bench.ok(Command::AddTape { vid: scratch });
    bench.label(scratch, tape_pool);
    let uuid = tape(&bench, scratch).uuid;
    bench.ok(Command::SetTapeState { vid: scratch, state: TapeState::ReadOnly, reason: String::new() });
    bench.ok(away(scratch, Some(AwayKind::Exported), "shelf"));
    bench.ok(Command::RetireTape { vid: scratch });
    let record = tape(&bench, scratch);
    assert_eq!((record.replaces, record.uuid), (uuid, None), "which volume is on it is still known");
    assert!(record.away.is_some() && record.may_be_away());
    assert_eq!(bench.view().check().unwrap(), []);
    assert!(bench.replayed() == bench.store);
}
