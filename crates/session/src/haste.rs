//! Haste: somebody asked that what is there goes to tape without waiting for more bytes or age.

use std::collections::{BTreeMap, BTreeSet};

use base::{ClassId, Timestamp};

/// What was asked for, and how far it is.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Haste {
    /// When it was last asked for, by whomever.
    asked: Timestamp,
    /// When somebody last asked, by class.
    asked_of: BTreeMap<ClassId, Timestamp>,
    /// Classes of which not all that was there then is sealed yet.
    unsealed: BTreeSet<ClassId>,
}

/// What a writing session must know of it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HasteCall {
    /// When it was last asked for: sessions that are drained since then write their index at once.
    pub asked: Timestamp,
    /// Whether all that was there then is sealed: no later session brings more of it to tape.
    pub is_sealed: bool,
}

impl HasteCall {
    /// Nobody has asked.
    pub const NONE: HasteCall = HasteCall { asked: Timestamp(0), is_sealed: true };
}

impl Haste {
    /// Somebody asks for haste with these classes.
    pub fn ask_for(&mut self, classes: impl Iterator<Item = ClassId>, now: Timestamp) {
        self.asked_of.extend(classes.map(|class| (class, now)));
    }

    /// What waits of these classes now is to go at once.
    pub fn hasten(&mut self, with_files: impl Iterator<Item = ClassId>, now: Timestamp) {
        self.unsealed.extend(with_files);
        self.asked = now;
    }

    /// The last call.
    #[must_use]
    pub fn call(&self) -> HasteCall {
        HasteCall { asked: self.asked, is_sealed: self.unsealed.is_empty() }
    }

    /// A seal of everything has ended that began at `began`; `is_empty`: no file of the class waits now.
    pub fn seal_ended(&mut self, class: ClassId, began: Timestamp, is_empty: bool) {
        if began >= self.asked || is_empty {
            self.unsealed.remove(&class);
        }
    }

    /// Whether somebody asked after a file of the class came.
    #[must_use]
    pub fn covers(&self, class: ClassId, since: Timestamp) -> bool {
        self.asked_of.get(&class).is_some_and(|asked| since <= *asked)
    }
}
