//! May this caller do that there?

use base::ArchivePath;

use crate::acl::Acl;
use crate::caller::{Caller, Capability};
use crate::rights::Rights;

/// A file or directory on the way from what is asked for up to the root.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Node {
    /// Its owner; empty: nobody.
    pub owner: String,
    /// Its group.
    pub group: String,
    /// Its list; only directories have one.
    pub acl: Option<Acl>,
}

/// What is at the path that is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// A file, or nothing yet and a file is to be made.
    File,
    /// A directory, or nothing yet and a directory is to be made.
    Directory,
}

/// Why something is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// No capability of the token covers it.
    #[error("the token has no scope for it")]
    NoScope,
    /// The caller may, but not with this macaroon.
    #[error("the caveats of the macaroon leave no right to it")]
    Caveats,
    /// The nearest list does not give the right.
    #[error("the access control list of its directory does not allow it")]
    List,
    /// There is no list, and somebody else owns it.
    #[error(
        "neither it nor a directory above it is the caller's, and no access control list is there: its owner \
         or an admin gives rights with kist acl set"
    )]
    NotOwner,
    /// Only admins may.
    #[error(
        "only admins may, and operators if it is only looked at: an admin makes keys of both (kist key \
         create NAME --admin, or --operator)"
    )]
    NotAdmin,
}

/// Whether the caller has all of `rights` at `path`. `chain` goes from what is there, or from the nearest
/// directory above it if nothing is, upward to the root.
///
/// Admins may all. A token with capabilities is confined to them. Everybody else: going upward, the first
/// file or directory that the caller owns, or that has a list, decides. Of all that a macaroon leaves what
/// its caveats say. What keeps a version against deletion is not decided here: that holds against everybody.
///
/// # Errors
/// Says why not.
pub fn decide(
    caller: &Caller,
    rights: Rights,
    path: &ArchivePath,
    target: Target,
    chain: &[Node],
) -> Result<(), Refused> {
    let (given, otherwise) = standing(caller, path, target, chain);
    match bound(caller, path, target) {
        _ if !given.contains(rights) => Err(otherwise),
        bound if !bound.contains(rights) => Err(Refused::Caveats),
        _ => Ok(()),
    }
}

/// All rights that the caller has at `path`; the arguments are those of [`decide`].
#[must_use]
pub fn rights_at(caller: &Caller, path: &ArchivePath, target: Target, chain: &[Node]) -> Rights {
    standing(caller, path, target, chain).0 & bound(caller, path, target)
}

/// What the caveats of a macaroon leave, whatever the caller may.
fn bound(caller: &Caller, path: &ArchivePath, target: Target) -> Rights {
    caller.bounds.as_deref().map_or(Rights::ALL, |bounds| joined(bounds, path, target))
}

/// The rights of all capabilities that cover the path.
fn joined(capabilities: &[Capability], path: &ArchivePath, target: Target) -> Rights {
    let covering = capabilities.iter().filter(|capability| capability.covers(path, target));
    covering.fold(Rights::NONE, |given, capability| given | capability.rights)
}

/// All rights but for the bounds of a macaroon, and why not others.
fn standing(caller: &Caller, path: &ArchivePath, target: Target, chain: &[Node]) -> (Rights, Refused) {
    if caller.is_admin {
        return (Rights::ALL, Refused::NotAdmin);
    }
    if caller.is_confined() {
        return (joined(&caller.capabilities, path, target), Refused::NoScope);
    }
    let looking = Rights::STAT | Rights::LIST | Rights::POLL;
    let looking = if caller.is_operator { looking } else { Rights::NONE };
    for node in chain {
        if !caller.is_anonymous() && node.owner == caller.name {
            return (Rights::ALL, Refused::NotOwner);
        }
        if let Some(acl) = &node.acl {
            return (acl.rights_of(caller) | looking, Refused::List);
        }
    }
    (looking, Refused::NotOwner)
}

impl Capability {
    /// Whether the path is the capability's own or below it, component by component.
    #[must_use]
    pub fn covers(&self, path: &ArchivePath, target: Target) -> bool {
        let mut asked = path.components();
        if !self.path.components().all(|component| asked.next() == Some(component)) {
            return false;
        }
        asked.next().is_some() || !self.is_directory || target == Target::Directory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ArchivePath {
        ArchivePath::new(text).unwrap()
    }

    fn node(owner: &str, acl: &[&str]) -> Node {
        let entries: Vec<_> = acl.iter().map(|line| line.parse().unwrap()).collect();
        let acl = (!entries.is_empty()).then(|| Acl::new(entries).unwrap());
        Node { owner: owner.to_owned(), group: String::new(), acl }
    }

    fn asks(caller: &Caller, rights: &str, chain: &[Node]) -> Result<(), Refused> {
        decide(caller, Rights::parse(rights).unwrap(), &path("/a/b/f"), Target::File, chain)
    }

    #[test]
    fn the_first_owner_or_list_upward_decides() {
        let (anna, bert) = (Caller::named("anna", ["cms"]), Caller::named("bert", ["cms"]));
        let plain = [node("anna", &[]), node("bert", &[]), node("", &[])];
        assert_eq!(asks(&anna, "rwm", &plain), Ok(()), "anna owns the file");
        assert_eq!(asks(&bert, "rwm", &plain), Ok(()), "bert owns the directory");
        assert_eq!(asks(&Caller::named("carl", []), "t", &plain), Err(Refused::NotOwner));
        let lists = [node("anna", &[]), node("", &["group:cms:r"]), node("bert", &["user:bert:w"])];
        assert_eq!(asks(&bert, "r", &lists), Ok(()));
        assert_eq!(asks(&bert, "w", &lists), Err(Refused::List), "the nearer list decides");
        assert_eq!(asks(&anna, "w", &lists), Ok(()));
        assert_eq!(asks(&Caller::admin("root"), "m", &[node("anna", &["user:anna:r"])]), Ok(()));
    }

    #[test]
    fn nobody_owns_what_has_no_owner() {
        let none = [node("", &[]), node("", &[])];
        assert_eq!(asks(&Caller::anonymous(), "t", &none), Err(Refused::NotOwner));
        assert_eq!(asks(&Caller::named("anna", []), "t", &[]), Err(Refused::NotOwner));
        let open = [node("", &[]), node("", &["anyone:r"])];
        assert_eq!(asks(&Caller::anonymous(), "r", &open), Ok(()));
        assert_eq!(asks(&Caller::anonymous(), "l", &open), Err(Refused::List));
    }

    #[test]
    fn operators_look_and_change_nothing() {
        let operator = Caller { is_operator: true, ..Caller::named("op", []) };
        let chain = [node("anna", &["user:anna:r"])];
        assert_eq!(asks(&operator, "tlp", &chain), Ok(()));
        for right in ["r", "c", "w", "s", "m"] {
            assert_eq!(asks(&operator, right, &chain), Err(Refused::List), "{right}");
        }
    }

    #[test]
    fn bounds_narrow_whatever_is_given() {
        let bound = |rights: &str, at: &str| Capability {
            rights: Rights::parse(rights).unwrap(),
            path: path(at),
            is_directory: false,
        };
        let owned = [node("anna", &[])];
        let mut anna = Caller::named("anna", []);
        anna.bounds = Some(vec![bound("tr", "/a")]);
        assert_eq!(asks(&anna, "r", &owned), Ok(()));
        assert_eq!(asks(&anna, "w", &owned), Err(Refused::Caveats), "its owner, but not with this macaroon");
        assert_eq!(asks(&anna, "r", &[node("bert", &[])]), Err(Refused::NotOwner), "a bound gives nothing");
        assert_eq!(asks(&anna, "r", &[node("", &["user:anna:l"])]), Err(Refused::List));
        let rights = |caller: &Caller| rights_at(caller, &path("/a/b/f"), Target::File, &owned).to_string();
        assert_eq!(rights(&anna), "tr");
        anna.bounds = Some(vec![bound("tr", "/x"), bound("tlrcwspmb", "/a/b/g")]);
        assert_eq!(rights(&anna), "", "elsewhere");
        anna.bounds = Some(Vec::new());
        assert_eq!(asks(&anna, "t", &owned), Err(Refused::Caveats));
        let mut token = Caller { capabilities: vec![bound("trc", "/a")], ..Caller::named("anna", []) };
        token.bounds = Some(vec![bound("trw", "/a/b")]);
        assert_eq!(rights(&token), "tr", "both have to give it");
        let admin = Caller { bounds: Some(vec![bound("t", "/")]), ..Caller::admin("root") };
        assert_eq!(asks(&admin, "r", &owned), Err(Refused::Caveats));
        let operator =
            Caller { is_operator: true, bounds: Some(vec![bound("t", "/")]), ..Caller::named("o", []) };
        assert!(asks(&operator, "t", &owned).is_ok() && asks(&operator, "l", &owned).is_err());
        assert!(!operator.looks(), "a macaroon of an operator looks at no machines");
    }

    #[test]
    fn capabilities_are_all_that_a_token_has() {
        let capability = |rights: &str, at: &str, is_directory| Capability {
            rights: Rights::parse(rights).unwrap().implied(),
            path: path(at),
            is_directory,
        };
        let mut token = Caller::named("anna", []);
        token.capabilities = vec![capability("c", "/a/b", false), capability("r", "/", true)];
        let owned = [node("anna", &[])];
        assert_eq!(asks(&token, "c", &owned), Ok(()));
        assert_eq!(asks(&token, "r", &owned), Ok(()));
        assert_eq!(asks(&token, "w", &owned), Err(Refused::NoScope), "owning gives a token nothing more");
        token.is_operator = true;
        assert_eq!(asks(&token, "p", &owned), Err(Refused::NoScope));
        let covers = |at: &str, is_directory, asked: &str, target| {
            capability("r", at, is_directory).covers(&path(asked), target)
        };
        assert!(covers("/foo", false, "/foo", Target::File));
        assert!(covers("/foo", false, "/foo/bar", Target::File));
        assert!(!covers("/foo", false, "/foobar", Target::File));
        assert!(!covers("/foo/bar", false, "/foo", Target::Directory));
        assert!(!covers("/foo", true, "/foo", Target::File), "a slash at the end means a directory");
        assert!(covers("/foo", true, "/foo", Target::Directory));
        assert!(covers("/foo", true, "/foo/bar", Target::File));
        assert!(covers("/", true, "/x", Target::File));
    }
}
