//! The models that come with Kist.

use std::sync::OnceLock;

use crate::file::{ModelError, Models, comparable};
use crate::model::{DriveModel, LocateFigures, MediumModel, RobotModel};
use crate::timing::DriveTiming;

/// The data files, costs of locates first: others refer to them.
const FILES: [(&str, &str); 7] = [
    ("data/drives/lto.toml", include_str!("../data/drives/lto.toml")),
    ("data/drives/ibm.toml", include_str!("../data/drives/ibm.toml")),
    ("data/drives/storagetek.toml", include_str!("../data/drives/storagetek.toml")),
    ("data/media/lto.toml", include_str!("../data/media/lto.toml")),
    ("data/media/ibm.toml", include_str!("../data/media/ibm.toml")),
    ("data/media/storagetek.toml", include_str!("../data/media/storagetek.toml")),
    ("data/robots/robots.toml", include_str!("../data/robots/robots.toml")),
];

/// A model that there is no data file for.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no {kind} {name:?} is known: take one of {}, or add a data file for it", .known.join(", "))]
pub struct UnknownModel {
    /// Drive, medium or library.
    pub kind: &'static str,
    /// What was asked for.
    pub name: String,
    /// The names of the models that there are.
    pub known: Vec<String>,
}

/// The built-in models; the tests of this crate read them, so that they cannot fail in a released program.
fn built_in() -> &'static Models {
    static MODELS: OnceLock<Models> = OnceLock::new();
    MODELS.get_or_init(|| {
        let mut all = Models::default();
        for (file, text) in FILES {
            let read = Models::parse_with(text, &all.locates);
            let models = read.unwrap_or_else(|error| panic!("crates/mechanics/{file}: {error}"));
            all.drives.extend(models.drives);
            all.media.extend(models.media);
            all.robots.extend(models.robots);
            all.locates.extend(models.locates);
        }
        all.check().unwrap_or_else(|error| panic!("crates/mechanics/data: {error}"))
    })
}

/// Whether two names are one: case, hyphens, underscores and spaces do not count.
#[must_use]
pub fn same_name(one: &str, other: &str) -> bool {
    comparable(one) == comparable(other)
}

fn find<'a, M>(
    kind: &'static str,
    models: &'a [M],
    names: impl Fn(&M) -> (&String, &Vec<String>),
    asked: &str,
) -> Result<&'a M, UnknownModel> {
    let wanted = comparable(asked);
    let is_it = |model: &&M| {
        let (name, aliases) = names(model);
        std::iter::once(name).chain(aliases).any(|word| comparable(word) == wanted)
    };
    models.iter().find(is_it).ok_or_else(|| UnknownModel {
        kind,
        name: asked.to_owned(),
        known: models.iter().map(|model| names(model).0.clone()).collect(),
    })
}

/// All drives, in the order of the data files.
#[must_use]
pub fn drives() -> &'static [DriveModel] {
    &built_in().drives
}

/// All media, in the order of the data files.
#[must_use]
pub fn media() -> &'static [MediumModel] {
    &built_in().media
}

/// All libraries, in the order of the data files.
#[must_use]
pub fn robots() -> &'static [RobotModel] {
    &built_in().robots
}

/// All costs of locates, in the order of the data files.
#[must_use]
pub fn locates() -> &'static [LocateFigures] {
    &built_in().locates
}

/// The drive of that name; case, hyphens, underscores and spaces do not count (`LTO8`, `lto-8`).
///
/// # Errors
/// If there is none; the error lists all.
pub fn drive(name: &str) -> Result<&'static DriveModel, UnknownModel> {
    find("drive", drives(), |model| (&model.name, &model.aliases), name)
}

/// The medium of that name; as [`drive`].
///
/// # Errors
/// If there is none; the error lists all.
pub fn medium(name: &str) -> Result<&'static MediumModel, UnknownModel> {
    find("medium", media(), |model| (&model.name, &model.aliases), name)
}

/// The robots of the library of that name; as [`drive`].
///
/// # Errors
/// If there is none; the error lists all.
pub fn robot(name: &str) -> Result<&'static RobotModel, UnknownModel> {
    find("library", robots(), |model| (&model.name, &model.aliases), name)
}

/// The plain numbers of a drive with its own medium.
///
/// # Errors
/// If there is no such drive; the error lists all.
pub fn timing(drive_name: &str) -> Result<DriveTiming, UnknownModel> {
    let drive = drive(drive_name)?;
    Ok(drive.timing(drive.own_medium()?))
}

impl DriveModel {
    /// The medium that the drive is made for.
    ///
    /// # Errors
    /// If it is none of the built-in ones, as in an operator's own data file.
    pub fn own_medium(&self) -> Result<&'static MediumModel, UnknownModel> {
        medium(&self.media[0].medium)
    }

    /// A drive of an operator's own data file, with exactly one drive in it. It may refer to the built-in
    /// costs of locates (`locate = "lto"`).
    ///
    /// # Errors
    /// If the file cannot be read, a figure is out of range, or there is another number of drives.
    pub fn parse(text: &str) -> Result<DriveModel, ModelError> {
        let mut drives = Models::parse(text)?.drives;
        match (drives.pop(), drives.len()) {
            (Some(drive), 0) => Ok(drive),
            (Some(_), more) => Err(ModelError::NotOne { drives: more + 1 }),
            (None, _) => Err(ModelError::NotOne { drives: 0 }),
        }
    }
}

impl Models {
    /// The models of an operator's own data file. Drives may refer to the built-in costs of locates.
    ///
    /// # Errors
    /// If the file cannot be read or a figure is out of range.
    pub fn parse(text: &str) -> Result<Models, ModelError> {
        Models::parse_with(text, locates())
    }
}
