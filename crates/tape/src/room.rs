//! What all parts of the tape room share.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError};
use threads::{Mutex, MutexGuard};

use backup::BackupReach;
use base::{ByteCount, ClassId, ContainerId, FileId, LibraryId, TapeKey, Timestamp, Vid};
use blob::BlobStore;
use catalogue::{Command, MemberRecord, ReadError, RecallKey, TapeRecord, TapeState, View};
use journal::OrderRecord;
use library::Library;
use ltfs::BlockSize;
use scheduler::{DriveName, Event, Reason, Scheduler, TapeSummary};
use session::Affinity;
use store::Term;

use crate::awaited::AwaitedFiles;
use crate::maintenance::Maintenance;
use crate::reasons::Waiting;
use crate::resting::Resting;
use crate::space::Space;
use crate::tape_retries::TapeRetries;
use ground::{ArchiveError, Classes, Ground, Upward, summary, truncated};
use namespace::Namespace;
use upkeep::Upkeep;

pub(crate) use ground::{largest_container, reserve, room_left};

/// The tapes of one instance: the scheduler, what drives do, and all that waits for them. It stands on the
/// [`Ground`], all of which it has as its own.
pub struct Tape {
    pub(crate) ground: Arc<Ground>,
    pub(crate) random_uuid: Arc<dyn Fn() -> Option<base::Uuid> + Send + Sync>,
    pub(crate) library: Arc<dyn Library>,
    /// Where whole containers and recalled files come to rest.
    pub(crate) blobs: Arc<dyn BlobStore>,
    pub(crate) scheduler: Mutex<Scheduler>,
    /// What it knows beside the catalogue as its only writer.
    pub(crate) own: OfTerm,
    /// When what it is told of will be done.
    pub(crate) foresight: crate::foresight::Foresight,
    /// Whether the sealer was told of packs that no tape takes.
    pub(crate) dissolving: AtomicBool,
    /// Held while a drive is taken out of use or given back: the catalogue and the scheduler hear the same
    /// last word.
    pub(crate) ordering: Mutex<()>,
    /// Counts what was asked for from tape, so that reading sessions notice that more is wanted.
    pub(crate) recall_arrivals: AtomicU64,
    /// See [`Tape::tape_states`].
    pub(crate) tape_states: Mutex<()>,
    /// Tapes that failed, and when they are tried again.
    pub(crate) tape_retries: TapeRetries,
    /// What waits for a key.
    pub(crate) keys_missing: crate::keys::KeysMissing,
    /// What each drive does, for displays.
    pub(crate) sessions: Mutex<BTreeMap<DriveName, Arc<Session>>>,
    /// What is remembered of mounts, for reports.
    pub(crate) mounts: Arc<mounts::Mounts>,
    /// What the locates of each drive say of it.
    pub(crate) fits: crate::fits::KnownFits,
    /// How far the thread is that hears of cartridges that come and go.
    pub(crate) inventory: crate::inventory::Inventory,
    pub(crate) namespace: Arc<Namespace>,
    pub(crate) upkeep: Arc<Upkeep>,
    /// How far the backup of the catalogue has its log of changes.
    pub(crate) backup_reach: Arc<BackupReach>,
    /// What leaves the pool by itself.
    pub(crate) evictor: crate::evictor::Evictor,
    /// Bases of the catalogue that are to be written to tapes.
    pub(crate) bases: crate::bases::Bases,
    /// How far a restored catalogue was compared with pool and tapes.
    pub(crate) settling: Arc<settle::Settling>,
    pub(crate) seal_failures: crate::seal::SealFailures,
    /// Requests that nobody heard of and that could not be removed yet. The next start removes them too.
    pub(crate) submissions_left: Mutex<Vec<base::RequestId>>,
}

/// What this process keeps beside the catalogue, and what is right only while no other process writes it: two
/// that plan would write a container twice, claim the same room, or forget each other's work. It belongs to
/// the [`Term`] of the change log that the writer of this catalogue has, and ends with it: nothing of it is
/// in the tables, and whoever takes the log over builds it anew from these, as each start does. What was
/// planned under a term that is over does no harm, since its commands are refused ([`store::ChangeLog`]).
pub(crate) struct OfTerm {
    /// Whose it is.
    pub(crate) term: Term,
    /// Held while containers are taken from a queue into a run, so that two drives never plan the same one.
    /// Where data sets are written stands in it.
    pub(crate) planning: Mutex<Affinity>,
    /// Room that recalls have claimed.
    pub(crate) space: Space,
    /// Work on tapes that nobody waits for.
    pub(crate) maintenance: Mutex<Maintenance>,
    /// Files that wait for what that puts together.
    pub(crate) awaited: Arc<AwaitedFiles>,
    /// What was asked to migrate without waiting.
    pub(crate) haste: Mutex<session::Haste>,
    /// Containers whose bytes could not be had, until when they are left alone, and why.
    pub(crate) resting: Resting,
    /// Files that are larger than a tape and could not be sealed: trying means to read them.
    pub(crate) files_resting: crate::seal::RestingFiles,
    /// Indexes that are written since something waits for room in the pool.
    pub(crate) room_indexes: crate::room_indexes::RoomIndexes,
    /// Tapes on which nothing fits that waits for their pool.
    pub(crate) too_small: Mutex<crate::too_small::TooSmall>,
}

impl OfTerm {
    /// Nothing is planned, claimed or known yet.
    pub(crate) fn begin(term: Term) -> Self {
        let awaited = Arc::<AwaitedFiles>::default();
        OfTerm {
            term,
            planning: Mutex::default(),
            space: Space::default(),
            maintenance: Mutex::new(Maintenance::begin(Arc::clone(&awaited))),
            awaited,
            haste: Mutex::default(),
            resting: Resting::default(),
            files_resting: crate::seal::RestingFiles::default(),
            room_indexes: crate::room_indexes::RoomIndexes::default(),
            too_small: Mutex::default(),
        }
    }
}

/// What a drive does at present; counters are read while it works.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(crate) began: Mutex<Option<Timestamp>>,
    /// Files that were moved; while a container is being written, also those of it whose bytes are on tape.
    pub(crate) files: AtomicU64,
    /// Containers that were written or read back, files that were recalled: what the mount log counts.
    pub(crate) items: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// What the drive did in the last session that is over.
    pub(crate) motion: Mutex<Option<ground::TapeMotionInfo>>,
    /// What came of asking the drive for its order; `None` if it was not asked, or has none.
    pub(crate) orders: Mutex<Option<OrderRecord>>,
}

impl Deref for Tape {
    type Target = Ground;

    fn deref(&self) -> &Ground {
        &self.ground
    }
}

impl Upward for Tape {
    fn recall_of(&self, file: FileId) -> Option<Reason> {
        self.reason(Waiting::Recall(file)).ok().flatten()
    }

    fn wait_again(&self, class: ClassId, since: Timestamp) -> Result<(), ArchiveError> {
        Tape::wait_again(self, class, since)
    }

    fn ask_for_keys(&self, keys: &BTreeSet<TapeKey>) -> Result<(), ArchiveError> {
        self.ask_for_relied_on(keys)
    }
}

impl Tape {
    pub(crate) fn scheduler(&self) -> MutexGuard<'_, Scheduler> {
        self.scheduler.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to take containers from queues into runs.
    pub(crate) fn planning(&self) -> MutexGuard<'_, Affinity> {
        assert_eq!(self.own.term, self.catalogue.term(), "who plans is the one that writes");
        self.own.planning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A tape of the catalogue.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchTape`]; [`ArchiveError::TapeNotSeen`] while a library that was not reached yet
    /// may hold it.
    pub(crate) fn tape(&self, vid: Vid) -> Result<TapeRecord, ArchiveError> {
        self.ground.tape(vid).map_err(|error| match error {
            ArchiveError::NoSuchTape(vid) => self.no_such_tape(vid),
            error => error,
        })
    }

    /// What is told of a tape that the catalogue does not know.
    pub(crate) fn no_such_tape(&self, vid: Vid) -> ArchiveError {
        match self.unreached() {
            unreached if unreached.is_empty() => ArchiveError::NoSuchTape(vid),
            unreached => ArchiveError::TapeNotSeen { vid, unreached },
        }
    }

    /// Tells the scheduler how a tape stands now.
    pub(crate) fn post_tape(&self, vid: Vid) {
        match self.tape(vid) {
            Ok(record) => {
                if record.state == TapeState::Scratch {
                    self.forget_tasks(vid);
                }
                self.notifier.post(Event::Tape(vid, self.summary_of(vid, &record)));
                self.note_tape(vid, &record);
                self.maintenance_follows(vid);
            }
            Err(error) => tracing::error!(%vid, %error, "a tape's record cannot be read"),
        }
    }

    /// Tells the room that keeps what is there how a tape stands.
    pub(crate) fn note_tape(&self, vid: Vid, record: &TapeRecord) {
        match self.read(|view| view.can_give(record)) {
            Ok(can_give) => self.upkeep.note_tape(vid, can_give),
            Err(error) => tracing::error!(%vid, %error, "whether a tape can be read is not known"),
        }
    }

    /// What the scheduler must know of a tape, where it stands included.
    pub(crate) fn summary_of(&self, vid: Vid, record: &TapeRecord) -> TapeSummary {
        let suspect = record.is_doubted();
        let library = LibraryId(self.libraries.of_tape(vid));
        if !self.libraries.holds(vid) {
            let reason = crate::exports::absent_text(record);
            let (readable, writable) = (false, false);
            return TapeSummary { library, suspect, reason, readable, writable, ..summary(record) };
        }
        let held_back = |reason| {
            let (readable, writable, leaves) = (false, false, true);
            TapeSummary { library, suspect, reason, readable, writable, leaves, ..summary(record) }
        };
        if self.is_leaving(vid) {
            return held_back(self.leaving_text(vid));
        }
        if let Some(reason) = self.held_for_key(vid, record) {
            return held_back(reason);
        }
        let reason = crate::tapes::state_told(vid, record);
        let summary = summary(record);
        let writable = summary.writable && self.has_current_key(record);
        // No tape is mounted for what it cannot take.
        let free = if self.is_too_small(vid, record) { ByteCount(0) } else { summary.free };
        // As one that is disabled.
        let leaves = !summary.readable && !summary.writable;
        TapeSummary { library, suspect, reason, free, writable, leaves, ..summary }
    }

    /// Changes a tape's state, keeping the reason, and tells the scheduler. A tape that an operator has taken
    /// out of use stays so.
    pub(crate) fn set_tape_aside(&self, vid: Vid, state: TapeState, reason: &str) {
        let one = self.tape_states();
        if self.tape(vid).is_ok_and(|record| record.state == TapeState::Disabled) {
            tracing::warn!(%vid, ?state, reason, "the tape is disabled, and stays so");
            return;
        }
        tracing::warn!(%vid, ?state, reason, "tape set aside");
        let reason = truncated(reason, 512);
        if let Err(error) = self.execute(Command::SetTapeState { vid, state, reason }) {
            tracing::error!(%vid, %error, "a tape's state cannot be recorded");
        }
        drop(one);
        self.post_tape(vid);
    }

    /// The size of blocks on tapes that are labelled from now on.
    pub(crate) fn block_size(&self) -> BlockSize {
        let bytes = u32::try_from(self.settings.tape.block_bytes.0).unwrap_or(u32::MAX);
        BlockSize::new(bytes).unwrap_or(BlockSize::DEFAULT)
    }

    /// Containers that are left alone now: no tape is mounted for them.
    pub(crate) fn resting_now(&self) -> Arc<BTreeSet<ContainerId>> {
        self.own.resting.all(self.now())
    }

    pub(crate) fn haste(&self) -> MutexGuard<'_, session::Haste> {
        self.own.haste.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no file of a class waits to be sealed.
    pub(crate) fn has_nothing_to_seal(&self, class: ClassId) -> bool {
        self.read(|view| view.tally(catalogue::Counter::Todo(class))).is_ok_and(|todo| todo.files == 0)
    }

    /// Held while a tape's state is looked at and set: an operator's word that comes between would be lost.
    pub(crate) fn tape_states(&self) -> MutexGuard<'_, ()> {
        self.tape_states.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn session(&self, drive: &str) -> Arc<Session> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(sessions.entry(drive.to_owned()).or_default())
    }
}

/// How a file stands: wanted, and from which tapes, or not. The tapes are those in whose recall set the file
/// is: a copy that was found unreadable is not among them any more, nor is the last one while the file waits
/// for its copies to be put together.
pub(crate) fn wanted_event(
    classes: &Classes,
    awaited: &AwaitedFiles,
    view: &View<'_>,
    file: FileId,
) -> Result<Event, ReadError> {
    let wants = view.wants(file)?;
    let (Some(want), Some(record)) = (wants.first(), view.file(file)?) else {
        return Ok(Event::NotWanted(file));
    };
    let mut copies = Vec::new();
    let parts = view.parts(file)?;
    let bytes = if parts.len() > 1 { parts_away(view, &parts)? } else { record.size };
    for (id, member) in parts {
        let Some(container) = view.container(id)? else { continue };
        for (vid, block) in container.places() {
            let key = RecallKey { vid, block, data_offset: member.data_offset, file };
            if in_recall_set(view, key)? && !awaited.is_put_off(file, id, (vid, block)) {
                copies.push(vid);
            }
        }
    }
    copies.sort_unstable();
    copies.dedup();
    let since = view.request(want.request)?.map_or(record.created, |request| request.created);
    let mut priority = 0;
    for want in &wants {
        priority = priority.max(view.priority(want.request)?);
    }
    let share = classes.share(record.class);
    Ok(Event::Wanted { file, bytes, since, priority, share, copies })
}

/// Bytes of those parts of a file that did not come yet.
pub(crate) fn parts_away(
    view: &View<'_>,
    parts: &[(ContainerId, MemberRecord)],
) -> Result<ByteCount, ReadError> {
    let mut away = ByteCount(0);
    for (container, member) in parts {
        if view.container(*container)?.is_some_and(|record| record.image.is_none()) {
            away.0 = away.0.saturating_add(member.length.0);
        }
    }
    Ok(away)
}

pub(crate) fn in_recall_set(view: &View<'_>, key: RecallKey) -> Result<bool, ReadError> {
    let before = RecallKey { file: FileId(key.file.0.saturating_sub(1)), ..key };
    let rows = view.recall_set(key.vid, Some(before), 1)?;
    Ok(rows.first().is_some_and(|(found, _)| *found == key))
}
