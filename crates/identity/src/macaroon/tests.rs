//! Macaroons as they are made, narrowed, and forged.

use proptest::prelude::*;

use super::*;
use crate::decision::{Node, decide, rights_at};

const SECRET: RootSecret = RootSecret([7; 32]);
/// 2026-11-27T12:00:00Z.
const NOW: Timestamp = Timestamp(1_795_780_800_000_000_000);
const HOUR: Duration = Duration::from_secs(3600);

fn path(text: &str) -> ArchivePath {
    ArchivePath::new(text).unwrap()
}

fn anna() -> Caller {
    Caller { origin: "KIST1".to_owned(), ..Caller::named("anna", ["cms", "production"]) }
}

fn request(at: &str, caveats: &[&str]) -> MacaroonRequest {
    let caveats = caveats.iter().map(|&caveat| caveat.to_owned()).collect();
    MacaroonRequest { path: path(at), caveats, validity: None }
}

fn make(caller: &Caller, at: &str, caveats: &[&str]) -> Result<String, MacaroonError> {
    make_macaroon(&SECRET, caller, &request(at, caveats), NOW, [1; 16])
}

fn verify(text: &str) -> Result<Macaroon, MacaroonError> {
    verify_macaroon(text, &SECRET, NOW, Some("10.0.0.1".parse().unwrap()))
}

/// What any holder can do: one more caveat.
fn narrow(text: &str, caveat: &str) -> String {
    let mut parts = Parts::read(text).unwrap();
    parts.signature = hmac(&parts.signature, caveat.as_bytes());
    parts.caveats.push(caveat.as_bytes().to_vec());
    parts.to_text()
}

/// `RIGHTS:PATH` of what the caveats leave.
fn bound(text: &str) -> Result<String, MacaroonError> {
    let bounds = verify(text)?.caller.bounds.unwrap();
    assert_eq!(bounds.len(), 1);
    Ok(format!("{}:{}", bounds[0].rights, bounds[0].path))
}

#[test]
fn one_stands_for_its_asker_within_its_caveats() {
    let text = make(&anna(), "/data/run", &["activity:DOWNLOAD,LIST"]).unwrap();
    assert!(is_like_macaroon(&text) && text.len() < 700, "{} bytes", text.len());
    let macaroon = verify(&text).unwrap();
    assert_eq!((macaroon.how, macaroon.origin.as_str(), macaroon.of_admin), (How::Key, "KIST1", false));
    let caller = macaroon.caller;
    assert_eq!((caller.name.as_str(), caller.how), ("anna", How::Macaroon));
    assert_eq!(caller.groups, ["cms", "production"]);
    assert!(!caller.is_admin && !caller.is_operator && !caller.is_confined() && caller.is_bounded());
    assert_eq!(bound(&text).unwrap(), "tlr:/data/run");
    assert_eq!(caller.until, Some(NOW.plus(HOUR)));
    // What she owns and lists give her is what she has, now.
    let node = |owner: &str| [Node { owner: owner.to_owned(), ..Node::default() }];
    let may = |rights: &str, at: &str, owner: &str| {
        decide(&caller, Rights::parse(rights).unwrap(), &path(at), Target::File, &node(owner)).is_ok()
    };
    assert!(may("r", "/data/run/f", "anna") && !may("r", "/data/run/f", "bert"));
    assert!(
        !may("w", "/data/run/f", "anna") && !may("r", "/data/runs", "anna") && !may("r", "/data", "anna")
    );
}

#[test]
fn without_activities_all_is_left_that_does_not_outlast_it() {
    assert_eq!(bound(&make(&anna(), "/a", &[]).unwrap()).unwrap(), "tlrcwsp:/a");
    let upload = verify(&make(&anna(), "/a", &["activity:UPLOAD"]).unwrap()).unwrap().caller;
    let own = [Node { owner: "anna".to_owned(), ..Node::default() }];
    assert_eq!(
        rights_at(&upload, &path("/a/f"), Target::File, &own).to_string(),
        "tc",
        "nothing is overwritten"
    );
}

#[test]
fn the_form_is_that_of_others() {
    // Made by pymacaroons 0.13, version 1 and 2, with the bytes 0 to 31 as its key.
    let first = "MDAxMmxvY2F0aW9uIGtpc3QKMDAxM2lkZW50aWZpZXIgYWJjCjAwMTBjaWQgcGF0aDovYQowMDI0Y2lkIGJlZm9yZT\
         oyMDI2LTExLTI3VDEzOjAwOjAwWgowMDJmc2lnbmF0dXJlIPMR-7SRKiderRrPPpQf6IeFwdoAPF5K9bcsYghvmegU\
         Cg";
    let second = "AgEEa2lzdAIDYWJjAAIHcGF0aDovYQACG2JlZm9yZToyMDI2LTExLTI3VDEzOjAwOjAwWgAABiDzEfu0kSonXq0azz\
         6UH-iHhcHaADxeSvW3LGIIb5noFA";
    let secret = RootSecret(std::array::from_fn(|at| at as u8));
    let parts = Parts::read(first).unwrap();
    assert_eq!(Parts::read(second).unwrap(), parts);
    assert_eq!((parts.location.as_str(), parts.identifier.as_slice()), ("kist", &b"abc"[..]));
    assert_eq!(parts.caveats, [&b"path:/a"[..], b"before:2026-11-27T13:00:00Z"]);
    assert_eq!(signature_of(&secret, &parts.identifier, &parts.caveats), parts.signature);
    assert_eq!(parts.to_text(), first);
    assert!(is_like_macaroon(first) && is_like_macaroon(second));
    assert!(!is_like_macaroon("kist_ABC") && !is_like_macaroon("MDA.x.y") && !is_like_macaroon(""));
    let padded = format!("{first}{}", &"==="[..(4 - first.len() % 4) % 4]);
    assert_eq!(Parts::read(&padded).unwrap(), parts);
    let for_others = [
        "MDAxMmxvY2F0aW9uIGtpc3QKMDAxM2lkZW50aWZpZXIgYWJjCjAwMGJjaWQgaWQKMDA1MXZpZCDn-NW3zMuGrjiSbt\
         xoB882F4MtB6sdQY08cYnqIRkPhPNmLIjUBKyf3qxdq5FWQjIpjxqksg6X4sPYtiQ0ZL12LlDO6FYYhDMKMDAxMGNs\
         IGh0dHA6Ly94CjAwMmZzaWduYXR1cmUgtqBZcnbOhf_lIYyAMAccX413b0amRWgJziA-nrdAuTAK",
        "AgEEa2lzdAIDYWJjAAEIaHR0cDovL3gCAmlkBEhpLZFXietOpy6-vFfAcckXVTax0sMqzgIIBg7RyzG5x_5JdSb6nV\
         MoLFrgYTB4N6rA0prXXv2zUCuz-5H1qE-yvl7g81UMBPUAAAYgtCpEI5AX3IOuNxN4w5YBWxoKlQdRRP-DsqbqN11H\
         Brg",
    ];
    for text in for_others {
        assert_eq!(Parts::read(text), Err(MacaroonError::ThirdParty));
    }
    let json = r#"{"v":2,"i":"abc","s64":"8xH7tJEqJ16tGs8-lB_oh4XB2gA8Xkr1tyxiCG-Z6BQ","l":"kist","c":[]}"#;
    assert_eq!(Parts::read(json), Err(MacaroonError::Malformed));
    assert_eq!(Parts::read(&encode(json.as_bytes())), Err(MacaroonError::Json));
}

#[test]
fn no_letter_of_one_can_be_changed_and_none_left_out() {
    let text = narrow(&make(&anna(), "/a", &["activity:DOWNLOAD"]).unwrap(), "ip:10.0.0.0/8");
    verify(&text).unwrap();
    for at in 0..text.len() {
        for other in ["A", "B", "_", "0", "=", "."] {
            let changed = format!("{}{other}{}", &text[..at], &text[at + 1..]);
            if changed != text {
                assert!(verify(&changed).is_err(), "letter {at} is {other}");
            }
        }
        assert!(verify(&text[..at]).is_err(), "the first {at} letters");
        assert!(verify(&text[at + 1..]).is_err(), "behind {at}");
    }
    for more in ["A", "AA", "AAAA", "MDAx", "\n", " "] {
        assert!(verify(&format!("{text}{more}")).is_err() && verify(&format!("{more}{text}")).is_err());
    }
    let bytes = decode(&text).unwrap();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            assert!(verify(&encode(&changed)).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn what_is_forged_is_refused() {
    let text = narrow(&make(&anna(), "/a", &["activity:DOWNLOAD"]).unwrap(), "name:x");
    let admin = Caller { origin: "KIST1".to_owned(), ..Caller::admin("root") };
    let others = make(&admin, "/b", &[]).unwrap();
    let genuine = Parts::read(&text).unwrap();
    assert_eq!(genuine.caveats.len(), 4, "path, activity, before, and what the holder added");
    let refused = |change: &dyn Fn(&mut Parts)| {
        let mut parts = genuine.clone();
        change(&mut parts);
        assert_ne!(parts, genuine);
        let error = verify(&parts.to_text()).unwrap_err();
        assert_eq!(error, MacaroonError::Signature, "{parts:?}");
    };
    for n in 0..4 {
        refused(&|parts| drop(parts.caveats.remove(n)));
        refused(&|parts| parts.caveats.truncate(n));
        refused(&|parts| parts.caveats[n].push(b' '));
        refused(&|parts| parts.caveats[n].truncate(5));
        refused(&|parts| parts.caveats.insert(n, b"activity:UPLOAD".to_vec()));
        refused(&|parts| parts.caveats[n] = b"path:/".to_vec());
        refused(&|parts| parts.caveats.rotate_left(n.max(1)));
        refused(&|parts| {
            let again = parts.caveats[n].clone();
            parts.caveats.push(again);
        });
    }
    refused(&|parts| parts.caveats.clear());
    refused(&|parts| parts.caveats.swap(0, 1));
    refused(&|parts| parts.caveats[2] = b"before:2099-01-01T00:00:00Z".to_vec());
    refused(&|parts| parts.identifier = Parts::read(&others).unwrap().identifier);
    refused(&|parts| parts.identifier.clear());
    refused(&|parts| parts.identifier.push(b'A'));
    refused(&|parts| parts.signature = [0; 32]);
    refused(&|parts| parts.signature = [0xff; 32]);
    refused(&|parts| parts.signature.reverse());
    refused(&|parts| parts.signature = Parts::read(&others).unwrap().signature);
    // The signatures on the way, which only who made it knows, and one with what all know for a key.
    refused(&|parts| parts.signature = hmac(&derived(&[0; 32]), &parts.identifier));
    refused(&|parts| parts.signature = hmac(&[0; 32], &parts.identifier));
    for secret in [[0; 32], [6; 32], [8; 32]] {
        let made = make_macaroon(&RootSecret(secret), &anna(), &request("/a", &[]), NOW, [1; 16]).unwrap();
        assert_eq!(verify(&made), Err(MacaroonError::Signature));
    }
    let elsewhere = Parts { location: "cern".to_owned(), ..genuine.clone() };
    assert_eq!(verify(&elsewhere.to_text()), Err(MacaroonError::Location));
}

#[test]
fn what_is_no_macaroon_is_refused() {
    let packets = |packets: &[&str]| {
        let one = |packet: &&str| format!("{:04x}{packet}", packet.len() + 4);
        encode(packets.iter().map(one).collect::<String>().as_bytes())
    };
    let signature = format!("signature {}\n", "s".repeat(32));
    let malformed = [
        String::new(),
        "AAAA".to_owned(),
        "A".to_owned(),
        "Ag".to_owned(),
        "AgEEa2lzdA".to_owned(),
        "MDAx".to_owned(),
        "ä".to_owned(),
        packets(&["location kist\n", "identifier x\n"]),
        packets(&["location kist\n", &signature]),
        packets(&["identifier x\n", "location kist\n", &signature]),
        packets(&["location kist\n", "location kist\n", "identifier x\n", &signature]),
        packets(&["location kist\n", "identifier x\n", "identifier y\n", &signature]),
        packets(&["location kist\n", "cid a:b\n", "identifier x\n", &signature]),
        packets(&["location kist\n", "identifier x\n", &signature, "cid a:b\n"]),
        packets(&["location kist\n", "identifier x\n", &signature, &signature]),
        packets(&["location kist\n", "identifier x\n", "signature short\n"]),
        packets(&["location kist\n", "identifier x\n", "what is\n", &signature]),
        packets(&["location kist", "identifier x\n", &signature]),
        packets(&["locationkist\n", "identifier x\n", &signature]),
        encode(b"0000"),
        encode(b"0003"),
        encode(b"0004"),
        encode(b"0005\n"),
        encode(b"ffff"),
        encode(b"+012location kist\n"),
        encode(b"001Clocation aaaaaaaaaaaaaa\n"),
        encode(&[2]),
        encode(&[2, 0]),
        encode(&[2, 2, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        encode(&[2, 2, 0x80, 0x00, 0, 0]),
        encode(&[2, 2, 1, b'x', 0, 0, 6, 1, 0]),
        encode(&[2, 2, 1, b'x', 0, 0, 0]),
        encode(&[2, 9, 1, b'x', 0, 0, 0]),
        encode(&[2, 2, 1, b'x', 2, 1, b'y', 0, 0, 6]),
        encode(&[3, 2, 1, b'x', 0, 0]),
    ];
    for text in &malformed {
        assert_eq!(verify(text), Err(MacaroonError::Malformed), "{text}");
    }
    for others in ["vid x\n", "cl x\n"] {
        let text = packets(&["location kist\n", "identifier x\n", "cid a\n", others, &signature]);
        assert_eq!(verify(&text), Err(MacaroonError::ThirdParty));
    }
    assert_eq!(verify(&encode(b"{\"v\":2}")), Err(MacaroonError::Json));
    let huge = "A".repeat(MACAROON_BYTES_MAX + 1);
    assert_eq!(verify(&huge), Err(MacaroonError::TooLong(MACAROON_BYTES_MAX + 1)));
    assert_eq!(verify(&"A".repeat(MACAROON_BYTES_MAX)), Err(MacaroonError::Malformed));
}

#[test]
fn caveats_only_narrow() {
    let text = make(&anna(), "/a/b", &["activity:DOWNLOAD,LIST,UPLOAD"]).unwrap();
    let with = |caveats: &[&str]| bound(&caveats.iter().fold(text.clone(), |text, one| narrow(&text, one)));
    assert_eq!(with(&[]).unwrap(), "tlrc:/a/b");
    for (caveats, expected) in [
        (&["path:/a/b/c"][..], "tlrc:/a/b/c"),
        (&["path:/a/b/c/"], "tlrc:/a/b/c"),
        (&["path:/"], "tlrc:/a/b"),
        (&["path:/a"], "tlrc:/a/b"),
        (&["path:/a/b/c/d", "path:/a/b/c"], "tlrc:/a/b/c/d"),
        (&["activity:DOWNLOAD"], "tr:/a/b"),
        (&["activity:DOWNLOAD", "activity:LIST"], "t:/a/b"),
        (&["activity:DELETE,MANAGE,STAGE"], "tc:/a/b"),
        (&["activity:READ_METADATA,UPDATE_METADATA"], "t:/a/b"),
        (&["name:root", "name:admin"], "tlrc:/a/b"),
        (&["before:2099-01-01T00:00:00Z"], "tlrc:/a/b"),
        (&["ip:10.0.0.1", "ip:10.0.0.0/8,192.168.0.0/16"], "tlrc:/a/b"),
    ] {
        assert_eq!(with(caveats).unwrap(), expected, "{caveats:?}");
    }
    for caveats in [&["path:/a/bc"][..], &["path:/x"], &["path:/a/b/c", "path:/a/b/d"]] {
        assert_eq!(with(caveats), Err(MacaroonError::Nothing), "{caveats:?}");
    }
    for caveat in ["ip:10.0.0.2", "ip:192.168.0.0/16", "ip:::1", "ip:2001:db8::/32"] {
        assert_eq!(with(&[caveat]), Err(MacaroonError::Address), "{caveat}");
        assert_eq!(with(&["ip:10.0.0.1", caveat]), Err(MacaroonError::Address), "{caveat}");
    }
    let unknown =
        ["", "x", "id:0;0", "home:/", "root:/", "max-upload:5", "activity:", "activity:ALL", "path:a/b"];
    for caveat in
        unknown.into_iter().chain(["path:/a/../..", "path:/a/b/./c", "ip:any", "before:never", "PATH:/a"])
    {
        assert!(matches!(with(&[caveat]), Err(MacaroonError::Caveat(_))), "{caveat}");
    }
    let mut parts = Parts::read(&text).unwrap();
    parts.caveats.push(vec![0xff, 0xfe]);
    parts.signature = hmac(&parts.signature, &[0xff, 0xfe]);
    assert!(matches!(verify(&parts.to_text()), Err(MacaroonError::Caveat(_))));
    let from = narrow(&text, "ip:10.0.0.1");
    assert_eq!(
        verify_macaroon(&from, &SECRET, NOW, None),
        Err(MacaroonError::Address),
        "nobody knows from where"
    );
}

#[test]
fn the_earliest_end_counts() {
    let until = |text: &str, at: Timestamp| verify_macaroon(text, &SECRET, at, None).map(drop);
    let text = make(&anna(), "/a", &[]).unwrap();
    let (last, over) = (NOW.plus(HOUR).minus(Duration::from_nanos(1)), NOW.plus(HOUR));
    assert_eq!((until(&text, last), until(&text, over)), (Ok(()), Err(MacaroonError::Expired)));
    let longer = narrow(&text, "before:2099-01-01T00:00:00Z");
    assert_eq!(until(&longer, over), Err(MacaroonError::Expired));
    let shorter = narrow(&text, "before:2026-11-27T12:00:01Z");
    assert_eq!(
        (until(&shorter, NOW), until(&shorter, NOW.plus(HOUR / 2))),
        (Ok(()), Err(MacaroonError::Expired))
    );
    let asked = |validity: Option<Duration>, caller: &Caller| {
        let request = MacaroonRequest { validity, ..request("/a", &[]) };
        let text = make_macaroon(&SECRET, caller, &request, NOW, [1; 16]).unwrap();
        verify(&text).map(|macaroon| macaroon.caller.until.unwrap().since(NOW))
    };
    assert_eq!(asked(None, &anna()), Ok(MACAROON_VALIDITY));
    assert_eq!(asked(Some(Duration::from_secs(60)), &anna()), Ok(Duration::from_secs(60)));
    assert_eq!(asked(Some(Duration::MAX), &anna()), Ok(MACAROON_VALIDITY_MAX));
    assert_eq!(asked(Some(Duration::ZERO), &anna()), Err(MacaroonError::Expired));
    let short = Caller { until: Some(NOW.plus(Duration::from_secs(90))), ..anna() };
    assert_eq!(
        asked(None, &short),
        Ok(Duration::from_secs(90)),
        "it ends with that by which it was asked for"
    );
    // One without an end is not made by us; somebody with the secret could.
    let mut parts = Parts::read(&text).unwrap();
    parts.caveats.pop();
    parts.signature = signature_of(&SECRET, &parts.identifier, &parts.caveats);
    assert_eq!(verify(&parts.to_text()), Err(MacaroonError::NoEnd));
}

#[test]
fn an_admins_is_no_admins() {
    let admin =
        Caller { is_operator: true, ..Caller { origin: "admin-1".to_owned(), ..Caller::admin("root") } };
    let macaroon = verify(&make(&admin, "/a", &["activity:DOWNLOAD"]).unwrap()).unwrap();
    assert!(macaroon.of_admin && !macaroon.caller.is_admin && !macaroon.caller.is_operator);
    let may = |rights: &str, at: &str| {
        let chain = [Node { owner: "bert".to_owned(), ..Node::default() }];
        decide(&macaroon.caller, Rights::parse(rights).unwrap(), &path(at), Target::File, &chain).is_ok()
    };
    assert!(may("tr", "/a/f"), "what anybody owns there");
    assert!(!may("w", "/a/f") && !may("r", "/b") && !may("r", "/") && !may("m", "/a/f"));
    assert!(!macaroon.caller.looks());
}

#[test]
fn a_tokens_is_confined_as_the_token_is() {
    let capability = |rights: &str, at: &str| Capability {
        rights: Rights::parse(rights).unwrap().implied(),
        path: path(at),
        is_directory: false,
    };
    let token = Caller {
        how: How::Token,
        origin: "https://issuer".to_owned(),
        capabilities: vec![capability("r", "/cms/a"), capability("c", "/cms/b"), capability("s", "/x")],
        ..anna()
    };
    let caller = verify(&make(&token, "/cms", &[]).unwrap()).unwrap().caller;
    assert_eq!(caller.capabilities, token.capabilities[..2], "what cannot be used there is left out");
    let own = [Node { owner: "anna".to_owned(), ..Node::default() }];
    let rights = |caller: &Caller, at: &str| rights_at(caller, &path(at), Target::File, &own).to_string();
    assert_eq!(
        (rights(&caller, "/cms/a/f"), rights(&caller, "/cms/b/f")),
        ("tr".to_owned(), "tc".to_owned())
    );
    assert_eq!((rights(&caller, "/cms/c"), rights(&caller, "/x")), (String::new(), String::new()));
    // Confined to nothing must not become confined by nothing.
    assert!(matches!(make(&token, "/other", &[]), Err(MacaroonError::Asker(_))));
    let text = make(&token, "/cms/a/deep", &["activity:DOWNLOAD,UPLOAD"]).unwrap();
    let caller = verify(&text).unwrap().caller;
    assert_eq!(
        (rights(&caller, "/cms/a/deep/f"), rights(&caller, "/cms/a/f")),
        ("tr".to_owned(), String::new())
    );
    // Somebody with the secret, or an older or newer version of ours: refused, not guessed.
    let parts = Parts::read(&text).unwrap();
    let identifier =
        String::from_utf8(decode(std::str::from_utf8(&parts.identifier).unwrap()).unwrap()).unwrap();
    for (from, to) in [
        (r#""scopes":[[5,"/cms/a",false]]"#, r#""scopes":[]"#),
        (r#""scopes":[[5,"/cms/a",false]]"#, r#""scopes":[[4096,"/cms/a",false]]"#),
        (r#""scopes":[[5,"/cms/a",false]]"#, r#""scopes":[[5,"cms",false]]"#),
        (r#""scopes":"#, r#""admin":true,"scopes":"#),
        (r#""format":1"#, r#""format":2"#),
        (r#""format":1"#, r#""format":1,"more":1"#),
        (r#""name":"anna""#, r#""name":"""#),
        (r#""how":"token""#, r#""how":"local""#),
        (r#""origin":"https://issuer""#, r#""origin":"""#),
    ] {
        assert!(identifier.contains(from), "{identifier}");
        let identifier = encode(identifier.replace(from, to).as_bytes()).into_bytes();
        let signature = signature_of(&SECRET, &identifier, &parts.caveats);
        let text = Parts { identifier, signature, ..parts.clone() }.to_text();
        assert_eq!(verify(&text), Err(MacaroonError::Malformed), "{to}");
    }
}

#[test]
fn not_everybody_gets_one() {
    let refused = |caller: Caller| assert!(matches!(make(&caller, "/a", &[]), Err(MacaroonError::Asker(_))));
    refused(Caller::anonymous());
    refused(Caller::named("anna", []));
    refused(Caller { how: How::Nothing, ..anna() });
    refused(Caller { how: How::Local, ..anna() });
    refused(Caller { name: String::new(), ..anna() });
    refused(Caller { bounds: Some(Vec::new()), ..anna() });
    refused(verify(&make(&anna(), "/a", &[]).unwrap()).unwrap().caller);
    let caveats = |caveats: &[&str]| make(&anna(), "/a/b", caveats).map(drop);
    for caveat in ["", "what:ever", "activity:", "activity:FLY", "path:b", "ip:x", "before:soon", "root:/a"] {
        assert!(matches!(caveats(&[caveat]), Err(MacaroonError::Caveat(_))), "{caveat}");
    }
    assert_eq!(caveats(&["path:/x"]), Err(MacaroonError::Nothing));
    assert_eq!(caveats(&["name:x"; CAVEATS_ASKED_MAX]), Ok(()));
    assert_eq!(caveats(&["name:x"; CAVEATS_ASKED_MAX + 1]), Err(MacaroonError::TooMany));
    let long = format!("name:{}", "x".repeat(MACAROON_BYTES_MAX));
    assert!(matches!(caveats(&[&long]), Err(MacaroonError::TooLong(_))));
    let mut text = make(&anna(), "/a", &["name:x"; CAVEATS_ASKED_MAX]).unwrap();
    for _ in CAVEATS_ASKED_MAX + 2..CAVEATS_MAX {
        text = narrow(&text, "name:y");
    }
    verify(&text).unwrap();
    assert_eq!(verify(&narrow(&text, "name:y")), Err(MacaroonError::TooMany));
}

proptest! {
    #[test]
    fn no_caveat_gives_anything(
        caveats in proptest::collection::vec(
            "(path:/[ab/.]{0,6}|activity:(DOWNLOAD|UPLOAD|DELETE|MANAGE|LIST|STAGE)(,LIST)?|name:x|\
             ip:10.0.0.0/8|root:/)",
            0..4,
        ),
        at in "/[ab]{0,2}(/[ab]){0,2}",
    ) {
        let text = make(&anna(), "/a", &["activity:DOWNLOAD,LIST,UPLOAD,DELETE"]).unwrap();
        let own = [Node { owner: "anna".to_owned(), ..Node::default() }];
        let rights = |text: &str| match verify(text) {
            Ok(macaroon) => {
                let at = ArchivePath::new(&at).unwrap_or(ArchivePath::root());
                rights_at(&macaroon.caller, &at, Target::Directory, &own)
            }
            Err(_) => Rights::NONE,
        };
        let mut narrowed = text;
        let mut before = rights(&narrowed);
        for caveat in &caveats {
            narrowed = narrow(&narrowed, caveat);
            let after = rights(&narrowed);
            prop_assert!(before.contains(after), "{caveat}: {before} became {after}");
            before = after;
        }
    }
}
