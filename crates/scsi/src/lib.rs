//! SCSI commands, answers and sense data as values and as bytes.
//!
//! Pure: no device is touched here. An initiator encodes commands and decodes answers, a target does the
//! reverse, and both use the same types. What carries commands to a device implements [`Transport`].

mod transport;

pub use transport::{Cdb, CdbLength, Completion, Data, Status, Transport, TransportError, TransportFault};
