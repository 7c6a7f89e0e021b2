//! Lines of logs: as they are, and with the checksum that agrees.

use base::Crc32c;
use journal::{AuditLine, MountRecord, check_line};
use usage::Access;

/// `CHECKSUM BODY` of a body.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut line = format!("{} ", Crc32c::of(body)).into_bytes();
    line.extend_from_slice(body);
    line
}

/// A line of the access log.
pub(crate) fn access_line(data: &[u8]) {
    check_line::<Access>(data);
    check_line::<Access>(&sealed(data));
}

/// A line of the mount log.
pub(crate) fn mount_line(data: &[u8]) {
    check_line::<MountRecord>(data);
    check_line::<MountRecord>(&sealed(data));
}

/// The manifest of a snapshot.
pub(crate) fn snapshot_manifest(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        backup::fuzz::snapshot_manifest(text);
    }
}

/// A line of the audit log.
pub(crate) fn audit_line(data: &[u8]) {
    check_line::<AuditLine>(data);
}
