//! For the fuzz targets: lines of the audit log.

/// A line without its end.
pub fn audit_line(data: &[u8]) {
    crate::audit::check_line(data);
}
