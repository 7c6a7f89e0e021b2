//! How a request ended, as a value.

use bytes::Bytes;

use crate::code::StatusCode;
use crate::wire;

/// Most bytes of a text that is kept of a status.
pub const STATUS_TEXT_BYTES_MAX: usize = 4096;

/// How a request ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Status {
    /// The code; [`StatusCode::Invalid`] where it is missing or unknown.
    pub code: StatusCode,
    /// Its number as it came.
    pub number: i32,
    /// What the device says about it, for people.
    pub text: String,
    /// More of it, in a form of the device's own.
    pub detail: Bytes,
}

impl Status {
    /// This code, with a text.
    #[must_use]
    pub fn new(code: StatusCode, text: &str) -> Self {
        Status { code, number: code.number(), text: text.to_owned(), detail: Bytes::new() }
    }

    /// Done.
    #[must_use]
    pub fn success() -> Self {
        Status::new(StatusCode::Success, "")
    }

    /// Whether it was done.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code == StatusCode::Success
    }

    /// From a message; a missing one is [`StatusCode::Invalid`].
    #[must_use]
    pub fn read(from: Option<&wire::Status>) -> Self {
        let invalid = StatusCode::Invalid;
        let number = from.and_then(|status| status.code).unwrap_or(invalid.number());
        Status {
            code: StatusCode::from_number(number).unwrap_or(invalid),
            number,
            text: from.map(|status| text(status.status_message.as_ref())).unwrap_or_default(),
            detail: from.and_then(|status| status.detailed_message.clone()).unwrap_or_default(),
        }
    }

    /// As a message.
    #[must_use]
    pub fn write(&self) -> wire::Status {
        wire::Status {
            code: Some(self.number),
            status_message: (!self.text.is_empty()).then(|| Bytes::from(self.text.clone())),
            detailed_message: (!self.detail.is_empty()).then(|| self.detail.clone()),
        }
    }
}

/// Bytes that should be UTF-8, as text: what is not is replaced, and what is long is cut.
pub(crate) fn text(bytes: Option<&Bytes>) -> String {
    let bytes = bytes.map(|bytes| bytes.get(..STATUS_TEXT_BYTES_MAX).unwrap_or(bytes)).unwrap_or_default();
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    // What was replaced may be longer than what stood there.
    while text.len() > STATUS_TEXT_BYTES_MAX {
        text.pop();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_codes_and_broken_texts_are_read() {
        let wire = wire::Status {
            code: Some(77),
            status_message: Some(Bytes::from_static(b"no \xff")),
            detailed_message: None,
        };
        let status = Status::read(Some(&wire));
        assert_eq!((status.code, status.number), (StatusCode::Invalid, 77));
        assert_eq!(status.text, "no \u{fffd}");
        assert_eq!(Status::read(None).code, StatusCode::Invalid);
        assert_eq!(Status::read(Some(&Status::success().write())), Status::success());
    }
}
