//! Reclaim: a tape without containers is scratch again, once all that it has of the catalogue's history
//! stands on other tapes too. What does not is written to one of them first; where a pool has only tapes that
//! are to be reclaimed or full, one of these takes it, so that all the others can be reclaimed.

use std::collections::{BTreeMap, BTreeSet};

use catalogue::{Command, Object, ReadError, Rejection, TapeRecord, TapeState, View};
use store::LogSize;

use base::{ByteCount, TapePoolId, Vid};

use crate::bases_on_tapes::{Log, Standing, is_to_stay};
use crate::room::{Tape, reserve, room_left};
use crate::tapes::{covered, need_identified};
use ground::ArchiveError;

/// Who has, or can have, what a tape has of the history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Keeper {
    /// Other tapes have all of it.
    Others,
    /// This one takes it, and may be written anyway.
    Written(Vid),
    /// This one takes it, and is written for nothing else.
    Spare(Vid),
    /// No other tape can.
    Nobody,
}

/// What a tape has of the history and the tapes that count have not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Owed {
    /// Changes behind the newest base that these have.
    segments: bool,
    /// Such a base, while the log does not go back to the first change.
    base: bool,
}

/// How things stand when a tape is to be reclaimed.
struct Question<'v, 'e> {
    room: &'e Tape,
    view: &'v View<'e>,
    vid: Vid,
    tape_pool: TapePoolId,
    tapes: Vec<(Vid, TapeRecord)>,
    /// Those that wait for their key.
    without_key: BTreeSet<Vid>,
    log: Log,
    size: LogSize,
    has_backup: bool,
    keepers: Keepers,
}

/// What is known of tapes as keepers of the history.
#[derive(Clone)]
struct Keepers {
    /// Tapes that are to be reclaimed.
    asked: BTreeSet<Vid>,
    /// Those that are about to take it, or do.
    taking: BTreeSet<Vid>,
    /// Those that could not take so much.
    refused: BTreeMap<Vid, ByteCount>,
    /// What drives said last of the room on tapes.
    room_left: BTreeMap<Vid, ByteCount>,
    /// How many tries to take it that is the outcome of.
    tries: u64,
}

/// Which tapes count when the changes are chosen that a tape gets.
pub(crate) struct Keeping {
    vid: Vid,
    /// The tapes that are to be reclaimed, if this one keeps the history for them.
    asked: Option<BTreeSet<Vid>>,
}

impl Keeping {
    /// Whether the changes that another tape has need not be written. One that keeps the history for tapes
    /// that are to be reclaimed need not have what it has already, nor what emptied tapes have that nobody
    /// wants reclaimed: each is held to the same rule when somebody does.
    pub(crate) fn counts(&self, vid: Vid, tape: &TapeRecord) -> bool {
        let is_left = |asked: &BTreeSet<Vid>| vid == self.vid || is_emptied(tape) && !asked.contains(&vid);
        is_to_stay(tape) || self.asked.as_ref().is_some_and(is_left)
    }
}

impl Tape {
    /// Makes a tape without containers scratch again. Its next labelling may destroy exactly the volume that
    /// it holds.
    ///
    /// # Errors
    /// [`ArchiveError::TapeInUse`] while it is written; [`ArchiveError::Rejected`] if it holds containers, or
    /// while a restored catalogue is in quarantine: the tape may hold what the catalogue does not know;
    /// [`ArchiveError::SegmentsOwed`] while it is the only tape of its pool with some change-log segments or
    /// the base: they are being written to another one then, or no other one can take them.
    pub fn reclaim_tape(&self, vid: Vid) -> Result<(), ArchiveError> {
        self.empty_tape(vid, Command::ReclaimTape { vid })
    }

    /// Makes a tape without containers scratch, or retires it: both by this rule.
    pub(crate) fn empty_tape(&self, vid: Vid, how: Command) -> Result<(), ArchiveError> {
        let record = self.tape(vid)?;
        self.need_reclaimable(vid, &record)?;
        // What it has of the history may be on tapes with keys besides.
        self.rely_on_all_keys()?;
        if record.containers == 0
            && let Some(tape_pool) = record.tape_pool
        {
            let is_new = self.maintenance().reclaims.insert(vid);
            let answer = self.keeper_as_of(vid, tape_pool)?;
            // Of a tape that nobody can take the place of nothing is changed: it may be the only one of its
            // pool that can be written. One that was never labelled has nothing of the history.
            let known = self.need_backup_known(vid, answer.0);
            if answer.0 == Keeper::Nobody || known.is_err() {
                if is_new {
                    self.maintenance().reclaims.remove(&vid);
                }
            } else if record.state != TapeState::Disabled && record.generation.0 > 0 {
                self.set_repacking(vid, "to be reclaimed")?;
            }
            known?;
            self.have_it_kept(vid, tape_pool, answer)?;
        }
        {
            // Nobody reclaims, or sets aside, a tape that was just counted on.
            let _one = self.tape_states();
            let record = self.tape(vid)?;
            self.need_reclaimable(vid, &record)?;
            if let Some(tape_pool) = record.tape_pool {
                // Asked of one that holds containers too: the last of them may go before the command comes.
                let answer = self.keeper_as_of(vid, tape_pool)?;
                if answer.0 != Keeper::Others && record.containers > 0 {
                    return Err(ArchiveError::Rejected(Rejection::WrongState {
                        object: Object::Tape(vid),
                        state: "in use: it holds containers",
                        needed: "empty to be reclaimed: repack it first",
                    }));
                }
                self.need_backup_known(vid, answer.0)?;
                self.have_it_kept(vid, tape_pool, answer)?;
            }
            self.execute(how)?;
        }
        {
            let mut maintenance = self.maintenance();
            maintenance.repacks.remove(&vid);
            maintenance.checks.remove(&vid);
            maintenance.reclaims.remove(&vid);
        }
        self.post_tape(vid);
        Ok(())
    }

    /// Why a tape without containers cannot be reclaimed now; `None` if it can.
    pub(crate) fn why_not_reclaimed(&self, vid: Vid) -> Result<Option<ArchiveError>, ArchiveError> {
        let record = self.tape(vid)?;
        if let Err(refused) = self.need_reclaimable(vid, &record) {
            return Ok(Some(refused));
        }
        let Some(tape_pool) = record.tape_pool else { return Ok(None) };
        let (keeper, _) = self.keeper_as_of(vid, tape_pool)?;
        match self.need_backup_known(vid, keeper) {
            Ok(()) => self.owed_to(vid, tape_pool, keeper),
            Err(refused) => Ok(Some(refused)),
        }
    }

    /// Right after a start the backup has not told yet what it has. It does not count then, and before it is
    /// known nothing is written to tapes in its place.
    fn need_backup_known(&self, vid: Vid, keeper: Keeper) -> Result<(), ArchiveError> {
        if keeper == Keeper::Others || !self.backup_reach.is_awaited(self.steady()) {
            return Ok(());
        }
        Err(ArchiveError::Rejected(Rejection::WrongState {
            object: Object::Tape(vid),
            state: "waiting for the backup of the catalogue, which has not told yet what it has",
            needed: "reclaimed when that is known, a moment after the start: try again",
        }))
    }

    fn need_reclaimable(&self, vid: Vid, record: &TapeRecord) -> Result<(), ArchiveError> {
        need_identified(vid, record)?;
        if self.read(|view| view.quarantine())?.is_some() {
            return Err(ArchiveError::Rejected(Rejection::WrongState {
                object: Object::Tape(vid),
                state: "in quarantine since the catalogue was restored: it may hold what nobody knows of",
                needed: "out of it to be reclaimed: when nothing of before the restore is needed any more, \
                         end the quarantine with kist pool quarantine --end",
            }));
        }
        match record.state {
            _ if record.run.is_none() => Ok(()),
            TapeState::Active => Err(ArchiveError::TapeInUse(vid)),
            // Nothing but this ends it, and it does so by itself.
            _ => Err(ArchiveError::Rejected(Rejection::WrongState {
                object: Object::Tape(vid),
                state: "being written for the last time: it takes the change log of its pool, or its last \
                        session is being closed",
                needed: "at rest to be reclaimed: try again when that has ended",
            })),
        }
    }

    /// The keeper, and how many tries of tapes to take the history the answer knows of.
    fn keeper_as_of(&self, vid: Vid, tape_pool: TapePoolId) -> Result<(Keeper, u64), ArchiveError> {
        self.question(vid, tape_pool, |question| Ok((question.keeper()?, question.keepers.tries)))
    }

    /// The tapes that could take what a tape has alone of the history, but for their room.
    fn without_room(&self, vid: Vid, tape_pool: TapePoolId) -> Result<Vec<Vid>, ArchiveError> {
        self.question(vid, tape_pool, |question| question.without_room())
    }

    fn question<T>(
        &self,
        vid: Vid,
        tape_pool: TapePoolId,
        ask: impl FnOnce(&Question<'_, '_>) -> Result<T, ReadError>,
    ) -> Result<T, ArchiveError> {
        let (size, has_backup) = (self.catalogue.log_size()?, self.backup_reach.counts());
        let mut keepers = self.keepers();
        keepers.asked.insert(vid);
        self.read(|view| {
            let (tapes, log) = (view.tapes()?, Log::of(view, size)?);
            let mut without_key = BTreeSet::new();
            for (of, tape) in &tapes {
                if view.lacks_key(tape)? {
                    without_key.insert(*of);
                }
            }
            let room = self;
            let question =
                Question { room, view, vid, tape_pool, tapes, without_key, log, size, has_backup, keepers };
            ask(&question)
        })
    }

    fn keepers(&self) -> Keepers {
        let maintenance = self.maintenance();
        Keepers {
            asked: maintenance.reclaims.clone(),
            taking: maintenance
                .tapes
                .iter()
                .filter(|(_, tasks)| tasks.keep_history)
                .map(|(vid, _)| *vid)
                .collect(),
            refused: maintenance.no_keepers.clone(),
            room_left: maintenance.room_left.clone(),
            tries: maintenance.history_tries,
        }
    }

    /// Which tapes count when the changes are chosen that this one gets.
    pub(crate) fn keeping_history(&self, vid: Vid) -> Keeping {
        let maintenance = self.maintenance();
        let keeps = maintenance.tapes.get(&vid).is_some_and(|tasks| tasks.keep_history);
        Keeping { vid, asked: keeps.then(|| maintenance.reclaims.clone()) }
    }

    /// About how many bytes the history takes that a tape would get now, with its index.
    pub(crate) fn history_needed(&self, vid: Vid, tape_pool: TapePoolId) -> Result<ByteCount, ArchiveError> {
        let (keeping, size) = (self.keeping_history(vid), self.catalogue.log_size()?);
        let capacity = self.tape(vid)?.capacity;
        self.read(|view| {
            let log = Log::of(view, size)?;
            let segments = bytes_not_covered(view, tape_pool, &log, &keeping)?;
            Ok(ByteCount(segments + room_for_index(capacity).0))
        })
    }

    /// Whether a tape has room for so much of the history: by what a drive said last of it, and what the
    /// catalogue has counted.
    pub(crate) fn has_room_for_history(&self, vid: Vid, needed: ByteCount) -> Result<bool, ArchiveError> {
        let tape = self.tape(vid)?;
        let told = self.maintenance().room_left.get(&vid).copied();
        Ok(told.map_or(room_left(&tape), |told| told.min(room_left(&tape))) >= needed)
    }

    /// Why a tape waits whose history goes to this keeper; `None`: it need not.
    fn owed_to(
        &self,
        vid: Vid,
        tape_pool: TapePoolId,
        keeper: Keeper,
    ) -> Result<Option<ArchiveError>, ArchiveError> {
        let (other, full) = match keeper {
            Keeper::Others => return Ok(None),
            Keeper::Written(other) | Keeper::Spare(other) => (Some(other), Vec::new()),
            Keeper::Nobody => (None, self.without_room(vid, tape_pool)?),
        };
        Ok(Some(ArchiveError::SegmentsOwed { vid, other, full }))
    }

    /// Has another tape take what is owed, if one does not have it already. Which one is asked anew if a try
    /// ended since the answer: a tape that has just refused would be mounted for nothing.
    fn have_it_kept(
        &self,
        vid: Vid,
        tape_pool: TapePoolId,
        mut answer: (Keeper, u64),
    ) -> Result<(), ArchiveError> {
        loop {
            let (keeper, tries) = answer;
            let is_asked = match keeper {
                Keeper::Others | Keeper::Nobody => true,
                Keeper::Written(other) => self.set_tasks_as_of(tries, other, |it| it.ship = true),
                Keeper::Spare(other) => self.set_tasks_as_of(tries, other, |it| it.keep_history = true),
            };
            if is_asked {
                return self.owed_to(vid, tape_pool, keeper)?.map_or(Ok(()), Err);
            }
            answer = self.keeper_as_of(vid, tape_pool)?;
        }
    }
}

impl Question<'_, '_> {
    fn keeper(&self) -> Result<Keeper, ReadError> {
        let stays = |vid: Vid, tape: &TapeRecord| vid != self.vid && is_to_stay(tape);
        let owed = self.owed(self.tape_pool, stays, None)?;
        if owed.is_nothing() {
            return Ok(Keeper::Others);
        }
        if let Some(vid) = self.first_written(self.tape_pool, owed)? {
            return Ok(Keeper::Written(vid));
        }
        // Where no tape is to be written any more those count that are to be reclaimed too: each is held to
        // this rule in its turn, so that the last one with a change stays.
        let emptied = |vid: Vid, tape: &TapeRecord| self.is_left(vid, tape);
        let owed = self.owed(self.tape_pool, emptied, None)?;
        if owed.is_nothing() {
            return Ok(Keeper::Others);
        }
        if let Some(vid) = self.first_spare(self.tape_pool, owed)? {
            return Ok(Keeper::Spare(vid));
        }
        // Tapes that hold nothing give nothing back without their pool's catalogue, and no second one can
        // have a base.
        if self.all_are_empty() && self.owed(self.tape_pool, emptied, Some(1))?.is_nothing() {
            return Ok(Keeper::Others);
        }
        // The last tape of a pool: without it that holds nothing, like one that has no tape yet.
        if self.of_pool(self.tape_pool).all(|(vid, _)| *vid == self.vid) {
            return self.another_pool();
        }
        Ok(Keeper::Nobody)
    }

    /// Whether a tape is still there with all that it has when this one is reclaimed.
    fn is_left(&self, vid: Vid, tape: &TapeRecord) -> bool {
        vid != self.vid && (is_to_stay(tape) || is_emptied(tape))
    }

    /// Whether a tape that is not written any more could take what is owed, but for its room.
    fn may_be_spare(&self, vid: Vid, tape: &TapeRecord) -> bool {
        let takes = tape.run.is_some() && self.keepers.taking.contains(&vid);
        let may = is_emptied(tape) || is_full(tape) || takes && !tape.is_doubted();
        may && vid != self.vid && self.is_within_reach(vid) && self.room.has_current_key(tape)
    }

    /// Whether a tape can be mounted and written now.
    fn is_within_reach(&self, vid: Vid) -> bool {
        self.room.libraries.holds(vid) && !self.without_key.contains(&vid)
    }

    /// The tape that is written anyway and takes what is owed.
    fn first_written(&self, pool: TapePoolId, owed: Owed) -> Result<Option<Vid>, ReadError> {
        self.first_of(pool, owed, Keeping { vid: self.vid, asked: None }, |_, tape| {
            tape.state == TapeState::Active && self.room.has_current_key(tape)
        })
    }

    /// The tape that is not written any more and takes what is owed. Of those that are to be reclaimed too
    /// the first one with room for it keeps it: else each would be written for the others, again and again.
    fn first_spare(&self, pool: TapePoolId, owed: Owed) -> Result<Option<Vid>, ReadError> {
        let asked = || Some(self.keepers.asked.clone());
        let own = self.tapes.iter().find(|(vid, _)| *vid == self.vid);
        let own_room = match own {
            Some((vid, tape)) => self.has_room(pool, owed, &Keeping { vid: *vid, asked: asked() }, tape)?,
            None => false,
        };
        let stays_longer = |vid| !self.keepers.asked.contains(&vid) || !own_room || vid < self.vid;
        self.first_of(pool, owed, Keeping { vid: self.vid, asked: asked() }, |vid, tape| {
            stays_longer(vid) && self.may_be_spare(vid, tape)
        })
    }

    /// The tapes that could take what is owed, but for their room.
    fn without_room(&self) -> Result<Vec<Vid>, ReadError> {
        let could = |vid: Vid, tape: &TapeRecord| {
            let is_written =
                vid != self.vid && tape.state == TapeState::Active && self.room.has_current_key(tape);
            is_written && self.is_within_reach(vid) || self.may_be_spare(vid, tape)
        };
        let owed = self.owed(self.tape_pool, |vid, tape| self.is_left(vid, tape), None)?;
        let mut full = Vec::new();
        for (vid, tape) in self.of_pool(self.tape_pool).filter(|(vid, tape)| could(*vid, tape)) {
            let asked = (tape.state != TapeState::Active).then(|| self.keepers.asked.clone());
            if !self.has_room(self.tape_pool, owed, &Keeping { vid: *vid, asked }, tape)? {
                full.push(*vid);
            }
        }
        Ok(full)
    }

    /// The labelled tapes of a pool.
    fn of_pool(&self, pool: TapePoolId) -> impl Iterator<Item = &(Vid, TapeRecord)> {
        let is_one = move |tape: &TapeRecord| tape.generation.0 > 0 && tape.tape_pool == Some(pool);
        self.tapes.iter().filter(move |(_, tape)| is_one(tape))
    }

    fn all_are_empty(&self) -> bool {
        self.tapes.iter().all(|(_, tape)| tape.containers == 0)
    }

    /// What the tapes of a pool that count lack. `wanted`: so many of them must have a base, if not as many
    /// as usual.
    fn owed(
        &self,
        tape_pool: TapePoolId,
        counts: impl Fn(Vid, &TapeRecord) -> bool + Copy,
        wanted: Option<usize>,
    ) -> Result<Owed, ReadError> {
        let others = covered(self.view, tape_pool, counts)?;
        let standing = Standing::of_those(self.room, self.view, self.has_backup, counts)?;
        let base = standing.on_tapes(tape_pool, wanted.unwrap_or(standing.wanted()));
        let mut behind_base = self.view.segments(self.vid)?;
        behind_base.retain(|(_, last)| *last > base);
        let is_there = |(first, last): &(u64, u64)| {
            let first = (*first).max(base.saturating_add(1));
            others.iter().any(|(a, b)| *a <= first && last <= b)
        };
        Ok(Owed {
            segments: !behind_base.iter().all(is_there),
            base: standing.needs(tape_pool) && self.log.lacks(base),
        })
    }

    /// The tape of a pool that is to take what is owed, and has room for it: one without a base rather than
    /// one that has it.
    fn first_of(
        &self,
        pool: TapePoolId,
        owed: Owed,
        keeping: Keeping,
        may: impl Fn(Vid, &TapeRecord) -> bool,
    ) -> Result<Option<Vid>, ReadError> {
        let now = self.room.steady();
        let mut found = Vec::new();
        for (vid, tape) in self.of_pool(pool) {
            // One that is being written takes it with its next index.
            let is_free =
                tape.run.is_none() || tape.state == TapeState::Active || self.keepers.taking.contains(vid);
            let is_there = *vid != self.vid && self.is_within_reach(*vid);
            if !(is_free && is_there && may(*vid, tape)) {
                continue;
            }
            let newest = self.view.bases(*vid)?.into_iter().map(|(change, _)| change).max();
            // A second base on one tape is no second one.
            let helps = owed.segments || self.log.lacks(newest.unwrap_or(0));
            let keeping = Keeping { vid: *vid, asked: keeping.asked.clone() };
            if helps && self.has_room(pool, owed, &keeping, tape)? {
                found.push((!self.room.bases.may_write(*vid, now), is_full(tape), newest, *vid));
            }
        }
        Ok(found.into_iter().min().map(|(.., vid)| vid))
    }

    /// Whether a tape has room for what is owed, with its index: by what a drive said last of it, and what
    /// the catalogue has counted.
    fn has_room(
        &self,
        pool: TapePoolId,
        owed: Owed,
        keeping: &Keeping,
        tape: &TapeRecord,
    ) -> Result<bool, ReadError> {
        let base = if owed.base { self.size.other_bytes + 2 * reserve(tape.capacity).0 } else { 0 };
        let segments = bytes_not_covered(self.view, pool, &self.log, keeping)?;
        let history = segments + room_for_index(tape.capacity).0;
        let vid = keeping.vid;
        if self.keepers.refused.get(&vid).is_some_and(|refused| history >= refused.0) {
            return Ok(false);
        }
        let left = self.keepers.room_left.get(&vid).map_or(u64::MAX, |left| left.0).min(room_left(tape).0);
        Ok(left >= history + base)
    }

    /// Whether the tapes of another pool that are to stay have all that this tape has, and as many bases as
    /// they must have when this pool is not there any more; or which of them takes it.
    fn another_pool(&self) -> Result<Keeper, ReadError> {
        let standing = Standing::of(self.room, self.view, self.has_backup)?;
        let others: Vec<TapePoolId> = standing.pools().filter(|pool| *pool != self.tape_pool).collect();
        let one_does = self.has_backup || others.len() > 1 || self.all_are_empty();
        let mut taker = Keeper::Nobody;
        for pool in others {
            let left = |vid: Vid, tape: &TapeRecord| self.is_left(vid, tape);
            let owed = self.owed(pool, left, Some(if one_does { 1 } else { 2 }))?;
            if owed.is_nothing() {
                return Ok(Keeper::Others);
            }
            if taker == Keeper::Nobody {
                let written = self.first_written(pool, owed)?;
                taker = match (written, self.first_spare(pool, owed)?) {
                    (Some(vid), _) => Keeper::Written(vid),
                    (None, Some(vid)) => Keeper::Spare(vid),
                    (None, None) => Keeper::Nobody,
                };
            }
        }
        Ok(taker)
    }
}

impl Owed {
    fn is_nothing(self) -> bool {
        !self.segments && !self.base
    }
}

/// Room for the index behind change-log segments.
pub(crate) fn room_for_index(capacity: ByteCount) -> ByteCount {
    ByteCount(reserve(capacity).0 / 8)
}

/// About how many bytes of the log a tape would get: the changes that the tapes that count do not have, by
/// their share of all.
fn bytes_not_covered(
    view: &View<'_>,
    pool: TapePoolId,
    log: &Log,
    keeping: &Keeping,
) -> Result<u64, ReadError> {
    let (mut next, mut missing) = (log.first.max(1), 0_u64);
    let behind = (log.last.saturating_add(1), u64::MAX);
    for (first, last) in
        covered(view, pool, |vid, tape| keeping.counts(vid, tape))?.into_iter().chain([behind])
    {
        missing = missing.saturating_add(first.min(behind.0).saturating_sub(next));
        next = next.max(last.saturating_add(1));
    }
    let LogSize { changes, bytes, .. } = log.size;
    let share = u128::from(bytes) * u128::from(missing.min(changes)) / u128::from(changes.max(1));
    Ok(u64::try_from(share).unwrap_or(u64::MAX))
}

/// Whether a tape holds no containers any more and can be read: it may be reclaimed too.
pub(crate) fn is_emptied(tape: &TapeRecord) -> bool {
    let is_empty = tape.containers == 0 && tape.run.is_none();
    tape.state == TapeState::Repacking && is_empty && !tape.is_doubted()
}

/// Whether a tape is written to its end and nothing speaks against it.
pub(crate) fn is_full(tape: &TapeRecord) -> bool {
    tape.state == TapeState::Full && tape.run.is_none() && !tape.is_doubted()
}
