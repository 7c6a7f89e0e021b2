//! How long what waits has waited.

use std::collections::{BTreeMap, BTreeSet};

use base::{ByteCount, ClassId, Duration, FileId, TapePoolId, Timestamp, Vid};
use catalogue::{Counter, ReadError, Tally, View};
use journal::QueueAtMount;
use scheduler::Purpose;

use ground::{ArchiveError, Ground};

/// Rows of one queue looked at for its ages.
const QUEUE_ROWS_MAX: usize = 4_096;
/// Rows of all queues looked at for one answer.
const ROWS_MAX: usize = 100_000;

/// What something waits for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum WaitingFor {
    /// Files of this class, to be sealed into containers.
    Seal(String),
    /// Containers, to be written to tapes of this pool.
    Migrate(String),
    /// Wanted files of this class.
    RecallOfClass(String),
    /// Wanted files with a copy in this tape pool.
    RecallFromPool(String),
    /// Wanted files with a copy on this tape.
    RecallFromTape(Vid),
}

/// How long things have waited.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueAge {
    /// What they wait for.
    pub waiting: WaitingFor,
    /// How many wait; of a class or tape pool those that were looked at.
    pub items: u64,
    /// Their bytes.
    pub bytes: ByteCount,
    /// The longest wait.
    pub oldest: Duration,
    /// Half of them wait longer.
    pub median: Duration,
    /// Whether only the first of them, in the order of the queue, were looked at for the ages.
    pub partial: bool,
}

/// How many rows may still be looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowsLeft(usize);

impl RowsLeft {
    /// As many as one answer looks at.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "the limit is not nothing")]
    pub fn new() -> Self {
        RowsLeft(ROWS_MAX)
    }

    fn take(&mut self, found: usize) {
        self.0 = self.0.saturating_sub(found);
    }

    fn limit(&self) -> usize {
        self.0.min(QUEUE_ROWS_MAX)
    }
}

/// Since when the oldest of what is wanted from a tape is wanted: of the first rows in the order of blocks.
///
/// # Errors
/// If the catalogue cannot be read.
pub fn oldest_wanted(view: &View<'_>, vid: Vid, left: &mut RowsLeft) -> Result<Option<Timestamp>, ReadError> {
    let rows = view.recall_set(vid, None, left.limit().max(1))?;
    left.take(rows.len());
    Ok(rows.iter().map(|(_, item)| item.since).min())
}

/// What waits for a tape that is about to be mounted. What cannot be read counts as nothing.
pub(crate) fn queue_at_mount(ground: &Ground, vid: Vid, purpose: Purpose) -> QueueAtMount {
    let read = ground.read(|view| match purpose {
        Purpose::Migration(pool) => {
            let oldest = view.queue(pool, None, 1)?.first().map(|(_, queued)| queued.since);
            Ok((view.tally(Counter::Queued(pool))?, oldest))
        }
        Purpose::Recall => {
            let oldest = oldest_wanted(view, vid, &mut RowsLeft::new())?;
            Ok((view.tally(Counter::Wanted(vid))?, oldest))
        }
        Purpose::Maintenance => Ok((Tally::default(), None)),
    });
    let (tally, oldest) = read.unwrap_or_default();
    QueueAtMount { items: tally.files, bytes: tally.bytes, oldest }
}

/// Gathers the ages of one queue.
#[derive(Default)]
struct Ages {
    items: u64,
    bytes: u64,
    ages: Vec<Duration>,
    partial: bool,
}

impl Ages {
    fn add(&mut self, age: Duration, bytes: u64) {
        self.items += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.ages.push(age);
    }

    /// `whole`: how many there are in all, if that is known.
    fn end(mut self, waiting: WaitingFor, whole: Option<Tally>) -> Option<QueueAge> {
        self.ages.sort_unstable();
        let (oldest, median) = (*self.ages.last()?, *self.ages.get(self.ages.len() / 2)?);
        let partial = self.partial || whole.is_some_and(|whole| whole.files > self.items);
        let tally = whole.unwrap_or(Tally { files: self.items, bytes: ByteCount(self.bytes) });
        Some(QueueAge { waiting, items: tally.files, bytes: tally.bytes, oldest, median, partial })
    }
}

/// The ages of everything that waits, the queues in order.
pub(crate) fn all(ground: &Ground, now: Timestamp) -> Result<Vec<QueueAge>, ArchiveError> {
    let mut left = RowsLeft::new();
    let mut ages = Vec::new();
    for class in ground.classes.all() {
        let waiting = WaitingFor::Seal(class.settings.name.clone());
        ages.extend(ground.read(|view| of_class(view, class.id, waiting, now, &mut left))?);
    }
    for (id, pool) in ground.classes.tape_pools() {
        let waiting = WaitingFor::Migrate(pool.name.clone());
        ages.extend(ground.read(|view| of_pool(view, *id, waiting, now, &mut left))?);
    }
    ages.extend(recalls(ground, now, &mut left)?);
    ages.sort_unstable_by(|a, b| a.waiting.cmp(&b.waiting));
    Ok(ages)
}

fn of_class(
    view: &View<'_>,
    class: ClassId,
    waiting: WaitingFor,
    now: Timestamp,
    left: &mut RowsLeft,
) -> Result<Option<QueueAge>, ReadError> {
    let rows = view.todo(class, None, left.limit())?;
    left.take(rows.len());
    let mut ages = Ages::default();
    rows.iter().for_each(|(_, todo)| ages.add(now.since(todo.since), 0));
    Ok(ages.end(waiting, Some(view.tally(Counter::Todo(class))?)))
}

fn of_pool(
    view: &View<'_>,
    pool: TapePoolId,
    waiting: WaitingFor,
    now: Timestamp,
    left: &mut RowsLeft,
) -> Result<Option<QueueAge>, ReadError> {
    let rows = view.queue(pool, None, left.limit())?;
    left.take(rows.len());
    let mut ages = Ages::default();
    rows.iter().for_each(|(_, queued)| ages.add(now.since(queued.since), 0));
    Ok(ages.end(waiting, Some(view.tally(Counter::Queued(pool))?)))
}

/// By tape, by tape pool, and by class. A file with two copies waits for both tapes, but counts once for its
/// class.
fn recalls(ground: &Ground, now: Timestamp, left: &mut RowsLeft) -> Result<Vec<QueueAge>, ArchiveError> {
    let mut found = Vec::new();
    let (mut pools, mut classes) = (BTreeMap::<_, Ages>::new(), BTreeMap::<_, Ages>::new());
    let mut counted: BTreeSet<FileId> = BTreeSet::new();
    for (vid, record) in ground.read(|view| view.tapes())? {
        ground.read(|view| {
            let whole = view.tally(Counter::Wanted(vid))?;
            if whole.files == 0 {
                return Ok(());
            }
            let rows = view.recall_set(vid, None, left.limit())?;
            left.take(rows.len());
            let partial = (rows.len() as u64) < whole.files;
            let mut tape = Ages::default();
            for (key, item) in rows {
                let (age, bytes) = (now.since(item.since), item.length.0);
                tape.add(age, bytes);
                if let Some(pool) = record.tape_pool {
                    pools.entry(pool).or_default().add(age, bytes);
                }
                if counted.insert(key.file)
                    && let Some(file) = view.file(key.file)?
                {
                    classes.entry(file.class).or_default().add(age, bytes);
                }
            }
            if partial {
                classes.values_mut().for_each(|ages| ages.partial = true);
                if let Some(ages) = record.tape_pool.and_then(|pool| pools.get_mut(&pool)) {
                    ages.partial = true;
                }
            }
            found.extend(tape.end(WaitingFor::RecallFromTape(vid), Some(whole)));
            Ok(())
        })?;
    }
    for (pool, ages) in pools {
        found.extend(ages.end(WaitingFor::RecallFromPool(ground.classes.tape_pool_name(pool)), None));
    }
    for (class, ages) in classes {
        found.extend(ages.end(WaitingFor::RecallOfClass(ground.classes.name(class)), None));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_what_was_seen_and_say_so() {
        let mut ages = Ages::default();
        for seconds in [5, 1, 3, 9] {
            ages.add(Duration::from_secs(seconds), 10);
        }
        let whole = Tally { files: 4, bytes: ByteCount(40) };
        let waiting = WaitingFor::Seal("standard".to_owned());
        let age = ages.end(waiting.clone(), Some(whole)).unwrap();
        assert_eq!((age.oldest.as_secs(), age.median.as_secs(), age.partial), (9, 5, false));
        let mut ages = Ages::default();
        ages.add(Duration::from_secs(2), 10);
        let age = ages.end(waiting.clone(), Some(whole)).unwrap();
        assert_eq!((age.items, age.bytes, age.partial), (4, ByteCount(40), true));
        assert_eq!(Ages::default().end(waiting, Some(whole)), None, "nothing was seen: no ages");
    }
}
