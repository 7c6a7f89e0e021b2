//! Requests that have ended are forgotten after a while, oldest first: their rows would stay for ever.

use base::{Duration, RequestId};
use catalogue::{Outcome, RequestState, Work};

use crate::ArchiveError;
use crate::engine::Engine;

/// Requests looked at in one turn.
const LOOKED_AT_MAX: usize = 256;
/// Between two turns: a round over 100,000 requests takes about an hour.
const TURN_EVERY: Duration = Duration::from_secs(10);

/// How far a round from the newest to the oldest request is.
#[derive(Default)]
pub(crate) struct Round {
    /// The next request is older than this one; `None`: the newest.
    before: Option<RequestId>,
    /// How many were passed in this round.
    newer: u64,
    /// When the last turn was.
    last: Option<Duration>,
}

impl Round {
    /// Looks at the next requests and forgets those that have ended long enough ago, or that so many newer
    /// ones stand before. What still has a pin stays.
    pub(crate) fn turn(&mut self, engine: &Engine) -> Result<(), ArchiveError> {
        let steady = engine.steady();
        if self.last.is_some_and(|last| steady.saturating_sub(last) < TURN_EVERY) {
            return Ok(());
        }
        self.last = Some(steady);
        let settings = engine.upkeep.settings();
        let now = engine.now();
        let page = engine.read(|view| view.requests(self.before, LOOKED_AT_MAX))?;
        let is_end = page.len() < LOOKED_AT_MAX;
        for (id, request) in page {
            self.before = Some(id);
            self.newer += 1;
            let has_ended = matches!(request.state, RequestState::Completed | RequestState::Cancelled);
            let Some(ended) = request.ended.filter(|_| has_ended) else { continue };
            // Its files are pinned for so long after the last one came.
            let is_held = ended.plus(request.pin) > now;
            let is_old = ended.plus(settings.requests_kept) <= now;
            if !is_held && (is_old || self.newer > settings.requests_kept_max) {
                while engine.execute(Work::ForgetRequest(id).some())? == Outcome::More(true) {}
            }
        }
        if is_end {
            (self.before, self.newer) = (None, 0);
        }
        Ok(())
    }
}
