//! The order of names as people count them: `host2` before `host10`, `7:0:9:0` before `7:0:10:0`, `sdb`
//! before `sdaa`.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Compares two names. Numbers in them count as numbers, and of letters that begin alike the shorter run
/// comes first, as the kernel counts disks. Addresses on PCI are hexadecimal and of one length: they are
/// compared as they are. Only equal names are equal.
#[must_use]
pub fn by_number(one: &str, other: &str) -> Ordering {
    if is_on_pci(one) && is_on_pci(other) {
        return one.cmp(other);
    }
    let (mut left, mut right) = (one, other);
    loop {
        let ((a, left_rest), (b, right_rest)) = (run(left), run(right));
        if a.is_empty() && b.is_empty() {
            return one.cmp(other);
        }
        let order = match (is_number(a), is_number(b)) {
            (true, true) => {
                let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
                (a.len(), a).cmp(&(b.len(), b))
            }
            // The kernel counts disks in letters behind `sd`, `vd` and the like.
            (false, false) => (beginning(a), a.len(), a).cmp(&(beginning(b), b.len(), b)),
            _ => a.cmp(b),
        };
        if order != Ordering::Equal {
            return order;
        }
        (left, right) = (left_rest, right_rest);
    }
}

/// What a map has by name, in this order.
pub fn in_order<T>(all: &BTreeMap<String, T>) -> Vec<&T> {
    let mut named: Vec<(&String, &T)> = all.iter().collect();
    named.sort_by(|(a, _), (b, _)| by_number(a, b));
    named.into_iter().map(|(_, one)| one).collect()
}

fn is_number(run: &str) -> bool {
    run.starts_with(|c: char| c.is_ascii_digit())
}

fn beginning(run: &str) -> &[u8] {
    let bytes = run.as_bytes();
    bytes.get(..2).unwrap_or(bytes)
}

/// The first digits, or all before the next digit, and the rest.
fn run(name: &str) -> (&str, &str) {
    let is_number = is_number(name);
    let end = name.find(|c: char| c.is_ascii_digit() != is_number).unwrap_or(name.len());
    name.split_at(end)
}

/// `0000:3b:00.0`.
fn is_on_pci(name: &str) -> bool {
    name.len() == 12
        && name.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b':',
            10 => byte == b'.',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(ordered: &[&str]) {
        let mut names = ordered.to_vec();
        names.reverse();
        names.sort_by(|a, b| by_number(a, b));
        assert_eq!(names, ordered);
    }

    #[test]
    fn numbers_in_names_are_counted() {
        check(&["host0", "host2", "host9", "host10", "host100"]);
        check(&["7:0:9:0", "7:0:10:0", "7:1:0:0", "10:0:0:0"]);
        check(&["nvme0n1", "nvme2n1", "nvme10n1", "sda", "sdb", "sdz", "sdaa", "sdab", "vda"]);
        check(&["port-7:0:2", "port-7:0:10", "port-10:0"]);
        check(&["expander-7:2", "expander-7:10"]);
        check(&["0000:0a:00.0", "0000:10:00.0", "0000:3b:00.0", "0000:3b:00.1"]);
        check(&["", "01", "1", "a"]);
    }

    proptest! {
        /// Sorting needs a total order, in which only what is the same is equal.
        #[test]
        fn it_is_an_order(names in proptest::collection::vec("[abé0-2:]{0,6}", 3)) {
            let [a, b, c] = &names[..] else { unreachable!() };
            prop_assert_eq!(by_number(a, b), by_number(b, a).reverse());
            prop_assert_eq!(by_number(a, b) == Ordering::Equal, a == b);
            if by_number(a, b) != Ordering::Greater && by_number(b, c) != Ordering::Greater {
                prop_assert_ne!(by_number(a, c), Ordering::Greater);
            }
        }
    }
}
