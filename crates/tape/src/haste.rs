//! Haste: somebody asked that what is there goes to tape without waiting for more bytes or age.

use base::{ClassId, Timestamp};
use catalogue::Counter;
use scheduler::Event;

use crate::room::Tape;
use ground::ArchiveError;

impl Tape {
    /// Migrates what is there now, of one class or all, without waiting for more bytes or age.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchClass`].
    pub fn migrate_now(&self, class: Option<&str>) -> Result<(), ArchiveError> {
        let engine = self;
        let class = class.map(|name| engine.classes.by_name(name).map(|class| class.id)).transpose()?;
        let now = engine.now();
        engine.haste().ask_for(engine.hastened(class), now);
        engine.hasten(class)
    }
}

impl Tape {
    /// The classes that are meant: one or all.
    fn hastened(&self, only: Option<ClassId>) -> impl Iterator<Item = ClassId> {
        let classes = self.classes.all().iter().map(|class| class.id);
        classes.filter(move |class| only.is_none_or(|only| only == *class))
    }

    /// Has what is there now go to tape without waiting for more bytes or age.
    fn hasten(&self, only: Option<ClassId>) -> Result<(), ArchiveError> {
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
        self.bell.post(Event::MigrateNow(only));
        self.bell.backlog_changed();
        Ok(())
    }

    /// Files of a class wait to be sealed once more, the oldest since then. What somebody asked haste for is
    /// still to go at once.
    pub(crate) fn wait_again(&self, class: ClassId, since: Timestamp) -> Result<(), ArchiveError> {
        self.bell.waits_since(class, since);
        let covers = self.haste().covers(class, since);
        if covers { self.hasten(Some(class)) } else { Ok(()) }
    }
}
