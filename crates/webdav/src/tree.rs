//! `MKCOL` and `MOVE`, and what methods that change the tree share.

use archive::{ArchiveError, ErrorKind, Stat};
use authority::Namespace;
use base::{ArchivePath, Name, Uuid};
use bytes::Bytes;
use catalogue::Attributes;
use entrance::{Kind, Refusal, present, whole};
use http::StatusCode;
use http::header::{HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use transfer::{RequestBody, next_bytes};

use crate::address::{Target, destination};
use crate::answer::{Answer, Failure, empty};
use crate::context::Asked;
use crate::delete::remove_all;
use crate::propfind::Depth;

/// Permission bits of a directory.
pub(crate) const DIRECTORY_MODE: u32 = 0o755;

/// A body that is no file, within the limit for XML.
///
/// # Errors
/// If it is too long, or does not come to its end.
pub(crate) async fn small_body(asked: &Asked, body: RequestBody) -> Result<Bytes, Refusal> {
    let limit = usize::try_from(asked.context.settings.limits.xml_bytes.0).unwrap_or(usize::MAX);
    let too_long = || Refusal::new(Kind::Limit, format!("the body has more than {limit} bytes"));
    Ok(whole(body, limit, &asked.call, too_long).await?.into())
}

/// Conditions that a change would have to obey at the moment when it is made, and cannot, are refused rather
/// than passed over. `If` is obeyed.
///
/// # Errors
/// If there is one.
pub(crate) fn refuse_unsupported(asked: &Asked) -> Result<(), Refusal> {
    let method = &asked.parts.method;
    for name in [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE] {
        if asked.parts.headers.contains_key(&name) {
            return Err(Refusal::bad(format!("{name} is not supported with {method}")));
        }
    }
    if asked.conditions.names_tags() {
        return Err(Refusal::bad(format!(
            "an entity tag in If is not supported with {method}: only with PUT"
        )));
    }
    Ok(())
}

/// That the directory of a name is not there is a conflict in WebDAV, not that nothing is found.
pub(crate) fn of_parent(error: ArchiveError) -> Failure {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            Refusal::new(Kind::NoParent, format!("the directory for it is not there: {error}")).into()
        }
        _ => error.into(),
    }
}

pub(crate) async fn make_collection(asked: &Asked, mut body: RequestBody) -> Answer {
    if next_bytes(&mut body).await?.is_some() {
        return Err(Refusal::new(Kind::MediaType, "MKCOL takes no body").into());
    }
    refuse_unsupported(asked)?;
    asked
        .run(|asked: &Asked| {
            let attributes = directory_attributes(Vec::new());
            match asked.engine.make_directory(&asked.target.path, attributes, None, false) {
                Ok(()) => Ok(()),
                Err(error) if error.kind() == ErrorKind::Exists => {
                    let detail = format!("{} is there already", asked.target.path);
                    Err(Refusal::new(Kind::Method, detail).into())
                }
                Err(error) => Err(of_parent(error)),
            }
        })
        .await?;
    Ok(empty(StatusCode::CREATED))
}

/// The attributes of a directory that is made.
pub(crate) fn directory_attributes(xattrs: Vec<(String, Vec<u8>)>) -> Attributes {
    Attributes { mtime: present(), mode: DIRECTORY_MODE, xattrs, ..Attributes::default() }
}

/// Where `COPY` and `MOVE` go to, and whether something may be replaced there.
pub(crate) struct To {
    pub target: Target,
    pub overwrite: bool,
}

/// Reads `Destination` and `Overwrite`.
///
/// # Errors
/// If they are malformed, of another server (502), or the source itself or a directory that it is in (403).
pub(crate) fn to(asked: &Asked) -> Result<To, Failure> {
    refuse_unsupported(asked)?;
    let Some(target) = destination(&asked.parts)? else {
        let detail =
            "the Destination is on another server: name it with the credential for it (third-party copy)";
        return Err(Refusal::new(Kind::BadGateway, detail).into());
    };
    if target.path == asked.target.path {
        return Err(Refusal::new(Kind::Forbidden, "source and destination are the same").into());
    }
    // What is to be replaced is set aside first, and the source would go with it.
    if is_below(&asked.target.path, &target.path) {
        let detail = format!("{} is in {} itself", asked.target.path, target.path);
        return Err(Refusal::new(Kind::Forbidden, detail).into());
    }
    let overwrite = entrance::headers::single(&asked.parts.headers, &HeaderName::from_static("overwrite"))?;
    let overwrite = match overwrite.map(|value| value.as_bytes().trim_ascii()) {
        None | Some(b"T" | b"t") => true,
        Some(b"F" | b"f") => false,
        Some(_) => return Err(Refusal::bad("the header Overwrite is neither T nor F").into()),
    };
    Ok(To { target, overwrite })
}

/// Whether a path is another one or below it.
pub(crate) fn is_below(path: &ArchivePath, above: &ArchivePath) -> bool {
    let mut components = path.components();
    above.components().all(|component| components.next() == Some(component))
}

pub(crate) async fn move_to(asked: &Asked) -> Answer {
    let To { target, overwrite } = to(asked)?;
    if Depth::of(&asked.parts.headers)?.is_some_and(|depth| depth != Depth::Infinity) {
        return Err(Refusal::bad("MOVE goes with all that is below: Depth is infinity, or left out").into());
    }
    asked.run_long(move |asked: &Asked| move_now(asked, &target.path, overwrite)).await.map(empty)
}

fn move_now(asked: &Asked, to: &ArchivePath, overwrite: bool) -> Result<StatusCode, Failure> {
    let from = &asked.target.path;
    let source = asked.engine.stat(from)?;
    let there = there(asked, to)?;
    let Some(there) = there else {
        asked.engine.rename(from, to, false).map_err(of_parent)?;
        return Ok(StatusCode::CREATED);
    };
    if !overwrite {
        return Err(taken(to));
    }
    if matches!((&source, &there), (Stat::File(_), Stat::File(_))) {
        asked.engine.rename(from, to, true).map_err(of_parent)?;
        return Ok(StatusCode::NO_CONTENT);
    }
    let back = || Ok(asked.engine.rename(to, from, false)?);
    replacing(asked, to, || Ok(asked.engine.rename(from, to, false)?), back)?;
    Ok(StatusCode::NO_CONTENT)
}

/// What has a path now.
pub(crate) fn there(asked: &Asked, path: &ArchivePath) -> Result<Option<Stat>, ArchiveError> {
    match asked.engine.stat(path) {
        Ok(stat) => Ok(Some(stat)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// That something is there, and `Overwrite: F`.
pub(crate) fn taken(path: &ArchivePath) -> Failure {
    Refusal::new(Kind::Precondition, format!("{path} is there, and Overwrite is F")).into()
}

/// Puts something in the place of what is there, which may be a whole tree: that is set aside under another
/// name first, and removed only when the other one stands in its place. If that fails, or what was there must
/// not be removed, `take_back` takes the other one away again, and what was there comes back.
pub(crate) fn replacing(
    asked: &Asked,
    path: &ArchivePath,
    put: impl FnOnce() -> Result<(), Failure>,
    take_back: impl FnOnce() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let aside = beside(path, "replaced")?;
    asked.engine.rename(path, &aside, false)?;
    let failure = match put() {
        Err(failure) => failure,
        Ok(()) => {
            let Err(failure) = remove_all(asked, &aside) else { return Ok(()) };
            if let Err(stays) = take_back() {
                tracing::error!(%path, %aside, ?failure, ?stays, "what was replaced could not be removed");
                let detail =
                    format!("{path} was replaced, and what was there could not be removed: it is at {aside}");
                return Err(Refusal::new(Kind::Internal, detail).into());
            }
            failure
        }
    };
    match asked.engine.rename(&aside, path, false) {
        Ok(()) => Err(failure),
        Err(error) => {
            tracing::error!(%path, %aside, %error, "what was to be replaced could not be put back");
            let detail = format!(
                "it failed, and what was at {path} could not be put back: it is at {aside} ({error})"
            );
            Err(Refusal::new(Kind::Internal, detail).into())
        }
    }
}

/// A name that is free, in the same directory.
pub(crate) fn beside(path: &ArchivePath, why: &str) -> Result<ArchivePath, Failure> {
    let (directory, name) = path.split().ok_or_else(|| ArchiveError::Exists(ArchivePath::root()))?;
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| ArchiveError::NoEntropy)?;
    let kept = name.as_str();
    let kept = kept.get(..kept.floor_char_boundary(kept.len().min(180))).unwrap_or_default();
    let name =
        Name::new(&format!("{kept}.{why}-{}", Uuid::from_random(random))).map_err(ArchiveError::from)?;
    Ok(directory.join(&name).map_err(ArchiveError::from)?)
}
