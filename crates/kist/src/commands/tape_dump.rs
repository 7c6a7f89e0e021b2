//! `kist tape dump`: the records of a virtual cartridge, read without server, library or catalogue.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use base::Vid;
use config::CONFIG_FILE;
use library::{CartridgeReader, RecordCheck, RecordInfo, RecordKind};
use serde::Serialize;
use terminal::{Exit, Failure, Outcome, output};

use crate::cli::Common;
use crate::instance::Instance;

/// Bytes of a record's header in the record file (docs/format/virtual-cartridge.md).
const FRAME_HEADER_BYTES: u64 = 64;

/// A line of the dump.
#[derive(Serialize)]
struct Line {
    partition: String,
    block: u64,
    count: u64,
    kind: &'static str,
    length: u64,
    check: &'static str,
}

/// Lists the records of `vid`; with `directory` writes each to a file there.
pub fn run(vid: &str, directory: Option<&Path>, common: &Common) -> Outcome {
    let vid = Vid::new(vid).map_err(|error| Failure::usage(error.to_string()))?;
    let cartridge = cartridge_directory(vid, common)?;
    let failed = |error: library::CartridgeError| {
        let message = match error {
            library::CartridgeError::Locked { .. } => format!(
                "cartridge {vid} is in a drive of the running server: try again when the drive has been idle \
                 for the dismount delay (tape.dismount_delay in {CONFIG_FILE}), or stop the server"
            ),
            library::CartridgeError::File { path, source, .. }
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                format!(
                    "cartridge {vid}: {} is missing: bring it back from a copy of the directory, or take the \
                     cartridge out of the library and restart the server; what it held is read from other \
                     copies",
                    path.display()
                )
            }
            error => format!("cartridge {vid}: {error}"),
        };
        Failure::new(Exit::Refused, message)
    };
    if !cartridge.is_dir() {
        return Err(Failure::new(
            Exit::NotFound,
            format!("{}: there is no such cartridge", cartridge.display()),
        ));
    }
    let reader = CartridgeReader::open(&cartridge).map_err(failed)?;
    if let Some(directory) = directory {
        make(directory)?;
    }
    let mut json = if common.json { Some(output::JsonArray::begin()?) } else { None };
    if json.is_none() {
        output::line("partition         block  kind        length  check")?;
    }
    let mut outcome = Ok(());
    let mut damaged = 0u64;
    let visited = reader.visit(|record| {
        damaged += u64::from(record.check != RecordCheck::Good);
        outcome = show(&record, json.as_mut()).and_then(|()| match directory {
            Some(directory) if record.kind == RecordKind::Data => save(&cartridge, &record, directory),
            _ => Ok(()),
        });
        outcome.is_ok()
    });
    visited.map_err(failed)?;
    outcome?;
    if let Some(json) = json {
        json.end()?;
    }
    match damaged {
        0 => Ok(()),
        _ => Err(Failure::new(Exit::Differs, format!("cartridge {vid}: {damaged} damaged places"))),
    }
}

/// Makes the directory if it is not there, but none above it: a path with a mistake in it is refused.
fn make(directory: &Path) -> Outcome {
    match fs::create_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && directory.is_dir() => Ok(()),
        made => made.map_err(|error| Failure::io("making the directory", directory, &error)),
    }
}

fn cartridge_directory(vid: Vid, common: &Common) -> Outcome<PathBuf> {
    let instance = Instance::local(&common.connection)?;
    let config =
        config::load(&instance.path(CONFIG_FILE)).map_err(|error| Failure::usage(error.to_string()))?;
    let settings = config.settings(&instance.directory);
    let libraries = std::iter::once(&settings.library).chain(&settings.more_libraries);
    let places: Vec<PathBuf> = libraries
        .filter_map(|library| Some(library.files()?.directory.join("cartridges").join(vid.as_str())))
        .collect();
    let found = places.iter().find(|directory| directory.is_dir()).or(places.first());
    found.cloned().ok_or_else(|| {
        Failure::usage(
            "a cartridge is read as files only where a library is made of them (kind = \"virtual\")",
        )
    })
}

fn show(record: &RecordInfo, json: Option<&mut output::JsonArray>) -> Outcome {
    let line = Line {
        partition: record.partition.ltfs_id().to_string(),
        block: record.block.0,
        count: record.count.0,
        kind: match record.kind {
            RecordKind::Data => "record",
            RecordKind::Encrypted => "encrypted",
            RecordKind::FileMark => "file mark",
            RecordKind::Unknown => "unknown",
        },
        length: record.length.0,
        check: match record.check {
            RecordCheck::Good => "good",
            RecordCheck::PayloadDamaged => "payload damaged",
            RecordCheck::HeaderDamaged => "header damaged",
        },
    };
    match json {
        Some(json) => json.push(&line),
        None => output::line(&format!(
            "{:<9}  {:>12}  {:<9}  {:>8}  {}",
            line.partition, line.block, line.kind, line.length, line.check
        )),
    }
}

fn save(cartridge: &Path, record: &RecordInfo, directory: &Path) -> Outcome {
    let partition = record.partition.ltfs_id();
    let from = cartridge.join(format!("partition-{partition}.rec"));
    let to = directory.join(format!("{partition}-{:012}.record", record.block.0));
    let copy = || {
        let mut file = File::open(&from)?;
        file.seek(SeekFrom::Start(record.offset.0 + FRAME_HEADER_BYTES))?;
        std::io::copy(&mut file.take(record.length.0), &mut File::create(&to)?).map(drop)
    };
    copy().map_err(|error| Failure::io("copying the record to", &to, &error))
}
