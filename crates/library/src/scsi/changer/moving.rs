//! Movements of cartridges, and what became of those that failed: the elements are asked, nobody guesses.

use base::Vid;
use scsi::{ElementAddress, ElementType};

use super::barcode::Barcode;
use super::elements::{Elements, SeenElement};
use super::reach::ChangerTimes;
use super::robot::{ASK_AGAIN, MoveFailure, Robot, heard};
use crate::scsi::unit::Failure;
use crate::{DeviceError, LibraryError};

/// A movement that a unit attention kept from being begun is tried again so often.
const MOVES_MAX: u32 = 4;

/// What is moved from where to where.
#[derive(Clone, Debug)]
pub(super) struct Movement {
    /// `None`: nobody has read its label.
    pub vid: Option<Vid>,
    /// Its label, if one was read.
    pub barcode: Option<Barcode>,
    pub from: (ElementType, ElementAddress),
    pub to: (ElementType, ElementAddress),
}

/// Where a cartridge is after a movement.
#[derive(Debug)]
pub(super) enum Moved {
    /// At its destination.
    There,
    /// Where it was, with the reason.
    Stayed(DeviceError),
    /// Something is in its destination already.
    DestinationFull,
    /// In the robot's hand, or where the changer does not say.
    Lost(DeviceError),
}

/// Where the elements show a cartridge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shown {
    AtDestination,
    AtSource,
    InHand(ElementAddress),
    Nowhere,
}

/// What the elements concerned say.
struct Sight {
    from: Option<SeenElement>,
    to: Option<SeenElement>,
    pickers: Elements,
}

impl Sight {
    /// Where the cartridge is. Labels decide where both are known; a source that is empty and a destination
    /// that is full say it too, since both were looked at before.
    fn of(&self, moved: &Movement) -> Shown {
        let is_it = |element: &SeenElement| {
            element.full
                && match (&element.barcode, &moved.barcode) {
                    (Some(seen), Some(own)) => seen == own,
                    _ => true,
                }
        };
        let holds = |element: &Option<SeenElement>| element.as_ref().is_some_and(is_it);
        if holds(&self.to) && !holds(&self.from) {
            return Shown::AtDestination;
        }
        if holds(&self.from) {
            return Shown::AtSource;
        }
        let comes_from_there = |element: &&SeenElement| {
            is_it(element)
                && (element.barcode.is_some() && moved.barcode.is_some()
                    || element.source.is_none_or(|source| source == moved.from.1))
        };
        let hand = self.pickers.iter().find(|(_, element)| comes_from_there(element));
        hand.map_or(Shown::Nowhere, |(address, _)| Shown::InHand(*address))
    }
}

fn look(robot: &mut Robot, moved: &Movement) -> Result<Sight, LibraryError> {
    let mut one = |(kind, address): (ElementType, ElementAddress)| {
        robot.look(kind, address.0..=address.0).map(|mut found| found.remove(&address))
    };
    let (from, to) = (one(moved.from)?, one(moved.to)?);
    Ok(Sight { from, to, pickers: robot.pickers()? })
}

/// Moves a cartridge.
///
/// # Errors
/// If the changer is not reached before anything was moved.
pub(super) fn bring(
    robot: &mut Robot,
    moved: &Movement,
    times: &ChangerTimes,
) -> Result<Moved, LibraryError> {
    let mut last = None;
    for _ in 0..MOVES_MAX {
        // Each time: between two looks an operator may have exchanged what stands there.
        let before = look(robot, moved)?;
        if before.of(moved) != Shown::AtSource {
            return Ok(match (before.of(moved), last) {
                // The attention was for a movement of ours that had been given up.
                (Shown::AtDestination, Some(())) => Moved::There,
                (Shown::InHand(_), Some(())) => Moved::Lost(gone(moved)),
                _ => Moved::Stayed(gone(moved)),
            });
        }
        if before.to.as_ref().is_some_and(|to| to.full) {
            return Ok(Moved::DestinationFull);
        }
        match robot.carry(moved.from.1, moved.to.1) {
            Ok(()) => return Ok(settled(robot, moved, times, None)),
            Err(MoveFailure::Attention) => last = Some(()),
            Err(MoveFailure::Refused(failure)) => return Ok(refused(robot, moved, times, failure)),
            Err(MoveFailure::Doubt(failure)) => return Ok(settled(robot, moved, times, Some(failure))),
        }
    }
    Ok(Moved::Stayed(gone(moved)))
}

/// The cartridge is not where it should be taken from.
fn gone(moved: &Movement) -> DeviceError {
    let vid = moved.vid.map_or_else(|| "without a label".to_owned(), |vid| vid.to_string());
    let text = format!("the changer does not keep cartridge {vid} at element {}", moved.from.1);
    DeviceError::System(std::io::Error::other(text))
}

/// The changer says that it did nothing: what stands where tells whether that is so.
fn refused(robot: &mut Robot, moved: &Movement, times: &ChangerTimes, failure: Failure) -> Moved {
    let is_full =
        failure.sense().is_some_and(|sense| (sense.additional.asc, sense.additional.ascq) == (0x3b, 0x0d));
    match look(robot, moved).map(|sight| sight.of(moved)) {
        Ok(Shown::AtSource) if is_full => Moved::DestinationFull,
        Ok(Shown::AtSource) => Moved::Stayed(heard(&failure)),
        _ => settled(robot, moved, times, Some(failure)),
    }
}

/// Waits until the elements show what became of a movement, and brings back what was left in the hand.
fn settled(robot: &mut Robot, moved: &Movement, times: &ChangerTimes, failure: Option<Failure>) -> Moved {
    let reason = |shown: Shown| match (&failure, shown) {
        (Some(failure), _) => heard(failure),
        (None, _) => DeviceError::Sense(crate::Sense::MOVE_FAILED),
    };
    let shown = wait_for_the_end(robot, moved, times, failure.as_ref());
    match shown {
        Shown::AtDestination => Moved::There,
        Shown::AtSource => Moved::Stayed(reason(shown)),
        Shown::InHand(picker) => {
            let back = Movement { from: (ElementType::Transport, picker), to: moved.from, ..moved.clone() };
            // Once: a hand that does not let go is a matter for people.
            let again = match robot.carry(picker, moved.from.1) {
                Ok(()) => wait_for_the_end(robot, &back, times, None),
                Err(MoveFailure::Doubt(failure)) => wait_for_the_end(robot, &back, times, Some(&failure)),
                Err(_) => Shown::Nowhere,
            };
            match again {
                Shown::AtDestination => Moved::Stayed(reason(shown)),
                _ => Moved::Lost(reason(shown)),
            }
        }
        Shown::Nowhere => Moved::Lost(reason(shown)),
    }
}

fn wait_for_the_end(
    robot: &mut Robot,
    moved: &Movement,
    times: &ChangerTimes,
    failure: Option<&Failure>,
) -> Shown {
    let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let until = robot.now_us().saturating_add(micros(times.settle));
    // A robot whose answer was lost may still be on its way, and its elements show what was before.
    let is_lost = failure.is_some_and(Failure::may_be_done);
    let steady = if is_lost { micros(times.steady) } else { 0 };
    let mut since: Option<(Shown, u64)> = None;
    loop {
        let sight = robot.ready(times.ready).and_then(|()| look(robot, moved));
        let now = robot.now_us();
        match sight.map(|sight| sight.of(moved)) {
            // What has arrived stays there.
            Ok(Shown::AtDestination) => return Shown::AtDestination,
            Ok(shown) => {
                let begin = since.filter(|(before, _)| *before == shown).map_or(now, |(_, begin)| begin);
                since = Some((shown, begin));
                // A movement that the changer calls done is in doubt while it shows it undone.
                let is_sure = failure.is_some() && shown != Shown::Nowhere;
                if is_sure && now.saturating_sub(begin) >= steady {
                    return shown;
                }
            }
            Err(_) => since = None,
        }
        if now >= until {
            return since.map_or(Shown::Nowhere, |(shown, _)| shown);
        }
        robot.wait(ASK_AGAIN);
    }
}
