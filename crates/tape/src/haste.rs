//! Haste: somebody asked that what is there goes to tape without waiting for more bytes or age.

use base::{ClassId, Timestamp};
use catalogue::Counter;
use scheduler::{Event, Reason};
use std::collections::BTreeSet;

use crate::room::Tape;
use ground::ArchiveError;

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

    /// Whether something waits for a tape that comes there without an operator's doing.
    pub(crate) fn goes_to_tape(&self) -> Result<bool, ArchiveError> {
        let now = self.now();
        for class in self.classes.all() {
            let waits_for_seal = self.read(|view| view.tally(Counter::Todo(class.id)))?.files > 0;
            let (mut waits, mut is_kept) = (waits_for_seal && !class.copies.is_empty(), false);
            for pool in &class.copies {
                let reason = self.scheduler().why_migrating(*pool, now);
                waits |= reason != Reason::NothingWaits;
                // A file leaves the pool only when it is on all its tapes.
                is_kept |= reason.needs_an_operator() || matches!(reason, Reason::Resting { .. });
            }
            if waits && !is_kept {
                return Ok(true);
            }
        }
        Ok(false)
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
