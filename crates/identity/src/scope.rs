//! The scopes of tokens: what a token may do, and where.

use base::ArchivePath;

use crate::caller::Capability;
use crate::rights::Rights;

/// The most scopes of a token.
pub const SCOPES_MAX: usize = 256;

/// By which profile a token is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// The WLCG common JWT profile, version 1.
    Wlcg,
    /// SciTokens, versions 1 and 2.
    SciTokens,
}

/// Why a scope makes its whole token worthless.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeError {
    /// It names no path.
    #[error("the scope {0} names no path")]
    NoPath(&'static str),
    /// Its path is relative, has `.`, `..` or percent signs, or is too long.
    #[error("the path of a scope {0} is not an absolute, normalised path without percent signs")]
    Path(&'static str),
    /// There are too many.
    #[error("the token has more than {SCOPES_MAX} scopes")]
    TooMany,
}

/// The storage scopes of a profile and their rights. Reading brings listing along, as other servers have it.
const WLCG: [(&str, Rights); 5] = [
    ("storage.read", Rights::from_two(Rights::READ, Rights::LIST)),
    ("storage.create", Rights::CREATE),
    ("storage.modify", Rights::MODIFY),
    ("storage.stage", Rights::STAGE),
    ("storage.poll", Rights::POLL),
];
const SCITOKENS: [(&str, Rights); 2] = [
    ("read", Rights::from_two(Rights::READ, Rights::LIST)),
    ("write", Rights::from_two(Rights::CREATE, Rights::MODIFY)),
];

/// The capabilities of a scope claim, below the issuer's `base`. Scopes that are not about storage are passed
/// over; a storage scope that is malformed spoils all.
///
/// # Errors
/// If a storage scope has no path or a bad one, or there are too many.
pub fn capabilities(
    scope: &str,
    profile: Profile,
    base: &ArchivePath,
) -> Result<Vec<Capability>, ScopeError> {
    let known: &[(&'static str, Rights)] = match profile {
        Profile::Wlcg => &WLCG,
        Profile::SciTokens => &SCITOKENS,
    };
    let mut found = Vec::new();
    for (count, word) in scope.split(' ').filter(|word| !word.is_empty()).enumerate() {
        if count == SCOPES_MAX {
            return Err(ScopeError::TooMany);
        }
        let (name, path) = word.split_once(':').map_or((word, None), |(name, path)| (name, Some(path)));
        let Some((name, rights)) = known.iter().find(|(known, _)| *known == name) else { continue };
        let path = path.filter(|path| !path.is_empty()).ok_or(ScopeError::NoPath(name))?;
        let (path, is_directory) = scope_path(path, base).ok_or(ScopeError::Path(name))?;
        found.push(Capability { rights: rights.implied(), path, is_directory });
    }
    Ok(found)
}

/// The path below `base`, and whether a slash at its end says that it is a directory. Several slashes in a
/// row are one.
fn scope_path(text: &str, base: &ArchivePath) -> Option<(ArchivePath, bool)> {
    // A percent sign could be an escaped slash or dot for others who read the token: it is not guessed.
    if !text.starts_with('/') || text.contains(['%', '\\']) || text.contains(char::is_control) {
        return None;
    }
    let names: Vec<&str> = text.split('/').filter(|name| !name.is_empty()).collect();
    if names.iter().any(|name| matches!(*name, "." | "..")) {
        return None;
    }
    let base = base.as_str().trim_end_matches('/');
    let whole = if names.is_empty() { base.to_owned() } else { format!("{base}/{}", names.join("/")) };
    let path = ArchivePath::new(if whole.is_empty() { "/" } else { &whole }).ok()?;
    Some((path, text.ends_with('/')))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(scope: &str, profile: Profile, base: &str) -> Result<Vec<String>, ScopeError> {
        let found = capabilities(scope, profile, &ArchivePath::new(base).unwrap())?;
        let line =
            |c: &Capability| format!("{}:{}{}", c.rights, c.path, if c.is_directory { "/" } else { "" });
        Ok(found.iter().map(line).collect())
    }

    #[test]
    fn scopes_become_capabilities_below_the_base() {
        let wlcg = |scope| read(scope, Profile::Wlcg, "/");
        assert_eq!(wlcg("storage.read:/a storage.create:/b/").unwrap(), ["tlr:/a", "tc:/b/"]);
        assert_eq!(
            wlcg("storage.modify:/m openid storage.stage:/s storage.poll:/p").unwrap(),
            ["tcw:/m", "tsp:/s", "p:/p"]
        );
        assert_eq!(wlcg("storage.read:/").unwrap(), ["tlr://"]);
        assert_eq!(wlcg("storage.read://a//b").unwrap(), ["tlr:/a/b"]);
        assert_eq!(wlcg("compute.read openid offline_access storage.stat:/x").unwrap(), [""; 0]);
        assert_eq!(wlcg("read:/a").unwrap(), [""; 0], "SciTokens' scopes are nothing in another profile");
        let sci = |scope| read(scope, Profile::SciTokens, "/cms");
        assert_eq!(sci("read:/ write:/x/y").unwrap(), ["tlr:/cms/", "tcw:/cms/x/y"]);
    }

    #[test]
    fn a_malformed_scope_spoils_the_token() {
        for scope in ["storage.read", "storage.read:", "storage.read:/ok storage.modify"] {
            assert!(matches!(read(scope, Profile::Wlcg, "/"), Err(ScopeError::NoPath(_))), "{scope}");
        }
        let paths =
            ["a", "./a", "/..", "/a/../b", "/a/.", "/a%2fb", "/%2e%2e/b", "/a\\b", "/.kist/x", "/a\u{7}"];
        for path in paths {
            let scope = format!("storage.read:{path}");
            assert!(matches!(read(&scope, Profile::Wlcg, "/"), Err(ScopeError::Path(_))), "{scope}");
        }
        assert!(read(&"openid ".repeat(SCOPES_MAX), Profile::Wlcg, "/").is_ok());
        assert_eq!(read(&"openid ".repeat(SCOPES_MAX + 1), Profile::Wlcg, "/"), Err(ScopeError::TooMany));
    }

    proptest! {
        #[test]
        fn no_scope_leads_out_of_the_base(scope in "(storage\\.(read|stage):[/.a%]{0,12} ?){0,4}") {
            if let Ok(found) = capabilities(&scope, Profile::Wlcg, &ArchivePath::new("/base").unwrap()) {
                for capability in found {
                    prop_assert_eq!(capability.path.components().next(), Some("base"));
                    prop_assert!(capability.path.components().all(|name| name != ".."));
                }
            }
        }
    }
}
