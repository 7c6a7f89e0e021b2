//! What stands on the drives of a group, and moves to others: what nobody has used for as long as its class
//! says, and what was not used for longest where the group is fuller than its high water. What is used again
//! comes back.
//!
//! Nothing of it is asked for by a word that lasts: it follows from the order of use and from where blobs
//! stand. How far it has looked is kept in memory. It gives way to rebuilds, to drives that are emptied and
//! to changes of code. Small values lie on the drives in no group.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use base::DriveGroup;
use base::{BlobDescription, BlobId, ByteCount, ClassId, Duration, FileId, Layout, Timestamp};
use catalogue::{ReadError, UseHour, View};
use ground::{ArchiveError, Class, GroupInfo, GroupSettings, PoolWork};

use crate::Upkeep;
use crate::anew::{Failed, WrittenAnew};
use crate::scrub::Scrubber;

/// How often it looks what is to move, if nothing moves.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// So often all that stands in a group is looked at again: a class may have been given to a file since.
const WHOLE_LOOK_EVERY: Duration = Duration::from_secs(86_400);
/// Files looked at in one step, and read together.
const FILES_MAX: usize = 2_000;
const PAGE: usize = 200;
/// Blobs that come next.
const FOUND_MAX: usize = 64;
/// Files that are used again, looked at in one step.
const AGAIN_MAX: usize = 200;
/// Between two steps of looking other work has its turn.
const LOOK_PAUSE: Duration = Duration::from_millis(500);
/// Moves that could not be and are tried again after so long; further ones are found by the next whole look.
const LEFT_MAX: usize = 1_000;
const LEFT_REST: Duration = Duration::from_secs(60);
/// Blobs that came back and are remembered: others may stand with them that nobody uses.
const CAME_MAX: usize = 10_000;
/// A blob that came back stays for so long at least, whatever the group has above its high water.
const CAME_STAYS: Duration = Duration::from_secs(3_600);

/// Where to a blob moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Move {
    blob: BlobId,
    /// The group that it leaves, or comes to.
    group: DriveGroup,
    to: DriveGroup,
}

/// What is known of such moves.
#[derive(Default)]
pub(crate) struct Placing {
    /// Up to where in the order of use of a class all that is to leave a group was looked at.
    passed: BTreeMap<(DriveGroup, ClassId), (UseHour, FileId)>,
    /// When all of it is looked at again, and when the next look comes, by the steady clock.
    whole_at: Duration,
    due: Duration,
    found: VecDeque<Move>,
    current: Option<(Move, WrittenAnew)>,
    failed: Failed,
    /// What could not move since the last look at all, and why the first of it.
    left: (VecDeque<Move>, String),
    /// When what could not move is tried again.
    left_due: Duration,
    /// When blobs came back.
    came: BTreeMap<BlobId, Duration>,
}

impl Placing {
    fn has_found(&self, blob: BlobId) -> bool {
        self.found.iter().any(|found| found.blob == blob)
    }

    fn note_left(&mut self, step: Move, why: impl FnOnce() -> String) {
        let (steps, first) = &mut self.left;
        if steps.is_empty() {
            *first = why();
        }
        if steps.len() < LEFT_MAX {
            steps.push_back(step);
        }
    }

    fn note_came(&mut self, blob: BlobId, now: Duration) {
        if self.came.len() >= CAME_MAX {
            self.came.retain(|_, came| now.saturating_sub(*came) < WHOLE_LOOK_EVERY);
        }
        if self.came.len() < CAME_MAX {
            self.came.insert(blob, now);
        }
    }

    /// Whether a blob has come back not long ago: of several files in it one may be used and others not.
    fn has_come(&self, blob: BlobId, stays: Duration, now: Duration) -> bool {
        self.came.get(&blob).is_some_and(|came| now.saturating_sub(*came) < stays)
    }
}

/// A class whose files stand in a group, on the way through the order of their use.
struct Line<'a> {
    class: &'a Class,
    page: VecDeque<(UseHour, FileId)>,
    old: Old,
}

/// What of a class is to leave a group, whether that has room or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Old {
    /// Nothing.
    Nothing,
    /// What was used last before this hour.
    Before(UseHour),
    /// All: the group is none of the class.
    All,
}

impl Old {
    /// What of a class is to leave this group.
    fn of(class: &Class, is_of_group: bool, now: Timestamp) -> Old {
        if !is_of_group {
            return Old::All;
        }
        let Some(unused_for) = class.settings.placing.unused_for else { return Old::Nothing };
        let span = i64::try_from(unused_for.as_nanos()).unwrap_or(i64::MAX);
        Old::Before(UseHour::of(Timestamp(now.0.saturating_sub(span))))
    }

    fn has(self, hour: UseHour) -> bool {
        match self {
            Old::Nothing => false,
            Old::Before(limit) => hour < limit,
            Old::All => true,
        }
    }
}

impl Scrubber {
    /// Moves the next part of what stands in the wrong group; `false` if there is nothing to be done now.
    /// `first`: what comes before it.
    pub(crate) fn place(&mut self, first: Option<&str>) -> Result<bool, ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        if upkeep.settings.pool.groups.is_empty() {
            return Ok(false);
        }
        let waits = match first {
            Some(first) => Some(first),
            None => self.anew_waits_for()?,
        };
        if let Some(why) = waits {
            // Drives may be replaced meanwhile, which nobody looks through for what no record names yet: it
            // is begun anew.
            if let Some((step, _)) = self.placing.current.take() {
                self.placing.found.push_front(step);
            }
            upkeep.placing_state(PoolWork::Waiting(why.to_owned()));
            return Ok(false);
        }
        if self.placing.current.is_none()
            && self.placing.found.is_empty()
            && self.placing.due > upkeep.steady()
        {
            return Ok(false);
        }
        self.me.does("moving blobs between groups of drives");
        self.phase("placing");
        let mut placing = std::mem::take(&mut self.placing);
        let done = self.place_some(&mut placing);
        self.placing = placing;
        self.phase("idle");
        match done {
            Ok(is_at_work) => Ok(is_at_work),
            Err(ArchiveError::Stopping) => Ok(false),
            Err(error) => {
                // It must not keep the scrubber from all else.
                tracing::warn!(%error, "what is to move between groups of drives waits");
                upkeep.placing_state(PoolWork::Waiting(error.to_string()));
                self.placing.due = upkeep.steady().saturating_add(LOOK_EVERY);
                Ok(false)
            }
        }
    }

    fn place_some(&mut self, placing: &mut Placing) -> Result<bool, ArchiveError> {
        if let Some((step, anew)) = placing.current.take() {
            return self.place_on(placing, step, anew);
        }
        if let Some(step) = placing.found.pop_front() {
            return self.place_begin(placing, step).inspect_err(|_| placing.found.push_front(step));
        }
        self.place_look(placing)
    }

    fn place_on(
        &mut self,
        placing: &mut Placing,
        step: Move,
        anew: WrittenAnew,
    ) -> Result<bool, ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        let mut current = Some(anew);
        match self.write_anew(&mut current) {
            Ok(None) => placing.current = current.map(|anew| (step, anew)),
            Ok(Some(bytes)) => {
                placing.failed.is_done(step.blob);
                upkeep.has_placed(step.group, step.to, bytes);
                if step.to != DriveGroup::MAIN {
                    placing.note_came(step.blob, upkeep.steady());
                }
            }
            Err(_) if upkeep.stopping() => return Err(ArchiveError::Stopping),
            Err(error) => {
                tracing::warn!(blob = %step.blob, %error, "a blob stays in the group where it is for now");
                placing.failed.note(step.blob, upkeep.steady());
                placing.note_left(step, || error.to_string());
            }
        }
        Ok(true)
    }

    /// Begins with a blob if it still is to move and there is room for it.
    fn place_begin(&mut self, placing: &mut Placing, step: Move) -> Result<bool, ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        if self.still_reads_much() {
            placing.found.push_front(step);
            placing.due = upkeep.steady().saturating_add(LOOK_EVERY);
            let why = "what was written anew is still read as it was before, and takes its room until then";
            upkeep.placing_state(PoolWork::Waiting(why.to_owned()));
            return Ok(false);
        }
        let reading = upkeep.gate.enter();
        let blob = upkeep.read(|view| view.blob(step.blob))?;
        let Some(blob) = blob.filter(|blob| upkeep.is_to_move(blob, step)) else { return Ok(true) };
        if !placing.failed.is_tried(step.blob, upkeep.steady()) {
            placing.note_left(step, || "it could not be written anew, and is tried again later".to_owned());
            return Ok(true);
        }
        let comes_to = upkeep.settings.pool.settings_of(step.to);
        let is_spare = comes_to.is_none_or(|settings| upkeep.has_spare(step.to, settings, blob.length));
        let has_room = is_spare && upkeep.has_room_anew(step.to, blob.length);
        if !has_room {
            // What comes back finds room or not; what is to leave is tried again.
            if step.to == DriveGroup::MAIN {
                let why = || format!("a blob of {} finds no room on the drives in no group", blob.length);
                placing.note_left(step, why);
            }
            return Ok(true);
        }
        let anew = self.begin_anew(&blob, step.to);
        drop(reading);
        upkeep.placing_state(PoolWork::Working);
        match anew {
            Ok(anew) => placing.current = Some((step, anew)),
            Err(error) => {
                placing.failed.note(step.blob, upkeep.steady());
                placing.note_left(step, || error.to_string());
            }
        }
        Ok(true)
    }

    /// Looks at the next files; at the end of all, what it has come to.
    fn place_look(&mut self, placing: &mut Placing) -> Result<bool, ArchiveError> {
        let upkeep = Arc::clone(&self.upkeep);
        let now = upkeep.steady();
        if placing.whole_at <= now {
            placing.passed.clear();
            placing.whole_at = now.saturating_add(WHOLE_LOOK_EVERY);
        }
        let (mut is_through, mut lacks_room) = (true, false);
        for (group, settings) in upkeep.settings.pool.numbered_groups() {
            let excess = upkeep.excess(group, settings);
            lacks_room |= excess > 0;
            is_through &= upkeep.find_old(placing, group, excess)?;
        }
        upkeep.find_used_again(placing)?;
        if placing.left_due <= now {
            let (steps, _) = std::mem::take(&mut placing.left);
            placing.found.extend(steps);
            placing.left_due = now.saturating_add(LEFT_REST);
        }
        if !placing.found.is_empty() {
            // What leaves for want of room is gone from the drives only after a while.
            placing.due = if lacks_room { now.saturating_add(LOOK_EVERY) } else { now };
            return Ok(true);
        }
        // To look alone takes nothing from others that wait.
        placing.due = now.saturating_add(if is_through { LOOK_EVERY } else { LOOK_PAUSE });
        let state = match &placing.left {
            (steps, why) if !steps.is_empty() => PoolWork::Waiting(why.clone()),
            _ if is_through => PoolWork::Ended("nothing is to move".to_owned()),
            _ => PoolWork::Counting,
        };
        upkeep.placing_state(state);
        Ok(false)
    }
}

impl Upkeep {
    /// Finds what is to leave a group; whether all was looked at.
    fn find_old<'a>(
        &'a self,
        placing: &mut Placing,
        group: DriveGroup,
        mut excess: u64,
    ) -> Result<bool, ArchiveError> {
        let (now, steady) = (self.now(), self.steady());
        let line = |class: &'a Class| {
            let old = Old::of(class, self.group_of_class(class.id) == group, now);
            Line { class, page: VecDeque::new(), old }
        };
        let mut lines: Vec<Line<'_>> = self.classes.all().iter().map(line).collect();
        let mut looked_at = 0;
        while looked_at < FILES_MAX && placing.found.len() < FOUND_MAX && !self.stopping() {
            let mut first: Option<(UseHour, usize)> = None;
            for (at, line) in lines.iter_mut().enumerate() {
                let Some(hour) = self.front(placing, group, line)? else { continue };
                if (line.old.has(hour) || excess > 0) && first.is_none_or(|(known, _)| hour < known) {
                    first = Some((hour, at));
                }
            }
            let Some(line) = first.and_then(|(_, at)| lines.get_mut(at)) else { return Ok(true) };
            let Some((hour, file)) = line.page.pop_front() else { return Ok(true) };
            placing.passed.insert((group, line.class.id), (hour, file));
            looked_at += 1;
            let stays = match line.class.settings.placing.unused_for {
                Some(unused_for) if line.old.has(hour) => unused_for,
                _ => CAME_STAYS,
            };
            for blob in self.read(|view| striped(view, file))? {
                let step = Move { blob: blob.id, group, to: DriveGroup::MAIN };
                let leaves = self.is_to_move(&blob, step) && !placing.has_found(blob.id);
                if leaves && !placing.has_come(blob.id, stays, steady) {
                    excess = excess.saturating_sub(blob.length.0);
                    placing.found.push_back(step);
                }
            }
        }
        Ok(false)
    }

    /// When the next file of a class was used, behind what was looked at.
    fn front(
        &self,
        placing: &Placing,
        group: DriveGroup,
        line: &mut Line<'_>,
    ) -> Result<Option<UseHour>, ArchiveError> {
        if line.page.is_empty() {
            let class = line.class.id;
            let after = placing.passed.get(&(group, class)).copied();
            line.page = self.read(|view| view.by_use(class, after, PAGE))?.into();
        }
        Ok(line.page.front().map(|(hour, _)| *hour))
    }

    /// Bytes of blobs that a group has above its low water, if it is above its high water.
    fn excess(&self, group: DriveGroup, settings: &GroupSettings) -> u64 {
        let room = self.pool.group_room(group);
        if room.used <= part(room.capacity, settings.water.high_percent) {
            return 0;
        }
        let raw = room.used.0.saturating_sub(part(room.capacity, settings.water.low_percent).0);
        settings.code.of_raw(ByteCount(raw)).0
    }

    /// Whether a group has room for more without being above its low water.
    fn has_spare(&self, group: DriveGroup, settings: &GroupSettings, bytes: ByteCount) -> bool {
        let room = self.pool.group_room(group);
        let after = room.used.0.saturating_add(settings.code.raw(bytes).0);
        ByteCount(after) <= part(room.capacity, settings.water.low_percent)
    }

    /// Finds what comes to a group since it is used again.
    fn find_used_again(&self, placing: &mut Placing) -> Result<(), ArchiveError> {
        for file in self.uses.take_again(AGAIN_MAX) {
            let class = self.read(|view| Ok(view.file(file)?.map(|file| file.class)))?;
            let Some(group) = class.map(|class| self.group_of_class(class)) else { continue };
            let Some(settings) = self.settings.pool.settings_of(group) else { continue };
            for blob in self.read(|view| striped(view, file))? {
                let step = Move { blob: blob.id, group, to: group };
                let comes = self.is_to_move(&blob, step) && self.has_spare(group, settings, blob.length);
                if comes && !placing.has_found(blob.id) && placing.found.len() < 2 * FOUND_MAX {
                    placing.found.push_back(step);
                }
            }
        }
        Ok(())
    }

    /// Whether a blob stands where it is to leave.
    fn is_to_move(&self, blob: &BlobDescription, step: Move) -> bool {
        let stands_in = self.pool.group_of_blob(blob);
        let is_striped = matches!(blob.layout, Layout::Striped { .. });
        is_striped && if step.to == DriveGroup::MAIN { stands_in == step.group } else { stands_in != step.to }
    }

    fn placing_state(&self, state: PoolWork) {
        self.placed().state = state;
    }

    /// So many bytes have moved.
    fn has_placed(&self, group: DriveGroup, to: DriveGroup, bytes: ByteCount) {
        let mut placed = self.placed();
        let (out, back) = placed.moved.entry(group).or_default();
        let sum = if to == DriveGroup::MAIN { out } else { back };
        sum.0 = sum.0.saturating_add(bytes.0);
    }

    /// The groups of drives: how full each is, and what has moved since the start.
    #[must_use]
    pub fn group_infos(&self) -> Vec<GroupInfo> {
        let placed = self.placed();
        let (state, moved) = (placed.state.clone(), placed.moved.clone());
        drop(placed);
        let info = |(group, settings): (DriveGroup, &GroupSettings)| {
            let (left, came) = moved.get(&group).copied().unwrap_or_default();
            GroupInfo {
                name: settings.name.clone(),
                code: settings.code,
                water: settings.water,
                room: self.pool.group_room(group),
                left,
                came,
                state: state.clone(),
            }
        };
        self.settings.pool.numbered_groups().map(info).collect()
    }
}

/// So many percent of a size.
fn part(of: ByteCount, percent: u8) -> ByteCount {
    ByteCount(u64::try_from(u128::from(of.0) * u128::from(percent) / 100).unwrap_or(u64::MAX))
}

/// The striped blobs of a file.
fn striped(view: &View<'_>, file: FileId) -> Result<Vec<BlobDescription>, ReadError> {
    let Some(record) = view.file(file)? else { return Ok(Vec::new()) };
    let mut blobs = Vec::new();
    for piece in &record.pieces {
        if let Some(blob) =
            view.blob(piece.blob)?.filter(|blob| matches!(blob.layout, Layout::Striped { .. }))
        {
            blobs.push(blob);
        }
    }
    Ok(blobs)
}

/// What has moved between groups since the start, and what is done now.
#[derive(Default)]
pub(crate) struct Placed {
    state: PoolWork,
    /// By group, what has left it and what came to it.
    moved: BTreeMap<DriveGroup, (ByteCount, ByteCount)>,
}
