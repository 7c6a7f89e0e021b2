//! `DELETE`, of trees too.

use archive::{ErrorKind, RemoveTree, Stat};
use authority::{Namespace, Trees};
use base::ArchivePath;
use entrance::{Kind, Refusal};
use http::StatusCode;

use crate::answer::{Answer, Failure, empty};
use crate::context::Asked;
use crate::propfind::Depth;
use crate::tree::refuse_unsupported;

pub(crate) async fn delete(asked: &Asked) -> Answer {
    refuse_unsupported(asked)?;
    if Depth::of(&asked.parts.headers)?.is_some_and(|depth| depth != Depth::Infinity) {
        return Err(Refusal::bad("DELETE removes all that is below: Depth is infinity, or left out").into());
    }
    if asked.target.path.is_root() {
        let detail = "the root itself stays: name what is to be removed in it";
        return Err(Refusal::new(Kind::Forbidden, detail).into());
    }
    asked.run(|asked: &Asked| remove_all(asked, &asked.target.path)).await?;
    Ok(empty(StatusCode::NO_CONTENT))
}

/// Removes a file, or a directory with all that is in it, at once.
pub(crate) fn remove_all(asked: &Asked, path: &ArchivePath) -> Result<(), Failure> {
    let is_directory = matches!(asked.engine.stat(path)?, Stat::Directory(_));
    match asked.engine.remove(path) {
        Err(error) if is_directory && error.kind() == ErrorKind::NotEmpty => {
            let owner = asked.call.principal.name.clone();
            let how = RemoveTree { owner, directory: None, with_lists: false };
            asked.engine.remove_tree(path, how)?;
            Ok(())
        }
        other => Ok(other?),
    }
}
