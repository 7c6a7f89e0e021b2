//! A model of a disk with a volatile cache: what a crash may leave of files that calls have changed.
//!
//! Durable is what a sync that has returned was asked for: `fsync` and `fdatasync` of a file keep its
//! bytes and its length, `fsync` of a directory keeps the names in it, a descriptor opened with `O_DSYNC`
//! keeps each write. Everything else is lost, kept or torn at sectors of 512 bytes, each change for
//! itself; growth of a file is lost or kept apart from its bytes. A rename happens or does not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::trace::{Call, Step, Trace, bytes, descriptor, number};
use crate::random::Random;

const SECTOR: usize = 512;

type InodeId = usize;

#[derive(Clone, Debug)]
enum Change {
    Write { offset: u64, bytes: Arc<[u8]> },
    Truncate(u64),
    Zero { offset: u64, length: u64 },
}

#[derive(Clone, Debug)]
struct Pending {
    call: usize,
    returned: bool,
    change: Change,
}

#[derive(Clone, Default, Debug)]
struct Inode {
    durable: Arc<Vec<u8>>,
    pending: Vec<Pending>,
}

/// A change of names: the directory, the name, what it stands for from now on.
#[derive(Clone, Debug)]
struct Naming {
    call: usize,
    returned: bool,
    changes: Vec<(PathBuf, String, Option<InodeId>)>,
}

/// What a sync under way will have made durable when it returns.
#[derive(Clone, Debug)]
enum Sync {
    File(InodeId, Vec<usize>),
    Directory(Vec<usize>),
}

/// What is on the disk and what is on its way.
#[derive(Clone, Debug)]
pub struct Disk {
    root: PathBuf,
    inodes: Vec<Inode>,
    /// What the running system sees.
    seen: BTreeMap<PathBuf, InodeId>,
    /// What is durable.
    named: BTreeMap<PathBuf, InodeId>,
    naming: Vec<Naming>,
    syncs: BTreeMap<usize, Sync>,
    /// Descriptors opened with `O_DSYNC`.
    synchronous: BTreeMap<i64, bool>,
    /// Where each descriptor stands, for writes that do not name a place.
    positions: BTreeMap<i64, u64>,
    /// Calls that the model does not know what to make of.
    pub strange: Vec<String>,
}

/// Files of an image.
pub type Files = BTreeMap<PathBuf, Arc<Vec<u8>>>;

impl Disk {
    /// A disk with these files below `root`, all durable.
    pub fn new(root: &Path, files: &Files) -> Self {
        let mut disk = Disk {
            root: root.to_owned(),
            inodes: Vec::new(),
            seen: BTreeMap::new(),
            named: BTreeMap::new(),
            naming: Vec::new(),
            syncs: BTreeMap::new(),
            synchronous: BTreeMap::new(),
            positions: BTreeMap::new(),
            strange: Vec::new(),
        };
        for (path, bytes) in files {
            disk.named.insert(root.join(path), disk.inodes.len());
            disk.inodes.push(Inode { durable: Arc::clone(bytes), pending: Vec::new() });
        }
        disk.seen = disk.named.clone();
        disk
    }

    /// Takes the next step of a trace.
    pub fn take(&mut self, trace: &Trace, step: Step) {
        match step {
            Step::Begin(call) => self.begin(call, &trace.calls[call]),
            Step::End(call) => self.end(call, &trace.calls[call]),
        }
    }

    fn inode_of(&self, call: &Call) -> Option<(i64, InodeId)> {
        let (fd, path) = descriptor(call.arguments.first()?)?;
        Some((fd, *self.seen.get(Path::new(&path))?))
    }

    fn begin(&mut self, number: usize, call: &Call) {
        match call.name.as_str() {
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" => self.begin_write(number, call),
            "ftruncate" => {
                if let (Some((_, inode)), Some(length)) = (self.inode_of(call), call.arguments.get(1)) {
                    self.change(inode, number, Change::Truncate(self::number(length)));
                }
            }
            "fallocate" => self.begin_fallocate(number, call),
            "fsync" | "fdatasync" => self.begin_sync(number, call),
            "openat" if call.arguments.iter().any(|argument| argument.contains("O_TRUNC")) => {
                if let Some(inode) = self.seen.get(&path_at(call, 0)).copied() {
                    self.change(inode, number, Change::Truncate(0));
                }
            }
            "msync" | "sync_file_range" => self.strange.push(call.name.clone()),
            _ => {}
        }
    }

    fn change(&mut self, inode: InodeId, call: usize, change: Change) {
        self.inodes[inode].pending.push(Pending { call, returned: false, change });
    }

    fn begin_write(&mut self, number: usize, call: &Call) {
        let Some((fd, inode)) = self.inode_of(call) else { return };
        let bytes: Arc<[u8]> = bytes(&call.arguments[1]).into();
        let offset = match call.name.as_str() {
            "write" | "writev" => {
                let position = self.positions.entry(fd).or_default();
                *position += bytes.len() as u64;
                *position - bytes.len() as u64
            }
            _ => self::number(&call.arguments[3]),
        };
        self.change(inode, number, Change::Write { offset, bytes });
    }

    fn begin_fallocate(&mut self, number: usize, call: &Call) {
        let Some((_, inode)) = self.inode_of(call) else { return };
        let [offset, length] = [2, 3].map(|at| self::number(&call.arguments[at]));
        if call.arguments[1].contains("PUNCH_HOLE") {
            self.change(inode, number, Change::Zero { offset, length });
        } else if !call.arguments[1].contains("KEEP_SIZE") {
            self.strange.push("fallocate that makes a file longer".to_owned());
        }
    }

    fn begin_sync(&mut self, number: usize, call: &Call) {
        let Some((_, path)) = call.arguments.first().and_then(|argument| descriptor(argument)) else {
            return;
        };
        let path = PathBuf::from(path);
        if let Some(inode) = self.seen.get(&path) {
            let covered = self.inodes[*inode].pending.iter().filter(|p| p.returned).map(|p| p.call).collect();
            self.syncs.insert(number, Sync::File(*inode, covered));
        } else {
            let of = |naming: &&Naming| naming.returned && naming.changes.iter().any(|(at, ..)| *at == path);
            let covered = self.naming.iter().filter(of).map(|naming| naming.call).collect();
            self.syncs.insert(number, Sync::Directory(covered));
        }
    }

    /// What the running system sees: the model is right if these are the files that are there.
    pub fn seen(&self) -> Files {
        let content = |inode: &Inode| {
            let mut bytes = inode.durable.as_ref().clone();
            inode.pending.iter().for_each(|pending| apply(&mut bytes, &pending.change));
            Arc::new(bytes)
        };
        let relative = |path: &PathBuf| path.strip_prefix(&self.root).map(Path::to_owned).unwrap_or_default();
        self.seen.iter().map(|(path, id)| (relative(path), content(&self.inodes[*id]))).collect()
    }

    fn end(&mut self, number: usize, call: &Call) {
        // The process ended within the call: any part of its effect may have come about.
        if call.is_unfinished() {
            return;
        }
        let failed = call.result.starts_with('-');
        if failed {
            for inode in &mut self.inodes {
                inode.pending.retain(|pending| pending.call != number);
            }
            self.syncs.remove(&number);
            return;
        }
        match call.name.as_str() {
            "openat" => self.end_open(number, call),
            "lseek" => {
                if let Some((fd, _)) = call.arguments.first().and_then(|argument| descriptor(argument)) {
                    self.positions.insert(fd, self::number(&call.result));
                }
            }
            "rename" | "renameat" | "renameat2" => {
                let [from, to] = match call.name.as_str() {
                    "rename" => [0, 1].map(|at| PathBuf::from(text(&call.arguments[at]))),
                    _ => [0, 2].map(|directory| path_at(call, directory)),
                };
                let Some(inode) = self.seen.remove(&from) else { return };
                self.seen.insert(to.clone(), inode);
                self.name(number, &[(&from, None), (&to, Some(inode))]);
            }
            "unlink" | "unlinkat" => {
                let path = match call.name.as_str() {
                    "unlink" => PathBuf::from(text(&call.arguments[0])),
                    _ => path_at(call, 0),
                };
                if self.seen.remove(&path).is_some() {
                    self.name(number, &[(&path, None)]);
                }
            }
            // Directories are there at once: those not made with the instance are made again if missing.
            "mkdir" | "mkdirat" => {}
            "fsync" | "fdatasync" => self.end_sync(number),
            _ => self.end_write(number, call),
        }
    }

    fn end_open(&mut self, number: usize, call: &Call) {
        let flags = call.arguments.get(2).cloned().unwrap_or_default();
        let Some((fd, path)) = descriptor(&call.result) else { return };
        self.synchronous.insert(fd, flags.contains("O_DSYNC") || flags.contains("O_SYNC"));
        self.positions.insert(fd, 0);
        let path = PathBuf::from(path);
        let inside = path.starts_with(&self.root) && !path.ends_with("lock.mdb");
        if inside && flags.contains("O_CREAT") && !self.seen.contains_key(&path) {
            let inode = self.inodes.len();
            self.inodes.push(Inode::default());
            self.seen.insert(path.clone(), inode);
            self.name(number, &[(&path, Some(inode))]);
        }
        self.returned(number);
    }

    fn name(&mut self, call: usize, changes: &[(&Path, Option<InodeId>)]) {
        let change = |(path, inode): &(&Path, Option<InodeId>)| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            (path.parent().unwrap_or(Path::new("/")).to_owned(), name, *inode)
        };
        let changes = changes.iter().map(change).collect();
        self.naming.push(Naming { call, returned: true, changes });
    }

    fn returned(&mut self, call: usize) {
        for pending in self.inodes.iter_mut().flat_map(|inode| &mut inode.pending) {
            pending.returned |= pending.call == call;
        }
    }

    fn end_write(&mut self, number: usize, call: &Call) {
        let Some((fd, inode)) = self.inode_of(call) else { return };
        let is_synchronous = self.synchronous.get(&fd).copied().unwrap_or(false);
        for pending in &mut self.inodes[inode].pending {
            pending.returned |= pending.call == number;
        }
        if is_synchronous {
            self.keep(inode, &[number]);
        }
    }

    fn end_sync(&mut self, number: usize) {
        match self.syncs.remove(&number) {
            Some(Sync::File(inode, covered)) => self.keep(inode, &covered),
            Some(Sync::Directory(covered)) => {
                for naming in std::mem::take(&mut self.naming) {
                    if covered.contains(&naming.call) {
                        apply_naming(&mut self.named, &naming);
                    } else {
                        self.naming.push(naming);
                    }
                }
            }
            None => {}
        }
    }

    /// Makes changes of a file durable.
    fn keep(&mut self, inode: InodeId, calls: &[usize]) {
        let inode = &mut self.inodes[inode];
        let mut durable = std::mem::take(&mut inode.durable);
        let bytes = Arc::make_mut(&mut durable);
        inode.pending.retain(|pending| {
            let covered = calls.contains(&pending.call);
            if covered {
                apply(bytes, &pending.change);
            }
            !covered
        });
        inode.durable = durable;
    }

    /// Files as a crash at this moment may leave them, and whether anything was lost.
    pub fn image(&self, random: &mut Random) -> (Files, bool) {
        let (mut named, mut lossy) = (self.named.clone(), false);
        // Everything, nothing, up to a point in order, or each for itself.
        let mode = random.below(5);
        let upto = random.below(self.naming.len() as u64 + 1) as usize;
        for (at, naming) in self.naming.iter().enumerate() {
            let kept = match mode {
                0 => true,
                1 => false,
                2 => at < upto,
                _ => random.one_in(2),
            };
            if kept {
                apply_naming(&mut named, naming);
            }
            lossy |= !kept;
        }
        let mode = random.below(5);
        let mut files = Files::new();
        for (path, id) in named {
            let inode = &self.inodes[id];
            let content = if inode.pending.is_empty() {
                Arc::clone(&inode.durable)
            } else {
                let (content, lost) = inode.after_crash(mode, random);
                lossy |= lost;
                Arc::new(content)
            };
            let relative = path.strip_prefix(&self.root).map(Path::to_owned);
            if let Ok(relative) = relative {
                files.insert(relative, content);
            }
        }
        (files, lossy)
    }
}

impl Inode {
    fn after_crash(&self, mode: u64, random: &mut Random) -> (Vec<u8>, bool) {
        let (mut bytes, mut lost) = (self.durable.as_ref().clone(), false);
        for pending in &self.pending {
            let choice = match mode {
                0 => 0,
                1 => 1,
                _ => random.below(3),
            };
            match (choice, &pending.change) {
                (0, change) => apply(&mut bytes, change),
                (2, Change::Write { offset, bytes: written }) => {
                    lost = true;
                    tear(&mut bytes, *offset, written, random);
                }
                _ => lost = true,
            }
        }
        // The length is kept apart from the bytes: growth may be lost, whatever was written there.
        if mode > 1 && bytes.len() > self.durable.len() && random.one_in(6) {
            bytes.truncate(self.durable.len());
            lost = true;
        }
        (bytes, lost)
    }
}

fn apply_naming(named: &mut BTreeMap<PathBuf, InodeId>, naming: &Naming) {
    for (directory, name, inode) in &naming.changes {
        let path = directory.join(name);
        match inode {
            Some(inode) => named.insert(path, *inode),
            None => named.remove(&path),
        };
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, bytes: written } => put(bytes, *offset as usize, written),
        Change::Truncate(length) => bytes.resize(*length as usize, 0),
        Change::Zero { offset, length } => {
            let (from, to) = (*offset as usize, (offset + length) as usize);
            let to = to.min(bytes.len());
            if from < to {
                bytes[from..to].fill(0);
            }
        }
    }
}

fn put(bytes: &mut Vec<u8>, offset: usize, written: &[u8]) {
    if bytes.len() < offset + written.len() {
        bytes.resize(offset + written.len(), 0);
    }
    bytes[offset..offset + written.len()].copy_from_slice(written);
}

/// Writes some of the sectors, whole.
fn tear(bytes: &mut Vec<u8>, offset: u64, written: &[u8], random: &mut Random) {
    let end = offset as usize + written.len();
    let mut at = offset as usize;
    // Some devices write in order and stop, others in any order.
    let in_order = random.one_in(2);
    let sectors = written.len().div_ceil(SECTOR) as u64;
    let stop = at + SECTOR * random.below(sectors + 1) as usize;
    while at < end {
        let next = ((at / SECTOR + 1) * SECTOR).min(end);
        let kept = if in_order { at < stop } else { random.one_in(2) };
        if kept {
            put(bytes, at, &written[at - offset as usize..next - offset as usize]);
        }
        at = next;
    }
}

fn text(argument: &str) -> String {
    String::from_utf8_lossy(&bytes(argument)).into_owned()
}

fn path_at(call: &Call, directory: usize) -> PathBuf {
    let argument = |at: usize| call.arguments.get(at).map(String::as_str).unwrap_or_default();
    let directory_path = descriptor(argument(directory)).map(|(_, path)| path).unwrap_or_default();
    Path::new(&directory_path).join(text(argument(directory + 1)))
}
