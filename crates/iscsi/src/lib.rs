//! SCSI over TCP (iSCSI, RFC 7143): an initiator and a target, blocking.
//!
//! Pure: [`pdu`] (protocol data units as values and as bytes), [`text`] and [`login`] (who the two sides are
//! and how they go on). With sockets: [`initiator`], the way to a logical unit behind [`scsi::Transport`],
//! and [`target`], which serves units of this process.

pub mod initiator;
pub mod login;
pub mod pdu;
pub mod target;
pub mod text;
mod wire;
