//! Errors of the engine as S3 says them.

use archive::{ArchiveError, ErrorKind};
use http::StatusCode;
use s3s::{S3Error, S3ErrorCode, s3_error};

/// An error with a code that S3 has and s3s does not know the status of.
pub(crate) fn custom(code: &'static str, status: StatusCode, message: String) -> S3Error {
    let mut error = S3Error::with_message(
        S3ErrorCode::from_bytes(code.as_bytes()).unwrap_or(S3ErrorCode::InternalError),
        message,
    );
    error.set_status_code(status);
    error
}

/// What a client is told of an error of the engine. Paths are the client's own; causes within the server are
/// for its log.
pub(crate) fn s3_error_of(error: ArchiveError) -> S3Error {
    match &error {
        ArchiveError::DeleteMarker { version, .. } => marker(*version, false),
        ArchiveError::Nearline { recall: Some(reason), .. } => {
            s3_error!(InvalidObjectState, "the object is on tape only and is being restored: {reason}")
        }
        // The code that Ceph's gateway has for it; clients do not try again at 403.
        ArchiveError::QuotaExceeded { .. } => {
            custom("QuotaExceeded", StatusCode::FORBIDDEN, error.to_string())
        }
        ArchiveError::IdempotencyKeyReused => s3_error!(InvalidRequest, "{error}"),
        // Not "no such key": what the key stands for is not known.
        ArchiveError::Catalogue(_) => {
            tracing::error!(%error, "an S3 request met damage of the catalogue");
            s3_error!(
                InternalError,
                "the catalogue contradicts itself, so nobody knows what is there: have an operator look at \
                 the server's log and restore the catalogue"
            )
        }
        // Whatever it is, it is about drives: the server's affair, and not that of a key.
        ArchiveError::Pool(_) | ArchiveError::Blob(_) => not_now(&error),
        error => of_kind(error),
    }
}

fn of_kind(error: &ArchiveError) -> S3Error {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::BadPath | ErrorKind::BadArgument | ErrorKind::Malformed => {
            s3_error!(InvalidArgument, "{text}")
        }
        ErrorKind::NoSuchClass => s3_error!(InvalidStorageClass, "{text}"),
        ErrorKind::LengthMismatch => s3_error!(IncompleteBody, "{text}"),
        ErrorKind::DigestMismatch => s3_error!(BadDigest, "{text}"),
        ErrorKind::Range => s3_error!(InvalidRange, "{text}"),
        // One of the catalogue's writer, that no client can keep to.
        ErrorKind::Limit if matches!(error, ArchiveError::Store(_)) => not_now(error),
        ErrorKind::Limit => s3_error!(InvalidRequest, "{text}"),
        ErrorKind::TooLarge => s3_error!(EntityTooLarge, "{text}"),
        ErrorKind::NotOffered => s3_error!(NotImplemented, "{text}"),
        ErrorKind::NotFound => s3_error!(NoSuchKey, "{text}"),
        ErrorKind::NoSuchUpload => s3_error!(NoSuchUpload, "{text}"),
        ErrorKind::NoSuchPart => s3_error!(InvalidPart, "{text}"),
        ErrorKind::Exists | ErrorKind::Changed => s3_error!(PreconditionFailed, "{text}"),
        ErrorKind::IsADirectory | ErrorKind::NotADirectory => {
            let message = format!("{text}: keys are paths here, so that 'a' cannot stand beside 'a/b'");
            custom("InvalidRequest", StatusCode::CONFLICT, message)
        }
        ErrorKind::NotEmpty => custom("BucketNotEmpty", StatusCode::CONFLICT, text),
        ErrorKind::Denied | ErrorKind::Held => s3_error!(AccessDenied, "{text}"),
        ErrorKind::WrongState | ErrorKind::Locked => custom("OperationAborted", StatusCode::CONFLICT, text),
        ErrorKind::KeepsVersions => custom("InvalidRequest", StatusCode::CONFLICT, text),
        ErrorKind::Nearline => {
            s3_error!(InvalidObjectState, "the object is on tape only: restore it first")
        }
        ErrorKind::PoolFull | ErrorKind::RoomIsBeingMade => {
            custom("SlowDown", StatusCode::SERVICE_UNAVAILABLE, text)
        }
        ErrorKind::ServerFull | ErrorKind::NotSettled | ErrorKind::Busy => {
            s3_error!(ServiceUnavailable, "{text}")
        }
        // `kist status` names the drives; a line for each file would say no more.
        ErrorKind::DrivesAway => s3_error!(ServiceUnavailable, "{NOT_NOW}"),
        ErrorKind::Unavailable => not_now(error),
        ErrorKind::Lost | ErrorKind::Damaged => {
            tracing::error!(%error, "an S3 request failed");
            s3_error!(InternalError, "the store cannot give this: see the server's log")
        }
        // What no request of S3 brings about, of an operator's verbs for example, is a fault if one meets it;
        // so is a new kind until it has its line here. What is missing of the catalogue's own says nothing
        // about the key.
        _ => {
            tracing::error!(%error, "an S3 request failed");
            s3_error!(InternalError, "the store cannot do this: see the server's log")
        }
    }
}

const NOT_NOW: &str = "the store cannot do this at present: try again later";

fn not_now(error: &ArchiveError) -> S3Error {
    tracing::error!(%error, "an S3 request failed for now");
    s3_error!(ServiceUnavailable, "{NOT_NOW}")
}

/// What stands at a key is a delete marker: no object, or a version that cannot be read if it was `named`.
pub(crate) fn marker(version: base::FileId, named: bool) -> S3Error {
    let mut error = match named {
        true => s3_error!(MethodNotAllowed, "this version is a delete marker"),
        false => s3_error!(NoSuchKey, "the object was deleted"),
    };
    let mut headers = http::HeaderMap::new();
    headers.insert("x-amz-delete-marker", http::HeaderValue::from_static("true"));
    let version = crate::keys::version_text(version, false);
    if let Ok(version) = http::HeaderValue::try_from(version) {
        headers.insert("x-amz-version-id", version);
    }
    if named {
        headers.insert(http::header::ALLOW, http::HeaderValue::from_static("DELETE"));
    }
    error.set_headers(headers);
    error
}

#[cfg(test)]
#[path = "../../archive/tests/errors/samples.rs"]
mod samples;

#[cfg(test)]
mod tests {
    use super::*;
    use archive::UploadError;
    use base::{ArchivePath, BlobId, ByteCount, ClassId, DirId, FileId, Name, RequestId, UploadId};
    use catalogue::{Object, Rejection};
    use store::ExecuteError;

    fn check(error: ArchiveError, code: &str, status: u16) {
        let text = error.to_string();
        let said = s3_error_of(error);
        assert_eq!(said.code().as_str(), code, "{text}");
        assert_eq!(said.status_code().map(|status| status.as_u16()), Some(status), "{text}");
    }

    #[test]
    fn every_error_has_the_code_and_status_of_the_table() {
        super::samples::check_column(3, |error| {
            let said = s3_error_of(error);
            let status = said.status_code().map_or(0, |status| status.as_u16());
            format!("{} {status}", said.code().as_str())
        });
    }

    #[test]
    fn every_error_has_its_code() {
        let at = || ArchivePath::new("/b/k").unwrap();
        check(ArchiveError::Name(base::NameError::Nul), "InvalidArgument", 400);
        check(ArchiveError::NotFound(at()), "NoSuchKey", 404);
        // A name whose record is missing is no answer about the key: a client would delete its copy.
        let dangling = catalogue::ReadError::Dangling {
            directory: base::DirId(4),
            name: "a".to_owned(),
            to: Object::File(base::FileId(9)),
            found: "of which there is no record",
        };
        check(ArchiveError::Catalogue(dangling), "InternalError", 500);
        check(ArchiveError::SomeNotFound { count: 1, first: at() }, "NoSuchKey", 404);
        check(ArchiveError::IsADirectory(at()), "InvalidRequest", 409);
        check(ArchiveError::NotADirectory(at()), "InvalidRequest", 409);
        check(ArchiveError::Exists(at()), "PreconditionFailed", 412);
        check(ArchiveError::NotCurrent(at()), "PreconditionFailed", 412);
        check(ArchiveError::DeleteMarker { path: at(), version: FileId(3) }, "NoSuchKey", 404);
        check(ArchiveError::Held { path: at(), held: "a hold".into() }, "AccessDenied", 403);
        check(ArchiveError::Upload(UploadError::NoSuchUpload(UploadId(1))), "NoSuchUpload", 404);
        check(
            ArchiveError::Upload(UploadError::NoSuchPart { upload: UploadId(1), number: 2 }),
            "InvalidPart",
            400,
        );
        check(
            ArchiveError::Upload(UploadError::PartChanged { upload: UploadId(1), number: 2 }),
            "InvalidPart",
            400,
        );
        check(ArchiveError::NotEmpty(at()), "BucketNotEmpty", 409);
        check(ArchiveError::Nearline { path: at(), vids: vec![], recall: None }, "InvalidObjectState", 403);
        let away = ArchiveError::NearlineAway { path: at(), drives: vec![1], vids: vec![] };
        check(away, "InvalidObjectState", 403);
        let away = ArchiveError::DrivesAway { path: at(), drives: vec![1], vids: vec![] };
        check(away, "ServiceUnavailable", 503);
        check(ArchiveError::Lost(at()), "InternalError", 500);
        check(ArchiveError::Corrupt { path: at() }, "InternalError", 500);
        check(ArchiveError::LengthMismatch { expected: 1, actual: 2 }, "IncompleteBody", 400);
        let digest = ArchiveError::DigestMismatch { kind: "a", expected: "1".into(), actual: "2".into() };
        check(digest, "BadDigest", 400);
        let class = ArchiveError::NoSuchClass { name: "x".into(), known: "y".into() };
        check(class, "InvalidStorageClass", 400);
        check(ArchiveError::NotOffered("it"), "NotImplemented", 501);
        check(ArchiveError::RangeBeyondEnd { offset: 9, size: ByteCount(3) }, "InvalidRange", 416);
        check(ArchiveError::Limit { what: "it", limit: 3 }, "InvalidRequest", 400);
        check(ArchiveError::IdempotencyKeyReused, "InvalidRequest", 400);
        check(ArchiveError::PoolFull, "SlowDown", 503);
        check(ArchiveError::TreeChanges, "ServiceUnavailable", 503);
        check(ArchiveError::Stopping, "ServiceUnavailable", 503);
        check(ArchiveError::NoEntropy, "ServiceUnavailable", 503);
        let quota = ArchiveError::QuotaExceeded { of: "anna".into(), what: "bytes", limit: 1, used: 1 };
        check(quota, "QuotaExceeded", 403);
        let denied = ArchiveError::Denied {
            who: "anna".into(),
            verb: "put",
            what: "/b/k".into(),
            why: "the list".into(),
        };
        check(denied, "AccessDenied", 403);
    }

    /// Found by reading the code: whatever the catalogue missed, a request of its own or a blob as well as a
    /// file, was told to the client as `NoSuchKey`, so that an object which was there was answered as absent.
    #[test]
    fn only_what_a_key_names_is_said_to_be_no_key() {
        let name = || Name::new("a").unwrap();
        for (missing, code, status) in [
            (Object::Name(DirId(1), name()), "NoSuchKey", 404),
            (Object::Directory(DirId(2)), "NoSuchKey", 404),
            (Object::File(FileId(3)), "NoSuchKey", 404),
            (Object::Upload(UploadId(4)), "NoSuchUpload", 404),
            (Object::UploadPart(UploadId(4), 2), "InvalidPart", 400),
            (Object::Blob(BlobId(5)), "InternalError", 500),
            (Object::Class(ClassId(6)), "InternalError", 500),
            (Object::Request(RequestId(7)), "InternalError", 500),
            (Object::RequestFile(RequestId(7), FileId(3)), "InternalError", 500),
        ] {
            check(ArchiveError::Rejected(Rejection::NotFound(missing.clone())), code, status);
            check(ArchiveError::Store(ExecuteError::Rejected(Rejection::NotFound(missing))), code, status);
        }
    }

    #[test]
    fn refusals_of_the_catalogue_have_their_codes() {
        let (parent, name) = (DirId(1), || Name::new("a").unwrap());
        for (rejection, code, status) in [
            (Rejection::NameTaken { parent, name: name() }, "PreconditionFailed", 412),
            (Rejection::IsADirectory { parent, name: name() }, "InvalidRequest", 409),
            (Rejection::NotADirectory { parent, name: name() }, "InvalidRequest", 409),
            (Rejection::DirectoryNotEmpty { parent, name: name() }, "BucketNotEmpty", 409),
            (Rejection::ReservedName, "InvalidArgument", 400),
            (Rejection::LimitExceeded { what: "it", limit: 1 }, "InvalidRequest", 400),
        ] {
            check(ArchiveError::Rejected(rejection), code, status);
        }
        check(ArchiveError::Store(ExecuteError::Rejected(Rejection::ReservedName)), "InvalidArgument", 400);
        check(ArchiveError::Store(ExecuteError::MapFull), "ServiceUnavailable", 503);
        let in_part = ArchiveError::Store(ExecuteError::InPart(store::Shortage::Map));
        let said = s3_error_of(in_part);
        assert!(said.message().is_some_and(|text| text.contains("a part of it is done")), "{said:?}");
    }
}
