//! The catalogue's disk: tables in memory whose commits may fail and whose records may rot.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use catalogue::Table;
use store::{CommitControl, CommitFate, MemoryCatalogue, MemoryChange};

use super::faults::Place;
use super::journal::{Effect, Journal};
use super::{Fault, Surroundings};

const COMMIT_NANOS: u64 = 5_000_000;
const SLOW_NANOS: u64 = 5_000_000_000;

/// The tables of a catalogue that outlive the engines. Clones are one.
#[derive(Clone)]
pub struct SimCatalogue {
    tables: MemoryCatalogue,
    control: Arc<Control>,
}

type Values = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

struct Control {
    around: Surroundings,
    journal: Option<Journal>,
    /// The value before the last one of each record.
    previous: Mutex<Values>,
}

impl CommitControl for Control {
    fn fate(&self, _changes: &[MemoryChange]) -> CommitFate {
        let hits = |fault| self.around.faults.hits(fault, Place::Catalogue, &*self.around.pace);
        let slow = if hits(Fault::CatalogueSlow) { SLOW_NANOS } else { 0 };
        self.around.pace.pause(COMMIT_NANOS + slow);
        if threads::simulated::is_dead() {
            CommitFate::Fails
        } else if hits(Fault::CatalogueFull) {
            CommitFate::MapFull
        } else if hits(Fault::CatalogueCommit) {
            CommitFate::Fails
        } else if hits(Fault::CatalogueInDoubt) {
            CommitFate::InDoubt
        } else {
            CommitFate::Durable
        }
    }

    fn committed(&self, changes: &[MemoryChange]) {
        let mut previous = self.previous.lock().unwrap_or_else(PoisonError::into_inner);
        for change in changes {
            let key = (change.table, change.key.clone());
            match &change.old {
                Some(old) => previous.insert(key, old.clone()),
                None => previous.remove(&key),
            };
        }
        if let Some(journal) = &self.journal {
            journal.push(Effect::Catalogue(changes.into()));
        }
    }
}

impl SimCatalogue {
    pub(crate) fn new(from: &MemoryCatalogue, around: Surroundings, journal: Option<Journal>) -> Self {
        let control = Arc::new(Control { around, journal, previous: Mutex::default() });
        let tables = from.fork(Some(Arc::clone(&control) as Arc<dyn CommitControl>));
        SimCatalogue { tables, control }
    }

    /// The tables, to be opened by a store or looked at.
    #[must_use]
    pub fn tables(&self) -> &MemoryCatalogue {
        &self.tables
    }

    /// The process that has the catalogue open dies.
    pub(crate) fn crash(&self) {
        self.tables.fence();
    }

    /// Damages one record of a table, chosen by chance: [`Fault::RecordFlipped`], [`Fault::RecordDropped`] or
    /// [`Fault::RecordStale`]. Gives its key; `None` if there is none to damage.
    #[must_use]
    pub fn damage(&self, fault: Fault, table: Table) -> Option<Vec<u8>> {
        let random = self.control.around.pace.random();
        let snapshot = self.tables.snapshot();
        let previous = self.control.previous.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = snapshot.rows(table).filter(|(key, _)| {
            fault != Fault::RecordStale || previous.contains_key(&(table, (*key).to_vec()))
        });
        let rows: Vec<(&[u8], &[u8])> = rows.collect();
        let (key, value) = rows.get((random as usize).checked_rem(rows.len())?)?;
        let mut flipped = value.to_vec();
        let value = match fault {
            Fault::RecordDropped => None,
            Fault::RecordStale => previous.get(&(table, (*key).to_vec())).map(Vec::as_slice),
            _ => {
                let at = (random >> 20) as usize % flipped.len().max(1);
                *flipped.get_mut(at)? ^= 1 << (random >> 61);
                Some(flipped.as_slice())
            }
        };
        self.tables.overwrite(table, key, value);
        self.control.around.faults.count(fault);
        Some(key.to_vec())
    }
}
