//! A client with its own signature version 4, that can be made to lie.

use std::sync::Arc;

use authority::{Authority, AuthoritySettings, Guard, KeyRequest};
use base::{ManualClock, Timestamp};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use identity::Caller;
use s3::{Engine, S3Clocks, S3Service, S3Settings, service};
use sha2::{Digest, Sha256};
use transfer::{TransferLimits, Transfers};

use crate::fake::Fake;

pub const NOW: &str = "20261121T202900Z";
pub const REGION: &str = "us-east-1";

/// A server and somebody with a key.
pub struct World {
    pub fake: Fake,
    pub service: S3Service,
    pub authority: Arc<Authority>,
    pub guard: Guard<dyn Engine>,
    pub key: String,
    pub secret: String,
    runtime: tokio::runtime::Runtime,
}

impl World {
    pub fn new() -> World {
        World::with(S3Settings::default())
    }

    pub fn with(settings: S3Settings) -> World {
        let fake = Fake::default();
        World::over(settings, fake.clone(), Arc::new(fake))
    }

    /// Over another engine than the fake one.
    pub fn over(settings: S3Settings, fake: Fake, engine: Arc<dyn Engine>) -> World {
        World::in_time(settings, fake, engine, Timestamp(1_795_292_940_000_000_000))
    }

    /// With another trusted time than that of the system's clock.
    pub fn in_time(settings: S3Settings, fake: Fake, engine: Arc<dyn Engine>, trusted: Timestamp) -> World {
        let clock = Arc::new(ManualClock::new(Timestamp(1_795_292_940_000_000_000)));
        let clocks = S3Clocks { system: clock.clone(), trusted: Arc::new(ManualClock::new(trusted)) };
        let set = AuthoritySettings { clock: Some(clock.clone()), ..AuthoritySettings::default() };
        let authority = Arc::new(Authority::with(set).unwrap());
        let key =
            authority.create_key(&Arc::new(Caller::admin("root")), None, &key_request("anna", true)).unwrap();
        let transfers = Transfers::new(TransferLimits::default(), authority.notices(), |_| 1);
        let guard = Guard::new(authority.clone(), engine);
        let service = service(guard.clone(), transfers, settings, clocks).unwrap();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        World { fake, service, authority, guard, key: key.info.id, secret: key.secret, runtime }
    }

    /// With a bucket `b-1`.
    pub fn with_bucket() -> World {
        let world = World::new();
        assert_eq!(world.send(&Draft::new("PUT", "/b-1")).status, 200);
        world
    }

    pub fn send(&self, draft: &Draft) -> Reply {
        self.send_raw(draft.sign(&self.key, &self.secret))
    }

    pub fn send_raw(&self, raw: Raw) -> Reply {
        let mut request = Request::builder().method(raw.method).uri(raw.target);
        for (name, value) in &raw.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::from(raw.body))).expect("a request");
        self.runtime.block_on(async {
            let (parts, body) = self.service.call(request).await.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
            Reply { status: parts.status.as_u16(), headers: parts.headers, body }
        })
    }

    pub fn put(&self, path: &str, body: &[u8]) -> Reply {
        let reply = self.send(&Draft::new("PUT", path).body(body));
        assert_eq!(reply.status, StatusCode::OK, "{}", reply.text());
        reply
    }

    pub fn get(&self, path: &str) -> Reply {
        self.send(&Draft::new("GET", path))
    }
}

pub fn key_request(name: &str, signs: bool) -> KeyRequest {
    KeyRequest {
        name: name.to_owned(),
        groups: vec![],
        is_admin: true,
        is_operator: false,
        expires_after: None,
        signs,
    }
}

pub struct Reply {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The texts of all elements of a name.
    pub fn elements(&self, name: &str) -> Vec<String> {
        let text = self.text();
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        text.split(&open).skip(1).filter_map(|rest| Some(rest.split_once(&close)?.0.to_owned())).collect()
    }

    pub fn element(&self, name: &str) -> String {
        self.elements(name).first().cloned().unwrap_or_default()
    }

    /// The code of an error.
    pub fn code(&self) -> String {
        self.element("Code")
    }
}

/// How the body is signed.
#[derive(Clone)]
pub enum Sealed {
    Whole,
    Unsigned,
    /// In chunks of this size, with trailers.
    Chunks {
        size: usize,
        signed: bool,
        trailers: Vec<(String, String)>,
    },
}

/// A request before it is signed.
#[derive(Clone)]
pub struct Draft {
    pub method: &'static str,
    /// As it is sent: encoded.
    pub path: String,
    pub query: Vec<(String, String)>,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub sealed: Sealed,
    pub time: &'static str,
    pub region: &'static str,
    pub service: &'static str,
    /// Headers that are sent but not signed.
    pub unsigned: Vec<(String, String)>,
    /// Presigned for so many seconds.
    pub expires: Option<String>,
    /// The time stands in `Date`, as HTTP writes it.
    pub dated: bool,
}

/// A request as it is sent.
#[derive(Clone)]
pub struct Raw {
    pub method: Method,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Raw {
    pub fn header(&mut self, name: &str) -> &mut String {
        &mut self.headers.iter_mut().find(|(known, _)| known == name).expect("the header").1
    }

    pub fn replace(&mut self, name: &str, from: &str, to: &str) {
        let value = self.header(name);
        assert!(value.contains(from), "{value}");
        *value = value.replacen(from, to, 1);
    }

    pub fn replace_in_body(&mut self, from: &str, to: &str) {
        let text = String::from_utf8(self.body.clone()).unwrap();
        assert!(text.contains(from), "{text}");
        self.body = text.replacen(from, to, 1).into_bytes();
    }

    pub fn replace_in_target(&mut self, from: &str, to: &str) {
        assert!(self.target.contains(from), "{}", self.target);
        self.target = self.target.replacen(from, to, 1);
    }
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut block = key.to_vec();
    assert!(block.len() <= 64);
    block.resize(64, 0);
    let pad = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
    let inner = Sha256::digest([pad(0x36), message.to_vec()].concat());
    Sha256::digest([pad(0x5c), inner.to_vec()].concat()).to_vec()
}

pub fn encode(text: &str, slashes: bool) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b) || b == b'/' && !slashes;
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

impl Draft {
    pub fn new(method: &'static str, path: &str) -> Draft {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let query = query.split('&').filter(|field| !field.is_empty()).map(|field| {
            let (name, value) = field.split_once('=').unwrap_or((field, ""));
            (name.to_owned(), value.to_owned())
        });
        Draft {
            method,
            path: encode(path, false),
            query: query.collect(),
            headers: vec![("host".into(), "kist.example:9000".into())],
            body: vec![],
            sealed: Sealed::Whole,
            time: NOW,
            region: REGION,
            service: "s3",
            unsigned: vec![],
            expires: None,
            dated: false,
        }
    }

    pub fn body(mut self, body: &[u8]) -> Draft {
        self.body = body.to_vec();
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Draft {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn unsigned(mut self, name: &str, value: &str) -> Draft {
        self.unsigned.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn presigned(mut self, seconds: &str) -> Draft {
        self.expires = Some(seconds.to_owned());
        self
    }

    pub fn chunks(mut self, size: usize, signed: bool, trailers: &[(&str, &str)]) -> Draft {
        let trailers =
            trailers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.sealed = Sealed::Chunks { size, signed, trailers };
        self
    }

    pub fn at(mut self, time: &'static str) -> Draft {
        self.time = time;
        self
    }

    fn payload(&self) -> String {
        match &self.sealed {
            Sealed::Whole => sha256(&self.body),
            Sealed::Unsigned => "UNSIGNED-PAYLOAD".into(),
            Sealed::Chunks { signed: false, .. } => "STREAMING-UNSIGNED-PAYLOAD-TRAILER".into(),
            Sealed::Chunks { trailers, .. } if trailers.is_empty() => {
                "STREAMING-AWS4-HMAC-SHA256-PAYLOAD".into()
            }
            Sealed::Chunks { .. } => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER".into(),
        }
    }

    fn scope(&self) -> String {
        format!("{}/{}/{}/aws4_request", &self.time[..8], self.region, self.service)
    }

    pub fn sign(&self, key: &str, secret: &str) -> Raw {
        let (mut headers, mut query, payload) = (self.headers.clone(), self.query.clone(), self.payload());
        let mut headers_of_chunks = |trailers: &[(String, String)]| {
            headers.push(("x-amz-decoded-content-length".into(), self.body.len().to_string()));
            headers.push(("content-encoding".into(), "aws-chunked".into()));
            if !trailers.is_empty() {
                let names: Vec<_> = trailers.iter().map(|(name, _)| name.as_str()).collect();
                headers.push(("x-amz-trailer".into(), names.join(",")));
            }
        };
        if let Sealed::Chunks { trailers, .. } = &self.sealed {
            headers_of_chunks(trailers);
        }
        if self.expires.is_none() {
            headers.push(("x-amz-content-sha256".into(), payload.clone()));
            let date = ("date".to_owned(), "Sat, 21 Nov 2026 20:29:00 GMT".to_owned());
            headers.push(if self.dated { date } else { ("x-amz-date".into(), self.time.into()) });
        }
        headers.sort();
        let names = headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(";");
        if let Some(seconds) = &self.expires {
            let credential = format!("{key}/{}", self.scope());
            for (name, value) in [
                ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
                ("X-Amz-Credential", &credential),
                ("X-Amz-Date", self.time),
                ("X-Amz-Expires", seconds),
                ("X-Amz-SignedHeaders", &names),
            ] {
                query.push((name.into(), value.into()));
            }
        }
        let mut fields: Vec<_> = query
            .iter()
            .map(|(name, value)| format!("{}={}", encode(name, true), encode(value, true)))
            .collect();
        fields.sort();
        let query = fields.join("&");
        let lines: String =
            headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
        let sealed = if self.expires.is_some() { "UNSIGNED-PAYLOAD" } else { &payload };
        let canonical = format!("{}\n{}\n{query}\n{lines}\n{names}\n{sealed}", self.method, self.path);
        let signing = [&self.time[..8], self.region, self.service, "aws4_request"]
            .iter()
            .fold(format!("AWS4{secret}").into_bytes(), |key, word| hmac(&key, word.as_bytes()));
        let text =
            format!("AWS4-HMAC-SHA256\n{}\n{}\n{}", self.time, self.scope(), sha256(canonical.as_bytes()));
        let signature = hex(&hmac(&signing, text.as_bytes()));
        let mut target = self.path.clone();
        if self.expires.is_some() {
            target = format!("{target}?{query}&X-Amz-Signature={signature}");
        } else {
            if !query.is_empty() {
                target = format!("{target}?{query}");
            }
            let value = format!(
                "AWS4-HMAC-SHA256 Credential={key}/{}, SignedHeaders={names}, Signature={signature}",
                self.scope()
            );
            headers.push(("authorization".into(), value));
        }
        headers.extend(self.unsigned.clone());
        let body = self.wire(&signing, signature);
        if self.method == "PUT" || !body.is_empty() {
            headers.push(("content-length".into(), body.len().to_string()));
        }
        Raw { method: self.method.parse().unwrap(), target, headers, body }
    }

    /// The body as it is sent.
    fn wire(&self, signing: &[u8], seed: String) -> Vec<u8> {
        let Sealed::Chunks { size, signed, trailers } = &self.sealed else { return self.body.clone() };
        let mut previous = seed;
        let mut next = |kind: &str, tail: String| {
            let text = format!("{kind}\n{}\n{}\n{previous}\n{tail}", self.time, self.scope());
            previous = hex(&hmac(signing, text.as_bytes()));
            previous.clone()
        };
        let mut out = Vec::new();
        for chunk in self.body.chunks(*size).chain([&b""[..]]) {
            let signature = next("AWS4-HMAC-SHA256-PAYLOAD", format!("{}\n{}", sha256(b""), sha256(chunk)));
            let extension = if *signed { format!(";chunk-signature={signature}") } else { String::new() };
            out.extend_from_slice(format!("{:x}{extension}\r\n", chunk.len()).as_bytes());
            out.extend_from_slice(chunk);
            if !chunk.is_empty() {
                out.extend_from_slice(b"\r\n");
            }
        }
        let fields: String = trailers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        for (name, value) in trailers {
            out.extend_from_slice(format!("{name}:{value}\r\n").as_bytes());
        }
        if *signed && !trailers.is_empty() {
            let signature = next("AWS4-HMAC-SHA256-TRAILER", sha256(fields.as_bytes()));
            out.extend_from_slice(format!("x-amz-trailer-signature:{signature}\r\n").as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out
    }
}
