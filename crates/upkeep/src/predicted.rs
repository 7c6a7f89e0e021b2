//! Which drive is emptied since its disk foretells its failure. Pure.
//!
//! A verdict may be wrong, of one disk or by a fault of a firmware of all of them: so one drive at a time is
//! emptied, while nothing else is wrong with the pool, and no other before its disk was pulled.

use base::DriveId;

/// Looks in a row that must foretell a failure: one answer may be garbled.
pub(crate) const LOOKS_NEEDED: u32 = 2;
/// One in so many drives may foretell its failure at once, and one in any case: more is rather the
/// judgement's fault, or the enclosure's, and is for a person.
const PREDICTED_MAX_OF: usize = 4;

/// What of a drive decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Facts {
    pub drive: DriveId,
    /// Its disk foretells its failure, in as many looks as are needed.
    pub is_predicted: bool,
    /// It is being emptied, or was, for that reason and by itself.
    pub is_drained: bool,
    /// An operator ended that.
    pub is_kept: bool,
    /// It is being emptied, for whatever reason.
    pub is_draining: bool,
    /// It does not answer, or lacks something of what it should hold.
    pub is_unwell: bool,
}

/// Why none is emptied though one foretells its failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waits {
    /// This one was emptied before, and is in the pool still.
    OneAtATime(DriveId),
    /// So many foretell it at once.
    TooMany(usize),
    /// This one does not answer, lacks something or is emptied.
    Unwell(DriveId),
    /// An operator ended it.
    Kept,
}

impl Waits {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Waits::OneAtATime(_) => "one-at-a-time",
            Waits::TooMany(_) => "too-many",
            Waits::Unwell(_) => "pool-unwell",
            Waits::Kept => "kept",
        }
    }

    pub(crate) fn text(self) -> String {
        match self {
            Waits::OneAtATime(drive) => {
                format!("drive {drive} was emptied for the same reason, and its disk is to be replaced first")
            }
            Waits::TooMany(count) => format!(
                "{count} disks foretell their failure at once, which is rather a fault of their judgement: \
                 look at kist disk health, and have drives emptied by hand (kist pool drive drain)"
            ),
            Waits::Unwell(drive) => format!(
                "drive {drive} does not answer, lacks something or is emptied: one drive at a time, while \
                 the others are well"
            ),
            Waits::Kept => "an operator has ended that: kist pool drive drain has it emptied".to_owned(),
        }
    }
}

/// The drive that is to be emptied; `Ok(None)`: none foretells its failure.
pub(crate) fn which(drives: &[Facts]) -> Result<Option<DriveId>, Waits> {
    let predicted: Vec<&Facts> = drives.iter().filter(|one| one.is_predicted && !one.is_drained).collect();
    if predicted.is_empty() {
        return Ok(None);
    }
    let all = drives.iter().filter(|one| one.is_predicted || one.is_drained).count();
    if all > (drives.len() / PREDICTED_MAX_OF).max(1) {
        return Err(Waits::TooMany(all));
    }
    if let Some(before) = drives.iter().find(|one| one.is_drained) {
        return Err(Waits::OneAtATime(before.drive));
    }
    let Some(chosen) = predicted.iter().find(|one| !one.is_kept) else { return Err(Waits::Kept) };
    if chosen.is_draining {
        return Ok(None);
    }
    match drives.iter().find(|one| one.is_unwell || one.is_draining) {
        Some(other) => Err(Waits::Unwell(other.drive)),
        None => Ok(Some(chosen.drive)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(count: u16) -> Vec<Facts> {
        let one = |drive| Facts {
            drive: DriveId(drive),
            is_predicted: false,
            is_drained: false,
            is_kept: false,
            is_draining: false,
            is_unwell: false,
        };
        (0..count).map(one).collect()
    }

    type Change = fn(&mut Facts);

    fn with(count: u16, changes: &[(usize, Change)]) -> Result<Option<DriveId>, Waits> {
        let mut drives = pool(count);
        changes.iter().for_each(|(at, change)| change(&mut drives[*at]));
        which(&drives)
    }

    #[test]
    fn one_that_foretells_its_failure_is_emptied_while_all_others_are_well() {
        let predicted: Change = |one| one.is_predicted = true;
        assert_eq!(which(&pool(8)), Ok(None));
        assert_eq!(with(8, &[(3, predicted)]), Ok(Some(DriveId(3))));
        assert_eq!(with(8, &[(3, predicted), (5, predicted)]), Ok(Some(DriveId(3))));
        let unwell: [Change; 2] = [|one| one.is_unwell = true, |one| one.is_draining = true];
        for change in unwell {
            assert_eq!(with(8, &[(3, predicted), (6, change)]), Err(Waits::Unwell(DriveId(6))));
        }
        // One that does not answer itself cannot be read.
        assert_eq!(with(8, &[(3, predicted), (3, unwell[0])]), Err(Waits::Unwell(DriveId(3))));
        // By hand already.
        assert_eq!(with(8, &[(3, predicted), (3, unwell[1])]), Ok(None));
    }

    #[test]
    fn no_second_one_before_the_first_is_replaced_and_none_if_many_foretell_it() {
        let predicted: Change = |one| one.is_predicted = true;
        let drained: Change = |one| one.is_drained = true;
        assert_eq!(with(8, &[(1, drained), (3, predicted)]), Err(Waits::OneAtATime(DriveId(1))));
        // The verdict of the first went away meanwhile: it is emptied all the same.
        assert_eq!(with(8, &[(1, drained)]), Ok(None));
        let three = [(1, predicted), (2, predicted), (3, predicted)];
        assert_eq!(with(8, &three), Err(Waits::TooMany(3)));
        assert_eq!(with(12, &three), Ok(Some(DriveId(1))));
        assert_eq!(with(3, &three[..2]), Err(Waits::TooMany(2)), "a small pool");
        assert_eq!(with(3, &three[..1]), Ok(Some(DriveId(1))));
        assert_eq!(with(8, &[(1, drained), (2, predicted), (3, predicted)]), Err(Waits::TooMany(3)));
    }

    #[test]
    fn what_an_operator_ended_does_not_begin_again() {
        let kept: Change = |one| (one.is_predicted, one.is_kept) = (true, true);
        assert_eq!(with(8, &[(3, kept)]), Err(Waits::Kept));
        assert_eq!(with(8, &[(3, kept), (5, |one| one.is_predicted = true)]), Ok(Some(DriveId(5))));
    }
}
