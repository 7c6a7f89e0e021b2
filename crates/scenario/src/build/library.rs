//! Libraries, their drives and cartridges.

use base::ByteCount;
use mechanics::{DriveModel, DriveTiming, MediumModel, RobotTiming, UnknownModel};

use super::finding::{Finding, Problem, at, limited, wrong};
use super::{rate, span};
use crate::form::{Drives, Library, Locate, Named};
use crate::limits::{DRIVES_MAX, LIBRARIES_MAX, ROBOTS_MAX};
use crate::model::{DriveGroup, LibraryModel, TapeModel};
use quantity::{Percent, Span};

/// All libraries.
pub fn libraries(forms: &Named<Library>) -> Result<Vec<LibraryModel>, Finding> {
    limited(&["library"], "libraries", forms.0.len() as u64, LIBRARIES_MAX as u64, "LIBRARIES_MAX")?;
    if forms.0.is_empty() {
        return wrong(&["library"], "a site has at least one library: add [library.main]");
    }
    let drives = forms.iter().flat_map(|(_, form)| &form.drives.0).map(|group| u64::from(group.count));
    limited(&["library"], "drives in all", drives.sum(), DRIVES_MAX, "DRIVES_MAX")?;
    forms.iter().map(|(name, form)| library(name, form)).collect()
}

fn library(name: &str, form: &Library) -> Result<LibraryModel, Finding> {
    let Library {
        robot,
        robots,
        move_one,
        drives,
        medium,
        capacity,
        scratch,
        mount_extra,
        mount_cost_percent,
    } = form;
    let path = |key| ["library", name, key];
    if drives.0.is_empty() {
        return wrong(&path("drives"), "a library has drives: write { model = \"LTO-9\", count = 4 }");
    }
    if *mount_cost_percent == 0 {
        return wrong(&path("mount_cost_percent"), "it is at least 1; 100 is what a mount costs elsewhere");
    }
    let model = mechanics::robot(robot).map_err(|unknown| no_model(&path("robot"), "library", unknown))?;
    let mut timing = model.timing();
    if let Some(robots) = *robots {
        limited(&path("robots"), "robots", u64::from(robots), u64::from(ROBOTS_MAX), "ROBOTS_MAX")?;
        if robots == 0 {
            return wrong(&path("robots"), "a library has at least one robot");
        }
        timing.robots = u16::try_from(robots).unwrap_or(u16::MAX);
    }
    timing = RobotTiming { move_us: move_one.map_or(timing.move_us, |span| span.0), ..timing };
    let medium = medium_of(name, form, medium.as_deref())?;
    let room = medium.data_capacity();
    let capacity = capacity.map_or(room, |capacity| ByteCount(capacity.0));
    if capacity.0 == 0 || capacity > room {
        let most = quantity::Bytes(room.0);
        let problem = format!("a cartridge {} has room for 1B to {most} in its data partition", medium.name);
        return wrong(&path("capacity"), &problem);
    }
    Ok(LibraryModel {
        name: name.to_owned(),
        robots: timing,
        drives: groups(name, &drives.0, medium)?,
        tape: TapeModel { geometry: medium.geometry(), capacity },
        scratch: *scratch,
        mount_extra: span(*mount_extra),
    })
}

/// The medium that is named, or that the first drives are made for.
fn medium_of(name: &str, form: &Library, asked: Option<&str>) -> Result<&'static MediumModel, Finding> {
    let path = ["library", name, "medium"];
    match asked {
        Some(asked) => mechanics::medium(asked).map_err(|unknown| no_model(&path, "medium", unknown)),
        None => {
            let (at, group) = ("0", &form.drives.0[0]);
            let drive = drive_model(&["library", name, "drives", at, "model"], &group.model)?;
            drive.own_medium().map_err(|unknown| no_model(&path, "medium", unknown))
        }
    }
}

fn groups(name: &str, forms: &[Drives], medium: &MediumModel) -> Result<Vec<DriveGroup>, Finding> {
    let group = |(at, form): (usize, &Drives)| {
        let at = at.to_string();
        let path = |key| ["library", name, "drives", &at, key];
        if form.count == 0 {
            return wrong(&path("count"), "at least one drive of a kind; leave the kind out for none");
        }
        let model = drive_model(&path("model"), &form.model)?;
        if model.takes(medium).is_none() {
            let takes: Vec<&str> = model.media.iter().map(|taken| taken.medium.as_str()).collect();
            let problem = format!(
                "drives {} do not take the library's medium {}; they take: {}",
                model.name,
                medium.name,
                takes.join(", ")
            );
            return wrong(&path("model"), &problem);
        }
        let timing = changed(&["library", name, "drives", &at], model.timing(medium), form)?;
        Ok(DriveGroup { count: form.count, timing })
    };
    forms.iter().enumerate().map(group).collect()
}

fn drive_model(path: &[&str], name: &str) -> Result<&'static DriveModel, Finding> {
    mechanics::drive(name).map_err(|unknown| no_model(path, "drive", unknown))
}

fn no_model(path: &[&str], kind: &'static str, unknown: UnknownModel) -> Finding {
    let UnknownModel { name, known, .. } = unknown;
    Finding { path: at(path), problem: Problem::NotThere { kind, name, known } }
}

/// A model's figures with those that the scenario says otherwise.
fn changed(path: &[&str], model: DriveTiming, form: &Drives) -> Result<DriveTiming, Finding> {
    let Drives {
        model: _,
        count: _,
        rate: streaming,
        least_rate,
        buffer,
        load,
        unload,
        rewind,
        flush,
        backhitch,
        locate_factor,
        rewind_factor,
        locate,
    } = form;
    let below = |key| path.iter().copied().chain([key]).collect::<Vec<_>>();
    let mut timing = model;
    if let Some(streaming) = streaming {
        timing.native_rate = rate(&below("rate"), *streaming)?;
        // A drive that is slower than its model's least rate matches no other.
        timing.least_rate = timing.least_rate.min(timing.native_rate);
    }
    if let Some(least) = least_rate {
        timing.least_rate = rate(&below("least_rate"), *least)?;
        if timing.least_rate > timing.native_rate {
            return wrong(&below("least_rate"), "it is no more than the rate of the drive");
        }
    }
    timing.buffer = buffer.map_or(timing.buffer, |buffer| ByteCount(buffer.0));
    let set = |figure: &mut u64, span: &Option<Span>| *figure = span.map_or(*figure, |span| span.0);
    set(&mut timing.load_us, load);
    set(&mut timing.unload_us, unload);
    set(&mut timing.rewind_us, rewind);
    set(&mut timing.flush_us, flush);
    set(&mut timing.backhitch_us, backhitch);
    if let Some(locate) = locate {
        set_locate(&mut timing, locate);
    }
    scale_locate(&mut timing, factor(&below("locate_factor"), *locate_factor)?);
    timing.lpos_per_second /= factor(&below("rewind_factor"), *rewind_factor)?;
    Ok(timing)
}

fn set_locate(timing: &mut DriveTiming, form: &Locate) {
    let Locate { base, wrap_change, band_change, direction_change, step_back, least } = form;
    let cost = &mut timing.locate;
    let terms = [
        (&mut cost.base_us, base),
        (&mut cost.wrap_change_us, wrap_change),
        (&mut cost.band_change_us, band_change),
        (&mut cost.direction_change_us, direction_change),
        (&mut cost.step_back_us, step_back),
        (&mut cost.least_us, least),
    ];
    for (term, span) in terms {
        *term = span.map_or(*term, |span| span.0 as f64);
    }
}

fn scale_locate(timing: &mut DriveTiming, factor: f64) {
    let cost = &mut timing.locate;
    for term in [
        &mut cost.base_us,
        &mut cost.wrap_change_us,
        &mut cost.band_change_us,
        &mut cost.landing_zone_change_us,
        &mut cost.direction_change_us,
        &mut cost.step_back_us,
        &mut cost.lpos_us,
        &mut cost.least_us,
    ] {
        *term *= factor;
    }
}

/// A factor, 1 if it is not said.
fn factor(path: &[&str], factor: Option<Percent>) -> Result<f64, Finding> {
    match factor.map_or(1.0, |factor| factor.0) {
        factor if (0.01..=100.0).contains(&factor) => Ok(factor),
        _ => wrong(path, "it is \"1%\" to \"10000%\"; \"100%\" is as the model says"),
    }
}
