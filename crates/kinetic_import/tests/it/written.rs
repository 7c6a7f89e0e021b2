//! Clusters as `tests/kineticio/libkineticio_writer.py` writes them, and drives in memory that hold them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use kinetic::KeyRange;
use kinetic_import::{Cluster, Drives, FileStream, ImportError, ReadReport};
use kineticio::{ClusterDefinition, Document, DriveIndex, Entry, FirstDrive, Found, read_documents};

const WRITER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/kineticio/libkineticio_writer.py");

/// Files that are as redundant as they can be.
pub fn is_whole(path: &str) -> bool {
    !path.contains("handed-off") && !path.contains("outdated")
}

pub type Content = Vec<BTreeMap<Bytes, Entry>>;

/// What was written.
#[derive(Clone)]
pub struct Written {
    pub definition: ClusterDefinition,
    pub drives: Arc<Content>,
    /// Path and bytes.
    pub files: Vec<(String, Vec<u8>)>,
    pub attributes: Vec<(String, String, String)>,
}

/// Geometry as the writer takes it.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    pub data: usize,
    pub parity: usize,
    pub chunk_kib: usize,
    pub drives: usize,
    pub first: FirstDrive,
}

/// The sizes about which mistakes are made.
pub const SIZES: [&str; 6] = ["0", "1", "1b-1", "1b", "1b+1", "3b+7"];

impl Geometry {
    pub fn write(self, sizes: &[&str]) -> Written {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path();
        let first = usize::from(self.first == FirstDrive::AfterHash);
        let mut numbers = vec![self.data, self.parity, self.chunk_kib, self.drives, first];
        let numbers = numbers.drain(..).map(|number| number.to_string());
        let mut command = Command::new("python3");
        command.arg("-B").arg(WRITER).arg(out).args(numbers).args(sizes);
        let status = command.status().unwrap();
        assert!(status.success());
        Written::read(out)
    }
}

fn part<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let length = number(rest) as usize;
    let (part, after) = rest.split_at(length);
    *rest = after;
    part
}

fn number(rest: &mut &[u8]) -> u32 {
    let (number, after) = rest.split_first_chunk().unwrap();
    *rest = after;
    u32::from_be_bytes(*number)
}

impl Written {
    fn read(out: &Path) -> Written {
        let text = std::fs::read_to_string(out.join("cluster.json")).unwrap();
        let document = Document { name: "cluster.json", text: &text };
        let definition = read_documents(document, document, document).unwrap().remove(0);
        let mut drives = vec![BTreeMap::new(); definition.drives.len()];
        let raw = std::fs::read(out.join("drives.bin")).unwrap();
        let mut rest = raw.as_slice();
        while !rest.is_empty() {
            let drive = number(&mut rest) as usize;
            let copied = |bytes: &[u8]| Bytes::copy_from_slice(bytes);
            let key = copied(part(&mut rest));
            let (version, tag) = (copied(part(&mut rest)), copied(part(&mut rest)));
            assert_eq!(number(&mut rest), 6, "declared as CRC32");
            let value = copied(part(&mut rest));
            drives[drive].insert(key, Entry { version, tag, value });
        }
        let lines = |name| std::fs::read_to_string(out.join(name)).unwrap();
        let file = |line: &str| {
            let (path, name) = line.split_once('\t').unwrap();
            (path.to_owned(), std::fs::read(out.join("files").join(name)).unwrap())
        };
        let attribute = |line: &str| {
            let parts: Vec<&str> = line.split('\t').collect();
            (parts[0].to_owned(), parts[1].to_owned(), parts[2].to_owned())
        };
        Written {
            definition,
            drives: Arc::new(drives),
            files: lines("paths").lines().map(file).collect(),
            attributes: lines("attributes").lines().map(attribute).collect(),
        }
    }

    /// The cluster with these drives away.
    pub fn open(&self, first: Option<FirstDrive>, away: &[usize]) -> Result<Arc<Cluster>, ImportError> {
        let drives = Memory { content: Arc::clone(&self.drives), away: away.iter().copied().collect() };
        Cluster::open(&self.definition, Box::new(drives), first)
    }

    /// Changes what stands on the drives.
    pub fn change(&mut self, change: impl FnOnce(&mut Content)) {
        change(Arc::make_mut(&mut self.drives));
    }

    pub fn bytes(&self, path: &str) -> &[u8] {
        &self.files.iter().find(|(known, _)| known == path).unwrap().1
    }
}

/// Drives in memory.
struct Memory {
    content: Arc<Content>,
    away: BTreeSet<usize>,
}

impl Drives for Memory {
    fn count(&self) -> usize {
        self.content.len()
    }

    fn get(&self, drive: DriveIndex, key: &Bytes, with_value: bool) -> Found {
        if self.away.contains(&drive.0) {
            return Found::Failed("away".to_owned());
        }
        match self.content[drive.0].get(key) {
            None => Found::Nothing,
            Some(entry) if with_value => Found::Entry(entry.clone()),
            Some(entry) => Found::Entry(Entry { value: Bytes::new(), ..entry.clone() }),
        }
    }

    fn key_range(&self, drive: DriveIndex, range: &KeyRange) -> Found {
        if self.away.contains(&drive.0) {
            return Found::Failed("away".to_owned());
        }
        // As the simulator's, so that lists have several pages.
        let most = range.max_returned.min(7) as usize;
        let inside = self.content[drive.0].range(range.start.clone()..).map(|(key, _)| key);
        let inside = inside.take_while(|key| *key <= &range.end).filter(|key| range.has(key)).cloned();
        Found::Keys(match range.reverse {
            false => inside.take(most).collect(),
            true => {
                let all: Vec<Bytes> = inside.collect();
                all.into_iter().rev().take(most).collect()
            }
        })
    }
}

pub fn list(cluster: &Cluster) -> Vec<String> {
    let mut paths = Vec::new();
    let mut each = |path: &[u8]| {
        paths.push(String::from_utf8(path.to_vec()).unwrap());
        ControlFlow::Continue(())
    };
    cluster.list(b"", &mut each).unwrap();
    paths
}

/// Reads a file as a stream, in pieces that do not fit blocks.
pub fn read(cluster: &Arc<Cluster>, path: &str) -> Result<(Vec<u8>, ReadReport), ImportError> {
    let info = cluster.stat(path.as_bytes())?;
    let size = info.size;
    let mut stream = FileStream::open(cluster, path.as_bytes(), info)?;
    let (mut bytes, mut piece) = (Vec::new(), vec![0; 100_003]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(_) => return Err(stream.failure().unwrap().clone()),
        }
    }
    assert_eq!(bytes.len() as u64, size, "{path}");
    Ok((bytes, stream.report().clone()))
}

/// All sets of at most so many of `count`.
pub fn sets(count: usize, most: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    let mut last = all.clone();
    for _ in 0..most {
        let longer = |set: &Vec<usize>| {
            let from = set.last().map_or(0, |last| last + 1);
            (from..count).map(|next| [set.as_slice(), &[next]].concat()).collect::<Vec<_>>()
        };
        last = last.iter().flat_map(longer).collect();
        all.extend(last.iter().cloned());
    }
    all
}

/// Counts calls of a closure from several places.
#[derive(Default)]
pub struct Count(Mutex<usize>);

impl Count {
    pub fn add(&self) {
        *self.0.lock().unwrap() += 1;
    }

    pub fn get(&self) -> usize {
        *self.0.lock().unwrap()
    }
}
