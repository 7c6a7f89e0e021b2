//! Which queued containers a writing session takes next: a flush's worth, in an order that keeps data sets
//! together, of what fits.

use base::{ByteCount, ContainerId, TapePoolId, Timestamp, Vid};

use crate::affinity::{Affinity, Writer};
use crate::batch::{FlushRules, WriteBatch};

/// Queued containers looked at together, to find those of one data set.
pub const CHOOSE_WINDOW: usize = 2_048;
/// Containers looked at, at most, for one that fits into what is left of a tape once one does not.
const FIT_LOOKED_AT_MAX: usize = 4 * CHOOSE_WINDOW;

/// A container that waits for a tape pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queued {
    /// The container.
    pub container: ContainerId,
    /// The data set of its first file.
    pub data_set: u64,
    /// What it takes on tape.
    pub length: ByteCount,
    /// Whether it may go on on the next tape where this one ends. Kist writes none like this; other systems
    /// do.
    pub can_span: bool,
}

/// What becomes of a container that was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accepted {
    /// It can be written, and has so many files.
    Yes {
        /// Files in it.
        members: u64,
    },
    /// Not now: its bytes are not there.
    NotNow,
}

/// A stretch of a queue, and where a look at it ended.
pub type Window<C> = (Vec<Queued>, C);

/// What waits for a tape pool, in the order in which it was sealed.
pub trait MigrationQueue {
    /// Why it cannot be read.
    type Error;
    /// Where a look at the queue ended.
    type Cursor: Copy;

    /// The next containers behind `after`, at most [`CHOOSE_WINDOW`] of them, without those that are left
    /// alone for a while; `None` at the end.
    ///
    /// # Errors
    /// Whatever keeps them from being read.
    fn window(&mut self, after: Option<Self::Cursor>) -> Result<Option<Window<Self::Cursor>>, Self::Error>;

    /// Whether a container can be written now.
    ///
    /// # Errors
    /// Whatever keeps that from being found out.
    fn accept(&mut self, queued: &Queued) -> Result<Accepted, Self::Error>;

    /// A container is larger than an empty tape of the target's kind: it waits for another kind.
    fn is_too_large(&mut self, queued: &Queued);
}

/// The tape that containers are chosen for, and by which rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Target {
    /// The tape.
    pub vid: Vid,
    /// The pool whose queue it is.
    pub tape_pool: TapePoolId,
    /// What still fits on it.
    pub room: ByteCount,
    /// What fits on an empty tape of its kind: what is larger never makes this one count as full.
    pub empty_tape: ByteCount,
    /// With less room than this it is full as soon as nothing that was looked at fits; with more it stays as
    /// it is, for smaller containers.
    pub useful: ByteCount,
    /// When a flush is due, at which the choice ends.
    pub flush: FlushRules,
    /// So much of its data sets is left to each other tape that is being written.
    pub left_to_others: ByteCount,
}

/// What a session is to write next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Choice {
    /// These, in this order; at least one.
    Containers(Vec<Queued>),
    /// Nothing is queued, or only what cannot be written now or is left to other tapes.
    Nothing,
    /// Nothing that can be written fits on this tape, and what is left of it is of no use.
    TapeFull,
    /// Nothing that can be written fits on this tape, which could take smaller containers.
    NothingFits,
}

/// What became of the containers of a window.
enum Step {
    Taken,
    Passed,
    NoRoom,
}

struct Chooser<'a, Q> {
    queue: &'a mut Q,
    target: &'a Target,
    chosen: Vec<Queued>,
    batch: WriteBatch,
}

/// Chooses what is written next, up to a flush's worth: see [`Affinity`] for which.
///
/// # Errors
/// The first one of `queue`; nothing is chosen then.
pub fn choose<Q: MigrationQueue>(
    queue: &mut Q,
    affinity: &mut Affinity,
    now: Timestamp,
    target: &Target,
) -> Result<Choice, Q::Error> {
    let writer = Writer { vid: target.vid, tape_pool: target.tape_pool, room: target.room };
    let mut chooser = Chooser { queue, target, chosen: Vec::new(), batch: WriteBatch::default() };
    let mut after = None;
    let mut waited_longest = true;
    // Since one did not fit.
    let mut looked_at = None;
    'queue: while chooser.chosen.is_empty() {
        let is_enough = looked_at.is_some_and(|looked_at| looked_at >= FIT_LOOKED_AT_MAX);
        let window = if is_enough { None } else { chooser.queue.window(after)? };
        let Some((window, last)) = window else {
            return Ok(match looked_at {
                None => Choice::Nothing,
                Some(_) if target.room < target.useful => Choice::TapeFull,
                Some(_) => Choice::NothingFits,
            });
        };
        after = Some(last);
        looked_at = looked_at.map(|looked_at| looked_at + window.len());
        let order = affinity.order(&writer, now, target.left_to_others, &window);
        let oldest = order.iter().min().copied();
        for at in order {
            let Some(queued) = window.get(at) else { continue };
            let begins = chooser.chosen.is_empty();
            match chooser.add(queued)? {
                Step::Taken if begins => waited_longest = oldest == Some(at),
                Step::Taken | Step::Passed => {}
                // A smaller one may fit: what does not goes to another tape.
                Step::NoRoom if begins => looked_at = looked_at.or(Some(0)),
                Step::NoRoom => break 'queue,
            }
            if chooser.batch.is_full(&target.flush) {
                break 'queue;
            }
        }
    }
    let Chooser { chosen, batch, .. } = chooser;
    assert!(batch.bytes <= target.room, "what is chosen fits on the tape");
    let data_sets: Vec<u64> = chosen.iter().map(|queued| queued.data_set).collect();
    let room = ByteCount(target.room.0 - batch.bytes.0);
    affinity.took(&Writer { room, ..writer }, now, waited_longest, &data_sets);
    Ok(Choice::Containers(chosen))
}

impl<Q: MigrationQueue> Chooser<'_, Q> {
    fn add(&mut self, queued: &Queued) -> Result<Step, Q::Error> {
        let Accepted::Yes { members } = self.queue.accept(queued)? else { return Ok(Step::Passed) };
        if queued.length > self.target.empty_tape && !queued.can_span {
            self.queue.is_too_large(queued);
            return Ok(Step::Passed);
        }
        let left = ByteCount(self.target.room.0 - self.batch.bytes.0);
        if queued.length > left && !(queued.can_span && left.0 > 0) {
            return Ok(Step::NoRoom);
        }
        self.chosen.push(*queued);
        self.batch.add(queued.length.min(left), members);
        Ok(Step::Taken)
    }
}

#[cfg(test)]
mod tests;
