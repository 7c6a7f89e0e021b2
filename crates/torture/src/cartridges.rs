//! What stands on tapes, read by a program that shares no code with Kist.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::process::Command;

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
}

/// All files of one cartridge, each as often as it stands there.
///
/// # Errors
/// If anything on it is wrong.
pub fn list(cartridge: &Path, scratch: &Path) -> io::Result<Vec<TapeFile>> {
    let output = Command::new("python3").arg(SCRIPT).arg(cartridge).arg(scratch).output()?;
    match output.status.code() {
        Some(0) => {}
        Some(BLANK) => return Ok(Vec::new()),
        _ => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(io::Error::other(format!("{}: {text}", cartridge.display())));
        }
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |line: &str| {
        let value: Value = serde_json::from_str(line).map_err(io::Error::other)?;
        let number = |key: &str| value[key].as_u64().ok_or_else(|| io::Error::other(line.to_owned()));
        let path = value["path"].as_str().unwrap_or_default().to_owned();
        Ok(TapeFile { id: number("id")?, path, length: number("length")? })
    };
    text.lines().map(line).collect()
}

/// How often each file stands on the tapes of each tape pool, by file id; `pools` says whose a cartridge is.
///
/// # Errors
/// If anything on any of them is wrong.
pub fn copies(
    library: &Path,
    pools: &BTreeMap<String, String>,
    scratch: &Path,
) -> io::Result<BTreeMap<u64, BTreeMap<String, Vec<TapeFile>>>> {
    let mut copies: BTreeMap<u64, BTreeMap<String, Vec<TapeFile>>> = BTreeMap::new();
    for (vid, pool) in pools {
        for file in list(&library.join("cartridges").join(vid), scratch)? {
            copies.entry(file.id).or_default().entry(pool.clone()).or_default().push(file);
        }
    }
    Ok(copies)
}
