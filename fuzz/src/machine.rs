//! Recorded machines: what somebody sent.

use topology::bottleneck::{Rates, bottlenecks};
use topology::counters::Since;
use topology::health::Health;
use topology::layout::Layout;
use topology::{Machine, Record};

/// A recorded machine, and all that is asked of it.
pub(crate) fn record(data: &[u8]) {
    let Ok(record) = Record::parse(data) else { return };
    assert_eq!(Record::parse(record.to_text().as_bytes()).as_ref(), Ok(&record));
    let machine = Machine::read(&record);
    let found = bottlenecks(&machine, Rates::default());
    assert!(found.carried.is_finite());
    let since = Since::of(&machine, &machine);
    for one in &Health::of(&machine, Some(&since)).disks {
        let _ = one.reasons.iter().map(ToString::to_string).collect::<Vec<_>>();
    }
    for enclosure in &machine.enclosures {
        let _ = Layout::of(enclosure);
    }
}
