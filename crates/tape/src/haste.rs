//! Haste: somebody asked that what is there goes to tape without waiting for more bytes or age.

use base::{ByteCount, ClassId, TapePoolId, Timestamp};
use catalogue::{Counter, Tally};
use scheduler::{Event, Reason};
use std::collections::BTreeSet;

use crate::reasons::Waiting;
use crate::room::Tape;
use ground::ArchiveError;

/// What waits for a tape and makes room in the pool when it is there.
#[derive(Default)]
pub(crate) struct RoomOnItsWay {
    /// Of these files wait to be gathered.
    classes: Vec<ClassId>,
    tape_pools: BTreeSet<TapePoolId>,
    /// No more than this.
    pub(crate) bytes: ByteCount,
}

impl Tape {
    /// Migrates what is there now, of one class or all, without waiting for more bytes or age.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchClass`].
    pub fn migrate_now(&self, class: Option<&str>) -> Result<(), ArchiveError> {
        let room = self;
        let class = class.map(|name| room.classes.by_name(name).map(|class| class.id)).transpose()?;
        let now = room.now();
        room.haste().ask_for(room.hastened(class), now);
        room.end_rests(class)?;
        room.hasten(class)
    }
}

impl Tape {
    /// The classes that are meant: one or all.
    fn hastened(&self, only: Option<ClassId>) -> impl Iterator<Item = ClassId> {
        let classes = self.classes.all().iter().map(|class| class.id);
        classes.filter(move |class| only.is_none_or(|only| only == *class))
    }

    /// What waits for a tape, comes there without an operator's doing, and may leave the pool then, as far as
    /// counters tell.
    pub(crate) fn room_on_its_way(&self) -> Result<RoomOnItsWay, ArchiveError> {
        let mut found = RoomOnItsWay::default();
        for class in self.classes.all().iter().filter(|class| !class.copies.is_empty()) {
            let counted = |counter| self.read(|view| view.tally(counter));
            let (online, todo) = (counted(Counter::Online(class.id))?, counted(Counter::Todo(class.id))?);
            let floor = if class.settings.cold { 0 } else { class.settings.leaving.pool_min.0 };
            let may_leave = online.bytes.0.saturating_sub(floor);
            let mut queued = 0;
            for pool in &class.copies {
                queued = queued.max(counted(Counter::Queued(*pool))?.bytes.0);
            }
            // The usual case, at each look: no reason is asked for then.
            if may_leave == 0 || todo.bytes.0 == 0 && queued == 0 {
                continue;
            }
            let rests = |reason: &Reason| matches!(reason, Reason::Resting { .. });
            let is_sealed = !self.reason(Waiting::Seal(class.id))?.as_ref().is_some_and(rests);
            let todo = if is_sealed { todo } else { Tally::default() };
            let mut is_kept = false;
            for pool in &class.copies {
                // A file leaves the pool only when it is on all its tapes.
                let keeps = |reason: &Reason| reason.needs_an_operator() || rests(reason);
                is_kept |= self.reason(Waiting::Migration(*pool))?.as_ref().is_some_and(keeps);
            }
            let bytes = todo.bytes.0.saturating_add(queued).min(may_leave);
            if bytes > 0 && !is_kept {
                found.classes.extend((todo.files > 0).then_some(class.id));
                found.tape_pools.extend(class.copies.iter().copied());
                found.bytes.0 = found.bytes.0.saturating_add(bytes);
            }
        }
        Ok(found)
    }

    /// Has it go to tape without waiting for more bytes or age; what rests, rests.
    pub(crate) fn hasten_for_room(&self, found: RoomOnItsWay) {
        let RoomOnItsWay { classes, tape_pools, .. } = found;
        // Held until the time is set: as in `hasten`.
        let mut haste = self.haste();
        haste.hasten(classes.iter().copied(), self.now());
        drop(haste);
        self.notifier.post(Event::MigrateForRoom { classes, tape_pools: tape_pools.into_iter().collect() });
        self.notifier.backlog_changed();
    }

    /// Has what is there now go to tape without waiting for more bytes or age.
    pub(crate) fn hasten(&self, only: Option<ClassId>) -> Result<(), ArchiveError> {
        // Held until the time is set: a seal that ends meanwhile is not taken for one of what is there now.
        let mut haste = self.haste();
        let mut with_files = Vec::new();
        for class in self.hastened(only) {
            if self.read(|view| view.tally(Counter::Todo(class)))?.files > 0 {
                with_files.push(class);
            }
        }
        haste.hasten(with_files.into_iter(), self.now());
        drop(haste);
        self.notifier.post(Event::MigrateNow(only));
        self.notifier.backlog_changed();
        Ok(())
    }

    /// What failed to come to tape is tried at once, unless it is certain to fail again: no tape takes so
    /// much, or the pool does not have its bytes. It rests longer if it fails again.
    fn end_rests(&self, only: Option<ClassId>) -> Result<(), ArchiveError> {
        let (mut in_vain, mut ended) = (BTreeSet::new(), Vec::new());
        for pool in self.classes.tape_pools().keys() {
            let too_large = self.read(|view| self.too_large(view, *pool))?;
            in_vain.extend(too_large.containers.into_iter().map(|(container, _)| container));
        }
        for container in &*self.resting_now() - &in_vain {
            let Some(record) = self.read(|view| view.container(container))? else { continue };
            let class = self.read(|view| {
                let first = view.members(container, None, 1)?.into_iter().next();
                Ok(first.map(|first| view.file(first.file)).transpose()?.flatten().map(|file| file.class))
            })?;
            let is_meant = only.is_none() || class == only;
            if is_meant && self.has_bytes(container, &record)? {
                ended.push(container);
            }
        }
        let now = self.now();
        self.own.resting.cut_short(ended, now);
        Ok(())
    }

    /// Files of a class wait to be sealed once more, the oldest since then. What somebody asked haste for is
    /// still to go at once.
    pub(crate) fn wait_again(&self, class: ClassId, since: Timestamp) -> Result<(), ArchiveError> {
        self.notifier.waits_since(class, since);
        let covers = self.haste().covers(class, since);
        if covers { self.hasten(Some(class)) } else { Ok(()) }
    }
}
