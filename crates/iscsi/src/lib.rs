//! SCSI over TCP (iSCSI, RFC 7143): an initiator and a target, blocking.
//!
//! Pure: [`pdu`] (protocol data units as values and as bytes), [`text`] and [`login`] (who the two sides are and
//! how they go on). With sockets: [`initiator`], the way to a logical unit behind [`scsi::Transport`].

pub mod initiator;
pub mod login;
pub mod pdu;
pub mod text;
mod wire;
