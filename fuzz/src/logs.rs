//! Lines of logs: as they are, and with the checksum that agrees.

use base::Crc32c;

/// `CHECKSUM BODY` of a body.
fn sealed(body: &[u8]) -> Vec<u8> {
    let mut line = format!("{} ", Crc32c::of(body)).into_bytes();
    line.extend_from_slice(body);
    line
}

/// A line of the access log: what is read is written as it reads.
pub(crate) fn access_line(data: &[u8]) {
    let _ = usage::decode(data);
    if let Ok(access) = usage::decode(&sealed(data)) {
        let mut line = String::new();
        usage::encode(&access, &mut line);
        assert_eq!(usage::decode(line.as_bytes()).as_ref(), Ok(&access), "{line}");
    }
}

/// A line of the mount log.
pub(crate) fn mount_line(data: &[u8]) {
    archive::fuzz::mount_line(data);
    archive::fuzz::mount_line(&sealed(data));
}

/// The manifest of a snapshot.
pub(crate) fn snapshot_manifest(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        archive::fuzz::snapshot_manifest(text);
    }
}

/// A line of the audit log.
pub(crate) fn audit_line(data: &[u8]) {
    authority::fuzz::audit_line(data);
}
