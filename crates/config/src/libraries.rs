//! What libraries, tape pools and classes say of each other.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::str::FromStr;

use library::scsi::changer::DriveSeat;
use library::scsi::{DeviceChoice, IscsiName, portal};
use toml::Spanned;

use super::check::{Finding, check_label, check_library};
use super::file::{Apart, Class, Drives, Library, LibraryKind, TapePool};

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
        check_label(&library.name.span(), name)?;
        // A name that was not given has no place in the text.
        let place = if library.name.span().is_empty() { library.drives.span() } else { library.name.span() };
        if !names.insert(name) {
            return Err((place, format!("library '{name}' is there twice: give each its own name")));
        }
        if library.directory.as_ref().is_some_and(|directory| !directories.insert(directory)) {
            return Err((place, "two libraries cannot share a directory".to_owned()));
        }
        check_kind(library, &place)?;
    }
    Ok(())
}

/// The keys of each kind.
fn check_kind(library: &Library, place: &Range<usize>) -> Result<(), Finding> {
    let Library {
        directory,
        changer,
        drives,
        slots,
        cartridge_capacity,
        portals,
        initiator,
        chap,
        timing,
        ..
    } = library;
    if library.kind == LibraryKind::Virtual {
        if directory.is_none() {
            return Err((place.clone(), "a library of kind \"virtual\" needs a directory".to_owned()));
        }
        let is_scsi = [
            ("changer", changer.is_some()),
            ("slots", slots.is_some()),
            ("cartridge_capacity", cartridge_capacity.is_some()),
            ("portals", !portals.is_empty()),
            ("initiator", initiator.is_some()),
            ("chap", chap.is_some()),
            ("a list of drives", matches!(drives.get_ref(), Drives::Serials(_))),
        ];
        return match is_scsi.iter().find(|(_, is_there)| *is_there) {
            Some((key, _)) => Err((place.clone(), format!("{key} is for a library of kind \"scsi\""))),
            None => Ok(()),
        };
    }
    if directory.is_some() {
        return Err((place.clone(), "directory is for a library of kind \"virtual\"".to_owned()));
    }
    let Some(changer) = changer else {
        let message = "a library of kind \"scsi\" needs its changer: kist library scan finds it";
        return Err((place.clone(), message.to_owned()));
    };
    check_parsed::<DeviceChoice>(changer)?;
    if let Drives::Serials(all) = drives.get_ref() {
        let mut seen = BTreeSet::new();
        for one in all {
            let wrong = |message: String| (drives.span(), message);
            let seat = one.parse::<DriveSeat>().map_err(|error| wrong(error.to_string()))?;
            let (DriveSeat::Serial(serial) | DriveSeat::SerialAt(serial, _)) = seat else { continue };
            if !seen.insert(serial) {
                return Err(wrong(format!("drive '{one}' is there twice")));
            }
        }
    }
    for one in slots.iter().flatten() {
        if range(one.get_ref()).is_none() {
            let message = format!("'{}' is no range of slots: write \"1000-1039\"", one.get_ref());
            return Err((one.span(), message));
        }
    }
    for one in portals {
        portal(one.get_ref()).map_err(|error| (one.span(), error.to_string()))?;
    }
    if let Some(name) = initiator {
        IscsiName::new(name.get_ref()).map_err(|error| (name.span(), error.to_string()))?;
    }
    match timing.as_ref().filter(|timing| *timing.scale.get_ref() != 1.0) {
        Some(timing) => {
            Err((timing.scale.span(), "real machines run in real time: leave scale out".to_owned()))
        }
        None => Ok(()),
    }
}

fn check_parsed<T: FromStr<Err: std::fmt::Display>>(text: &Spanned<String>) -> Result<(), Finding> {
    text.get_ref().parse::<T>().map(|_| ()).map_err(|error| (text.span(), error.to_string()))
}

/// Addresses of elements: `1000-1039`, or one.
pub fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
    (first <= last).then_some(first..=last)
}

fn of<'a>(pool: &TapePool, libraries: &[&'a Library]) -> Option<&'a Library> {
    let name = pool.library.as_ref()?.get_ref();
    libraries.iter().copied().find(|library| library.name.get_ref() == name)
}

/// How many drives could write to a tape pool.
pub fn drives_for(pool: &TapePool, libraries: &[&Library]) -> Result<usize, Finding> {
    let Some(asked) = &pool.library else {
        return Ok(libraries.iter().map(|library| usize::from(library.drive_count())).sum());
    };
    of(pool, libraries).map(|library| usize::from(library.drive_count())).ok_or_else(|| {
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

    use library::scsi::DeviceChoice;
    use library::scsi::changer::DriveSeat;

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
        assert_eq!(settings.more_libraries[0].files().unwrap().directory, std::path::Path::new("/x/far"));
        assert_eq!(settings.tape_pools[1].library.as_deref(), Some("far"));
        let error = changed(&[A_HERE, B_FAR, (from, &site)]).unwrap_err();
        assert!(error.contains("'library' names no site"), "{error}");
        let error = changed(&[A_HERE, (from, &library)]).unwrap_err();
        assert!(error.contains("tape pool 'vault-b' names no library"), "{error}");
        let b_here = ("name = \"vault-b\"", "name = \"vault-b\"\nlibrary = \"library\"");
        let error = changed(&[A_HERE, b_here, (from, &library)]).unwrap_err();
        assert!(error.contains("'vault-a' and 'vault-b' share library 'library'"), "{error}");
    }

    /// The template with a scsi library in place of its own.
    fn scsi(keys: &str) -> Result<Config, String> {
        let library = "kind = \"virtual\"\ndirectory = \"library\"\n# Tape drives.\ndrives = 2\n";
        changed(&[(library, &format!("kind = \"scsi\"\n{keys}\n"))])
    }

    #[test]
    fn a_changer_and_its_drives_are_read() {
        let keys = "changer = \"serial:CH0001\"\ndrives = [\"serial:SN1\", \"257=serial:SN2\"]\n\
                    slots = [\"1000-1039\", \"16\"]\ncartridge_capacity = \"12TB\"\n\
                    portals = [\"tape1\", \"tape2:3261\"]\n\
                    initiator = \"iqn.2026-01.org.kist:test\"\n\
                    chap = { user = \"kist\", secret_file = \"chap\" }\ntiming = { drive = \"LTO-8\" }";
        let settings = scsi(keys).unwrap().settings(std::path::Path::new("/x"));
        let archive::LibraryKind::Scsi(library) = &settings.library.kind else { panic!("{settings:?}") };
        assert_eq!(library.changer, DeviceChoice::Serial("CH0001".to_owned()));
        assert_eq!(library.drives.len(), 2);
        assert_eq!(library.slots, Some(vec![1000..=1039, 16..=16]));
        assert_eq!(library.capacity.0, 12_000_000_000_000);
        assert_eq!(library.portals, ["tape1:3260", "tape2:3261"]);
        assert_eq!(library.chap.as_ref().unwrap().secret_file, std::path::Path::new("/x/chap"));
        assert_eq!(settings.library.timing().unwrap().drive, "LTO-8", "the model of its drives is known");
        assert!(settings.library.files().is_none());

        let at = "changer = \"iscsi://tape1/iqn.2026-01.org.kist:vtl/0\"\ndrives = 2";
        let settings = scsi(at).unwrap().settings(std::path::Path::new("/x"));
        let archive::LibraryKind::Scsi(library) = &settings.library.kind else { panic!("{settings:?}") };
        assert_eq!(library.drives, [DriveSeat::Number(0), DriveSeat::Number(1)]);
        assert_eq!((&library.slots, settings.library.drives(), library.capacity.0), (&None, 2, 0));
    }

    /// Story: a capacity of five bytes was found good.
    #[test]
    fn a_capacity_without_its_unit_is_refused_when_the_file_is_checked() {
        let library = "kind = \"virtual\"\ndirectory = \"library\"\n# Tape drives.\ndrives = 2\n";
        let file = tempfile::NamedTempFile::new().unwrap();
        for (size, is_good) in [("5", false), ("8000000B", false), ("8MiB", true), ("12TB", true)] {
            let scsi = "kind = \"scsi\"\nchanger = \"serial:CH0001\"\ndrives = 2\n";
            let scsi = format!("{scsi}cartridge_capacity = \"{size}\"\n");
            let text = crate::template::write(&Template::default());
            assert!(text.contains(library));
            std::fs::write(file.path(), text.replacen(library, &scsi, 1)).unwrap();
            assert!(crate::load(file.path()).is_ok(), "a server that ran with {size} starts again");
            let told = crate::load_strictly(file.path()).map(drop).map_err(|error| error.to_string());
            assert_eq!(told.is_ok(), is_good, "{size}");
            let names_it =
                |told: &String| told.contains("cartridge_capacity = \"5") && told.contains("its unit");
            assert!(size != "5" || told.as_ref().is_err_and(names_it), "{told:?}");
        }
    }

    #[test]
    fn keys_of_the_other_kind_and_what_is_none_are_refused() {
        let changer = "changer = \"serial:CH0001\"\n";
        for (keys, told) in [
            ("drives = 2".to_owned(), "needs its changer: kist library scan"),
            (format!("{changer}drives = 0"), "at least one drive"),
            (format!("{changer}drives = []"), "at least one drive"),
            (format!("{changer}drives = [\"SN1\"]"), "'SN1' is no drive"),
            (format!("{changer}drives = [\"serial:SN1\", \"2=serial:SN1\"]"), "there twice"),
            (format!("{changer}drives = 2\ndirectory = \"x\""), "kind \"virtual\""),
            (format!("{changer}drives = 2\nslots = [\"9-1\"]"), "no range of slots"),
            (format!("{changer}drives = 2\nportals = [\"a b\"]"), "is no device"),
            (format!("{changer}drives = 2\ninitiator = \"kist\""), "no iSCSI name"),
            (format!("{changer}drives = 2\ntiming = {{ drive = \"LTO-8\", scale = 2.0 }}"), "real time"),
            ("changer = \"/tmp/x\"\ndrives = 2".to_owned(), "is no device"),
        ] {
            let error = scsi(&keys).unwrap_err();
            assert!(error.contains(told), "{keys}: {error}");
        }
        let virtual_one = |keys: &str| {
            let from = "directory = \"library\"";
            changed(&[(from, &format!("{from}\n{keys}"))]).unwrap_err()
        };
        assert!(virtual_one("changer = \"serial:X\"").contains("kind \"scsi\""));
        assert!(virtual_one("portals = [\"x\"]").contains("kind \"scsi\""));
        let error = changed(&[("directory = \"library\"\n", "")]).unwrap_err();
        assert!(error.contains("needs a directory"), "{error}");
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
