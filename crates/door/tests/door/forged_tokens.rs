//! Tokens, good and forged. An issuer of the WLCG profile with two keys, one of SciTokens with one.

use std::collections::BTreeMap;

use authority::Identities;
use base::ArchivePath;
use identity::{Issuer, IssuerKey, TokenLimits, read_keys};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use rcgen::KeyPair;
use serde_json::{Value, json};

/// The present, in seconds.
pub const NOW: i64 = 1_790_000_000;
pub const CMS: &str = "https://cms.example";
pub const ATLAS: &str = "https://atlas.example";
pub const US: &str = "https://kist.example";

/// Key pairs by name.
pub struct Keys(BTreeMap<&'static str, KeyPair>);

impl Keys {
    pub fn new() -> Keys {
        let names = ["cms1", "cms2", "atlas", "forger"];
        Keys(names.into_iter().map(|name| (name, KeyPair::generate().unwrap())).collect())
    }

    pub fn public_pem(&self, name: &str) -> String {
        self.0[name].public_key_pem()
    }

    fn issuer_key(&self, name: &str) -> IssuerKey {
        read_keys(&self.public_pem(name), None, Some(name)).unwrap().remove(0)
    }

    /// What the server knows.
    pub fn identities(&self) -> Identities {
        let issuer = |issuer: &str, prefix: &str, base: &str, keys: &[&str]| Issuer {
            issuer: issuer.to_owned(),
            prefix: prefix.to_owned(),
            keys: keys.iter().map(|name| self.issuer_key(name)).collect(),
            audiences: vec![US.to_owned()],
            base: ArchivePath::new(base).unwrap(),
            users: Vec::new(),
            groups: Vec::new(),
        };
        let issuers =
            vec![issuer(CMS, "cms", "/", &["cms1", "cms2"]), issuer(ATLAS, "atlas", "/atlas", &["atlas"])];
        Identities { issuers, tokens: TokenLimits::default(), certificates: Vec::new() }
    }

    /// Signs any header and claims.
    pub fn sign(&self, key: &str, header: &Header, claims: &Value) -> String {
        let pem = self.0[key].serialize_pem();
        encode(header, claims, &EncodingKey::from_ec_pem(pem.as_bytes()).unwrap()).unwrap()
    }

    /// A token of the first issuer with this scope, changed.
    pub fn wlcg(&self, scope: &str, change: impl FnOnce(&mut Header, &mut Value)) -> String {
        let (mut header, mut claims) = (header("cms1"), claims(scope));
        change(&mut header, &mut claims);
        self.sign("cms1", &header, &claims)
    }

    /// A good token of the second issuer, with SciTokens' scopes.
    pub fn scitoken(&self, scope: &str) -> String {
        let mut claims = claims(scope);
        claims["iss"] = json!(ATLAS);
        claims["ver"] = json!("scitokens:2.0");
        claims.as_object_mut().unwrap().remove("wlcg.ver");
        self.sign("atlas", &header("atlas"), &claims)
    }
}

pub fn header(kid: &str) -> Header {
    Header { kid: Some(kid.to_owned()), ..Header::new(Algorithm::ES256) }
}

pub fn claims(scope: &str) -> Value {
    json!({
        "iss": CMS, "sub": "u1", "aud": US, "iat": NOW - 10, "nbf": NOW - 10, "exp": NOW + 600,
        "wlcg.ver": "1.0", "scope": scope,
    })
}

/// Parts of a token as anybody can write them.
pub fn part(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let bits =
            chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        (0..=chunk.len()).for_each(|n| out.push(char::from(ALPHABET[(bits >> (18 - 6 * n)) as usize & 63])));
    }
    out
}

/// The claims in place of those of a signed token.
pub fn with_claims(token: &str, claims: &Value) -> String {
    let parts: Vec<&str> = token.split('.').collect();
    format!("{}.{}.{}", parts[0], part(&claims.to_string()), parts[2])
}

fn removed(claims: &mut Value, name: &str) {
    claims.as_object_mut().unwrap().remove(name);
}

const SCOPE: &str = "storage.read:/foo";

/// Tokens that nobody may come in with, each with what is wrong with it.
pub fn forged(keys: &Keys) -> Vec<(&'static str, String)> {
    let mut all = signatures(keys);
    all.extend(shapes(keys));
    all.extend(headers(keys));
    all.extend(times(keys));
    all.extend(statements(keys));
    all
}

fn signatures(keys: &Keys) -> Vec<(&'static str, String)> {
    let good = keys.wlcg(SCOPE, |_, _| {});
    let claims_part = part(&claims(SCOPE).to_string());
    let none =
        |alg: &str| format!("{}.{claims_part}.", part(&format!("{{\"alg\":\"{alg}\",\"kid\":\"cms1\"}}")));
    let hmac = |secret: &[u8]| {
        let header = Header { kid: Some("cms1".to_owned()), ..Header::new(Algorithm::HS256) };
        encode(&header, &claims(SCOPE), &EncodingKey::from_secret(secret)).unwrap()
    };
    let pem = keys.public_pem("cms1");
    let signed = |by: &str, kid: &str| keys.sign(by, &header(kid), &claims(SCOPE));
    let mut raised = claims("storage.modify:/");
    let raised_token = with_claims(&good, &raised);
    raised["scope"] = json!(SCOPE);
    raised["sub"] = json!("u2");
    let flipped = {
        let mut bytes = good.clone().into_bytes();
        let at = bytes.len() - 40;
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        String::from_utf8(bytes).unwrap()
    };
    let (unsigned, signature) = good.rsplit_once('.').unwrap();
    let es384 = part("{\"alg\":\"ES384\",\"typ\":\"JWT\",\"kid\":\"cms1\"}");
    vec![
        ("algorithm none", none("none")),
        ("algorithm None", none("None")),
        ("algorithm NONE", none("NONE")),
        ("algorithm none, with a signature", format!("{}{signature}", none("none"))),
        ("no algorithm", format!("{}.{claims_part}.{signature}", part("{\"kid\":\"cms1\"}"))),
        ("HS256 with the public key in PEM", hmac(pem.as_bytes())),
        ("HS256 with the public key, trimmed", hmac(pem.trim().as_bytes())),
        ("HS256 with nothing", hmac(b"")),
        ("another algorithm than the key's", format!("{es384}.{claims_part}.{signature}")),
        ("signed by a forger", signed("forger", "cms1")),
        ("the other key's name", signed("cms1", "cms2")),
        ("an unknown key's name", signed("cms1", "cms3")),
        ("a key's name in another case", signed("cms1", "CMS1")),
        ("the name of another issuer's key", signed("atlas", "atlas")),
        ("no key's name, of two", keys.wlcg(SCOPE, |header, _| header.kid = None)),
        ("more rights than signed", raised_token),
        ("another subject than signed", with_claims(&good, &raised)),
        ("a bit of the signature", flipped),
        ("half of the signature", format!("{unsigned}.{}", &signature[..signature.len() / 2])),
        ("an empty signature", format!("{unsigned}.")),
        ("a padded signature", format!("{good}==")),
    ]
}

fn shapes(keys: &Keys) -> Vec<(&'static str, String)> {
    let good = keys.wlcg(SCOPE, |_, _| {});
    let parts: Vec<&str> = good.split('.').collect();
    let twice = format!("{},\"exp\":{}}}", claims(SCOPE).to_string().trim_end_matches('}'), NOW + 900);
    vec![
        ("two parts", format!("{}.{}", parts[0], parts[1])),
        ("four parts", format!("{good}.{}", parts[2])),
        ("five parts, as an encrypted one", format!("{good}.{}.{}", parts[1], parts[2])),
        ("truncated claims", format!("{}.{}.{}", parts[0], &parts[1][..parts[1].len() - 8], parts[2])),
        ("no base64", format!("{}.{}.{}", parts[0], "%%%%", parts[2])),
        ("claims that are no object", format!("{}.{}.{}", parts[0], part("[1]"), parts[2])),
        ("a claim twice", format!("{}.{}.{}", parts[0], part(&twice), parts[2])),
        ("dots only", "..".to_owned()),
        ("too long", keys.wlcg(SCOPE, |_, claims| claims["more"] = json!("m".repeat(20_000)))),
    ]
}

fn headers(keys: &Keys) -> Vec<(&'static str, String)> {
    let good = keys.wlcg(SCOPE, |_, _| {});
    let (_, rest) = good.split_once('.').unwrap();
    let with = |text: &str| format!("{}.{rest}", part(text));
    vec![
        ("crit", keys.wlcg(SCOPE, |header, _| header.crit = Some(vec!["exp".to_owned()]))),
        ("an empty crit", keys.wlcg(SCOPE, |header, _| header.crit = Some(Vec::new()))),
        ("another type", keys.wlcg(SCOPE, |header, _| header.typ = Some("id+jwt".to_owned()))),
        ("b64", keys.wlcg(SCOPE, |header, _| header.extras.insert("b64", false))),
        ("a key of its own", {
            // The forger's key in the header must not be looked at.
            let mut own = header("forger");
            own.jku = Some("https://forger.example/keys".to_owned());
            keys.sign("forger", &own, &claims(SCOPE))
        }),
        ("a header that is no JSON", with("alg=ES256")),
        ("a header from elsewhere", with("{\"alg\":\"ES256\",\"kid\":\"cms1\",\"more\":1}")),
    ]
}

fn times(keys: &Keys) -> Vec<(&'static str, String)> {
    let with = |name: &'static str, value: Value| keys.wlcg(SCOPE, |_, claims| claims[name] = value);
    vec![
        ("expired", with("exp", json!(NOW - 61))),
        ("expired just beyond the leeway", with("exp", json!(NOW - 60))),
        ("no end", keys.wlcg(SCOPE, |_, claims| removed(claims, "exp"))),
        ("an end in words", with("exp", json!("tomorrow"))),
        ("an end that is text", with("exp", json!((NOW + 600).to_string()))),
        ("a negative end", with("exp", json!(-1))),
        ("not valid yet", with("nbf", json!(NOW + 61))),
        ("issued in the future", with("iat", json!(NOW + 61))),
        ("valid for too long", with("exp", json!(NOW + 7 * 3600))),
        (
            "valid for too long, issue unknown",
            keys.wlcg(SCOPE, |_, claims| {
                claims["exp"] = json!(NOW + 30 * 86_400);
                removed(claims, "iat");
                removed(claims, "nbf");
            }),
        ),
    ]
}

fn statements(keys: &Keys) -> Vec<(&'static str, String)> {
    let with = |name: &'static str, value: Value| keys.wlcg(SCOPE, |_, claims| claims[name] = value);
    let without = |name: &'static str| keys.wlcg(SCOPE, |_, claims| removed(claims, name));
    vec![
        ("an unknown issuer", with("iss", json!("https://forger.example"))),
        ("another issuer, signed by this one", with("iss", json!(ATLAS))),
        ("the issuer with a slash", with("iss", json!(format!("{CMS}/")))),
        ("the issuer in capitals", with("iss", json!("HTTPS://CMS.EXAMPLE"))),
        ("no issuer", without("iss")),
        ("another audience", with("aud", json!("https://other.example"))),
        ("no audience", without("aud")),
        ("the audience in another case", with("aud", json!("HTTPS://kist.example"))),
        ("the audience with a slash", with("aud", json!(format!("{US}/")))),
        ("the audience with a port", with("aud", json!(format!("{US}:443")))),
        ("two audiences, none ours", with("aud", json!(["https://a.example", "https://b.example"]))),
        ("an empty list of audiences", with("aud", json!([]))),
        ("an audience that is a number", with("aud", json!(1))),
        ("any audience", with("aud", json!("https://wlcg.cern.ch/jwt/v1/any"))),
        ("no version", without("wlcg.ver")),
        ("a newer version", with("wlcg.ver", json!("2.0"))),
        ("two versions", with("ver", json!("scitokens:2.0"))),
        ("no subject", without("sub")),
        ("an empty subject", with("sub", json!(""))),
        ("a subject too long for a name", with("sub", json!("s".repeat(61)))),
        ("a scope without a path", with("scope", json!("storage.read"))),
        ("a scope with an empty path", with("scope", json!("storage.read:"))),
        ("a relative scope", with("scope", json!("storage.read:foo"))),
        ("a scope upwards", with("scope", json!("storage.read:/foo/../bar"))),
        ("an escaped scope", with("scope", json!("storage.read:/foo%2f..%2fbar"))),
        ("a scope of dots in percent signs", with("scope", json!("storage.read:/%2e%2e/bar"))),
        ("neither scope nor groups", without("scope")),
        (
            "a scope for computing, with groups",
            keys.wlcg("compute.read", |_, claims| {
                claims["wlcg.groups"] = json!(["/cms"]);
            }),
        ),
        ("SciTokens' scopes in a WLCG token", with("scope", json!("read:/foo"))),
    ]
}
