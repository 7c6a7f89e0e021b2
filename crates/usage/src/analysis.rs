//! Adding the log up, line by line, in bounded memory.

use crate::access::Access;
use crate::figures::{Usage, Window};
use crate::total::Total;
use crate::tracker::Tracker;

/// Classes that are told apart; further ones are added up as [`OTHER_CLASSES`].
pub const ANALYSIS_CLASSES_MAX: usize = 256;
/// The name under which classes beyond [`ANALYSIS_CLASSES_MAX`], and lines without a class, are added up.
pub const OTHER_CLASSES: &str = "(other)";
/// Days whose figures are kept apart, in case that lines are out of order; older ones are added up.
const DAYS_APART_MAX: usize = 3;

/// Adds lines up. They should come in the order of their times; a little disorder does no harm.
///
/// Memory is bounded by the limits of this crate, whatever the log's length: some 120 MB at most.
#[derive(Debug)]
pub struct Analysis {
    window: Window,
    /// Only this class.
    class: Option<String>,
    tracker: Tracker,
    total: Total,
}

impl Analysis {
    /// Of a window, of all classes or of one.
    #[must_use]
    pub fn new(window: Window, class: Option<&str>) -> Self {
        let tracker = Tracker::new(window.since);
        Analysis { window, class: class.map(str::to_owned), tracker, total: Total::new(class) }
    }

    /// The figures of all `records` in a window.
    #[must_use]
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Access>, window: Window) -> Usage {
        let mut analysis = Analysis::new(window, None);
        records.into_iter().for_each(|access| analysis.add(access));
        analysis.end()
    }

    /// Adds a line. What is outside of the window is left out, but for lines of state before it.
    pub fn add(&mut self, access: &Access) {
        if access.at >= self.window.until {
            return;
        }
        let is_before = access.at < self.window.since && !access.is_state();
        let is_of_another = self.class.as_deref().is_some_and(|only| {
            let is_of_a_class = !access.is_state() && !matches!(access.what, crate::What::Dropped { .. });
            is_of_a_class && only != access.class.as_deref().unwrap_or(OTHER_CLASSES)
        });
        if is_before || is_of_another {
            return self.tracker.saw(access.at);
        }
        self.tracker.add(access);
        self.fold(DAYS_APART_MAX);
    }

    fn fold(&mut self, most: usize) {
        while self.tracker.days().count() > most {
            let Some((number, _)) = self.tracker.days().next() else { return };
            if let Some(day) = self.tracker.take(number) {
                self.total.add(number, &day);
            }
        }
    }

    /// The figures.
    #[must_use]
    pub fn end(mut self) -> Usage {
        self.fold(0);
        self.total.stands(&self.tracker);
        self.total.end(self.window)
    }
}

#[cfg(test)]
mod tests;
