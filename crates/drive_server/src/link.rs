//! A socket, with or without TLS, that one thread reads and any thread writes. Nothing here waits.

use std::collections::VecDeque;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use bytes::{Buf, Bytes};
use kinetic::OutFrame;
use threads::{Mutex, MutexGuard};

use crate::budget::Permit;
use crate::limits::{GATHER_MAX, OUT_BYTES_MAX};
use crate::wake::Wake;

/// Something to be sent, and the memory it has until it is.
pub(crate) struct Piece {
    bytes: Bytes,
    _permit: Option<Permit>,
}

/// What came of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Came {
    Bytes(usize),
    /// There is nothing now.
    Nothing,
    /// There will be no more.
    Ended,
}

pub(crate) struct Link {
    socket: TcpStream,
    tls: Option<Mutex<rustls::ServerConnection>>,
    out: Mutex<Out>,
    /// Rung when the thread that waits for the socket shall look up.
    pub(crate) wake: Arc<Wake>,
}

#[derive(Default)]
struct Out {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// Somebody sends.
    is_sending: bool,
    /// The socket took no more, at this time.
    blocked: Option<Instant>,
    /// What is sent is dropped.
    is_dead: bool,
}

impl Link {
    pub(crate) fn new(socket: TcpStream, tls: Option<rustls::ServerConnection>) -> io::Result<Link> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        rustix::net::sockopt::set_socket_keepalive(&socket, true)?;
        Ok(Link { socket, tls: tls.map(Mutex::new), out: Mutex::default(), wake: Arc::new(Wake::new()?) })
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether TLS is still being agreed on.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| locked(tls).is_handshaking())
    }

    /// Whether as much waits to be sent as may.
    pub(crate) fn is_full(&self) -> bool {
        self.out().bytes > OUT_BYTES_MAX
    }

    /// Whether all is sent.
    pub(crate) fn is_drained(&self) -> bool {
        let out = self.out();
        out.is_dead || (out.pieces.is_empty() && !out.is_sending && out.blocked.is_none())
    }

    /// Since when the socket takes nothing.
    pub(crate) fn blocked(&self) -> Option<Instant> {
        self.out().blocked
    }

    /// Nothing more is read or sent.
    pub(crate) fn cut(&self) {
        let mut out = self.out();
        out.is_dead = true;
        let dropped = std::mem::take(&mut out.pieces);
        out.bytes = 0;
        out.blocked = None;
        drop(out);
        drop(dropped);
        // It may be gone already.
        let _ = self.socket.shutdown(Shutdown::Both);
        self.wake.ring();
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish(&self) {
        if let Some(tls) = &self.tls {
            let mut tls = locked(tls);
            tls.send_close_notify();
            let _ = tls.write_tls(&mut (&self.socket));
        }
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Reads what there is.
    pub(crate) fn read(&self, into: &mut [u8]) -> Came {
        let read = match &self.tls {
            None => (&self.socket).read(into),
            Some(tls) => self.read_tls(tls, into),
        };
        match read {
            Ok(0) => Came::Ended,
            Ok(count) => Came::Bytes(count),
            Err(error) if is_later(&error) => Came::Nothing,
            Err(_) => Came::Ended,
        }
    }

    fn read_tls(&self, tls: &Mutex<rustls::ServerConnection>, into: &mut [u8]) -> io::Result<usize> {
        let mut tls = locked(tls);
        loop {
            match tls.reader().read(into) {
                Err(error) if is_later(&error) => {}
                other => return other,
            }
            if tls.read_tls(&mut (&self.socket))? == 0 {
                return Ok(0);
            }
            let processed = tls.process_new_packets();
            while tls.wants_write() {
                match tls.write_tls(&mut (&self.socket)) {
                    Ok(_) => {}
                    Err(error) if is_later(&error) => {
                        self.out().blocked.get_or_insert_with(Instant::now);
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
            processed.map_err(io::Error::other)?;
        }
    }

    /// Sends frames, with the memory that they have: at once what the socket takes, the rest when it takes
    /// more.
    pub(crate) fn send(&self, frames: impl IntoIterator<Item = (OutFrame, Option<Permit>)>) {
        let mut out = self.out();
        if out.is_dead {
            return;
        }
        for (OutFrame { head, value }, permit) in frames {
            out.bytes += head.len() + value.len();
            let (of_head, of_value) = if value.is_empty() { (permit, None) } else { (None, permit) };
            out.pieces.push_back(Piece { bytes: head, _permit: of_head });
            if !value.is_empty() {
                out.pieces.push_back(Piece { bytes: value, _permit: of_value });
            }
        }
        if out.is_sending || out.blocked.is_some() || out.pieces.is_empty() {
            return;
        }
        out.is_sending = true;
        drop(out);
        self.work_off();
    }

    /// The socket takes more.
    pub(crate) fn unblock(&self) {
        let mut out = self.out();
        if out.is_sending || out.blocked.is_none() {
            return;
        }
        out.is_sending = true;
        out.blocked = None;
        drop(out);
        self.work_off();
    }

    /// Sends what there is, for all who have something; one at a time does it.
    fn work_off(&self) {
        let mut taken: VecDeque<Piece> = VecDeque::new();
        loop {
            let mut out = self.out();
            while taken.len() < GATHER_MAX {
                let Some(piece) = out.pieces.pop_front() else { break };
                taken.push_back(piece);
            }
            if out.is_dead || (taken.is_empty() && !self.has_tls_left()) {
                out.is_sending = false;
                return;
            }
            drop(out);
            let (count, error) = match &self.tls {
                None => self.write_plain(&taken),
                Some(tls) => self.write_tls(tls, &taken),
            };
            let was_full = {
                let mut out = self.out();
                let was_full = out.bytes > OUT_BYTES_MAX;
                out.bytes = out.bytes.saturating_sub(count);
                was_full && out.bytes <= OUT_BYTES_MAX
            };
            advance(&mut taken, count);
            if was_full {
                self.wake.ring();
            }
            let Some(error) = error else { continue };
            if !is_later(&error) {
                self.out().is_sending = false;
                self.cut();
                return;
            }
            let mut out = self.out();
            while let Some(piece) = taken.pop_back() {
                out.pieces.push_front(piece);
            }
            out.blocked = Some(Instant::now());
            out.is_sending = false;
            drop(out);
            // Somebody has to wait for the socket.
            self.wake.ring();
            return;
        }
    }

    fn has_tls_left(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| locked(tls).wants_write())
    }

    fn write_plain(&self, pieces: &VecDeque<Piece>) -> (usize, Option<io::Error>) {
        let slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(&piece.bytes)).collect();
        match (&self.socket).write_vectored(&slices) {
            Ok(0) => (0, Some(io::ErrorKind::WriteZero.into())),
            Ok(count) => (count, None),
            Err(error) => (0, Some(error)),
        }
    }

    fn write_tls(
        &self,
        tls: &Mutex<rustls::ServerConnection>,
        pieces: &VecDeque<Piece>,
    ) -> (usize, Option<io::Error>) {
        let mut tls = locked(tls);
        let slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(&piece.bytes)).collect();
        // As much as it encrypts ahead.
        let count = match tls.writer().write_vectored(&slices) {
            Ok(count) => count,
            Err(error) => return (0, Some(error)),
        };
        while tls.wants_write() {
            match tls.write_tls(&mut (&self.socket)) {
                Ok(_) => {}
                Err(error) => return (count, Some(error)),
            }
        }
        (count, None)
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// Drops the first bytes.
fn advance(pieces: &mut VecDeque<Piece>, mut count: usize) {
    while let Some(first) = pieces.front_mut() {
        if count < first.bytes.len() {
            first.bytes.advance(count);
            return;
        }
        count -= first.bytes.len();
        pieces.pop_front();
    }
    assert_eq!(count, 0, "no more was sent than there was");
}
