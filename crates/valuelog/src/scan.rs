//! Looking at all that stands on the disk.

use base::{ByteCount, Count};

use crate::change::{USER, spaced};
use crate::error::{Damage, LogError};
use crate::log::ValueLog;
use crate::walk::KeyRange;

/// What a step of a scan has met.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ScanStep {
    /// Records that were read and compared whole.
    pub checked: Count,
    /// Bytes of their values.
    pub bytes: ByteCount,
    /// What was wrong.
    pub damage: Vec<Damage>,
    /// The last key that was looked at: the next step begins behind it. `None`: there are no more.
    pub last: Option<Box<[u8]>>,
}

impl ValueLog {
    /// Reads the values of a range of keys and compares them with their checksums.
    ///
    /// # Errors
    /// [`LogError::Closed`].
    pub fn scan(&self, range: &KeyRange<'_>) -> Result<ScanStep, LogError> {
        let mut step = ScanStep::default();
        for key in self.keys(range) {
            match self.inner.get(&spaced(USER, &key), None) {
                Ok(entry) => {
                    step.checked.0 += 1;
                    step.bytes.0 += entry.value.len() as u64;
                }
                Err(LogError::Damaged(damage)) => {
                    step.checked.0 += 1;
                    step.damage.push(*damage);
                }
                // Deleted meanwhile.
                Err(LogError::NotFound) => {}
                Err(other) => return Err(other),
            }
            step.last = Some(key);
        }
        Ok(step)
    }
}
