//! Directories that are removed at once with all that is in them: the name goes with one command, the files
//! behind, in batches, over restarts.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use base::{ArchivePath, DirId};
use catalogue::{Command, Followed, NotAtOnce, ReadError, Rejection, RemovedFile, TreeRecord, View, typed};
use store::{ExecuteError, Shortage};
use threads::{Doorbell, Mutex};

use crate::Namespace;
use crate::names::in_words;
use ground::access::Notice;
use ground::{ArchiveError, WhyNotAtOnce};
use ground::{Duty, Ground, OpenError, Worker};

/// How often it is looked for condemned trees without being asked.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// How soon one that found no room in the catalogue is tried again: what keeps the room may end at any time.
const ROOM_RETRY: Duration = Duration::from_secs(1);

/// A directory that was removed at once with all that was in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TreeRemoval {
    /// Its number, which is that of the directory.
    pub id: DirId,
    /// All else.
    pub record: TreeRecord,
    /// Why nothing is removed for now.
    pub waits: Option<RemovalWait>,
}

/// Why nothing of a removed directory is removed for now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RemovalWait {
    /// A restore is not settled: nobody can tell yet what pool and tapes have, and what the restore was made
    /// for may be in the tree.
    Unsettled,
    /// The catalogue has no room, not even for one file less.
    NoRoom(Shortage),
    /// The last try failed, in words.
    Failed(String),
}

impl RemovalWait {
    fn of(error: &ArchiveError) -> RemovalWait {
        match error {
            ArchiveError::Store(store) => match store.lacks() {
                Some(shortage) => RemovalWait::NoRoom(shortage),
                None => RemovalWait::Failed(store.to_string()),
            },
            other => RemovalWait::Failed(other.to_string()),
        }
    }
}

impl fmt::Display for RemovalWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RemovalWait::Unsettled => {
                f.write_str("it goes on when the restore of the catalogue is settled: see kist status")
            }
            RemovalWait::NoRoom(shortage) => {
                write!(f, "it goes on when there is room: {}", ExecuteError::from(*shortage))
            }
            RemovalWait::Failed(why) => write!(f, "it is tried again: {why}"),
        }
    }
}

/// What the last try of each removal that failed came to.
#[derive(Default)]
struct RemovalWaits(Mutex<BTreeMap<DirId, RemovalWait>>);

impl RemovalWaits {
    fn of(&self, id: DirId) -> Option<RemovalWait> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()
    }

    /// Gives whether that is news.
    fn set(&self, id: DirId, wait: RemovalWait) -> bool {
        let mut waits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waits.insert(id, wait.clone()) != Some(wait)
    }

    fn goes_on(&self, id: DirId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }
}

/// The removing of condemned trees, and its thread.
#[derive(Default)]
pub(crate) struct Removals {
    /// Wakes the thread.
    doorbell: Doorbell,
    /// Why it has not removed what it tried to.
    waits: RemovalWaits,
    /// It was started.
    is_started: AtomicBool,
}

/// How a directory is removed at once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoveTree {
    /// Who removes it; at most 64 bytes.
    pub owner: String,
    /// The directory that was looked at; `None`: whatever has the path.
    pub directory: Option<DirId>,
    /// Whether the caller may although directories in it have access control lists of their own.
    pub with_lists: bool,
}

impl Namespace {
    /// Removes a directory with all that is in it. On return its path stands for nothing, durably, and can be
    /// used again; files and directories of it are removed behind, and count until then.
    ///
    /// # Errors
    /// [`ArchiveError::NotAtOnce`] if it is not known without reading the tree that nothing in it must stay:
    /// nothing was done then, and it can be removed name by name. [`ArchiveError::NotFound`],
    /// [`ArchiveError::NotADirectory`]; [`ArchiveError::TreeChanges`] if another directory has the path.
    pub fn remove_tree(&self, path: &ArchivePath, how: RemoveTree) -> Result<TreeRemoval, ArchiveError> {
        let ground = &*self.ground;
        let Some((_, name)) = path.split() else { return Err(ArchiveError::NotEmpty(path.clone())) };
        let found = ground.read(|view| view.find(path))?;
        let (directory, parent) = match found {
            Some(Followed::Directory(id, record)) => (id, record.parent),
            Some(Followed::File(..)) => return Err(ArchiveError::NotADirectory(path.clone())),
            None => return Err(ArchiveError::NotFound(path.clone())),
        };
        if how.directory.is_some_and(|seen| seen != directory) {
            return Err(ArchiveError::TreeChanges);
        }
        let RemoveTree { owner, with_lists, .. } = how;
        let command = Command::CondemnTree { parent, name, directory, owner, with_lists };
        ground.execute(command).map_err(|error| match error {
            ArchiveError::Rejected(Rejection::NotAtOnce { why, .. }) => self.not_at_once(path, &why),
            ArchiveError::Rejected(Rejection::NotCurrent { .. }) => ArchiveError::TreeChanges,
            other => in_words(other, path),
        })?;
        if let Err(error) = self.start_removing() {
            tracing::error!(%error, "what is in removed directories stays until the next start");
        }
        self.removals.doorbell.ring();
        self.tree_removal(directory)
    }

    /// Why not, with paths for numbers.
    fn not_at_once(&self, path: &ArchivePath, why: &NotAtOnce) -> ArchiveError {
        let named = self.ground.read(|view| match why {
            NotAtOnce::Held { file, .. } => view.path_of_file(*file),
            NotAtOnce::List(directory) => view.path_of_directory(*directory),
            _ => Ok(None),
        });
        let named = named.ok().flatten().and_then(|named| ArchivePath::new(&named).ok());
        let why = match why {
            NotAtOnce::Held { .. } => WhyNotAtOnce::Held(named),
            NotAtOnce::List(_) => WhyNotAtOnce::List(named),
            _ => WhyNotAtOnce::Other(why.to_string()),
        };
        ArchiveError::NotAtOnce { path: path.clone(), why }
    }

    /// A removal that is under way, or ended lately.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchRemoval`].
    pub fn tree_removal(&self, id: DirId) -> Result<TreeRemoval, ArchiveError> {
        let (record, waits) = self.ground.read(|view| Ok((view.tree(id)?, waits(view)?)))?;
        let record = record.ok_or(ArchiveError::NoSuchRemoval(id))?;
        Ok(self.removal(id, record, waits))
    }

    /// All removals that are under way or ended lately, newest first: at most
    /// [`TREES_MAX`](catalogue::TREES_MAX).
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn tree_removals(&self) -> Result<Vec<TreeRemoval>, ArchiveError> {
        let (trees, waits) = self.ground.read(|view| Ok((view.trees()?, waits(view)?)))?;
        let found = trees.into_iter().map(|(id, record)| self.removal(id, record, waits.clone()));
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(|removal| std::cmp::Reverse((removal.record.condemned, removal.id)));
        Ok(found)
    }

    /// A removal; `waits` is what keeps all of them waiting.
    fn removal(&self, id: DirId, record: TreeRecord, waits: Option<RemovalWait>) -> TreeRemoval {
        let waits = waits.or_else(|| self.removals.waits.of(id)).filter(|_| record.ended.is_none());
        TreeRemoval { id, record, waits }
    }

    /// Goes on with the removals that a stop broke off.
    pub fn start(&self) -> Result<(), OpenError> {
        if self.ground.catalogue.read(|view| view.has_condemned_trees())? {
            self.start_removing()
        } else {
            Ok(())
        }
    }

    /// Starts the thread that removes what is in condemned trees, unless it runs: most servers never need it.
    fn start_removing(&self) -> Result<(), OpenError> {
        if self.removals.is_started.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let (ground, removals) = (Arc::clone(&self.ground), Arc::clone(&self.removals));
        let duty = Duty::new("trees", &removals, |removals| removals.doorbell.ring());
        self.ground.start(duty, move |me| run(&ground, &removals, me))
    }
}

/// What keeps all removals waiting.
fn waits(view: &View<'_>) -> Result<Option<RemovalWait>, ReadError> {
    Ok(view.is_restored()?.then_some(RemovalWait::Unsettled))
}

/// The thread that removes what is in condemned trees.
fn run(ground: &Ground, removals: &Removals, me: &Worker) {
    while !ground.stopping() {
        me.does("removing files");
        let patience = turn(ground, removals, me).unwrap_or_else(|error| {
            tracing::error!(%error, "what is in removed directories stays for now; it is tried again");
            me.failed(&error);
            LOOK_EVERY
        });
        me.rests();
        if !ground.stopping() {
            removals.doorbell.wait(patience);
        }
    }
}

/// Removes all that is in condemned trees, a batch of each in turn, so that a small one does not wait for a
/// large one. One that fails does not keep the others, and is tried again with the next turn; gives how long
/// that has time.
fn turn(ground: &Ground, removals: &Removals, me: &Worker) -> Result<Duration, ArchiveError> {
    let mut failed = BTreeSet::new();
    let mut patience = LOOK_EVERY;
    while !ground.stopping() && ground.read(|view| view.has_condemned_trees())? {
        if ground.read(waits)?.is_some() {
            break;
        }
        let trees = ground.read(|view| view.trees())?.into_iter();
        let trees = trees.filter(|(id, tree)| tree.ended.is_none() && !failed.contains(id));
        let trees: Vec<DirId> = trees.map(|(id, _)| id).collect();
        if trees.is_empty() {
            break;
        }
        for id in trees {
            if ground.stopping() {
                return Ok(patience);
            }
            match ground.ask(typed::RemoveSomeOfTree { directory: id }) {
                Ok((files, more)) => {
                    removals.waits.goes_on(id);
                    tell(ground, id, &files, more);
                }
                Err(error) => {
                    failed.insert(id);
                    let wait = RemovalWait::of(&error);
                    if matches!(wait, RemovalWait::NoRoom(_)) {
                        patience = ROOM_RETRY;
                    }
                    me.failed(&error);
                    if removals.waits.set(id, wait) {
                        tracing::error!(removal = %id, %error, "what was removed with its directory stays");
                    }
                }
            }
        }
    }
    Ok(patience)
}

/// Tells those whom it concerns what was removed.
fn tell(ground: &Ground, id: DirId, files: &[RemovedFile], more: bool) {
    for removed in files {
        let RemovedFile { file, class, size, wanted } = *removed;
        ground.access.push(|| Notice::Deleted { at: ground.now(), file, known: Some((class, size)) });
        if wanted {
            ground.notifier.wants_changed(file);
        }
    }
    ground.notifier.backlog_changed();
    ground.sweep.ring();
    if !more {
        tracing::info!(removal = %id, "all that was in a removed directory is removed");
    }
}
