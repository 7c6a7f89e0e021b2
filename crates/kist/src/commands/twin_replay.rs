//! `kist twin replay`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ::twin::world::MountKind;
use archive::{
    AccessLog as _, AccessLogFiles, DriveFitFile, DriveFitRecord, LibrarySettings, MachineTimes,
    MountLog as _, MountLogFiles, Settings, TimingSettings,
};
use base::Timestamp;
use config::CONFIG_FILE;
use replay::{Machines, RecordedMount, Recorder, Replay, Server, ServerLibrary};
use scenario::model::{ClassModel, GatherBy, LibraryIndex, SizeLaw, TapePoolModel, TapeWork};
use serde_json::json;
use terminal::{Exit, Failure, Outcome, output, text};

use super::twin_replay_set::Change;
use crate::cli::Common;
use crate::instance::{Instance, LOG_DIRECTORY};

/// An index has so many bytes for each file that it names.
const INDEX_BYTES_A_FILE: u64 = 700;

/// Machines in the place of those of a library without timing: so fast that only the server's own rules take
/// time, as they did.
const UNTIMED: (&str, f64) = ("LTO-9", 1_000.0);

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
DIR is an instance: its kist.toml and its logs are read, nothing is written, and its
server may run meanwhile. Puts, requests for what was on tape, and evictions are told
to the scheduler again, at their times, over modelled drives; tapes and files stand
where they stood. Real drives are modelled by what their locates took, if they told
(kist drive show). Times are those of the server's clock. Of a library without timing,
counts, bytes, mounts and their order are compared, and no times.

With --set, what would have been: drives=N, drive=MODEL, robots=N, recall_age,
recall_bytes, recall_files, dismount_delay, remount_delay, mount_age, mount_bytes,
starvation, mounts_at_once, recall_drives_max, migration_drives_max.

Examples:
  kist twin replay /srv/kist --since 30d
  kist twin replay /srv/kist --since 30d --set drives=8
  kist twin replay /srv/kist --since 2026-10-01T00:00:00Z --until 2026-11-01T00:00:00Z --json")]
pub struct Args {
    /// The instance
    dir: PathBuf,
    /// From when on: a time like 2026-10-01T00:00:00Z, or a span back from now like 30d; without it: all
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Until when
    #[arg(long, value_name = "WHEN")]
    until: Option<String>,
    /// Change a setting of the server: what would have been
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = Change::parse)]
    changes: Vec<Change>,
    /// Write index.html and replay.json there
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let now = text::now();
    let since = args.since.as_deref().map(|text| when(text, now)).transpose()?.unwrap_or(Timestamp(0));
    let until = args.until.as_deref().map(|text| when(text, now)).transpose()?;
    let until = until.unwrap_or(Timestamp(i64::MAX));
    let instance = Instance::open(&args.dir)?;
    let config = config::load(&instance.path(CONFIG_FILE)).map_err(|error| {
        Failure::usage(format!("the settings of the server are not to be understood: {error}"))
    })?;
    let mut settings = config.settings(&instance.directory);
    let own_policy = settings.policy().map_err(|error| Failure::usage(error.to_string()))?;
    let was_timed: Vec<bool> = libraries(&settings).map(|library| library.timing().is_some()).collect();
    for change in &args.changes {
        change.make(&mut settings)?;
    }
    let logs = instance.path(LOG_DIRECTORY);
    let fits = drive_fits(&logs);
    let server = server(&settings, &was_timed, &fits)?;
    let mut recorder = Recorder::new(since, until);
    let access_log = AccessLogFiles::new(&logs);
    let failed = |error: std::io::Error| Failure::io("reading the access log", &logs, &error);
    // Lines between those of state and `since` tell how the tapes stood then.
    let mut from = since;
    access_log.read(since, since, &mut |access| from = from.min(access.at)).map_err(failed)?;
    let met = access_log.read(from, until, &mut |access| recorder.push(access)).map_err(failed)?;
    recorder.lost(met.damaged, met.newer);
    let mut mounts = Vec::new();
    let read = MountLogFiles::new(&logs).read(since, &mut |record| {
        if record.ordered >= since && record.ordered < until {
            mounts.push(recorded(record));
        }
    });
    let met = read.map_err(|error| Failure::io("reading the log of mounts", &logs, &error))?;
    recorder.lost(met.damaged, met.newer);
    replay::find_forced(&mut mounts, &own_policy);
    let record = recorder.finish();
    if mounts.is_empty() {
        // Figures of nothing would pass for a finding.
        let logs = logs.display();
        if record.begin().is_none() {
            let message =
                format!("nothing was recorded in {logs} in that time: no put, no request, no mount");
            return Err(Failure::new(Exit::NotFound, message));
        }
        output::note(&format!("no mount was recorded in {logs} in that time: there is none to compare with"));
    }
    let replay = replay::replay(&server, &record, &mounts)
        .map_err(|error| Failure::new(Exit::Refused, error.to_string()))?;
    if let Some(directory) = &args.report {
        write_report(directory, args, &replay)?;
    }
    if common.json {
        output::json(&as_json(args, &replay))?;
    } else {
        output::write(&written(args, &replay))?;
    }
    match &replay.outcome.violation {
        None => Ok(()),
        Some(violation) => {
            Err(Failure::internal(format!("the twin contradicts itself, please report it: {violation}")))
        }
    }
}

/// A time, or a span back from now.
fn when(given: &str, now: Timestamp) -> Outcome<Timestamp> {
    let back = |span: Duration| {
        let nanos = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        Timestamp(now.0.saturating_sub(nanos))
    };
    text::parse_rfc3339(given).or_else(|| text::parse_span(given).map(back)).ok_or_else(|| {
        Failure::usage(format!(
            "'{given}' is no time: write 2026-10-01T00:00:00Z, or a span back from now, 30d"
        ))
    })
}

fn libraries(settings: &Settings) -> impl Iterator<Item = &LibrarySettings> {
    std::iter::once(&settings.library).chain(&settings.more_libraries)
}

/// What the locates of the server's drives said of them. What cannot be read is told and left out.
fn drive_fits(logs: &Path) -> Vec<DriveFitRecord> {
    let file = DriveFitFile::new(logs);
    let path = file.path().display();
    match file.read() {
        Ok(fits) => {
            let passed = fits.damaged + fits.newer;
            if passed > 0 {
                output::note(&format!(
                    "{passed} lines of {path} are damaged or of a newer kist: passed over"
                ));
            }
            fits.records
        }
        Err(error) => {
            output::note(&format!("{path} cannot be read ({error}): drives are as their models say"));
            Vec::new()
        }
    }
}

/// The server that these settings make. `was_timed`: whether the machines of each library took time when it
/// was recorded.
fn server(settings: &Settings, was_timed: &[bool], fits: &[DriveFitRecord]) -> Outcome<Server> {
    let refused = |error: archive::OpenError| Failure::usage(error.to_string());
    let libraries: Vec<&LibrarySettings> = libraries(settings).collect();
    let mut known = Vec::with_capacity(libraries.len());
    for (library, was_timed) in libraries.iter().zip(was_timed) {
        let (drive, scale) = UNTIMED;
        let untimed = TimingSettings { drive: drive.to_owned(), scale, robots: 1 };
        let timing = library.timing().unwrap_or(&untimed);
        let measured = MachineTimes::measured(library, fits);
        let machines = match (was_timed, library.timing(), &measured) {
            (true, ..) | (false, None, Some(_)) => Machines::Timed,
            (false, None, None) => Machines::Untimed,
            (false, Some(_), _) => Machines::Supposed,
        };
        if let Some(MachineTimes { drive, .. }) = &measured {
            let (library, model) = (&library.name, &drive.name);
            output::note(&format!("drives of {library} are as {model}, fitted to what their locates took"));
        }
        let times = measured.map_or_else(|| MachineTimes::of(timing).map_err(refused), Ok)?;
        let MachineTimes { drive, robot, geometry } = times;
        known.push(ServerLibrary {
            name: library.name.clone(),
            drives: u32::from(library.drives()),
            timing: drive,
            robots: robot,
            geometry,
            machines,
        });
    }
    let tape_pools = settings.tape_pools.iter().map(|pool| {
        let library = pool.library.as_ref();
        let of = library.and_then(|name| libraries.iter().position(|library| library.name == *name));
        TapePoolModel { name: pool.name.clone(), library: LibraryIndex(of.unwrap_or(0) as u16) }
    });
    let classes = settings.classes.iter().map(|class| ClassModel {
        name: class.name.clone(),
        copies: class
            .copies
            .iter()
            .filter_map(|name| settings.tape_pools.iter().position(|pool| pool.name == *name))
            .map(|at| at as u16)
            .collect(),
        sizes: SizeLaw::Fixed(1),
        large: class.large_bytes,
        pack: class.pack_bytes,
        recall_packs: class.recall_packs,
        residency: Duration::ZERO,
        pool_max: class.pool_max,
        data_set_files: 1,
        gather: GatherBy::Class,
    });
    let (recall_batch, replan) = settings.recall_rhythm();
    Ok(Server {
        libraries: known,
        tape_pools: tape_pools.collect(),
        classes: classes.collect(),
        policy: settings.policy().map_err(refused)?,
        work: TapeWork {
            flush_bytes: settings.tape.flush_bytes,
            flush_age: settings.tape.flush_age,
            index_bytes: settings.tape.index_bytes,
            index_bytes_a_file: INDEX_BYTES_A_FILE,
            flush_each_file: false,
            recall_batch,
            replan,
        },
    })
}

fn recorded(mount: archive::MountRecord) -> RecordedMount {
    RecordedMount {
        drive: mount.drive,
        vid: mount.vid,
        kind: match mount.kind {
            archive::MountKind::Migrate => Some(MountKind::Migrate),
            archive::MountKind::Recall => Some(MountKind::Recall),
            archive::MountKind::Maintain | archive::MountKind::Recover => None,
        },
        ordered: mount.ordered,
        ready: mount.ready,
        unmounting: mount.unmounting,
        unmounted: mount.unmounted,
        is_failed: mount.failed.is_some(),
        tape_pool: mount.tape_pool,
        queued: mount.queue.bytes,
        oldest: mount.queue.oldest,
        is_forced: false,
    }
}

fn title(args: &Args, replay: &Replay) -> String {
    let mut title = format!("replay of {} from {}", args.dir.display(), text::rfc3339(replay.begin));
    let changes: Vec<String> = args.changes.iter().map(ToString::to_string).collect();
    if !changes.is_empty() {
        title.push_str(&format!(", with {}", changes.join(", ")));
    }
    title
}

fn written(args: &Args, replay: &Replay) -> String {
    format!("{}\n\n{}", title(args, replay), replay::text(replay))
}

fn as_json(args: &Args, replay: &Replay) -> serde_json::Value {
    let changes: Vec<String> = args.changes.iter().map(ToString::to_string).collect();
    json!({
        "begin": text::rfc3339(replay.begin),
        "changes": changes,
        "replay": replay,
    })
}

fn write_report(directory: &Path, args: &Args, replay: &Replay) -> Outcome {
    fs::create_dir_all(directory)
        .map_err(|error| Failure::io("making the report's directory", directory, &error))?;
    let write = |name: &str, text: &str| {
        let file = directory.join(name);
        fs::write(&file, text).map_err(|error| Failure::io("writing the report", &file, &error))
    };
    let described = report::Described {
        title: title(args, replay),
        text: String::new(),
        parameters: Vec::new(),
        source: String::new(),
        left_out: Vec::new(),
    };
    let page = report::html(&described, &[vec![replay.outcome.clone()]]);
    // The title is escaped, so this is the end of the page's only heading of that kind.
    let table = format!("</h1>\n{}", replay::html(replay));
    write("index.html", &page.replacen("</h1>\n", &table, 1))?;
    let figures = serde_json::to_string(&as_json(args, replay))
        .map_err(|error| Failure::internal(error.to_string()))?;
    write("replay.json", &(figures + "\n"))
}
