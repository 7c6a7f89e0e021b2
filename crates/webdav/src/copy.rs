//! `COPY` on this server: files share their bytes in the pool, or have them copied.

use archive::{ArchiveError, CloneOptions, ErrorKind, Stat, Which};
use authority::{Namespace, Objects};
use base::ArchivePath;
use entrance::{Kind, Refusal};
use http::StatusCode;

use crate::answer::{Answer, Failure, empty};
use crate::context::Asked;
use crate::delete::remove_all;
use crate::propfind::Depth;
use crate::tree::{To, beside, directory_attributes, is_below, of_parent, replacing, taken, there, to};

/// Lines of a directory that are read at once.
const PAGE: usize = 500;
/// Attributes of a directory with these names are the server's own.
const OWN_XATTRS: &str = "kist.";

pub(crate) async fn copy(asked: &Asked) -> Answer {
    let To { target, overwrite } = to(asked)?;
    let is_deep = match Depth::of(&asked.parts.headers)? {
        None | Some(Depth::Infinity) => true,
        Some(Depth::Zero) => false,
        Some(Depth::One) => return Err(Refusal::bad("COPY has the Depth 0 or infinity").into()),
    };
    asked.run_long(move |asked: &Asked| copy_now(asked, &target.path, overwrite, is_deep)).await.map(empty)
}

fn copy_now(asked: &Asked, to: &ArchivePath, overwrite: bool, is_deep: bool) -> Result<StatusCode, Failure> {
    let from = &asked.target.path;
    let source = asked.engine.stat(from)?;
    if matches!(source, Stat::Directory(_)) && is_below(to, from) {
        return Err(Refusal::new(Kind::Forbidden, format!("{to} is in {from} itself")).into());
    }
    if let Some((parent, _)) = to.split() {
        // A clone makes missing directories, WebDAV does not.
        asked.engine.stat(&parent).map_err(of_parent)?;
    }
    let there = there(asked, to)?;
    if there.is_some() && !overwrite {
        return Err(taken(to));
    }
    match (source, there) {
        (Stat::File(_), Some(Stat::File(_))) => {
            clone_file(asked, from, to)?;
            Ok(StatusCode::NO_CONTENT)
        }
        (Stat::File(_), None) => {
            clone_if_free(asked, from, to, overwrite)?;
            Ok(StatusCode::CREATED)
        }
        (Stat::File(_), Some(Stat::Directory(_))) => {
            replacing(asked, to, || clone_file(asked, from, to), || Ok(asked.engine.remove(to)?))?;
            Ok(StatusCode::NO_CONTENT)
        }
        (Stat::Directory(_), None) => {
            copy_tree(asked, from, to, is_deep, |aside| named(asked, aside, to))?;
            Ok(StatusCode::CREATED)
        }
        (Stat::Directory(_), Some(_)) => {
            let place = |aside: &ArchivePath| {
                let back = || Ok(asked.engine.rename(to, aside, false)?);
                replacing(asked, to, || named(asked, aside, to), back)
            };
            copy_tree(asked, from, to, is_deep, place)?;
            Ok(StatusCode::NO_CONTENT)
        }
    }
}

fn clone_file(asked: &Asked, from: &ArchivePath, to: &ArchivePath) -> Result<(), Failure> {
    let options = CloneOptions { who: asked.call.principal.name.clone(), ..CloneOptions::default() };
    asked.engine.clone_object(from, Which::Current, to, options)?;
    Ok(())
}

/// A clone replaces what it finds: where nothing may be replaced, it is made under another name, and gets its
/// own only if that is free then.
fn clone_if_free(
    asked: &Asked,
    from: &ArchivePath,
    to: &ArchivePath,
    overwrite: bool,
) -> Result<(), Failure> {
    if overwrite {
        return clone_file(asked, from, to);
    }
    let aside = beside(to, "copied")?;
    clone_file(asked, from, &aside)?;
    asked.engine.rename(&aside, to, false).map_err(|error| {
        if let Err(failure) = remove_all(asked, &aside) {
            tracing::warn!(%aside, ?failure, "a copy that was not wanted could not be removed");
        }
        if error.kind() == ErrorKind::Exists { taken(to) } else { error.into() }
    })
}

/// Copies a directory, and all in it if it `is_deep`, under another name first: what others put at the name
/// that it is to get is theirs, and nothing but the copy is removed if something fails. `place` gives it its
/// name.
fn copy_tree(
    asked: &Asked,
    from: &ArchivePath,
    to: &ArchivePath,
    is_deep: bool,
    place: impl FnOnce(&ArchivePath) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let aside = beside(to, "copied")?;
    make_like(asked, from, &aside)?;
    let copied = if is_deep { copy_below(asked, from, &aside) } else { Ok(()) };
    copied.and_then(|()| place(&aside)).inspect_err(|_| {
        if let Err(failure) = remove_all(asked, &aside) {
            tracing::warn!(%aside, ?failure, "what was copied before a failure could not be removed");
        }
    })
}

fn copy_below(asked: &Asked, from: &ArchivePath, to: &ArchivePath) -> Result<(), Failure> {
    let limit = asked.context.settings.limits.copies;
    let (mut waiting, mut copied) = (vec![(from.clone(), to.clone())], 0usize);
    while let Some((from, to)) = waiting.pop() {
        let mut after = None;
        loop {
            let (lines, more) = asked.engine.list(&from, after.as_ref(), PAGE)?;
            after = lines.last().map(|line| line.name.clone());
            for line in lines {
                copied += 1;
                if copied > limit {
                    let what =
                        format!("there are more than {limit} files and directories in it: copy parts of it");
                    return Err(Refusal::new(Kind::Limit, what).into());
                }
                let from = from.join(&line.name).map_err(ArchiveError::from)?;
                let to = to.join(&line.name).map_err(ArchiveError::from)?;
                if matches!(line.what, archive::ListedKind::Directory) {
                    make_like(asked, &from, &to)?;
                    waiting.push((from, to));
                } else {
                    clone_file(asked, &from, &to)?;
                }
            }
            if !more {
                break;
            }
        }
    }
    Ok(())
}

/// Gives a copy its name, if that is free.
fn named(asked: &Asked, aside: &ArchivePath, to: &ArchivePath) -> Result<(), Failure> {
    asked.engine.rename(aside, to, false).map_err(of_parent)
}

/// Makes a directory with the properties of another one.
fn make_like(asked: &Asked, from: &ArchivePath, to: &ArchivePath) -> Result<(), Failure> {
    let Stat::Directory(stat) = asked.engine.stat(from)? else {
        return Err(ArchiveError::NotADirectory(from.clone()).into());
    };
    let mut xattrs = stat.attributes.xattrs;
    xattrs.retain(|(name, _)| !name.starts_with(OWN_XATTRS));
    let attributes = directory_attributes(xattrs);
    asked.engine.make_directory(to, attributes, stat.class.as_deref(), false).map_err(of_parent)
}
