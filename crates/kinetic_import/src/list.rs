//! Keys of all drives in one order.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use bytes::Bytes;
use kinetic::KeyRange;
use kineticio::{DriveIndex, Found};

use crate::drives::{Drives, KEYS_PER_ANSWER, Query};

/// Drives that gave no answer, and what each said.
pub type DrivesAway = BTreeMap<DriveIndex, String>;

struct Cursor {
    drive: DriveIndex,
    range: KeyRange,
    keys: VecDeque<Bytes>,
    is_at_end: bool,
}

/// Tells each key between two, the first inclusive and the last exclusive, once and in order, of whichever
/// drives have it. Each drive's keys are asked for page by page.
pub(crate) fn merged(
    drives: &dyn Drives,
    (start, end): (Bytes, Bytes),
    each: &mut dyn FnMut(&Bytes, &[DriveIndex]) -> ControlFlow<()>,
) -> DrivesAway {
    let range = KeyRange {
        start,
        start_inclusive: true,
        end,
        end_inclusive: false,
        max_returned: KEYS_PER_ANSWER,
        reverse: false,
    };
    let cursor = |drive| Cursor {
        drive: DriveIndex(drive),
        range: range.clone(),
        keys: VecDeque::new(),
        is_at_end: false,
    };
    let mut cursors: Vec<Cursor> = (0..drives.count()).map(cursor).collect();
    let mut away = DrivesAway::new();
    loop {
        refill(drives, &mut cursors, &mut away);
        let Some(lowest) = cursors.iter().filter_map(|cursor| cursor.keys.front()).min().cloned() else {
            return away;
        };
        let mut holders = Vec::new();
        for cursor in &mut cursors {
            if cursor.keys.front() == Some(&lowest) {
                cursor.keys.pop_front();
                holders.push(cursor.drive);
            }
        }
        if each(&lowest, &holders).is_break() {
            return away;
        }
    }
}

/// Asks all drives of which nothing is left and more may come.
fn refill(drives: &dyn Drives, cursors: &mut [Cursor], away: &mut DrivesAway) {
    let mut dry: Vec<&mut Cursor> =
        cursors.iter_mut().filter(|cursor| cursor.keys.is_empty() && !cursor.is_at_end).collect();
    if dry.is_empty() {
        return;
    }
    let queries: Vec<Query> =
        dry.iter().map(|cursor| Query::Keys(cursor.drive, cursor.range.clone())).collect();
    for (cursor, found) in dry.iter_mut().zip(drives.ask(&queries)) {
        match found {
            Found::Keys(keys) => {
                // A drive may state a smaller number: only an empty answer says that there are no more.
                cursor.is_at_end = keys.is_empty();
                if let Some(last) = keys.last() {
                    cursor.range.start = last.clone();
                    cursor.range.start_inclusive = false;
                }
                cursor.keys = keys.into();
            }
            Found::Failed(reason) => {
                cursor.is_at_end = true;
                away.insert(cursor.drive, reason);
            }
            Found::Nothing | Found::Entry(_) => cursor.is_at_end = true,
        }
    }
}
