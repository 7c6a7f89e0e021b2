//! Files whose places are known one by one, not laid out by a rule.

use super::{Class, Holdings, Place, Tape};
use scenario::model::{ClassIndex, FileNumber, SEQUENCE_MAX, Site};

/// A file of which each place is known.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedFile {
    /// Its class; files of a class are numbered in the order in which they are given.
    pub class: ClassIndex,
    /// Where its copies stand; at most four count.
    pub places: Vec<Place>,
}

impl Holdings {
    /// These cartridges, with these files on them. The site's own holdings and scratch tapes are not laid
    /// out: `tapes` are all that there are.
    #[must_use]
    pub fn placed(site: &Site, tapes: Vec<Tape>, files: &[PlacedFile]) -> Holdings {
        let classes = site.classes.iter().map(Class::new).collect();
        let mut holdings = Holdings { tapes, classes, orders: 2 };
        for file in files {
            let Some(known) = holdings.classes.get_mut(usize::from(file.class.0)) else { continue };
            let sequence = known.files;
            assert!(sequence < SEQUENCE_MAX, "a class holds at most 2^40 files");
            known.files += 1;
            let sizes = &known.model.sizes;
            let size = |sequence| sizes.size(FileNumber { class: file.class, sequence });
            for place in &file.places {
                holdings.orders = holdings.orders.max(place.order);
                known.records.add(sequence..sequence + 1, *place, &size, false);
            }
        }
        holdings
    }
}
