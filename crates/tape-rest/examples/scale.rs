//! How long the calls of the Tape REST API take over the engine itself, and what they hold:
//! `cargo run --release -p tape-rest --example scale -- FILES REQUESTS`, by default 10,000 files in each of
//! 100 requests. Each request names all files and a name of its own. `TMPDIR` says where.

#[path = "../../archive/tests/it/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::time::Instant;

use authority::{AllowanceSettings, Allowances, Authority, AuthoritySettings, Guard, KeyRequest, Peer};
use base::{ByteCount, Duration};
use bytes::Bytes;
use common::{Instance, all, bytes, migrate_all, put};
use http::Request;
use http_body_util::{BodyExt, Full};
use identity::Caller;
use serde_json::{Value, json};
use tape_rest::{Engine, ROOT, TapeRestSettings, service};
use transfer::{Pace, RequestBody, Service, TransferLimits, Transfers};

/// Threads that put files.
const PUTS_AT_ONCE: usize = 8;

struct Client {
    service: Service,
    allowances: Allowances,
    key: String,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    fn call(&self, method: &str, path: &str, body: Vec<u8>) -> (u16, Vec<u8>) {
        let request = Request::builder()
            .method(method)
            .uri(format!("{ROOT}{path}"))
            .header("host", "localhost")
            .header("authorization", format!("Bearer {}", self.key));
        let body = RequestBody::new(Full::new(Bytes::from(body)).map_err(|never| match never {}));
        let mut request = request.body(body).unwrap();
        request.extensions_mut().insert(Peer("127.0.0.1:5".parse().unwrap()));
        request.extensions_mut().insert(self.allowances.clone());
        request.extensions_mut().insert(Pace::default());
        self.runtime.block_on(async {
            let (parts, body) = (self.service.take)(request).await.into_parts();
            (parts.status.as_u16(), body.collect().await.unwrap().to_bytes().to_vec())
        })
    }

    /// A call that must go well, and how long it took.
    fn timed(&self, what: &str, method: &str, path: &str, body: Vec<u8>) -> (f64, Vec<u8>) {
        let begun = Instant::now();
        let (status, reply) = self.call(method, path, body);
        assert!(status < 300, "{what}: {status}: {}", String::from_utf8_lossy(&reply));
        (begun.elapsed().as_secs_f64(), reply)
    }
}

/// Bytes of memory that this process holds, without what it maps of files.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes =
        line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse().ok());
    kilobytes.unwrap_or(0_u64) * 1_024
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let files: usize = arguments.next().unwrap_or(10_000);
    let requests: usize = arguments.next().unwrap_or(100);
    let instance = Instance::with(ByteCount::gib(1), |settings| {
        settings.catalogue_map_size = ByteCount::gib(4);
        settings.classes.iter_mut().for_each(|class| class.pack_bytes = ByteCount::mib(16));
    });
    let archive = instance.open();
    std::thread::scope(|scope| {
        for thread in 0..PUTS_AT_ONCE {
            let archive = &archive;
            scope.spawn(move || {
                for n in (thread..files).step_by(PUTS_AT_ONCE) {
                    put(
                        archive,
                        &format!("/store/set-{:03}/file-{n:06}.root", n % 100),
                        &bytes(n as u64, 1_000),
                    );
                }
            });
        }
    });
    migrate_all(&archive);
    archive.evict(&all(&["/store"])).unwrap();
    for drive in archive.tape_drives() {
        archive.drive_down(&drive.name, "measured").unwrap();
    }
    let authority = Arc::new(Authority::with(AuthoritySettings::default()).unwrap());
    let name = "root".to_owned();
    let request = KeyRequest {
        name,
        groups: vec![],
        is_admin: false,
        is_operator: false,
        expires_after: None,
        signs: false,
    };
    let key = authority.create_key(&Arc::new(Caller::admin("root")), None, &request).unwrap().secret;
    let rights = identity::Rights::STAGE.bits();
    let entries = vec![archive::AclEntry { subject: "user:root".into(), rights }];
    archive.set_acl(&common::path("/store"), Some(entries)).unwrap();
    let transfers = Transfers::new(TransferLimits::default(), authority.notices(), |_| 1);
    let guard: Guard<dyn Engine> = Guard::new(authority, Arc::new(archive.clone()));
    let client = Client {
        service: service(guard, transfers, TapeRestSettings::default()),
        allowances: Allowances::new(
            AllowanceSettings { at_once: 64, rate: None },
            Box::new(|| Duration::ZERO),
        ),
        key,
        runtime: tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
    };
    let paths: Vec<String> =
        (0..files).map(|n| format!("/store/set-{:03}/file-{n:06}.root", n % 100)).collect();
    let named: Vec<Value> = paths.iter().map(|path| json!({ "path": path })).collect();
    println!("request  staged s  polled s  archiveinfo s  anonymous memory MiB");
    let mut ids = Vec::new();
    for n in 0..requests {
        let mut files = named.clone();
        files.truncate(9_999);
        files.push(json!({ "path": format!("/store/none-{n}") }));
        let body = serde_json::to_vec(&json!({ "files": files })).unwrap();
        let (staged, reply) = client.timed("stage", "POST", "/v1/stage", body);
        let reply: Value = serde_json::from_slice(&reply).unwrap();
        ids.push(reply["requestId"].as_str().unwrap().to_owned());
        let id = ids.last().unwrap();
        let (polled, _) = client.timed("poll", "GET", &format!("/v1/stage/{id}"), Vec::new());
        if n < 3 || (n + 1) % 10 == 0 {
            let body = serde_json::to_vec(&json!({ "paths": paths })).unwrap();
            let (looked, _) = client.timed("archiveinfo", "POST", "/v1/archiveinfo", body);
            let memory = resident() / (1 << 20);
            println!("{:7}  {staged:8.3}  {polled:8.3}  {looked:13.3}  {memory:20}", n + 1);
        }
    }
    let first = ids.first().expect("a request");
    let (polled, _) = client.timed("poll", "GET", &format!("/v1/stage/{first}"), Vec::new());
    let body = serde_json::to_vec(&json!({ "paths": &paths[..paths.len() / 2] })).unwrap();
    let (cancelled, _) = client.timed("cancel", "POST", &format!("/v1/stage/{first}/cancel"), body);
    let (deleted, _) = client.timed("delete", "DELETE", &format!("/v1/stage/{first}"), Vec::new());
    println!(
        "the first polled again {polled:.3} s, half of it cancelled {cancelled:.3} s, deleted {deleted:.3} s"
    );
    archive.close();
    let begun = Instant::now();
    drop(client);
    drop(archive);
    let archive = instance.open();
    println!("started anew with all of them in {:.3} s", begun.elapsed().as_secs_f64());
    archive.close();
}
