//! The first start on a catalogue that was restored or rebuilt: what pool and tapes hold is compared with it
//! while the server answers.
//!
//! What a read gives is verified by the read. Until all was looked at, nothing that pool or tapes hold is
//! given up, and nothing is evicted ([`catalogue::View::is_restored`]). In this order:
//!
//! 1. Tapes that may be written are looked at by all drives at once, and shards of the pool that stand
//!    elsewhere are looked for. What the tapes hold is taken over. Only then is a tape written.
//! 2. Files are looked for in the pool; those that tapes alone have are NEARLINE. Only then is anything of
//!    the pool removed or mended.
//! 3. The labels of all other tapes that count are checked when drives have nothing better to do, those with
//!    the most data first; then, if files are missing, all other tapes are searched for them.
//! 4. Files that nothing has are LOST, and the catalogue counts as settled; but not while a disabled tape
//!    that may have them was not searched.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{DriveId, Duration, Vid};
use catalogue::{Command, Counter, TapeRecord};
use drive::ObjectDrive;

use crate::room::Tape;
use ground::Worker;
use ground::{ArchiveError, PoolDrive, SettlingStage};

mod found;
mod pool;
mod progress;
mod shards;
mod tapes;
mod torn;

pub use progress::Settling;
pub(crate) use tapes::{DRIVES_LOOK, SILENT_MAX, answer, could_not_mount, look_at_written};

use tapes::leave;

use progress::Question;
use shards::Shards;

/// After an error it is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// How often drives that look at tapes are looked after.
const LOOK_FOR_SILENCE_EVERY: Duration = Duration::from_millis(250);
/// How often it is looked whether torn sessions are closed.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the library is asked whether it still has a tape, or has it back.
const ASK_LIBRARY_EVERY: Duration = Duration::from_secs(2);

/// The drives of the pool as they were opened.
pub type Drives = BTreeMap<DriveId, Option<Arc<dyn ObjectDrive>>>;

/// What is to be known of the drives of the pool.
pub fn drives_of(drives: &[PoolDrive]) -> Drives {
    drives.iter().map(|(id, drive)| (*id, drive.clone())).collect()
}

/// Begins to settle a restored catalogue, if it is one that is not settled. Nothing may be running yet.
/// `down`: tape drives that an operator has taken out of use.
pub(crate) fn begin(engine: &Tape, down: &BTreeMap<String, String>) -> Result<bool, ArchiveError> {
    if !engine.read(|view| view.is_restored())? {
        return Ok(false);
    }
    ingest::give_up_restored(engine)?;
    let mut written = engine.read(|view| view.tapes())?;
    written.retain(|(_, tape)| tape.may_be_written());
    // What a session was writing decides most.
    written.sort_by_key(|(vid, tape)| (tape.run.is_none(), tape.generation.0 == 0, *vid));
    let written: Vec<(u16, Vid)> =
        written.iter().map(|(vid, _)| (engine.libraries.of_tape(*vid), *vid)).collect();
    let drives = engine.library.drives();
    let drives = drives.iter().filter(|drive| !down.contains_key(drive.as_str())).count();
    let files = engine.read(|view| {
        let classes = view.classes()?;
        classes.iter().map(|(id, _)| Ok(view.tally(Counter::Class(*id))?.files)).sum()
    })?;
    tracing::warn!(
        tapes = written.len(),
        drives,
        "the catalogue was restored: tapes that may be written are looked at before any is written; files \
         are answered for meanwhile, and nothing is evicted"
    );
    engine.settling.begin(engine.now(), files, &written, drives);
    ask_about(engine, Question::Label)?;
    if drives == 0 {
        leave(engine);
    }
    Ok(true)
}

/// The thread that settles a restore.
pub(crate) fn run(engine: &Tape, drives: &Drives, me: &Worker) {
    me.does("comparing");
    loop {
        // What waits for a stage goes on waiting while it fails.
        while let Err(error) = settle(engine, drives) {
            tracing::error!(%error, "the restored catalogue cannot be compared now: it is tried again");
            me.failed(&error);
            engine.settling.failing(error.to_string());
            engine.settling.pause(RETRY_AFTER);
        }
        if engine.stopping() {
            return;
        }
        let stage = match engine.read(|view| view.is_restored()) {
            Ok(false) => SettlingStage::Settled,
            _ => SettlingStage::Unsettled,
        };
        engine.settling.enter(engine.now(), stage);
        if stage == SettlingStage::Settled || !torn::wait_for_absent(engine) {
            return;
        }
        tracing::info!("a tape with an open session of before the restore is back: its comparison goes on");
        engine.settling.enter(engine.now(), SettlingStage::OtherTapes);
    }
}

fn settle(engine: &Tape, drives: &Drives) -> Result<(), ArchiveError> {
    if engine.stopping() {
        return Ok(());
    }
    let mut shards = Shards::find_moved(engine, drives)?;
    // Here and not by the conductor: it hears of nothing while what tapes hold is taken over.
    while engine.settling.stage() == Some(SettlingStage::WrittenTapes) && !engine.stopping() {
        engine.settling.pause(LOOK_FOR_SILENCE_EVERY);
        tapes::give_up_silent(engine);
    }
    if !engine.settling.wait_for_tapes() {
        return Ok(());
    }
    // What the tapes hold was taken over: what is neither there nor here is missing.
    let missing = pool::look_at_files(engine, &mut shards)?;
    if engine.stopping() {
        return Ok(());
    }
    // Before the stage ends in which all files are doubted.
    engine.settling.missing(&missing, false);
    engine.settling.enter(engine.now(), SettlingStage::OtherTapes);
    engine.bell.backlog_changed();
    if !look_at_tapes(engine) {
        return Ok(());
    }
    if !torn::wait_for_sessions(engine)? {
        return Ok(());
    }
    if !missing.is_empty() || engine.settling.has_lost_places() {
        engine.settling.enter(engine.now(), SettlingStage::Missing);
        ask_about(engine, Question::Content)?;
        if !look_at_tapes(engine) {
            return Ok(());
        }
    }
    // What could not be looked at may have them; of disabled tapes nothing more is to come by itself.
    let is_certain = engine.settling.all_unsearched().is_empty() && engine.settling.count_unseen() == 0;
    let left = pool::conclude_missing(engine, &mut shards, missing, is_certain)?;
    engine.settling.missing(&left, true);
    pool::look_at_containers(engine, &mut shards)?;
    if engine.stopping() {
        return Ok(());
    }
    engine.bell.backlog_changed();
    conclude(engine, shards, left.files().len())
}

/// All was looked at that can be: the restore is settled, unless something is left that may be decided
/// otherwise by what could not be. `left`: files that disabled tapes may have.
fn conclude(engine: &Tape, shards: Shards<'_>, left: usize) -> Result<(), ArchiveError> {
    let (unlisted, doubtful) = shards.unfound();
    if !unlisted.is_empty() {
        tracing::error!(
            ?unlisted,
            blobs = doubtful.len(),
            "drives of the pool are away since the restore, or cannot be listed, and may hold shards that \
             moved to them: nothing is decided about these, and nothing evicted, until a start has seen \
             the drives (kist pool drive replace, if they are gone for good)"
        );
        return Ok(());
    }
    let unseen = engine.settling.count_unseen();
    if unseen > 0 {
        tracing::error!(
            unseen,
            missing = left,
            "tapes could not be looked at since the restore: nothing is evicted, and what only they may have \
             is not staged, until a start has seen them, or they are disabled"
        );
        return Ok(());
    }
    if left > 0 {
        tracing::error!(
            files = left,
            unsearched = ?engine.settling.all_unsearched(),
            "neither the pool nor a tape that was searched has these files, and disabled tapes were not \
             searched: they are not LOST, and nothing is evicted, until a start has searched the tapes, or \
             the files are removed"
        );
        return Ok(());
    }
    engine.execute(Command::RestoreSettled)?;
    engine.sweep.ring();
    tracing::info!(
        "all tapes that count were looked at: what did not agree with the restored catalogue is told above"
    );
    Ok(())
}

/// What is to be found out about tapes that are not written. They are looked at when they are mounted, for
/// whatever reason, and by [`look_at_tapes`].
fn ask_about(engine: &Tape, question: Question) -> Result<(), ArchiveError> {
    let known = engine.settling.contents_known();
    let mut tapes = engine.read(|view| view.tapes())?;
    tapes.retain(|(vid, tape)| is_asked_about(&known, *vid, tape, question));
    // What holds most decides on most files.
    tapes.sort_by_key(|(vid, tape)| (std::cmp::Reverse(tape.committed), *vid));
    let (here, absent): (Vec<_>, Vec<_>) =
        tapes.into_iter().partition(|(vid, _)| engine.libraries.holds(*vid));
    for (vid, _) in absent {
        tapes::not_seen(engine, vid, question, "no library holds it")?;
    }
    let here = here.into_iter().map(|(vid, _)| (engine.libraries.of_tape(vid), vid));
    engine.settling.ask(question, here);
    Ok(())
}

/// Has the tapes looked at that are asked about, by whatever drives are free. `false`: the server stops.
fn look_at_tapes(engine: &Tape) -> bool {
    while let Some(next) = engine.settling.next_others() {
        if next.is_empty() {
            return true;
        }
        for vid in next {
            engine.chore(vid, |chores| chores.look = true);
        }
    }
    false
}

fn is_asked_about(known: &BTreeSet<Vid>, vid: Vid, tape: &TapeRecord, question: Question) -> bool {
    let counts = match question {
        Question::Label => tape.containers > 0 && !tape.may_be_written(),
        Question::Content => tape.run.is_none(),
    };
    counts && !known.contains(&vid)
}
