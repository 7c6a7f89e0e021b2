//! Cartridges and what may be done with them.

use base::{BlockAddress, ByteCount, FailureCause, TapeKey, Timestamp, Vid};

use super::reason;
use crate::command::{Command, Outcome};
use crate::draft::Draft;
use crate::encoding::Nothing;
use crate::error::{Object, Rejection};
use crate::key;
use crate::record::{AwayKind, BaseRecord, Rule, TapeAway, TapeHistory, TapeRecord, TapeState};
use crate::table::Table;

pub(super) fn perform(draft: &mut Draft<'_>, command: &Command) -> Result<Outcome, Rejection> {
    match command {
        Command::RegisterTape { vid, capacity } => register(draft, *vid, *capacity)?,
        Command::AssignTape { vid, tape_pool, uuid } => {
            if draft.view().get::<String>(Table::TapePool, &key::tape_pool(*tape_pool))?.is_none() {
                return Err(Rejection::NotFound(Object::TapePool(*tape_pool)));
            }
            update(draft, *vid, |tape| {
                need(*vid, tape, TapeState::Scratch)?;
                tape.state = TapeState::Labelling;
                tape.tape_pool = Some(*tape_pool);
                tape.uuid = Some(*uuid);
                Ok(())
            })?;
        }
        Command::TapeLabelled { vid, generation, index_block, end_of_data } => update(draft, *vid, |tape| {
            need(*vid, tape, TapeState::Labelling)?;
            if generation.0 == 0 || end_of_data <= index_block {
                let what = "a labelled tape has an index of generation 1 or more before its end of data";
                return Err(Rejection::Malformed { object: Object::Tape(*vid), what });
            }
            tape.state = TapeState::Active;
            tape.generation = *generation;
            tape.index_block = *index_block;
            tape.end_of_data = *end_of_data;
            tape.replaces = None;
            Ok(())
        })?,
        Command::ReclaimTape { vid } => reclaim(draft, *vid)?,
        Command::SetTapeAway { vid, kind, place } => set_away(draft, *vid, *kind, place)?,
        Command::SetTapeKey { vid, key } => set_key(draft, *vid, key.as_ref())?,
        Command::SetTapeCapacity { vid, capacity } => set_capacity(draft, *vid, *capacity)?,
        Command::SetKeyAtHand { key, at_hand } => set_key_at_hand(draft, key, *at_hand)?,
        Command::SetTapeLeaving { vid, leaving } => set_leaving(draft, *vid, *leaving)?,
        Command::RetireTape { vid } => retire(draft, *vid)?,
        Command::AddTape { vid } => update(draft, *vid, |tape| {
            need(*vid, tape, TapeState::Retired)?;
            tape.enter(TapeState::Scratch, String::new());
            Ok(())
        })?,
        Command::BaseOnTape { vid, change, parts, bytes } => {
            base_on_tape(draft, *vid, *change, *parts, *bytes)?;
        }
        Command::SetTapeState { vid, state, reason: why } => {
            update(draft, *vid, |tape| set_state(*vid, tape, *state, why))?;
        }
        Command::TapeFailed { vid, cause, wrote, reason: why, retry } => {
            let failure = Failure { cause: *cause, wrote: *wrote, reason: reason(why), retry: *retry };
            update(draft, *vid, |tape| failed(*vid, tape, failure))?;
        }
        Command::ForgetTapeFailures { vid, doubts } => forget_failures(draft, *vid, *doubts)?,
        Command::CountMount { vid } => update(draft, *vid, |tape| {
            tape.mounts = tape.mounts.saturating_add(1);
            Ok(())
        })?,
        _ => unreachable!("apply sends commands about tapes only"),
    }
    Ok(Outcome::Done)
}

fn register(draft: &mut Draft<'_>, vid: Vid, capacity: ByteCount) -> Result<(), Rejection> {
    if let Some(tape) = draft.view().tape(vid)? {
        // A library could not identify it before, and can now.
        if tape.capacity.0 == 0 && capacity.0 > 0 {
            draft.put(Table::Tape, key::tape(vid), &TapeRecord { capacity, ..tape });
        }
        return Ok(());
    }
    draft.put(Table::Tape, key::tape(vid), &TapeRecord::scratch(capacity));
    Ok(())
}

fn set_capacity(draft: &mut Draft<'_>, vid: Vid, capacity: ByteCount) -> Result<(), Rejection> {
    let tape = find(draft, vid)?;
    if capacity.0 == 0 {
        let what = "the capacity of a tape is more than 0";
        return Err(Rejection::Malformed { object: Object::Tape(vid), what });
    }
    if tape.state == TapeState::Retired {
        let needed = "in use, for its capacity to be known";
        return Err(Rejection::WrongState { object: Object::Tape(vid), state: word(tape.state), needed });
    }
    draft.put(Table::Tape, key::tape(vid), &TapeRecord { capacity, ..tape });
    Ok(())
}

fn reclaim(draft: &mut Draft<'_>, vid: Vid) -> Result<(), Rejection> {
    let tape = find(draft, vid)?;
    let is_aside = matches!(
        tape.state,
        TapeState::Repacking
            | TapeState::Full
            | TapeState::ReadOnly
            | TapeState::Suspect
            | TapeState::Disabled
    );
    if tape.generation.0 == 0 || !is_aside {
        let needed = "labelled, and repacking, full, read-only, suspect or disabled, to be reclaimed";
        return Err(Rejection::WrongState { object: Object::Tape(vid), state: word(tape.state), needed });
    }
    empty(draft, vid, tape, TapeState::Scratch)
}

/// Takes a tape out of use for ever: one that a reclaim would make scratch, or that was never labelled.
fn retire(draft: &mut Draft<'_>, vid: Vid) -> Result<(), Rejection> {
    let tape = find(draft, vid)?;
    let is_blank = tape.generation.0 == 0
        && matches!(tape.state, TapeState::Scratch | TapeState::Suspect | TapeState::Disabled);
    let is_aside = tape.generation.0 > 0 && tape.state != TapeState::Active;
    if !is_blank && !is_aside {
        let needed = "scratch, or repacking, full, read-only, suspect or disabled, to be retired";
        return Err(Rejection::WrongState { object: Object::Tape(vid), state: word(tape.state), needed });
    }
    empty(draft, vid, tape, TapeState::Retired)
}

/// A tape of which nothing is needed becomes scratch, or is retired.
fn empty(draft: &mut Draft<'_>, vid: Vid, tape: TapeRecord, state: TapeState) -> Result<(), Rejection> {
    assert!(matches!(state, TapeState::Scratch | TapeState::Retired), "{vid} holds nothing then");
    let refuse = |state, needed| Err(Rejection::WrongState { object: Object::Tape(vid), state, needed });
    if tape.run.is_some() {
        return refuse("in a run", "without an open run to be reclaimed or retired");
    }
    if !draft.view().content(vid, BlockAddress(0), 1)?.is_empty() {
        return refuse("in use: it holds containers", "empty to be reclaimed or retired: repack it first");
    }
    forget_segments(draft, vid)?;
    let TapeRecord { capacity, mounts, uuid, replaces, away, .. } = tape;
    // One that was assigned and never labelled has the volume of before on it.
    let replaces = if tape.generation.0 > 0 { uuid } else { replaces };
    let emptied = TapeRecord { state, mounts, replaces, away, ..TapeRecord::scratch(capacity) };
    draft.put(Table::Tape, key::tape(vid), &emptied);
    Ok(())
}

fn set_away(draft: &mut Draft<'_>, vid: Vid, kind: Option<AwayKind>, place: &str) -> Result<(), Rejection> {
    let object = Object::Tape(vid);
    if place.len() > TapeAway::PLACE_MAX || kind.is_none() && !place.is_empty() {
        let what = "where a tape is kept is told in at most 256 bytes, and only of one that is away";
        return Err(Rejection::Malformed { object, what });
    }
    let tape = find(draft, vid)?;
    if tape.run.is_some() && kind.is_some() {
        let needed = "without an open run to be away";
        return Err(Rejection::WrongState { object, state: "in a run", needed });
    }
    let known = tape.away.as_ref().map(|away| (away.kind, away.place.as_str()));
    if known != kind.map(|kind| (kind, place)) {
        let away = kind.map(|kind| TapeAway { kind, place: place.to_owned(), since: draft.at });
        draft.put(Table::Tape, key::tape(vid), &TapeRecord { away, ..tape });
    }
    Ok(())
}

fn set_key_at_hand(draft: &mut Draft<'_>, tape_key: &TapeKey, at_hand: bool) -> Result<(), Rejection> {
    let key = key::tape_key(tape_key);
    match (draft.view().has(Table::KeyAtHand, &key)?, at_hand) {
        (false, true) => draft.put(Table::KeyAtHand, key, &Nothing),
        (true, false) => draft.remove(Table::KeyAtHand, key),
        _ => {}
    }
    Ok(())
}

fn set_leaving(draft: &mut Draft<'_>, vid: Vid, leaving: bool) -> Result<(), Rejection> {
    find(draft, vid)?;
    let key = key::tape(vid);
    match (draft.view().has(Table::TapeLeaving, &key)?, leaving) {
        (false, true) => draft.put(Table::TapeLeaving, key, &Nothing),
        (true, false) => draft.remove(Table::TapeLeaving, key),
        _ => {}
    }
    Ok(())
}

/// The key of a volume never changes: only a labelling gives it another one.
fn set_key(draft: &mut Draft<'_>, vid: Vid, key: Option<&TapeKey>) -> Result<(), Rejection> {
    let tape = find(draft, vid)?;
    let is_found = tape.generation.0 > 0 && tape.key.is_none();
    if tape.key.as_ref() == key {
        return Ok(());
    }
    if tape.state != TapeState::Labelling && !is_found {
        let needed = "being labelled, or labelled with no key known, to be given a key";
        return Err(Rejection::WrongState { object: Object::Tape(vid), state: word(tape.state), needed });
    }
    if let Some(key) = key.filter(|_| tape.state == TapeState::Labelling) {
        need_one_key_of_id(draft, vid, key)?;
    }
    draft.put(Table::Tape, key::tape(vid), &TapeRecord { key: key.cloned(), ..tape });
    Ok(())
}

/// Two tapes that are labelled at the same time may have been given two keys of one id. What a labelled tape
/// is found to have is not asked about: it has it.
fn need_one_key_of_id(draft: &Draft<'_>, vid: Vid, key: &TapeKey) -> Result<(), Rejection> {
    if !draft.view().holds(Rule::OneKeyOfAnId)? {
        return Ok(());
    }
    let has_another = |tape: &TapeRecord| {
        let is_meant = tape.generation.0 > 0 || tape.state == TapeState::Labelling;
        is_meant && tape.key.as_ref().is_some_and(|known| known.id == key.id && known.check != key.check)
    };
    if draft.view().tapes()?.iter().any(|(other, tape)| *other != vid && has_another(tape)) {
        let state = "to get a key that differs from another tape's under its id";
        let needed = "given the same key, or another id";
        return Err(Rejection::WrongState { object: Object::Tape(vid), state, needed });
    }
    Ok(())
}

/// Forgets which changes and bases stood on a tape: its volume is gone, or is about to be.
pub(super) fn forget_segments(draft: &mut Draft<'_>, vid: Vid) -> Result<(), Rejection> {
    for (first, _) in draft.view().segments(vid)? {
        draft.remove(Table::Segment, key::segment(vid, first));
    }
    for (change, _) in draft.view().bases(vid)? {
        draft.remove(Table::Base, key::base(vid, change));
    }
    assert!(draft.view().segments(vid)?.is_empty(), "no change is looked for on a volume that is gone");
    assert!(draft.view().bases(vid)?.is_empty(), "and no base");
    Ok(())
}

/// Records a base, or that one is not there any more. What is known already changes nothing.
fn base_on_tape(
    draft: &mut Draft<'_>,
    vid: Vid,
    change: u64,
    parts: u32,
    bytes: ByteCount,
) -> Result<(), Rejection> {
    let tape = find(draft, vid)?;
    let key = key::base(vid, change);
    let known: Option<BaseRecord> = draft.view().get(Table::Base, &key)?;
    if parts == 0 {
        if known.is_some() {
            draft.remove(Table::Base, key);
        }
        return Ok(());
    }
    let object = Object::Change(change);
    if tape.generation.0 == 0 {
        let needed = "labelled, with an index that names the base";
        return Err(Rejection::WrongState { object: Object::Tape(vid), state: word(tape.state), needed });
    }
    if change == 0 || change >= draft.meta()?.next_change {
        return Err(Rejection::Malformed { object, what: "the base ends with a change that was not made" });
    }
    if known.is_none_or(|known| (known.parts, known.bytes) != (parts, bytes)) {
        draft.put(Table::Base, key, &BaseRecord { parts, bytes, written: draft.at });
    }
    Ok(())
}

pub(super) fn find(draft: &Draft<'_>, vid: Vid) -> Result<TapeRecord, Rejection> {
    draft.view().tape(vid)?.ok_or(Rejection::NotFound(Object::Tape(vid)))
}

fn update(
    draft: &mut Draft<'_>,
    vid: Vid,
    change: impl FnOnce(&mut TapeRecord) -> Result<(), Rejection>,
) -> Result<(), Rejection> {
    let mut tape = find(draft, vid)?;
    let before = tape.clone();
    change(&mut tape)?;
    assert!(tape.end_of_data >= before.end_of_data, "the end of data of {vid} only grows");
    assert!(tape.generation >= before.generation, "so does the generation of its index");
    let holds = |tape: &TapeRecord| (tape.containers, tape.committed, tape.run);
    assert_eq!(holds(&tape), holds(&before), "only a run changes what {vid} holds");
    assert!(before.generation.0 == 0 || tape.uuid == before.uuid, "a labelled volume stays the same one");
    draft.put(Table::Tape, key::tape(vid), &tape);
    Ok(())
}

fn word(state: TapeState) -> &'static str {
    match state {
        TapeState::Labelling => "being labelled",
        state => state.word(),
    }
}

pub(super) fn need(vid: Vid, tape: &TapeRecord, needed: TapeState) -> Result<(), Rejection> {
    if tape.state == needed {
        return Ok(());
    }
    Err(Rejection::WrongState { object: Object::Tape(vid), state: word(tape.state), needed: word(needed) })
}

/// Refuses a tape that containers may be written to, or that holds some which are to leave it.
pub(super) fn need_written_out(vid: Vid, tape: &TapeRecord) -> Result<(), Rejection> {
    let needed = "full, or repacking and without containers";
    match tape.state {
        TapeState::Full => Ok(()),
        TapeState::Repacking if tape.containers == 0 => Ok(()),
        state => Err(Rejection::WrongState { object: Object::Tape(vid), state: word(state), needed }),
    }
}

fn can_be_repacked(state: TapeState) -> bool {
    matches!(
        state,
        TapeState::Active | TapeState::Full | TapeState::ReadOnly | TapeState::Suspect | TapeState::Repacking
    )
}

fn set_state(vid: Vid, tape: &mut TapeRecord, state: TapeState, why: &str) -> Result<(), Rejection> {
    let refuse =
        |needed| Err(Rejection::WrongState { object: Object::Tape(vid), state: word(tape.state), needed });
    let is_labelled = tape.generation.0 > 0;
    let is_aside = matches!(
        tape.state,
        TapeState::Full | TapeState::ReadOnly | TapeState::Suspect | TapeState::Disabled
    );
    if tape.state == TapeState::Retired {
        return refuse("not retired: kist tape add takes it in again");
    }
    match state {
        TapeState::Retired => return refuse("retired by a command of its own"),
        TapeState::Active if !(is_labelled && (is_aside || tape.state == TapeState::Repacking)) => {
            return refuse("full, read-only, suspect, disabled or repacking, and labelled, to become active");
        }
        TapeState::Repacking if !is_labelled || !can_be_repacked(tape.state) => {
            return refuse("active, full, read-only or suspect, and labelled, to be repacked");
        }
        TapeState::Scratch if is_labelled || !is_aside => {
            return refuse("suspect or disabled, and not labelled, to become scratch");
        }
        TapeState::Labelling if is_labelled || !is_aside || tape.uuid.is_none() => {
            return refuse("suspect or disabled, and assigned but not labelled, to be labelled after all");
        }
        TapeState::Full | TapeState::ReadOnly if !is_labelled => {
            return refuse("labelled to become full or read-only");
        }
        TapeState::Scratch => {
            tape.tape_pool = None;
            tape.uuid = None;
            tape.key = None;
        }
        TapeState::Labelling
        | TapeState::Active
        | TapeState::Full
        | TapeState::ReadOnly
        | TapeState::Suspect
        | TapeState::Disabled
        | TapeState::Repacking => {}
    }
    tape.enter(state, reason(why));
    Ok(())
}

fn forget_failures(draft: &mut Draft<'_>, vid: Vid, doubts: bool) -> Result<(), Rejection> {
    let tape = find(draft, vid)?;
    let stays = tape.state == TapeState::ReadOnly && !doubts;
    let history = tape.history.filter(|_| stays).map(|known| TapeHistory { failures: 0, ..known });
    if history != tape.history {
        draft.put(Table::Tape, key::tape(vid), &TapeRecord { history, ..tape });
    }
    Ok(())
}

struct Failure {
    cause: FailureCause,
    wrote: bool,
    reason: String,
    retry: Option<Timestamp>,
}

/// Sets a tape aside, and keeps what it was.
fn failed(vid: Vid, tape: &mut TapeRecord, failure: Failure) -> Result<(), Rejection> {
    let refuse = |needed| {
        let (object, state) = (Object::Tape(vid), word(tape.state));
        Err(Rejection::WrongState { object, state, needed })
    };
    match tape.state {
        TapeState::Disabled => return refuse("not disabled to become suspect"),
        TapeState::Retired => return refuse("not retired to become suspect"),
        _ => {}
    }
    let before = tape.before_failure().unwrap_or(tape.state);
    let wrote_before = tape.state == TapeState::Suspect && tape.history.is_some_and(|known| known.wrote);
    let wrote = failure.wrote || wrote_before;
    assert!(!matches!(before, TapeState::Suspect | TapeState::Disabled), "what {vid} was is no use");
    let failures = tape.history.map_or(0, |history| history.failures).saturating_add(1);
    tape.enter(TapeState::Suspect, failure.reason);
    tape.history = Some(TapeHistory { before, wrote, failures, retry: failure.retry, cause: failure.cause });
    assert_eq!(tape.before_failure(), Some(before), "what {vid} was is known until it is used again");
    assert!(tape.state.is_set_aside(), "nothing is written to {vid} meanwhile");
    Ok(())
}
