//! A connection: one thread reads from it, one writes to it.

use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rustix::net::sockopt;
use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use threads::Mutex;

use crate::settings::LinkSettings;

/// How long a write waits for the peer before it looks whether the connection is still wanted.
const WRITE_LOOK: Duration = Duration::from_millis(500);
/// How long a host may be silent, its network stack that is, before the connection counts as broken.
const SILENT_MAX: Duration = Duration::from_secs(12);
/// Ciphertext that is read with one call: a few records of TLS.
const CIPHER_BYTES: usize = 64 << 10;
/// Plaintext that is turned to ciphertext at one time.
const PLAIN_BYTES: usize = 64 << 10;

/// A connection.
#[derive(Clone)]
pub(crate) struct Stream {
    socket: Arc<TcpStream>,
    tls: Option<Arc<Mutex<ClientConnection>>>,
}

impl Stream {
    /// Connects to the address of this number.
    pub(crate) fn connect(settings: &LinkSettings, address: &str) -> io::Result<Self> {
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "its name has no address");
        for resolved in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&resolved, settings.connect_within) {
                Ok(socket) => return Self::over(socket, settings, address),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    fn over(mut socket: TcpStream, settings: &LinkSettings, address: &str) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&socket, true)?;
        sockopt::set_tcp_keepidle(&socket, SILENT_MAX / 2)?;
        sockopt::set_tcp_keepintvl(&socket, SILENT_MAX / 6)?;
        sockopt::set_tcp_keepcnt(&socket, 3)?;
        sockopt::set_tcp_user_timeout(&socket, u32::try_from(SILENT_MAX.as_millis()).unwrap_or(u32::MAX))?;
        let tls = match &settings.trust {
            None => None,
            Some(trust) => {
                let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
                let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned());
                let name = name.map_err(io::Error::other)?;
                let mut session = ClientConnection::new(trust.config(), name).map_err(io::Error::other)?;
                socket.set_read_timeout(Some(settings.connect_within))?;
                socket.set_write_timeout(Some(settings.connect_within))?;
                while session.is_handshaking() {
                    session.complete_io(&mut socket)?;
                }
                Some(Arc::new(Mutex::new(session)))
            }
        };
        socket.set_read_timeout(None)?;
        socket.set_write_timeout(Some(WRITE_LOOK))?;
        Ok(Stream { socket: Arc::new(socket), tls })
    }

    /// Ends it: who reads or writes gets an error.
    pub(crate) fn shut(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// The end that is read.
    pub(crate) fn reader(&self) -> StreamReader {
        let cipher = if self.tls.is_some() { vec![0; CIPHER_BYTES] } else { Vec::new() };
        StreamReader { stream: self.clone(), cipher, came: 0, taken: 0 }
    }

    /// Writes all pieces, in their order. `is_wanted` is asked from time to time while the peer takes
    /// nothing.
    pub(crate) fn write_all(&self, pieces: &[&[u8]], is_wanted: impl Fn() -> bool) -> io::Result<()> {
        let Some(tls) = &self.tls else {
            let mut slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
            return self.write_slices(&mut slices, &is_wanted);
        };
        let mut cipher = Vec::new();
        for part in pieces.iter().flat_map(|piece| piece.chunks(PLAIN_BYTES)) {
            let mut plain = part;
            while !plain.is_empty() {
                let mut session = tls.lock().unwrap_or_else(PoisonError::into_inner);
                let taken = session.writer().write(plain)?;
                plain = plain.get(taken..).unwrap_or_default();
                while session.wants_write() {
                    session.write_tls(&mut cipher)?;
                }
            }
            self.write_slices(&mut [IoSlice::new(&cipher)], &is_wanted)?;
            cipher.clear();
        }
        Ok(())
    }

    fn write_slices(&self, mut left: &mut [IoSlice<'_>], is_wanted: &impl Fn() -> bool) -> io::Result<()> {
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            match (&*self.socket).write_vectored(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => IoSlice::advance_slices(&mut left, written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !is_wanted() {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The end that is read.
pub(crate) struct StreamReader {
    stream: Stream,
    cipher: Vec<u8>,
    /// Bytes of it that came, and those of them that the session has.
    came: usize,
    taken: usize,
}

impl StreamReader {
    /// Appends what there is, no more than the vector has room for, and waits for the first byte. 0 at the
    /// end.
    pub(crate) fn read(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        let Some(tls) = &self.stream.tls else {
            loop {
                let room = rustix::buffer::spare_capacity(into);
                match rustix::io::read(&*self.stream.socket, room) {
                    Err(rustix::io::Errno::INTR) => {}
                    read => return Ok(read?),
                }
            }
        };
        let room = into.capacity() - into.len();
        loop {
            {
                let mut session = tls.lock().unwrap_or_else(PoisonError::into_inner);
                let before = into.len();
                match session.reader().take(room as u64).read_to_end(into) {
                    Ok(read) => return Ok(read),
                    // What there was stands in the vector.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        if into.len() > before {
                            return Ok(into.len() - before);
                        }
                    }
                    Err(error) => return Err(error),
                }
            }
            let mut came = self.cipher.get(self.taken..self.came).unwrap_or_default();
            if came.is_empty() {
                self.came = (&*self.stream.socket).read(&mut self.cipher)?;
                self.taken = 0;
                if self.came == 0 {
                    return Ok(0);
                }
                continue;
            }
            // No more at one time than the session has room for, whose plaintext is taken in between.
            let mut session = tls.lock().unwrap_or_else(PoisonError::into_inner);
            self.taken += session.read_tls(&mut came)?;
            session.process_new_packets().map_err(io::Error::other)?;
        }
    }
}
