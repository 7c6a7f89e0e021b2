//! Changes and records of the catalogue.

use catalogue::{Envelope, Table};

use crate::split;

/// Each change has exactly one form in bytes.
pub(crate) fn envelope(data: &[u8]) {
    if let Ok(envelope) = Envelope::decode(data) {
        assert_eq!(envelope.encode(), data);
    }
}

/// A record under a key that agrees with its checksum, but nobody knows with what in it: the first byte is
/// the place of the table, the second the length of the key.
pub(crate) fn record(data: &[u8]) {
    let (place, rest) = split(data);
    let (length, rest) = split(rest);
    let table = Table::ALL[usize::from(place) % Table::COUNT];
    let (key, value) = rest.split_at(usize::from(length).min(rest.len()));
    catalogue::fuzz::check_with(table, key, value);
}
