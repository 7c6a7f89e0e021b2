//! What users do, and what goes wrong.

use base::Duration;
use scheduler::PRIORITY_MAX;

use super::finding::{Finding, Problem, at, limited, missing, wrong};
use super::{index, per_mille, percent, span};
use crate::form::{
    Backup, Campaign, Carousel, Fault, Ingest, Named, Recorded, Saturate, Scenario, Users, Workload,
};
use crate::limits::{FAULTS_MAX, FILES_MAX, LISTED_MAX, PER_DAY_MAX, WORKLOADS_MAX};
use crate::model;
use crate::model::{Arrivals, Choice, ClassIndex, FaultKind, Site, WorkloadKind};
use quantity::{Bytes, Count, Share, Span};

/// Seconds of a day.
const DAY: f64 = 86_400.0;
/// Seconds of a year.
const YEAR: f64 = 365.25 * DAY;

/// All workloads.
pub fn workloads(form: &Scenario, site: &Site) -> Result<Vec<model::Workload>, Finding> {
    let found = form.workload.0.len() as u64;
    limited(&["workload"], "workloads", found, WORKLOADS_MAX as u64, "WORKLOADS_MAX")?;
    let loads = form.workload.iter().map(|(name, load)| workload(form, site, name, load));
    let loads = loads.collect::<Result<Vec<_>, _>>()?;
    let mut files = 0.0;
    for ((name, load), made) in form.workload.iter().zip(&loads) {
        files += files_of(made, span(form.run.span));
        let found = if files < 1e18 { files as u64 } else { u64::MAX };
        let path = ["workload", name, amount(load)];
        limited(&path, "files in all of the run, with the workloads before", found, FILES_MAX, "FILES_MAX")?;
    }
    Ok(loads)
}

/// The key that says how much a workload does.
fn amount(load: &Workload) -> &'static str {
    match load {
        Workload::Users(Users { bytes_per_day: Some(_), .. })
        | Workload::Ingest(Ingest { bytes_per_day: Some(_), .. }) => "bytes_per_day",
        Workload::Users(_) | Workload::Ingest(_) => "per_day",
        _ => "files",
    }
}

/// Files that a workload puts and asks for in a run, in the mean, as far as no other limit bounds them: each
/// takes memory, or at least time.
fn files_of(load: &model::Workload, run: Duration) -> f64 {
    let active = load.end.map_or(run, |end| end.min(run)).saturating_sub(load.begin).as_secs_f64();
    let arriving = |arrivals: &Arrivals, each: u32| {
        let storms = arrivals.storms_per_year * arrivals.storm_length.as_secs_f64();
        let stormy = storms / (storms + YEAR);
        let mean = 1.0 + stormy * (arrivals.storm_factor - 1.0);
        active / DAY * arrivals.per_day * mean * f64::from(each)
    };
    match &load.kind {
        WorkloadKind::Users { arrivals, files, .. } => arriving(arrivals, *files),
        WorkloadKind::Ingest { arrivals, burst } => arriving(arrivals, *burst),
        WorkloadKind::Backup { period, files, restore_files, .. } => {
            let times = (active / period.as_secs_f64()).ceil();
            times * *files as f64 + *restore_files as f64
        }
        _ => 0.0,
    }
}

/// The keys that all kinds have.
struct Who<'a> {
    class: &'a str,
    begin: Span,
    end: Option<Span>,
    priority: u32,
}

macro_rules! who {
    ($form:expr) => {
        Who { class: &$form.class, begin: $form.begin, end: $form.end, priority: $form.priority }
    };
}

fn workload(form: &Scenario, site: &Site, name: &str, load: &Workload) -> Result<model::Workload, Finding> {
    let path = |key| ["workload", name, key];
    let who = match load {
        Workload::Campaign(load) => who!(load),
        Workload::Carousel(load) => who!(load),
        Workload::Users(load) => who!(load),
        Workload::Ingest(Ingest { class, begin, end, .. })
        | Workload::Saturate(Saturate { class, begin, end, .. }) => {
            Who { class, begin: *begin, end: *end, priority: 0 }
        }
        Workload::Backup(load) => who!(load),
        Workload::Recorded(load) => who!(load),
    };
    let class = ClassIndex(index(&path("class"), "class", &form.class, who.class)?);
    if who.begin >= form.run.span {
        return wrong(&path("begin"), "it never begins: run.span is over before");
    }
    if who.end.is_some_and(|end| end <= who.begin) {
        return wrong(&path("end"), "it ends before it begins");
    }
    if who.priority > u32::from(PRIORITY_MAX) {
        return wrong(&path("priority"), &format!("it is 0 to {PRIORITY_MAX}"));
    }
    let kind = match load {
        Workload::Campaign(load) => campaign(name, load, site, class)?,
        Workload::Carousel(load) => carousel(name, load, site, class)?,
        Workload::Users(load) => users(name, load, site, class)?,
        Workload::Ingest(load) => ingest(name, load, site, class)?,
        Workload::Backup(load) => backup(name, load)?,
        Workload::Saturate(load) => saturate(name, load)?,
        Workload::Recorded(load) => recorded(name, load)?,
    };
    Ok(model::Workload {
        name: name.to_owned(),
        class,
        kind,
        begin: span(who.begin),
        end: who.end.map(span),
        priority: who.priority as u8,
    })
}

/// What a campaign and a carousel both say.
struct Chosen {
    files: Option<Count>,
    data_sets: bool,
    share: Share,
    shuffled: bool,
    tapes: u32,
}

fn choice(name: &str, chosen: &Chosen, site: &Site, class: ClassIndex) -> Result<Choice, Finding> {
    let path = |key| ["workload", name, key];
    let held = held(site, class);
    if held == 0 {
        return wrong(&path("class"), "nothing of it is on tape at the beginning: add a [holding.NAME]");
    }
    match chosen.files {
        Some(Count(0)) => return wrong(&path("files"), "at least one file; leave it out for all"),
        Some(Count(files)) if files > held => {
            let problem = format!("there are {held} files of the class at the beginning (holding)");
            return wrong(&path("files"), &problem);
        }
        _ => {}
    }
    let share_per_mille = per_mille(&path("share"), chosen.share)?;
    if share_per_mille == 0 {
        return wrong(&path("share"), "nothing would be asked for: \"0.1%\" to \"100%\"");
    }
    Ok(Choice {
        files: chosen.files.map(|files| files.0),
        data_sets: chosen.data_sets,
        share_per_mille,
        shuffled: chosen.shuffled,
        tapes: chosen.tapes,
    })
}

/// Files of a class at the beginning.
fn held(site: &Site, class: ClassIndex) -> u64 {
    let of_class = site.holdings.iter().filter(|held| held.class == class);
    of_class.fold(0, |sum, held| sum.saturating_add(held.files))
}

fn campaign(name: &str, form: &Campaign, site: &Site, class: ClassIndex) -> Result<WorkloadKind, Finding> {
    let Campaign {
        class: _,
        begin: _,
        end: _,
        priority: _,
        files,
        data_sets,
        share,
        shuffled,
        tapes,
        window,
    } = form;
    let (data_sets, share, shuffled) = (*data_sets, *share, *shuffled);
    let chosen = Chosen { files: *files, data_sets, share, shuffled, tapes: *tapes };
    Ok(WorkloadKind::Campaign { choice: choice(name, &chosen, site, class)?, window: window.0 })
}

fn carousel(name: &str, form: &Carousel, site: &Site, class: ClassIndex) -> Result<WorkloadKind, Finding> {
    let Carousel {
        class: _,
        begin: _,
        end: _,
        priority: _,
        files,
        data_sets,
        share,
        shuffled,
        tapes,
        part_files,
        overlap,
    } = form;
    let path = |key| ["workload", name, key];
    let (data_sets, share, shuffled) = (*data_sets, *share, *shuffled);
    let chosen = Chosen { files: *files, data_sets, share, shuffled, tapes: *tapes };
    if part_files.0 == 0 {
        return wrong(&path("part_files"), "a part has at least one file");
    }
    Ok(WorkloadKind::Carousel {
        choice: choice(name, &chosen, site, class)?,
        part_files: part_files.0,
        overlap_percent: percent(&path("overlap"), *overlap)?,
    })
}

/// What users and ingest both say.
struct Rhythm {
    per_day: Option<f64>,
    bytes_per_day: Option<Bytes>,
    /// Files at a time.
    files: u32,
    day_swing: Share,
    weekend: Share,
    storms_per_year: f64,
    storm_factor: f64,
    storm_length: Span,
}

fn arrivals(name: &str, rhythm: &Rhythm, site: &Site, class: ClassIndex) -> Result<Arrivals, Finding> {
    let path = |key| ["workload", name, key];
    let size = site.classes.get(usize::from(class.0)).map_or(1.0, |class| class.sizes.mean());
    let (key, per_day) = match (rhythm.per_day, rhythm.bytes_per_day) {
        (Some(per_day), None) => ("per_day", per_day),
        (None, Some(bytes)) => ("bytes_per_day", bytes.as_f64() / (size * f64::from(rhythm.files.max(1)))),
        (None, None) => return missing(&path("per_day")),
        (Some(_), Some(_)) => {
            return wrong(&path("bytes_per_day"), "say either per_day or bytes_per_day, not both");
        }
    };
    if !(per_day > 0.0 && per_day <= PER_DAY_MAX) {
        return wrong(
            &path(key),
            &format!("it comes to {per_day} a day: it is above 0, at most {PER_DAY_MAX}"),
        );
    }
    if !(0.0..=1_000.0).contains(&rhythm.storms_per_year) {
        return wrong(&path("storms_per_year"), "it is 0 to 1000");
    }
    if !(1.0..=10_000.0).contains(&rhythm.storm_factor) {
        return wrong(&path("storm_factor"), "it is 1 to 10000");
    }
    Ok(Arrivals {
        per_day,
        day_swing_percent: percent(&path("day_swing"), rhythm.day_swing)?,
        weekend_percent: percent(&path("weekend"), rhythm.weekend)?,
        storms_per_year: rhythm.storms_per_year,
        storm_factor: rhythm.storm_factor,
        storm_length: span(rhythm.storm_length),
    })
}

macro_rules! rhythm {
    ($form:expr, $files:expr) => {
        Rhythm {
            per_day: $form.per_day,
            bytes_per_day: $form.bytes_per_day,
            files: $files,
            day_swing: $form.day_swing,
            weekend: $form.weekend,
            storms_per_year: $form.storms_per_year,
            storm_factor: $form.storm_factor,
            storm_length: $form.storm_length,
        }
    };
}

fn users(name: &str, form: &Users, site: &Site, class: ClassIndex) -> Result<WorkloadKind, Finding> {
    let path = |key| ["workload", name, key];
    if form.files == 0 {
        return wrong(&path("files"), "a visit is to at least one file");
    }
    if !(0.0..=10.0).contains(&form.popularity) {
        return wrong(&path("popularity"), "it is 0 (all alike) to 10");
    }
    Ok(WorkloadKind::Users {
        arrivals: arrivals(name, &rhythm!(form, form.files), site, class)?,
        files: form.files,
        popularity: form.popularity,
        repeat_per_mille: per_mille(&path("repeat"), form.repeat)?,
    })
}

fn ingest(name: &str, form: &Ingest, site: &Site, class: ClassIndex) -> Result<WorkloadKind, Finding> {
    if form.burst == 0 {
        return wrong(&["workload", name, "burst"], "a burst has at least one file");
    }
    let arrivals = arrivals(name, &rhythm!(form, form.burst), site, class)?;
    Ok(WorkloadKind::Ingest { arrivals, burst: form.burst })
}

fn backup(name: &str, form: &Backup) -> Result<WorkloadKind, Finding> {
    let Backup { class: _, begin: _, end: _, priority: _, period, window, files, restore_at, restore_files } =
        form;
    let path = |key| ["workload", name, key];
    if period.0 < 1_000_000 {
        return wrong(&path("period"), "it is at least \"1s\"");
    }
    if window > period {
        return wrong(&path("window"), "a backup is over before the next one: it is no more than period");
    }
    if files.0 == 0 {
        return wrong(&path("files"), "a backup has at least one file");
    }
    let restore_files = match (restore_at, restore_files) {
        (None, None) => 0,
        (None, Some(_)) => return missing(&path("restore_at")),
        (Some(_), None) => return missing(&path("restore_files")),
        (Some(_), Some(restored)) => restored.0,
    };
    Ok(WorkloadKind::Backup {
        period: span(*period),
        window: span(*window),
        files: files.0,
        restore_at: restore_at.map(span),
        restore_files,
    })
}

/// The most streams of a workload.
const STREAMS_MAX: u32 = 1_000_000;

fn saturate(name: &str, form: &Saturate) -> Result<WorkloadKind, Finding> {
    let path = |key| ["workload", name, key];
    if form.readers == 0 && form.writers == 0 {
        return wrong(&path("readers"), "nobody reads and nobody writes: say readers, writers or both");
    }
    for (key, streams) in [("readers", form.readers), ("writers", form.writers)] {
        limited(&path(key), "streams", u64::from(streams), u64::from(STREAMS_MAX), "STREAMS_MAX")?;
    }
    Ok(WorkloadKind::Saturate { readers: form.readers, writers: form.writers })
}

fn recorded(name: &str, form: &Recorded) -> Result<WorkloadKind, Finding> {
    let Recorded { class: _, begin: _, end: _, priority: _, puts, stages, stage_files } = form;
    let path = |key| ["workload", name, key];
    for (key, times) in [("puts", puts), ("stages", stages)] {
        limited(&path(key), "entries", times.len() as u64, LISTED_MAX as u64, "LISTED_MAX")?;
        if let Some(at) = times.windows(2).position(|pair| pair[0] > pair[1]) {
            let problem = format!("times ascend, and entry {} is before the one in front of it", at + 2);
            return wrong(&path(key), &problem);
        }
    }
    if stages.len() != stage_files.len() {
        let problem = format!("{} numbers for {} stages: one for each", stage_files.len(), stages.len());
        return wrong(&path("stage_files"), &problem);
    }
    if puts.is_empty() && stages.is_empty() {
        return wrong(&path("puts"), "nothing was recorded: say puts, stages or both");
    }
    if let Some(file) = stage_files.iter().find(|file| **file > model::SEQUENCE_MAX) {
        return wrong(&path("stage_files"), &format!("there is no file with the number {file}"));
    }
    let times = |times: &[Span]| times.iter().map(|time| span(*time)).collect::<Vec<Duration>>();
    let stages = times(stages).into_iter().zip(stage_files.iter().copied()).collect();
    Ok(WorkloadKind::Recorded { puts: times(puts), stages })
}

/// All faults.
pub fn faults(forms: &Named<Fault>) -> Result<Vec<model::Fault>, Finding> {
    limited(&["fault"], "faults", forms.0.len() as u64, FAULTS_MAX as u64, "FAULTS_MAX")?;
    let fault = |(name, form): &(String, Fault)| {
        let Fault { kind, every, lasts, begin } = form;
        if every.0 < 1_000_000 {
            return wrong(&["fault", name, "every"], "it is at least \"1s\"");
        }
        let Some(kind) = FaultKind::ALL.into_iter().find(|known| known.name() == kind) else {
            let known = FaultKind::ALL.iter().map(|kind| kind.name().to_owned()).collect();
            let problem = Problem::NotThere { kind: "kind of fault", name: kind.clone(), known };
            return Err(Finding { path: at(&["fault", name, "kind"]), problem });
        };
        Ok(model::Fault { kind, every: span(*every), lasts: span(*lasts), begin: span(*begin) })
    };
    forms.iter().map(fault).collect()
}
