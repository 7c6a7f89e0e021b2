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
    /// Where data in parts is put together: a unit takes it in one piece.
    bounce: Vec<u8>,
}

impl LocalTransport {
    pub(crate) fn new(target: Arc<Target>, nexus: Nexus, lun: u16) -> LocalTransport {
        let address = format!("local:{}/{lun}", nexus.target);
        LocalTransport { target, nexus, lun, address, bounce: Vec::new() }
    }
}

impl Transport for LocalTransport {
    /// The time limit is not looked at: an answer that is lost counts as one that did not come in time, at
    /// once.
    fn execute(&mut self, cdb: &Cdb, data: Data<'_>, _limit: Duration) -> Result<Completion, TransportError> {
        let room = data.length();
        let LocalTransport { target, nexus, lun, bounce, .. } = self;
        let reply = data.in_one_piece(bounce, |out, into| target.reply(nexus, *lun, cdb, out, into));
        match reply {
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
