//! The batches of a connection of a device.

use std::collections::BTreeMap;

use super::device::Device;
use crate::code::StatusCode;
use crate::entry::Change;
use crate::ids::{BatchNumber, Sequence};
use crate::request::{Excess, Refusal};

/// A batch that is not ended.
#[derive(Debug)]
pub(super) struct OpenBatch {
    pub(super) sequences: Vec<Sequence>,
    pub(super) changes: Vec<Change>,
    /// The device was locked so often when it began.
    pub(super) lockings: u64,
    bytes: u64,
    deletes: u32,
}

/// The open batches of one connection.
#[derive(Debug, Default)]
pub(super) struct OpenBatches(BTreeMap<BatchNumber, OpenBatch>);

fn invalid(text: &'static str) -> Refusal {
    Refusal::new(StatusCode::InvalidBatch, text)
}

impl OpenBatches {
    /// Opens one.
    pub(super) fn start(&mut self, device: &mut Device, number: BatchNumber) -> Result<(), Refusal> {
        if self.0.get(&number).is_some_and(|batch| batch.lockings == device.lockings) {
            return Err(invalid("a batch with this number is open already"));
        }
        if !device.open_batch() {
            let text = "the device has as many batches open as it accepts";
            return Err(Refusal::new(StatusCode::ServiceBusy, text));
        }
        let (sequences, changes) = (Vec::new(), Vec::new());
        let batch = OpenBatch { sequences, changes, lockings: device.lockings, bytes: 0, deletes: 0 };
        self.0.insert(number, batch);
        Ok(())
    }

    /// Adds a change to one.
    pub(super) fn add(
        &mut self,
        device: &Device,
        number: BatchNumber,
        sequence: Sequence,
        change: Change,
    ) -> Result<(), Refusal> {
        let bounds = device.bounds();
        let batch = self.0.get_mut(&number).filter(|batch| batch.lockings == device.lockings);
        let batch = batch.ok_or(invalid("no such batch is open"))?;
        let is_delete = matches!(change, Change::Delete(_));
        let (count, deletes) = (batch.changes.len() + 1, batch.deletes + u32::from(is_delete));
        let bytes = batch.bytes + change.value_bytes();
        let too_many = |_: Excess| invalid("the batch has more operations than the device accepts");
        Excess::check("operations", count, bounds.batch_operations).map_err(too_many)?;
        Excess::check("deletes", deletes as usize, bounds.batch_deletes).map_err(too_many)?;
        if bytes > bounds.batch_bytes {
            return Err(invalid("the batch has more bytes than the device accepts"));
        }
        (batch.bytes, batch.deletes) = (bytes, deletes);
        batch.sequences.push(sequence);
        batch.changes.push(change);
        assert_eq!(batch.sequences.len(), batch.changes.len(), "a sequence for each change");
        Ok(())
    }

    /// Takes one out: it is ended or given up.
    pub(super) fn take(&mut self, device: &Device, number: BatchNumber) -> Result<OpenBatch, Refusal> {
        let batch = self.0.remove(&number).filter(|batch| batch.lockings == device.lockings);
        batch.ok_or(invalid("no such batch is open"))
    }

    /// The connection ends: nothing of them is done.
    pub(super) fn drop_all(&mut self, device: &mut Device) {
        for batch in std::mem::take(&mut self.0).into_values() {
            device.close_batch(batch.lockings);
        }
    }
}
