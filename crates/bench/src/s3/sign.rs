//! Signatures of version 4, as a client of S3 makes them.

use base::Timestamp;
use sha2::{Digest, Sha256};

/// Bytes of a block of SHA-256, which its HMAC pads a key to.
const BLOCK_BYTES: usize = 64;
/// The region that all servers are told.
pub const REGION: &str = "us-east-1";

/// Whose requests are signed.
#[derive(Clone, Debug)]
pub struct Signer {
    host: String,
    access: String,
    secret: String,
    // The key of a day is the same for all its requests.
    day: String,
    key: [u8; 32],
}

/// What is asked: all that a signature covers.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The verb.
    pub method: &'static str,
    /// The path, percent-encoded.
    pub path: &'a str,
    /// The query, encoded and with its names in order.
    pub query: &'a str,
    /// Header fields besides host and date: names in lower case.
    pub headers: &'a [(&'static str, String)],
    /// What `x-amz-content-sha256` says of the body.
    pub payload: &'static str,
}

impl Signer {
    /// For a server at this address and port.
    pub fn new(host: &str, access: &str, secret: &str) -> Self {
        let text = str::to_owned;
        Signer {
            host: text(host),
            access: text(access),
            secret: text(secret),
            day: String::new(),
            key: [0; 32],
        }
    }

    /// The head of a request, to its empty line.
    pub fn head(&mut self, asked: Asked<'_>) -> String {
        self.head_at(asked, terminal::text::now())
    }

    fn head_at(&mut self, asked: Asked<'_>, now: Timestamp) -> String {
        let (year, month, day, hour, minute, second, _) = now.civil();
        let day = format!("{year:04}{month:02}{day:02}");
        let time = format!("{day}T{hour:02}{minute:02}{second:02}Z");
        if self.day != day {
            self.key = day_key(&self.secret, &day);
            self.day.clone_from(&day);
        }
        let mut fields: Vec<(&str, &str)> = asked.headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        fields.push(("host", &self.host));
        fields.push(("x-amz-content-sha256", asked.payload));
        fields.push(("x-amz-date", &time));
        fields.sort_unstable();
        let names = fields.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(";");
        let lines: String = fields.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let Asked { method, path, query, payload, .. } = asked;
        let request = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{payload}");
        let scope = format!("{day}/{REGION}/s3/aws4_request");
        let hash = hex(&Sha256::digest(request.as_bytes()));
        let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hash}");
        let signature = hex(&hmac(&self.key, to_sign.as_bytes()));
        let mark = if query.is_empty() { "" } else { "?" };
        let mut head = format!("{method} {path}{mark}{query} HTTP/1.1\r\n");
        for (name, value) in fields {
            head += &format!("{name}: {value}\r\n");
        }
        let access = &self.access;
        head += &format!(
            "authorization: AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={names}, \
             Signature={signature}\r\n\r\n"
        );
        head
    }
}

fn day_key(secret: &str, day: &str) -> [u8; 32] {
    let mut key = hmac(format!("AWS4{secret}").as_bytes(), day.as_bytes());
    for part in [REGION, "s3", "aws4_request"] {
        key = hmac(&key, part.as_bytes());
    }
    key
}

/// HMAC of RFC 2104 over SHA-256.
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut padded = [0u8; BLOCK_BYTES];
    let hashed = Sha256::digest(key);
    let key = if key.len() > BLOCK_BYTES { hashed.as_slice() } else { key };
    for (to, from) in padded.iter_mut().zip(key) {
        *to = *from;
    }
    let inner = Sha256::new().chain_update(padded.map(|byte| byte ^ 0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded.map(|byte| byte ^ 0x5c)).chain_update(inner).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second case of RFC 4231, and its sixth: a key longer than a block.
    #[test]
    fn hmac_is_that_of_the_rfc() {
        let short = hmac(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(hex(&short), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let long = hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First");
        assert_eq!(hex(&long), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    /// The example "GET Object" of the description of Signature Version 4 for S3.
    #[test]
    fn a_request_is_signed_as_the_description_says() {
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let mut signer = Signer::new("examplebucket.s3.amazonaws.com", "AKIAIOSFODNN7EXAMPLE", secret);
        let now = Timestamp::from_civil(2013, 5, 24, 0, 0, 0, 0).unwrap();
        let head = signer.head_at(
            Asked {
                method: "GET",
                path: "/test.txt",
                query: "",
                headers: &[("range", "bytes=0-9".to_owned())],
                payload: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            },
            now,
        );
        let wanted = "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41\r\n";
        assert!(head.contains(wanted), "{head}");
    }
}
