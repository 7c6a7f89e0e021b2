//! The door itself: gate, s3s, answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use authority::Guard;
use bytes::Bytes;
use http::header::{CONNECTION, EXPECT};
use http::{HeaderValue, Request, Response, StatusCode, Version};
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::host::{S3Host, VirtualHost};
use s3s::service::S3ServiceBuilder;
use s3s::validation::NameValidation;
use s3s::{Body, HttpResponse, S3Error, S3Result, s3_error};
use transfer::{AnyError, ReplyBody, Replying, RequestBody, Transfers};

use crate::context::{Context, S3Clocks, Said};
use crate::documents::{self, Told};
use crate::engine::Engine;
use crate::gate;
use crate::glacier;
use crate::known::Operation;
use crate::operations::Door;
use crate::percent;
use crate::settings::S3Settings;

/// The name of the service.
pub const NAME: &str = "s3";

/// S3 over one engine: a request in, a response out. Cheap to clone.
#[derive(Clone)]
pub struct S3Service {
    inner: Arc<Inner>,
}

struct Inner {
    s3s: s3s::service::S3Service,
    context: Context,
    requests: AtomicU64,
}

/// Why the S3 door cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum S3OpenError {
    /// The domain is none.
    #[error("'{0}' is not a domain: give [s3] domain as in 's3.example.org', or leave it out")]
    Domain(String),
}

/// Makes the S3 door, with bodies of objects in the budget `transfers`.
///
/// # Errors
/// If the domain is none.
pub fn service(
    authority: Guard<dyn Engine>,
    transfers: Transfers,
    settings: S3Settings,
    clocks: S3Clocks,
) -> Result<S3Service, S3OpenError> {
    let context = Context::new(authority, transfers, settings, clocks);
    let mut builder = S3ServiceBuilder::new(Door { context: context.clone() });
    let mut config = S3Config::default();
    config.xml_max_body_size = context.settings.limits.xml_bytes;
    config.form_max_fields_size = 0;
    config.post_object_max_file_size = 0;
    builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(config))));
    builder.set_validation(AnyName);
    if let Some(domain) = &context.settings.domain {
        builder.set_host(Domain::new(domain).ok_or_else(|| S3OpenError::Domain(domain.clone()))?);
    }
    let inner = Inner { s3s: builder.build(), context, requests: AtomicU64::new(0) };
    Ok(S3Service { inner: Arc::new(inner) })
}

/// The domain below which buckets stand. Requests to any other host have the bucket in the path.
struct Domain {
    domain: String,
    /// With a dot before it.
    below: String,
}

impl Domain {
    fn new(domain: &str) -> Option<Domain> {
        let label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        let is_domain = domain.len() <= 253 && domain.split('.').all(label);
        is_domain.then(|| Domain { domain: domain.to_owned(), below: format!(".{domain}") })
    }
}

impl S3Host for Domain {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let name = host.split_once(':').map_or(host, |(name, _)| name);
        let here = VirtualHost::new(&self.domain);
        match name.strip_suffix(self.below.as_str()) {
            Some(bucket) if !bucket.is_empty() => Ok(here.with_bucket(bucket)),
            _ => Ok(here),
        }
    }
}

/// Buckets are directories: s3s lets every name through, the operations refuse what cannot be one.
struct AnyName;

impl NameValidation for AnyName {
    fn validate_bucket_name(&self, name: &str) -> bool {
        !name.is_empty()
    }
}

impl S3Service {
    /// Answers a request. Whatever goes wrong is said in the response; a body of a response that fails in the
    /// midst gives an error, at which the connection is to be closed.
    pub async fn call<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: hyper::body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<AnyError>,
    {
        let number = self.inner.requests.fetch_add(1, Ordering::Relaxed);
        let path = request.uri().path();
        let resource = percent::decode(path).unwrap_or_else(|| path.to_owned());
        let mut told = Told { resource, id: format!("{number:016X}"), operation: None };
        let closes = waits_for_nothing(&request);
        let response = match gate::pass(&self.inner.context, request).await {
            Ok(request) => {
                told.operation = request.extensions().get::<&'static Operation>().map(|known| known.name);
                self.inner.s3s.call(request).await.unwrap_or_else(|error| {
                    let error: AnyError = error.into();
                    tracing::error!(%error, "s3s could not answer a request");
                    refusal(s3_error!(InternalError))
                })
            }
            Err(error) => refusal(error),
        };
        let mut response = documents::finish(glacier::say_class(response), &told);
        if let Some(Said(status)) = response.extensions_mut().remove::<Said>() {
            *response.status_mut() = status;
        }
        if response.status() == StatusCode::NOT_MODIFIED {
            *response.body_mut() = Body::empty();
        }
        if closes {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// Whether a client waits for `100 Continue` before it sends a body of no bytes. Hyper has no cause to say
/// it, since nothing is to be read; some clients (botocore 1.43.11) then wait in the next request on the same
/// connection for what belongs to this one, so that it is closed.
fn waits_for_nothing<B: hyper::body::Body>(request: &Request<B>) -> bool {
    request.version() <= Version::HTTP_11
        && request.headers().contains_key(EXPECT)
        && request.body().is_end_stream()
}

impl S3Service {
    /// The service as listeners take it.
    #[must_use]
    pub fn registered(self) -> transfer::Service {
        let threads = self.inner.context.settings.limits.blocking_threads();
        let take = move |request: Request<RequestBody>| -> Replying {
            let service = self.clone();
            Box::pin(async move { service.call(request).await.map(ReplyBody::new) })
        };
        transfer::Service { name: NAME, threads, take: Arc::new(take) }
    }
}

fn refusal(error: S3Error) -> HttpResponse {
    tracing::debug!(%error, "an S3 request was refused");
    error.to_http_response().unwrap_or_else(|_| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        response
    })
}
