//! Data files: the TOML that models are written in, and the checks that they must pass.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::figure::{Dimension, Figure, Statement, Unit};
use crate::model::{DriveMedium, DriveModel, LocateFigures, MediumModel, RobotModel, UnloadRewind};

/// What a data file holds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Models {
    /// In the order of the file.
    pub drives: Vec<DriveModel>,
    /// In the order of the file.
    pub media: Vec<MediumModel>,
    /// In the order of the file.
    pub robots: Vec<RobotModel>,
    /// Costs of locates, which drives refer to by name.
    pub locates: Vec<LocateFigures>,
}

/// Why a data file cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// Not TOML, or a key is missing, misspelt or of another type; the message has the line.
    #[error("the data file cannot be read: {message}")]
    Syntax {
        /// The parser's message, with the line.
        message: String,
    },
    /// A figure that cannot be.
    #[error("{model}: {field}: {problem}")]
    Figure {
        /// Name of the drive, medium or robots.
        model: String,
        /// The key.
        field: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// Two models in one file have a name in common.
    #[error("{name} is the name of two models: rename one, or take the alias away")]
    Twice {
        /// The name.
        name: String,
    },
    /// Something else than one model was asked for.
    #[error("the data file has {drives} drives, and exactly one is expected: split it, or use Models::parse")]
    NotOne {
        /// Drives in the file.
        drives: usize,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    #[serde(default)]
    sources: BTreeMap<String, String>,
    #[serde(default)]
    locate: Vec<LocateForm>,
    #[serde(default)]
    drive: Vec<DriveForm>,
    #[serde(default)]
    medium: Vec<MediumForm>,
    #[serde(default)]
    robot: Vec<RobotForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FigureForm {
    value: f64,
    unit: String,
    source: String,
    verified: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StatementForm {
    value: bool,
    source: String,
    verified: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LocateForm {
    name: String,
    base: FigureForm,
    wrap_change: FigureForm,
    band_change: FigureForm,
    landing_zone_change: FigureForm,
    direction_change: FigureForm,
    step_back: FigureForm,
    pace: FigureForm,
    least: FigureForm,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DriveForm {
    name: String,
    title: String,
    #[serde(default)]
    aliases: Vec<String>,
    locate: String,
    buffer: FigureForm,
    load: FigureForm,
    unload: FigureForm,
    rewind_fixed: FigureForm,
    backhitch: FigureForm,
    flush: FigureForm,
    recommends_order: StatementForm,
    unload_rewind: Option<UnloadRewindForm>,
    media: Vec<DriveMediumForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnloadRewindForm {
    under_5_gb: FigureForm,
    to_50_gb: FigureForm,
    other: FigureForm,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DriveMediumForm {
    medium: String,
    rate: FigureForm,
    least_rate: FigureForm,
    mean_locate: Option<FigureForm>,
    mean_rewind: Option<FigureForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MediumForm {
    name: String,
    title: String,
    #[serde(default)]
    aliases: Vec<String>,
    capacity: FigureForm,
    wraps: FigureForm,
    bands: FigureForm,
    wrap_capacity: FigureForm,
    length: FigureForm,
    lpos_min: FigureForm,
    lpos_max: FigureForm,
    index_wraps: FigureForm,
    guard_wraps: FigureForm,
    first_load_least: Option<FigureForm>,
    first_load_most: Option<FigureForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RobotForm {
    name: String,
    title: String,
    #[serde(default)]
    aliases: Vec<String>,
    robots: FigureForm,
    #[serde(rename = "move")]
    move_one: FigureForm,
}

/// Which numbers a figure may have.
#[derive(Clone, Copy)]
enum Bounds {
    /// Above zero.
    Positive,
    /// Zero or more.
    NotNegative,
    /// Any.
    Free,
    /// A whole number of pieces, of at least so many and at most 65,535.
    Pieces(u16),
    /// A whole number that fits in 32 bits.
    Position,
}

/// No figure is larger, in its base unit: 10^18 bytes are an exabyte on one cartridge.
const LARGEST: f64 = 1e18;

/// Prefixes of sources that are nobody's statement.
const OWN_WORD: [&str; 2] = ["derived: ", "assumed: "];

impl Bounds {
    fn problem(self, value: f64) -> Option<String> {
        let whole = value.fract() == 0.0;
        let fits = match self {
            Bounds::Positive => value > 0.0,
            Bounds::NotNegative => value >= 0.0,
            Bounds::Free => true,
            Bounds::Pieces(least) => whole && value >= f64::from(least) && value <= f64::from(u16::MAX),
            Bounds::Position => whole && value >= 0.0 && value <= f64::from(u32::MAX),
        };
        let wanted = match self {
            _ if !value.is_finite() || value.abs() > LARGEST => "a number up to 1e18 in its base unit".into(),
            _ if fits => return None,
            Bounds::Positive => "more than 0".to_owned(),
            Bounds::NotNegative => "0 or more".to_owned(),
            Bounds::Free => return None,
            Bounds::Pieces(least) => format!("a whole number from {least} to 65535"),
            Bounds::Position => "a whole number from 0 to 4294967295".to_owned(),
        };
        Some(format!("{value} is not possible: it must be {wanted}"))
    }
}

/// Makes figures of one model.
struct Reader<'a> {
    model: &'a str,
    sources: &'a BTreeMap<String, String>,
}

impl Reader<'_> {
    fn wrong(&self, field: &'static str, problem: String) -> ModelError {
        ModelError::Figure { model: self.model.to_owned(), field, problem }
    }

    /// The source in full. A source is a key of `[sources]`, with more behind `: ` if need be, or says itself
    /// that the number is derived or assumed.
    fn source(&self, field: &'static str, source: String, verified: bool) -> Result<String, ModelError> {
        let own_word = OWN_WORD.iter().find(|prefix| source.starts_with(*prefix));
        if let Some(prefix) = own_word {
            let said = source.len() > prefix.len();
            return match (said, verified) {
                (false, _) => Err(self.wrong(field, format!("{prefix:?} needs its reason behind it"))),
                (_, true) => Err(self.wrong(field, "what is derived or assumed is not verified".into())),
                _ => Ok(source),
            };
        }
        let (key, more) = source.split_once(": ").unwrap_or((&source, ""));
        match (self.sources.get(key), more) {
            (Some(full), "") => Ok(full.clone()),
            (Some(full), more) => Ok(format!("{full}, {more}")),
            (None, _) => {
                let known: Vec<&str> = self.sources.keys().map(String::as_str).collect();
                let problem = format!(
                    "source {key:?} is not in [sources] ({}) and begins with neither {:?} nor {:?}",
                    known.join(", "),
                    OWN_WORD[0],
                    OWN_WORD[1]
                );
                Err(self.wrong(field, problem))
            }
        }
    }

    fn figure(
        &self,
        field: &'static str,
        form: FigureForm,
        dimension: Dimension,
        bounds: Bounds,
    ) -> Result<Figure, ModelError> {
        let unit = Unit::parse(&form.unit).filter(|unit| unit.dimension == dimension).ok_or_else(|| {
            self.wrong(field, format!("unit {:?} does not fit: use {}", form.unit, dimension.example()))
        })?;
        let source = self.source(field, form.source, form.verified)?;
        let figure = Figure { value: form.value, unit, source, verified: form.verified };
        match bounds.problem(figure.base()) {
            Some(problem) => Err(self.wrong(field, problem)),
            None => Ok(figure),
        }
    }

    fn time(&self, field: &'static str, form: FigureForm) -> Result<Figure, ModelError> {
        self.figure(field, form, Dimension::Time, Bounds::Positive)
    }

    fn optional_time(
        &self,
        field: &'static str,
        form: Option<FigureForm>,
    ) -> Result<Option<Figure>, ModelError> {
        form.map(|form| self.time(field, form)).transpose()
    }

    fn wraps(&self, field: &'static str, form: FigureForm, least: u16) -> Result<Figure, ModelError> {
        self.figure(field, form, Dimension::Wraps, Bounds::Pieces(least))
    }

    fn locate(&self, form: LocateForm) -> Result<LocateFigures, ModelError> {
        let time = |field, form| self.figure(field, form, Dimension::Time, Bounds::NotNegative);
        let zone = form.landing_zone_change;
        Ok(LocateFigures {
            name: form.name,
            base: time("base", form.base)?,
            wrap_change: time("wrap_change", form.wrap_change)?,
            band_change: time("band_change", form.band_change)?,
            landing_zone_change: self.figure("landing_zone_change", zone, Dimension::Time, Bounds::Free)?,
            direction_change: time("direction_change", form.direction_change)?,
            step_back: time("step_back", form.step_back)?,
            pace: self.figure("pace", form.pace, Dimension::Pace, Bounds::Positive)?,
            least: time("least", form.least)?,
        })
    }

    fn drive(&self, form: DriveForm, locates: &[LocateFigures]) -> Result<DriveModel, ModelError> {
        let locate = locates.iter().find(|known| known.name == form.locate).cloned().ok_or_else(|| {
            let known: Vec<&str> = locates.iter().map(|known| known.name.as_str()).collect();
            let problem = format!("{:?} is not known: use one of {}", form.locate, known.join(", "));
            self.wrong("locate", problem)
        })?;
        let statement = form.recommends_order;
        let source = self.source("recommends_order", statement.source, statement.verified)?;
        let rewind_fixed =
            self.figure("rewind_fixed", form.rewind_fixed, Dimension::Time, Bounds::NotNegative)?;
        let media = form.media.into_iter().map(|medium| self.drive_medium(medium, &rewind_fixed));
        let media: Vec<DriveMedium> = media.collect::<Result<_, _>>()?;
        if media.is_empty() {
            return Err(self.wrong("media", "there is none: name the drive's own medium first".into()));
        }
        Ok(DriveModel {
            name: form.name,
            title: form.title,
            aliases: form.aliases,
            media,
            buffer: self.figure("buffer", form.buffer, Dimension::Size, Bounds::Positive)?,
            load: self.time("load", form.load)?,
            unload: self.time("unload", form.unload)?,
            rewind_fixed,
            unload_rewind: form.unload_rewind.map(|table| self.unload_rewind(table)).transpose()?,
            backhitch: self.time("backhitch", form.backhitch)?,
            flush: self.time("flush", form.flush)?,
            recommends_order: Statement { value: statement.value, source, verified: statement.verified },
            locate,
        })
    }

    fn drive_medium(&self, form: DriveMediumForm, fixed: &Figure) -> Result<DriveMedium, ModelError> {
        let rate = |field, form| self.figure(field, form, Dimension::Rate, Bounds::Positive);
        let medium = DriveMedium {
            medium: form.medium,
            rate: rate("rate", form.rate)?,
            least_rate: rate("least_rate", form.least_rate)?,
            mean_locate: self.optional_time("mean_locate", form.mean_locate)?,
            mean_rewind: self.optional_time("mean_rewind", form.mean_rewind)?,
        };
        if medium.least_rate.base() > medium.rate.base() {
            return Err(self.wrong("least_rate", format!("it is above the rate of {}", medium.rate)));
        }
        if medium.mean_rewind.as_ref().is_some_and(|mean| mean.base() <= fixed.base()) {
            return Err(self.wrong("mean_rewind", format!("rewind_fixed alone takes {fixed}")));
        }
        Ok(medium)
    }

    fn unload_rewind(&self, form: UnloadRewindForm) -> Result<UnloadRewind, ModelError> {
        let table = UnloadRewind {
            under_5_gb: self.time("unload_rewind.under_5_gb", form.under_5_gb)?,
            to_50_gb: self.time("unload_rewind.to_50_gb", form.to_50_gb)?,
            other: self.time("unload_rewind.other", form.other)?,
        };
        let times = [&table.under_5_gb, &table.to_50_gb, &table.other].map(Figure::base);
        match times.is_sorted() {
            true => Ok(table),
            false => Err(self.wrong("unload_rewind", "the times must not fall".into())),
        }
    }

    fn medium(&self, form: MediumForm) -> Result<MediumModel, ModelError> {
        let position = |field, form| self.figure(field, form, Dimension::Position, Bounds::Position);
        let size = |field, form| self.figure(field, form, Dimension::Size, Bounds::Positive);
        let first = (
            self.optional_time("first_load_least", form.first_load_least)?,
            self.optional_time("first_load_most", form.first_load_most)?,
        );
        let medium = MediumModel {
            name: form.name,
            title: form.title,
            aliases: form.aliases,
            capacity: size("capacity", form.capacity)?,
            wraps: self.wraps("wraps", form.wraps, 4)?,
            bands: self.figure("bands", form.bands, Dimension::Bands, Bounds::Pieces(4))?,
            wrap_capacity: size("wrap_capacity", form.wrap_capacity)?,
            length: self.figure("length", form.length, Dimension::Length, Bounds::Positive)?,
            lpos_min: position("lpos_min", form.lpos_min)?,
            lpos_max: position("lpos_max", form.lpos_max)?,
            index_wraps: self.wraps("index_wraps", form.index_wraps, 0)?,
            guard_wraps: self.wraps("guard_wraps", form.guard_wraps, 0)?,
            first_load: match first {
                (None, None) => None,
                (Some(least), Some(most)) if least.base() <= most.base() => Some((least, most)),
                _ => {
                    let problem = "first_load_most is needed too, and at least as long".to_owned();
                    return Err(self.wrong("first_load_least", problem));
                }
            },
        };
        self.fits(&medium)?;
        Ok(medium)
    }

    /// Whether a medium's figures fit each other.
    fn fits(&self, medium: &MediumModel) -> Result<(), ModelError> {
        let all = medium.wraps.base() * medium.wrap_capacity.base();
        if (all / medium.capacity.base() - 1.0).abs() > 0.01 {
            let problem =
                format!("{} times {} are not {}", medium.wraps, medium.wrap_capacity, medium.capacity);
            return Err(self.wrong("wrap_capacity", problem));
        }
        if medium.bands.whole() != 4 {
            return Err(self.wrong("bands", "costs of locates know four bands only".into()));
        }
        if medium.lpos_min.base() >= medium.lpos_max.base() {
            return Err(self.wrong("lpos_max", format!("it must be above lpos_min, {}", medium.lpos_min)));
        }
        if medium.index_wraps.base() + medium.guard_wraps.base() >= medium.wraps.base() {
            return Err(self.wrong("index_wraps", "no wrap is left for the data partition".into()));
        }
        Ok(())
    }

    fn robot(&self, form: RobotForm) -> Result<RobotModel, ModelError> {
        Ok(RobotModel {
            name: form.name,
            title: form.title,
            aliases: form.aliases,
            robots: self.figure("robots", form.robots, Dimension::Robots, Bounds::Pieces(1))?,
            move_one: self.time("move", form.move_one)?,
        })
    }
}

/// A name as it is compared: without case, hyphens, underscores and spaces.
pub(crate) fn comparable(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_' | ' ')).flat_map(char::to_lowercase).collect()
}

/// Fails if two of the models share a name.
fn check_names<'a>(models: impl Iterator<Item = (&'a String, &'a Vec<String>)>) -> Result<(), ModelError> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (index, (name, aliases)) in models.enumerate() {
        for word in std::iter::once(name).chain(aliases) {
            if seen.insert(comparable(word), index).is_some_and(|other| other != index) {
                return Err(ModelError::Twice { name: word.clone() });
            }
        }
    }
    Ok(())
}

impl Models {
    /// Reads a data file, whose drives may refer to the costs of locates of `known` besides the file's own.
    pub(crate) fn parse_with(text: &str, known: &[LocateFigures]) -> Result<Models, ModelError> {
        let form: FileForm = toml::from_str(text)
            .map_err(|error| ModelError::Syntax { message: error.to_string().trim_end().to_owned() })?;
        let sources = &form.sources;
        let mut models = Models::default();
        for locate in form.locate {
            let name = locate.name.clone();
            models.locates.push(Reader { model: &name, sources }.locate(locate)?);
        }
        let locates: Vec<LocateFigures> = models.locates.iter().chain(known).cloned().collect();
        for drive in form.drive {
            let name = drive.name.clone();
            models.drives.push(Reader { model: &name, sources }.drive(drive, &locates)?);
        }
        for medium in form.medium {
            let name = medium.name.clone();
            models.media.push(Reader { model: &name, sources }.medium(medium)?);
        }
        for robot in form.robot {
            let name = robot.name.clone();
            models.robots.push(Reader { model: &name, sources }.robot(robot)?);
        }
        models.check()
    }

    /// The same if no two models of a kind share a name.
    pub(crate) fn check(self) -> Result<Models, ModelError> {
        check_names(self.drives.iter().map(|model| (&model.name, &model.aliases)))?;
        check_names(self.media.iter().map(|model| (&model.name, &model.aliases)))?;
        check_names(self.robots.iter().map(|model| (&model.name, &model.aliases)))?;
        Ok(self)
    }
}
