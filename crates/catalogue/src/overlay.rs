//! Ordered rows in memory, and changes laid over rows that lie elsewhere: what every snapshot and transaction
//! of the catalogue that is not the engine's own is made of.

use std::collections::{BTreeMap, btree_map};
use std::iter::FusedIterator;
use std::ops::{Bound, ControlFlow};

use crate::kv::{KvError, Visit};

/// The rows of a table in memory.
pub type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Rows of a table that were put, or deleted (`None`).
pub type Overlay = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Rows with `from <= key < to` (`None`: to the end); none if `to` is not behind `from`.
fn between<'a, V>(
    rows: &'a BTreeMap<Vec<u8>, V>,
    from: &[u8],
    to: Option<&[u8]>,
) -> impl FusedIterator<Item = (&'a [u8], &'a V)> + use<'a, V> {
    let is_empty = to.is_some_and(|to| to <= from);
    let to = to.map_or(Bound::Unbounded, Bound::Excluded);
    let range = if is_empty {
        btree_map::Range::default()
    } else {
        rows.range::<[u8], _>((Bound::Included(from), to))
    };
    range.map(|(key, value)| (key.as_slice(), value))
}

/// Visits rows `from <= key < to` (`None`: to the end) in order, until a visit breaks off.
pub fn scan_rows(rows: &Rows, from: &[u8], to: Option<&[u8]>, visit: &mut Visit<'_>) {
    for (key, value) in between(rows, from, to) {
        if visit(key, value).is_break() {
            return;
        }
    }
}

/// Visits rows `from <= key < to` (`None`: to the end) in order, until a visit breaks off: those that `below`
/// gives, in order and within the same bounds, with the changes of `over` laid over them.
///
/// # Errors
/// Those of `below`.
pub fn scan_overlaid(
    over: &Overlay,
    from: &[u8],
    to: Option<&[u8]>,
    visit: &mut Visit<'_>,
    below: impl FnOnce(&mut Visit<'_>) -> Result<(), KvError>,
) -> Result<(), KvError> {
    if over.is_empty() {
        return below(visit);
    }
    let mut over = between(over, from, to).peekable();
    let mut stopped = false;
    below(&mut |key, value| {
        while let Some((over_key, over_value)) = over.next_if(|(over_key, _)| *over_key < key) {
            if over_value.as_ref().is_some_and(|value| visit(over_key, value).is_break()) {
                stopped = true;
                return ControlFlow::Break(());
            }
        }
        let flow = match over.next_if(|(over_key, _)| *over_key == key) {
            Some((_, Some(over_value))) => visit(key, over_value),
            Some((_, None)) => ControlFlow::Continue(()),
            None => visit(key, value),
        };
        stopped = flow.is_break();
        flow
    })?;
    if !stopped {
        let mut rest = over.filter_map(|(key, value)| value.as_ref().map(|value| (key, value)));
        while rest.next().is_some_and(|(key, value)| visit(key, value).is_continue()) {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(keys: &[u8]) -> Rows {
        keys.iter().map(|key| (vec![*key], vec![*key, 0])).collect()
    }

    /// All pairs of bounds, all places to break off: the overlaid scan visits what the merged rows hold.
    #[test]
    fn changes_lie_over_rows_within_any_bounds() {
        let base = rows(&[1, 3, 5, 7, 9]);
        let over: Overlay = [(0, true), (3, false), (4, true), (5, true), (9, false), (12, true)]
            .into_iter()
            .map(|(key, is_put)| (vec![key], is_put.then(|| vec![key, 1])))
            .collect();
        let mut merged = base.clone();
        for (key, value) in &over {
            match value {
                Some(value) => drop(merged.insert(key.clone(), value.clone())),
                None => drop(merged.remove(key)),
            }
        }
        for from in 0..14u8 {
            for to in (0..15u8).map(Some).chain([None]) {
                let to = to.map(|to| [to]);
                let to = to.as_ref().map(|to| to.as_slice());
                for visits in 1..8 {
                    let (mut wanted, mut found) = (Vec::new(), Vec::new());
                    let collect = |list: &mut Vec<(Vec<u8>, Vec<u8>)>, key: &[u8], value: &[u8]| {
                        list.push((key.to_vec(), value.to_vec()));
                        if list.len() == visits { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                    };
                    scan_rows(&merged, &[from], to, &mut |key, value| collect(&mut wanted, key, value));
                    let below = |visit: &mut Visit<'_>| {
                        scan_rows(&base, &[from], to, visit);
                        Ok(())
                    };
                    scan_overlaid(
                        &over,
                        &[from],
                        to,
                        &mut |key, value| collect(&mut found, key, value),
                        below,
                    )
                    .unwrap();
                    assert_eq!(found, wanted, "{from} to {to:?}, {visits} visits");
                }
            }
        }
    }
}
