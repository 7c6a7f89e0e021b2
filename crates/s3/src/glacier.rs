//! Classes whose objects live on tape, as S3 says them: `GLACIER` and `DEEP_ARCHIVE`.

use archive::{Locality, RestoreState};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use s3s::{Body, HttpResponse, S3Error, S3Result, s3_error};

use crate::answers::Known;
use crate::settings::S3Settings;

/// What an object is called that is on tape only although its class stays in the pool: it was evicted.
const ARCHIVED: &str = "GLACIER";
/// The header of an object's class.
const CLASS_HEADER: &str = "x-amz-storage-class";

/// Whether objects of this class of S3 are read only after a restore.
pub(crate) fn is_archived(storage_class: &str) -> bool {
    matches!(storage_class, "GLACIER" | "DEEP_ARCHIVE")
}

/// The class that an object is shown in: that of its class, but `GLACIER` for one that has to be restored all
/// the same.
pub(crate) fn storage_class<'s>(settings: &'s S3Settings, class: &str, locality: Locality) -> &'s str {
    match settings.name_of(class) {
        name if is_archived(name) => name,
        _ if locality == Locality::Nearline => ARCHIVED,
        name => name,
    }
}

/// Whether an object may be read now: one of an archived class only while it is restored, wherever its bytes
/// are, so that what a client sees does not depend on when tapes were written.
///
/// # Errors
/// `InvalidObjectState`.
pub(crate) fn check_readable(settings: &S3Settings, known: &Known) -> S3Result<()> {
    let name = storage_class(settings, &known.file.class, known.file.locality);
    let restore = known.object.as_ref().map(|object| object.restore).unwrap_or_default();
    match restore {
        RestoreState::Until(_) => Ok(()),
        _ if !is_archived(name) => Ok(()),
        RestoreState::Ongoing => Err(unreadable(name, "it is being restored: wait until it is back")),
        RestoreState::No => Err(unreadable(name, "restore it first")),
    }
}

/// The refusal to read what is archived; the class is led to the answer's body as a header.
fn unreadable(name: &str, then: &str) -> S3Error {
    let mut error = s3_error!(InvalidObjectState, "the object is in class {name}: {then}");
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    if let Ok(name) = HeaderValue::from_str(name) {
        headers.insert(CLASS_HEADER, name);
    }
    error.set_headers(headers);
    error
}

/// Says the class in the body of a refusal too, where clients look for it; s3s knows no such element.
pub(crate) fn say_class(mut response: HttpResponse) -> HttpResponse {
    const END: &str = "</Error>";
    let class = response.headers().get(CLASS_HEADER).and_then(|class| class.to_str().ok());
    let (StatusCode::FORBIDDEN, Some(class)) = (response.status(), class.map(str::to_owned)) else {
        return response;
    };
    let text = response.body().bytes().and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
    if let Some(head) = text.as_deref().and_then(|text| text.strip_suffix(END)) {
        let text = format!("{head}<StorageClass>{class}</StorageClass>{END}");
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = Body::from(text);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> S3Settings {
        let classes = [("GLACIER", "tape"), ("DEEP_ARCHIVE", "vault")];
        let classes = classes.map(|(s3, ours)| (s3.to_owned(), ours.to_owned())).to_vec();
        S3Settings { classes, ..S3Settings::default() }
    }

    #[test]
    fn classes_are_shown_as_they_have_to_be_read() {
        let settings = settings();
        for (class, locality, shown) in [
            ("tape", Locality::Online, "GLACIER"),
            ("tape", Locality::Nearline, "GLACIER"),
            ("vault", Locality::OnlineAndNearline, "DEEP_ARCHIVE"),
            ("small", Locality::OnlineAndNearline, "STANDARD"),
            ("small", Locality::Nearline, "GLACIER"),
        ] {
            assert_eq!(storage_class(&settings, class, locality), shown, "{class} {locality:?}");
        }
    }
}
