//! What libraries, tape pools and classes say of each other.

use std::collections::BTreeSet;

use super::check::{Finding, check_library, check_name};
use super::file::{Apart, Class, Library, TapePool};

/// Names and directories that differ, and drives.
pub fn check(libraries: &[&Library]) -> Result<(), Finding> {
    let (mut names, mut directories) = (BTreeSet::new(), BTreeSet::new());
    for library in libraries {
        check_library(library)?;
        if !(1..=10_000).contains(library.mount_cost_percent.get_ref()) {
            let cost = &library.mount_cost_percent;
            return Err((cost.span(), "mount_cost_percent is 1 to 10000".to_owned()));
        }
        let name = library.name.get_ref();
        check_name(&library.name.span(), name)?;
        if name.len() > 32 {
            return Err((library.name.span(), format!("'{name}' is too long: at most 32 characters")));
        }
        // A name that was not given has no place in the text.
        let place = if library.name.span().is_empty() { library.drives.span() } else { library.name.span() };
        if !names.insert(name) {
            return Err((place, format!("library '{name}' is there twice: give each its own name")));
        }
        if !directories.insert(&library.directory) {
            return Err((place, "two libraries cannot share a directory".to_owned()));
        }
    }
    Ok(())
}

fn of<'a>(pool: &TapePool, libraries: &[&'a Library]) -> Option<&'a Library> {
    let name = pool.library.as_ref()?.get_ref();
    libraries.iter().copied().find(|library| library.name.get_ref() == name)
}

/// How many drives could write to a tape pool.
pub fn drives_for(pool: &TapePool, libraries: &[&Library]) -> Result<usize, Finding> {
    let Some(asked) = &pool.library else {
        return Ok(libraries.iter().map(|library| usize::from(*library.drives.get_ref())).sum());
    };
    of(pool, libraries).map(|library| usize::from(*library.drives.get_ref())).ok_or_else(|| {
        let known: Vec<&str> = libraries.iter().map(|library| library.name.get_ref().as_str()).collect();
        let message = format!("there is no library '{}'; there are: {}", asked.get_ref(), known.join(", "));
        (asked.span(), message)
    })
}

/// Classes that ask for copies apart have them so.
pub fn check_apart(classes: &[Class], pools: &[TapePool], libraries: &[&Library]) -> Result<(), Finding> {
    for class in classes {
        let Some(apart) = &class.apart else { continue };
        let mut seen: Vec<(&str, &str)> = Vec::new();
        for copy in class.copies.get_ref() {
            let Some(pool) = pools.iter().find(|pool| pool.name.get_ref() == copy) else { continue };
            let only = if let [library] = libraries { Some(*library) } else { None };
            let Some(library) = of(pool, libraries).or(only) else {
                let message =
                    format!("the copies are to be apart, but tape pool '{copy}' names no library: add one");
                return Err((apart.span(), message));
            };
            let (what, place) = match apart.get_ref() {
                Apart::Library => ("library", library.name.get_ref().as_str()),
                Apart::Site => ("site", library.site.as_str()),
            };
            if place.is_empty() {
                let message = format!("library '{}' names no site: add one", library.name.get_ref());
                return Err((apart.span(), message));
            }
            if let Some((other, _)) = seen.iter().find(|(_, known)| *known == place) {
                let message = format!(
                    "the copies in tape pools '{other}' and '{copy}' share {what} '{place}': give one of the \
                     pools a library elsewhere"
                );
                return Err((apart.span(), message));
            }
            seen.push((copy, place));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::template::{Template, write};
    use super::super::{Config, load};

    const MORE: &str = "\n[[more_libraries]]\nname = \"far\"\nsite = \"hill\"\nkind = \"virtual\"\n\
                        directory = \"far\"\ndrives = 2\n";

    /// The template with these changes, and `MORE` behind it.
    fn changed(changes: &[(&str, &str)]) -> Result<Config, String> {
        let mut text = write(&Template::default());
        for (from, to) in changes {
            assert!(text.contains(from), "{from}");
            text = text.replacen(from, to, 1);
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text + MORE).unwrap();
        load(file.path()).map_err(|error| error.to_string())
    }

    const A_HERE: (&str, &str) = ("name = \"vault-a\"", "name = \"vault-a\"\nlibrary = \"library\"");
    const B_FAR: (&str, &str) = ("name = \"vault-b\"", "name = \"vault-b\"\nlibrary = \"far\"");
    const SITE: (&str, &str) = ("kind = \"virtual\"", "kind = \"virtual\"\nsite = \"valley\"");

    fn apart(what: &str) -> (&'static str, String) {
        (
            "copies = [\"vault-a\", \"vault-b\"]",
            format!("copies = [\"vault-a\", \"vault-b\"]\napart = \"{what}\""),
        )
    }

    #[test]
    fn copies_apart_are_checked() {
        let (from, library) = apart("library");
        let (_, site) = apart("site");
        changed(&[A_HERE, B_FAR, (from, &library)]).unwrap();
        let config = changed(&[SITE, A_HERE, B_FAR, (from, &site)]).unwrap();
        let settings = config.settings(std::path::Path::new("/x"));
        assert_eq!(settings.more_libraries[0].files().directory, std::path::Path::new("/x/far"));
        assert_eq!(settings.tape_pools[1].library.as_deref(), Some("far"));
        let error = changed(&[A_HERE, B_FAR, (from, &site)]).unwrap_err();
        assert!(error.contains("'library' names no site"), "{error}");
        let error = changed(&[A_HERE, (from, &library)]).unwrap_err();
        assert!(error.contains("tape pool 'vault-b' names no library"), "{error}");
        let b_here = ("name = \"vault-b\"", "name = \"vault-b\"\nlibrary = \"library\"");
        let error = changed(&[A_HERE, b_here, (from, &library)]).unwrap_err();
        assert!(error.contains("'vault-a' and 'vault-b' share library 'library'"), "{error}");
    }

    #[test]
    fn libraries_are_told_from_each_other() {
        let error = changed(&[("kind = \"virtual\"", "kind = \"virtual\"\nname = \"far\"")]).unwrap_err();
        assert!(error.contains("library 'far' is there twice"), "{error}");
        let error = changed(&[("directory = \"library\"", "directory = \"far\"")]).unwrap_err();
        assert!(error.contains("share a directory"), "{error}");
        let error = changed(&[("name = \"vault-a\"", "name = \"vault-a\"\nlibrary = \"near\"")]).unwrap_err();
        assert!(error.contains("no library 'near'; there are: library, far"), "{error}");
    }
}
