//! Requests that have ended are forgotten after a while, oldest first: their rows would stay for ever.

use std::collections::BTreeMap;

use base::{Duration, RequestId, Timestamp};
use catalogue::{ItemState, ReadError, RequestItem, RequestRecord, typed};

use crate::Upkeep;
use ground::ArchiveError;
use ground::has_ended;

/// Requests looked at together.
const PAGE: usize = 256;
/// Most requests looked at in one turn, while there is something to forget.
const LOOKED_AT_MAX: usize = 64 * PAGE;
/// Between two turns while there is nothing to forget.
const TURN_EVERY: Duration = Duration::from_secs(10);
/// A round takes at most about so many of them: about ten minutes, however many requests there are.
const TURNS_MAX: u64 = 64;

/// How far a round from the newest to the oldest request is.
#[derive(Default)]
pub(crate) struct Round {
    /// The next request is older than this one; `None`: the newest.
    before: Option<RequestId>,
    /// How many were passed in this round.
    newer: u64,
    /// How many paths of ended requests of each owner were passed in this round, also of those that hold
    /// files.
    paths: BTreeMap<String, u64>,
    /// How many the last round passed.
    length: u64,
    /// Something was forgotten in this round. What comes behind it is older, so that there is more: the rest
    /// of the round is gone through without a rest, or new requests could come faster than old ones go.
    hurries: bool,
    /// When the last turn was.
    last: Option<Duration>,
}

impl Round {
    /// Goes on with the round; whether the next turn is due at once.
    pub(crate) fn turn(&mut self, upkeep: &Upkeep) -> Result<bool, ArchiveError> {
        let steady = upkeep.steady();
        if !self.hurries && self.last.is_some_and(|last| steady.saturating_sub(last) < TURN_EVERY) {
            return Ok(false);
        }
        self.last = Some(steady);
        let least = usize::try_from(self.length / TURNS_MAX).unwrap_or(usize::MAX).min(LOOKED_AT_MAX);
        let mut looked_at = 0;
        while !upkeep.stopping() {
            let is_end = self.page(upkeep)?;
            looked_at += PAGE;
            if is_end {
                *self = Round { length: self.newer, last: self.last, ..Round::default() };
                return Ok(false);
            }
            if looked_at >= if self.hurries { LOOKED_AT_MAX } else { least } {
                return Ok(self.hurries);
            }
        }
        Ok(false)
    }

    /// Looks at the next requests and forgets those that have ended long enough ago, or that so many newer
    /// ones stand before. What still has a pin stays. Whether these were the oldest.
    fn page(&mut self, upkeep: &Upkeep) -> Result<bool, ArchiveError> {
        let settings = upkeep.settings();
        let now = upkeep.now();
        let page = upkeep.read(|view| view.requests(self.before, PAGE))?;
        let is_end = page.len() < PAGE;
        for (id, request) in page {
            self.before = Some(id);
            self.newer += 1;
            // One that found no room halfway is gone on with.
            let has_ended = has_ended(request.state);
            let Some(ended) = request.ended.filter(|_| has_ended) else { continue };
            let has_many = self.paths_with(&request) > settings.paths_kept_max;
            if is_held(upkeep, id, &request, ended)? {
                continue;
            }
            let is_old = ended.plus(settings.requests_kept) <= now;
            let has_newer = self.newer > settings.requests_kept_max;
            if has_many || is_old || has_newer {
                self.hurries = true;
                while upkeep.ask(typed::ForgetSome { request: id })? {}
            }
        }
        Ok(is_end)
    }

    /// Counts the paths of a request that has ended; those of its owner with them.
    fn paths_with(&mut self, request: &RequestRecord) -> u64 {
        let Some(list) = request.list else { return 0 };
        let paths = self.paths.entry(request.owner.clone()).or_default();
        *paths = paths.saturating_add(u64::from(list.paths));
        *paths
    }
}

/// Goes on counting paths that requests had before they were counted.
pub(crate) fn count_older_paths(upkeep: &Upkeep) -> Result<(), ArchiveError> {
    while !upkeep.stopping() && upkeep.read(|view| view.has_uncounted_paths())? {
        upkeep.ask(typed::CountSomePaths {})?;
    }
    Ok(())
}

/// Whether a request that has ended pins one of its files.
fn is_held(
    upkeep: &Upkeep,
    id: RequestId,
    request: &RequestRecord,
    ended: Timestamp,
) -> Result<bool, ArchiveError> {
    let now = upkeep.now();
    if request.list.is_none() {
        // All its files are pinned for so long after they came, of which this was the last.
        return Ok(ended.plus(request.pin) > now);
    }
    // Here each file has a time of its own, and there are at most `REQUEST_PATHS_MAX`.
    let mut from = 0;
    while from < request.files {
        let items = upkeep.read(|view| {
            let items = view.request_items(id, from, PAGE)?.into_iter();
            let done = |item: &RequestItem| matches!(item.state, ItemState::Done(_));
            let of_item = |(number, item): (u32, RequestItem)| {
                let pin = if done(&item) { view.pin(item.file, id)? } else { None };
                Ok((number, pin))
            };
            items.map(of_item).collect::<Result<Vec<_>, ReadError>>()
        })?;
        if items.iter().any(|(_, pin)| pin.is_some_and(|until| until > now)) {
            return Ok(true);
        }
        let Some((last, _)) = items.last() else { break };
        from = last.saturating_add(1);
    }
    Ok(false)
}
