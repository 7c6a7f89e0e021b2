//! The service itself: whose request it is, which call, and the engine's answer.

use std::sync::Arc;

use archive::{ErrorKind, PathLocality, PathRequest, PathSubmission, SubmittedPath};
use authority::{Guard, PathRequests};
use base::{ArchivePath, RequestId};
use bytes::Bytes;
use catalogue::REQUEST_PATHS_MAX;
use entrance::{AuditLine, Call, Kind, Refusal, Ways, enter, uri_fits};
use http::header::{CONTENT_TYPE, LOCATION};
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use serde::Serialize;
use tokio::task::spawn_blocking;
use transfer::{Fault, Place, Places, ReplyBody, Replying, RequestBody, Service, Transfers};

use crate::address::{Address, endpoint};
use crate::body::{self, WholeBody, is_json};
use crate::engine::Engine;
use crate::input;
use crate::output::{Discovery, Located, Progress, Submitted};
use crate::problem;
use crate::settings::TapeRestSettings;

/// The name of the service.
pub const NAME: &str = "tape-rest";

/// The Tape REST API as listeners take it: a listener hands it all requests whose path begins with
/// [`ROOT`](crate::ROOT). Who comes in is known by the same keys, tokens and certificates as at Kist's own
/// interface; the discovery asks for none. `transfers` is the budget that all doors share: by it, callers
/// wait for places.
#[must_use]
pub fn service(guard: Guard<dyn Engine>, transfers: Transfers, settings: TapeRestSettings) -> Service {
    let threads = settings.limits.blocking_threads();
    let door = Arc::new(Door {
        calls: Places::new(settings.limits.calls),
        bodies: Places::new(settings.limits.bodies_large_at_once),
        replies: Places::new(settings.limits.replies_large_at_once),
        guard,
        transfers,
        settings,
    });
    let take = move |request: Request<RequestBody>| -> Replying {
        let door = door.clone();
        Box::pin(async move { door.answer(request).await })
    };
    Service { name: NAME, threads, take: Arc::new(take) }
}

struct Door {
    guard: Guard<dyn Engine>,
    transfers: Transfers,
    settings: TapeRestSettings,
    /// Allowance for calls of the engine.
    calls: Places,
    /// Allowance for large bodies.
    bodies: Places,
    /// Allowance for large replies, until the last byte of each is sent.
    replies: Places,
}

impl Door {
    async fn answer(self: Arc<Self>, request: Request<RequestBody>) -> Response<ReplyBody> {
        let (parts, body) = request.into_parts();
        let found = match self.discovery(&parts) {
            Some(found) => found,
            None => self.enter(&parts, body).await,
        };
        found.unwrap_or_else(|refusal| problem::reply(&refusal))
    }

    /// The only answer that nobody needs a credential for; `None`: it is another call.
    fn discovery(&self, parts: &Parts) -> Option<Result<Response<ReplyBody>, Refusal>> {
        if let Err(refusal) = uri_fits(&parts.uri, self.settings.limits.uri_bytes) {
            return Some(Err(refusal));
        }
        if Address::of(parts.uri.path()) != Some(Address::Discovery) {
            return None;
        }
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            return Some(Err(Refusal::method(Address::Discovery.methods())));
        }
        let uri = endpoint(parts, self.settings.public_url.as_deref());
        Some(uri.and_then(|uri| json(StatusCode::OK, &Discovery::new(&self.settings, &uri))))
    }

    async fn enter(
        self: &Arc<Self>,
        parts: &Parts,
        body: RequestBody,
    ) -> Result<Response<ReplyBody>, Refusal> {
        let call = enter(self.guard.authority(), parts, Ways::NAMED).await?;
        let path = parts.uri.path().to_owned();
        let line = AuditLine::begin(call.clone(), parts.method.clone(), path, false);
        let found = self.call(parts, body, &call).await;
        line.end(found.as_ref().map_or_else(Refusal::status, Response::status));
        found
    }

    async fn call(
        self: &Arc<Self>,
        parts: &Parts,
        body: RequestBody,
        call: &Arc<Call>,
    ) -> Result<Response<ReplyBody>, Refusal> {
        let Some(address) = Address::of(parts.uri.path()) else {
            return Err(Refusal::new(Kind::NotFound, format!("there is nothing at {}", parts.uri.path())));
        };
        match (&parts.method, address) {
            (&Method::POST, Address::Stage) => self.stage(parts, body, call).await,
            (&(Method::GET | Method::HEAD), Address::Request(id)) => self.poll(known(id)?, call).await,
            (&Method::DELETE, Address::Request(id)) => {
                let id = known(id)?;
                self.on_engine(call, None, move |engine| Ok(engine.delete_request(id)?)).await?;
                Ok(empty())
            }
            (&Method::POST, Address::Cancel(id)) => {
                let id = known(id)?;
                let (paths, body) = self.all_paths(parts, body, call).await?;
                self.on_engine(call, Some(body), move |engine| Ok(engine.cancel_paths(id, &paths)?)).await?;
                Ok(empty())
            }
            (&Method::POST, Address::Release(id)) => self.release(parts, body, call, id).await,
            (&Method::POST, Address::ArchiveInfo) => self.archive_info(parts, body, call).await,
            (_, address) => Err(Refusal::method(address.methods())),
        }
    }

    async fn stage(
        self: &Arc<Self>,
        parts: &Parts,
        body: RequestBody,
        call: &Arc<Call>,
    ) -> Result<Response<ReplyBody>, Refusal> {
        let uri = endpoint(parts, self.settings.public_url.as_deref())?;
        let body = self.read(parts, body, call).await?;
        let door = self.clone();
        let request = self.on_engine(call, None, move |engine| {
            let stage = input::stage(&body.bytes, &door.settings)?;
            let submission = PathSubmission {
                owner: String::new(),
                pin: door.settings.lifetime,
                priority: stage.priority,
                paths: stage.paths,
            };
            // The bytes are not needed any more; their place is, as long as there are the paths.
            let WholeBody { bytes, place } = body;
            drop(bytes);
            let request = engine.stage_paths(submission)?;
            drop(place);
            Ok(request)
        });
        let request = request.await?;
        call.about(format!("request {request}"));
        let mut reply = json(StatusCode::CREATED, &Submitted::new(request))?;
        let location = HeaderValue::from_str(&format!("{uri}/stage/{request}"));
        let location = location.map_err(|_| Refusal::bad("the address of the request cannot be told"))?;
        reply.headers_mut().insert(LOCATION, location);
        Ok(reply)
    }

    async fn poll(self: &Arc<Self>, id: RequestId, call: &Arc<Call>) -> Result<Response<ReplyBody>, Refusal> {
        self.reply_of_engine(call, None, move |engine| {
            let found: PathRequest = engine.path_request(id)?;
            written(&Progress::new(&found))
        })
        .await
    }

    /// Of a request that there is not, nothing is held, so that there is nothing to refuse: `gfal-evict`
    /// without a request names one that never was.
    async fn release(
        self: &Arc<Self>,
        parts: &Parts,
        body: RequestBody,
        call: &Arc<Call>,
        id: Option<RequestId>,
    ) -> Result<Response<ReplyBody>, Refusal> {
        let (paths, body) = self.all_paths(parts, body, call).await?;
        let Some(id) = id else { return Ok(empty()) };
        let released = move |engine: &dyn PathRequests| match engine.release_paths(id, &paths) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NoSuchObject => Ok(()),
            Err(error) => Err(error.into()),
        };
        self.on_engine(call, Some(body), released).await?;
        Ok(empty())
    }

    /// Of more paths than a request takes, the first ones are answered.
    async fn archive_info(
        self: &Arc<Self>,
        parts: &Parts,
        body: RequestBody,
        call: &Arc<Call>,
    ) -> Result<Response<ReplyBody>, Refusal> {
        let (paths, _, body) = self.paths(parts, body, call).await?;
        self.reply_of_engine(call, Some(body), move |engine| {
            let asked: Vec<ArchivePath> =
                paths.iter().filter_map(|path| path.path.as_ref().ok().cloned()).collect();
            let mut found = engine.localities(&asked)?.into_iter();
            let of_path = |path: &SubmittedPath| -> Option<PathLocality> {
                path.path.as_ref().ok().and_then(|_| found.next())
            };
            let found: Vec<_> = paths.iter().map(of_path).collect();
            let texts = paths.iter().map(|path| path.text.as_str());
            let told: Vec<_> = texts.zip(found).map(|(path, found)| Located::new(path, found)).collect();
            written(&told)
        })
        .await
    }

    /// As [`Door::paths`], of a call that must not leave out any.
    async fn all_paths(
        self: &Arc<Self>,
        parts: &Parts,
        body: RequestBody,
        call: &Arc<Call>,
    ) -> Result<(Vec<SubmittedPath>, WholeBody), Refusal> {
        let (paths, count, body) = self.paths(parts, body, call).await?;
        if count > paths.len() {
            let detail = format!("{count} paths in one call: no request names more than {REQUEST_PATHS_MAX}");
            return Err(Refusal::new(Kind::Limit, detail));
        }
        Ok((paths, body))
    }

    /// The paths of a body, how many it names, and the place for its memory.
    async fn paths(
        self: &Arc<Self>,
        parts: &Parts,
        body: RequestBody,
        call: &Arc<Call>,
    ) -> Result<(Vec<SubmittedPath>, usize, WholeBody), Refusal> {
        let mut body = self.read(parts, body, call).await?;
        let (door, bytes) = (self.clone(), std::mem::take(&mut body.bytes));
        let read = self.block(call, move || input::paths(&bytes, &door.settings));
        let (paths, count) = read.await?;
        Ok((paths, count, body))
    }

    async fn read(&self, parts: &Parts, body: RequestBody, call: &Call) -> Result<WholeBody, Refusal> {
        is_json(parts)?;
        body::read(body, call, &self.settings.limits, (&self.transfers, &self.bodies)).await
    }

    /// Calls the engine, as the caller may use it, on a thread that may block. `held` is kept until it ends.
    async fn on_engine<T: Send + 'static>(
        &self,
        call: &Arc<Call>,
        held: Option<WholeBody>,
        work: impl FnOnce(&dyn PathRequests) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let engine = self.guard.enter_from(&call.principal, call.peer);
        self.block(call, move || {
            let _held = held;
            work(&*engine)
        })
        .await
    }

    /// Calls the engine for a reply that may be large. The reply counts against its caller's allowance until
    /// its last byte is sent; the call keeps its place until a large one has a place of its own.
    async fn reply_of_engine(
        &self,
        call: &Arc<Call>,
        held: Option<WholeBody>,
        work: impl FnOnce(&dyn PathRequests) -> Result<Vec<u8>, Refusal> + Send + 'static,
    ) -> Result<Response<ReplyBody>, Refusal> {
        let engine = self.guard.enter_from(&call.principal, call.peer);
        let (bytes, place_of_call) = self
            .block_placed(call, move || {
                let _held = held;
                work(&*engine)
            })
            .await?;
        let place = match bytes.len() > self.settings.limits.reply_small_bytes {
            true => Some(self.transfers.admit_to(&self.replies, &call.holder(), 1).await?),
            false => None,
        };
        drop(place_of_call);
        let reply = SentReply { bytes, _place: place, _call: call.clone() };
        Ok(of_json(StatusCode::OK, Bytes::from_owner(reply)))
    }

    async fn block<T: Send + 'static>(
        &self,
        call: &Arc<Call>,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        Ok(self.block_placed(call, work).await?.0)
    }

    /// Gives the place of the call too.
    async fn block_placed<T: Send + 'static>(
        &self,
        call: &Arc<Call>,
        work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
    ) -> Result<(T, Place), Refusal> {
        let place = self.transfers.admit_to(&self.calls, &call.holder().unpaced(), 1).await?;
        // The call counts against its caller's allowance until it ends, also if its client goes away.
        let call = call.clone();
        let outcome = spawn_blocking(move || {
            let _until_it_ends = call;
            work().map(|done| (done, place))
        });
        outcome.await.map_err(|_| Refusal::from(Fault::Lost))?
    }
}

/// The bytes of a reply, with what they take until nothing of them waits to be sent.
struct SentReply {
    bytes: Vec<u8>,
    _place: Option<Place>,
    _call: Arc<Call>,
}

impl AsRef<[u8]> for SentReply {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The request that an id names; a text that is none of ours names none that there is.
fn known(id: Option<RequestId>) -> Result<RequestId, Refusal> {
    id.ok_or_else(|| Refusal::new(Kind::NotFound, "there is no such request"))
}

fn written<T: Serialize>(value: &T) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(value).map_err(|_| Refusal::new(Kind::Internal, "the answer cannot be written"))
}

fn json<T: Serialize>(status: StatusCode, value: &T) -> Result<Response<ReplyBody>, Refusal> {
    Ok(of_json(status, written(value)?.into()))
}

fn of_json(status: StatusCode, bytes: Bytes) -> Response<ReplyBody> {
    let mut reply = Response::new(whole(bytes));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// 200 without a body.
fn empty() -> Response<ReplyBody> {
    Response::new(whole(Bytes::new()))
}

fn whole(bytes: Bytes) -> ReplyBody {
    ReplyBody::new(Full::new(bytes).map_err(|never| match never {}))
}
