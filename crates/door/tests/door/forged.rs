//! Forged and wrong credentials: each is refused, and each refusal stands in the audit log.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

use archive::Locality;
use authority::{Audit, AuditLine, Authority, AuthoritySettings, Guard, KeyRequest, Outcome, read_audit};
use base::{ArchivePath, Blake3, Clock, Duration, Timestamp};
use door::{DoorSettings, Limits, Services};
use identity::{Caller, MacaroonRequest};
use serde_json::json;
use tempfile::TempDir;

use crate::client::{Reply, at};
use crate::fake::Fake;
use crate::forged_tokens::{Keys, NOW, US, claims, forged, header};

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp(NOW * 1_000_000_000)
    }
}

struct Guarded {
    address: SocketAddr,
    authority: Arc<Authority>,
    engine: Arc<Fake>,
    tokens: Keys,
    directory: TempDir,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Guarded {
    fn start() -> Guarded {
        let directory = tempfile::tempdir().unwrap();
        let (engine, tokens) = (Arc::new(Fake::default()), Keys::new());
        for path in ["/foo/x", "/foobar/y", "/bar/z", "/atlas/a"] {
            engine.add(path, b"bytes", Locality::Online);
        }
        let clock: Arc<dyn Clock> = Arc::new(Fixed);
        let audit = Audit::open(directory.path(), clock.clone()).unwrap();
        let settings = AuthoritySettings {
            clock: Some(clock),
            keys_file: Some(directory.path().join("access-keys.toml")),
            admin_keys: vec![("anna".to_owned(), Blake3::of(b"secret-of-anna").0)],
            identities: tokens.identities(),
            audit: Some(Arc::new(audit)),
            ..AuthoritySettings::default()
        };
        let authority = Arc::new(Authority::with(settings).unwrap());
        let limits = Limits { drain: Duration::from_secs(5), ..Limits::default() };
        let door = door::bind(DoorSettings { listeners: vec![at("127.0.0.1:0")], keys: Vec::new(), limits })
            .unwrap();
        let address = door.addresses()[0];
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let services = Services::new(&door, Guard::new(authority.clone(), engine.clone()));
        let thread = std::thread::spawn(move || {
            let stopped = async {
                let _ = stopped.await;
            };
            door::run(door, services, stopped).unwrap();
        });
        Guarded { address, authority, engine, tokens, directory, stop: Some(stop), thread: Some(thread) }
    }

    fn key(&self, request: KeyRequest) -> (String, String) {
        let made = self.authority.create_key(&admin(), None, &request).unwrap();
        (made.info.id, made.secret)
    }

    fn send(&self, ask: &Ask) -> Reply {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let headers: String = ask.headers.iter().map(|line| format!("{line}\r\n")).collect();
        let (method, target, body) = (ask.method, &ask.target, ask.body);
        let head = format!("{method} {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{headers}");
        let length = body.len();
        stream.write_all(format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes()).unwrap();
        Reply::read(&mut stream)
    }

    /// How many lines of the log say that something was refused, and the last of them.
    fn refusals(&self) -> (usize, String) {
        self.authority.flush_audit();
        let mut found = Vec::new();
        read_audit(self.directory.path(), None, &mut |_, line| match line {
            AuditLine::Entry(entry) if entry.outcome == Outcome::Refused => found.push(entry.note.clone()),
            _ => {}
        })
        .unwrap();
        (found.len(), found.pop().unwrap_or_default())
    }

    /// Asks, and gives status and what the log says, if it says that it was refused.
    fn ask(&self, ask: &Ask) -> (u16, Option<String>) {
        let (before, _) = self.refusals();
        let reply = self.send(ask);
        let (after, note) = self.refusals();
        (reply.status, (after > before).then_some(note))
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking());
        }
    }
}

#[derive(Clone)]
struct Ask {
    method: &'static str,
    target: String,
    headers: Vec<String>,
    body: &'static str,
}

fn ask(method: &'static str, target: &str, key: &str) -> Ask {
    let body = if method == "PUT" { "other" } else { "" };
    Ask { method, target: target.to_owned(), headers: vec![format!("Authorization: Bearer {key}")], body }
}

fn post(target: &str, key: &str, body: &'static str) -> Ask {
    Ask { body, ..ask("POST", target, key) }
}

fn admin() -> Arc<Caller> {
    Arc::new(Caller::admin("anna"))
}

fn request(name: &str) -> KeyRequest {
    KeyRequest { name: name.to_owned(), groups: vec!["cms".to_owned()], ..KeyRequest::default() }
}

const FILE: &str = "/data/foo/x";

/// Keys that open nothing.
fn wrong_keys(server: &Guarded) -> Vec<(&'static str, Ask)> {
    let (id, key) = server.key(request("carl"));
    let (disabled_id, disabled) = server.key(request("carl"));
    server.authority.set_key_disabled(&admin(), None, &disabled_id, true).unwrap();
    let (removed_id, removed) = server.key(request("carl"));
    server.authority.remove_key(&admin(), None, &removed_id).unwrap();
    let now = Some(Duration::from_secs(0));
    let (_, expired) = server.key(KeyRequest { expires_after: now, ..request("carl") });
    let (s3_id, s3) = server.key(KeyRequest { signs: true, ..request("carl") });
    let raw = |headers: &[&str]| Ask {
        headers: headers.iter().map(|line| (*line).to_owned()).collect(),
        ..ask("GET", FILE, "")
    };
    let hash = Blake3::of(b"secret-of-anna").to_string();
    vec![
        ("nothing", raw(&[])),
        ("an empty header", raw(&["Authorization: "])),
        ("an empty key", raw(&["Authorization: Bearer "])),
        ("no scheme", raw(&["Authorization: secret-of-anna"])),
        ("another scheme", raw(&["Authorization: Basic secret-of-anna"])),
        (
            "a key twice",
            raw(&["Authorization: Bearer secret-of-anna", "Authorization: Bearer secret-of-anna"]),
        ),
        ("an unknown key", ask("GET", FILE, "kist_unknown")),
        ("a key without its end", ask("GET", FILE, "secret-of-ann")),
        ("a key and more", ask("GET", FILE, "secret-of-annaa")),
        ("a key in capitals", ask("GET", FILE, "SECRET-OF-ANNA")),
        ("the hash of a key", ask("GET", FILE, &hash)),
        ("the id of a key", ask("GET", FILE, &id)),
        ("the beginning of a key", ask("GET", FILE, &key[..key.len() - 1])),
        ("a disabled key", ask("GET", FILE, &disabled)),
        ("a removed key", ask("GET", FILE, &removed)),
        ("an expired key", ask("GET", FILE, &expired)),
        ("the secret of a signing key", ask("GET", FILE, &s3)),
        ("the id of a signing key", ask("GET", FILE, &s3_id)),
        (
            "a key in the query",
            Ask { headers: Vec::new(), ..ask("GET", "/data/foo/x?authz=secret-of-anna", "") },
        ),
    ]
}

/// Good credentials for something else.
fn too_much(server: &Guarded) -> Vec<(&'static str, Ask)> {
    let scoped = |scope: &str| server.tokens.wlcg(scope, |_, _| {});
    let (read, create) = (scoped("storage.read:/foo"), scoped("storage.create:/foo"));
    let (modify, stage) = (scoped("storage.modify:/foo"), scoped("storage.stage:/foo"));
    let poll = scoped("storage.poll:/foo");
    let sci = server.tokens.scitoken("read:/ write:/w");
    let group = server.tokens.wlcg("openid", |_, claims| claims["wlcg.groups"] = json!(["/cms"]));
    let (_, plain) = server.key(request("carl"));
    let (_, operator) = server.key(KeyRequest { is_operator: true, ..request("olga") });
    let staging = "{\"paths\":[\"/foo/x\"]}";
    vec![
        ("/foobar for /foo", ask("GET", "/data/foobar/y", &read)),
        ("another path", ask("GET", "/data/bar/z", &read)),
        ("a path in another case", ask("GET", "/data/FOO/x", &read)),
        ("the root above the scope", ask("GET", "/api/v1/list?path=/", &read)),
        ("reading to overwrite", ask("PUT", FILE, &read)),
        ("reading to make", ask("PUT", "/data/foo/new", &read)),
        ("reading to delete", ask("DELETE", FILE, &read)),
        ("reading to stage", post("/api/v1/requests", &read, staging)),
        ("creating to read", ask("GET", FILE, &create)),
        ("creating to overwrite", ask("PUT", FILE, &create)),
        ("creating to delete", ask("DELETE", FILE, &create)),
        ("creating beside the scope", ask("PUT", "/data/foobar/new", &create)),
        ("creating a file at a directory's scope", ask("PUT", "/data/new", &scoped("storage.create:/new/"))),
        (
            "creating to replace by renaming",
            post("/api/v1/rename", &create, "{\"from\":\"/foo/x\",\"to\":\"/bar/z\",\"replace\":true}"),
        ),
        (
            "renaming out of another directory",
            post("/api/v1/rename", &create, "{\"from\":\"/bar/z\",\"to\":\"/foo/new\"}"),
        ),
        ("modifying to read", ask("GET", FILE, &modify)),
        ("modifying another path", ask("PUT", "/data/bar/z", &modify)),
        ("deleting another path", ask("DELETE", "/data/foobar/y", &modify)),
        ("staging to read", ask("GET", FILE, &stage)),
        ("staging to write", ask("PUT", FILE, &stage)),
        ("staging another path", post("/api/v1/requests", &stage, "{\"paths\":[\"/foo/x\",\"/bar/z\"]}")),
        ("polling to read", ask("GET", FILE, &poll)),
        ("polling to stage", post("/api/v1/requests", &poll, staging)),
        ("polling to evict", post("/api/v1/evict", &poll, staging)),
        ("outside of the issuer's base", ask("GET", FILE, &sci)),
        ("writing outside of the scope", ask("PUT", "/data/atlas/a", &sci)),
        ("a token for tapes", ask("GET", "/api/v1/tapes", &scoped("storage.modify:/"))),
        ("a token for keys", ask("GET", "/api/v1/keys", &scoped("storage.modify:/"))),
        ("a group that owns nothing", ask("GET", FILE, &group)),
        ("a key for somebody else's file", ask("GET", FILE, &plain)),
        ("a key to overwrite somebody else's file", ask("PUT", FILE, &plain)),
        ("a key to delete somebody else's file", ask("DELETE", FILE, &plain)),
        ("a key for a new file at nobody's place", ask("PUT", "/data/carl", &plain)),
        ("a key for drives", post("/api/v1/drives/d0/down", &plain, "{\"reason\":\"r\"}")),
        ("a key for the pool", ask("GET", "/api/v1/pool", &plain)),
        ("a key for a scrub", post("/api/v1/scrub", &plain, "")),
        ("a key for the list of drives", ask("GET", "/api/v1/drives", &plain)),
        ("a key for a backup", post("/api/v1/backup/snapshot", &plain, "")),
        ("a key for new keys", post("/api/v1/keys", &plain, "{\"name\":\"eve\",\"admin\":true}")),
        ("a key for the clock", post("/api/v1/clock/accept", &plain, "{\"today\":\"2026-11-23\"}")),
        ("an operator for the clock", post("/api/v1/clock/accept", &operator, "{\"today\":\"2026-11-23\"}")),
        ("an operator for bytes", ask("GET", FILE, &operator)),
        ("an operator for new keys", post("/api/v1/keys", &operator, "{\"name\":\"eve\"}")),
        ("an operator to migrate", post("/api/v1/migrate", &operator, "{}")),
    ]
}

#[test]
fn forged_and_wrong_credentials_are_refused_and_written_down() {
    let server = Guarded::start();
    let mut rows: Vec<(&str, u16, Ask)> = Vec::new();
    rows.extend(wrong_keys(&server).into_iter().map(|(what, ask)| (what, 401, ask)));
    let tokens = forged(&server.tokens);
    rows.extend(tokens.into_iter().map(|(what, token)| (what, 401, ask("GET", FILE, &token))));
    rows.extend(too_much(&server).into_iter().map(|(what, ask)| (what, 403, ask)));
    let mut wrong = Vec::new();
    for (what, status, ask) in &rows {
        let (got, note) = server.ask(ask);
        if got != *status || note.is_none() {
            wrong.push(format!("{what}: {got} instead of {status}, in the log: {note:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
    assert!(rows.len() >= 60, "{} rows", rows.len());
    let kept = server.engine.bytes.lock().unwrap();
    assert!(kept.get("/foo/x").is_some_and(|bytes| bytes == "bytes"), "nothing was overwritten");
    let whole = std::fs::read_to_string(server.directory.path().join("audit.000001.log")).unwrap();
    assert!(!whole.contains("secret-of-anna"), "no credential is in the log");
}

#[test]
fn good_credentials_open_what_they_are_for() {
    let server = Guarded::start();
    let scoped = |scope: &str| server.tokens.wlcg(scope, |_, _| {});
    let changed = |change: &dyn Fn(&mut serde_json::Value)| {
        server.tokens.wlcg("storage.read:/foo", |_, claims| change(claims))
    };
    let (read, create) = (scoped("storage.read:/foo"), scoped("storage.create:/foo"));
    let second = server.tokens.sign("cms2", &header("cms2"), &claims("storage.read:/"));
    let (_, plain) = server.key(request("carl"));
    let (_, operator) = server.key(KeyRequest { is_operator: true, ..request("olga") });
    let lower =
        Ask { headers: vec!["authorization: bearer secret-of-anna".to_owned()], ..ask("GET", FILE, "") };
    let rows = [
        ("an admin's key", ask("GET", FILE, "secret-of-anna"), 200),
        ("the scheme in small letters", lower, 200),
        ("a read scope", ask("GET", FILE, &read), 200),
        ("a read scope of the file itself", ask("GET", FILE, &scoped("storage.read:/foo/x")), 200),
        ("the other key", ask("GET", FILE, &second), 200),
        ("an audience in a list", ask("GET", FILE, &changed(&|c| c["aud"] = json!(["a", US]))), 200),
        ("an end within the leeway", ask("GET", FILE, &changed(&|c| c["exp"] = json!(NOW - 59))), 200),
        ("a beginning within the leeway", ask("GET", FILE, &changed(&|c| c["nbf"] = json!(NOW + 60))), 200),
        ("a new file", ask("PUT", "/data/foo/new", &create), 201),
        ("what creating allows to see", ask("HEAD", "/data/foo/new", &create), 200),
        ("an overwrite by modifying", ask("PUT", "/data/foo/new", &scoped("storage.modify:/foo")), 200),
        ("SciTokens below their base", ask("GET", "/data/atlas/a", &server.tokens.scitoken("read:/")), 200),
        (
            "a staging scope",
            post("/api/v1/requests", &scoped("storage.stage:/foo"), "{\"paths\":[\"/foo/x\"]}"),
            201,
        ),
        ("a plain key for classes", ask("GET", "/api/v1/classes", &plain), 200),
        ("an operator for the pool", ask("GET", "/api/v1/pool", &operator), 200),
        ("an operator for names", ask("GET", "/api/v1/stat?path=/foo/x", &operator), 200),
        ("an admin for keys", ask("GET", "/api/v1/keys", "secret-of-anna"), 200),
    ];
    for (what, ask, status) in &rows {
        let (got, note) = server.ask(ask);
        assert!(got == *status && note.is_none(), "{what}: {got} instead of {status}, in the log: {note:?}");
    }
    let stat = server.engine.files.lock().unwrap()["/foo/new"].clone();
    assert_eq!(stat.attributes.owner, "cms:u1", "whoever makes a file owns it");
}

/// A key counts and ends at once, and its secret is told once.
#[test]
fn keys_are_given_out_and_taken_back_over_the_door() {
    let server = Guarded::start();
    let reply = server.send(&post("/api/v1/keys", "secret-of-anna", "{\"name\":\"carl\",\"operator\":true}"));
    assert_eq!(reply.status, 201, "{reply:?}");
    let made: wire::NewKeyReply = reply.json();
    let works = || server.send(&ask("GET", "/api/v1/pool", &made.secret)).status;
    assert_eq!(works(), 200);
    let listed = server.send(&ask("GET", "/api/v1/keys", "secret-of-anna"));
    assert!(!String::from_utf8_lossy(&listed.body).contains(&made.secret));
    assert_eq!(listed.json::<Vec<wire::KeyReply>>(), std::slice::from_ref(&made.key));
    let change = |verb: &str| {
        server.send(&post(&format!("/api/v1/keys/{}/{verb}", made.key.id), "secret-of-anna", "")).status
    };
    assert_eq!((change("disable"), works()), (204, 401));
    assert_eq!((change("enable"), works()), (204, 200));
    assert_eq!((change("remove"), works()), (204, 401));
    assert_eq!(change("enable"), 404);
    for bad in ["{}", "{\"name\":\"\"}", "{\"name\":\"a:b\"}", "{\"name\":\"a\",\"what\":1}"] {
        assert_eq!(server.send(&post("/api/v1/keys", "secret-of-anna", bad)).status, 400, "{bad}");
    }
}

#[test]
fn macaroons_open_what_their_caveats_leave_and_nothing_else() {
    let server = Guarded::start();
    let anna = server.authority.bearer("secret-of-anna", None).unwrap();
    let make = |at: &str, caveats: &[&str]| {
        let (path, validity) = (ArchivePath::new(at).unwrap(), None);
        let caveats = caveats.iter().map(|&caveat| caveat.to_owned()).collect();
        server.authority.macaroon(&anna, None, &MacaroonRequest { path, caveats, validity }).unwrap()
    };
    let status = |method: &'static str, target: &str, key: &str| server.ask(&ask(method, target, key));
    let reads = make("/foo", &["activity:DOWNLOAD", "ip:127.0.0.0/8"]);
    assert_eq!(status("GET", FILE, &reads), (200, None));
    for (method, target) in [
        ("GET", "/data/bar/z"),
        ("GET", "/data/foobar/y"),
        ("PUT", FILE),
        ("PUT", "/data/foo/new"),
        ("DELETE", FILE),
    ] {
        let (status, note) = status(method, target, &reads);
        assert_eq!(status, 403, "{method} {target}");
        assert!(note.is_some(), "{method} {target}");
    }
    for target in ["/api/v1/keys", "/api/v1/tapes", "/api/v1/pool"] {
        assert_eq!(status("GET", target, &reads).0, 403, "{target}");
    }
    assert_eq!(server.ask(&post("/api/v1/macaroons/revoke", &reads, "{}")).0, 403);
    let elsewhere = make("/foo", &["ip:192.0.2.1"]);
    let (refused, note) = status("GET", FILE, &elsewhere);
    assert!(refused == 401 && note.is_some_and(|note| note.contains("from an address")));
    let changed = format!("{}A", &reads[..reads.len() - 1]);
    assert_eq!(status("GET", FILE, &changed).0, 401);
    assert_eq!(server.ask(&post("/api/v1/macaroons/revoke", "secret-of-anna", "{}")), (204, None));
    let (refused, note) = status("GET", FILE, &reads);
    assert!(refused == 401 && note.is_some_and(|note| note.contains("signature")));
}
