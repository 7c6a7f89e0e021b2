//! Macaroons before the authority: who gets one, when they end, and what they may do with an engine.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use archive::{
    About, AccessChain, ArchiveError, CallProgress, Cause, EvictDone, PathLocality, PathRequest, PathState,
    PathSubmission, RequestFile, RequestInfo, RequestOutlook, Selection, StageOptions, SubmittedPath,
};
use base::{
    ArchivePath, Blake3, ByteCount, Clock, DirId, Duration, FileId, ManualClock, RequestId, Timestamp,
};
use catalogue::{DirectoryOwner, Entry, ItemState, PathRefusal, RequestRecord, RequestState};
use identity::{
    Caller, Capability, CertificateMapping, How, Issuer, MacaroonError, MacaroonRequest, Rights,
    XrootdEntity, XrootdTrust,
};
use journal::{AuditLine, Outcome};
use threads::Mutex;

use crate::authority::{Authority, AuthoritySettings, Identities, Refusing};
use crate::guard::Guard;
use crate::keyring::KeyRequest;
use crate::roles::{Access, PathRequests, Staging};
use crate::rule::{Holding, Putting, Rule};
use crate::{Audit, read_audit};

const NOW: Timestamp = Timestamp(1_795_780_800_000_000_000);
const ADMIN_KEY: &str = "the-key-of-root";

fn path(text: &str) -> ArchivePath {
    ArchivePath::new(text).unwrap()
}

fn peer() -> Option<SocketAddr> {
    Some("10.0.0.1:1234".parse().unwrap())
}

fn asked(at: &str, caveats: &[&str]) -> MacaroonRequest {
    let caveats = caveats.iter().map(|&caveat| caveat.to_owned()).collect();
    MacaroonRequest { path: path(at), caveats, validity: None }
}

struct World {
    authority: Arc<Authority>,
    clock: Arc<ManualClock>,
}

fn world(directory: &Path) -> World {
    let clock = Arc::new(ManualClock::new(NOW));
    let audit = Audit::open(&directory.join("log"), clock.clone()).unwrap();
    let settings = AuthoritySettings {
        clock: Some(clock.clone() as Arc<dyn Clock>),
        keys_file: Some(directory.join("access-keys.toml")),
        macaroons_file: Some(directory.join("macaroon-secret")),
        admin_keys: vec![("root".to_owned(), Blake3::of(ADMIN_KEY.as_bytes()).0)],
        audit: Some(Arc::new(audit)),
        ..AuthoritySettings::default()
    };
    World { authority: Arc::new(Authority::with(settings).unwrap()), clock }
}

impl World {
    fn root(&self) -> Arc<Caller> {
        self.authority.bearer(ADMIN_KEY, peer()).unwrap()
    }

    /// A key of anna's, its id, and she.
    fn anna(&self, request: KeyRequest) -> (String, String, Arc<Caller>) {
        let request = KeyRequest { name: "anna".to_owned(), ..request };
        let made = self.authority.create_key(&self.root(), None, &request).unwrap();
        let caller = self.authority.bearer(&made.secret, peer()).unwrap();
        (made.secret, made.info.id, caller)
    }

    fn make(&self, caller: &Arc<Caller>, at: &str, caveats: &[&str]) -> String {
        self.authority.macaroon(caller, peer(), &asked(at, caveats)).unwrap()
    }

    fn is_good(&self, macaroon: &str) -> bool {
        self.authority.bearer(macaroon, peer()).is_ok()
    }
}

#[test]
fn a_macaroon_ends_with_the_key_by_which_it_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let world = world(directory.path());
    let groups = vec!["cms".to_owned()];
    let (_, id, anna) = world.anna(KeyRequest { groups, ..KeyRequest::default() });
    let text = world.make(&anna, "/a", &["activity:DOWNLOAD", "ip:10.0.0.0/8"]);
    let caller = world.authority.bearer(&text, peer()).unwrap();
    assert_eq!(
        (caller.name.as_str(), caller.how, caller.groups.as_slice()),
        ("anna", How::Macaroon, &["cms".to_owned()][..])
    );
    assert!(world.authority.bearer(&text, None).is_err(), "from an address that is not known");
    assert!(world.authority.bearer(&text, Some("192.168.0.1:9".parse().unwrap())).is_err());
    // Where an XRootD server sees a client, that counts.
    let by_xrootd = |from: Option<SocketAddr>| {
        let (entity, trust) = (XrootdEntity::default(), XrootdTrust::default());
        world.authority.xrootd(&entity, Some(&text), &trust, from).is_ok()
    };
    assert!(by_xrootd(peer()));
    assert!(!by_xrootd(Some("192.168.0.1:9".parse().unwrap())) && !by_xrootd(None));
    for change in [|text: &str| text[..text.len() - 1].to_owned(), |text: &str| text.replace('M', "N")] {
        assert!(!world.is_good(&change(&text)));
    }
    let root = world.root();
    world.authority.set_key_disabled(&root, None, &id, true).unwrap();
    assert!(!world.is_good(&text));
    world.authority.set_key_disabled(&root, None, &id, false).unwrap();
    assert!(world.is_good(&text));
    world.clock.advance(Duration::from_secs(3600));
    assert!(!world.is_good(&text), "after an hour");
    let text = world.make(&anna, "/a", &[]);
    world.authority.remove_key(&root, None, &id).unwrap();
    assert!(!world.is_good(&text));
    // Of a key that ends the macaroon ends no later.
    let expires_after = Some(Duration::from_secs(60));
    let (_, _, short) = world.anna(KeyRequest { expires_after, ..KeyRequest::default() });
    let text = world.make(&short, "/a", &[]);
    assert!(world.is_good(&text));
    world.clock.advance(Duration::from_secs(60));
    assert!(!world.is_good(&text));
}

#[test]
fn the_secret_is_kept_and_its_end_is_the_end_of_all() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("macaroon-secret");
    let (key, text) = {
        let world = world(directory.path());
        let (key, _, anna) = world.anna(KeyRequest::default());
        assert!(matches!(
            world.authority.macaroon(&anna, None, &asked("/a", &["fly:1"])),
            Err(Refusing::Macaroon(MacaroonError::Caveat(_)))
        ));
        assert!(!file.exists(), "what is refused needs no secret");
        (key, world.make(&anna, "/a", &[]))
    };
    let again = world(directory.path());
    assert!(again.is_good(&text), "after a restart");
    let anna = again.authority.bearer(&key, None).unwrap();
    assert!(matches!(again.authority.revoke_macaroons(&anna, None), Err(Refusing::Denied(_))));
    assert!(again.is_good(&text));
    again.authority.revoke_macaroons(&again.root(), None).unwrap();
    assert!(!again.is_good(&text));
    let next = again.make(&anna, "/a", &[]);
    assert!(again.is_good(&next) && world(directory.path()).is_good(&next));
    fs::remove_file(&file).unwrap();
    again.authority.reload_keys().unwrap();
    assert!(!again.is_good(&next));
}

#[test]
fn admins_and_operators_give_away_none_of_it() {
    let directory = tempfile::tempdir().unwrap();
    let world = world(directory.path());
    let root = world.root();
    let text = world.make(&root, "/a", &["activity:DOWNLOAD,LIST"]);
    let caller = world.authority.bearer(&text, peer()).unwrap();
    assert!(!caller.is_admin && !caller.is_operator && caller.is_confined() && caller.is_bounded());
    assert!(matches!(world.authority.keys(&caller, None), Err(Refusing::Denied(_))));
    let request = KeyRequest { name: "eve".to_owned(), ..KeyRequest::default() };
    assert!(matches!(world.authority.create_key(&caller, None, &request), Err(Refusing::Denied(_))));
    assert!(matches!(world.authority.revoke_macaroons(&caller, None), Err(Refusing::Denied(_))));
    let more = world.authority.macaroon(&caller, None, &asked("/a", &[]));
    assert!(matches!(more, Err(Refusing::Macaroon(MacaroonError::Asker(_)))));
    let (_, id, admin) = world.anna(KeyRequest { is_admin: true, ..KeyRequest::default() });
    let text = world.make(&admin, "/a", &[]);
    assert!(world.is_good(&text));
    world.authority.set_key_disabled(&root, None, &id, true).unwrap();
    assert!(!world.is_good(&text));
    let (_, _, operator) = world.anna(KeyRequest { is_operator: true, ..KeyRequest::default() });
    let caller = world.authority.bearer(&world.make(&operator, "/", &[]), peer()).unwrap();
    assert!(!caller.is_operator && !caller.looks());
    // The local admin's key is another one after each start, and is no longer known then.
    let text = world.make(&root, "/a", &[]);
    let settings = AuthoritySettings {
        clock: Some(world.clock.clone() as Arc<dyn Clock>),
        macaroons_file: Some(directory.path().join("macaroon-secret")),
        admin_keys: vec![("root".to_owned(), Blake3::of(b"another key").0)],
        ..AuthoritySettings::default()
    };
    assert!(Authority::with(settings).unwrap().bearer(&text, peer()).is_err());
}

#[test]
fn a_macaroon_ends_with_the_issuer_or_certificate_of_its_asker() {
    let directory = tempfile::tempdir().unwrap();
    let world = world(directory.path());
    let issuer = Issuer {
        issuer: "https://issuer".to_owned(),
        prefix: "vo".to_owned(),
        keys: Vec::new(),
        audiences: vec!["https://kist".to_owned()],
        base: ArchivePath::root(),
        users: Vec::new(),
        groups: Vec::new(),
    };
    let mapping = CertificateMapping {
        subject: "CN=anna".to_owned(),
        issuer: None,
        name: "anna".to_owned(),
        groups: vec!["cms".to_owned(), "lhcb".to_owned()],
        is_admin: false,
    };
    let identities =
        Identities { issuers: vec![issuer], certificates: vec![mapping.clone()], ..Identities::default() };
    world.authority.set_identities(identities.clone());
    let of = |how, origin: &str, groups: &[&str]| {
        let origin = origin.to_owned();
        Arc::new(Caller { how, origin, ..Caller::named("anna", groups.iter().copied()) })
    };
    let by_token = world.make(&of(How::Token, "https://issuer", &["vo:x"]), "/a", &[]);
    let by_certificate = world.make(&of(How::Certificate, "CN=anna", &["cms", "lhcb"]), "/a", &[]);
    let groups = |text: &str| world.authority.bearer(text, peer()).map(|caller| caller.groups.clone());
    assert_eq!(groups(&by_token).unwrap(), ["vo:x"]);
    assert_eq!(groups(&by_certificate).unwrap(), ["cms", "lhcb"]);
    let change = |changed: CertificateMapping| {
        world.authority.set_identities(Identities { certificates: vec![changed], ..identities.clone() });
    };
    change(CertificateMapping { groups: vec!["lhcb".to_owned(), "new".to_owned()], ..mapping.clone() });
    assert_eq!(groups(&by_certificate).unwrap(), ["lhcb"], "what its asker is not any more, it is not");
    change(CertificateMapping { is_admin: true, ..mapping.clone() });
    assert!(groups(&by_certificate).is_err(), "its asker was no admin");
    change(CertificateMapping { name: "bert".to_owned(), ..mapping });
    assert!(groups(&by_certificate).is_err() && groups(&by_token).is_ok());
    world.authority.set_identities(Identities::default());
    assert!(groups(&by_token).is_err());
}

#[test]
fn without_a_clock_there_are_none() {
    let authority = Authority::default();
    let anna = Arc::new(Caller { origin: "KIST1".to_owned(), ..Caller::named("anna", []) });
    assert!(matches!(authority.macaroon(&anna, None, &asked("/a", &[])), Err(Refusing::NoClock)));
}

#[test]
fn making_and_using_one_stand_in_the_audit_log() {
    let directory = tempfile::tempdir().unwrap();
    let world = world(directory.path());
    let (_, _, anna) = world.anna(KeyRequest::default());
    let text = world.make(&anna, "/a", &["activity:UPLOAD"]);
    let _ = world.authority.macaroon(&anna, peer(), &asked("/a", &["fly:1"]));
    let caller = world.authority.bearer(&text, peer()).unwrap();
    let mut shelf = Shelf::default();
    shelf.requests.insert(1, ("bert".to_owned(), vec!["/a/1".to_owned()]));
    let guard = Guard::new(world.authority.clone(), Arc::new(shelf));
    let refused =
        guard.enter_from(&caller, peer()).cancel_request_told(RequestId(1), &CallProgress::default());
    assert!(refused.is_err());
    world.authority.revoke_macaroons(&world.root(), None).unwrap();
    world.authority.flush_audit();
    let mut lines = Vec::new();
    read_audit(&directory.path().join("log"), None, &mut |_, line| {
        if let AuditLine::Entry(entry) = line {
            lines.push(format!(
                "{} {} {} {} {:?}",
                entry.who, entry.how, entry.verb, entry.what, entry.outcome
            ));
        }
    })
    .unwrap();
    let expected = [
        format!("anna key macaroon-create /a {:?}", Outcome::Done),
        format!("anna key macaroon-create /a {:?}", Outcome::Failed),
        format!("anna macaroon cancel request 1 {:?}", Outcome::Refused),
        format!("root key macaroon-revoke all {:?}", Outcome::Done),
    ];
    assert_eq!(lines[1..], expected, "behind the line of her key");
    assert!(!format!("{lines:?}").contains(&text));
}

/// Files and directories with owners and lists, and requests for files.
#[derive(Default)]
struct Shelf {
    /// Owner, list, and whether it is a directory.
    names: BTreeMap<String, (String, Option<Vec<archive::AclEntry>>, bool)>,
    requests: BTreeMap<u64, (String, Vec<String>)>,
    cancelled: Mutex<Vec<u64>>,
}

impl Shelf {
    /// `/dir/`, `/file`, the owner, and entries of a list as `SUBJECT=RIGHTS`.
    fn with(mut self, name: &str, owner: &str, list: &[(&str, &str)]) -> Self {
        let entry = |(subject, rights): &(&str, &str)| archive::AclEntry {
            subject: (*subject).to_owned(),
            rights: Rights::parse(rights).unwrap().bits(),
        };
        let list = (!list.is_empty()).then(|| list.iter().map(entry).collect());
        let plain = if name == "/" { name } else { name.trim_end_matches('/') };
        self.names.insert(plain.to_owned(), (owner.to_owned(), list, name.ends_with('/')));
        self
    }

    fn number(&self, name: &str) -> u64 {
        self.names.keys().position(|known| known == name).unwrap() as u64
    }
}

impl Access for Shelf {
    fn access_chain(&self, path: &ArchivePath) -> Result<AccessChain, ArchiveError> {
        let mut chain = AccessChain::default();
        let mut at = path.clone();
        let mut is_first = true;
        loop {
            if let Some((owner, list, is_directory)) = self.names.get(at.as_str()) {
                let number = self.number(at.as_str());
                if is_first {
                    (chain.exists, chain.is_directory, chain.owner) = (true, *is_directory, owner.clone());
                    let directory = Entry::Directory(DirId(number));
                    chain.entry = Some(if *is_directory { directory } else { Entry::File(FileId(number)) });
                } else {
                    chain.directory = chain.directory.or(Some(DirId(number)));
                    let group = String::new();
                    chain.above.push(DirectoryOwner { owner: owner.clone(), group, mode: 0 });
                }
                if *is_directory && chain.acl.is_none() && list.is_some() {
                    (chain.acl, chain.acl_depth) = (list.clone(), at.components().count());
                }
            }
            is_first = false;
            match at.split() {
                Some((above, _)) => at = above,
                None => return Ok(chain),
            }
        }
    }
}

impl Staging for Shelf {
    fn stage_told(
        &self,
        _: &Selection,
        _: StageOptions,
        _: &CallProgress,
    ) -> Result<RequestId, ArchiveError> {
        unreachable!("nobody stages")
    }

    fn request(&self, request: RequestId) -> Result<RequestInfo, ArchiveError> {
        let (owner, files) = self.requests.get(&request.0).ok_or(ArchiveError::NoSuchRequest(request))?;
        let record = RequestRecord {
            owner: owner.clone(),
            created: NOW,
            state: RequestState::Active,
            ended: None,
            pin: Duration::ZERO,
            files: files.len() as u32,
            bytes: ByteCount(0),
            done: 0,
            done_bytes: ByteCount(0),
            failed: 0,
            cancelled: 0,
            swept: 0,
            started: None,
            list: None,
        };
        Ok(RequestInfo { request, record, priority: 0 })
    }

    fn requests(&self, before: Option<RequestId>, _: usize) -> Result<Vec<RequestInfo>, ArchiveError> {
        let ids = if before.is_some() { Vec::new() } else { self.requests.keys().copied().collect() };
        ids.into_iter().map(|id| self.request(RequestId(id))).collect()
    }

    /// One at a time, whatever the limit.
    fn request_files(
        &self,
        request: RequestId,
        from: u32,
        _: usize,
    ) -> Result<(Vec<RequestFile>, Option<u32>), ArchiveError> {
        let (_, files) = &self.requests[&request.0];
        let file = |path: &String| RequestFile {
            path: path.clone(),
            size: ByteCount(0),
            state: ItemState::Waiting,
            failure: None,
            started: None,
            ended: None,
        };
        let page: Vec<_> = files.iter().skip(from as usize).take(1).map(file).collect();
        let next = (from as usize + 1 < files.len()).then_some(from + 1);
        Ok((page, next))
    }

    fn set_priority(&self, _: RequestId, _: u8) -> Result<(), ArchiveError> {
        Ok(())
    }

    fn cancel_request_told(&self, request: RequestId, _: &CallProgress) -> Result<(), ArchiveError> {
        self.cancelled.lock().unwrap().push(request.0);
        Ok(())
    }

    fn release_told(
        &self,
        _: RequestId,
        _: Option<&[ArchivePath]>,
        _: &CallProgress,
    ) -> Result<(), ArchiveError> {
        Ok(())
    }

    fn evict_told(&self, _: &Selection, _: &CallProgress) -> Result<EvictDone, ArchiveError> {
        unreachable!("nobody evicts")
    }

    fn explain(&self, _: &About) -> Result<Vec<Cause>, ArchiveError> {
        Ok(Vec::new())
    }

    fn request_outlook(&self, _: RequestId) -> Result<RequestOutlook, ArchiveError> {
        Ok(RequestOutlook { waiting: 0, looked_at: 0, rate: 0.0, expected: None, tail: Vec::new() })
    }
}

impl PathRequests for Shelf {
    fn stage_paths(&self, _: PathSubmission) -> Result<RequestId, ArchiveError> {
        unreachable!("nobody stages")
    }

    fn path_request(&self, request: RequestId) -> Result<PathRequest, ArchiveError> {
        let of_text = |text: &String| (text.clone(), PathState::Refused(PathRefusal::NotAllowed));
        let paths = self.requests[&request.0].1.iter().map(of_text).collect();
        Ok(PathRequest { info: self.request(request)?, paths })
    }

    fn cancel_paths(&self, _: RequestId, _: &[SubmittedPath]) -> Result<(), ArchiveError> {
        unreachable!("nobody cancels paths")
    }

    fn release_paths(&self, _: RequestId, _: &[SubmittedPath]) -> Result<(), ArchiveError> {
        unreachable!("nobody gives back")
    }

    fn delete_request(&self, _: RequestId) -> Result<(), ArchiveError> {
        unreachable!("nobody deletes")
    }

    fn localities(&self, _: &[ArchivePath]) -> Result<Vec<PathLocality>, ArchiveError> {
        unreachable!("nobody asks where")
    }
}

/// A caller with bounds as a macaroon has them, `RIGHTS:PATH`.
fn bounded(caller: Caller, bound: &str) -> Caller {
    let (rights, at) = bound.split_once(':').unwrap();
    let bound = Capability { rights: Rights::parse(rights).unwrap(), path: path(at), is_directory: false };
    Caller { bounds: Some(vec![bound]), how: How::Macaroon, ..caller }
}

fn rule(shelf: &Arc<Shelf>, caller: Caller) -> Rule<Shelf> {
    let ledger = Authority::default().ledger(&Arc::new(caller), None);
    Rule { engine: shelf.clone(), ledger, holding: Holding { locks: Arc::default(), tokens: Vec::new() } }
}

#[test]
fn uploading_overwrites_nothing_and_deleting_writes_nothing() {
    let shelf =
        Arc::new(Shelf::default().with("/", "", &[]).with("/a/", "anna", &[]).with("/a/f", "anna", &[]));
    let putting = |bound: &str, at: &str| {
        rule(&shelf, bounded(Caller::named("anna", []), bound)).putting("put", &path(at), false).ok()
    };
    assert_eq!(putting("tcw:/a", "/a/f"), Some(Putting::Replace));
    assert_eq!(putting("tcw:/a", "/a/new"), Some(Putting::Replace));
    assert_eq!((putting("tc:/a", "/a/new"), putting("tc:/a", "/a/f")), (Some(Putting::Create), None));
    assert_eq!((putting("tw:/a", "/a/new"), putting("tw:/a", "/a/f")), (None, None), "DELETE alone");
    assert_eq!((putting("tcw:/a/b", "/a/f"), putting("tcw:/", "/b")), (None, None));
    let deleting = rule(&shelf, bounded(Caller::named("anna", []), "tw:/a"));
    assert!(deleting.may("remove", Rights::MODIFY, &path("/a/f")).is_ok());
    assert!(deleting.may_rename("rename", &path("/a/f"), &path("/a/g"), false).is_err());
}

#[test]
fn a_macaroon_of_a_token_does_not_rename_by_creating() {
    let shelf = Arc::new(Shelf::default().with("/", "", &[]).with("/a/", "x", &[]).with("/a/f", "x", &[]));
    let create = Capability { rights: Rights::parse("tc").unwrap(), path: path("/a"), is_directory: false };
    let token = Caller { capabilities: vec![create], how: How::Token, ..Caller::named("anna", []) };
    let rename = |caller: Caller| {
        rule(&shelf, caller).may_rename("rename", &path("/a/f"), &path("/a/g"), false).is_ok()
    };
    assert!(rename(token.clone()), "as the profile of tokens has it");
    assert!(!rename(bounded(token, "tc:/a")), "UPLOAD takes no name away");
}

#[test]
fn a_move_shows_nobody_what_the_macaroon_does_not_let_read() {
    let shelf = Shelf::default().with("/", "", &[]).with("/bert/", "bert", &[]).with("/bert/f", "bert", &[]);
    let shelf = shelf.with("/bert/sub/", "bert", &[]).with("/team/", "x", &[("user:bert", "w")]);
    let shelf = shelf.with("/team/f", "x", &[]).with("/open/", "x", &[("anyone", "r"), ("user:bert", "cr")]);
    let shelf = shelf.with("/shared/", "x", &[("user:bert", "rw")]).with("/shared/f", "x", &[]);
    let shelf = Arc::new(shelf);
    let moves = |caller: Caller, from: &str, to: &str| {
        let rule = rule(&shelf, caller);
        rule.may_rename("rename", &path(from), &path(to), false).is_ok()
    };
    let bert = || Caller::named("bert", []);
    // What he may change but not read must not become his own, whatever the macaroon hides of that.
    assert!(!moves(bert(), "/team/f", "/bert/f2"));
    assert!(!moves(bounded(bert(), "tcw:/"), "/team/f", "/bert/f2"));
    // Nor what he may read and not stage.
    assert!(!moves(bert(), "/shared/f", "/bert/f2"));
    assert!(!moves(bounded(bert(), "trcw:/"), "/shared/f", "/bert/f2"));
    // His own he may move himself wherever he may put it.
    assert!(moves(bert(), "/bert/f", "/bert/sub/f") && moves(bert(), "/bert/f", "/open/f"));
    assert!(moves(bounded(bert(), "tcw:/bert"), "/bert/f", "/bert/sub/f"), "nobody sees more there");
    assert!(!moves(bounded(bert(), "tcw:/"), "/bert/f", "/open/f"), "its holder could read it then");
    assert!(moves(bounded(bert(), "trcw:/"), "/bert/f", "/open/f"));
    assert!(!moves(bounded(bert(), "tcw:/bert/sub"), "/bert/f", "/bert/sub/f"), "out of its bounds");
    assert!(!moves(bounded(bert(), "tcw:/bert"), "/bert/f", "/open/f"));
}

#[test]
fn no_bucket_is_made_with_a_macaroon() {
    let shelf = Arc::new(Shelf::default().with("/", "", &[("user:anna", "b")]));
    let makes = |caller: Caller| rule(&shelf, caller).may_make("mkdir", &path("/new")).is_ok();
    assert!(makes(Caller::named("anna", [])));
    assert!(!makes(bounded(Caller::named("anna", []), "tlrcwsp:/")));
}

#[test]
fn requests_are_changed_where_the_macaroon_is_for() {
    let shelf = Shelf { requests: BTreeMap::new(), ..Shelf::default() }.with("/", "", &[]);
    let mut shelf = shelf.with("/a/", "anna", &[]).with("/b/", "anna", &[]);
    let files = |files: &[&str]| files.iter().map(|&file| file.to_owned()).collect::<Vec<_>>();
    shelf.requests.insert(1, ("anna".to_owned(), files(&["/a/1", "/a/2", "/a/3"])));
    shelf.requests.insert(2, ("anna".to_owned(), files(&["/a/1", "/b/2"])));
    shelf.requests.insert(3, ("anna".to_owned(), files(&["/b/1", "/a/2"])));
    shelf.requests.insert(4, ("bert".to_owned(), files(&["/a/1"])));
    let shelf = Arc::new(shelf);
    let guard = Guard::new(Arc::default(), shelf.clone());
    let as_anna = |bound: Option<&str>| {
        let anna = Caller::named("anna", []);
        guard.enter(&Arc::new(bound.map_or(anna.clone(), |bound| bounded(anna, bound))))
    };
    let cancels = |bound: Option<&str>, id: u64| {
        as_anna(bound).cancel_request_told(RequestId(id), &CallProgress::default()).is_ok()
    };
    let looks = |bound: Option<&str>, id: u64| as_anna(bound).request(RequestId(id)).is_ok();
    let all = |test: &dyn Fn(Option<&str>, u64) -> bool, bound: Option<&str>| {
        [1, 2, 3, 4].map(|id| test(bound, id))
    };
    assert_eq!(all(&cancels, None), [true, true, true, false]);
    assert_eq!(all(&cancels, Some("tsp:/a")), [true, false, false, false], "all files have to be there");
    assert_eq!(all(&cancels, Some("tr:/a")), [false; 4]);
    assert_eq!(all(&cancels, Some("tsp:/")), [true, true, true, false]);
    assert_eq!(all(&looks, Some("tsp:/a")), [true, true, false, false]);
    assert_eq!(all(&looks, Some("tr:/a")), [false; 4]);
    let visible = as_anna(Some("tsp:/a")).request_files(RequestId(2), 1, 10).unwrap().0;
    assert!(visible.is_empty(), "a file elsewhere is not shown");
    assert_eq!(as_anna(None).requests(None, 10).unwrap().len(), 3);
    assert!(as_anna(Some("tsp:/a")).requests(None, 10).unwrap().is_empty());
    assert_eq!(*shelf.cancelled.lock().unwrap(), [1, 2, 3, 1, 1, 2, 3]);
    let explains =
        |bound: Option<&str>, id: u64| as_anna(bound).explain(&About::Request(RequestId(id))).is_ok();
    assert_eq!(all(&explains, None), [true, true, true, false]);
    assert_eq!(all(&explains, Some("tsp:/a")), [true, false, false, false], "what waits is named");
    let foretells = |bound: Option<&str>, id: u64| as_anna(bound).request_outlook(RequestId(id)).is_ok();
    assert_eq!(all(&foretells, Some("tsp:/a")), [true, false, false, false], "it is of all files");
}

/// Found by a reader: by a macaroon for one directory all paths of its asker's requests were told.
#[test]
fn of_a_request_a_macaroon_tells_the_paths_that_it_is_for() {
    let mut shelf = Shelf::default().with("/", "", &[]).with("/a/", "bert", &[]);
    let texts = ["/a/1", "/b/2", "//a//3", "//b//4", "b/../a/5"].map(str::to_owned).to_vec();
    shelf.requests.insert(1, ("anna".to_owned(), texts));
    let guard = Guard::new(Arc::default(), Arc::new(shelf));
    let paths = |caller: Caller| {
        let found = guard.enter(&Arc::new(caller)).path_request(RequestId(1)).unwrap();
        found.paths.into_iter().map(|(text, _)| text).collect::<Vec<_>>()
    };
    let anna = || Caller::named("anna", []);
    assert_eq!(paths(anna()).len(), 5, "the asker hears of each, also of those that may not be staged");
    assert_eq!(paths(bounded(anna(), "tsp:/a")), ["/a/1", "//a//3"]);
    let visible = guard.enter(&Arc::new(bounded(anna(), "tsp:/a")));
    for from in 3..5 {
        assert_eq!(visible.request_files(RequestId(1), from, 1).unwrap().0, [], "{from}");
    }
}

#[test]
fn what_goes_on_elsewhere_in_the_name_of_its_asker_is_not_seen() {
    let shelf = Arc::new(Shelf::default().with("/", "", &[]));
    let sees = |caller: Caller, owner: &str, at: &str| {
        let rule = rule(&shelf, caller);
        rule.sees(owner) && rule.bounds_leave(Rights::MODIFY, at)
    };
    let anna = || Caller::named("anna", []);
    assert!(sees(anna(), "anna", "/b/x") && !sees(anna(), "bert", "/b/x"));
    assert!(sees(bounded(anna(), "tw:/a"), "anna", "/a/x"));
    assert!(
        !sees(bounded(anna(), "tw:/a"), "anna", "/b/x") && !sees(bounded(anna(), "tr:/a"), "anna", "/a/x")
    );
    let operator = || Caller { is_operator: true, ..Caller::named("op", []) };
    assert!(sees(operator(), "anna", "/x") && rule(&shelf, operator()).looks("list", "tapes").is_ok());
    assert!(!sees(bounded(operator(), "tw:/"), "anna", "/x"));
    assert!(rule(&shelf, bounded(operator(), "tlrcwspm:/")).looks("list", "tapes").is_err());
}
