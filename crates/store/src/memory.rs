//! The catalogue's tables in memory, kept outside of the store that uses them: for the simulator and tests.
//!
//! The tables stay when a [`crate::CatalogueStore`] over them ends, as a disk stays when a process dies: what
//! was committed is there, an open transaction is not. No released program opens one.

use std::sync::{Arc, PoisonError, RwLock};

use catalogue::{KvError, Overlay, Rows, Snapshot, Table, Transaction, Visit, scan_overlaid, scan_rows};

/// All tables. A table is copied only if it is changed while a snapshot holds it.
#[derive(Clone)]
struct Tables([Arc<Rows>; Table::COUNT]);

impl Default for Tables {
    fn default() -> Self {
        Tables(std::array::from_fn(|_| Arc::default()))
    }
}

impl Tables {
    fn set(&mut self, table: Table, key: &[u8], value: Option<&[u8]>) {
        let rows = Arc::make_mut(&mut self.0[table.index()]);
        match value {
            Some(value) => drop(rows.insert(key.to_vec(), value.to_vec())),
            None => drop(rows.remove(key)),
        }
    }
}

/// One record that a commit sets or deletes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryChange {
    /// The table.
    pub table: Table,
    /// The key.
    pub key: Vec<u8>,
    /// The value before; `None` if there was none.
    pub old: Option<Vec<u8>>,
    /// The value from now on; `None` if the record is deleted.
    pub new: Option<Vec<u8>>,
}

/// What becomes of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitFate {
    /// It is durable, and the writer is told so.
    Durable,
    /// It fails and changes nothing.
    Fails,
    /// It is durable, but the writer is told that it failed.
    InDoubt,
    /// The map is full; nothing is changed.
    MapFull,
}

/// Decides about commits and hears of them.
pub trait CommitControl: Send + Sync {
    /// What is to become of this commit. May take its time: nothing is locked.
    fn fate(&self, changes: &[MemoryChange]) -> CommitFate;

    /// This commit has just become durable. Called before anybody can see it; must not wait.
    fn committed(&self, changes: &[MemoryChange]);
}

/// The tables of a catalogue in memory. Clones are one.
#[derive(Clone, Default)]
pub struct MemoryCatalogue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    // Not of the crate `threads`: it is never held across a wait, and is used outside of simulated threads.
    state: RwLock<State>,
    control: Option<Arc<dyn CommitControl>>,
}

#[derive(Default)]
struct State {
    tables: Arc<Tables>,
    openings: u64,
}

impl MemoryCatalogue {
    /// Empty tables whose commits all succeed at once.
    #[must_use]
    pub fn new() -> Self {
        MemoryCatalogue::default()
    }

    /// Empty tables whose commits somebody decides about.
    #[must_use]
    pub fn with_control(control: Arc<dyn CommitControl>) -> Self {
        MemoryCatalogue(Arc::new(Shared { state: RwLock::default(), control: Some(control) }))
    }

    /// What is committed now.
    #[must_use]
    pub fn snapshot(&self) -> MemorySnapshot {
        let state = self.0.state.read().unwrap_or_else(PoisonError::into_inner);
        MemorySnapshot(Arc::clone(&state.tables))
    }

    /// Sets or deletes one record behind the catalogue's back, as a damaged disk would. Gives the old value.
    pub fn overwrite(&self, table: Table, key: &[u8], value: Option<&[u8]>) -> Option<Vec<u8>> {
        self.change(|tables| {
            let old = tables.0[table.index()].get(key).cloned();
            tables.set(table, key, value);
            old
        })
    }

    /// Applies changes that another set of tables has committed.
    pub fn replay(&self, changes: &[MemoryChange]) {
        self.change(|tables| {
            changes.iter().for_each(|change| tables.set(change.table, &change.key, change.new.as_deref()));
        });
    }

    /// A copy that goes its own way from here on, under another control.
    #[must_use]
    pub fn fork(&self, control: Option<Arc<dyn CommitControl>>) -> MemoryCatalogue {
        let state = State { tables: self.snapshot().0, openings: 0 };
        MemoryCatalogue(Arc::new(Shared { state: RwLock::new(state), control }))
    }

    /// From now on stores that were opened before cannot commit, as if their process had died.
    pub fn fence(&self) {
        self.0.state.write().unwrap_or_else(PoisonError::into_inner).openings += 1;
    }

    fn change<T>(&self, change: impl FnOnce(&mut Tables) -> T) -> T {
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        change(Arc::make_mut(&mut state.tables))
    }

    /// Opens the tables; whoever had them open before cannot commit any more.
    pub(crate) fn open(&self) -> MemoryEngine {
        let mut state = self.0.state.write().unwrap_or_else(PoisonError::into_inner);
        state.openings += 1;
        MemoryEngine { tables: self.clone(), opening: state.openings }
    }
}

/// A snapshot of tables in memory; keeps them as they were.
#[derive(Clone)]
pub struct MemorySnapshot(Arc<Tables>);

impl MemorySnapshot {
    /// All rows of a table in order.
    pub fn rows(&self, table: Table) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.0[table.index()].iter().map(|(key, value)| (key.as_slice(), value.as_slice()))
    }
}

impl Snapshot for MemorySnapshot {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, KvError> {
        Ok(self.0.0[table.index()].get(key).map(Vec::as_slice))
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError> {
        scan_rows(&self.0.0[table.index()], from, to, visit);
        Ok(())
    }
}

/// Tables in memory as one store has them open.
pub(crate) struct MemoryEngine {
    tables: MemoryCatalogue,
    opening: u64,
}

impl MemoryEngine {
    pub(crate) fn read(&self) -> MemorySnapshot {
        self.tables.snapshot()
    }

    /// Rows of a table, and bytes of their keys and values.
    pub(crate) fn table_size(&self, table: Table) -> (u64, u64) {
        let snapshot = self.read();
        let bytes = |(key, value): (&[u8], &[u8])| (key.len() + value.len()) as u64;
        (snapshot.rows(table).count() as u64, snapshot.rows(table).map(bytes).sum())
    }

    pub(crate) fn write(&self) -> MemoryWriting<'_> {
        MemoryWriting {
            engine: self,
            base: self.read(),
            changes: std::array::from_fn(|_| Overlay::default()),
        }
    }
}

/// The writing transaction: what it changes, over the tables as they were when it began.
pub(crate) struct MemoryWriting<'e> {
    engine: &'e MemoryEngine,
    base: MemorySnapshot,
    changes: [Overlay; Table::COUNT],
}

impl MemoryWriting<'_> {
    pub(crate) fn is_changed(&self) -> bool {
        self.changes.iter().any(|overlay| !overlay.is_empty())
    }

    pub(crate) fn commit(self) -> Result<(), KvError> {
        let MemoryWriting { engine, base, changes } = self;
        let mut list = Vec::new();
        for (table, overlay) in Table::ALL.into_iter().zip(changes) {
            for (key, new) in overlay {
                let old = base.get(table, &key)?.map(<[u8]>::to_vec);
                list.push(MemoryChange { table, key, old, new });
            }
        }
        // Given back first, so that no table needs to be copied.
        drop(base);
        let control = engine.tables.0.control.as_deref();
        let fate = control.map_or(CommitFate::Durable, |control| control.fate(&list));
        assert!(
            list.is_sorted_by(|one, next| (one.table, &one.key) < (next.table, &next.key)),
            "each row is changed once by a commit"
        );
        let mut state = engine.tables.0.state.write().unwrap_or_else(PoisonError::into_inner);
        assert!(state.openings >= engine.opening, "openings are counted up");
        if state.openings != engine.opening {
            return Err(KvError::Engine("the process of this store has ended".to_owned()));
        }
        match fate {
            CommitFate::Fails => return Err(KvError::Engine("planted: input/output error".to_owned())),
            CommitFate::MapFull => return Err(KvError::MapFull),
            CommitFate::Durable | CommitFate::InDoubt => {}
        }
        let tables = Arc::make_mut(&mut state.tables);
        list.iter().for_each(|change| tables.set(change.table, &change.key, change.new.as_deref()));
        debug_assert!(
            list.iter().all(|change| tables.0[change.table.index()].get(&change.key) == change.new.as_ref()),
            "each row stands as the commit has it"
        );
        if let Some(control) = control {
            control.committed(&list);
        }
        match fate {
            CommitFate::InDoubt => Err(KvError::Engine("planted: durable, but not confirmed".to_owned())),
            _ => Ok(()),
        }
    }
}

impl Snapshot for MemoryWriting<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, KvError> {
        match self.changes[table.index()].get(key) {
            Some(changed) => Ok(changed.as_deref()),
            None => self.base.get(table, key),
        }
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError> {
        let over = &self.changes[table.index()];
        scan_overlaid(over, from, to, visit, |visit| self.base.scan(table, from, to, visit))
    }
}

impl Transaction for MemoryWriting<'_> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), KvError> {
        self.changes[table.index()].insert(key.to_vec(), Some(value.to_vec()));
        Ok(())
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<bool, KvError> {
        let was_there = self.get(table, key)?.is_some();
        self.changes[table.index()].insert(key.to_vec(), None);
        Ok(was_there)
    }
}
