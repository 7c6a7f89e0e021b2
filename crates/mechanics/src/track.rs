//! A drive with a tape in it, as far as an order of reading needs to know.

use base::BlockAddress;

use crate::fit::{DriveFit, FittedDrive, LocateFit};
use crate::locate::LocateCost;
use crate::map::{Place, TapeMap};

/// What the ways on one mounted tape cost.
#[derive(Clone, PartialEq, Debug)]
pub struct Track {
    /// Where its blocks stand.
    pub map: TapeMap,
    /// What a locate costs.
    pub locate: LocateCost,
    /// Reading one block while streaming, in microseconds (may be a fraction).
    pub block_us: f64,
    /// By which part of what an order costs the drive may take more or less; 0: it takes what is said here.
    /// `None`: the costs are those of another drive, and nobody knows.
    pub error: Option<f64>,
    /// Which drive and medium they are of, and by what they were fitted to it; `None`: not of one that has
    /// locates of its own to tell of.
    pub fitted: Option<FittedDrive>,
}

impl Track {
    /// The same with this fit in the place of its own, if it is one that was fitted.
    #[must_use]
    pub fn refitted(mut self, fit: DriveFit) -> Track {
        if let Some(fitted) = &mut self.fitted {
            let before = fitted.fit.replace(fit).map_or_else(LocateFit::default, |before| before.locate);
            let DriveFit { locate, error } = fit;
            let change = LocateFit {
                fixed: locate.fixed / before.fixed,
                way: locate.way / before.way,
                samples: locate.samples,
            };
            (self.locate, self.error) = (self.locate.fitted(&change), Some(error));
        }
        self
    }

    /// Where a block begins.
    #[must_use]
    pub fn place(&self, block: BlockAddress) -> Place {
        self.map.place(block)
    }

    /// A locate, in microseconds; 0 to where the head stands.
    #[must_use]
    pub fn locate_us(&self, from: Place, to: Place) -> u64 {
        if from == to { 0 } else { self.locate.between(&self.map, from, to) }
    }

    /// Reading so many blocks, in microseconds.
    #[must_use]
    pub fn read_us(&self, blocks: u64) -> u64 {
        (blocks as f64 * self.block_us).round() as u64
    }
}
