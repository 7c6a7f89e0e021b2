//! Models of drives, media and robots: figures with their sources, and what the plain numbers of
//! [`DriveTiming`] and [`TapeMap`] become from them.

use base::ByteCount;

use crate::figure::{Figure, Statement};
use crate::geometry::Geometry;
use crate::locate::LocateCost;
use crate::map::{Place, TapeMap};
use crate::timing::{DriveTiming, RobotTiming};
use crate::track::Track;

/// [`Track::error`] of a model that was not fitted to the very drive. The terms of a locate were measured on
/// one kind of drive (LTO-7 with type M media) and hold for others by their figures only; how far off they
/// are there nobody has published. With a fifth a clear gain is seen, and a small one is left to the drive.
const MODEL_ERROR: f64 = 0.2;

/// A drive.
#[derive(Clone, PartialEq, Debug)]
pub struct DriveModel {
    /// The name by which it is asked for: `LTO-8`.
    pub name: String,
    /// The drive in full.
    pub title: String,
    /// Other names that it is known by.
    pub aliases: Vec<String>,
    /// The media that it takes; its own first. Never empty.
    pub media: Vec<DriveMedium>,
    /// Its own buffer.
    pub buffer: Figure,
    /// From the cartridge's insertion to the tape being ready.
    pub load: Figure,
    /// From the load point to the cartridge being ejected.
    pub unload: Figure,
    /// The part of a rewind that does not depend on the way.
    pub rewind_fixed: Figure,
    /// The mean rewind inside of an unload, by what was moved in the mount; nothing: as any rewind.
    pub unload_rewind: Option<UnloadRewind>,
    /// Stop, back up, and start again.
    pub backhitch: Figure,
    /// A synchronous file mark, apart from emptying the buffer.
    pub flush: Figure,
    /// Whether it recommends an access order.
    pub recommends_order: Statement,
    /// What a locate costs.
    pub locate: LocateFigures,
}

/// A medium as a drive takes it.
#[derive(Clone, PartialEq, Debug)]
pub struct DriveMedium {
    /// Name of the medium.
    pub medium: String,
    /// Streaming, without compression.
    pub rate: Figure,
    /// The slowest rate to which the drive matches its speed.
    pub least_rate: Figure,
    /// Published mean of a locate from the load point: the model is checked against it, not made of it.
    pub mean_locate: Option<Figure>,
    /// Published mean of a rewind: the winding speed is made of it.
    pub mean_rewind: Option<Figure>,
}

/// Mean times of the rewind inside of an unload. Drives that unthread in archive mode wind the tape once or
/// twice more after much was moved.
#[derive(Clone, PartialEq, Debug)]
pub struct UnloadRewind {
    /// Below 5 GB of contiguous data.
    pub under_5_gb: Figure,
    /// From 5 GB up to 50 GB of contiguous data.
    pub to_50_gb: Figure,
    /// Anything else.
    pub other: Figure,
}

/// The figures of a [`LocateCost`].
#[derive(Clone, PartialEq, Debug)]
pub struct LocateFigures {
    /// The name by which drives refer to it.
    pub name: String,
    /// Any locate.
    pub base: Figure,
    /// Another wrap.
    pub wrap_change: Figure,
    /// Another band.
    pub band_change: Figure,
    /// The other half of the tape's length; may be negative.
    pub landing_zone_change: Figure,
    /// A wrap of the other direction.
    pub direction_change: Figure,
    /// The same wrap, behind the head.
    pub step_back: Figure,
    /// A unit of position along the tape.
    pub pace: Figure,
    /// No locate takes less.
    pub least: Figure,
}

/// A medium.
#[derive(Clone, PartialEq, Debug)]
pub struct MediumModel {
    /// The name by which it is asked for: `LTO-8`.
    pub name: String,
    /// The medium in full.
    pub title: String,
    /// Other names that it is known by, such as the letters on its bar code.
    pub aliases: Vec<String>,
    /// Without compression and partitions.
    pub capacity: Figure,
    /// Wraps of the whole tape.
    pub wraps: Figure,
    /// Bands of the whole tape: four.
    pub bands: Figure,
    /// Without compression.
    pub wrap_capacity: Figure,
    /// Of the tape.
    pub length: Figure,
    /// Position at the beginning of the wraps.
    pub lpos_min: Figure,
    /// Position at their end.
    pub lpos_max: Figure,
    /// Wraps of the index partition under LTFS.
    pub index_wraps: Figure,
    /// Unused wraps between the two partitions.
    pub guard_wraps: Figure,
    /// The shortest and the longest first load of a new cartridge, apart from loading; nothing: as any load.
    pub first_load: Option<(Figure, Figure)>,
}

/// The robots of a library.
#[derive(Clone, PartialEq, Debug)]
pub struct RobotModel {
    /// The name by which it is asked for: `TS4500`.
    pub name: String,
    /// The library in full.
    pub title: String,
    /// Other names that it is known by.
    pub aliases: Vec<String>,
    /// Robots that move cartridges at the same time.
    pub robots: Figure,
    /// One move between a slot and a drive.
    pub move_one: Figure,
}

/// Positions of ends of wraps that no tape can have.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WrapEndsError {
    /// The drive's answer is about something else than the data partition, or was read wrongly.
    #[error("the ends of wraps given for a tape of {medium} do not ascend at wrap {wrap}: read them again")]
    Order {
        /// The medium's name.
        medium: String,
        /// Index in the list.
        wrap: usize,
    },
    /// The medium is another one than was said.
    #[error(
        "{given} ends of wraps were given for a tape of {medium}, which has {wraps} for data: is it one?"
    )]
    TooMany {
        /// The medium's name.
        medium: String,
        /// Ends in the list.
        given: usize,
        /// Wraps of the partition.
        wraps: u16,
    },
}

impl LocateFigures {
    /// The plain numbers.
    #[must_use]
    pub fn cost(&self) -> LocateCost {
        LocateCost {
            base_us: self.base.base(),
            wrap_change_us: self.wrap_change.base(),
            band_change_us: self.band_change.base(),
            landing_zone_change_us: self.landing_zone_change.base(),
            direction_change_us: self.direction_change.base(),
            step_back_us: self.step_back.base(),
            lpos_us: self.pace.base(),
            least_us: self.least.base(),
        }
    }
}

impl DriveModel {
    /// How it takes that medium; nothing if its data do not name it.
    #[must_use]
    pub fn takes(&self, medium: &MediumModel) -> Option<&DriveMedium> {
        self.media.iter().find(|taken| taken.medium == medium.name)
    }

    /// How it takes that medium; as its own if its data do not name it.
    fn with(&self, medium: &MediumModel) -> &DriveMedium {
        self.takes(medium).unwrap_or(&self.media[0])
    }

    /// The plain numbers of this drive with a medium.
    ///
    /// A medium that the drive's data do not name is taken to run at the rate of its own medium; ask
    /// [`DriveModel::takes`] first where that matters.
    #[must_use]
    pub fn timing(&self, medium: &MediumModel) -> DriveTiming {
        let with = self.with(medium);
        let name = match medium.name == self.name {
            true => self.name.clone(),
            false => format!("{} with {}", self.name, medium.name),
        };
        DriveTiming {
            name,
            native_rate: with.rate.whole(),
            least_rate: with.least_rate.whole(),
            buffer: ByteCount(self.buffer.whole()),
            load_us: self.load.whole(),
            locate: self.locate.cost(),
            lpos_per_second: self.lpos_per_second(medium),
            rewind_us: self.rewind_fixed.whole(),
            unload_us: self.unload.whole(),
            backhitch_us: self.backhitch.whole(),
            flush_us: self.flush.whole(),
            recommends_order: self.recommends_order.value,
        }
    }

    /// The winding speed that makes a rewind from the middle of the tape as long as the published mean; that
    /// of locates where none is published.
    fn lpos_per_second(&self, medium: &MediumModel) -> f64 {
        let half = (medium.lpos_max.base() - medium.lpos_min.base()) / 2.0;
        let winding = |mean: &Figure| mean.base() - self.rewind_fixed.base();
        match self.with(medium).mean_rewind.as_ref().map(winding).filter(|us| *us > 0.0) {
            Some(us) => half / us * 1e6,
            None => 1e6 / self.locate.pace.base(),
        }
    }

    /// What an unload takes longer than the rewind and [`DriveModel::unload`], in microseconds: drives that
    /// unthread in archive mode wind the tape once or twice more if much was moved since it was mounted.
    ///
    /// `moved` is the contiguous data read or written; nothing for any other activity.
    #[must_use]
    pub fn unload_extra_us(&self, moved: Option<ByteCount>) -> u64 {
        const GB: u64 = 1_000_000_000;
        let Some(table) = &self.unload_rewind else { return 0 };
        let mean = match moved {
            Some(ByteCount(bytes)) if bytes < 5 * GB => &table.under_5_gb,
            Some(ByteCount(bytes)) if bytes < 50 * GB => &table.to_50_gb,
            _ => &table.other,
        };
        mean.whole().saturating_sub(table.under_5_gb.whole())
    }
}

impl MediumModel {
    /// Wraps of the whole tape.
    #[must_use]
    pub fn wrap_count(&self) -> u16 {
        self.wraps.whole().try_into().unwrap_or(u16::MAX)
    }

    /// The tape's wrap on which the data partition of LTFS begins: behind the index partition and the guard
    /// wraps.
    #[must_use]
    pub fn first_data_wrap(&self) -> u16 {
        (self.index_wraps.whole() + self.guard_wraps.whole()).try_into().unwrap_or(u16::MAX)
    }

    /// Wraps of the data partition of LTFS.
    #[must_use]
    pub fn data_wraps(&self) -> u16 {
        self.wrap_count() - self.first_data_wrap()
    }

    /// Bytes that the data partition of LTFS takes, without compression.
    #[must_use]
    pub fn data_capacity(&self) -> ByteCount {
        ByteCount(self.wrap_capacity.whole() * u64::from(self.data_wraps()))
    }

    /// Positions along the tape between which the wraps lie.
    #[must_use]
    pub fn lpos(&self) -> std::ops::Range<u32> {
        let position = |figure: &Figure| figure.whole().try_into().unwrap_or(u32::MAX);
        position(&self.lpos_min)..position(&self.lpos_max)
    }

    /// Blocks of `block_size` bytes on a wrap, without compression; at least 1.
    #[must_use]
    pub fn wrap_blocks(&self, block_size: u32) -> u64 {
        (self.wrap_capacity.whole() / u64::from(block_size.max(1))).max(1)
    }

    /// Where blocks of the data partition of LTFS stand, by the nominal capacity.
    #[must_use]
    pub fn data_map(&self, block_size: u32) -> TapeMap {
        let blocks = self.wrap_blocks(block_size);
        TapeMap::even(blocks, self.data_wraps(), self.first_data_wrap(), self.wrap_count(), self.lpos())
    }

    /// Where blocks of a tape without partitions stand, by the nominal capacity.
    #[must_use]
    pub fn whole_map(&self, block_size: u32) -> TapeMap {
        TapeMap::even(self.wrap_blocks(block_size), self.wrap_count(), 0, self.wrap_count(), self.lpos())
    }

    /// Where blocks of the data partition stand, by the ends of its wraps that the drive gives (READ END OF
    /// WRAP POSITION): the first block behind each wrap that is full. Blocks behind the last of them are
    /// taken to stand on wraps as long as the last one; with none the map is the nominal one.
    ///
    /// A drive's own list ends with where the data end: leave that out unless the partition is full.
    ///
    /// # Errors
    /// If they cannot be the ends of wraps of this medium's data partition.
    pub fn measured_map(&self, ends: &[u64], block_size: u32) -> Result<TapeMap, WrapEndsError> {
        let medium = || self.name.clone();
        let wraps = self.data_wraps();
        if ends.len() > usize::from(wraps) {
            return Err(WrapEndsError::TooMany { medium: medium(), given: ends.len(), wraps });
        }
        let begins = std::iter::once(0).chain(ends.iter().copied());
        if let Some(wrap) = begins.zip(ends).position(|(begin, end)| begin >= *end) {
            return Err(WrapEndsError::Order { medium: medium(), wrap });
        }
        if ends.is_empty() {
            return Ok(self.data_map(block_size));
        }
        Ok(TapeMap::new(ends.to_vec(), self.first_data_wrap(), self.wrap_count(), self.lpos()))
    }

    /// Where the bytes of both partitions of LTFS stand.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        Geometry {
            wraps: self.wrap_count(),
            index_wraps: self.index_wraps.whole().try_into().unwrap_or(u16::MAX),
            guard_wraps: self.guard_wraps.whole().try_into().unwrap_or(u16::MAX),
            wrap_bytes: ByteCount(self.wrap_capacity.whole()),
            lpos: self.lpos(),
        }
    }

    /// A drive with a tape of this medium in it, blocks of `block_size` bytes on the data partition of LTFS.
    ///
    /// `map` is the tape's own, of [`MediumModel::measured_map`]; nothing: the nominal one.
    #[must_use]
    pub fn track(&self, drive: &DriveModel, block_size: u32, map: Option<TapeMap>) -> Track {
        Track {
            map: map.unwrap_or_else(|| self.data_map(block_size)),
            locate: drive.locate.cost(),
            block_us: f64::from(block_size) / drive.with(self).rate.base() * 1e6,
            error: Some(MODEL_ERROR),
            fitted: None,
        }
    }

    /// Where the head stands after a load: the beginning of the index partition.
    #[must_use]
    pub fn load_point(&self) -> Place {
        Place { wrap: 0, lpos: self.lpos().start }
    }
}

impl RobotModel {
    /// The plain numbers.
    #[must_use]
    pub fn timing(&self) -> RobotTiming {
        RobotTiming {
            robots: self.robots.whole().try_into().unwrap_or(u16::MAX),
            move_us: self.move_one.whole(),
        }
    }
}
