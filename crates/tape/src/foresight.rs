//! When what waits will be done, and what a request still waits for.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use threads::Mutex;

use base::{Duration, FileId, RequestId};
use catalogue::{RequestRecord, RequestState};
use scheduler::{Expected, Forecast, Forecaster, Pace, Reason, Subject, WantedGroup};

use crate::reasons::Waiting as WaitingFor;
use crate::room::Tape;
use crate::space::RequestReasons;
use ground::{ArchiveError, RequestOutlook, TailFile};

/// A forecast is given again for so long before another one is made.
const FRESH: Duration = Duration::from_secs(5);
/// The same if something is asked for that it does not know of.
const FRESH_AT_LEAST: Duration = Duration::from_millis(100);
/// A forecast is made at least so often while the archive runs, so that there is something to learn from.
const EVERY: Duration = Duration::from_secs(60);
/// Files of a request that are looked at.
const LOOKED_AT_MAX: usize = 10_000;
/// Files looked at together, with the scheduler held.
const PAGE: usize = 500;
/// Files named that come last.
pub(crate) const TAIL_FILES_MAX: usize = 10;
/// Requests of which it is looked up at once whether they are complete.
const REQUESTS_LOOKED_UP_MAX: usize = 64;

/// What watches the scheduler, and its last forecast.
pub(crate) struct Foresight {
    forecaster: Mutex<Forecaster>,
    latest: Mutex<Option<Arc<Forecast>>>,
}

impl Foresight {
    pub(crate) fn new(pace: Pace) -> Self {
        Foresight { forecaster: Mutex::new(Forecaster::new(pace)), latest: Mutex::new(None) }
    }

    /// To be locked after the scheduler, if both are.
    pub(crate) fn forecaster(&self) -> threads::MutexGuard<'_, Forecaster> {
        self.forecaster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tape {
    /// A forecast that is not older than a few seconds. The scheduler is held while its summary is taken,
    /// not while that is run.
    pub(crate) fn forecast(&self) -> Arc<Forecast> {
        self.forecast_not_older(FRESH)
    }

    fn forecast_not_older(&self, age: Duration) -> Arc<Forecast> {
        let mut latest = self.foresight.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.now();
        if let Some(forecast) = latest.as_ref().filter(|forecast| now.since(forecast.made()) < age) {
            return Arc::clone(forecast);
        }
        self.look_up_requests();
        let summary = {
            let mut scheduler = self.scheduler();
            self.foresight.forecaster().summary(&mut scheduler, now)
        };
        let outlook = summary.run();
        let forecast = Arc::new(self.foresight.forecaster().forecast(outlook));
        *latest = Some(Arc::clone(&forecast));
        forecast
    }

    /// What a forecast says of something, if need be one made now.
    fn foretold<T>(&self, look: impl Fn(&Forecast) -> Option<T>) -> Option<T> {
        look(&self.forecast()).or_else(|| look(&self.forecast_not_older(FRESH_AT_LEAST)))
    }

    /// Makes a forecast now and then, whoever asks.
    pub(crate) fn foresee(&self) {
        self.forecast_not_older(EVERY);
    }

    /// A forecast that knows of these groups, if one made now does.
    fn forecast_of<'a>(&self, mut groups: impl Iterator<Item = &'a WantedGroup>) -> Arc<Forecast> {
        let forecast = self.forecast();
        match groups.all(|group| forecast.knows(group)) {
            true => forecast,
            false => self.forecast_not_older(FRESH_AT_LEAST),
        }
    }

    /// When that is done which waits for this reason, so that no screen names one cause and foretells by
    /// another: what lasts until somebody does something is known without a forecast, and a forecast of
    /// before somebody did it is made anew.
    pub(crate) fn expected(
        &self,
        reason: Option<&Reason>,
        look: impl Fn(&Forecast) -> Option<Expected>,
    ) -> Option<Expected> {
        if let Some(lasting) = reason.filter(|reason| reason.needs_an_operator()) {
            return Some(Expected::Never(lasting.clone()));
        }
        // How long that takes is not known: readers may hold what leaves.
        if matches!(reason, Some(Reason::RoomIsBeingMade { .. })) {
            return None;
        }
        let told = match self.foretold(&look) {
            Some(Expected::Never(_)) => look(&self.forecast_not_older(FRESH_AT_LEAST)),
            told => told,
        };
        told.map(|told| told.seen_at(self.now()))
    }

    /// When a wanted file is online, which waits for this reason.
    pub(crate) fn expected_of_file(&self, file: FileId, reason: Option<&Reason>) -> Option<Expected> {
        let group = self.scheduler().group_of(file)?;
        let is_lasting = reason.is_some_and(Reason::needs_an_operator);
        if !is_lasting && self.is_short_of_room(file).unwrap_or(true) {
            return None;
        }
        self.expected(reason, |forecast| forecast.of_group(&group, 1))
    }

    /// Whether a wanted file is known to find no room in the pool now. When it comes is not known then: its
    /// tape is tried again and again, each time later, and a forecast takes each try for the last one.
    fn is_short_of_room(&self, file: FileId) -> Result<bool, ArchiveError> {
        let short: Vec<_> = self.own.space.lock().short().collect();
        if short.is_empty() {
            return Ok(false);
        }
        let Some(record) = self.read(|view| view.file(file))? else { return Ok(false) };
        Ok(short.iter().any(|(class, least)| *class == record.class && record.size >= *least))
    }

    /// Requests whose end was foretold tell how right that was.
    fn look_up_requests(&self) {
        let outstanding: Vec<RequestId> = {
            let forecaster = self.foresight.forecaster();
            let requests = forecaster.outstanding().filter_map(|subject| match subject {
                Subject::Request(request) => Some(*request),
                _ => None,
            });
            requests.take(REQUESTS_LOOKED_UP_MAX).collect()
        };
        for request in outstanding {
            // What cannot be read now is looked up again.
            let Ok(record) = self.read(|view| view.request(request)) else { continue };
            let subject = Subject::Request(request);
            match record.map(|record| (record.state, record.ended)) {
                Some((RequestState::Completed, Some(ended))) => {
                    self.foresight.forecaster().came(&subject, ended);
                }
                Some((RequestState::Filling | RequestState::Active, _)) => {}
                _ => self.foresight.forecaster().forget(&subject),
            }
        }
    }
}

/// What a request waits for, as far as it was looked at.
#[derive(Default)]
struct Waiting {
    groups: BTreeMap<WantedGroup, u64>,
    /// A few files of each group.
    files: BTreeMap<WantedGroup, Vec<FileId>>,
    looked_at: usize,
}

impl Tape {
    /// How far a request is, when it will be complete, and which files come last. Of a request of more than
    /// 10,000 files that many are looked at, spread over all of them.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchRequest`].
    pub fn request_outlook(&self, request: RequestId) -> Result<RequestOutlook, ArchiveError> {
        let record = self.request(request)?.record;
        self.outlook_of(request, &record, &mut self.reasons_in_request(request, &record))
    }

    /// The same for a caller that tells reasons of the request's files besides.
    pub(crate) fn outlook_of(
        &self,
        request: RequestId,
        record: &RequestRecord,
        in_request: &mut RequestReasons<'_>,
    ) -> Result<RequestOutlook, ArchiveError> {
        let room = self;
        let ended = u64::from(record.done) + u64::from(record.failed) + u64::from(record.cancelled);
        let until = record.ended.unwrap_or_else(|| room.now());
        let seconds = until.since(record.created).as_secs_f64();
        let mut outlook = RequestOutlook {
            waiting: u64::from(record.files).saturating_sub(ended),
            looked_at: 0,
            rate: if seconds > 0.0 { record.done_bytes.0 as f64 / seconds } else { 0.0 },
            expected: None,
            tail: Vec::new(),
        };
        if !matches!(record.state, RequestState::Filling | RequestState::Active) {
            outlook.waiting = 0;
            return Ok(outlook);
        }
        let waiting = waiting_groups(room, request, record.files)?;
        outlook.looked_at = waiting.looked_at as u64;
        if waiting.groups.is_empty() {
            return Ok(outlook);
        }
        let forecast = room.forecast_of(waiting.groups.keys());
        let told = forecast.of_request(&waiting.groups);
        let mut reasons = FileReasons::new(|file| Ok(room.reason(WaitingFor::Recall(file))?));
        let is_short = is_any_short_of_room(room, &mut reasons, &waiting)?;
        if let Some(nominal) = told.nominal.filter(|_| !is_short) {
            let made = forecast.made();
            room.foresight.forecaster().foretell(Subject::Request(request), made, nominal);
        }
        let now = room.now();
        let lasting = lasting_of_request(&mut reasons, in_request, &waiting)?;
        outlook.expected = match lasting {
            Some(lasting) => Some(Expected::Never(lasting)),
            None if is_short => None,
            None => told.expected.map(|expected| expected.seen_at(now)),
        };
        for (group, expected) in told.groups {
            for file in waiting.files.get(&group).into_iter().flatten() {
                if outlook.tail.len() >= TAIL_FILES_MAX {
                    return Ok(outlook);
                }
                let expected = expected.clone().map(|expected| expected.seen_at(now));
                let Some(reason) = reasons.of(*file)? else { continue };
                let reason = in_request.of(reason)?;
                outlook.tail.extend(tail_file(room, *file, reason, &group, expected)?);
            }
        }
        Ok(outlook)
    }
}

/// Why files wait, each asked once for an outlook: a reason costs reads of the catalogue and the scheduler's
/// lock, and two parts of one answer are not to name two causes of one file.
struct FileReasons<F> {
    look_up: F,
    known: BTreeMap<FileId, Option<Reason>>,
}

impl<F: Fn(FileId) -> Result<Option<Reason>, ArchiveError>> FileReasons<F> {
    fn new(look_up: F) -> Self {
        FileReasons { look_up, known: BTreeMap::new() }
    }

    fn of(&mut self, file: FileId) -> Result<Option<Reason>, ArchiveError> {
        if let Some(known) = self.known.get(&file) {
            return Ok(known.clone());
        }
        let reason = (self.look_up)(file)?;
        self.known.insert(file, reason.clone());
        Ok(reason)
    }
}

/// Whether any of the files that stand for all is known to find no room, or waits for what is being made.
fn is_any_short_of_room(
    room: &Tape,
    reasons: &mut FileReasons<impl Fn(FileId) -> Result<Option<Reason>, ArchiveError>>,
    waiting: &Waiting,
) -> Result<bool, ArchiveError> {
    for file in waiting.files.values().flatten() {
        if room.is_short_of_room(*file)? || matches!(reasons.of(*file)?, Some(Reason::RoomIsBeingMade { .. }))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What keeps a part of a request until somebody does something: then no time is foretold for the whole, as
/// [`Tape::expected`] has it for a file.
fn lasting_of_request(
    reasons: &mut FileReasons<impl Fn(FileId) -> Result<Option<Reason>, ArchiveError>>,
    in_request: &mut RequestReasons<'_>,
    waiting: &Waiting,
) -> Result<Option<Reason>, ArchiveError> {
    for file in waiting.files.values().filter_map(|files| files.first()) {
        if let Some(lasting) = reasons.of(*file)?.filter(Reason::needs_an_operator) {
            return in_request.of(lasting).map(Some);
        }
    }
    Ok(None)
}

fn tail_file(
    room: &Tape,
    file: FileId,
    reason: Reason,
    group: &WantedGroup,
    expected: Option<Expected>,
) -> Result<Option<TailFile>, ArchiveError> {
    let (path, record) = room.read(|view| Ok((view.path_of_file(file)?, view.file(file)?)))?;
    let Some(record) = record else { return Ok(None) };
    let expected = match &reason {
        lasting if lasting.needs_an_operator() => Some(Expected::Never(lasting.clone())),
        Reason::RoomIsBeingMade { .. } => None,
        _ if room.is_short_of_room(file)? => None,
        _ => expected,
    };
    let taken = group.taken_by();
    Ok(Some(TailFile {
        path: path.unwrap_or_else(|| format!("(file {file}, deleted)")),
        size: record.size,
        tapes: taken.map_or_else(|| group.copies().to_vec(), |vid| vec![vid]),
        reason,
        expected,
    }))
}

/// Looks at the files of a request, at all or at some from everywhere.
fn waiting_groups(room: &Tape, request: RequestId, files: u32) -> Result<Waiting, ArchiveError> {
    let mut waiting = Waiting::default();
    let pages = LOOKED_AT_MAX / PAGE;
    let step = (files as usize).div_ceil(pages).max(PAGE);
    for page in 0..pages {
        let Ok(from) = u32::try_from(page * step) else { break };
        if from >= files {
            break;
        }
        let items = room.read(|view| view.request_items(request, from, PAGE))?;
        waiting.looked_at += items.len();
        let scheduler = room.scheduler();
        for (_, item) in items.iter().filter(|(_, item)| item.state.waits()) {
            let Some(group) = scheduler.group_of(item.file) else { continue };
            let examples = waiting.files.entry(group.clone()).or_default();
            if examples.len() < TAIL_FILES_MAX {
                examples.push(item.file);
            }
            *waiting.groups.entry(group).or_default() += 1;
        }
    }
    Ok(waiting)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_reason_is_looked_up_once_for_an_outlook() {
        let asked = Cell::new(0);
        let mut reasons = FileReasons::new(|file: FileId| {
            asked.set(asked.get() + 1);
            Ok((file.0 == 1).then_some(Reason::Lost))
        });
        for _ in 0..3 {
            assert_eq!(reasons.of(FileId(1)).unwrap(), Some(Reason::Lost));
            assert_eq!(reasons.of(FileId(2)).unwrap(), None);
        }
        assert_eq!(asked.get(), 2, "also that there is none is known");
    }
}
