//! SCSI over TCP (iSCSI, RFC 7143): an initiator and a target, blocking.
