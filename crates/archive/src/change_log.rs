//! How long the catalogue's log of changes is, and what keeps its oldest changes.
//!
//! A change leaves the log when a tape of every pool has a base behind it, the backup has it if there is one,
//! and it is neither one of the newest nor young. Whatever is not known keeps it.

use base::planted::{Bug, is_planted};
use base::{Duration, TapePoolId, Timestamp};
use catalogue::{BULK_FILES, Command, Envelope, Outcome, ReadError, TapeState, View, Work};

use crate::bases::{changes_behind, is_due, newest_bases};
use crate::engine::Engine;
use crate::{Archive, ArchiveError};

/// Fewer are not dropped: that is a change itself, and the log would never be at rest.
const DROP_LEAST: u64 = 100;
/// Bytes of changes that are looked at before some are dropped.
const LOOK_BYTES: usize = 16 << 20;
/// A tape pool to which nobody writes gets its base for its own sake when it is due by so many times as much
/// as usual ...
const OVERDUE_TIMES: u64 = 2;
/// ... and not more often than this: a tape is mounted for it.
const OVERDUE_EVERY: Duration = Duration::from_secs(6 * 3_600);

/// Why the oldest change stays in the log.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogKept {
    /// No bases are written.
    #[error("the log is not trimmed: catalogue.base_changes is 0")]
    Off,
    /// The catalogue was restored and it is not settled what is true.
    #[error("the catalogue was restored: the log stays until that is settled and the quarantine ended")]
    Restored,
    /// A tape pool has no base that can be counted on.
    #[error(
        "no tape of pool {tape_pool} that is to stay has a base of the catalogue behind the oldest change"
    )]
    NoBase {
        /// Its name.
        tape_pool: String,
    },
    /// The backup is behind, or failing.
    #[error("the backup of the catalogue does not have these changes yet, or fails")]
    Backup,
    /// Changes of this age are kept.
    #[error("its oldest changes are younger than catalogue.keep_age, or of the last catalogue.keep_changes")]
    Young,
    /// There is nothing to be kept: it is being trimmed.
    #[error("it is being trimmed")]
    BeingTrimmed,
}

/// How the catalogue's log stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeLogInfo {
    /// Changes in it.
    pub changes: u64,
    /// Bytes of its pages.
    pub bytes: u64,
    /// The oldest one.
    pub first: u64,
    /// The newest one.
    pub last: u64,
    /// The newest base that all tape pools have, or a newer one; 0: there is none.
    pub base: u64,
    /// Why the oldest change stays.
    pub kept: LogKept,
}

/// When tapes were last mounted for a base alone, and how often: another tape of the pool each time, since
/// one may be away.
#[derive(Default)]
pub(crate) struct BasesAsked {
    at: Option<Duration>,
    times: usize,
}

/// What may be dropped: at most so many changes, the last of them this one.
struct Droppable {
    through: u64,
    most: u64,
}

impl Archive {
    /// How long the catalogue's log of changes is, and why it is not shorter.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn change_log(&self) -> Result<ChangeLogInfo, ArchiveError> {
        let engine = self.engine();
        let size = engine.catalogue.log_size()?;
        let kept = match droppable(engine)? {
            Ok(_) => LogKept::BeingTrimmed,
            Err(kept) => kept,
        };
        engine.read(|view| {
            let (first, last) = (view.first_change()?, view.last_change()?);
            let base = oldest_of_newest(view)?.map_or(0, |(_, base)| base);
            Ok(ChangeLogInfo { changes: size.changes, bytes: size.bytes, first, last, base, kept })
        })
    }
}

/// The pool whose newest base is the oldest; `None` without pools.
fn oldest_of_newest(view: &View<'_>) -> Result<Option<(TapePoolId, u64)>, ReadError> {
    Ok(newest_bases(view, None)?.into_iter().min_by_key(|(_, newest)| *newest))
}

/// Whether it is not settled since a restore what is true, or its quarantine has not ended.
fn is_unsettled(view: &View<'_>) -> Result<bool, ReadError> {
    Ok(view.quarantine()?.is_some() || view.is_restored()?)
}

/// What may be dropped now, or why nothing.
fn droppable(engine: &Engine) -> Result<Result<Droppable, LogKept>, ArchiveError> {
    let settings = engine.settings.change_log;
    if settings.base_changes == 0 {
        return Ok(Err(LogKept::Off));
    }
    let size = engine.catalogue.log_size()?;
    let now = engine.now();
    engine.read(|view| {
        if is_unsettled(view)? {
            return Ok(Err(LogKept::Restored));
        }
        let first = view.first_change()?;
        let base = match oldest_of_newest(view)? {
            _ if is_planted(Bug::TrimWithoutBase) => view.last_change()?,
            Some((pool, base)) if base < first => {
                let name = |(id, name): (TapePoolId, String)| (id == pool).then_some(name);
                let tape_pool = view.tape_pools()?.into_iter().find_map(name).unwrap_or_default();
                return Ok(Err(LogKept::NoBase { tape_pool }));
            }
            Some((_, base)) => base,
            None => return Ok(Err(LogKept::NoBase { tape_pool: String::new() })),
        };
        // The newest change that the backup has must stay: by it the next start knows that both go on.
        let shipped = engine.bases.backup_has().map_or(u64::MAX, |through| through.saturating_sub(1));
        if shipped < first {
            return Ok(Err(LogKept::Backup));
        }
        // The newest change tells the time, and is never dropped.
        let most = size.changes.saturating_sub(settings.keep_changes.max(1));
        let through = base.min(shipped);
        let (old, through) = old_enough(view, first, through, |at| now.since(at) >= settings.keep_age)?;
        let most = most.min(old);
        Ok(if most >= DROP_LEAST { Ok(Droppable { through, most }) } else { Err(LogKept::Young) })
    })
}

/// How many of the oldest changes up to `through` are old, and the last of them; a few at a time.
fn old_enough(
    view: &View<'_>,
    first: u64,
    through: u64,
    is_old: impl Fn(Timestamp) -> bool,
) -> Result<(u64, u64), ReadError> {
    let mut oldest = view.changes(first, BULK_FILES, LOOK_BYTES)?;
    oldest.retain(|(number, _)| *number <= through);
    let is_old = |bytes: &[u8]| Envelope::decode(bytes).is_ok_and(|envelope| is_old(envelope.at));
    let old: Vec<u64> =
        oldest.iter().take_while(|(_, bytes)| is_old(bytes)).map(|(number, _)| *number).collect();
    Ok((old.len() as u64, old.last().copied().unwrap_or(0)))
}

/// Drops what may be dropped, and sees to it that tape pools to which nobody writes get their base.
pub(crate) fn turn(engine: &Engine, asked: &mut BasesAsked) -> Result<(), ArchiveError> {
    while !engine.stopping() {
        let Ok(Droppable { through, most }) = droppable(engine)? else { break };
        let most = u32::try_from(most).unwrap_or(u32::MAX);
        let command = Command::DoSome { work: Work::TrimChanges(through), most };
        if !matches!(engine.execute(command)?, Outcome::Dropped(count) if u64::from(count) >= DROP_LEAST) {
            break;
        }
    }
    if let Some(mut waiting) = engine.bases.waiting_now() {
        waiting.drop_if_done(engine)?;
    }
    ask_for_overdue(engine, asked)
}

fn ask_for_overdue(engine: &Engine, asked: &mut BasesAsked) -> Result<(), ArchiveError> {
    let settings = engine.settings.change_log;
    let now = engine.steady();
    if settings.base_changes == 0 || asked.at.is_some_and(|at| now.saturating_sub(at) < OVERDUE_EVERY) {
        return Ok(());
    }
    let log = engine.catalogue.log_size()?;
    let overdue = engine.read(|view| {
        if is_unsettled(view)? {
            return Ok(Vec::new());
        }
        let last = view.last_change()?;
        let mut tapes = Vec::new();
        for (pool, newest) in newest_bases(view, None)? {
            let behind = changes_behind(newest, last);
            let is_overdue = behind > settings.base_changes.saturating_mul(OVERDUE_TIMES);
            if is_overdue && is_due(view, log, settings, newest)? {
                let mut of_pool = view.tapes()?;
                of_pool.retain(|(_, tape)| {
                    tape.tape_pool == Some(pool) && tape.state == TapeState::Active && tape.run.is_none()
                });
                let which = asked.times.checked_rem(of_pool.len());
                tapes.extend(which.and_then(|at| of_pool.get(at)).map(|(vid, _)| *vid));
            }
        }
        Ok(tapes)
    })?;
    if !overdue.is_empty() {
        *asked = BasesAsked { at: Some(now), times: asked.times.wrapping_add(1) };
    }
    for vid in overdue {
        engine.chore(vid, |chores| chores.ship = true);
    }
    Ok(())
}
