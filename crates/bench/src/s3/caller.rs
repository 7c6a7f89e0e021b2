//! Who sends requests: one that signs each of them for S3, or one with a credential that stays the same.

use super::sign::{Asked, Signer};

/// Whose requests they are.
#[derive(Clone, Debug)]
pub enum Caller {
    /// Signed for S3.
    Signed(Signer),
    /// With this value of `Authorization`, if any, to a server at this address and port.
    Plain { host: String, credential: Option<String> },
}

impl From<Signer> for Caller {
    fn from(signer: Signer) -> Self {
        Caller::Signed(signer)
    }
}

impl Caller {
    /// The head of a request, to its empty line.
    pub fn head(&mut self, asked: Asked<'_>) -> String {
        match self {
            Caller::Signed(signer) => signer.head(asked),
            Caller::Plain { host, credential } => {
                let Asked { method, path, query, headers, .. } = asked;
                let mark = if query.is_empty() { "" } else { "?" };
                let mut head = format!("{method} {path}{mark}{query} HTTP/1.1\r\nhost: {host}\r\n");
                for (name, value) in headers {
                    head += &format!("{name}: {value}\r\n");
                }
                if let Some(credential) = credential {
                    head += &format!("authorization: {credential}\r\n");
                }
                head + "\r\n"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_head_has_what_was_asked_and_nothing_of_s3() {
        let mut caller = Caller::Plain { host: "h:1".to_owned(), credential: Some("Bearer k".to_owned()) };
        let headers = [("content-length", "3".to_owned())];
        let asked =
            Asked { method: "PUT", path: "/a", query: "b=c", headers: &headers, payload: "UNSIGNED-PAYLOAD" };
        let wanted =
            "PUT /a?b=c HTTP/1.1\r\nhost: h:1\r\ncontent-length: 3\r\nauthorization: Bearer k\r\n\r\n";
        assert_eq!(caller.head(asked), wanted);
    }
}
