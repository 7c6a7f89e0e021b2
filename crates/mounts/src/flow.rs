//! How long data flowed, from the times of the commands that moved it.

use base::{Duration, Timestamp};

/// Two transfers that lie no further apart belong to one flow.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What a drive did, as its host sees it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Flow {
    /// Bytes of blocks read.
    pub(crate) read: u64,
    /// Bytes of blocks written.
    pub(crate) written: u64,
    /// Commands that moved the tape elsewhere.
    pub(crate) locates: u64,
    /// When the first transfer since [`Flow::mark`] returned, and the last one.
    pub(crate) first: Option<Timestamp>,
    pub(crate) last: Option<Timestamp>,
    /// Flows that are over.
    moved: Duration,
    /// The present flow's begin and end.
    run: Option<(Timestamp, Timestamp)>,
}

impl Flow {
    /// A command from `begin` to `end` moved data.
    pub(crate) fn transfer(&mut self, begin: Timestamp, end: Timestamp) {
        self.first = self.first.or(Some(end));
        self.last = Some(end);
        match &mut self.run {
            Some((_, until)) if begin.since(*until) <= PAUSE_MAX => *until = end.max(*until),
            _ => {
                self.halt();
                self.run = Some((begin, end));
            }
        }
    }

    /// The flow ends.
    pub(crate) fn halt(&mut self) {
        if let Some((begin, end)) = self.run.take() {
            self.moved = self.moved.saturating_add(end.since(begin));
        }
    }

    /// How long data flowed, the present flow included.
    pub(crate) fn moving(&self) -> Duration {
        let now = self.run.map_or(Duration::ZERO, |(begin, end)| end.since(begin));
        self.moved.saturating_add(now)
    }

    /// What it is now, to be compared with later; `first` and `last` begin anew.
    pub(crate) fn mark(&mut self) -> Flow {
        self.halt();
        (self.first, self.last) = (None, None);
        *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: i64) -> Timestamp {
        Timestamp(count * 1_000_000)
    }

    #[test]
    fn short_pauses_belong_to_a_flow_and_long_ones_end_it() {
        let mut flow = Flow::default();
        flow.transfer(ms(1000), ms(1100));
        flow.transfer(ms(1100), ms(1200));
        assert_eq!(flow.moving(), Duration::from_millis(200));
        // Exactly a second of pause.
        flow.transfer(ms(2200), ms(2300));
        assert_eq!(flow.moving(), Duration::from_millis(1300));
        flow.transfer(ms(3301), ms(3400));
        assert_eq!(flow.moving(), Duration::from_millis(1300 + 99));
        flow.halt();
        flow.transfer(ms(3500), ms(3600));
        assert_eq!(flow.moving(), Duration::from_millis(1300 + 99 + 100), "a locate ends a flow");
        assert_eq!((flow.first, flow.last), (Some(ms(1100)), Some(ms(3600))));
        let mark = flow.mark();
        assert_eq!((flow.first, flow.last, flow.moving()), (None, None, mark.moving()));
        flow.transfer(ms(3601), ms(3611));
        assert_eq!(flow.moving() - mark.moving(), Duration::from_millis(10));
    }
}
