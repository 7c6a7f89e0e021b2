//! What stands on tapes, read by a program that shares no code with Kist.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/openness/list_files.py");
/// What the script exits with if nothing was ever written to a cartridge.
const BLANK: i32 = 3;

/// A file on a tape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TapeFile {
    /// Its id.
    pub id: u64,
    /// The path that it had.
    pub path: String,
    /// Its length.
    pub length: u64,
    /// The cartridge.
    pub vid: String,
}

/// What was read of tapes.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Reading {
    /// Tapes that were not blank.
    pub tapes: u64,
    /// Their indexes, from the newest to the first.
    pub indexes: u64,
    /// Archives of small files.
    pub packs: u64,
    /// Bytes of files and archives, each read and compared with its Adler-32.
    pub bytes: u64,
}

impl Reading {
    fn add(&mut self, other: Reading) {
        self.tapes += other.tapes;
        self.indexes += other.indexes;
        self.packs += other.packs;
        self.bytes += other.bytes;
    }
}

/// All files of one cartridge, each as often as it stands there.
///
/// # Errors
/// If anything on it is wrong.
pub fn list(cartridge: &Path) -> io::Result<(Vec<TapeFile>, Reading)> {
    let output = Command::new("python3").arg(SCRIPT).arg(cartridge).output()?;
    match output.status.code() {
        Some(0) => {}
        Some(BLANK) => return Ok((Vec::new(), Reading::default())),
        _ => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(format!("{}: {text}", cartridge.display())));
        }
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let vid = cartridge.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (mut files, mut reading) = (Vec::new(), None);
    for line in text.lines() {
        let value: Value = serde_json::from_str(line).map_err(io::Error::other)?;
        let number = |value: &Value, key: &str| {
            value[key].as_u64().ok_or_else(|| io::Error::other(format!("no {key}: {line}")))
        };
        if let Some(read) = value.get("read") {
            let [indexes, packs, bytes] = ["indexes", "packs", "bytes"].map(|key| number(read, key));
            reading = Some(Reading { tapes: 1, indexes: indexes?, packs: packs?, bytes: bytes? });
        } else {
            let path = value["path"].as_str().unwrap_or_default().to_owned();
            let (id, length) = (number(&value, "id")?, number(&value, "length")?);
            files.push(TapeFile { id, path, length, vid: vid.clone() });
        }
    }
    let reading = reading
        .ok_or_else(|| io::Error::other(format!("{}: the list of files has no end", cartridge.display())))?;
    Ok((files, reading))
}

/// How often each file stands on the tapes of each tape pool, by file id.
pub type Copies = BTreeMap<u64, BTreeMap<String, Vec<TapeFile>>>;

/// Reads all these cartridges, several at once; `pools` says whose a cartridge is.
///
/// # Errors
/// If anything on any of them is wrong.
pub fn copies(library: &Path, pools: &BTreeMap<String, String>) -> io::Result<(Copies, Reading)> {
    let cartridges: Vec<(&String, &String)> = pools.iter().collect();
    let (next, found) = (AtomicUsize::new(0), Mutex::new((Copies::new(), Reading::default())));
    let work = || -> io::Result<()> {
        while let Some((vid, pool)) = cartridges.get(next.fetch_add(1, Ordering::SeqCst)) {
            let (files, reading) = list(&library.join("cartridges").join(vid))?;
            let (copies, sum) = &mut *found.lock().unwrap_or_else(PoisonError::into_inner);
            sum.add(reading);
            for file in files {
                copies.entry(file.id).or_default().entry((*pool).clone()).or_default().push(file);
            }
        }
        Ok(())
    };
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(io::Error::other("a reader of tapes panicked")))
        })
    })?;
    Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
}
