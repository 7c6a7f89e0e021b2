//! How the slots of an enclosure look from the front, or from above with its cover open. No page of SES says
//! it.

use crate::machine::Enclosure;

/// A part of a picture: a drawer, or all of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panel {
    /// What it is; empty if there is only one.
    pub title: String,
    /// Rows of places in the list of slots, top row first.
    pub rows: Vec<Vec<usize>>,
}

/// A picture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Its parts, the top one first.
    pub panels: Vec<Panel>,
    /// Where it is from.
    pub source: &'static str,
}

/// How one kind of enclosure looks.
struct Known {
    /// Slots that it has.
    slots: usize,
    /// Titles of its drawers, each with as many slots as the others.
    drawers: &'static [&'static str],
    /// Slots in a row.
    columns: usize,
    source: &'static str,
}

const KNOWN: [Known; 5] = [
    Known {
        slots: 84,
        drawers: &["top drawer", "bottom drawer"],
        columns: 14,
        source: "5U84 chassis: two drawers of 42 slots (IBM COS documentation, enclosure overview); three \
            rows of 14 in each, slots counted through: not verified for each product",
    },
    Known {
        slots: 60,
        drawers: &[""],
        columns: 12,
        source: "4U60 chassis with cover: rows of 12, not verified for each product",
    },
    Known { slots: 102, drawers: &[""], columns: 17, source: "4U102 chassis: rows of 17, not verified" },
    Known { slots: 24, drawers: &[""], columns: 24, source: "2U24 chassis: one row, not verified" },
    Known { slots: 12, drawers: &[""], columns: 4, source: "2U12 chassis: rows of 4, not verified" },
];

/// Slots in a row, if nothing is known.
const COLUMNS: usize = 12;

impl Layout {
    /// The picture of an enclosure, by how many slots it has.
    #[must_use]
    pub fn of(enclosure: &Enclosure) -> Layout {
        let count = enclosure.slots.len();
        let known = KNOWN.iter().find(|known| known.slots == count);
        let columns = known.map_or(COLUMNS, |known| known.columns);
        let drawers: &[&str] = known.map_or(&[""], |known| known.drawers);
        let places: Vec<usize> = (0..count).collect();
        let size = count.div_ceil(drawers.len()).max(1);
        let panel = |(title, own): (&&str, &[usize])| Panel {
            title: (*title).to_owned(),
            rows: own.chunks(columns).map(<[usize]>::to_vec).collect(),
        };
        let panels = drawers.iter().zip(places.chunks(size)).map(panel).collect();
        let source =
            known.map_or("slots by their numbers: where they are is not known", |known| known.source);
        Layout { panels, source }
    }
}
