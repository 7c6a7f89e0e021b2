//! The rows of a base: all tables as they are at one moment but for the log, of which the newest change alone
//! belongs to it, since that tells the time.

use std::ops::ControlFlow;

use base::Duration;
use catalogue::{KvError, ReadError, Table, Transaction, View, check_record};

use crate::error::ReplayError;
use crate::replay::Replay;
use crate::store::CatalogueStore;
use crate::sums::Sums;

/// Rows read between two looks at the clock.
const ROWS_A_LOOK: u64 = 1_000;
/// The last row of a base has this in place of the number of a table, which no table has: it says what the
/// rows before it add up to.
const SUMS_NUMBER: u8 = 255;
const _: () =
    assert!((Table::ALL[Table::COUNT - 1] as u8) < SUMS_NUMBER, "no table has the number of the sums");
/// Its key.
const SUMS_KEY: &[u8] = b"sums";

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

/// Called for each row of a base: newest change of the base, number of the table, key, record; `false` ends
/// it.
pub type BaseRowVisit<'a> = dyn FnMut(u64, u8, &[u8], &[u8]) -> bool + 'a;

/// Looks at the rows of a base as they come: each must be what was written under its table and key, and all
/// together what the last row says that the tables held.
#[derive(Default)]
pub struct BaseCheck {
    sums: Sums,
    /// What they are said to add up to, and after which change.
    said: Option<(Sums, u64)>,
}

impl BaseCheck {
    /// Takes a row: number of the table, key, record. The table, `None` if the row belongs to none.
    ///
    /// # Errors
    /// If it is not what was written there, or of a table of a newer Kist.
    pub fn row(&mut self, number: u8, key: &[u8], value: &[u8]) -> Result<Option<Table>, ReplayError> {
        let wrong = |reason: String| ReplayError::Base { reason };
        if self.said.is_some() {
            return Err(wrong("rows stand behind its end".to_owned()));
        }
        if number == SUMS_NUMBER {
            let said = Sums::decode(value).filter(|_| key == SUMS_KEY);
            self.said = Some(said.ok_or_else(|| wrong("what its rows add up to is damaged".to_owned()))?);
            return Ok(None);
        }
        let Some(table) = Table::ALL.into_iter().find(|table| table.number() == number) else {
            return Err(wrong(format!("it has a table {number}: a newer Kist has written it")));
        };
        check_record(table, key, value).map_err(|error| wrong(error.to_string()))?;
        self.sums.of(table).add(value);
        Ok(Some(table))
    }

    /// All rows of the base at `change` were taken. Whether it says what they add up to: those that an
    /// earlier Kist has written do not.
    ///
    /// # Errors
    /// If they add up to something else.
    pub fn end(&self, change: u64) -> Result<bool, ReplayError> {
        let Some((said, at)) = &self.said else { return Ok(false) };
        if *at != change {
            let reason = format!("its rows add up to those of change {at}, not {change}");
            return Err(ReplayError::Base { reason });
        }
        match self.sums.difference(said) {
            None => Ok(true),
            Some(table) => {
                let reason = format!("its rows of table {} are not all that were there", table.name());
                Err(ReplayError::Base { reason })
            }
        }
    }
}

impl CatalogueStore {
    /// Gives all rows of a base to `row`, in the order of tables and keys, beside the number of its newest
    /// change; the last one says what they add up to. `false`: `row` said so, or it took longer than
    /// `longest`, since pages that are freed meanwhile cannot be used again.
    ///
    /// # Errors
    /// If the engine fails; if a row is damaged, or the rows of a table are not those of the last commit.
    pub fn each_base_row(&self, longest: Duration, row: &mut BaseRowVisit<'_>) -> Result<bool, ReadError> {
        let began = self.steady();
        self.engine().read_with_sums(|snapshot, committed| {
            let change = View::new(snapshot).last_change()?;
            let newest = change.to_be_bytes();
            let (mut seen, mut goes_on) = (0u64, true);
            let (mut sums, mut damaged) = (Sums::default(), None);
            for table in Table::ALL {
                let from: &[u8] = if table == Table::Change { &newest } else { &[] };
                snapshot.scan(table, from, None, &mut |key, value| {
                    seen += 1;
                    let is_late =
                        seen.is_multiple_of(ROWS_A_LOOK) && self.steady().saturating_sub(began) > longest;
                    damaged = check_record(table, key, value).err();
                    sums.of(table).add(value);
                    goes_on = !is_late && damaged.is_none() && row(change, table.number(), key, value);
                    if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })?;
                if let Some(error) = damaged {
                    return Err(error);
                }
                if !goes_on {
                    return Ok(false);
                }
            }
            // Of the log the newest change alone was read: it has a checksum of its own.
            if let Some(mut committed) = committed {
                *committed.of(Table::Change) = *sums.of(Table::Change);
                if let Some(table) = sums.difference(&committed) {
                    let what = format!(
                        "the rows of table {} are not those of the last commit: stop the server and start \
                         it again, which says how to go on",
                        table.name()
                    );
                    return Err(KvError::Engine(what).into());
                }
            }
            let said = sums.encode(change);
            assert_eq!(
                Sums::decode(&said),
                Some((sums, change)),
                "a base says of its rows what a reader finds"
            );
            Ok(row(change, SUMS_NUMBER, SUMS_KEY, &said))
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
    /// Puts rows of a base into the catalogue, which was empty, each as it was read: table number, key,
    /// record. Committed on return.
    ///
    /// # Errors
    /// As [`BaseCheck::row`]; if the engine fails.
    pub fn put_rows<'r>(
        &mut self,
        check: &mut BaseCheck,
        rows: impl Iterator<Item = (u8, &'r [u8], &'r [u8])>,
    ) -> Result<(), ReplayError> {
        let failed = |error: KvError| ReplayError::Engine(error.to_string());
        let mut txn = self.engine().write().map_err(failed)?;
        for (number, key, value) in rows {
            if let Some(table) = check.row(number, key, value)? {
                txn.put(table, key, value).map_err(failed)?;
            }
        }
        txn.commit().map_err(failed)
    }

    /// All rows of the base are there: the replay goes on behind `change`.
    ///
    /// # Errors
    /// If the rows stand at another change, do not add up to what was written, or, where nothing says what
    /// they add up to, contradict each other.
    pub fn rows_are_whole(&mut self, check: &BaseCheck, change: u64) -> Result<(), ReplayError> {
        let wrong = |reason: String| ReplayError::Base { reason };
        let has_sums = check.end(change)?;
        let last = self.read(|view| view.last_change()).map_err(|error| wrong(error.to_string()))?;
        if last != change {
            return Err(wrong(format!("its rows stand at change {last}, not {change}")));
        }
        if !has_sums {
            let found = self.read(|view| view.check()).map_err(|error| wrong(error.to_string()))?;
            if let Some(first) = found.first() {
                let (table, key, what) = (first.table.name(), &first.key, &first.what);
                return Err(wrong(format!("its rows contradict each other: {table} key {key}: {what}")));
            }
        }
        self.stand_at(change);
        Ok(())
    }
}
