//! Indexes that are written before their time since something waits for room in the pool: what tapes have may
//! leave it only under an index. The rule is [`session::IndexesForRoom`].

use std::collections::BTreeMap;
use std::sync::PoisonError;

use base::{BlockAddress, ByteCount, Vid};
use catalogue::{ReadError, Tally, View};
use session::IndexesForRoom;
use threads::{Mutex, MutexGuard};

use crate::room::Tape;
use ground::ArchiveError;

/// Containers of one tape without an index that are counted.
const CONTAINERS_MAX: usize = 10_000;

/// Whether something waits for room that no evict makes, and what was written for that.
#[derive(Default)]
pub(crate) struct RoomIndexes(Mutex<State>);

#[derive(Default)]
struct State {
    room_waits: bool,
    /// Of tapes in drives.
    written: BTreeMap<Vid, IndexesForRoom>,
}

impl RoomIndexes {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tape {
    /// A look whether files are to leave the pool has ended: whether something waits for room and too little
    /// may leave.
    pub(crate) fn note_room_waits(&self, room_waits: bool) {
        self.own.room_indexes.lock().room_waits = room_waits;
    }

    /// Whether something waits for room and too little may leave, as the last look found.
    pub(crate) fn room_waits(&self) -> bool {
        self.own.room_indexes.lock().room_waits
    }

    /// Has tapes in drives that lack an index write one, if something waits for room; each as often as the
    /// rule allows. Whether any lacks one, whoever waits.
    pub(crate) fn ask_for_indexes(&self) -> Result<bool, ArchiveError> {
        let without_index = self.read(|view| without_index(view, 1))?;
        if !self.room_waits() {
            return Ok(!without_index.is_empty());
        }
        for (vid, _) in &without_index {
            // What a session that was cut short left is closed by the next mount.
            let is_cut = self.maintenance().tapes.get(vid).is_some_and(|tasks| tasks.recover || tasks.index);
            if !is_cut {
                self.ask_for_index(*vid);
            }
        }
        Ok(!without_index.is_empty())
    }

    /// Whether a session that has flushed something is to write an index for it now, since something waits
    /// for room.
    pub(crate) fn room_waits_for_index(&self, vid: Vid) -> bool {
        let is_asked = self.maintenance().tapes.get(&vid).is_some_and(|tasks| tasks.index);
        is_asked || (self.room_waits() && self.ask_for_index(vid))
    }

    fn ask_for_index(&self, vid: Vid) -> bool {
        let may = self.own.room_indexes.lock().written.entry(vid).or_default().ask(self.now());
        if may {
            tracing::info!(%vid, "its index is written now: something waits for room in the pool");
            self.set_tasks(vid, |tasks| tasks.index = true);
        }
        may
    }

    /// The tape has its index, or is about to leave its drive.
    pub(crate) fn index_is_written(&self, vid: Vid) {
        let is_asked = self.maintenance().tapes.get(&vid).is_some_and(|tasks| tasks.index);
        if is_asked {
            self.set_tasks(vid, |tasks| tasks.index = false);
        }
    }

    /// The tape has left its drive.
    pub(crate) fn forget_room_indexes(&self, vid: Vid) {
        self.index_is_written(vid);
        self.own.room_indexes.lock().written.remove(&vid);
    }

    /// What stands on tapes in drives under no index, by tape, if something waits for room.
    pub(crate) fn room_waits_for(&self) -> Result<Vec<(Vid, Tally)>, ArchiveError> {
        // Who has just found none is heard with the next look.
        let told = self.leaving.pending();
        let is_told = told.put_refused.is_some() || told.recall_waits;
        if !is_told && !self.room_waits() {
            return Ok(Vec::new());
        }
        self.read(|view| without_index(view, CONTAINERS_MAX))
    }
}

/// Tapes with an open run, and what stands on each behind its newest index, of at most so many containers.
fn without_index(view: &View<'_>, most: usize) -> Result<Vec<(Vid, Tally)>, ReadError> {
    let mut found = Vec::new();
    for (vid, tape) in view.tapes()?.into_iter().filter(|(_, tape)| tape.run.is_some()) {
        let mut tally = Tally::default();
        for (_, id) in view.content(vid, BlockAddress(tape.index_block.0 + 1), most)? {
            let length = view.container(id)?.map_or(ByteCount(0), |container| container.length);
            tally.files += 1;
            tally.bytes.0 = tally.bytes.0.saturating_add(length.0);
        }
        if tally.files > 0 {
            found.push((vid, tally));
        }
    }
    Ok(found)
}
