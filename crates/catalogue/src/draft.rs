//! What one command would change, kept apart until the command is known to be valid.

use std::collections::BTreeMap;

use crate::codec::Codec;
use crate::encoding::{Meta, counter_key};
use crate::error::{ReadError, Rejection};
use crate::frame;
use crate::key;
use crate::kv::{KvError, Snapshot, Transaction, Visit};
use crate::overlay::{Overlay, scan_overlaid};
use crate::record::{Counter, QuotaSubject, Tally};
use crate::table::Table;
use crate::view::View;

/// What almost every command changes, kept decoded over the commands of one transaction and written at its
/// end.
#[derive(Default)]
pub(crate) struct Memo {
    meta: Option<Meta>,
    tallies: BTreeMap<Counter, Tally>,
}

impl Memo {
    /// Writes what was changed into the transaction.
    pub(crate) fn write(self, below: &mut dyn Transaction) -> Result<(), KvError> {
        if let Some(meta) = self.meta {
            below.put(Table::Meta, key::META, &frame::seal(Table::Meta, key::META, &meta))?;
        }
        for (counter, tally) in self.tallies {
            let key = counter_key(counter);
            below.put(Table::Counter, &key, &frame::seal(Table::Counter, &key, &tally))?;
        }
        Ok(())
    }
}

/// A transaction with one command's changes laid over it. Dropped, it leaves the transaction as it was.
pub(crate) struct Draft<'t> {
    below: &'t mut dyn Transaction,
    memo: &'t mut Memo,
    /// Of the few tables that a command touches, but for `meta` and `counter`.
    rows: Vec<(Table, Overlay)>,
    /// The record of `meta` as this command changed it.
    meta: Option<Meta>,
    /// The tallies as this command changed them.
    tallies: Vec<(Counter, Tally)>,
    /// By how many files and bytes the use of quotas rises (or falls) with this command.
    pub(crate) charges: BTreeMap<QuotaSubject, (i64, i128)>,
    /// The time of the command.
    pub(crate) at: base::Timestamp,
}

impl<'t> Draft<'t> {
    pub(crate) fn new(below: &'t mut dyn Transaction, memo: &'t mut Memo, at: base::Timestamp) -> Self {
        let charges = BTreeMap::new();
        Draft { below, memo, rows: Vec::with_capacity(12), meta: None, tallies: Vec::new(), charges, at }
    }

    /// The state with the changes so far, but for `meta` and the tallies.
    pub(crate) fn view(&self) -> View<'_> {
        View::new(self)
    }

    fn rows(&self, table: Table) -> Option<&Overlay> {
        assert!(!matches!(table, Table::Meta | Table::Counter), "{table:?} is not read through a draft");
        self.rows.iter().find(|(of, _)| *of == table).map(|(_, rows)| rows)
    }

    fn insert(&mut self, table: Table, key: Vec<u8>, value: Option<Vec<u8>>) {
        assert!(!matches!(table, Table::Meta | Table::Counter), "{table:?} is written by the memo only");
        match self.rows.iter_mut().find(|(of, _)| *of == table) {
            Some((_, rows)) => drop(rows.insert(key, value)),
            None => self.rows.push((table, Overlay::from([(key, value)]))),
        }
    }

    pub(crate) fn put<T: Codec>(&mut self, table: Table, key: Vec<u8>, value: &T) {
        let bytes = frame::seal(table, &key, value);
        assert!(key::fits(table, &key), "a row of {table:?} has a key of {} bytes", key.len());
        debug_assert!(
            frame::open::<T>(table, &key, &bytes)
                .is_ok_and(|again| frame::seal(table, &key, &again) == bytes),
            "what is written to {table:?} is read again as it was"
        );
        self.insert(table, key, Some(bytes));
    }

    pub(crate) fn put_bytes(&mut self, table: Table, key: Vec<u8>, bytes: &[u8]) {
        let sealed = frame::seal_bytes(table, &key, bytes);
        assert!(key::fits(table, &key), "a row of {table:?} has a key of {} bytes", key.len());
        debug_assert!(
            frame::open_bytes(table, &key, &sealed).is_ok_and(|again| again == bytes),
            "what is written to {table:?} is read again as it was"
        );
        self.insert(table, key, Some(sealed));
    }

    pub(crate) fn remove(&mut self, table: Table, key: Vec<u8>) {
        self.insert(table, key, None);
    }

    /// Whether the command changed anything so far.
    pub(crate) fn is_changed(&self) -> bool {
        self.meta.is_some() || !self.tallies.is_empty() || !self.rows.is_empty()
    }

    /// The record of `meta`, if the catalogue is initialised.
    pub(crate) fn known_meta(&self) -> Result<Option<Meta>, ReadError> {
        match self.meta.as_ref().or(self.memo.meta.as_ref()) {
            Some(meta) => Ok(Some(meta.clone())),
            None => View::new(&*self.below).meta(),
        }
    }

    pub(crate) fn meta(&self) -> Result<Meta, Rejection> {
        self.known_meta()?.ok_or(Rejection::NotInitialised)
    }

    /// Changes the record of `meta` and returns what `change` returns.
    pub(crate) fn change_meta<T>(&mut self, change: impl FnOnce(&mut Meta) -> T) -> Result<T, Rejection> {
        let mut meta = self.meta()?;
        let before = meta.ids();
        let (instance, epoch) = (meta.instance, meta.epoch);
        let result = change(&mut meta);
        assert!(
            meta.ids().iter().zip(before).all(|(now, before)| *now >= before),
            "the next ids only rise, so that none is given twice"
        );
        assert!(meta.epoch >= epoch, "the epoch only rises, so that no blob's name is given twice");
        assert_eq!(meta.instance, instance, "a catalogue stays that of its instance");
        self.meta = Some(meta);
        Ok(result)
    }

    /// Makes the first record of `meta`.
    pub(crate) fn put_meta(&mut self, meta: Meta) {
        assert!(self.meta.is_none() && self.memo.meta.is_none(), "a catalogue is made once");
        self.meta = Some(meta);
    }

    /// A tally with the changes so far.
    pub(crate) fn tallied(&self, counter: Counter) -> Result<Tally, ReadError> {
        let changed = self.tallies.iter().find(|(of, _)| *of == counter).map(|(_, tally)| *tally);
        match changed.or_else(|| self.memo.tallies.get(&counter).copied()) {
            Some(tally) => Ok(tally),
            None => View::new(&*self.below).tally(counter),
        }
    }

    /// Adds to a tally.
    pub(crate) fn count(&mut self, counter: Counter, files: u64, bytes: u64) -> Result<(), ReadError> {
        self.tally(counter, |tally| {
            tally.files = tally.files.checked_add(files)?;
            tally.bytes.0 = tally.bytes.0.checked_add(bytes)?;
            Some(())
        })
    }

    /// Takes from a tally.
    pub(crate) fn discount(&mut self, counter: Counter, files: u64, bytes: u64) -> Result<(), ReadError> {
        self.tally(counter, |tally| {
            tally.files = tally.files.checked_sub(files)?;
            tally.bytes.0 = tally.bytes.0.checked_sub(bytes)?;
            Some(())
        })
    }

    fn tally(
        &mut self,
        counter: Counter,
        change: impl FnOnce(&mut Tally) -> Option<()>,
    ) -> Result<(), ReadError> {
        let inconsistent = || ReadError::inconsistent(Table::Counter, &counter_key(counter));
        if let Some((_, tally)) = self.tallies.iter_mut().find(|(of, _)| *of == counter) {
            return change(tally).ok_or_else(inconsistent);
        }
        let mut tally = self.tallied(counter)?;
        change(&mut tally).ok_or_else(inconsistent)?;
        self.tallies.push((counter, tally));
        Ok(())
    }

    /// Writes the changes into the transaction and the memo.
    pub(crate) fn write(self) -> Result<(), KvError> {
        assert!(self.meta.is_some(), "what changes rows has a number in the log");
        let last = self.memo.meta.as_ref().map_or(0, |meta| meta.next_change);
        assert!(
            self.meta.as_ref().is_some_and(|meta| meta.next_change > last),
            "each change has its own number"
        );
        for (table, rows) in self.rows {
            for (key, value) in rows {
                match value {
                    Some(value) => self.below.put(table, &key, &value)?,
                    None => {
                        self.below.delete(table, &key)?;
                    }
                }
            }
        }
        if self.meta.is_some() {
            self.memo.meta = self.meta;
        }
        self.memo.tallies.extend(self.tallies);
        Ok(())
    }
}

impl Snapshot for Draft<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, KvError> {
        match self.rows(table).and_then(|rows| rows.get(key)) {
            Some(value) => Ok(value.as_deref()),
            None => self.below.get(table, key),
        }
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        to: Option<&[u8]>,
        visit: &mut Visit<'_>,
    ) -> Result<(), KvError> {
        match self.rows(table) {
            Some(over) => {
                scan_overlaid(over, from, to, visit, |visit| self.below.scan(table, from, to, visit))
            }
            None => self.below.scan(table, from, to, visit),
        }
    }
}
