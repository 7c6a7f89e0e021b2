//! A drive in memory behind real sockets, which can be cut, muted, crashed and given other addresses.

#![allow(dead_code, reason = "several test programs include this file, and not all use all of it")]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use base::Timestamp;
use bytes::{Bytes, BytesMut};
use kinetic::model::{Drive, Peers};
use kinetic::server::{Action, Device, DeviceSettings, DeviceState};
use kinetic::{Configuration, ConnectionId, FrameReader, Limits, Progress};

/// The identity of a fresh drive.
pub const IDENTITY: i64 = 1;
/// Its key.
pub const KEY: &[u8] = b"asdfasdf";
const NEVER: i64 = i64::MAX;

/// A drive with sockets.
pub struct Served {
    inside: Arc<Inside>,
    pub address: SocketAddr,
}

struct Inside {
    both: Mutex<Both>,
    sockets: Mutex<Vec<TcpStream>>,
    began: Instant,
    /// Bytes that may still come, and go, before all connections are cut.
    bytes_in: AtomicI64,
    bytes_out: AtomicI64,
    is_mute: AtomicBool,
    is_closed: AtomicBool,
    frames: AtomicU64,
}

struct Both {
    device: Device,
    drive: Drive,
}

fn device(name: &str, state: DeviceState, limits: Limits) -> Device {
    let configuration = Configuration {
        vendor: "Kist".to_owned(),
        model: "memory".to_owned(),
        serial_number: Bytes::copy_from_slice(name.as_bytes()),
        world_wide_name: Bytes::copy_from_slice(name.as_bytes()),
        protocol_version: kinetic::PROTOCOL_VERSION.to_owned(),
        ..Configuration::default()
    };
    let connection_first = ConnectionId(1 << 20);
    let settings = DeviceSettings { configuration, limits, is_security_over_tls: true, connection_first };
    Device::new(settings, state)
}

impl Served {
    /// An empty one.
    pub fn new(name: &str) -> Self {
        Self::with(name, Limits::stated())
    }

    pub fn with(name: &str, limits: Limits) -> Self {
        let both = Both { device: device(name, DeviceState::factory(), limits), drive: Drive::default() };
        let inside = Arc::new(Inside {
            both: Mutex::new(both),
            sockets: Mutex::default(),
            began: Instant::now(),
            bytes_in: AtomicI64::new(NEVER),
            bytes_out: AtomicI64::new(NEVER),
            is_mute: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            frames: AtomicU64::new(0),
        });
        let address = listen(&inside);
        Served { inside, address }
    }

    /// Another address of the same drive.
    pub fn another_address(&self) -> SocketAddr {
        listen(&self.inside)
    }

    pub fn drive<T>(&self, with: impl FnOnce(&mut Drive) -> T) -> T {
        with(&mut self.inside.both().drive)
    }

    /// Requests so far.
    pub fn frames(&self) -> u64 {
        self.inside.frames.load(Ordering::SeqCst)
    }

    /// Cuts all connections when so many more bytes have come, or gone.
    pub fn cut(&self, is_in: bool, bytes: i64) {
        let left = if is_in { &self.inside.bytes_in } else { &self.inside.bytes_out };
        left.store(bytes, Ordering::SeqCst);
    }

    /// Whether a cut has come to pass.
    pub fn was_cut(&self) -> bool {
        let is_over = |left: &AtomicI64| left.load(Ordering::SeqCst) <= 0;
        is_over(&self.inside.bytes_in) || is_over(&self.inside.bytes_out)
    }

    /// No cuts any more.
    pub fn mend(&self) {
        self.cut(true, NEVER);
        self.cut(false, NEVER);
    }

    /// Takes everything and answers nothing; a greeting neither.
    pub fn mute(&self, is_mute: bool) {
        self.inside.is_mute.store(is_mute, Ordering::SeqCst);
    }

    /// Takes no more connections, and ends those there are.
    pub fn refuse(&self, is_closed: bool) {
        self.inside.is_closed.store(is_closed, Ordering::SeqCst);
        if is_closed {
            self.cut_now();
        }
    }

    pub fn cut_now(&self) {
        for socket in self.inside.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// The power fails and comes back: of what was only written back, these keys were written by luck.
    pub fn crash(&self, is_written: impl Fn(&[u8]) -> bool) {
        {
            let mut both = self.inside.both();
            both.drive.crash(is_written);
        }
        self.cut_now();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.refuse(true);
    }
}

impl Inside {
    fn both(&self) -> MutexGuard<'_, Both> {
        self.both.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn cut(&self) {
        for socket in self.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// How many of so many bytes pass.
    fn pass(left: &AtomicI64, bytes: usize) -> usize {
        let before = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            Some(if left == NEVER { NEVER } else { left.saturating_sub(bytes as i64).max(0) })
        });
        before.unwrap().min(bytes as i64) as usize
    }

    fn send(&self, stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
        if self.is_mute.load(Ordering::SeqCst) {
            return Ok(());
        }
        let passed = Self::pass(&self.bytes_out, bytes.len());
        stream.write_all(&bytes[..passed])?;
        if passed < bytes.len() {
            self.cut();
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        Ok(())
    }
}

fn listen(inside: &Arc<Inside>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let inside = Arc::clone(inside);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            if inside.is_closed.load(Ordering::SeqCst) {
                continue;
            }
            inside.sockets.lock().unwrap().push(stream.try_clone().unwrap());
            let inside = Arc::clone(&inside);
            std::thread::spawn(move || {
                let _ = serve(stream, &inside);
            });
        }
    });
    address
}

fn serve(mut stream: TcpStream, inside: &Inside) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (accepted, limits) = {
        let mut both = inside.both();
        (both.device.accept(false), both.device.frame_limits())
    };
    let (mut connection, greeting) = match accepted {
        Ok(accepted) => accepted,
        Err(last_word) => return stream.write_all(&last_word.to_vec()),
    };
    let result = inside.send(&mut stream, &greeting.to_vec()).and_then(|()| {
        let (mut reader, mut buffer) = (FrameReader::new(limits), BytesMut::new());
        let mut piece = vec![0; 1 << 18];
        let mut is_cut = false;
        loop {
            let mut actions = Vec::new();
            let mut locked = inside.both();
            let Both { device, drive } = &mut *locked;
            match reader.next(&mut buffer) {
                Ok(Progress::Frame(frame)) => {
                    inside.frames.fetch_add(1, Ordering::SeqCst);
                    let now = Timestamp(0).plus(inside.began.elapsed());
                    connection.received(device, now, frame, &mut actions);
                    let mut place = 0;
                    while let Some(action) = actions.get(place).cloned() {
                        place += 1;
                        if let Action::Execute(work) = action {
                            let outcome = drive.execute(work.operation, &mut Peers::new());
                            connection.done(device, now, work.job, outcome, &mut actions);
                        }
                    }
                }
                Ok(Progress::More(_)) => {
                    drop(locked);
                    if is_cut {
                        inside.cut();
                        return Ok(());
                    }
                    let count = stream.read(&mut piece)?;
                    let passed = Inside::pass(&inside.bytes_in, count);
                    buffer.extend_from_slice(&piece[..passed]);
                    if count == 0 {
                        return Ok(());
                    }
                    // What came before the cut is carried out, and not answered.
                    is_cut = passed < count;
                    continue;
                }
                Err(error) => connection.broken(device, error, &mut actions),
            }
            drop(locked);
            for action in actions.iter().filter(|_| !is_cut) {
                if let Action::Send(frame) = action {
                    inside.send(&mut stream, &frame.head)?;
                    inside.send(&mut stream, &frame.value)?;
                }
            }
            if connection.is_closed() {
                return Ok(());
            }
        }
    });
    connection.closed(&mut inside.both().device);
    let _ = stream.shutdown(Shutdown::Both);
    result
}
