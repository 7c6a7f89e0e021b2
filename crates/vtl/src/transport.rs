//! The way to a unit without a socket.

use std::sync::Arc;
use std::time::Duration;

use iscsi::target::Nexus;
use scsi::{Cdb, Completion, Data, Transport, TransportError, TransportFault};

use crate::tape::TRANSFER_MAX;
use crate::target::{Reply, Target};

/// A session with one unit of a [`Target`] in this process. It ends when this is dropped.
pub struct LocalTransport {
    target: Arc<Target>,
    nexus: Nexus,
    lun: u16,
    address: String,
}

impl LocalTransport {
    pub(crate) fn new(target: Arc<Target>, nexus: Nexus, lun: u16) -> LocalTransport {
        let address = format!("local:{}/{lun}", nexus.target);
        LocalTransport { target, nexus, lun, address }
    }
}

impl Transport for LocalTransport {
    /// The time limit is not looked at: an answer that is lost counts as one that did not come in time, at
    /// once.
    fn execute(&mut self, cdb: &Cdb, data: Data<'_>, _limit: Duration) -> Result<Completion, TransportError> {
        let (out, into): (&[u8], &mut [u8]) = match data {
            Data::None => (&[], &mut []),
            Data::In(into) => (&[], into),
            Data::Out(out) => (out, &mut []),
        };
        let room = out.len().max(into.len());
        match self.target.reply(&self.nexus, self.lun, cdb, out, into) {
            Reply::Answer(completion) => {
                Ok(Completion { transferred: completion.transferred.min(room), ..completion })
            }
            Reply::Nothing => Err(TransportError {
                fault: TransportFault::TimeOut,
                // Whoever hears nothing cannot know.
                may_be_done: true,
                what: format!("{}: no answer", self.address),
            }),
        }
    }

    fn transfer_max(&self) -> usize {
        TRANSFER_MAX
    }

    fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for LocalTransport {
    fn drop(&mut self) {
        self.target.end(&self.nexus);
    }
}
