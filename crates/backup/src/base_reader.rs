//! Reading a base of the catalogue: the rows that tapes hold of it as it was after one change.

use base::Uuid;
use ltfs::catalogue_base::{BasePart, BasePartError};
use store::{BaseCheck, ReplayError};

/// A base that is read part by part, in order: each row must be what was written, and all rows of all tables
/// must be there.
pub struct BaseReader {
    instance: Uuid,
    change: u64,
    parts: u32,
    /// Parts taken.
    taken: u32,
    rows: u64,
    /// What the rows taken add up to: whoever puts them into a catalogue adds them as it does.
    pub(crate) check: BaseCheck,
}

/// Why a base, or a copy of a part of it, cannot be used. Another tape may have it whole; else an older base
/// is to be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BaseError {
    /// It is no part of a base, or damaged.
    #[error(transparent)]
    Part(#[from] BasePartError),
    /// It is a part of another base.
    #[error("it is of change {change} of instance {instance}")]
    OtherBase {
        /// The change of that base.
        change: u64,
        /// Its instance.
        instance: Uuid,
    },
    /// Another Kist wrote it.
    #[error("its records have format {0}, which this Kist does not read")]
    Format(u32),
    /// It is another part than the next one, or of a base with more or fewer parts.
    #[error("it is not part {number} of {parts}")]
    OutOfOrder {
        /// The part that was to come.
        number: u32,
        /// In how many parts the base is.
        parts: u32,
    },
    /// Its rows are not what was written.
    #[error(transparent)]
    Rows(#[from] ReplayError),
    /// Parts are missing at its end.
    #[error("it ends with part {taken} of {parts}")]
    Ends {
        /// The last part that was taken.
        taken: u32,
        /// In how many parts the base is.
        parts: u32,
    },
    /// It is not known to be whole.
    #[error("it does not say what its rows add up to")]
    WithoutSum,
}

impl BaseReader {
    /// Reads the base of an instance that is its catalogue as it was after change `change`, in so many parts.
    #[must_use]
    pub fn new(instance: Uuid, change: u64, parts: u32) -> Self {
        BaseReader { instance, change, parts, taken: 0, rows: 0, check: BaseCheck::default() }
    }

    /// The next part, if these are its bytes; else another copy of it may be tried.
    ///
    /// # Errors
    /// If they are not.
    pub fn part<'b>(&mut self, bytes: &'b [u8]) -> Result<BasePart<'b>, BaseError> {
        let part = BasePart::parse(bytes)?;
        let head = part.head;
        if head.instance != self.instance || head.change.0 != self.change {
            return Err(BaseError::OtherBase { change: head.change.0, instance: head.instance });
        }
        if head.format > store::FORMAT_VERSION || head.format < store::OLDEST_FORMAT_READ {
            return Err(BaseError::Format(head.format));
        }
        let (number, parts) = (self.taken + 1, self.parts);
        let is_next = (head.part, head.rows_before) == (number, self.rows);
        if !is_next || head.is_last != (number == parts) {
            return Err(BaseError::OutOfOrder { number, parts });
        }
        self.taken = number;
        self.rows += part.rows.len() as u64;
        Ok(part)
    }

    /// Checks the rows of a part that goes nowhere.
    ///
    /// # Errors
    /// If one is not what was written.
    pub fn check_rows(&mut self, part: &BasePart<'_>) -> Result<(), BaseError> {
        for row in &part.rows {
            self.check.row(row.table, row.key, row.value)?;
        }
        Ok(())
    }

    /// Whether it was read to its end and is whole; one that does not say what its rows add up to is not
    /// known to be.
    ///
    /// # Errors
    /// Why it is not.
    pub fn end(&self) -> Result<(), BaseError> {
        let (taken, parts) = (self.taken, self.parts);
        if taken != parts {
            return Err(BaseError::Ends { taken, parts });
        }
        if self.check.end(self.change)? { Ok(()) } else { Err(BaseError::WithoutSum) }
    }
}

#[cfg(test)]
mod tests {
    use ltfs::catalogue_base::{BasePartWriter, BaseRow, PartHead};
    use ltfs::changes::ChangeNumber;

    use super::*;

    fn part(number: u32, rows_before: u64, is_last: bool) -> Vec<u8> {
        let mut part = BasePartWriter::default();
        assert!(part.add(BaseRow { table: 1, key: b"k", value: b"v" }));
        part.close(&PartHead {
            instance: Uuid([3; 16]),
            format: store::FORMAT_VERSION,
            change: ChangeNumber(9),
            part: number,
            is_last,
            rows_before,
        })
    }

    #[test]
    fn parts_follow_each_other_to_the_last() {
        let read = |of: &[Vec<u8>], parts| {
            let mut reader = BaseReader::new(Uuid([3; 16]), 9, parts);
            of.iter().all(|bytes| reader.part(bytes).is_ok()) && reader.taken == parts
        };
        assert!(read(&[part(1, 0, true)], 1));
        assert!(read(&[part(1, 0, false), part(2, 1, true)], 2));
        assert!(!read(&[part(1, 0, false)], 1));
        assert!(!read(&[part(1, 0, false)], 2));
        assert!(!read(&[part(2, 1, true)], 1));
        assert!(!read(&[part(1, 0, false), part(3, 1, true)], 2));
        assert!(!read(&[part(1, 0, false), part(2, 5, true)], 2));
        assert!(!read(&[part(1, 0, true), part(2, 1, true)], 2));
        let mut reader = BaseReader::new(Uuid([3; 16]), 8, 1);
        assert!(reader.part(&part(1, 0, true)).is_err(), "of another change");
        let mut reader = BaseReader::new(Uuid([4; 16]), 9, 1);
        assert!(reader.part(&part(1, 0, true)).is_err(), "of another instance");
    }
}
