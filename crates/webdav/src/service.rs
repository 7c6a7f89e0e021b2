//! The door itself: who comes in, the conditions of the request, the method.

use std::sync::Arc;

use archive::{ErrorKind, Stat};
use authority::{Guard, Namespace};
use entrance::{AuditLine, Kind, Refusal, Ways, enter, uri_fits};
use http::header::ALLOW;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use tpc::Client;
use transfer::{ReplyBody, Replying, RequestBody, Transfers};

use crate::address::Target;
use crate::answer::{Answer, Failure, empty, refused};
use crate::conditions::{IfHeader, State};
use crate::context::{Asked, Context};
use crate::engine::Engine;
use crate::settings::WebDavSettings;
use crate::{copy, delete, get, locking, macaroon, propfind, proppatch, put, third_party, tree};

/// The name of the service.
pub const NAME: &str = "webdav";
/// All methods.
const METHODS: &str =
    "OPTIONS, GET, HEAD, PUT, POST, DELETE, MKCOL, COPY, MOVE, PROPFIND, PROPPATCH, LOCK, UNLOCK";

/// A service that stands below a path of the same listener.
#[derive(Clone)]
pub struct Mounted {
    /// Requests whose path is this, or below it, are its own. It begins with `/.well-known/`.
    pub prefix: &'static str,
    /// What takes them.
    pub service: transfer::Service,
}

/// WebDAV over one engine. Cheap to clone.
#[derive(Clone)]
pub struct WebDavService {
    context: Arc<Context>,
    mounted: Arc<[Mounted]>,
}

/// Makes the WebDAV door, with bodies of files in the budget `transfers`, a client for third-party copies if
/// they are to be made, and other services below its listener.
#[must_use]
pub fn service(
    guard: Guard<dyn Engine>,
    transfers: Transfers,
    settings: WebDavSettings,
    copies: Option<Arc<Client>>,
    mounted: Vec<Mounted>,
) -> WebDavService {
    let context = Context::new(guard, transfers, settings, copies);
    WebDavService { context: Arc::new(context), mounted: mounted.into() }
}

impl WebDavService {
    /// The service as listeners take it.
    #[must_use]
    pub fn registered(self) -> transfer::Service {
        let own = self.context.settings.limits.blocking_threads();
        let threads =
            self.mounted.iter().fold(own, |sum, mounted| sum.saturating_add(mounted.service.threads));
        let take = move |request: Request<RequestBody>| -> Replying {
            let path = request.uri().path();
            let below = |prefix: &str| {
                path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            if let Some(mounted) = self.mounted.iter().find(|mounted| below(mounted.prefix)) {
                return (mounted.service.take)(request);
            }
            let service = self.clone();
            Box::pin(async move { service.call(request).await })
        };
        transfer::Service { name: NAME, threads, take: Arc::new(take) }
    }

    /// Answers a request.
    async fn call(&self, request: Request<RequestBody>) -> Response<ReplyBody> {
        let (parts, body) = request.into_parts();
        let is_head = parts.method == Method::HEAD;
        let parts = Arc::new(parts);
        match self.answer(&parts, body).await {
            Ok(mut response) => {
                if is_head {
                    *response.body_mut() = crate::answer::whole(bytes::Bytes::new());
                }
                response
            }
            Err(failure) => {
                let is_method = failure.status() == StatusCode::METHOD_NOT_ALLOWED;
                let mut response = refused(failure, &parts.headers, is_head);
                if is_method {
                    response.headers_mut().insert(ALLOW, HeaderValue::from_static(METHODS));
                }
                response
            }
        }
    }

    async fn answer(&self, parts: &Arc<Parts>, body: RequestBody) -> Answer {
        uri_fits(&parts.uri, self.context.settings.limits.uri_bytes)?;
        if parts.method == Method::OPTIONS {
            return Ok(options());
        }
        let target = Target::parse(parts.uri.path())?;
        let call = enter(self.context.guard.authority(), parts, Ways::ALL).await?;
        // Each is about one file or directory.
        let path = target.path.to_string();
        let line = AuditLine::begin(call.clone(), parts.method.clone(), path, true);
        let conditions = Arc::new(IfHeader::of(parts)?);
        let engine = self.context.guard.enter_with(&call.principal, call.peer, conditions.tokens());
        let is_anonymous = call.principal.is_anonymous();
        let asked =
            Asked { context: self.context.clone(), call, engine, parts: parts.clone(), target, conditions };
        let answer = answered(&asked, body).await;
        let answer = answer.map_err(|failure| match failure {
            // Whoever came with nothing may have something.
            Failure::Refused(refusal) if is_anonymous && refusal.kind() == Kind::Forbidden => {
                Refusal::new(Kind::Unauthorized, refusal.detail()).into()
            }
            failure => failure,
        });
        line.end(answer.as_ref().map_or_else(Failure::status, Response::status));
        answer
    }
}

async fn answered(asked: &Asked, body: RequestBody) -> Answer {
    conditions_hold(asked).await?;
    match asked.parts.method.as_str() {
        "GET" => get::get(asked).await,
        "HEAD" => get::head(asked).await,
        "PUT" => put::put(asked, body).await,
        "DELETE" => delete::delete(asked).await,
        "MKCOL" => tree::make_collection(asked, body).await,
        "COPY" => match third_party::way(asked)? {
            Some(way) => third_party::copy(asked, way).await,
            None => copy::copy(asked).await,
        },
        "MOVE" => tree::move_to(asked).await,
        "PROPFIND" => propfind::propfind(asked, body).await,
        "PROPPATCH" => proppatch::proppatch(asked, body).await,
        "LOCK" => locking::lock(asked, body).await,
        "UNLOCK" => locking::unlock(asked).await,
        "POST" => macaroon::post(asked, body).await,
        _ => Err(Refusal::method(METHODS).into()),
    }
}

/// What this server can do.
fn options() -> Response<ReplyBody> {
    let mut response = empty(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(ALLOW, HeaderValue::from_static(METHODS));
    headers.insert(HeaderName::from_static("dav"), HeaderValue::from_static("1, 2, 3"));
    headers.insert(HeaderName::from_static("ms-author-via"), HeaderValue::from_static("DAV"));
    response
}

/// That the header `If` holds.
async fn conditions_hold(asked: &Asked) -> Result<(), Failure> {
    if asked.conditions.lists.is_empty() {
        return Ok(());
    }
    asked.run(check_conditions).await
}

/// The same, on a thread that may block.
pub(crate) fn check_conditions(asked: &Asked) -> Result<(), Failure> {
    let holds = asked.conditions.holds(|about| -> Result<State, Failure> {
        let path = about.map_or(&asked.target.path, |target| &target.path);
        let tag = match asked.engine.stat(path) {
            Ok(Stat::File(stat)) => Some(entrance::entity_tag(&stat)),
            Ok(Stat::Directory(_)) => None,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => None,
            Err(error) => return Err(error.into()),
        };
        let tokens = asked.engine.locks_on(path)?.into_iter().map(|(lock, _)| lock.token).collect();
        Ok(State { tag, tokens })
    })?;
    if holds {
        Ok(())
    } else {
        Err(Refusal::new(Kind::Precondition, "no list of the header If holds").into())
    }
}
