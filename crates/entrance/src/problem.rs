//! Errors as RFC 9457 problem details: one table from the engine's errors to status words and HTTP.

use archive::{ArchiveError, ErrorKind};
use authority::{KeyError, Refusing};
use axum_core::response::{IntoResponse, Response};
use http::header::{
    ALLOW, CONTENT_RANGE, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use http::{HeaderMap, StatusCode};
use identity::MacaroonError;
use transfer::Fault;

use wire::Problem;

/// After how many seconds a client should try again.
const RETRY_AFTER_SECONDS: u64 = 5;
/// The same while room is being made, which takes a look of the evictor and a few syncs.
const ROOM_RETRY_AFTER_SECONDS: u64 = 2;
/// The status word as a header, for `HEAD`, whose replies have no body.
const PROBLEM: HeaderName = HeaderName::from_static("kist-problem");

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident $word:literal $status:ident;)*) => {
        /// The status words. They never change; new ones may come.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Kind {
            $($(#[$doc])* $name,)*
        }

        impl Kind {
            /// The word and the HTTP status.
            pub fn word_and_status(self) -> (&'static str, StatusCode) {
                match self {
                    $(Kind::$name => ($word, StatusCode::$status),)*
                }
            }

            /// All of them, for the test that compares them with the document.
            #[cfg(test)]
            const ALL: &[Kind] = &[$(Kind::$name,)*];
        }
    };
}

kinds! {
    /// Nothing there.
    NotFound "not-found" NOT_FOUND;
    /// The name is taken.
    Exists "exists" CONFLICT;
    /// A file is needed.
    IsADirectory "is-a-directory" CONFLICT;
    /// A directory is needed.
    NotADirectory "not-a-directory" CONFLICT;
    /// The directory of a name is not there.
    NoParent "no-parent" CONFLICT;
    /// Only empty directories can go.
    NotEmpty "not-empty" CONFLICT;
    /// On tape only.
    Nearline "nearline" CONFLICT;
    /// On tape only: asked for again when it is back.
    NotStaged "not-staged" SERVICE_UNAVAILABLE;
    /// The object's state does not allow it.
    WrongState "wrong-state" CONFLICT;
    /// A client holds a lock on it.
    Locked "locked" LOCKED;
    /// A directory is to be removed name by name.
    NotAtOnce "not-at-once" CONFLICT;
    /// No copy is left.
    Lost "lost" GONE;
    /// A malformed path.
    BadPath "bad-path" BAD_REQUEST;
    /// Not as many bytes as announced.
    LengthMismatch "length-mismatch" BAD_REQUEST;
    /// Where the body ends is not said.
    LengthRequired "length-required" LENGTH_REQUIRED;
    /// Not the bytes announced.
    DigestMismatch "digest-mismatch" BAD_REQUEST;
    /// Unknown class.
    NoSuchClass "no-such-class" BAD_REQUEST;
    /// Anything else that is malformed.
    BadRequest "bad-request" BAD_REQUEST;
    /// A key used twice.
    IdempotencyKeyReused "idempotency-key-reused" UNPROCESSABLE_ENTITY;
    /// Too much of something.
    Limit "limit" PAYLOAD_TOO_LARGE;
    /// The URI is too long.
    UriTooLong "uri-too-long" URI_TOO_LONG;
    /// Too many requests at once.
    TooMany "too-many-requests" TOO_MANY_REQUESTS;
    /// No valid key.
    Unauthorized "unauthorized" UNAUTHORIZED;
    /// The key is valid, but does not allow it.
    Forbidden "forbidden" FORBIDDEN;
    /// `If-Match` does not hold.
    Precondition "precondition-failed" PRECONDITION_FAILED;
    /// The range is outside of the file.
    Range "range" RANGE_NOT_SATISFIABLE;
    /// No space for now.
    PoolFull "pool-full" SERVICE_UNAVAILABLE;
    /// No space for now; some comes by itself.
    RoomIsBeingMade "room-is-being-made" SERVICE_UNAVAILABLE;
    /// No space where the server writes down what it keeps and who did what.
    ServerFull "server-full" SERVICE_UNAVAILABLE;
    /// More than a quota allows.
    QuotaExceeded "quota-exceeded" INSUFFICIENT_STORAGE;
    /// Drives that hold the file do not answer.
    DrivesAway "drives-away" SERVICE_UNAVAILABLE;
    /// The catalogue was restored, and what the file is read from is not known yet.
    NotSettled "not-settled" SERVICE_UNAVAILABLE;
    /// Not now.
    Unavailable "unavailable" SERVICE_UNAVAILABLE;
    /// Damaged bytes.
    Corrupt "corrupt" INTERNAL_SERVER_ERROR;
    /// A fault of the server.
    Internal "internal" INTERNAL_SERVER_ERROR;
    /// The client was too slow.
    Timeout "timeout" REQUEST_TIMEOUT;
    /// A body of a type that the method does not take.
    MediaType "media-type" UNSUPPORTED_MEDIA_TYPE;
    /// Another server would have to do it.
    BadGateway "other-server" BAD_GATEWAY;
    /// The method does not fit the URI.
    Method "method" METHOD_NOT_ALLOWED;
}

impl Kind {
    /// Whether the server's log tells of it as an error. A quota's limit is its user's affair, whatever
    /// number its status has; and what is refused for as long as something lasts is no error of the server,
    /// nor worth a line for each file: `kist status` tells of it, and the log when it begins and ends.
    fn is_the_servers(self) -> bool {
        let is_refusal = matches!(
            self,
            Kind::QuotaExceeded
                | Kind::PoolFull
                | Kind::RoomIsBeingMade
                | Kind::ServerFull
                | Kind::DrivesAway
                | Kind::NotSettled
                | Kind::NotStaged
                | Kind::BadGateway
        );
        self.word_and_status().1.is_server_error() && !is_refusal
    }
}

/// A request refused: the word, the sentence and headers.
#[derive(Clone, Debug)]
pub struct Refusal(Box<(Kind, String, HeaderMap)>);

impl Refusal {
    /// A refusal with the headers that its kind calls for.
    pub fn new(kind: Kind, detail: impl Into<String>) -> Self {
        let mut headers = HeaderMap::new();
        match kind {
            Kind::Unavailable
            | Kind::PoolFull
            | Kind::ServerFull
            | Kind::DrivesAway
            | Kind::NotSettled
            | Kind::TooMany => {
                headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_SECONDS));
            }
            Kind::RoomIsBeingMade => {
                headers.insert(RETRY_AFTER, HeaderValue::from(ROOM_RETRY_AFTER_SECONDS));
            }
            Kind::Unauthorized => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"kist\""));
            }
            _ => {}
        }
        Refusal(Box::new((kind, detail.into(), headers)))
    }

    /// The same with a header more.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.2.insert(name, value);
        self
    }

    /// A method that the URI does not have.
    pub fn method(allowed: &'static str) -> Self {
        Refusal::new(Kind::Method, format!("this address allows: {allowed}"))
            .with(ALLOW, HeaderValue::from_static(allowed))
    }

    /// A malformed request.
    pub fn bad(detail: impl Into<String>) -> Self {
        Refusal::new(Kind::BadRequest, detail)
    }

    /// What its body says.
    pub fn problem(&self) -> Problem {
        let (kind, detail, _) = &*self.0;
        let (word, status) = kind.word_and_status();
        Problem { kind: word.to_owned(), status: status.as_u16(), detail: detail.clone() }
    }

    /// The status of HTTP.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.0.0.word_and_status().1
    }

    /// The status word.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.0
    }

    /// The headers that its kind calls for, for doors that have a language of their own for errors.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.0.2
    }

    /// The sentence.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.1
    }
}

impl Refusal {
    /// Status, headers and body (RFC 9457) of the answer.
    #[must_use]
    pub fn into_answer(self) -> (StatusCode, HeaderMap, Vec<u8>) {
        let problem = self.problem();
        let (kind, _, mut headers) = *self.0;
        let (word, status) = kind.word_and_status();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(PROBLEM, HeaderValue::from_static(word));
        // A struct of two texts and a number can always be written.
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        (status, headers, body)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        self.into_answer().into_response()
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Self {
        let kind = match fault {
            Fault::Busy | Fault::NoThread => {
                let detail = "the server is busy, or with other requests of this caller: try again later";
                return Refusal::new(Kind::Unavailable, detail);
            }
            Fault::TooSlow => Kind::Timeout,
            Fault::EndedEarly => Kind::LengthMismatch,
            Fault::Differs | Fault::Lost => Kind::Internal,
        };
        let kept = if kind.is_the_servers() { "" } else { ": nothing was stored" };
        Refusal::new(kind, format!("{fault}{kept}"))
    }
}

impl From<ArchiveError> for Refusal {
    fn from(error: ArchiveError) -> Self {
        let kind = kind_of(&error);
        if kind.is_the_servers() {
            tracing::error!(error = %error, "a request failed");
        }
        let refusal = Refusal::new(kind, error.to_string());
        match error {
            ArchiveError::RangeBeyondEnd { size, .. } => refusal.with(CONTENT_RANGE, unsatisfied(size.0)),
            _ => refusal,
        }
    }
}

/// `Content-Range` of a 416.
pub fn unsatisfied(size: u64) -> HeaderValue {
    HeaderValue::from_str(&format!("bytes */{size}")).unwrap_or(HeaderValue::from_static("bytes */*"))
}

impl From<Refusing> for Refusal {
    fn from(error: Refusing) -> Self {
        let kind = match &error {
            Refusing::Denied(_) | Refusing::Macaroon(MacaroonError::Asker(_)) => Kind::Forbidden,
            Refusing::Macaroon(_) => Kind::BadRequest,
            Refusing::NoClock => Kind::Unavailable,
            Refusing::Key(KeyError::Name(_) | KeyError::Expires) => Kind::BadRequest,
            Refusing::Key(KeyError::NoSuchKey(_)) => Kind::NotFound,
            Refusing::Key(KeyError::Limit { .. }) => Kind::Limit,
            Refusing::Audit(_) => Kind::ServerFull,
            Refusing::Key(KeyError::NoEntropy) => Kind::Unavailable,
            _ => Kind::Internal,
        };
        Refusal::new(kind, error.to_string())
    }
}

fn kind_of(error: &ArchiveError) -> Kind {
    match error {
        // No request of this door is about uploads in parts.
        ArchiveError::Upload(_) => Kind::Internal,
        error => word_of(error.kind()),
    }
}

fn word_of(kind: ErrorKind) -> Kind {
    match kind {
        ErrorKind::BadPath => Kind::BadPath,
        ErrorKind::BadArgument => Kind::BadRequest,
        ErrorKind::NoSuchClass => Kind::NoSuchClass,
        ErrorKind::LengthMismatch => Kind::LengthMismatch,
        ErrorKind::DigestMismatch => Kind::DigestMismatch,
        ErrorKind::Range => Kind::Range,
        ErrorKind::KeyReused => Kind::IdempotencyKeyReused,
        ErrorKind::Limit | ErrorKind::TooLarge => Kind::Limit,
        ErrorKind::NotFound | ErrorKind::NoSuchUpload | ErrorKind::NoSuchPart | ErrorKind::NoSuchObject => {
            Kind::NotFound
        }
        ErrorKind::Exists => Kind::Exists,
        ErrorKind::IsADirectory => Kind::IsADirectory,
        ErrorKind::NotADirectory => Kind::NotADirectory,
        ErrorKind::NotEmpty => Kind::NotEmpty,
        ErrorKind::NotAtOnce => Kind::NotAtOnce,
        ErrorKind::Changed => Kind::Precondition,
        ErrorKind::Held | ErrorKind::WrongState | ErrorKind::KeepsVersions | ErrorKind::Refused => {
            Kind::WrongState
        }
        ErrorKind::Locked => Kind::Locked,
        ErrorKind::Nearline => Kind::Nearline,
        ErrorKind::Denied => Kind::Forbidden,
        ErrorKind::QuotaExceeded => Kind::QuotaExceeded,
        ErrorKind::TooMany => Kind::TooMany,
        ErrorKind::PoolFull => Kind::PoolFull,
        ErrorKind::RoomIsBeingMade => Kind::RoomIsBeingMade,
        ErrorKind::ServerFull => Kind::ServerFull,
        ErrorKind::DrivesAway => Kind::DrivesAway,
        ErrorKind::NotSettled => Kind::NotSettled,
        ErrorKind::Busy | ErrorKind::Unavailable => Kind::Unavailable,
        ErrorKind::Lost => Kind::Lost,
        ErrorKind::Damaged => Kind::Corrupt,
        ErrorKind::Malformed | ErrorKind::NotOffered | ErrorKind::Internal => Kind::Internal,
        // A new kind is a fault of the server until it has its line here.
        _ => Kind::Internal,
    }
}

#[cfg(test)]
#[path = "../../archive/tests/errors/samples.rs"]
mod samples;

#[cfg(test)]
mod tests {
    use super::*;
    use base::{ArchivePath, ByteCount, DirId, Name, RequestId, Vid};
    use catalogue::{Object, ReadError, Rejection, Table};
    use pool::PoolError;
    use std::sync::Arc;
    use store::ExecuteError;

    fn at() -> ArchivePath {
        ArchivePath::new("/a").unwrap()
    }

    fn check(error: ArchiveError, word: &str, status: u16) {
        let text = error.to_string();
        let refusal = Refusal::from(error);
        assert_eq!(refusal.detail(), text);
        let (found, code) = refusal.kind().word_and_status();
        assert_eq!((found, code.as_u16()), (word, status), "{text}");
        let headers = refusal.into_response().headers().clone();
        assert_eq!(headers.contains_key(RETRY_AFTER), matches!(status, 503 | 429), "{text}");
        assert_eq!(headers.get("kist-problem").unwrap(), word);
    }

    #[test]
    fn every_error_has_the_word_and_status_of_the_table() {
        super::samples::check_column(2, |error| {
            let (word, status) = Refusal::from(error).kind().word_and_status();
            format!("{word} {}", status.as_u16())
        });
    }

    #[test]
    fn every_error_has_its_word() {
        check(ArchiveError::Name(base::NameError::Nul), "bad-path", 400);
        check(ArchiveError::NotFound(at()), "not-found", 404);
        check(ArchiveError::NoSuchRequest(RequestId(1)), "not-found", 404);
        check(ArchiveError::NoSuchTape(Vid::new("KS0001").unwrap()), "not-found", 404);
        check(ArchiveError::NoSuchDrive("x".into()), "not-found", 404);
        check(ArchiveError::SomeNotFound { count: 2, first: at() }, "not-found", 404);
        check(ArchiveError::IsADirectory(at()), "is-a-directory", 409);
        check(ArchiveError::NotADirectory(at()), "not-a-directory", 409);
        check(ArchiveError::Exists(at()), "exists", 409);
        check(ArchiveError::NotEmpty(at()), "not-empty", 409);
        check(
            ArchiveError::NotAtOnce { path: at(), why: archive::WhyNotAtOnce::List(None) },
            "not-at-once",
            409,
        );
        check(ArchiveError::NoSuchRemoval(DirId(7)), "not-found", 404);
        let vid = Vid::new("KS0001").unwrap();
        check(ArchiveError::TapeNotLabelled(vid), "wrong-state", 409);
        check(ArchiveError::TapeInUse(vid), "wrong-state", 409);
        check(ArchiveError::SegmentsOwed { vid, other: None, full: Vec::new() }, "wrong-state", 409);
        let needed = ArchiveError::QuarantineNeeded { directories: vec!["/b/line-0001".into()], line: 2 };
        check(needed, "wrong-state", 409);
        check(ArchiveError::Nearline { path: at(), vids: vec![], recall: None }, "nearline", 409);
        let (drives, vids) = (vec![1, 3], vec![vid]);
        check(ArchiveError::NearlineAway { path: at(), drives, vids }, "nearline", 409);
        check(ArchiveError::NotSettled { path: at() }, "not-settled", 503);
        check(ArchiveError::DrivesAway { path: at(), drives: vec![1], vids: vec![] }, "drives-away", 503);
        check(ArchiveError::NoSuchPoolDrive(99), "not-found", 404);
        check(ArchiveError::WouldLose(archive::LossForeseen::default()), "wrong-state", 409);
        check(
            ArchiveError::NoDriveDirectory {
                drive: 3,
                at: archive::DriveLocation::Directory("/mnt/d3".into()),
            },
            "wrong-state",
            409,
        );
        check(ArchiveError::Lost(at()), "lost", 410);
        check(ArchiveError::LengthMismatch { expected: 1, actual: 2 }, "length-mismatch", 400);
        let digest =
            ArchiveError::DigestMismatch { kind: "adler32", expected: "1".into(), actual: "2".into() };
        check(digest, "digest-mismatch", 400);
        check(ArchiveError::NoSuchClass { name: "x".into(), known: "y".into() }, "no-such-class", 400);
        check(ArchiveError::IdempotencyKeyReused, "idempotency-key-reused", 422);
        check(ArchiveError::RangeBeyondEnd { offset: 9, size: ByteCount(3) }, "range", 416);
        check(ArchiveError::Limit { what: "paths", limit: 3 }, "limit", 413);
        check(ArchiveError::Corrupt { path: at() }, "corrupt", 500);
        check(ArchiveError::Stopping, "unavailable", 503);
        check(ArchiveError::PoolFull, "pool-full", 503);
        check(ArchiveError::RoomIsBeingMade { size: ByteCount(1) }, "room-is-being-made", 503);
        let (size, room) = (ByteCount::gib(2), ByteCount::gib(1));
        check(ArchiveError::TooLittleRoom { size, room }, "pool-full", 503);
        check(ArchiveError::TreeChanges, "unavailable", 503);
        check(ArchiveError::NoEntropy, "unavailable", 503);
    }

    #[test]
    fn what_lies_below_keeps_its_meaning() {
        let name = || Name::new("a").unwrap();
        let parent = DirId(1);
        let rejected = |rejection| ArchiveError::Rejected(rejection);
        check(rejected(Rejection::NotFound(Object::Directory(parent))), "not-found", 404);
        check(rejected(Rejection::NameTaken { parent, name: name() }), "exists", 409);
        check(rejected(Rejection::DirectoryNotEmpty { parent, name: name() }), "not-empty", 409);
        check(rejected(Rejection::IntoItself { directory: parent, to: parent }), "wrong-state", 409);
        check(rejected(Rejection::ReservedName), "bad-path", 400);
        check(rejected(Rejection::LimitExceeded { what: "files", limit: 3 }), "limit", 413);
        // One that no request should bring about is a fault of the server.
        check(rejected(Rejection::AlreadyInitialised), "internal", 500);
        let damaged = || ReadError::Damaged { table: Table::File, key: "00".into() };
        check(ArchiveError::Catalogue(damaged()), "corrupt", 500);
        let dangling = ReadError::Dangling {
            directory: DirId(4),
            name: "a".to_owned(),
            to: Object::File(base::FileId(9)),
            found: "of which there is no record",
        };
        check(ArchiveError::Catalogue(dangling), "corrupt", 500);
        check(rejected(Rejection::Read(damaged())), "corrupt", 500);
        check(ArchiveError::Store(ExecuteError::MapFull), "server-full", 503);
        check(ArchiveError::Store(ExecuteError::DiskFull), "server-full", 503);
        check(ArchiveError::Store(ExecuteError::MapRead), "server-full", 503);
        check(ArchiveError::Store(ExecuteError::InPart(store::Shortage::Map)), "server-full", 503);
        check(ArchiveError::AuditFull("log".into()), "server-full", 503);
        for (kind, is_told) in [
            (Kind::ServerFull, false),
            (Kind::PoolFull, false),
            (Kind::RoomIsBeingMade, false),
            (Kind::DrivesAway, false),
            (Kind::NotSettled, false),
            (Kind::QuotaExceeded, false),
            (Kind::NotFound, false),
            (Kind::Unavailable, true),
            (Kind::Corrupt, true),
            (Kind::Internal, true),
        ] {
            assert_eq!(kind.is_the_servers(), is_told, "{kind:?}");
        }
        check(ArchiveError::Store(ExecuteError::Rejected(Rejection::ReservedName)), "bad-path", 400);
        check(ArchiveError::Pool(PoolError::Closed), "unavailable", 503);
        // Story: a pool whose drives were away was called full, and a full one short of drives.
        check(ArchiveError::Pool(PoolError::Placement(cluster_error())), "drives-away", 503);
        let full = || PoolError::Full { width: 6, writable: 0 };
        check(ArchiveError::from(full()), "pool-full", 503);
        check(ArchiveError::Pool(full()), "pool-full", 503);
        check(ArchiveError::Pool(PoolError::GroupCommit(Arc::new(full()))), "pool-full", 503);
    }

    fn cluster_error() -> cluster::PlacementError {
        cluster::PlacementError::TooFewDrives { width: 6, writable: 5 }
    }

    #[test]
    fn the_document_names_every_word() {
        let page = include_str!("../../../docs/reference/http-api.md");
        for kind in Kind::ALL {
            let (word, status) = kind.word_and_status();
            let row = format!("| `{word}` | {} |", status.as_u16());
            assert!(page.contains(&row), "{row}");
        }
    }
}
