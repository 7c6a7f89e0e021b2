//! A server with files on tape, and clients.

use std::sync::Arc;

use archive::{AclEntry, Archive, PutOptions};
use authority::{
    AllowanceSettings, Allowances, Authority, AuthoritySettings, Encrypted, Guard, KeyRequest, Peer,
};
use base::{ByteCount, Duration};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use identity::{Caller, Rights};
use serde_json::{Value, json};
use tape_rest::{Engine, ROOT, TapeRestSettings, service};
use transfer::{Pace, ReplyBody, RequestBody, Service, TransferLimits, Transfers};

use crate::common::{Instance, all, bytes, migrate_all, path, put, put_with, wait_until};

pub const HOST: &str = "tape.example.org:8443";

pub struct World {
    pub instance: Instance,
    pub archive: Archive,
    pub service: Service,
    /// The keys of anna and bert, who may stage below `/d`; of carl, who may only ask where files are; and of
    /// an admin.
    pub anna: String,
    pub bert: String,
    pub carl: String,
    pub admin: String,
    allowances: Allowances,
    runtime: tokio::runtime::Runtime,
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

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Checks that this is an error as RFC 7807 has them, with this status.
    pub fn is_problem(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("content-type"), "application/problem+json");
        let problem = self.json();
        assert_eq!(problem["status"], json!(status));
        assert!(problem["title"].as_str().is_some_and(|title| !title.is_empty()), "{problem}");
        let known = ["status", "title", "detail"];
        assert!(problem.as_object().unwrap().keys().all(|key| known.contains(&key.as_str())), "{problem}");
        problem["detail"].as_str().unwrap_or_default().to_owned()
    }
}

impl World {
    pub fn new() -> World {
        World::with(TapeRestSettings { sitename: "KIST".into(), ..TapeRestSettings::default() })
    }

    pub fn with(settings: TapeRestSettings) -> World {
        let instance = Instance::with(ByteCount::mib(512), |settings| {
            let mut disk = settings.classes[0].clone();
            (disk.name, disk.up_to, disk.copies) = ("disk".to_owned(), None, Vec::new());
            settings.classes.push(disk);
        });
        let archive = instance.open();
        for (seed, name) in (1..).zip(["/d/a", "/d/b", "/d/c", "/closed/x"]) {
            put(&archive, name, &bytes(seed, 20_000));
        }
        migrate_all(&archive);
        archive.evict(&all(&["/d", "/closed"])).unwrap();
        let options =
            PutOptions { make_parents: true, class: Some("disk".to_owned()), ..PutOptions::default() };
        put_with(&archive, "/d/here", &bytes(9, 10_000), options).unwrap();
        put(&archive, "/d/empty", b"");
        let entry =
            |subject: &str, rights: Rights| AclEntry { subject: subject.into(), rights: rights.bits() };
        let entries = vec![
            entry("user:anna", Rights::STAGE | Rights::READ),
            entry("user:bert", Rights::STAGE | Rights::READ),
            entry("user:carl", Rights::POLL),
        ];
        archive.set_acl(&path("/d"), Some(entries)).unwrap();
        let authority = Arc::new(Authority::with(AuthoritySettings::default()).unwrap());
        let root = Arc::new(Caller::admin("root"));
        let key = |name: &str, is_admin| {
            let request = KeyRequest {
                name: name.to_owned(),
                groups: vec![],
                is_admin,
                is_operator: false,
                expires_after: None,
                signs: false,
            };
            authority.create_key(&root, None, &request).unwrap().secret
        };
        let [anna, bert, carl] = ["anna", "bert", "carl"].map(|name| key(name, false));
        let admin = key("root", true);
        let transfers = Transfers::new(TransferLimits::default(), authority.notices(), |_| 1);
        let guard: Guard<dyn Engine> = Guard::new(authority.clone(), Arc::new(archive.clone()));
        let service = service(guard, transfers, settings);
        let allowances = AllowanceSettings { at_once: 64, rate: None };
        let allowances = Allowances::new(allowances, Box::new(|| Duration::ZERO));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        World { instance, archive, service, anna, bert, carl, admin, allowances, runtime }
    }

    /// Sends a request to the service as a listener does.
    pub fn send(&self, request: Request<Bytes>) -> Reply {
        self.send_body(request.map(|body| RequestBody::new(Full::new(body).map_err(|never| match never {}))))
    }

    pub fn send_body(&self, request: Request<RequestBody>) -> Reply {
        let request = self.as_of_listener(request);
        self.runtime.block_on(async {
            let (parts, body) = (self.service.take)(request).await.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
            Reply { status: parts.status.as_u16(), headers: parts.headers, body }
        })
    }

    /// A reply of which the client takes nothing; `None`: there is none in this time.
    pub fn untaken(&self, key: &str, path: &str, time: std::time::Duration) -> Option<Response<ReplyBody>> {
        let request = Request::builder()
            .uri(format!("{ROOT}{path}"))
            .header("host", HOST)
            .header("authorization", format!("Bearer {key}"))
            .body(RequestBody::new(Full::new(Bytes::new()).map_err(|never| match never {})));
        let mut request = self.as_of_listener(request.unwrap());
        request.extensions_mut().insert(Encrypted { tls13: true });
        let reply = async { tokio::time::timeout(time, (self.service.take)(request)).await.ok() };
        self.runtime.block_on(reply)
    }

    fn as_of_listener(&self, mut request: Request<RequestBody>) -> Request<RequestBody> {
        let extensions = request.extensions_mut();
        extensions.insert(Peer("127.0.0.1:5".parse().unwrap()));
        extensions.insert(self.allowances.clone());
        extensions.insert(Pace::default());
        request
    }

    /// A call by somebody; `path` stands behind the root.
    pub fn call(&self, key: &str, method: &str, path: &str, body: impl Into<Bytes>) -> Reply {
        let mut request = Request::builder()
            .method(Method::from_bytes(method.as_bytes()).unwrap())
            .uri(format!("{ROOT}{path}"))
            .header("host", HOST);
        if !key.is_empty() {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let mut request = request.body(body.into()).unwrap();
        request.extensions_mut().insert(Encrypted { tls13: true });
        self.send(request)
    }

    pub fn post(&self, key: &str, path: &str, body: &Value) -> Reply {
        self.call(key, "POST", path, body.to_string())
    }

    pub fn get(&self, key: &str, path: &str) -> Reply {
        self.call(key, "GET", path, "")
    }

    /// Submits paths; gives the id of the request.
    pub fn stage(&self, key: &str, paths: &[&str]) -> String {
        let reply = self.post(key, "/v1/stage", &files(paths));
        assert_eq!(reply.status, 201, "{}", reply.text());
        reply.json()["requestId"].as_str().unwrap().to_owned()
    }

    pub fn poll(&self, key: &str, id: &str) -> Value {
        let reply = self.get(key, &format!("/v1/stage/{id}"));
        assert_eq!(
            (reply.status, reply.header("content-type")),
            (200, "application/json"),
            "{}",
            reply.text()
        );
        reply.json()
    }

    /// Polls until the request has ended.
    pub fn completed(&self, key: &str, id: &str) -> Value {
        wait_until("the request has ended", || self.poll(key, id).get("completedAt").is_some());
        self.poll(key, id)
    }

    /// Takes all tape drives out of use, or gives them back.
    pub fn set_drives(&self, up: bool) {
        for drive in self.archive.tape_drives() {
            let done = if up {
                self.archive.drive_up(&drive.name)
            } else {
                self.archive.drive_down(&drive.name, "test")
            };
            done.unwrap();
        }
        let is_so = |state: &str| (state != "down") == up;
        wait_until("the drives are so", || {
            self.archive.tape_drives().iter().all(|drive| is_so(&drive.state))
        });
    }

    /// Ends it, and looks whether the catalogue is whole.
    pub fn end(self) {
        self.archive.close();
        assert_eq!(self.archive.verify_catalogue().unwrap(), []);
    }
}

pub fn files(paths: &[&str]) -> Value {
    json!({ "files": paths.iter().map(|path| json!({ "path": path })).collect::<Vec<_>>() })
}

pub fn paths(paths: &[&str]) -> Value {
    json!({ "paths": paths })
}

/// The entry of a path in the answer of a poll.
pub fn entry<'a>(polled: &'a Value, path: &str) -> &'a Value {
    let mut found = polled["files"].as_array().unwrap().iter().filter(|file| file["path"] == path);
    let entry = found.next().unwrap_or_else(|| panic!("{path} is not in {polled}"));
    assert!(found.next().is_none(), "{path} is twice in {polled}");
    entry
}

/// The names of the members of an object.
pub fn members(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}
