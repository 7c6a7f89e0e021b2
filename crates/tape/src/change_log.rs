//! How long the catalogue's log of changes is, and what keeps its oldest changes.
//!
//! A change leaves the log when a tape of every pool has a base behind it, the backup has it if there is one,
//! and it is neither one of the newest nor young. Whatever is not known keeps it.

use std::collections::BTreeMap;

use base::planted::{Bug, is_planted};
use base::{Duration, TapePoolId, Timestamp, Vid};
use catalogue::{BULK_FILES, Envelope, ReadError, TapeState, View, changes_behind, typed};
use session::back_off;

use crate::bases_on_tapes::{Log, Standing};
use crate::room::Tape;
use ground::ArchiveError;

/// Fewer are not dropped: that is a change itself, and the log would never be at rest ...
const DROP_LEAST: u64 = 100;
/// ... unless they have so many bytes: large ones are worth it one by one.
const DROP_LEAST_BYTES: u64 = 1 << 20;
/// Bytes of changes that are looked at before some are dropped; one change is always looked at.
const LOOK_BYTES: usize = 16 << 20;
/// A turn of trimming drops so many changes at most, `BULK_FILES` at a time so that puts go between, and
/// takes no longer than this: the sweeper, whose turn it is, has other work. It comes back within 10 s.
const TURN_CHANGES: u64 = 40_000;
const TURN_LONGEST: Duration = Duration::from_secs(1);
/// A tape pool to which nobody writes gets its base for its own sake when it is due by so many times as much
/// as usual ...
const OVERDUE_TIMES: u64 = 2;
/// ... and not more often than this: a tape is mounted for it.
const OVERDUE_EVERY: Duration = Duration::from_secs(6 * 3_600);
/// One that is overdue at the start waits so long, the second one twice as long, and so on.
const OVERDUE_AFTER_START: Duration = Duration::from_secs(900);
/// A tape pool that has lost its base, while the log does not go back to the first change, gets one at once;
/// if a tape does not take it, another one is asked after this, and then after twice as long each time.
const LACKING_AGAIN: Duration = Duration::from_secs(60);

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
        "{} a base of the catalogue behind the oldest change, read back from it",
        match .wanted {
            1 => format!("no tape of pool {tape_pool} that is to stay has"),
            _ => format!("without a backup and a second tape pool two tapes of pool {tape_pool} must have"),
        }
    )]
    NoBase {
        /// Its name.
        tape_pool: String,
        /// How many of its tapes must have one.
        wanted: usize,
    },
    /// There is nothing that could take the place of the catalogue.
    #[error("there is neither a backup of the catalogue nor a tape pool that is used")]
    NothingElse,
    /// The backup is behind, or failing.
    #[error("the backup of the catalogue does not have these changes yet, or fails")]
    Backup,
    /// Changes of this age are kept, and those behind the newest base.
    #[error(
        "its oldest changes are younger than catalogue.keep_age, of the last catalogue.keep_changes, or \
         behind the newest base"
    )]
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
    /// Why no base can be made, if the last try failed.
    pub failing: Option<String>,
}

/// For which pools tapes were mounted for a base alone.
#[derive(Default)]
pub struct BasesAsked {
    pools: BTreeMap<TapePoolId, Asked>,
    /// Whether it was looked once what is wanted.
    has_begun: bool,
}

#[derive(Clone, Copy)]
struct Asked {
    /// Not before, by the steady clock, another one is mounted.
    again: Duration,
    /// How often: another tape of the pool each time, since one may be away.
    times: u32,
    /// Whether the pool lacked a base that nothing else can take the place of.
    lacking: bool,
}

/// How far the log may be trimmed, whatever the age of its changes.
struct Limit {
    /// The oldest change.
    first: u64,
    /// The last that may go.
    through: u64,
    /// So many may go.
    most: u64,
}

/// The oldest changes that may be dropped in one command: so many, the last of them, and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Oldest {
    count: u64,
    last: u64,
    bytes: u64,
}

impl Tape {
    /// How long the catalogue's log of changes is, and why it is not shorter.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub fn change_log(&self) -> Result<ChangeLogInfo, ArchiveError> {
        let room = self;
        let size = room.catalogue.log_size()?;
        let kept = match droppable(room)? {
            Ok(_) => LogKept::BeingTrimmed,
            Err(kept) => kept,
        };
        let has_backup = room.backup_reach.may_count(room.steady());
        let failing = room.bases.failing();
        room.read(|view| {
            let (first, last) = (view.first_change()?, view.last_change()?);
            let base = Standing::of(room, view, has_backup)?.oldest().map_or(0, |(_, base)| base);
            Ok(ChangeLogInfo { changes: size.changes, bytes: size.bytes, first, last, base, kept, failing })
        })
    }
}

/// Whether it is not settled since a restore what is true, or its quarantine has not ended.
fn is_unsettled(view: &View<'_>) -> Result<bool, ReadError> {
    Ok(view.quarantine()?.is_some() || view.is_restored()?)
}

fn pool_name(view: &View<'_>, pool: TapePoolId) -> Result<String, ReadError> {
    let name = |(id, name): (TapePoolId, String)| (id == pool).then_some(name);
    Ok(view.tape_pools()?.into_iter().find_map(name).unwrap_or_default())
}

/// Whether there is no base, or the log does not go back to it. A log that begins right behind its base is
/// healthy: all that could be trimmed was.
fn is_without_base(base: u64, first: u64) -> bool {
    base == 0 || base.saturating_add(1) < first
}

/// How far the log may be trimmed now, or why not at all.
fn limit(room: &Tape) -> Result<Result<Limit, LogKept>, ArchiveError> {
    let settings = room.settings.change_log;
    if settings.base_changes == 0 {
        return Ok(Err(LogKept::Off));
    }
    let size = room.catalogue.log_size()?;
    let backup = room.backup_reach.through();
    room.read(|view| {
        if is_unsettled(view)? {
            return Ok(Err(LogKept::Restored));
        }
        if backup == Some(0) {
            return Ok(Err(LogKept::Backup));
        }
        let first = view.first_change()?;
        let standing = Standing::of(room, view, backup.is_some())?;
        let base = match standing.oldest() {
            _ if is_planted(Bug::TrimWithoutBase) => view.last_change()?,
            Some((pool, base)) if is_without_base(base, first) => {
                let (tape_pool, wanted) = (pool_name(view, pool)?, standing.wanted());
                return Ok(Err(LogKept::NoBase { tape_pool, wanted }));
            }
            Some((_, base)) => base,
            // Nothing goes to tape: the backup has snapshots and the log behind them.
            None if backup.is_some() => u64::MAX,
            None => return Ok(Err(LogKept::NothingElse)),
        };
        // The newest change that the backup has must stay: by it the next start knows that both go on.
        let shipped = backup.map_or(u64::MAX, |through| through.saturating_sub(1));
        if shipped < first {
            return Ok(Err(LogKept::Backup));
        }
        // The newest change tells the time, and is never dropped.
        let most = size.changes.saturating_sub(settings.keep_changes.max(1));
        Ok(Ok(Limit { first, through: base.min(shipped), most }))
    })
}

/// What may be dropped now, or why nothing.
fn droppable(room: &Tape) -> Result<Result<Oldest, LogKept>, ArchiveError> {
    let limit = match limit(room)? {
        Ok(limit) => limit,
        Err(kept) => return Ok(Err(kept)),
    };
    let oldest = oldest(room, &limit)?;
    Ok(if oldest.is_worth_it() { Ok(oldest) } else { Err(LogKept::Young) })
}

fn oldest(room: &Tape, limit: &Limit) -> Result<Oldest, ArchiveError> {
    let (now, keep_age) = (room.now(), room.settings.change_log.keep_age);
    room.read(|view| {
        let changes = view.changes(limit.first, BULK_FILES, LOOK_BYTES)?;
        Ok(Oldest::of(&changes, limit, |at| now.since(at) >= keep_age))
    })
}

impl Oldest {
    /// Of `changes`, which begin with the oldest one.
    fn of(changes: &[(u64, Vec<u8>)], limit: &Limit, is_old: impl Fn(Timestamp) -> bool) -> Oldest {
        let is_old = |bytes: &[u8]| Envelope::decode(bytes).is_ok_and(|envelope| is_old(envelope.at));
        let may_go = changes.iter().take_while(|(number, bytes)| *number <= limit.through && is_old(bytes));
        let most = usize::try_from(limit.most).unwrap_or(usize::MAX);
        may_go.take(most).fold(Oldest::default(), |oldest, (number, bytes)| Oldest {
            count: oldest.count + 1,
            last: *number,
            bytes: oldest.bytes + bytes.len() as u64,
        })
    }

    fn is_worth_it(self) -> bool {
        self.count >= DROP_LEAST || self.bytes >= DROP_LEAST_BYTES
    }
}

/// Drops some of what may be dropped, and sees to it that tape pools get bases that would not otherwise.
pub fn turn(room: &Tape, asked: &mut BasesAsked) -> Result<(), ArchiveError> {
    trim(room)?;
    if let Some(mut waiting) = room.bases.waiting_now() {
        waiting.drop_if_done(room)?;
    }
    ask_for_bases(room, asked)
}

fn trim(room: &Tape) -> Result<(), ArchiveError> {
    let Ok(mut limit) = limit(room)? else { return Ok(()) };
    if oldest(room, &limit)?.is_worth_it() {
        // Tapes with keys may have what is dropped: they are asked for, and then it is looked at anew.
        room.rely_on_all_keys()?;
        match self::limit(room)? {
            Ok(then) => limit = then,
            Err(_) => return Ok(()),
        }
    }
    let (began, mut dropped) = (room.steady(), 0);
    while goes_on(dropped, room.steady().saturating_sub(began)) && !room.stopping() {
        let oldest = oldest(room, &limit)?;
        if !oldest.is_worth_it() {
            break;
        }
        let most = u32::try_from(oldest.count).unwrap_or(u32::MAX);
        let count = room.ask(typed::TrimSome { through: oldest.last, most })?;
        if count == 0 {
            break;
        }
        dropped += u64::from(count);
        limit.most = limit.most.saturating_sub(u64::from(count));
        // All that were asked for, or on a full catalogue fewer.
        limit.first = limit.first.saturating_add(u64::from(count));
    }
    Ok(())
}

/// Whether a turn that has dropped so many changes and taken so long drops more.
fn goes_on(dropped: u64, spent: Duration) -> bool {
    dropped < TURN_CHANGES && spent < TURN_LONGEST
}

/// Has tapes mounted for a base alone: of pools to which nobody writes, and of those that lack one that
/// nothing else takes the place of.
fn ask_for_bases(room: &Tape, asked: &mut BasesAsked) -> Result<(), ArchiveError> {
    let settings = room.settings.change_log;
    let now = room.steady();
    // Before the keys of tapes were asked for, no base on an encrypted one counts.
    if settings.base_changes == 0 || !room.bases.may_make(now) || !room.upkeep.has_asked_for_keys() {
        return Ok(());
    }
    let size = room.catalogue.log_size()?;
    let has_backup = room.backup_reach.may_count(room.steady());
    let wanted = room.read(|view| {
        if is_unsettled(view)? {
            return Ok(Vec::new());
        }
        let (log, standing) = (Log::of(view, size)?, Standing::of(room, view, has_backup)?);
        let tapes = view.tapes()?;
        let mut wanted = Vec::new();
        for pool in standing.pools() {
            let base = standing.of_pool(pool);
            let lacking = log.lacks(base);
            let overdue = settings.base_changes.saturating_mul(OVERDUE_TIMES);
            if !lacking && changes_behind(base, log.last) <= overdue {
                continue;
            }
            let may_get =
                |vid: Vid| standing.is_due(&log, settings, pool, vid) && room.bases.may_write(vid, now);
            let mut of_pool = Vec::new();
            for (vid, tape) in tapes.iter().filter(|(_, tape)| tape.tape_pool == Some(pool)) {
                let is_free =
                    tape.state == TapeState::Active && tape.run.is_none() && room.has_current_key(tape);
                if is_free && may_get(*vid) && !view.lacks_key(tape)? {
                    of_pool.push(*vid);
                }
            }
            wanted.push((pool, lacking, of_pool));
        }
        Ok(wanted)
    })?;
    asked.pools.retain(|pool, _| wanted.iter().any(|(of, ..)| of == pool));
    asked.begin(wanted.iter().filter(|(_, lacking, _)| !lacking).map(|(pool, ..)| *pool), now);
    for (pool, lacking, tapes) in wanted {
        let Some(vid) = asked.next(pool, lacking, &tapes, now) else { continue };
        tracing::info!(%vid, lacking, "the tape is mounted for a base of the catalogue");
        room.set_tasks(vid, |tasks| tasks.ship = true);
    }
    Ok(())
}

impl BasesAsked {
    /// What was overdue when the server was started can wait: it is spread, since a start has other mounts to
    /// make, and the next one would begin anew.
    fn begin(&mut self, overdue: impl Iterator<Item = TapePoolId>, now: Duration) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        for (pool, rank) in overdue.zip(1..) {
            let again = now.saturating_add(OVERDUE_AFTER_START.saturating_mul(rank));
            self.pools.insert(pool, Asked { again, times: 0, lacking: false });
        }
    }

    /// The tape of a pool that is to be mounted now, if any.
    fn next(&mut self, pool: TapePoolId, lacking: bool, tapes: &[Vid], now: Duration) -> Option<Vid> {
        let before = self.pools.get(&pool).copied().filter(|asked| asked.lacking == lacking);
        if before.is_some_and(|asked| now < asked.again) {
            return None;
        }
        let times = before.map_or(0, |asked| asked.times);
        let vid = *tapes.get((times as usize).checked_rem(tapes.len())?)?;
        let rest = match lacking {
            true => back_off(LACKING_AGAIN, times, OVERDUE_EVERY),
            false => OVERDUE_EVERY,
        };
        let again = now.saturating_add(rest);
        self.pools.insert(pool, Asked { again, times: times.saturating_add(1), lacking });
        Some(vid)
    }
}

/// Tape pools that have no base although the log does not go back to the first change: their tapes alone do
/// not give the catalogue back.
pub(crate) fn lacking(room: &Tape) -> Result<Vec<String>, ArchiveError> {
    if !room.upkeep.has_asked_for_keys() {
        return Ok(Vec::new());
    }
    let size = room.catalogue.log_size()?;
    let has_backup = room.backup_reach.may_count(room.steady());
    room.read(|view| {
        let (log, standing) = (Log::of(view, size)?, Standing::of(room, view, has_backup)?);
        let lacking = standing.pools().filter(|pool| log.lacks(standing.of_pool(*pool)));
        lacking.map(|pool| pool_name(view, pool)).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalogue::Command;

    fn change(number: u64, at: i64, bytes: usize) -> (u64, Vec<u8>) {
        let command = Command::SetTapeState {
            vid: Vid::new("KT0001").unwrap(),
            state: TapeState::Full,
            reason: "x".repeat(bytes),
        };
        (number, Envelope { at: Timestamp(at), command }.encode())
    }

    /// Each change larger than 168 kB: fewer than a hundred of them were looked at, which were never dropped.
    #[test]
    fn changes_of_any_size_are_dropped() {
        let limit = Limit { first: 1, through: 1_000, most: 1_000 };
        let all = |changes: &[(u64, Vec<u8>)]| Oldest::of(changes, &limit, |_| true);
        for bytes in [20_000, 200_000, 2_000_000, 16_000_000] {
            let fit = LOOK_BYTES / bytes;
            let changes: Vec<_> = (1..=fit.max(1) as u64).map(|n| change(n, 0, bytes)).collect();
            assert!(all(&changes).is_worth_it(), "{bytes}");
        }
        let small: Vec<_> = (1..=100).map(|n| change(n, 0, 10)).collect();
        assert!(all(&small).is_worth_it() && !all(&small[..99]).is_worth_it());
    }

    /// After a complete trim the pool was said to have no base.
    #[test]
    fn a_log_that_begins_right_behind_its_base_has_one() {
        assert!(!is_without_base(99, 100) && !is_without_base(100, 100));
        assert!(is_without_base(98, 100) && is_without_base(0, 1));
    }

    /// A log of millions of changes was trimmed in one go.
    #[test]
    fn a_turn_ends_by_number_and_by_time() {
        let begun = Duration::from_millis(1);
        assert!(goes_on(0, Duration::ZERO) && goes_on(TURN_CHANGES - 1, begun));
        assert!(!goes_on(TURN_CHANGES, begun) && !goes_on(0, TURN_LONGEST));
        let limit = Limit { first: 1, through: u64::MAX, most: u64::MAX };
        let many: Vec<_> = (1..=2_000).map(|n| change(n, 0, 10)).collect();
        assert_eq!(Oldest::of(&many[..BULK_FILES], &limit, |_| true).count, BULK_FILES as u64);
    }

    #[test]
    fn what_is_young_or_beyond_a_limit_stays() {
        let changes: Vec<_> = (1..=200).map(|n| change(n, n as i64, 10)).collect();
        let of = |limit: &Limit| Oldest::of(&changes, limit, |at| at < Timestamp(151)).last;
        assert_eq!(of(&Limit { first: 1, through: 1_000, most: 1_000 }), 150);
        assert_eq!(of(&Limit { first: 1, through: 120, most: 1_000 }), 120);
        assert_eq!(of(&Limit { first: 1, through: 1_000, most: 130 }), 130);
        assert_eq!(of(&Limit { first: 1, through: 1_000, most: 0 }), 0);
    }

    /// Story: each start forgot when tapes had been mounted last, and mounted one of each pool in seconds.
    #[test]
    fn what_is_overdue_at_the_start_is_spread_and_what_is_lost_is_not() {
        let (pools, mut asked) = ([TapePoolId(1), TapePoolId(2)], BasesAsked::default());
        let tapes = [Vid::new("KT0001").unwrap()];
        let at = Duration::from_secs;
        asked.begin(pools.into_iter(), at(100));
        let mut ask = |pool: usize, lacking, now| asked.next(pools[pool], lacking, &tapes, at(now)).is_some();
        assert!(!ask(0, false, 100) && !ask(0, false, 999) && ask(0, false, 1_000));
        assert!(!ask(1, false, 1_000) && !ask(1, false, 1_899) && ask(1, false, 1_900));
        assert!(!ask(0, false, 1_900), "once in a while");
        assert!(ask(0, true, 1_900), "its base was lost");
        let mut later = BasesAsked::default();
        later.begin(std::iter::empty(), at(100));
        later.begin(pools.into_iter(), at(110));
        assert!(later.next(pools[0], false, &tapes, at(110)).is_some(), "it became overdue since");
    }

    #[test]
    fn a_pool_that_lost_its_base_is_asked_at_once_and_then_less_and_less_often() {
        let (pool, mut asked) = (TapePoolId(1), BasesAsked::default());
        let tapes = [Vid::new("KT0001").unwrap(), Vid::new("KT0002").unwrap()];
        let mut ask = |lacking, at| asked.next(pool, lacking, &tapes, Duration::from_secs(at));
        assert_eq!(ask(false, 10), Some(tapes[0]));
        assert_eq!(ask(false, 6 * 3_600), None);
        // It is lost: nothing is waited for.
        assert_eq!(ask(true, 6 * 3_600), Some(tapes[0]));
        let at = 6 * 3_600;
        for (after, expected) in [
            (59, None),
            (60, Some(tapes[1])),
            (179, None),
            (180, Some(tapes[0])),
            (419, None),
            (420, Some(tapes[1])),
        ] {
            assert_eq!(ask(true, at + after), expected, "{after}");
        }
        assert_eq!(asked.next(pool, true, &[], Duration::from_secs(100_000)), None);
    }
}
