//! What one command would change, kept apart until the command is known to be valid.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};

use crate::codec::Codec;
use crate::encoding::{Meta, counter_key};
use crate::error::{ReadError, Rejection};
use crate::frame;
use crate::key;
use crate::kv::{KvError, Snapshot, Transaction, Visit};
use crate::record::{Counter, Tally};
use crate::table::Table;
use crate::view::View;

type Rows = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A transaction with one command's changes laid over it. Dropped, it leaves the transaction as it was.
pub(crate) struct Draft<'t> {
    below: &'t mut dyn Transaction,
    rows: [Rows; Table::COUNT],
    /// The time of the command.
    pub(crate) at: base::Timestamp,
}

impl<'t> Draft<'t> {
    pub(crate) fn new(below: &'t mut dyn Transaction, at: base::Timestamp) -> Self {
        Draft { below, rows: std::array::from_fn(|_| Rows::new()), at }
    }

    /// The state with the changes so far.
    pub(crate) fn view(&self) -> View<'_> {
        View::new(self)
    }

    pub(crate) fn put<T: Codec>(&mut self, table: Table, key: Vec<u8>, value: &T) {
        let bytes = frame::seal(table, &key, value);
        self.rows[table.index()].insert(key, Some(bytes));
    }

    pub(crate) fn put_bytes(&mut self, table: Table, key: Vec<u8>, bytes: &[u8]) {
        let bytes = frame::seal_bytes(table, &key, bytes);
        self.rows[table.index()].insert(key, Some(bytes));
    }

    pub(crate) fn remove(&mut self, table: Table, key: Vec<u8>) {
        self.rows[table.index()].insert(key, None);
    }

    /// Whether the command changed anything so far.
    pub(crate) fn is_changed(&self) -> bool {
        self.rows.iter().any(|rows| !rows.is_empty())
    }

    pub(crate) fn meta(&self) -> Result<Meta, Rejection> {
        self.view().meta()?.ok_or(Rejection::NotInitialised)
    }

    /// Changes the record of `meta` and returns what `change` returns.
    pub(crate) fn change_meta<T>(&mut self, change: impl FnOnce(&mut Meta) -> T) -> Result<T, Rejection> {
        let mut meta = self.meta()?;
        let result = change(&mut meta);
        self.put(Table::Meta, key::META.to_vec(), &meta);
        Ok(result)
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
        let key = counter_key(counter);
        let mut tally = self.view().tally(counter)?;
        change(&mut tally).ok_or_else(|| ReadError::inconsistent(Table::Counter, &key))?;
        self.put(Table::Counter, key, &tally);
        Ok(())
    }

    /// Writes the changes into the transaction.
    pub(crate) fn write(self) -> Result<(), KvError> {
        for (table, rows) in Table::ALL.into_iter().zip(self.rows) {
            for (key, value) in rows {
                match value {
                    Some(value) => self.below.put(table, &key, &value)?,
                    None => {
                        self.below.delete(table, &key)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Snapshot for Draft<'_> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<&[u8]>, KvError> {
        match self.rows[table.index()].get(key) {
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
        if to.is_some_and(|to| to <= from) {
            return Ok(());
        }
        let bound = to.map_or(Bound::Unbounded, Bound::Excluded);
        let mut over = self.rows[table.index()].range::<[u8], _>((Bound::Included(from), bound)).peekable();
        let mut stopped = false;
        self.below.scan(table, from, to, &mut |key, value| {
            while let Some((over_key, over_value)) = over.next_if(|(over_key, _)| over_key.as_slice() < key) {
                if over_value.as_ref().is_some_and(|value| visit(over_key, value).is_break()) {
                    stopped = true;
                    return ControlFlow::Break(());
                }
            }
            let flow = match over.next_if(|(over_key, _)| over_key.as_slice() == key) {
                Some((_, Some(over_value))) => visit(key, over_value),
                Some((_, None)) => ControlFlow::Continue(()),
                None => visit(key, value),
            };
            stopped = flow.is_break();
            flow
        })?;
        if !stopped {
            for (key, value) in over {
                if value.as_ref().is_some_and(|value| visit(key, value).is_break()) {
                    break;
                }
            }
        }
        Ok(())
    }
}
