//! For the fuzz targets: records whose checksum agrees, with anything in them.

use base::{Timestamp, Uuid};

use crate::apply;
use crate::command::{Command, Envelope};
use crate::frame;
use crate::kv::Transaction;
use crate::memory::MemoryStore;
use crate::table::Table;
use crate::view::View;

/// Lays a record into a new catalogue and reads all of it.
///
/// # Panics
/// If a catalogue in memory cannot be made.
pub fn check_with(table: Table, key: &[u8], value: &[u8]) {
    let mut store = MemoryStore::new();
    let command = Command::Initialise { instance: Uuid([7; 16]) };
    let made = apply(&mut store, &Envelope { at: Timestamp(1), command });
    assert!(made.is_ok(), "a catalogue is made");
    let sealed = frame::seal_bytes(table, key, value);
    assert!(store.put(table, key, &sealed).is_ok(), "a store in memory takes all");
    let view = View::new(&store);
    let _ = view.check();
    let _ = view.quotas(None, 10);
    let _ = view.garbage(10);
    let _ = view.requests(None, 10);
    let _ = view.changes(1, 10, 1 << 20);
}
