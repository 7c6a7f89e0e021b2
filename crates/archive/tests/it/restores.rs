//! Restores to a point before files went to tape, drives were replaced, tapes were labelled: what any medium
//! still holds is found, wherever it stands now.

use crate::common::{Instance, bytes, migrate_all, put};
use crate::histories::run;
use crate::history::{Contents, evict_all, facts, first_part, recall_and_compare, second_part};
use crate::restoring::{
    at_rest, back_to, check, go_back_before_drives_were_replaced, go_back_before_values_were_punched,
    go_back_while_drives_are_away, open, shipped,
};
use base::ByteCount;

/// Histories unless `KIST_RESTORES` says otherwise; each is restored five times.
const HISTORIES: u64 = 2;

/// At the point small files wait to be sealed and large ones to be written, all tapes are scratch. Afterwards
/// all goes to tape and out of the pool.
#[test]
fn what_was_migrated_and_evicted_since_is_found_on_tape() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    let contents = first_part(&archive);
    let before = facts(&archive);
    let point = shipped(&archive);
    migrate_all(&archive);
    evict_all(&archive);
    let archive = back_to(&instance, archive, point);
    assert_eq!(facts(&archive), before);
    check(&archive);
    recall_and_compare(&archive, &contents);
    // It goes on: what is new goes to tape, and all can be evicted again.
    put(&archive, "/new", &bytes(77, 200_000));
    migrate_all(&archive);
    evict_all(&archive);
    recall_and_compare(&archive, &contents);
    check(&archive);
    archive.close();
}

/// At the point the tapes hold a part of the files already, and go on with others afterwards. Twice: the
/// second restore meets what the first one has made.
#[test]
fn tapes_that_were_written_on_since_are_read_to_their_end() {
    let instance = Instance::with(ByteCount::mib(256), at_rest);
    let archive = open(&instance);
    let mut contents = first_part(&archive);
    migrate_all(&archive);
    let first = shipped(&archive);
    let at_first = (facts(&archive), contents.clone());
    second_part(&archive, &mut contents);
    let second = shipped(&archive);
    let at_second = (facts(&archive), contents.clone());
    migrate_all(&archive);
    evict_all(&archive);
    let mut archive = back_to(&instance, archive, second);
    for (at, point) in [(&at_second, None), (&at_first, Some(first)), (&at_second, Some(second))] {
        if let Some(point) = point {
            archive = back_to(&instance, archive, point);
        }
        let (facts_then, contents): &(_, Contents) = at;
        assert_eq!(&facts(&archive), facts_then);
        check(&archive);
        recall_and_compare(&archive, contents);
    }
    archive.close();
}

#[test]
fn shards_that_moved_since_are_found_on_their_drives() {
    go_back_before_drives_were_replaced();
}

#[test]
fn shards_on_a_drive_that_is_away_are_waited_for() {
    go_back_while_drives_are_away();
}

#[test]
fn values_that_were_punched_since_are_found_on_tape() {
    go_back_before_values_were_punched();
}

#[test]
fn what_any_medium_holds_is_there_after_every_restore() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let counts = run(number("KIST_RESTORES").unwrap_or(HISTORIES), number("KIST_RESTORES_SEED").unwrap_or(0));
    let restores = counts.happened["restores"];
    println!("{:?}", counts.happened);
    let looked = &counts.looked;
    println!(
        "{restores} restores: {} files and {} versions looked for, {} and {} gone from all media, 0 lost \
         that a medium holds, {} holds stand again, {} expired and {} moved by rules",
        counts.files, looked.versions, counts.gone, looked.gone, looked.holds, looked.expired, looked.moved
    );
    assert!(counts.files > 10 * restores, "{} files in {restores} restores", counts.files);
}
