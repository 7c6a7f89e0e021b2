//! What became of a request that has no answer, and how to find out.

use bytes::Bytes;

use crate::code::StatusCode;
use crate::entry::Change;
use crate::request::Request;
use crate::response::{Answer, Response};

/// What is known of a request without an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It was never given to the connection, or it is a batch whose end was not: certainly nothing of it
    /// was done or will be.
    NotSent,
    /// It was sent, and may be sent again: doing it twice is the same as doing it once.
    Repeatable,
    /// It was sent, and only the device knows. The question finds out, where one can.
    Unknown(Option<Question>),
}

/// Asks a device, on another connection, whether a write was done: what stands at its key now?
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    key: Bytes,
    /// What stood there if it was not done; `None`: anything.
    before: Option<Bytes>,
    /// What stands there if it was done; `None`: nothing.
    after: Option<Bytes>,
}

/// What an answer to a [`Question`] says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The write was done.
    Applied,
    /// It has not been done. A device that still has it in a queue of the old connection may do it yet:
    /// send the same write again, with the same versions. Then one of the two is refused as a version
    /// mismatch, and the question is asked again; it is never done twice.
    NotApplied,
    /// Something else stands there, of this version, or nothing: another writer was here.
    Other(Option<Bytes>),
    /// The answer does not say.
    NoAnswer,
}

impl Question {
    /// The question about one write. None, if its version is the one that stood there before: it tells
    /// nothing.
    #[must_use]
    pub fn of(change: &Change) -> Option<Self> {
        Self::of_batch(std::slice::from_ref(change))
    }

    /// The question about a batch, of which all is done or nothing: about the first of its keys that tells.
    #[must_use]
    pub fn of_batch(changes: &[Change]) -> Option<Self> {
        changes.iter().enumerate().find_map(|(place, first)| {
            let of_key = || changes.iter().filter(|other| other.key() == first.key());
            let is_first = !changes.iter().take(place).any(|other| other.key() == first.key());
            let last = of_key().next_back().filter(|_| is_first)?;
            let (given, force) = match first {
                Change::Put(put) => (&put.db_version, put.force),
                Change::Delete(delete) => (&delete.db_version, delete.force),
            };
            let question = Question {
                key: first.key().clone(),
                before: (!force).then(|| given.clone()),
                after: last.leaves().cloned(),
            };
            question.tells(first).then_some(question)
        })
    }

    /// Whether before and after can be told apart. An empty version may also stand for no entry.
    fn tells(&self, first: &Change) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => before != after,
            // Put and removed again: nothing stood there, nothing stands there.
            (Some(before), None) => !before.is_empty() || matches!(first, Change::Delete(_)),
            (None, _) => true,
        }
    }

    /// The key it is about.
    #[must_use]
    pub fn key(&self) -> &Bytes {
        &self.key
    }

    /// What to ask.
    #[must_use]
    pub fn request(&self) -> Request {
        Request::GetVersion { key: self.key.clone() }
    }

    /// What the answer means.
    #[must_use]
    pub fn verdict(&self, response: &Response) -> Verdict {
        let stands = match (response.status.code, &response.answer) {
            (StatusCode::Success, Answer::Version(version)) => Some(version),
            (StatusCode::NotFound, _) => None,
            _ => return Verdict::NoAnswer,
        };
        if stands == self.after.as_ref() {
            return Verdict::Applied;
        }
        match &self.before {
            Some(before) if stands.map_or(&b""[..], |stands| stands.as_ref()) == before => {
                Verdict::NotApplied
            }
            _ => Verdict::Other(stands.cloned()),
        }
    }
}

/// What is known of a request that was sent.
pub(super) fn after_sending(request: &Request) -> Fate {
    match request {
        Request::Change(change) => Fate::Unknown(Question::of(change)),
        Request::Get { .. }
        | Request::GetPart { .. }
        | Request::GetVersion { .. }
        | Request::GetKeyRange(_)
        | Request::GetLog { .. }
        | Request::Noop
        | Request::FlushAllData
        | Request::MediaScan(_)
        | Request::MediaOptimize(_) => Fate::Repeatable,
        Request::SetClusterVersion(_)
        | Request::Firmware(_)
        | Request::Security(_)
        | Request::Push(_)
        | Request::Pin(_)
        | Request::StartBatch
        | Request::EndBatch { .. }
        | Request::AbortBatch
        | Request::SetPowerLevel(_) => Fate::Unknown(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::{MessageType, Synchronization};
    use crate::entry::{Delete, Metadata, Put};
    use crate::status::Status;

    fn put(key: &'static str, from: &'static str, to: &'static str) -> Change {
        Change::Put(Put {
            key: Bytes::from_static(key.as_bytes()),
            metadata: Metadata { version: Bytes::from_static(to.as_bytes()), ..Metadata::default() },
            db_version: Bytes::from_static(from.as_bytes()),
            force: false,
            synchronization: Synchronization::WriteBack,
            value: Bytes::new(),
        })
    }

    fn delete(key: &'static str, from: &'static str) -> Change {
        Change::Delete(Delete {
            key: Bytes::from_static(key.as_bytes()),
            db_version: Bytes::from_static(from.as_bytes()),
            force: false,
            synchronization: Synchronization::WriteBack,
        })
    }

    fn stands(version: Option<&'static str>) -> Response {
        Response {
            request: MessageType::GetVersion,
            status: match version {
                Some(_) => Status::success(),
                None => Status::new(StatusCode::NotFound, ""),
            },
            cluster_version: None,
            answer: version
                .map_or(Answer::Nothing, |version| Answer::Version(Bytes::from_static(version.as_bytes()))),
        }
    }

    #[test]
    fn verdicts() {
        let other = |version: &'static str| Verdict::Other(Some(Bytes::from_static(version.as_bytes())));
        for (change, version, verdict) in [
            (put("k", "", "1"), None, Verdict::NotApplied),
            (put("k", "", "1"), Some(""), Verdict::NotApplied),
            (put("k", "", "1"), Some("1"), Verdict::Applied),
            (put("k", "", "1"), Some("2"), other("2")),
            (put("k", "1", "2"), Some("1"), Verdict::NotApplied),
            (put("k", "1", "2"), Some("2"), Verdict::Applied),
            (put("k", "1", "2"), None, Verdict::Other(None)),
            (delete("k", "1"), None, Verdict::Applied),
            (delete("k", "1"), Some("1"), Verdict::NotApplied),
            (delete("k", "1"), Some("2"), other("2")),
            (delete("k", ""), Some(""), Verdict::NotApplied),
        ] {
            let question = Question::of(&change).unwrap();
            assert_eq!(question.verdict(&stands(version)), verdict, "{change:?} and {version:?}");
        }
        let busy = Response { status: Status::new(StatusCode::ServiceBusy, ""), ..stands(None) };
        assert_eq!(Question::of(&put("k", "", "1")).unwrap().verdict(&busy), Verdict::NoAnswer);
    }

    #[test]
    fn what_tells_nothing_is_not_asked() {
        assert_eq!(Question::of(&put("k", "1", "1")), None);
        assert_eq!(Question::of(&put("k", "", "")), None);
        let batch = [put("a", "1", "1"), put("b", "", "1"), put("b", "1", "2")];
        let question = Question::of_batch(&batch).unwrap();
        assert_eq!(question.key().as_ref(), b"b");
        assert_eq!(question.verdict(&stands(Some("2"))), Verdict::Applied);
        assert_eq!(question.verdict(&stands(None)), Verdict::NotApplied);
        assert_eq!(Question::of_batch(&[put("a", "", "1"), delete("a", "1")]), None);
        assert_eq!(Question::of_batch(&[put("a", "1", "2"), put("a", "2", "1")]), None);
    }
}
