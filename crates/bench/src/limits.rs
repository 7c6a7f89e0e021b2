//! What the machine itself gives, measured in the same run.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use terminal::{Failure, Outcome};

use super::rows::Row;

/// Bytes of a buffer.
const BUFFER_BYTES: usize = 1 << 20;
/// Bytes copied in memory: more than any cache holds.
const COPY_BYTES: usize = 256 << 20;
/// How long each limit is measured.
const SPAN: Duration = Duration::from_millis(700);
/// What the kernel calls a file system in memory.
const TMPFS_MAGIC: i64 = 0x0102_1994;
/// Bytes written to the disk at most.
const DISK_BYTES_MAX: u64 = 1 << 30;

/// Room that is given free ahead of what is being written: a little more than the stripe that a put reserves
/// at once. More would be free for so long that the host takes it back.
const AHEAD_BYTES: u64 = 448 << 20;
/// How often the room is looked at.
const LOOK: Duration = Duration::from_millis(4);

/// Pages of a memory-backed directory that are kept ready, so that what is measured does not wait for the
/// host of a virtual machine, which gives memory only when it is touched and takes memory back that has been
/// free for two seconds. A file holds them, and shrinks as other files of the directory grow. Elsewhere than
/// in memory it does nothing.
pub struct Warm(Option<Keeper>);

struct Keeper {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
    path: PathBuf,
}

/// Makes pages ready for so many bytes.
pub fn warm(directory: &Path, bytes: u64) -> Outcome<Warm> {
    let path = directory.join("limit.warm");
    let failed = |error: std::io::Error| Failure::io("warming the memory", &path, &error);
    if !is_in_memory(directory).map_err(failed)? {
        return Ok(Warm(None));
    }
    let mut file = File::create(&path).map_err(failed)?;
    let buffer = vec![1u8; BUFFER_BYTES];
    let mut length = bytes.next_multiple_of(BUFFER_BYTES as u64);
    for _ in 0..length / BUFFER_BYTES as u64 {
        file.write_all(&buffer).map_err(failed)?;
    }
    let others = |length: u64| used(directory).map(|used| used.saturating_sub(length));
    let before = others(length).map_err(failed)?;
    length = length.saturating_sub(AHEAD_BYTES);
    file.set_len(length).map_err(failed)?;
    let (stop, stopped) = mpsc::channel();
    let directory = directory.to_owned();
    let thread = std::thread::spawn(move || {
        while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
            // What cannot be looked at or given free is only slower.
            let grown = used(&directory).unwrap_or(0).saturating_sub(length).saturating_sub(before);
            let wanted = bytes.saturating_sub(AHEAD_BYTES).saturating_sub(grown);
            if wanted < length && file.set_len(wanted).is_ok() {
                length = wanted;
            }
        }
    });
    Ok(Warm(Some(Keeper { stop, thread, path })))
}

/// Whether the files of a directory are in memory, where pages are kept ready.
pub fn is_in_memory(directory: &Path) -> std::io::Result<bool> {
    Ok(rustix::fs::statfs(directory)?.f_type as i64 == TMPFS_MAGIC)
}

/// Bytes that the files of a file system take.
fn used(directory: &Path) -> std::io::Result<u64> {
    let space = rustix::fs::statvfs(directory)?;
    Ok(space.f_blocks.saturating_sub(space.f_bfree) * space.f_frsize)
}

impl Drop for Warm {
    fn drop(&mut self) {
        if let Some(Keeper { stop, thread, path }) = self.0.take() {
            drop(stop);
            let _ = thread.join();
            // The directory is removed with all that is in it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Copies memory.
pub fn memory_copy() -> Row {
    let from = vec![7u8; COPY_BYTES];
    let mut to = vec![0u8; COPY_BYTES];
    // Untimed, so that the pages are there.
    black_box(&mut to).copy_from_slice(black_box(&from));
    let (started, mut bytes) = (Instant::now(), 0u64);
    while started.elapsed() < SPAN {
        black_box(&mut to).copy_from_slice(black_box(&from));
        bytes += COPY_BYTES as u64;
    }
    Row::bytes("memory copy", bytes, started.elapsed().as_secs_f64())
}

/// Sends bytes over one loopback connection.
pub fn loopback() -> Outcome<Row> {
    let failed = |error: std::io::Error| Failure::internal(format!("loopback: {error}"));
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let sender = std::thread::spawn(move || -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let buffer = vec![1u8; BUFFER_BYTES];
        let started = Instant::now();
        while started.elapsed() < SPAN {
            stream.write_all(&buffer)?;
        }
        Ok(())
    });
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    let mut buffer = vec![0u8; BUFFER_BYTES];
    let (started, mut bytes) = (Instant::now(), 0u64);
    loop {
        match stream.read(&mut buffer).map_err(failed)? {
            0 => break,
            count => bytes += count as u64,
        }
    }
    let row = Row::bytes("loopback TCP", bytes, started.elapsed().as_secs_f64());
    sender.join().map_err(|_| Failure::internal("loopback: the sender failed"))?.map_err(failed)?;
    Ok(row)
}

/// Writes a file of up to `bytes` and syncs it.
pub fn disk_write(directory: &Path, bytes: u64) -> Outcome<Row> {
    let path = directory.join("limit.disk");
    let failed = |error: std::io::Error| Failure::io("measuring the disk", &path, &error);
    let buffer = vec![3u8; BUFFER_BYTES];
    let (started, mut written) = (Instant::now(), 0u64);
    let mut file = File::create(&path).map_err(failed)?;
    while written < bytes.clamp(1, DISK_BYTES_MAX) {
        file.write_all(&buffer).map_err(failed)?;
        written += BUFFER_BYTES as u64;
    }
    file.sync_all().map_err(failed)?;
    let row = Row::bytes("disk write+fsync", written, started.elapsed().as_secs_f64());
    fs::remove_file(&path).map_err(failed)?;
    Ok(row)
}

/// Appends 4 KiB and syncs, again and again.
pub fn disk_syncs(directory: &Path) -> Outcome<Row> {
    let path = directory.join("limit.sync");
    let failed = |error: std::io::Error| Failure::io("measuring the disk", &path, &error);
    let mut file = File::create(&path).map_err(failed)?;
    let (started, mut syncs) = (Instant::now(), 0u64);
    while started.elapsed() < SPAN {
        file.write_all(&[5u8; 4096]).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        syncs += 1;
    }
    let row = Row::operations("syncs of the disk", syncs, syncs * 4096, started.elapsed().as_secs_f64());
    fs::remove_file(&path).map_err(failed)?;
    Ok(row)
}
