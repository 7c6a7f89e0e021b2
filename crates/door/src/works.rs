//! Calls over many files and reports, which go on after they were answered: a client that says
//! `Prefer: respond-async` (RFC 7240) gets the answer if it is there soon, else 202 and a number to ask with.
//! What was not answered, since its client went away, is told there too.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use archive::CallProgress;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::http::header::{HeaderName, HeaderValue, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use identity::Caller;
use serde::Serialize;
use tokio::sync::oneshot;
use transfer::{Holder, Place, Places, Transfers};

use crate::admin::no_such_part;
use crate::engine::Engine;
use crate::shared::{Asked, lost_thread};
use entrance::Call;
use entrance::{Kind, Refusal};
use wire::WorkReply;

/// Ended calls that are remembered; those that ended first are forgotten first. An answer has at most some
/// hundred paths.
const ENDED_KEPT_MAX: usize = 100;
const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");
const RESPOND_ASYNC: &str = "respond-async";

/// What a call is answered with.
pub(crate) struct Answer {
    status: StatusCode,
    body: Option<serde_json::Value>,
}

impl Answer {
    /// A status and nothing else.
    pub(crate) fn status(status: StatusCode) -> Self {
        Answer { status, body: None }
    }

    /// A status and JSON.
    pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Result<Self, Refusal> {
        let body = serde_json::to_value(body).map_err(|error| {
            Refusal::new(Kind::Internal, format!("the answer cannot be written as JSON: {error}"))
        })?;
        Ok(Answer { status, body: Some(body) })
    }
}

impl IntoResponse for &Answer {
    fn into_response(self) -> Response {
        match &self.body {
            None => self.status.into_response(),
            Some(body) => (self.status, Json(body)).into_response(),
        }
    }
}

/// One call.
pub(crate) struct Work {
    id: u64,
    owner: Arc<Caller>,
    what: &'static str,
    about: Mutex<About>,
    begun: Instant,
    /// How far it is.
    pub progress: CallProgress,
    /// How it ended, and after how long.
    ended: OnceLock<(Result<Answer, Refusal>, Duration)>,
}

/// What a call is about.
enum About {
    /// It says so itself, and counts as a request of its caller.
    Running(Arc<Call>),
    /// It has ended, and takes nothing of its caller's any more.
    Ended(String),
}

/// Ends a call at the latest when it is dropped: a thread that panics leaves none that runs for ever.
struct Running(Arc<Work>);

impl Running {
    fn end(&self, how: Result<Answer, Refusal>) {
        // First: whoever sees that it has ended finds its place free.
        let mut about = self.0.about.lock().unwrap_or_else(PoisonError::into_inner);
        if let About::Running(call) = &*about {
            *about = About::Ended(call.subject());
        }
        drop(about);
        // Only the first end counts.
        let _ = self.0.ended.set((how, self.0.begun.elapsed()));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.ended.get().is_none() {
            self.end(Err(lost_thread(())));
        }
    }
}

impl Work {
    fn is_seen_by(&self, caller: &Caller) -> bool {
        sees(caller, &self.owner)
    }

    /// What it is answered with, once it has ended.
    fn answer(&self) -> Result<Response, Refusal> {
        match self.ended.get() {
            Some((Ok(answer), _)) => Ok(answer.into_response()),
            Some((Err(refusal), _)) => Err(refusal.clone()),
            None => Err(lost_thread(())),
        }
    }

    fn subject(&self) -> String {
        match &*self.about.lock().unwrap_or_else(PoisonError::into_inner) {
            About::Running(call) => call.subject(),
            About::Ended(subject) => subject.clone(),
        }
    }

    fn reply(&self) -> WorkReply {
        let ended = self.ended.get();
        let how = ended.map(|(how, _)| how);
        let answer = how.and_then(|how| how.as_ref().ok());
        let failure = how.and_then(|how| how.as_ref().err());
        let (bytes, bytes_total) = self.progress.bytes();
        let took = ended.map_or_else(|| self.begun.elapsed(), |(_, took)| *took);
        WorkReply {
            id: self.id,
            owner: self.owner.name.clone(),
            what: self.what.to_owned(),
            about: self.subject(),
            state: if failure.is_some() {
                "failed"
            } else if answer.is_some() {
                "done"
            } else {
                "running"
            }
            .to_owned(),
            seconds: took.as_secs_f64(),
            files: self.progress.files(),
            bytes,
            bytes_total,
            request: self.progress.request().map(|request| request.0),
            status: answer.map(|answer| answer.status.as_u16()),
            reply: answer.and_then(|answer| answer.body.clone()),
            problem: failure.map(Refusal::problem),
        }
    }
}

/// The calls that run, and those that ended without their client.
#[derive(Default)]
pub(crate) struct Works(Mutex<Kept>);

struct Kept {
    last: u64,
    works: BTreeMap<u64, Arc<Work>>,
}

impl Default for Kept {
    /// Numbers begin anywhere at each start: who asks for a call of before must get no other one for it.
    fn default() -> Self {
        const BITS: u32 = 36;
        let last = RandomState::new().build_hasher().finish() >> (u64::BITS - BITS);
        Kept { last, works: BTreeMap::new() }
    }
}

impl Works {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, what: &'static str, call: Arc<Call>) -> Arc<Work> {
        let mut kept = self.kept();
        kept.last += 1;
        let (id, owner) = (kept.last, call.principal.clone());
        let (begun, progress, ended) = (Instant::now(), CallProgress::default(), OnceLock::new());
        let about = Mutex::new(About::Running(call));
        let work = Arc::new(Work { id, owner, what, about, begun, progress, ended });
        kept.works.insert(id, work.clone());
        let ended: Vec<u64> =
            kept.works.iter().filter(|(_, work)| work.ended.get().is_some()).map(|(id, _)| *id).collect();
        for id in ended.iter().take(ended.len().saturating_sub(ENDED_KEPT_MAX)) {
            kept.works.remove(id);
        }
        work
    }

    fn forget(&self, id: u64) {
        self.kept().works.remove(&id);
    }

    fn find(&self, id: u64, caller: &Caller) -> Result<Arc<Work>, Refusal> {
        let found = self.kept().works.get(&id).filter(|work| work.is_seen_by(caller)).cloned();
        let gone = "it was answered, or the server was started anew since";
        found.ok_or_else(|| Refusal::new(Kind::NotFound, format!("there is no work {id}: {gone}")))
    }
}

/// Whether the client takes 202 for an answer.
fn prefers_async(headers: &HeaderMap) -> bool {
    let preferences = headers.get_all(PREFER);
    let mut preferences = preferences.iter().filter_map(|value| value.to_str().ok());
    preferences.any(|value| {
        let mut tokens = value.split([',', ';']).map(str::trim);
        tokens.any(|token| token.eq_ignore_ascii_case(RESPOND_ASYNC))
    })
}

impl Asked {
    /// A call over many files, on a thread that may block, in one of the places for long calls. It holds its
    /// place, and counts as a request of its caller, until it ends, whether its client waits or not.
    pub(crate) async fn work<W>(
        &self,
        what: &'static str,
        call: Arc<Call>,
        headers: &HeaderMap,
        work: W,
    ) -> Result<Response, Refusal>
    where
        W: FnOnce(&dyn Engine, &CallProgress) -> Result<Answer, Refusal> + Send + 'static,
    {
        let place = self.place_for_long().await?;
        let (engine, begun) = (self.engine.clone(), self.works.begin(what, call));
        let (running, id) = (Running(begun.clone()), begun.id);
        let (ended, end) = oneshot::channel::<()>();
        tokio::task::spawn_blocking(move || {
            let _place = place;
            let how = work(&*engine, &running.0.progress);
            running.end(how);
            // If its client went away nobody hears it, and it is told to whoever asks.
            let _ = ended.send(());
        });
        let ended = async move {
            // An end without a word is one too: what was seen last tells how.
            let _ = end.await;
        };
        if prefers_async(headers) {
            return self.answer_soon(&begun, ended).await;
        }
        ended.await;
        self.works.forget(id);
        begun.answer()
    }

    /// A report that is made in steps, each on a thread that may block and in one of the places for long
    /// calls, which is free between two of them. Without its client it goes on only if that was answered.
    pub(crate) async fn report<S, B, N>(
        &self,
        what: &'static str,
        call: Arc<Call>,
        headers: &HeaderMap,
        steps: Steps<B, N>,
    ) -> Result<Response, Refusal>
    where
        S: Send + 'static,
        B: FnOnce(&dyn Engine) -> Result<S, Refusal> + Send + 'static,
        N: Fn(&mut S, &CallProgress) -> Result<Option<Answer>, Refusal> + Clone + Send + 'static,
    {
        let stepper = self.stepper();
        if !prefers_async(headers) {
            return Ok(stepper.run(steps, &CallProgress::default()).await?.into_response());
        }
        let begun = self.works.begin(what, call);
        let running = Running(begun.clone());
        let job = tokio::spawn(async move {
            let how = stepper.run(steps, &running.0.progress).await;
            running.end(how);
        });
        let ended = async move {
            let _ = job.await;
        };
        self.answer_soon(&begun, ended).await
    }

    /// The answer if the work ends soon, else where to ask for it.
    async fn answer_soon(&self, begun: &Work, ended: impl Future<Output = ()>) -> Result<Response, Refusal> {
        if tokio::time::timeout(self.limits.answer_soon, ended).await.is_ok() {
            self.works.forget(begun.id);
            return begun.answer();
        }
        let mut response = (StatusCode::ACCEPTED, Json(begun.reply())).into_response();
        let location = HeaderValue::from_str(&format!("/api/v1/works/{}", begun.id));
        response.headers_mut().extend(location.ok().map(|location| (LOCATION, location)));
        response.headers_mut().insert(PREFERENCE_APPLIED, HeaderValue::from_static(RESPOND_ASYNC));
        Ok(response)
    }

    fn stepper(&self) -> Stepper {
        let (engine, places) = (self.engine.clone(), self.long_calls.clone());
        let holder = self.holder.unpaced();
        Stepper { engine, places, holder, transfers: self.transfers.clone() }
    }
}

/// How a report is made: what it begins with, and a step, which gives the answer at the end.
pub(crate) struct Steps<B, N> {
    pub begin: B,
    pub next: N,
}

/// What steps need of the door.
struct Stepper {
    engine: Arc<dyn Engine>,
    places: Places,
    holder: Holder,
    transfers: Transfers,
}

impl Stepper {
    async fn run<S, B, N>(self, steps: Steps<B, N>, progress: &CallProgress) -> Result<Answer, Refusal>
    where
        S: Send + 'static,
        B: FnOnce(&dyn Engine) -> Result<S, Refusal> + Send + 'static,
        N: Fn(&mut S, &CallProgress) -> Result<Option<Answer>, Refusal> + Clone + Send + 'static,
    {
        let Steps { begin, next } = steps;
        let engine = self.engine.clone();
        let place = self.transfers.admit_to(&self.places, &self.holder, 1).await?;
        let mut state = Self::in_place(place, move || begin(&*engine)).await?;
        loop {
            // Told here, since the thread of a step has it for itself.
            let (next, told) = (next.clone(), CallProgress::default());
            let step = move || {
                let answer = next(&mut state, &told)?;
                Ok((state, told, answer))
            };
            // What was begun is not given up because others are at work: it waits for its turn.
            let place = self.places.admit(&self.holder).await;
            let (after, told, answer) = Self::in_place(place, step).await?;
            progress.reads(told.bytes());
            state = after;
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
    }

    /// Does something on a thread that may block, in a place for long calls.
    async fn in_place<T: Send + 'static>(
        place: Place,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        done.await.map_err(lost_thread)?
    }
}

/// `GET /api/v1/works`: the newest first.
pub(crate) async fn works(shared: Asked, Extension(call): Extension<Arc<Call>>) -> Json<Vec<WorkReply>> {
    let works: Vec<_> = shared.works.kept().works.values().rev().cloned().collect();
    Json(works.iter().filter(|work| work.is_seen_by(&call.principal)).map(|work| work.reply()).collect())
}

/// `GET /api/v1/works/{id}`.
pub(crate) async fn work(
    shared: Asked,
    Extension(call): Extension<Arc<Call>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<WorkReply>, Refusal> {
    let Path(text) = id.map_err(|_| no_such_part())?;
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let id = digits.then(|| text.parse().ok()).flatten();
    let id = id.ok_or_else(|| Refusal::bad(format!("'{text}' is not the number of a work")))?;
    Ok(Json(shared.works.find(id, &call.principal)?.reply()))
}

/// Whether a caller sees what goes on for another.
fn sees(caller: &Caller, owner: &Caller) -> bool {
    // What a token is confined to bounds what it sees of its owner's other calls, too. A macaroon sees those
    // that were made with the same bounds.
    let is_confined_alike = !caller.is_confined() || owner.is_confined();
    let is_bounded_alike = !caller.is_bounded() || owner.bounds == caller.bounds;
    let is_alike = is_confined_alike && is_bounded_alike;
    caller.looks() || (!caller.is_anonymous() && owner.name == caller.name && is_alike)
}

#[cfg(test)]
mod tests {
    use base::ArchivePath;
    use identity::{Capability, Rights};

    use super::*;

    #[test]
    fn a_macaroon_sees_what_goes_on_within_its_own_bounds() {
        let anna = || Caller::named("anna", []);
        let at = |path: &str| {
            let path = ArchivePath::new(path).unwrap();
            vec![Capability { rights: Rights::ALL, path, is_directory: false }]
        };
        let bounded = |path: &str| Caller { bounds: Some(at(path)), ..anna() };
        let token = Caller { capabilities: at("/"), ..anna() };
        assert!(sees(&anna(), &anna()) && sees(&anna(), &bounded("/a")) && sees(&anna(), &token));
        assert!(!sees(&anna(), &Caller::named("bert", [])) && sees(&Caller::admin("root"), &anna()));
        assert!(sees(&bounded("/a"), &bounded("/a")) && !sees(&bounded("/a"), &bounded("/b")));
        assert!(!sees(&bounded("/a"), &anna()) && !sees(&token, &anna()) && sees(&token, &token));
        let operator = Caller { is_operator: true, ..anna() };
        assert!(sees(&operator, &Caller::named("bert", [])));
        assert!(!sees(&Caller { bounds: Some(at("/")), ..operator }, &Caller::named("bert", [])));
        assert!(!sees(&Caller::anonymous(), &Caller::anonymous()));
    }

    #[test]
    fn a_preference_is_one_of_a_list() {
        let asks = |values: &[&'static str]| {
            let values = values.iter().map(|value| (PREFER, HeaderValue::from_static(value)));
            prefers_async(&values.collect())
        };
        assert!(asks(&["respond-async"]));
        assert!(asks(&["return=minimal, Respond-Async; wait=10"]));
        assert!(asks(&["return=minimal", "respond-async"]));
        assert!(!asks(&["respond-asynchronously", "wait=10"]));
        assert!(!asks(&[]));
    }
}
