//! Requests that are forged, changed on their way, too old or too young: none gets in, none stores anything.

use crate::client::{Draft, Raw, Sealed, World, key_request};

/// A draft, what is done to it once it is signed, and the code of the refusal.
struct Row {
    name: &'static str,
    draft: Draft,
    forge: fn(&mut Raw),
    code: &'static str,
}

fn put() -> Draft {
    Draft::new("PUT", "/b-1/victim").body(b"hello, world")
}

fn row(name: &'static str, draft: Draft, forge: fn(&mut Raw), code: &'static str) -> Row {
    Row { name, draft, forge, code }
}

fn nothing(_: &mut Raw) {}

const CRC: (&str, &str) = ("x-amz-checksum-crc32", "/6tyOg==");

fn header_rows() -> Vec<Row> {
    let mut other_region = put();
    other_region.region = "eu-west-1";
    let mut other_service = put();
    other_service.service = "sts";
    let mut unsigned_host = put();
    unsigned_host.headers.clear();
    let mut day = put();
    day.time = "20261121T202900Z";
    vec![
        row("another path", put(), |raw| raw.target = "/b-1/other".into(), "SignatureDoesNotMatch"),
        row("another bucket", put(), |raw| raw.target = "/b-2/victim".into(), "SignatureDoesNotMatch"),
        row("a query more", put(), |raw| raw.target += "?tagging", "SignatureDoesNotMatch"),
        row(
            "a query changed",
            Draft::new("GET", "/b-1?prefix=a"),
            |r| r.replace_in_target("prefix=a", "prefix=b"),
            "SignatureDoesNotMatch",
        ),
        row("another method", put(), |raw| raw.method = http::Method::DELETE, "SignatureDoesNotMatch"),
        row(
            "a header changed",
            put().header("x-amz-meta-a", "1"),
            |r| *r.header("x-amz-meta-a") = "2".into(),
            "SignatureDoesNotMatch",
        ),
        row(
            "a signed header gone",
            put().header("x-amz-meta-a", "1"),
            |raw| raw.headers.retain(|(name, _)| name != "x-amz-meta-a"),
            "SignatureDoesNotMatch",
        ),
        row(
            "a signed header twice",
            put().header("x-amz-meta-a", "1"),
            |raw| raw.headers.push(("x-amz-meta-a".into(), "2".into())),
            "SignatureDoesNotMatch",
        ),
        row(
            "another host",
            put(),
            |raw| *raw.header("host") = "evil.example".into(),
            "SignatureDoesNotMatch",
        ),
        row("an unsigned amz header", put().unsigned("x-amz-meta-evil", "1"), nothing, "AccessDenied"),
        row("an unsigned acl", put().unsigned("x-amz-acl", "private"), nothing, "AccessDenied"),
        row(
            "an unsigned copy source",
            put().unsigned("x-amz-copy-source", "b-1/secret"),
            nothing,
            "AccessDenied",
        ),
        row(
            "no signed host",
            unsigned_host,
            |raw| raw.headers.push(("host".into(), "kist.example".into())),
            "AccessDenied",
        ),
        row("another body", put(), |raw| raw.body = b"HELLO, WORLD".to_vec(), "XAmzContentSHA256Mismatch"),
        row("a shorter body", put(), |raw| raw.body.truncate(5), "IncompleteBody"),
        row("a longer body", put(), |raw| raw.body.push(b'!'), "IncompleteBody"),
        row(
            "another hash",
            put(),
            |r| {
                let hash = crate::client::sha256(b"x");
                *r.header("x-amz-content-sha256") = hash;
            },
            "SignatureDoesNotMatch",
        ),
        row(
            "hash unsigned",
            put(),
            |r| *r.header("x-amz-content-sha256") = "UNSIGNED-PAYLOAD".into(),
            "SignatureDoesNotMatch",
        ),
        row(
            "hash no hash",
            put(),
            |raw| *raw.header("x-amz-content-sha256") = "abc".into(),
            "InvalidArgument",
        ),
        row(
            "no hash",
            put(),
            |raw| raw.headers.retain(|(n, _)| n != "x-amz-content-sha256"),
            "InvalidRequest",
        ),
        row("no date", put(), |raw| raw.headers.retain(|(name, _)| name != "x-amz-date"), "AccessDenied"),
        row(
            "date changed",
            put(),
            |raw| *raw.header("x-amz-date") = "20261121T202901Z".into(),
            "SignatureDoesNotMatch",
        ),
        row(
            "day of scope changed",
            day,
            |r| r.replace("authorization", "/20261121/", "/20261120/"),
            "SignatureDoesNotMatch",
        ),
        row("a region not ours", other_region, nothing, "AuthorizationHeaderMalformed"),
        row(
            "region swapped",
            put(),
            |r| r.replace("authorization", "us-east-1", "eu-west-1"),
            "AuthorizationHeaderMalformed",
        ),
        row("another service", other_service, nothing, "AuthorizationHeaderMalformed"),
        row("16 minutes old", put().at("20261121T201259Z"), nothing, "RequestTimeTooSkewed"),
        row("16 minutes ahead", put().at("20261121T204501Z"), nothing, "RequestTimeTooSkewed"),
        row("a year old", put().at("20251121T202900Z"), nothing, "RequestTimeTooSkewed"),
        row("an impossible time", put().at("20261321T202900Z"), nothing, "AccessDenied"),
        row(
            "an unknown key",
            put(),
            |r| r.replace("authorization", "Credential=", "Credential=X"),
            "InvalidAccessKeyId",
        ),
        row(
            "no key",
            put(),
            |r| {
                let at = r.header("authorization");
                let from = at.find('=').unwrap() + 1;
                let to = at.find('/').unwrap();
                at.replace_range(from..to, "");
            },
            "AuthorizationHeaderMalformed",
        ),
        row(
            "a digit of the signature",
            put(),
            |r| {
                let at = r.header("authorization");
                let last = at.pop().unwrap();
                at.push(if last == '0' { '1' } else { '0' });
            },
            "SignatureDoesNotMatch",
        ),
        row(
            "a short signature",
            put(),
            |r| {
                r.header("authorization").pop();
            },
            "AuthorizationHeaderMalformed",
        ),
        row(
            "a signature in capitals",
            put(),
            |r| {
                let at = r.header("authorization");
                let from = at.rfind('=').unwrap();
                let up = at[from..].replace(|c: char| c.is_ascii_digit(), "A");
                at.truncate(from);
                at.push_str(&up);
            },
            "AuthorizationHeaderMalformed",
        ),
        row(
            "another algorithm",
            put(),
            |r| r.replace("authorization", "SHA256", "SHA1"),
            "AuthorizationHeaderMalformed",
        ),
        row(
            "two authorizations",
            put(),
            |r| {
                let value = r.header("authorization").clone();
                r.headers.push(("authorization".into(), value));
            },
            "InvalidRequest",
        ),
        row(
            "no signature at all",
            put(),
            |r| r.headers.retain(|(n, _)| n != "authorization"),
            "AccessDenied",
        ),
        row(
            "version 2 in the header",
            put(),
            |r| *r.header("authorization") = "AWS AKID:c2ln".into(),
            "InvalidRequest",
        ),
        row(
            "version 2 in the address",
            put(),
            |r| {
                r.headers.retain(|(n, _)| n != "authorization");
                r.target += "?AWSAccessKeyId=AKID&Signature=c2ln&Expires=1895292940";
            },
            "InvalidRequest",
        ),
        row(
            "an unknown bearer",
            put(),
            |r| *r.header("authorization") = "Bearer nobody".into(),
            "InvalidToken",
        ),
        row(
            "basic",
            put(),
            |r| *r.header("authorization") = "Basic YTpi".into(),
            "AuthorizationHeaderMalformed",
        ),
        row("a session token", put().header("x-amz-security-token", "t"), nothing, "InvalidToken"),
        row("a wrong MD5", put().header("content-md5", "1B2M2Y8AsgTpgAmY7PhCfg=="), nothing, "BadDigest"),
        row("no MD5", put().header("content-md5", "zzz"), nothing, "InvalidDigest"),
        row("a wrong checksum", put().header("x-amz-checksum-crc32", "AAAAAA=="), nothing, "BadDigest"),
        row("encryption", put().header("x-amz-server-side-encryption", "AES256"), nothing, "NotImplemented"),
    ]
}

fn chunk_rows() -> Vec<Row> {
    let signed = || put().chunks(5, true, &[]);
    let trailed = || put().chunks(5, true, &[CRC]);
    let plain = || put().chunks(5, false, &[CRC]);
    vec![
        row(
            "a chunk changed",
            signed(),
            |raw| raw.replace_in_body("hello", "HELLO"),
            "SignatureDoesNotMatch",
        ),
        row(
            "a later chunk changed",
            signed(),
            |raw| raw.replace_in_body("ld", "LD"),
            "SignatureDoesNotMatch",
        ),
        row("chunks swapped", signed(), |raw| raw.replace_in_body("hello", ", wor"), "SignatureDoesNotMatch"),
        row(
            "a chunk signature changed",
            signed(),
            |raw| {
                let text = String::from_utf8(raw.body.clone()).unwrap();
                let at = text.find("signature=").unwrap() + 10;
                raw.body[at] = if raw.body[at] == b'0' { b'1' } else { b'0' };
            },
            "SignatureDoesNotMatch",
        ),
        row(
            "a chunk unsigned",
            signed(),
            |raw| {
                let text = String::from_utf8(raw.body.clone()).unwrap();
                let from = text.find(';').unwrap();
                raw.body = format!("{}{}", &text[..from], &text[from + 81..]).into_bytes();
            },
            "InvalidRequest",
        ),
        row("cut between chunks", signed(), |raw| raw.body.truncate(raw.body.len() - 89), "IncompleteBody"),
        row("cut in a chunk", signed(), |raw| raw.body.truncate(100), "IncompleteBody"),
        row("no chunk", signed(), |raw| raw.body.clear(), "IncompleteBody"),
        row("a huge chunk", plain(), |raw| raw.replace_in_body("5\r\n", "fffffff0\r\n"), "IncompleteBody"),
        row(
            "unsigned chunks where signed",
            plain(),
            |raw| {
                *raw.header("x-amz-content-sha256") = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER".into();
            },
            "SignatureDoesNotMatch",
        ),
        row(
            "a trailer changed",
            trailed(),
            |raw| raw.replace_in_body("/6tyOg==", "AAAAAA=="),
            "SignatureDoesNotMatch",
        ),
        row(
            "a trailer unsigned",
            trailed(),
            |raw| {
                let text = String::from_utf8(raw.body.clone()).unwrap();
                raw.body.truncate(text.find("x-amz-trailer-signature").unwrap());
            },
            "MalformedTrailerError",
        ),
        row(
            "a trailer checksum changed",
            plain(),
            |r| r.replace_in_body("/6tyOg==", "AAAAAA=="),
            "BadDigest",
        ),
        row("a chunk under a trailer", plain(), |raw| raw.replace_in_body("hello", "HELLO"), "BadDigest"),
        row(
            "a trailer missing",
            plain(),
            |raw| raw.replace_in_body("x-amz-checksum-crc32:/6tyOg==\r\n", ""),
            "MalformedTrailerError",
        ),
        row(
            "a trailer more",
            plain(),
            |raw| raw.replace_in_body("Og==\r\n", "Og==\r\nx-amz-meta-a:1\r\n"),
            "MalformedTrailerError",
        ),
        row(
            "another trailer",
            plain(),
            |raw| raw.replace_in_body("crc32:", "sha1:"),
            "MalformedTrailerError",
        ),
        row(
            "a wrong announced length",
            plain(),
            |raw| *raw.header("x-amz-decoded-content-length") = "11".into(),
            "SignatureDoesNotMatch",
        ),
        row(
            "an unknown seal",
            put(),
            |raw| *raw.header("x-amz-content-sha256") = "STREAMING-X".into(),
            "NotImplemented",
        ),
        row(
            "a trailer that is no checksum",
            put().chunks(5, false, &[("x-amz-meta-a", "1")]),
            nothing,
            "InvalidRequest",
        ),
    ]
}

fn presigned_rows() -> Vec<Row> {
    let put = || put().presigned("60");
    vec![
        row("presigned: expired", put().at("20261121T202759Z"), nothing, "AccessDenied"),
        row("presigned: not yet", put().at("20261121T204501Z"), nothing, "RequestTimeTooSkewed"),
        row("presigned: eight days", put().presigned("691200"), nothing, "AuthorizationQueryParametersError"),
        row("presigned: never", put().presigned("0"), nothing, "AuthorizationQueryParametersError"),
        row("presigned: negative", put().presigned("-1"), nothing, "AuthorizationQueryParametersError"),
        row(
            "presigned: longer",
            put(),
            |r| r.replace_in_target("Expires=60", "Expires=61"),
            "SignatureDoesNotMatch",
        ),
        row(
            "presigned: another path",
            put(),
            |r| r.replace_in_target("victim", "other"),
            "SignatureDoesNotMatch",
        ),
        row("presigned: another method", put(), |r| r.method = http::Method::DELETE, "SignatureDoesNotMatch"),
        row(
            "presigned: a query more",
            put(),
            |r| r.target += "&response-content-type=a",
            "SignatureDoesNotMatch",
        ),
        row("presigned: a header more", put().unsigned("x-amz-meta-evil", "1"), nothing, "AccessDenied"),
        row("presigned: a copy", put().unsigned("x-amz-copy-source", "b-1/secret"), nothing, "AccessDenied"),
        row(
            "presigned: twice",
            put(),
            |r| r.target += "&X-Amz-Expires=60",
            "AuthorizationQueryParametersError",
        ),
        row(
            "presigned: no algorithm",
            put(),
            |r| r.replace_in_target("X-Amz-Algorithm", "X-Amz-A"),
            "AuthorizationQueryParametersError",
        ),
        row(
            "presigned: and signed",
            put().unsigned("authorization", "AWS4-HMAC-SHA256 Credential=a"),
            nothing,
            "InvalidArgument",
        ),
        row(
            "presigned: wrong hash",
            put().unsigned("x-amz-content-sha256", &crate::client::sha256(b"x")),
            nothing,
            "XAmzContentSHA256Mismatch",
        ),
        row(
            "presigned: chunks",
            put().unsigned("x-amz-content-sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"),
            nothing,
            "NotImplemented",
        ),
        row(
            "presigned: a lock in the address",
            Draft::new("PUT", "/b-1/victim?x-amz-object-lock-mode=COMPLIANCE").body(b"x").presigned("60"),
            nothing,
            "NotImplemented",
        ),
        row(
            "a copy to what is not there",
            Draft::new("PUT", "/b-1/victim")
                .header("x-amz-copy-source", "b-1/secret")
                .header("if-none-match", "*"),
            nothing,
            "NotImplemented",
        ),
        row("presigned: session", put(), |r| r.target += "&X-Amz-Security-Token=t", "InvalidToken"),
    ]
}

#[test]
fn no_forged_request_gets_in() {
    let world = World::with_bucket();
    let rows: Vec<Row> = header_rows().into_iter().chain(chunk_rows()).chain(presigned_rows()).collect();
    assert!(rows.len() >= 80, "{}", rows.len());
    let mut wrong = Vec::new();
    for Row { name, draft, forge, code } in rows {
        let mut raw = draft.sign(&world.key, &world.secret);
        forge(&mut raw);
        let reply = world.send_raw(raw);
        if reply.status < 400 || reply.code() != code {
            wrong.push(format!(
                "{name}: {} {}, not {code}: {}",
                reply.status,
                reply.code(),
                reply.element("Message")
            ));
        }
        assert_eq!(world.fake.everything(), Vec::<String>::new(), "{name} stored something");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // The same requests, not forged, do get in: so the rows above are refused for what was done to them.
    for draft in [
        put(),
        put().chunks(5, true, &[]),
        put().chunks(5, true, &[CRC]),
        put().chunks(5, false, &[CRC]),
        put().presigned("60"),
        put().presigned("604800").at("20261114T202900Z"),
        put().at("20261121T201400Z"),
        put().at("20261121T204400Z"),
        Draft { sealed: Sealed::Unsigned, ..put() },
    ] {
        let reply = world.send(&draft);
        assert_eq!(reply.status, 200, "{}", reply.text());
        assert_eq!(world.get("/b-1/victim").body, b"hello, world");
        assert_eq!(world.send(&Draft::new("DELETE", "/b-1/victim")).status, 204);
    }
}

#[test]
fn wrong_secrets_and_disabled_keys_do_not_sign() {
    let world = World::with_bucket();
    let reply = world.send_raw(put().sign(&world.key, "another secret"));
    assert_eq!(reply.code(), "SignatureDoesNotMatch");
    let root = std::sync::Arc::new(identity::Caller::admin("root"));
    world.authority.set_key_disabled(&root, None, &world.key, true).unwrap();
    assert_eq!(world.send(&put()).code(), "InvalidAccessKeyId");
    world.authority.set_key_disabled(&root, None, &world.key, false).unwrap();
    assert_eq!(world.send(&put()).status, 200);
    world.authority.remove_key(&root, None, &world.key).unwrap();
    assert_eq!(world.send(&put()).code(), "InvalidAccessKeyId");
}

#[test]
fn a_bearer_of_a_key_comes_in_too() {
    let world = World::with_bucket();
    let root = std::sync::Arc::new(identity::Caller::admin("root"));
    let key = world.authority.create_key(&root, None, &key_request("bert", false)).unwrap();
    let token = format!("Bearer {}", key.secret);
    let mut raw = put().sign(&world.key, &world.secret);
    raw.headers.retain(|(name, _)| !["authorization", "x-amz-date"].contains(&name.as_str()));
    raw.headers.push(("authorization".into(), token));
    assert_eq!(world.send_raw(raw.clone()).status, 200);
    raw.body[0] = b'H';
    assert_eq!(world.send_raw(raw).code(), "XAmzContentSHA256Mismatch");
}

#[test]
fn sizes_are_bounded() {
    let mut settings = s3::S3Settings::default();
    settings.limits.put_bytes = base::ByteCount(11);
    settings.limits.xml_bytes = 100;
    settings.limits.uri_bytes = 300;
    let world = World::with(settings);
    assert_eq!(world.send(&Draft::new("PUT", "/b-1")).status, 200);
    assert_eq!(world.send(&put()).code(), "EntityTooLarge");
    assert_eq!(world.send(&put().chunks(5, false, &[CRC])).code(), "EntityTooLarge");
    let tags = Draft::new("PUT", "/b-1?tagging").body(&[b' '; 101]);
    assert_eq!(world.send(&tags).code(), "MaxMessageLengthExceeded");
    let long = Draft::new("GET", &format!("/b-1?prefix={}", "x".repeat(300)));
    assert_eq!(world.send(&long).status, 414);
    let fields = (0..80).map(|at| format!("a{at}=")).collect::<Vec<_>>().join("&");
    assert_eq!(World::new().send(&Draft::new("GET", &format!("/b-1?{fields}"))).code(), "InvalidURI");
    let header = Draft::new("GET", "/b-1").header("x-amz-meta-a", &"x".repeat(66_000));
    assert_eq!(world.send(&header).status, 431);
    let form =
        Draft::new("POST", "/b-1").header("content-type", "multipart/form-data; boundary=a").body(b"--a--");
    assert_eq!(world.send(&form).code(), "NotImplemented");
    assert_eq!(world.fake.everything(), Vec::<String>::new());
}
