//! Sessions that were open at the point of a restore: their tapes may have more than is known of them.
//!
//! Whatever drives are free close them, and what they hold decides on files. One whose tape has left the
//! library, or fails and is not tried again by itself, holds up nothing else: all the rest is looked at, the
//! restore stays unsettled, and it goes on when the tape is back.

use std::collections::BTreeSet;

use base::Vid;
use catalogue::TapeState;

use crate::progress::Question;
use crate::room::Settler;
use crate::stages::{ASK_LIBRARY_EVERY, LOOK_EVERY};
use crate::tapes;
use ground::ArchiveError;

/// Waits until they are closed whose tapes can be mounted. `false`: the server stops.
pub(crate) fn wait_for_sessions(settler: &Settler<'_>) -> Result<bool, ArchiveError> {
    loop {
        let open = open_sessions(settler)?;
        settler.room.look_at_inventory()?;
        let absent = absent(settler, &open)?;
        if settler.settling.set_absent(absent.clone()) {
            tracing::warn!(
                ?absent,
                "tapes with sessions that were open at the point of the restore cannot be mounted: all else \
                 is looked at meanwhile"
            );
        }
        if open.iter().all(|vid| absent.contains(vid)) || settler.stopping() {
            return Ok(!settler.stopping());
        }
        settler.settling.pause(LOOK_EVERY);
    }
}

/// Waits until one of the tapes can be mounted again, or its session is closed. `false`: there is none, or
/// the server stops.
pub(crate) fn wait_for_absent(settler: &Settler<'_>) -> bool {
    let before = settler.settling.absent();
    if before.is_empty() {
        return false;
    }
    while !settler.stopping() {
        let still = open_sessions(settler).and_then(|open| {
            settler.room.look_at_inventory()?;
            absent(settler, &open)
        });
        let back: Vec<Vid> = match &still {
            Ok(still) => before.difference(still).copied().collect(),
            Err(error) => {
                tracing::warn!(%error, "whether a tape is back is not known: it is asked again");
                Vec::new()
            }
        };
        if !back.is_empty() {
            back.into_iter().for_each(|vid| settler.room.post_tape(vid));
            settler.notifier.backlog_changed();
            return true;
        }
        settler.settling.pause(ASK_LIBRARY_EVERY);
    }
    false
}

/// The tapes with sessions of before the restore. That of a disabled tape is given up: who disabled it knows
/// that it is away, or not to be read.
fn open_sessions(settler: &Settler<'_>) -> Result<Vec<Vid>, ArchiveError> {
    let end = settler.read(|view| view.restored_from())?;
    let runs = settler.read(|view| view.open_runs())?;
    let mut open = Vec::new();
    for (_, run) in runs.into_iter().filter(|(run, _)| run.0 < end) {
        if settler.tape(run.vid)?.state == TapeState::Disabled {
            tapes::not_seen(settler, run.vid, Question::Content, "it is disabled")?;
        } else {
            open.push(run.vid);
        }
    }
    Ok(open)
}

/// Those that no drive will mount by itself: no library has them, or they failed too often.
fn absent(settler: &Settler<'_>, open: &[Vid]) -> Result<BTreeSet<Vid>, ArchiveError> {
    let mut absent = BTreeSet::new();
    for vid in open {
        let has_failed =
            settler.tape(*vid)?.state == TapeState::Suspect && !settler.room.is_to_be_tried(*vid);
        if !settler.libraries.holds(*vid) {
            settler.settling.went_away(*vid);
            absent.insert(*vid);
        } else if settler.settling.came_back(*vid) {
            // Its failures were that it was not there.
            settler.room.try_now(*vid);
        } else if has_failed {
            absent.insert(*vid);
        }
    }
    Ok(absent)
}
