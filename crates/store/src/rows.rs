//! The rows of a base: all tables as they are at one moment but for the log, of which the newest change alone
//! belongs to it, since that tells the time.

use std::ops::ControlFlow;

use base::Duration;
use catalogue::{ReadError, Table, Transaction, View, check_record};

use crate::error::ReplayError;
use crate::replay::Replay;
use crate::store::CatalogueStore;

/// Rows read between two looks at the clock.
const ROWS_A_LOOK: u64 = 1_000;

/// How much of a catalogue its log is.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LogSize {
    /// Changes in the log.
    pub changes: u64,
    /// Bytes of the log's pages.
    pub bytes: u64,
    /// Bytes of the pages of all other tables.
    pub other_bytes: u64,
}

/// Called for each row of a base: newest change of the base, table, key, record; `false` ends it.
pub type BaseRowVisit<'a> = dyn FnMut(u64, Table, &[u8], &[u8]) -> bool + 'a;

impl CatalogueStore {
    /// Gives all rows of a base to `row`, in the order of tables and keys, beside the number of its newest
    /// change. `false`: `row` said so, or it took longer than `longest`, since pages that are freed meanwhile
    /// cannot be used again.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn each_base_row(&self, longest: Duration, row: &mut BaseRowVisit<'_>) -> Result<bool, ReadError> {
        let began = self.steady();
        self.engine().read(|snapshot| {
            let change = View::new(snapshot).last_change()?;
            let newest = change.to_be_bytes();
            let (mut seen, mut goes_on) = (0u64, true);
            for table in Table::ALL {
                let from: &[u8] = if table == Table::Change { &newest } else { &[] };
                snapshot.scan(table, from, None, &mut |key, value| {
                    seen += 1;
                    let is_late =
                        seen.is_multiple_of(ROWS_A_LOOK) && self.steady().saturating_sub(began) > longest;
                    goes_on = !is_late && row(change, table, key, value);
                    if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })?;
                if !goes_on {
                    break;
                }
            }
            Ok(goes_on)
        })
    }

    /// How much of the catalogue its log is. Costs nothing that grows with it.
    ///
    /// # Errors
    /// If the engine fails.
    pub fn log_size(&self) -> Result<LogSize, ReadError> {
        self.engine().log_size()
    }
}

impl Replay {
    /// Puts rows of a base into the empty catalogue, each as it was read: table number, key, record.
    /// Committed on return.
    ///
    /// # Errors
    /// If one is not what was written there, or of a table of a newer Kist.
    pub fn put_rows<'r>(
        &mut self,
        rows: impl Iterator<Item = (u8, &'r [u8], &'r [u8])>,
    ) -> Result<(), ReplayError> {
        let wrong = |reason: String| ReplayError::Base { reason };
        let failed = |error: catalogue::KvError| ReplayError::Engine(error.to_string());
        let mut txn = self.engine().write().map_err(failed)?;
        for (number, key, value) in rows {
            let table = Table::ALL.into_iter().find(|table| table.number() == number);
            let Some(table) = table else {
                return Err(wrong(format!("it has a table {number}: a newer Kist has written it")));
            };
            check_record(table, key, value).map_err(|error| wrong(error.to_string()))?;
            txn.put(table, key, value).map_err(failed)?;
        }
        txn.commit().map_err(failed)
    }

    /// All rows of the base are there: the replay goes on behind `change`.
    ///
    /// # Errors
    /// If the rows stand at another change.
    pub fn rows_are_whole(&mut self, change: u64) -> Result<(), ReplayError> {
        let last = self
            .read(|view| view.last_change())
            .map_err(|error| ReplayError::Base { reason: error.to_string() })?;
        if last != change {
            let reason = format!("its rows stand at change {last}, not {change}");
            return Err(ReplayError::Base { reason });
        }
        self.stand_at(change);
        Ok(())
    }
}
