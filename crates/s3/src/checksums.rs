//! Digests of objects: which are asked for, and whether they agree. S3's other checksums, XXH64, XXH3 and
//! XXH128, are refused: [`crate::known`] does not list them. SHA-512 and MD5 are for objects put in one
//! request, and for parts on their way.

use http::HeaderMap;
use s3s::{S3Error, S3Result, s3_error};
use transfer::{Hasher, KINDS, Kind, Sums};

use base::base64;

/// What is computed and kept if a client sends no checksum, as in S3.
pub(crate) const DEFAULT: Kind = Kind::Crc64nvme;

/// Says a value in a header of an answer, where s3s has no field for its kind; whether it did.
pub(crate) fn say(kind: Kind, value: &str, headers: &mut HeaderMap) -> bool {
    let name = match kind {
        Kind::Sha512 => "x-amz-checksum-sha512",
        Kind::Md5 => "x-amz-checksum-md5",
        _ => return false,
    };
    let Ok(value) = http::HeaderValue::from_str(value) else { return false };
    headers.insert(name, value);
    true
}

/// What a client says about the bytes that it sends.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Expected {
    /// Content-MD5.
    pub md5: Option<[u8; 16]>,
    /// The SHA-256 that was signed.
    pub payload: Option<[u8; 32]>,
    /// A checksum in a header.
    pub header: Option<(Kind, Vec<u8>)>,
    /// A checksum that comes behind the body.
    pub trailer: Option<Kind>,
    /// A checksum that is computed although the client sent none.
    pub computed: Option<Kind>,
    /// Whether that one is also computed beside another one that the client sent.
    pub both: bool,
    /// Whether the MD5 is wanted for the ETag in any case.
    pub etag: bool,
}

/// What was computed, and agrees with all that was said.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Verified {
    /// The MD5, if it was computed.
    pub md5: Option<[u8; 16]>,
    /// The checksum that the client sent, or that was computed all the same: kind, and value in base64.
    pub sum: Option<(Kind, String)>,
    /// One that was computed beside the one that the client sent.
    pub beside: Option<(Kind, String)>,
}

fn invalid(name: &str) -> S3Error {
    s3_error!(InvalidRequest, "the value of {name} is not a checksum of its kind in base64")
}

impl Expected {
    /// What a request's headers say. `announced`: header fields that come behind the body.
    ///
    /// # Errors
    /// `InvalidDigest`, `InvalidRequest`.
    pub(crate) fn of(
        headers: &HeaderMap,
        announced: &[String],
        payload: Option<[u8; 32]>,
    ) -> S3Result<Expected> {
        let mut expected = Expected { payload, ..Expected::default() };
        if let Some(value) = headers.get("content-md5") {
            let bytes = value.to_str().ok().and_then(base64::decode);
            let md5 = bytes.and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
            expected.md5 =
                Some(md5.ok_or_else(|| s3_error!(InvalidDigest, "Content-MD5 is not an MD5 in base64"))?);
        }
        for kind in KINDS {
            let name = format!("x-amz-checksum-{}", kind.name());
            let several =
                || s3_error!(InvalidRequest, "one checksum can be sent with an object, not several");
            if let Some(value) = headers.get(&name) {
                let bytes = value.to_str().ok().and_then(base64::decode).filter(|b| b.len() == kind.bytes());
                if expected.header.replace((kind, bytes.ok_or_else(|| invalid(&name))?)).is_some() {
                    return Err(several());
                }
            }
            if announced.contains(&name)
                && (expected.trailer.replace(kind).is_some() || expected.header.is_some())
            {
                return Err(several());
            }
        }
        let known =
            |name: &String| KINDS.iter().any(|k| name.strip_prefix("x-amz-checksum-") == Some(k.name()));
        if let Some(name) = announced.iter().find(|name| !known(name)) {
            return Err(s3_error!(InvalidRequest, "the trailer '{name}' is not supported"));
        }
        let sent = expected.sent();
        if let Some(value) = headers.get("x-amz-sdk-checksum-algorithm") {
            let named = value.to_str().ok().and_then(Kind::of_name);
            if named.is_none() || named != sent {
                return Err(s3_error!(
                    InvalidRequest,
                    "x-amz-sdk-checksum-algorithm names a checksum that is not in the request"
                ));
            }
        }
        Ok(expected)
    }

    /// Whether the client sent a checksum of S3.
    pub(crate) fn has_sum(&self) -> bool {
        self.header.is_some() || self.trailer.is_some()
    }

    /// The kind of the checksum that the client sent.
    pub(crate) fn sent(&self) -> Option<Kind> {
        self.header.as_ref().map(|(kind, _)| *kind).or(self.trailer)
    }

    /// What computes all that is needed.
    pub(crate) fn hasher(&self) -> Hasher {
        let sent = self.sent();
        let computed = self.computed.filter(|kind| sent.is_none() || self.both && sent != Some(*kind));
        let md5 = self.etag || self.md5.is_some();
        Hasher::new(md5, self.payload.is_some(), sent.into_iter().chain(computed))
    }

    /// Compares what was computed with what was said. `trailers`: what came behind the body.
    ///
    /// # Errors
    /// `BadDigest`, `XAmzContentSHA256Mismatch`.
    pub(crate) fn verify(&self, sums: Sums, trailers: &HeaderMap) -> S3Result<Verified> {
        if self.payload.is_some() && self.payload != sums.sha256 {
            return Err(crate::errors::custom(
                "XAmzContentSHA256Mismatch",
                http::StatusCode::BAD_REQUEST,
                "the body does not have the SHA-256 of x-amz-content-sha256: nothing was stored".to_owned(),
            ));
        }
        if self.md5.is_some() && self.md5 != sums.md5 {
            return Err(s3_error!(
                BadDigest,
                "the body does not have the MD5 of Content-MD5: nothing was stored"
            ));
        }
        let mut verified = Verified { md5: sums.md5, ..Verified::default() };
        // The one that the client sent comes first.
        for (at, (kind, actual)) in sums.sums.into_iter().enumerate() {
            let value = (kind, base64::encode(&actual));
            if at > 0 {
                verified.beside = Some(value);
                continue;
            }
            let name = format!("x-amz-checksum-{}", kind.name());
            let said = match &self.header {
                Some((_, said)) => said.clone(),
                None if self.trailer.is_none() => actual.clone(),
                None => {
                    let value = trailers.get(&name).and_then(|value| value.to_str().ok());
                    value.and_then(base64::decode).ok_or_else(|| invalid(&name))?
                }
            };
            if said != actual {
                return Err(s3_error!(
                    BadDigest,
                    "the body does not have the checksum of {name}: nothing was stored"
                ));
            }
            verified.sum = Some(value);
        }
        Ok(verified)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use transfer::{Beside, Md5Lanes};

    use super::*;

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        fields
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()))
            .collect()
    }

    /// The check values of "123456789", from the CRC catalogue and the RFCs.
    #[test]
    fn every_kind_has_its_check_value() {
        for (kind, digits) in [
            (Kind::Crc32, "cbf43926"),
            (Kind::Crc32c, "e3069283"),
            (Kind::Crc64nvme, "ae8b14860a799888"),
            (Kind::Sha1, "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
            (Kind::Sha256, "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
            (
                Kind::Sha512,
                "d9e6762dd1c8eaf6d61b3c6192fc408d4d6d5f1176d0c29169bc24e71c3f274a\
                 d27fcd5811b313d681f7e55ec02d73d499c95455b6b5bb503acf574fba8ffe85",
            ),
            (Kind::Md5, "25f9e794323b453885f5181f1b624d0b"),
        ] {
            let expected = Expected { trailer: Some(kind), etag: true, ..Expected::default() };
            let lanes = Md5Lanes::default();
            let mut beside = Beside::start(expected.hasher(), &lanes).unwrap();
            beside.update(&Bytes::from_static(b"1234")).unwrap();
            beside.update(&Bytes::from_static(b"56789")).unwrap();
            let sums = beside.finish().unwrap();
            let value = sums.sums[0].1.clone();
            assert_eq!(crate::sigv4::hex(&value), digits, "{kind:?}");
            assert_eq!(crate::sigv4::hex(&sums.md5.unwrap()), "25f9e794323b453885f5181f1b624d0b");
            let name = http::HeaderName::try_from(format!("x-amz-checksum-{}", kind.name())).unwrap();
            let mut trailers = HeaderMap::new();
            assert!(expected.verify(sums.clone(), &trailers).is_err());
            trailers.insert(name.clone(), base64::encode(&value).parse().unwrap());
            assert!(expected.verify(sums.clone(), &trailers).is_ok());
            trailers.insert(name, base64::encode(&vec![0; value.len()]).parse().unwrap());
            assert!(expected.verify(sums, &trailers).is_err());
        }
    }

    #[test]
    fn what_a_request_says_is_read_or_refused() {
        let crc = ("x-amz-checksum-crc32", "AAAAAA==");
        let sdk = |name| ("x-amz-sdk-checksum-algorithm", name);
        let trailer = ["x-amz-checksum-crc32c".to_owned()];
        assert!(Expected::of(&headers(&[crc, sdk("CRC32")]), &[], None).unwrap().header.is_some());
        let expected = Expected::of(&headers(&[sdk("CRC32C")]), &trailer, None).unwrap();
        assert_eq!(expected.trailer, Some(Kind::Crc32c));
        let none: &[String] = &[];
        for (fields, announced) in [
            (headers(&[("x-amz-checksum-crc32", "AAAA")]), none),
            (headers(&[("x-amz-checksum-crc32", "?")]), none),
            (headers(&[crc, ("x-amz-checksum-crc32c", "AAAAAA==")]), none),
            (headers(&[crc]), &trailer),
            (headers(&[sdk("CRC32")]), none),
            (headers(&[crc, sdk("SHA1")]), none),
            (headers(&[crc, sdk("MD4")]), none),
            (headers(&[("content-md5", "AAAA")]), none),
            (headers(&[]), &["x-amz-meta-a".to_owned()]),
        ] {
            assert!(Expected::of(&fields, announced, None).is_err(), "{fields:?} {announced:?}");
        }
    }
}
