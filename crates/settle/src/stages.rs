//! The order in which a restored catalogue is compared with pool and tapes.
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

use base::{Duration, Vid};
use catalogue::{Command, Counter, TapeRecord};

use crate::progress::Question;
use crate::room::Settler;
use crate::shards::Shards;
use crate::tapes::leave;
use crate::{pool, tapes, torn};
use ground::Worker;
use ground::{ArchiveError, SettlingStage};

/// After an error it is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// How often drives that look at tapes are looked after.
const LOOK_FOR_SILENCE_EVERY: Duration = Duration::from_millis(250);
/// How often it is looked whether torn sessions are closed.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often the library is asked whether it still has a tape, or has it back.
pub(crate) const ASK_LIBRARY_EVERY: Duration = Duration::from_secs(2);

impl Settler<'_> {
    /// Begins to settle a restored catalogue, if it is one that is not settled. Nothing may be running yet.
    /// `down`: tape drives that an operator has taken out of use. Gives whether there is anything to settle.
    ///
    /// # Errors
    /// If the catalogue cannot be read, or what it says of uploads not be given up.
    pub fn begin(&self, down: &BTreeMap<String, String>) -> Result<bool, ArchiveError> {
        if !self.read(|view| view.is_restored())? {
            return Ok(false);
        }
        ingest::give_up_restored(self)?;
        let mut written = self.read(|view| view.tapes())?;
        written.retain(|(_, tape)| tape.may_be_written());
        // What a session was writing decides most.
        written.sort_by_key(|(vid, tape)| (tape.run.is_none(), tape.generation.0 == 0, *vid));
        let written: Vec<(u16, Vid)> =
            written.iter().map(|(vid, _)| (self.libraries.of_tape(*vid), *vid)).collect();
        let drives = self.library.drives();
        let drives = drives.iter().filter(|drive| !down.contains_key(drive.as_str())).count();
        let files = self.read(|view| {
            let classes = view.classes()?;
            classes.iter().map(|(id, _)| Ok(view.tally(Counter::Class(*id))?.files)).sum()
        })?;
        tracing::warn!(
            tapes = written.len(),
            drives,
            "the catalogue was restored: tapes that may be written are looked at before any is written; \
             files are answered for meanwhile, and nothing is evicted"
        );
        self.settling.begin(self.now(), files, &written, drives);
        ask_about(self, Question::Label)?;
        if drives == 0 {
            leave(self);
        }
        Ok(true)
    }

    /// The thread that settles a restore.
    pub fn run(&self, me: &Worker) {
        me.does("comparing");
        loop {
            // What waits for a stage goes on waiting while it fails.
            while let Err(error) = settle(self) {
                tracing::error!(%error, "the restored catalogue cannot be compared now: it is tried again");
                me.failed(&error);
                self.settling.failing(error.to_string());
                self.settling.pause(RETRY_AFTER);
            }
            if self.stopping() {
                return;
            }
            let stage = match self.read(|view| view.is_restored()) {
                Ok(false) => SettlingStage::Settled,
                _ => SettlingStage::Unsettled,
            };
            self.settling.enter(self.now(), stage);
            if stage == SettlingStage::Settled || !torn::wait_for_absent(self) {
                return;
            }
            tracing::info!(
                "a tape with an open session of before the restore is back: its comparison goes on"
            );
            self.settling.enter(self.now(), SettlingStage::OtherTapes);
        }
    }
}

fn settle(settler: &Settler<'_>) -> Result<(), ArchiveError> {
    if settler.stopping() {
        return Ok(());
    }
    let mut shards = Shards::find_moved(settler)?;
    // Here and not by the conductor: it hears of nothing while what tapes hold is taken over.
    while settler.settling.stage() == Some(SettlingStage::WrittenTapes) && !settler.stopping() {
        settler.settling.pause(LOOK_FOR_SILENCE_EVERY);
        tapes::give_up_silent(settler);
    }
    if !settler.settling.wait_for_tapes() {
        return Ok(());
    }
    // What the tapes hold was taken over: what is neither there nor here is missing.
    let missing = pool::look_at_files(settler, &mut shards)?;
    if settler.stopping() {
        return Ok(());
    }
    // Before the stage ends in which all files are doubted.
    settler.settling.missing(&missing, false);
    settler.settling.enter(settler.now(), SettlingStage::OtherTapes);
    settler.notifier.backlog_changed();
    if !look_at_tapes(settler) {
        return Ok(());
    }
    if !torn::wait_for_sessions(settler)? {
        return Ok(());
    }
    if !missing.is_empty() || settler.settling.has_lost_places() {
        settler.settling.enter(settler.now(), SettlingStage::Missing);
        ask_about(settler, Question::Content)?;
        if !look_at_tapes(settler) {
            return Ok(());
        }
    }
    // What could not be looked at may have them; of disabled tapes nothing more is to come by itself.
    let is_certain = settler.settling.all_unsearched().is_empty() && settler.settling.count_unseen() == 0;
    let left = pool::conclude_missing(settler, &mut shards, missing, is_certain)?;
    settler.settling.missing(&left, true);
    pool::look_at_containers(settler, &mut shards)?;
    if settler.stopping() {
        return Ok(());
    }
    settler.notifier.backlog_changed();
    conclude(settler, shards, left.files().len())
}

/// All was looked at that can be: the restore is settled, unless something is left that may be decided
/// otherwise by what could not be. `left`: files that disabled tapes may have.
fn conclude(settler: &Settler<'_>, shards: Shards<'_>, left: usize) -> Result<(), ArchiveError> {
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
    let unseen = settler.settling.count_unseen();
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
            unsearched = ?settler.settling.all_unsearched(),
            "neither the pool nor a tape that was searched has these files, and disabled tapes were not \
             searched: they are not LOST, and nothing is evicted, until a start has searched the tapes, or \
             the files are removed"
        );
        return Ok(());
    }
    settler.execute(Command::RestoreSettled)?;
    settler.sweep.ring();
    tracing::info!(
        "all tapes that count were looked at: what did not agree with the restored catalogue is told above"
    );
    Ok(())
}

/// What is to be found out about tapes that are not written. They are looked at when they are mounted, for
/// whatever reason, and by [`look_at_tapes`].
fn ask_about(settler: &Settler<'_>, question: Question) -> Result<(), ArchiveError> {
    let known = settler.settling.contents_known();
    let mut tapes = settler.read(|view| view.tapes())?;
    tapes.retain(|(vid, tape)| is_asked_about(&known, *vid, tape, question));
    // What holds most decides on most files.
    tapes.sort_by_key(|(vid, tape)| (std::cmp::Reverse(tape.committed), *vid));
    let (here, absent): (Vec<_>, Vec<_>) =
        tapes.into_iter().partition(|(vid, _)| settler.libraries.holds(*vid));
    for (vid, _) in absent {
        tapes::not_seen(settler, vid, question, "no library holds it")?;
    }
    let here = here.into_iter().map(|(vid, _)| (settler.libraries.of_tape(vid), vid));
    settler.settling.ask(question, here);
    Ok(())
}

/// Has the tapes looked at that are asked about, by whatever drives are free. `false`: the server stops.
fn look_at_tapes(settler: &Settler<'_>) -> bool {
    while let Some(next) = settler.settling.next_others() {
        if next.is_empty() {
            return true;
        }
        for vid in next {
            settler.room.set_look(vid, true);
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
