//! How long a drive does something else than moving data: from the models of drive, medium and robot, and the
//! scheduler's own order of reading.

use std::collections::BTreeSet;

use base::BlockAddress;
use durability::SplitMix;
use mechanics::{DriveTiming, MediumModel, Place, Track};
use session::order::{Aim, OrderLimits, Segment, block_order, nearest_first, plan, trace};

use super::check::SiteError;
use super::site::{Reading, Tape};

/// Blocks as Kist writes them.
const BLOCK_BYTES: u32 = 1 << 19;

/// Files of one mount that are placed and ordered; of more, locates cost at most as much.
const FILES_MAX: f64 = 2000.0;

/// Files placed in all, over several tapes, so that a mean of few files is one of many.
const FILES_SAMPLED: usize = 512;

/// Drive, medium and library of a site, with their plain numbers.
pub(crate) struct Machines {
    pub medium: &'static MediumModel,
    pub timing: DriveTiming,
    /// Robots of one library, and one move in seconds.
    pub robots: f64,
    pub move_seconds: f64,
    /// Rates of writing and reading, bytes per second.
    pub write_rate: f64,
    pub read_rate: f64,
    track: Track,
}

/// One mount for reading, as far as it does not depend on the bytes read. Seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Access {
    /// Files that were placed.
    pub files: f64,
    /// From the cartridge in its slot to the head at the load point.
    pub mount: f64,
    /// Locates and gaps that are read through, a file.
    pub locate: f64,
    /// From the last file to the cartridge in its slot.
    pub unmount: f64,
}

impl Machines {
    pub fn of(tape: &Tape) -> Result<Machines, SiteError> {
        let drive =
            mechanics::drive(&tape.drive).map_err(|error| SiteError::Model { key: "drive", error })?;
        let medium = match &tape.medium {
            Some(name) => mechanics::medium(name),
            None => drive.own_medium(),
        };
        let medium = medium.map_err(|error| SiteError::Model { key: "medium", error })?;
        let robot =
            mechanics::robot(&tape.library).map_err(|error| SiteError::Model { key: "library", error })?;
        let robot = robot.timing();
        let timing = drive.timing(medium);
        let native = timing.native_rate as f64;
        Ok(Machines {
            medium,
            robots: tape.robots.map_or(f64::from(robot.robots), |robots| robots.as_f64()),
            move_seconds: robot.move_us as f64 / 1e6,
            write_rate: tape.write_rate.map_or(native, |rate| rate.0),
            read_rate: tape.read_rate.map_or(native, |rate| rate.0),
            track: medium.track(drive, BLOCK_BYTES, None),
            timing,
        })
    }

    /// Seconds from the cartridge in its slot to the head at the load point, and back from the load point.
    pub fn mount(&self) -> f64 {
        self.move_seconds + (self.timing.load_us + self.timing.label_us()) as f64 / 1e6
    }

    /// Seconds from the head at a place to the cartridge in its slot.
    fn unmount_from(&self, place: Place) -> f64 {
        let rewind = self.timing.rewind_from_us(&self.track.map, place);
        (rewind + self.timing.unload_us) as f64 / 1e6 + self.move_seconds
    }

    /// Seconds of the mean unmount.
    pub fn unmount(&self) -> f64 {
        (self.timing.mean_rewind_us(&self.track.map) + self.timing.unload_us) as f64 / 1e6 + self.move_seconds
    }

    /// Seconds from the load point to any place.
    pub fn locate(&self) -> f64 {
        self.timing.locate.mean_us(&self.track.map, self.medium.load_point()) as f64 / 1e6
    }

    /// Bytes on a tape.
    pub fn capacity(&self) -> f64 {
        self.medium.data_capacity().0 as f64
    }

    /// The mean mount that reads `files` files of `bytes` each, at random places of a full tape.
    pub fn access(&self, files: f64, bytes: f64, reading: Reading) -> Access {
        let tape = (self.capacity() / f64::from(BLOCK_BYTES)).floor().max(1.0);
        let blocks = (bytes / f64::from(BLOCK_BYTES)).ceil().clamp(1.0, tape);
        let slots = (tape / blocks).floor().max(1.0) as usize;
        let files = files.min(FILES_MAX).min(slots as f64).round().max(1.0);
        let blocks = blocks as u64;
        let tapes = (FILES_SAMPLED / files as usize).clamp(1, FILES_SAMPLED);
        let mut random = SplitMix::new(1);
        let (mut locate, mut unmount) = (0.0, 0.0);
        for _ in 0..tapes {
            let chosen = choose(files as usize, slots, &mut random);
            let segment = |slot: usize| {
                let begin = slot as u64 * blocks;
                Segment { begin: BlockAddress(begin), end: BlockAddress(begin + blocks) }
            };
            let segments: Vec<Segment> = chosen.into_iter().map(segment).collect();
            let (cost_us, last) = self.read(&segments, reading);
            locate += cost_us as f64 / 1e6;
            unmount += self.unmount_from(self.track.place(last));
        }
        let tapes = tapes as f64;
        Access { files, mount: self.mount(), locate: locate / tapes / files, unmount: unmount / tapes }
    }

    /// Locates and gaps of reading all, and where the head stands then.
    fn read(&self, segments: &[Segment], reading: Reading) -> (u64, BlockAddress) {
        let head = BlockAddress(0);
        let order: Vec<usize> = match reading {
            Reading::Planned => {
                let plan = plan(&self.track, head, segments, Aim::LastFile, &OrderLimits::default());
                plan.visits.iter().map(|visit| visit.segment).collect()
            }
            Reading::Nearest => nearest_first(&self.track, head, segments),
            Reading::Block => block_order(segments),
            Reading::Arrival => (0..segments.len()).collect(),
        };
        let last = order.last().map_or(head, |last| segments[*last].end);
        (trace(&self.track, head, segments, order).cost_us, last)
    }
}

/// So many different slots, in any order.
fn choose(files: usize, slots: usize, random: &mut SplitMix) -> Vec<usize> {
    let mut chosen: Vec<usize> = if files * 2 > slots {
        (0..slots).collect()
    } else {
        let mut seen = BTreeSet::new();
        std::iter::repeat_with(|| random.below(slots)).filter(|slot| seen.insert(*slot)).take(files).collect()
    };
    for place in 0..files.min(chosen.len()) {
        let other = place + random.below(chosen.len() - place);
        chosen.swap(place, other);
    }
    chosen.truncate(files);
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machines(drive: &str) -> Machines {
        let text = format!("name = \"x\"\n[tape]\ndrive = \"{drive}\"\n[[server]]\nname = \"s\"");
        Machines::of(&crate::Site::parse(&text).unwrap().tape.unwrap()).unwrap()
    }

    #[test]
    fn slots_are_different_and_repeat_themselves() {
        for (files, slots) in [(1, 1), (3, 4), (10, 1000), (512, 513)] {
            let chosen = choose(files, slots, &mut SplitMix::new(1));
            let different: BTreeSet<_> = chosen.iter().collect();
            assert!(different.len() == files && chosen.iter().all(|slot| *slot < slots), "{chosen:?}");
            assert_eq!(chosen, choose(files, slots, &mut SplitMix::new(1)));
        }
    }

    /// docs/reference/ordering.md, LTO-8, 2 GB: 32 files at 17.0 s by plan, 44 by block, 128 at 13.5 s.
    #[test]
    fn locates_are_those_of_the_order() {
        let machines = machines("LTO-8");
        let planned = machines.access(32.0, 2e9, Reading::Planned).locate;
        let nearest = machines.access(32.0, 2e9, Reading::Nearest).locate;
        let block = machines.access(32.0, 2e9, Reading::Block).locate;
        let arrival = machines.access(32.0, 2e9, Reading::Arrival).locate;
        assert!((15.0..19.0).contains(&planned), "{planned}");
        assert!(planned < nearest && nearest < arrival && planned < block, "{nearest} {block} {arrival}");
        assert!((12.0..15.0).contains(&machines.access(128.0, 2e9, Reading::Planned).locate));
    }

    #[test]
    fn more_files_than_a_tape_has_are_all_of_it() {
        let machines = machines("LTO-9");
        let access = machines.access(1e9, 1e13, Reading::Planned);
        assert_eq!(access.files, 1.0);
        assert!(machines.access(1e9, 1e300, Reading::Planned).locate.is_finite());
        let small = machines.access(1e9, 1.0, Reading::Planned);
        assert!(small.files == FILES_MAX && small.locate > 0.0);
    }
}
