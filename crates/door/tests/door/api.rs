//! The addresses below `/api/v1`.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, OnceLock};

use archive::Locality;
use authority::{Guard, Operation};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use wire::*;

use crate::client::{Server, refused};

#[test]
fn every_address_answers() {
    let server = Server::start();
    server.engine.add("/a", b"12345", Locality::OnlineAndNearline);
    server.engine.add("/b", b"", Locality::Online);
    let stat: StatReply = server.get("/api/v1/stat?path=%2Fa").json();
    assert_eq!((stat.kind.as_str(), stat.size, stat.mode.as_str()), ("file", 5, "0640"));
    let file = stat.file.unwrap();
    assert_eq!((file.file_id, file.locality.as_str()), (7, "ONLINE_AND_NEARLINE"));
    let stat: StatReply = server.get("/api/v1/stat?path=/").json();
    assert_eq!((stat.kind.as_str(), stat.file.is_none()), ("directory", true));

    let list: ListReply = server.get("/api/v1/list?path=/&limit=1").json();
    assert_eq!((list.entries[0].name.as_str(), list.more), ("a", true));
    let list: ListReply = server.get("/api/v1/list?path=/&limit=1&after=a").json();
    assert_eq!((list.entries[0].name.as_str(), list.more), ("b", false));

    let requests: Vec<RequestReply> = server.get("/api/v1/requests?before=100&limit=5").json();
    assert_eq!((requests[0].id, requests[0].state.as_str()), (42, "active"));
    assert_eq!(server.get("/api/v1/requests/42").json::<RequestReply>().done, 1);
    let files: RequestFilesReply = server.get("/api/v1/requests/42/files?from=3").json();
    assert_eq!((files.next, files.files[0].error.as_deref()), (Some(4), Some("unreadable")));
    assert_eq!(server.get("/api/v1/why?path=/a").json::<WhyReply>().reasons, ["/a waits for a drive"]);
    assert_eq!(server.get("/api/v1/why?request=42").json::<WhyReply>().subject, "request 42");
    assert_eq!(server.get("/api/v1/why?name=KS0001").json::<WhyReply>().subject, "tape KS0001");
    assert_eq!(server.get("/api/v1/why?name=small").json::<WhyReply>().subject, "class small");
    let unknown = server.get("/api/v1/why?name=ks0001");
    refused(&unknown, 404, "not-found");
    assert!(unknown.json::<wire::Problem>().detail.contains("there is KS0001"), "{unknown:?}");
    let tapes: Vec<TapeReply> = server.get("/api/v1/tapes").json();
    assert_eq!((tapes[0].vid.as_str(), tapes[0].state.as_str()), ("KS0001", "read-only"));
    let tape: TapeContentReply = server.get("/api/v1/tapes/KS0001?from=4").json();
    assert_eq!((tape.containers[0].block, tape.containers[0].kind.as_str()), (4, "pack"));
    assert_eq!(server.get("/api/v1/drives").json::<Vec<DriveReply>>()[0].rate, 0.0);
    assert_eq!(server.get("/api/v1/pool").json::<PoolReply>().data, 4);
    assert!(server.get("/api/v1/classes").json::<Vec<ClassReply>>().is_empty());
    assert_eq!(server.get("/api/v1/queue").json::<Vec<QueueReply>>()[0].what, "seal standard");
    assert_eq!(server.get("/api/v1/queue").json::<Vec<QueueReply>>()[0].oldest_seconds, Some(9));
    let report: TapeReportReply = server.get("/api/v1/report/tape?seconds=60&by=tape").json();
    assert_eq!((report.rows[0].name.as_str(), report.total.mounts_for.recall), ("KS0001", 1));
    assert_eq!((report.by.as_str(), report.total.mounted_now), ("tape", 1));
    assert_eq!(server.get("/api/v1/report/tape").json::<TapeReportReply>().rows[0].name, "vdrive0");
    let health: HealthReply = server.get("/api/v1/report/health?vid=KS0001").json();
    assert_eq!((health.tapes[0].name.as_str(), health.tapes[0].verdict.as_str()), ("KS0001", "doubtful"));
    assert_eq!((health.drives[0].uncorrected, health.drives[0].corrected), (Some(2), None));
    let symptoms: Vec<_> = health.pairs[0].symptoms.iter().map(|it| (it.kind.as_str(), it.value)).collect();
    assert_eq!(symptoms, [("uncorrected", 2.0), ("alert", 3.0)]);
    refused(&server.get("/api/v1/report/health?vid=KS9999"), 404, "not-found");
    let drive: DriveContentReply = server.get("/api/v1/drives/drive0").json();
    assert_eq!((drive.drive.name.as_str(), drive.product.is_none()), ("drive0", true));
    assert_eq!((drive.element, &drive.abilities[..]), (Some(256), &["locate".to_owned()][..]));
    assert_eq!((drive.mounts[0].purpose.as_str(), drive.mounts[0].alerts[0].flag), ("recall", 3));
    assert_eq!((drive.health.unwrap().partners, drive.tapes[0].mounts), (1, 1));
    refused(&server.get("/api/v1/drives/vdrive9"), 404, "not-found");
    let usage: UsageReply = server.get("/api/v1/report/usage?seconds=60").json();
    assert_eq!((usage.classes[0].name.as_str(), usage.total.puts.bytes, usage.days), ("standard", 500, 1.0));
    let raw: UsageReply = server.get("/api/v1/report/usage?class=raw").json();
    assert!(raw.classes.is_empty() && raw.total.hit_rate.is_none() && raw.quantiles.len() == 5);
    let status: StatusReply = server.get("/api/v1/status").json();
    assert_eq!(status.mounts, 77);
    assert!(status.memory_anonymous > 1 << 16);
}

#[test]
fn every_change_answers() {
    let server = Server::start();
    server.engine.add("/a", b"12345", Locality::Online);
    let post = |target: &str, body: &str| server.post(&format!("/api/v1/{target}"), body);
    assert_eq!(post("mkdir", r#"{"path":"/new","mode":"0700","mtime":"7.5"}"#).status, 201);
    assert_eq!(post("mkdir", r#"{"path":"/dir","parents":true}"#).status, 200);
    refused(&post("mkdir", r#"{"path":"/dir"}"#), 409, "exists");
    refused(&post("mkdir", r#"{"path":"/new","class":"gold"}"#), 400, "no-such-class");
    refused(&post("mkdir", r#"{"path":"/a/../b"}"#), 400, "bad-path");
    refused(&post("mkdir", r#"{"path":"/new","mode":"x"}"#), 400, "bad-request");
    assert_eq!(post("rename", r#"{"from":"/a","to":"/b"}"#).status, 204);
    refused(&post("rename", r#"{"from":"/a","to":"/b"}"#), 404, "not-found");
    refused(&post("rename", r#"{"from":"a","to":"/b"}"#), 400, "bad-path");
    let created = post("requests", r#"{"paths":["/b"],"pin_seconds":60,"priority":9}"#);
    assert_eq!((created.status, created.json::<CreatedReply>().id), (201, 42));
    let options = server.engine.selections.lock().unwrap()[0].1.clone().unwrap();
    assert_eq!((options.owner.as_str(), options.pin.as_secs()), ("anna", 60));
    assert_eq!(options.priority, 9);
    refused(&post("requests", r#"{"paths":["/b"],"priority":10}"#), 400, "bad-request");
    // Story: kist stage refused --pin 0s, and the API took it.
    let none = post("requests", r#"{"paths":["/b"],"pin_seconds":0}"#);
    refused(&none, 400, "bad-request");
    assert!(String::from_utf8_lossy(&none.body).contains("at least 1"), "{none:?}");
    // A pin of three hundred years ended in 2262, and a time of 2300 was said to be malformed.
    let far = post("requests", r#"{"paths":["/b"],"pin_seconds":9467280000}"#);
    refused(&far, 400, "bad-request");
    assert!(String::from_utf8_lossy(&far.body).contains("to 2262-04-11"), "{far:?}");
    for mtime in ["2300-01-01T00:00:00Z", "10413792000"] {
        let far = post("mkdir", &format!(r#"{{"path":"/far","mtime":"{mtime}"}}"#));
        refused(&far, 400, "bad-request");
        assert!(String::from_utf8_lossy(&far.body).contains("to 2262-04-11"), "{far:?}");
    }
    assert_eq!(post("requests/42/priority", r#"{"priority":0}"#).status, 204);
    refused(&post("requests/42/priority", r#"{"priority":10}"#), 400, "bad-request");
    refused(&post("requests/43/priority", r#"{"priority":1}"#), 404, "not-found");
    assert_eq!(post("requests/42/cancel", "").status, 204);
    refused(&post("requests/43/cancel", ""), 404, "not-found");
    assert_eq!(post("requests/42/release", "").status, 204);
    assert_eq!(post("requests/42/release", r#"{"paths":["/b"]}"#).status, 204);
    let evicted: EvictReply = post("evict", r#"{"paths":["/b"]}"#).json();
    assert_eq!((evicted.evicted, evicted.refused[0].path.as_str()), (1, "/b"));
    assert_eq!(post("migrate", "").status, 202);
    assert_eq!(post("migrate", r#"{"class":"standard"}"#).status, 202);
}

#[test]
fn what_is_malformed_is_refused() {
    let server = Server::start();
    for target in [
        "stat",
        "stat?path=/a&path=/b",
        "stat?path=/a&depth=1",
        "list?path=/&limit=0",
        "list?path=/&limit=x",
        "requests?before=-1",
        "requests/x",
        "requests/99999999999999999999",
        "requests/42/files?from=4294967296",
        "tapes/short",
        "tapes/ks0001",
        "report/tape?by=robot",
        "report/tape?seconds=-1",
        "report/usage?seconds=x",
        "report/usage?by=class",
        "why",
        "why?path=/a&request=1",
    ] {
        refused(&server.get(&format!("/api/v1/{target}")), 400, "bad-request");
    }
    for target in [
        "stat?path=a",
        "stat?path=",
        "stat?path=/a%00",
        "stat?path=/%FF",
        "stat?path=/a//b",
        "list?path=/&after=a/b",
    ] {
        refused(&server.get(&format!("/api/v1/{target}")), 400, "bad-path");
    }
    for body in ["", "{", "[]", "{\"paths\":[]}", "{\"paths\":[1]}", "{\"paths\":\"/a\"}", "\u{7f}"] {
        refused(&server.post("/api/v1/requests", body), 400, "bad-request");
    }
    refused(&server.get("/api/v1/requests/43"), 404, "not-found");
    refused(&server.get("/api/v1/tapes/KS0002"), 404, "not-found");
    for target in ["/", "/api/v1/nothing", "/api/v2/stat", "/dat", "/%ff"] {
        refused(&server.get(target), 404, "not-found");
    }
    refused(&server.request("DELETE", "/api/v1/stat", "", b""), 405, "method");
    assert!(server.request("DELETE", "/api/v1/stat", "", b"").header("allow").unwrap().contains("GET"));
}

static LINES: OnceLock<Mutex<Vec<String>>> = OnceLock::new();

/// Keeps what is said to the target `audit`.
struct Lines;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!("{field}={value:?} ");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "audit"
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        LINES.get_or_init(Mutex::default).lock().unwrap().push(text.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn every_change_is_in_the_audit_log_and_no_key_is() {
    let _ = tracing::subscriber::set_global_default(Lines);
    let server = Server::start();
    server.request("PUT", "/data/audited%0Afile", "", b"12345");
    server.post("/api/v1/rename", r#"{"from":"/audited-gone","to":"/audited-new"}"#);
    server.get("/data/audited-read");
    server.raw(
        "DELETE /data/audited-denied HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\
         Authorization: Bearer audited-key\r\n\r\n",
    );
    drop(server);
    let lines = LINES.get_or_init(Mutex::default).lock().unwrap();
    let about: Vec<&String> = lines.iter().filter(|line| line.contains("audited")).collect();
    let find = |words: &[&str]| {
        let found = about.iter().filter(|line| words.iter().all(|word| line.contains(word))).count();
        assert_eq!(found, 1, "{words:?} in {about:#?}");
    };
    find(&[
        "principal=anna",
        "method=PUT",
        "path=/data/audited%0Afile",
        "status=201",
        "bytes=5",
        "milliseconds=",
    ]);
    find(&["method=POST", "path=/api/v1/rename", "status=404", "/audited-gone to /audited-new"]);
    find(&["denied", "method=DELETE", "audited-denied", "status=401"]);
    assert_eq!(about.len(), 3);
    assert!(lines.iter().all(|line| !line.contains("secret") && !line.contains("audited-key")));
}

/// A directory that was not there was made, on whatever disk that was, and a drive that there is not was a
/// conflict.
#[test]
fn a_drive_is_made_only_when_that_is_asked_for() {
    let server = Server::start();
    let post = |target: &str, body: &[u8]| {
        server.request("POST", &format!("/api/v1/pool/drives/{target}"), "", body)
    };
    for body in [&b""[..], b"{}", b"{\"new\":false}"] {
        let reply = post("3/replace", body);
        assert_eq!(reply.status, 409, "{reply:?}");
        let problem = reply.json::<Problem>();
        assert!(problem.detail.contains("/mnt/none is not there: mount its disk"), "{}", problem.detail);
    }
    assert_eq!(post("3/replace", b"{\"new\":true}").status, 200);
    assert_eq!(post("99/lost", b"").status, 404);
}

/// What only doors and keys know, such as an authority of clients that has ended, was in the log at most.
#[test]
fn the_status_tells_what_the_doors_know() {
    let authority =
        Guard::new(Arc::default(), Arc::new(crate::fake::Fake::default()) as Arc<dyn door::Engine>);
    let admin = authority.enter(&Arc::new(identity::Caller::admin("root")));
    let before = admin.totals().unwrap().warnings;
    authority.notices().say("keys", vec!["others can read it".to_owned()]);
    authority.notices().set("places", || vec!["few are free".to_owned()]);
    let told = admin.totals().unwrap().warnings;
    assert_eq!(told[before.len()..], ["others can read it", "few are free"]);
    authority.notices().say("keys", Vec::new());
    assert_eq!(admin.totals().unwrap().warnings.len(), before.len() + 1);
    let anna = authority.enter(&Arc::new(identity::Caller::named("anna", [])));
    assert!(anna.totals().is_err());
}
