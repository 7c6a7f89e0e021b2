//! Signature version 4: what a request claims, and whether its signature is right. Pure: the time comes in.
//!
//! s3s 0.14 compares chunk signatures in variable time, knows no region and takes SigV2; so all of this is
//! decided here, and s3s gets requests without any signature.

use std::hint::black_box;

use http::header::DATE;
use http::request::Parts;
use s3s::{S3Error, S3Result, s3_error};
use sha2::{Digest, Sha256};

use crate::percent;

/// Name of the algorithm.
const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// SHA-256 of nothing.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// Headers that a signature may name.
const SIGNED_HEADERS_MAX: usize = 64;

/// What a request claims about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Claim {
    /// The id of the key.
    pub key: String,
    /// The scope's day, region and service.
    pub day: String,
    pub region: String,
    pub service: String,
    /// `YYYYMMDDTHHMMSSZ`.
    pub time: String,
    /// Seconds for which a presigned address counts.
    pub expires: Option<u64>,
    /// Names of the signed headers, sorted.
    pub signed: Vec<String>,
    /// The signature, 64 hexadecimal digits.
    pub signature: String,
}

/// What the bytes of the body have to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Payload {
    /// Anything.
    Unsigned,
    /// Bytes with this SHA-256.
    Sha256([u8; 32]),
    /// `aws-chunked`.
    Chunked {
        /// Whether each chunk is signed.
        signed: bool,
        /// Whether header fields follow the last chunk.
        trailer: bool,
    },
}

/// A query, decoded.
pub(crate) type Query = Vec<(String, String)>;

/// A key with which chunks are signed, and the signature before the next one.
#[derive(Clone)]
pub(crate) struct ChunkSigner {
    key: [u8; 32],
    time: String,
    scope: String,
    previous: String,
}

fn malformed(what: &str) -> S3Error {
    s3_error!(AuthorizationHeaderMalformed, "the header Authorization is malformed: {what}")
}

fn bad_query(what: &str) -> S3Error {
    s3_error!(AuthorizationQueryParametersError, "the presigned address is malformed: {what}")
}

/// Decodes a query.
///
/// # Errors
/// `InvalidURI` if it cannot be decoded or has more than `most` fields.
pub(crate) fn query(text: Option<&str>, most: usize) -> S3Result<Query> {
    let fields = text.unwrap_or_default().split('&').filter(|field| !field.is_empty());
    let mut query = Vec::new();
    for field in fields {
        if query.len() == most {
            return Err(s3_error!(InvalidURI, "the query has too many fields: the limit is {most}"));
        }
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        let decoded = |text| {
            percent::decode_form(text).ok_or_else(|| s3_error!(InvalidURI, "the query cannot be decoded"))
        };
        query.push((decoded(name)?, decoded(value)?));
    }
    Ok(query)
}

impl Claim {
    /// The claim of the header `Authorization` (and `x-amz-date`).
    ///
    /// # Errors
    /// `AuthorizationHeaderMalformed`, `AccessDenied`.
    pub(crate) fn of_header(value: &str, parts: &Parts) -> S3Result<Claim> {
        let fields = value.strip_prefix(ALGORITHM).filter(|rest| rest.starts_with(' '));
        let fields = fields.ok_or_else(|| malformed("its algorithm has to be AWS4-HMAC-SHA256"))?;
        let (mut credential, mut signed, mut signature) = (None, None, None);
        for field in fields.split(',') {
            let (name, value) =
                field.trim().split_once('=').ok_or_else(|| malformed("a field has no value"))?;
            let place = match name {
                "Credential" => &mut credential,
                "SignedHeaders" => &mut signed,
                "Signature" => &mut signature,
                _ => return Err(malformed("it has an unknown field")),
            };
            if place.replace(value).is_some() {
                return Err(malformed("a field is given twice"));
            }
        }
        let missing = || malformed("Credential, SignedHeaders or Signature is missing");
        let date;
        let time = match only(parts, "x-amz-date")? {
            Some(time) => time,
            // The date of HTTP stands for it, as in the specification of the signature.
            None => {
                let text = only(parts, DATE.as_str())?.unwrap_or_default();
                date = of_http(text).ok_or_else(|| {
                    s3_error!(AccessDenied, "a signed request needs the header x-amz-date, or Date")
                })?;
                &date
            }
        };
        claim(
            credential.ok_or_else(missing)?,
            signed.ok_or_else(missing)?,
            signature.ok_or_else(missing)?,
            time,
        )
        .map_err(malformed)
    }

    /// The claim of a presigned address.
    ///
    /// # Errors
    /// `AuthorizationQueryParametersError`.
    pub(crate) fn of_query(query: &Query, longest: u64) -> S3Result<Claim> {
        let field = |name: &str| {
            let mut values = query.iter().filter(|(known, _)| known == name);
            match (values.next(), values.next()) {
                (Some((_, value)), None) => Ok(value.as_str()),
                _ => Err(bad_query(&format!("{name} has to be there once"))),
            }
        };
        if field("X-Amz-Algorithm")? != ALGORITHM {
            return Err(bad_query("X-Amz-Algorithm has to be AWS4-HMAC-SHA256"));
        }
        let expires = field("X-Amz-Expires")?;
        let seconds =
            if expires.bytes().all(|b| b.is_ascii_digit()) { expires.parse::<u64>().ok() } else { None };
        let seconds = seconds
            .filter(|seconds| (1..=longest).contains(seconds))
            .ok_or_else(|| bad_query(&format!("X-Amz-Expires has to be 1 to {longest} seconds")))?;
        let claim = claim(
            field("X-Amz-Credential")?,
            field("X-Amz-SignedHeaders")?,
            field("X-Amz-Signature")?,
            field("X-Amz-Date")?,
        );
        Ok(Claim { expires: Some(seconds), ..claim.map_err(bad_query)? })
    }

    /// Whether the claim's time and scope are acceptable. `now` and `skew` in seconds.
    ///
    /// # Errors
    /// `RequestTimeTooSkewed`, `AccessDenied` for what has expired, `AuthorizationHeaderMalformed` for
    /// another region or service, `SignatureDoesNotMatch` if the day is not that of the time.
    pub(crate) fn check(&self, now: i64, skew: i64, region: &str) -> S3Result<()> {
        let time = seconds_of(&self.time)
            .ok_or_else(|| s3_error!(AccessDenied, "the request's time is malformed"))?;
        if self.time.get(..8) != Some(self.day.as_str()) {
            return Err(s3_error!(SignatureDoesNotMatch, "the day of the scope is not that of the request"));
        }
        if self.service != "s3" {
            return Err(malformed("the service of the scope has to be s3"));
        }
        if self.region != region {
            return Err(malformed(&format!("the region '{}' is wrong; expecting '{region}'", self.region)));
        }
        let ahead = time.saturating_sub(now);
        match self.expires {
            _ if ahead > skew => {
                Err(s3_error!(RequestTimeTooSkewed, "the request's time lies ahead of ours"))
            }
            None if -ahead > skew => {
                Err(s3_error!(RequestTimeTooSkewed, "the request's time is too long ago"))
            }
            Some(expires) if -ahead > i64::try_from(expires).unwrap_or(i64::MAX) => {
                Err(s3_error!(AccessDenied, "the presigned address has expired"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the signature is right, in a time that does not depend on how much of it is.
    ///
    /// # Errors
    /// `SignatureDoesNotMatch`; `AccessDenied` if a header that has to be signed is not.
    pub(crate) fn verify(
        &self,
        parts: &Parts,
        query: &Query,
        payload: &str,
        secret: &str,
    ) -> S3Result<ChunkSigner> {
        self.check_signed(parts)?;
        let decoded = percent::decode(parts.uri.path())
            .ok_or_else(|| s3_error!(InvalidURI, "the path cannot be decoded"))?;
        let mut path = String::with_capacity(decoded.len() + 16);
        percent::encode_into(&mut path, &decoded, false);
        let scope = format!("{}/{}/{}/aws4_request", self.day, self.region, self.service);
        let key = signing_key(secret, &self.day, &self.region, &self.service);
        let rest = self.canonical_rest(parts, query, payload)?;
        let matches = |path: &str| {
            let canonical = format!("{}\n{path}\n{rest}", parts.method);
            let hash = hex(&Sha256::digest(canonical.as_bytes()));
            let text = format!("{ALGORITHM}\n{}\n{scope}\n{hash}", self.time);
            same(hex(&hmac(&key, text.as_bytes())).as_bytes(), self.signature.as_bytes())
        };
        // Some clients sign the path as they send it, though it should have been encoded more.
        if !(matches(&path) || path != parts.uri.path() && matches(parts.uri.path())) {
            return Err(s3_error!(
                SignatureDoesNotMatch,
                "the signature is not the one of this request with the key's secret: check secret and clock"
            ));
        }
        let (time, previous) = (self.time.clone(), self.signature.clone());
        Ok(ChunkSigner { key, time, scope, previous })
    }

    /// The host, and all of Amazon's headers that change what a request does, have to be signed.
    fn check_signed(&self, parts: &Parts) -> S3Result<()> {
        if !self.signed.iter().any(|name| name == "host") {
            return Err(s3_error!(AccessDenied, "the header host has to be signed"));
        }
        let free = |name: &str| self.expires.is_some() && name == "x-amz-content-sha256";
        let unsigned = parts.headers.keys().find(|name| {
            let name = name.as_str();
            name.starts_with("x-amz-") && !free(name) && !self.signed.iter().any(|known| known == name)
        });
        match unsigned {
            Some(name) => Err(s3_error!(AccessDenied, "the header {name} has to be signed")),
            None => Ok(()),
        }
    }

    /// Query, headers and payload of the canonical request.
    fn canonical_rest(&self, parts: &Parts, query: &Query, payload: &str) -> S3Result<String> {
        let mut fields: Vec<(String, String)> = query
            .iter()
            .filter(|(name, _)| self.expires.is_none() || name != "X-Amz-Signature")
            .map(|(name, value)| {
                let (mut left, mut right) = (String::new(), String::new());
                percent::encode_into(&mut left, name, true);
                percent::encode_into(&mut right, value, true);
                (left, right)
            })
            .collect();
        fields.sort();
        let mut text = String::with_capacity(512);
        for (at, (name, value)) in fields.iter().enumerate() {
            let and = if at == 0 { "" } else { "&" };
            text.extend([and, name, "=", value]);
        }
        text.push('\n');
        for name in &self.signed {
            text.extend([name, ":"]);
            canonical_header(&mut text, parts, name)?;
            text.push('\n');
        }
        text.push('\n');
        text.push_str(&self.signed.join(";"));
        text.push('\n');
        text.push_str(if self.expires.is_some() { "UNSIGNED-PAYLOAD" } else { payload });
        Ok(text)
    }
}

/// `Sat, 21 Nov 2026 20:29:00 GMT`, or the time as `x-amz-date` has it, as `YYYYMMDDTHHMMSSZ`.
fn of_http(text: &str) -> Option<String> {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    if seconds_of(text).is_some() {
        return Some(text.to_owned());
    }
    let mut words = text.split_once(", ")?.1.split(' ');
    let (day, month, year) = (words.next()?, words.next()?, words.next()?);
    let (time, zone) = (words.next()?, words.next()?);
    let month = MONTHS.iter().position(|name| *name == month)? + 1;
    let is_whole = zone == "GMT" && words.next().is_none() && day.len() == 2 && year.len() == 4;
    let text = format!("{year}{month:02}{day}T{}Z", time.replace(':', ""));
    (is_whole && seconds_of(&text).is_some()).then_some(text)
}

fn claim(credential: &str, signed: &str, signature: &str, time: &str) -> Result<Claim, &'static str> {
    let mut scope = credential.split('/');
    let (Some(key), Some(day), Some(region), Some(service), Some("aws4_request"), None) =
        (scope.next(), scope.next(), scope.next(), scope.next(), scope.next(), scope.next())
    else {
        return Err("a credential is KEY/DAY/REGION/s3/aws4_request");
    };
    if key.is_empty() {
        return Err("the credential names no key");
    }
    let mut signed: Vec<String> = signed.split(';').map(str::to_owned).collect();
    let usual =
        |name: &String| !name.is_empty() && !name.bytes().any(|b| b.is_ascii_uppercase() || b <= b' ');
    if signed.len() > SIGNED_HEADERS_MAX || !signed.iter().all(usual) {
        return Err("the list of signed headers is malformed");
    }
    signed.sort();
    if signed.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err("a signed header is listed twice");
    }
    if unhex(signature).is_none() {
        return Err("a signature has 64 hexadecimal digits");
    }
    Ok(Claim {
        key: key.to_owned(),
        day: day.to_owned(),
        region: region.to_owned(),
        service: service.to_owned(),
        time: time.to_owned(),
        expires: None,
        signed,
        signature: signature.to_owned(),
    })
}

/// The value of a header that may be there once.
pub(crate) fn only<'a>(parts: &'a Parts, name: &str) -> S3Result<Option<&'a str>> {
    let mut values = parts.headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    text.map(Some).ok_or_else(|| s3_error!(InvalidRequest, "the header {name} is malformed or given twice"))
}

fn canonical_header(text: &mut String, parts: &Parts, name: &str) -> S3Result<()> {
    let mut values = parts.headers.get_all(name).iter().peekable();
    if values.peek().is_none() {
        // HTTP/2 has the host in the address.
        let authority = parts.uri.authority().filter(|_| name == "host");
        let authority = authority.ok_or_else(|| {
            s3_error!(SignatureDoesNotMatch, "the signed header {name} is not in the request")
        })?;
        text.push_str(authority.as_str());
        return Ok(());
    }
    for (at, value) in values.enumerate() {
        let value = std::str::from_utf8(value.as_bytes())
            .map_err(|_| s3_error!(InvalidRequest, "the signed header {name} is not UTF-8"))?;
        if at > 0 {
            text.push(',');
        }
        for (at, word) in value.split_ascii_whitespace().enumerate() {
            text.extend([if at > 0 { " " } else { "" }, word]);
        }
    }
    Ok(())
}

/// What `x-amz-content-sha256` says.
///
/// # Errors
/// `InvalidRequest`, `NotImplemented` for signatures with elliptic curves.
pub(crate) fn payload(header: Option<&str>) -> S3Result<Payload> {
    let chunked = |signed, trailer| Ok(Payload::Chunked { signed, trailer });
    match header {
        None | Some("UNSIGNED-PAYLOAD") => Ok(Payload::Unsigned),
        Some("STREAMING-UNSIGNED-PAYLOAD-TRAILER") => chunked(false, true),
        Some("STREAMING-AWS4-HMAC-SHA256-PAYLOAD") => chunked(true, false),
        Some("STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER") => chunked(true, true),
        Some(other) if other.starts_with("STREAMING-") => {
            Err(s3_error!(NotImplemented, "the payload '{other}' is not supported"))
        }
        Some(digits) => unhex(digits)
            .map(Payload::Sha256)
            .ok_or_else(|| s3_error!(InvalidArgument, "x-amz-content-sha256 is not a SHA-256")),
    }
}

impl ChunkSigner {
    /// Whether this is the signature of the next chunk, whose bytes have that SHA-256.
    pub(crate) fn chunk(&mut self, sha256: &[u8], signature: &str) -> bool {
        let tail = format!("{EMPTY}\n{}", hex(sha256));
        self.next("AWS4-HMAC-SHA256-PAYLOAD", &tail, signature)
    }

    /// Whether this is the signature of the header fields behind the last chunk.
    pub(crate) fn trailer(&mut self, fields: &str, signature: &str) -> bool {
        let tail = hex(&Sha256::digest(fields.as_bytes()));
        self.next("AWS4-HMAC-SHA256-TRAILER", &tail, signature)
    }

    fn next(&mut self, kind: &str, tail: &str, signature: &str) -> bool {
        let text = format!("{kind}\n{}\n{}\n{}\n{tail}", self.time, self.scope, self.previous);
        self.previous = hex(&hmac(&self.key, text.as_bytes()));
        same(self.previous.as_bytes(), signature.as_bytes())
    }
}

/// Whether two texts are equal, in a time that depends on their lengths only.
pub(crate) fn same(ours: &[u8], theirs: &[u8]) -> bool {
    let difference = ours.iter().zip(theirs).fold(0u8, |sum, (a, b)| black_box(sum | (a ^ b)));
    ours.len() == theirs.len() && black_box(difference) == 0
}

fn signing_key(secret: &str, day: &str, region: &str, service: &str) -> [u8; 32] {
    let first = hmac(format!("AWS4{secret}").as_bytes(), day.as_bytes());
    [region, service, "aws4_request"].iter().fold(first, |key, word| hmac(&key, word.as_bytes()))
}

/// HMAC-SHA256 (RFC 2104).
pub(crate) fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0u8; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = Sha256::new().chain_update(block.map(|byte| byte ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(block.map(|byte| byte ^ 0x5C)).chain_update(inner).finalize().into()
}

/// Lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// 64 lower-case hexadecimal digits.
fn unhex(digits: &str) -> Option<[u8; 32]> {
    let mut bytes = [0u8; 32];
    let digits = digits.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let value = |digit: u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

/// Seconds since 1970 of `YYYYMMDDTHHMMSSZ`.
fn seconds_of(time: &str) -> Option<i64> {
    let bytes = time.as_bytes();
    if bytes.len() != 16 || bytes[8] != b'T' || bytes[15] != b'Z' {
        return None;
    }
    let number = |from: usize, to: usize| {
        bytes[from..to]
            .iter()
            .try_fold(0i64, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
    };
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days since 1970 of the Gregorian calendar, with years that begin in March.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = year.div_euclid(400);
    let of_era = year - era * 400;
    let of_year = (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    Some(days * 86_400 + hour * 3600 + minute * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primitives_are_those_of_the_standards() {
        // RFC 4231, test cases 2 and 6.
        let mac = hmac(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(hex(&mac), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let mac = hmac(&[0xAA; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex(&mac), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
        assert_eq!(unhex(EMPTY), Some(Sha256::digest(b"").into()));
        assert_eq!(seconds_of("19700101T000000Z"), Some(0));
        assert_eq!(seconds_of("20130524T000000Z"), Some(1_369_353_600));
        assert_eq!(seconds_of("20240229T235959Z"), Some(1_709_251_199));
        for bad in ["20130524T000000", "20130524 000000Z", "20131324T000000Z", "2013-524T000000Z", ""] {
            assert_eq!(seconds_of(bad), None, "{bad}");
        }
        assert!(same(b"ab", b"ab") && !same(b"ab", b"ac") && !same(b"ab", b"a") && !same(b"", b"a"));
    }

    /// The example "GET Object" of Amazon's documentation of signature version 4.
    #[test]
    fn the_published_example_is_verified() {
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let request = http::Request::get("/test.txt")
            .header("host", "examplebucket.s3.amazonaws.com")
            .header("range", "bytes=0-9")
            .header("x-amz-content-sha256", EMPTY)
            .header("x-amz-date", "20130524T000000Z");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let value = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,\
            SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,\
            Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41";
        let claim = Claim::of_header(value, &parts).unwrap();
        assert_eq!(claim.key, "AKIAIOSFODNN7EXAMPLE");
        claim.check(1_369_353_600 + 900, 900, "us-east-1").unwrap();
        assert!(claim.check(1_369_353_600 + 901, 900, "us-east-1").is_err());
        assert!(claim.check(1_369_353_600 - 901, 900, "us-east-1").is_err());
        assert!(claim.check(1_369_353_600, 900, "eu-west-1").is_err());
        assert!(claim.verify(&parts, &Vec::new(), EMPTY, secret).is_ok());
        assert!(claim.verify(&parts, &Vec::new(), EMPTY, "another").is_err());
        assert!(claim.verify(&parts, &vec![("a".into(), "b".into())], EMPTY, secret).is_err());
    }
}
