//! PDUs over a socket: each half of a connection, with its own limits of time.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use base::Crc32c;

use crate::pdu::{ADDITIONAL_MAX, DIGEST, Digests, HEADER, Pdu, PduError, Shape, header_digest, padding};

/// What goes wrong on a connection.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The other side has closed it between two PDUs.
    #[error("the other side has closed the connection")]
    Closed,
    /// It ended within a PDU.
    #[error("the connection ended within a PDU")]
    Cut,
    /// A PDU did not come, or did not leave, in time.
    #[error("a PDU that was begun did not end in time")]
    Late,
    /// The socket.
    #[error("{0}")]
    Socket(io::Error),
    /// What came is no PDU.
    #[error("{0}")]
    Pdu(#[from] PduError),
}

impl WireError {
    /// Whether the other side has broken the protocol, rather than the way to it.
    #[must_use]
    pub fn is_protocol(&self) -> bool {
        matches!(self, WireError::Pdu(_))
    }
}

/// A PDU whose data, if it has any, stands next on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incoming {
    /// The PDU.
    pub pdu: Pdu,
    /// Its header.
    pub header: [u8; HEADER],
    /// Bytes of data, which must be taken before the next PDU is read.
    pub data: usize,
}

/// The half that receives.
pub struct Receiver {
    stream: TcpStream,
    digests: Digests,
    segment_max: usize,
    /// How long a PDU may take from its first byte to its last.
    pdu_limit: Duration,
    /// When the PDU that is being received must be there.
    until: Instant,
    /// The limit of time that the socket has now.
    socket_limit: Option<Duration>,
    /// The last PDU came so soon that the next one may do so too.
    is_brisk: bool,
}

/// Who waits for a PDU looks for it so long before it sleeps, if the one before came as soon: to be woken
/// takes longer than many a small command does.
const LOOK_FOR: Duration = Duration::from_micros(40);

impl Receiver {
    /// Receives from `stream` PDUs with at most `segment_max` bytes of data, each within `pdu_limit`.
    pub fn new(stream: TcpStream, segment_max: usize, pdu_limit: Duration) -> Receiver {
        let until = Instant::now();
        let digests = Digests::default();
        Receiver { stream, digests, segment_max, pdu_limit, until, socket_limit: None, is_brisk: false }
    }

    /// What holds from the next PDU on.
    pub fn agree(&mut self, digests: Digests, segment_max: usize) {
        self.digests = digests;
        self.segment_max = segment_max;
    }

    /// Whether the next PDU has begun to come. Does not wait.
    pub fn has_come(&mut self) -> Result<bool, WireError> {
        self.stream.set_nonblocking(true).map_err(WireError::Socket)?;
        let seen = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false).map_err(WireError::Socket)?;
        match seen {
            Ok(0) => Err(WireError::Closed),
            Ok(_) => Ok(true),
            Err(error) if is_no_error(&error) => Ok(false),
            Err(error) => Err(WireError::Socket(error)),
        }
    }

    /// The next PDU; `None` if none was begun until `first` (never, without one).
    pub fn next(&mut self, first: Option<Instant>) -> Result<Option<Incoming>, WireError> {
        let mut header = [0; HEADER];
        let begun = match self.first_bytes(&mut header, first) {
            Ok(0) => return Err(WireError::Closed),
            Ok(begun) => begun,
            Err(WireError::Late) => return Ok(None),
            Err(error) => return Err(error),
        };
        self.until = Instant::now() + self.pdu_limit;
        self.read_all(&mut header[begun..])?;
        let shape = Shape::of(&header).checked(self.segment_max)?;
        let mut additional = [0; ADDITIONAL_MAX];
        let additional = &mut additional[..shape.additional];
        self.read_all(additional)?;
        if self.digests.header {
            let mut digest = [0; DIGEST];
            self.read_all(&mut digest)?;
            if digest != header_digest(&header, additional) {
                return Err(PduError::HeaderDigest.into());
            }
        }
        Ok(Some(Incoming { pdu: Pdu::decode(&header)?, header, data: shape.data }))
    }

    /// The first bytes of a PDU.
    fn first_bytes(&mut self, header: &mut [u8], until: Option<Instant>) -> Result<usize, WireError> {
        let begun = Instant::now();
        while self.is_brisk && begun.elapsed() < LOOK_FOR {
            match rustix::net::recv(&self.stream, &mut *header, rustix::net::RecvFlags::DONTWAIT) {
                Ok((_, read)) => return Ok(read),
                Err(error) if is_no_error(&error.into()) => std::hint::spin_loop(),
                Err(error) => return Err(WireError::Socket(error.into())),
            }
        }
        let read = self.read_some(header, until);
        self.is_brisk = begun.elapsed() < LOOK_FOR * 2;
        read
    }

    /// Takes all data of a PDU into `data`, as long as it is.
    pub fn data(&mut self, data: &mut [u8]) -> Result<(), WireError> {
        self.data_parts([data, &mut []])
    }

    /// Takes all data of a PDU into two parts, as long as both are.
    pub fn data_parts(&mut self, [first, second]: [&mut [u8]; 2]) -> Result<(), WireError> {
        let length = first.len() + second.len();
        if length == 0 {
            return Ok(());
        }
        self.read_all(first)?;
        self.read_all(second)?;
        self.end_of_data(length, || Crc32c::of(first).extend(second))
    }

    /// Takes all data of a PDU as bytes of its own; at most `most` of them.
    pub fn data_owned(&mut self, length: usize, most: usize) -> Result<Vec<u8>, WireError> {
        if length > most {
            return Err(PduError::TooLong { length, most }.into());
        }
        let mut data = vec![0; length];
        self.data(&mut data)?;
        Ok(data)
    }

    /// Takes data and forgets it.
    pub fn skip(&mut self, length: usize) -> Result<(), WireError> {
        let (mut left, mut sum, mut bytes) = (length, Crc32c::default(), [0; 4096]);
        while left > 0 {
            let part = left.min(bytes.len());
            self.read_all(&mut bytes[..part])?;
            if self.digests.data {
                sum = sum.extend(&bytes[..part]);
            }
            left -= part;
        }
        if length > 0 { self.end_of_data(length, || sum) } else { Ok(()) }
    }

    /// Padding and checksum behind data.
    fn end_of_data(&mut self, length: usize, sum: impl FnOnce() -> Crc32c) -> Result<(), WireError> {
        let (mut tail, padding) = ([0; 3 + DIGEST], padding(length));
        let tail = &mut tail[..padding + if self.digests.data { DIGEST } else { 0 }];
        self.read_all(tail)?;
        let (padding, digest) = tail.split_at(padding);
        if self.digests.data && digest != sum().extend(padding).0.to_le_bytes() {
            return Err(PduError::DataDigest.into());
        }
        Ok(())
    }

    fn read_all(&mut self, mut bytes: &mut [u8]) -> Result<(), WireError> {
        while !bytes.is_empty() {
            match self.read_some(bytes, Some(self.until))? {
                0 => return Err(WireError::Cut),
                read => bytes = &mut bytes[read..],
            }
        }
        Ok(())
    }

    fn read_some(&mut self, bytes: &mut [u8], until: Option<Instant>) -> Result<usize, WireError> {
        loop {
            let limit = match until {
                Some(until) => Some(left(until).ok_or(WireError::Late)?),
                None => None,
            };
            self.limit(limit)?;
            match self.stream.read(bytes) {
                Ok(read) => return Ok(read),
                Err(error) if is_no_error(&error) => {}
                Err(error) => return Err(WireError::Socket(error)),
            }
        }
    }

    /// Sets the socket's limit, if the one it has would wait too long.
    fn limit(&mut self, limit: Option<Duration>) -> Result<(), WireError> {
        if let Some(limit) = new_socket_limit(self.socket_limit, limit) {
            self.stream.set_read_timeout(limit).map_err(WireError::Socket)?;
            self.socket_limit = limit;
        }
        Ok(())
    }
}

/// The limit that a socket needs so that its caller looks at the time when this one ends, if it is not the
/// one that is `set`. A shorter one does too, for who waits looks at the time and waits again; so those that
/// are set are short, and most calls need no other: each setting is a call into the kernel.
fn new_socket_limit(set: Option<Duration>, limit: Option<Duration>) -> Option<Option<Duration>> {
    const SHORT: Duration = Duration::from_millis(100);
    const LONG: Duration = Duration::from_secs(5);
    let limit = match (set, limit) {
        (Some(set), Some(limit)) if set <= limit && (set >= LONG / 2 || set * 4 >= limit) => return None,
        (None, None) => return None,
        (_, None) => return Some(None),
        (_, Some(limit)) => limit,
    };
    Some(Some(if limit <= SHORT { limit } else { (limit / 4 * 3).min(LONG) }))
}

/// What is left until then; `None` if nothing is.
fn left(until: Instant) -> Option<Duration> {
    Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
}

/// A limit of time that ran out, which the caller looks at, or a signal.
fn is_no_error(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// The half that sends.
pub struct Sender {
    stream: TcpStream,
    digests: Digests,
    /// The longest that one call may block; the time is looked at in between.
    socket_limit: Option<Duration>,
    /// Bytes that left for the socket so far.
    sent: u64,
    /// A PDU was begun and not ended: nothing can follow it.
    is_cut: bool,
}

impl Sender {
    /// Sends to `stream`.
    pub fn new(stream: TcpStream) -> Sender {
        Sender { stream, digests: Digests::default(), socket_limit: None, sent: 0, is_cut: false }
    }

    /// What holds from the next PDU on.
    pub fn agree(&mut self, digests: Digests) {
        self.digests = digests;
    }

    /// Bytes that left for the socket so far, those of a PDU that failed included.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Sends a PDU with its data; it must be gone until then.
    pub fn send(&mut self, pdu: &Pdu, data: &[u8], until: Instant) -> Result<(), WireError> {
        self.send_parts(pdu, [data, &[]], until)
    }

    /// The same with data in two parts.
    pub fn send_parts(&mut self, pdu: &Pdu, data: [&[u8]; 2], until: Instant) -> Result<(), WireError> {
        if self.is_cut {
            return Err(WireError::Cut);
        }
        let [first, second] = data;
        let length = first.len() + second.len();
        let header = pdu.encode(length);
        let header_sum = if self.digests.header { header_digest(&header, &[]) } else { [0; DIGEST] };
        let header_sum = &header_sum[..if self.digests.header { DIGEST } else { 0 }];
        let (mut tail, padding) = ([0; 3 + DIGEST], padding(length));
        let mut tail_length = padding;
        if self.digests.data && length > 0 {
            let sum = Crc32c::of(first).extend(second).extend(&tail[..padding]).0.to_le_bytes();
            tail[padding..padding + DIGEST].copy_from_slice(&sum);
            tail_length += DIGEST;
        }
        let mut parts = [
            IoSlice::new(&header),
            IoSlice::new(header_sum),
            IoSlice::new(first),
            IoSlice::new(second),
            IoSlice::new(&tail[..tail_length]),
        ];
        let before = self.sent;
        let sent = self.send_all(&mut parts, until);
        self.is_cut = sent.is_err() && self.sent > before;
        sent
    }

    fn send_all(&mut self, mut parts: &mut [IoSlice<'_>], until: Instant) -> Result<(), WireError> {
        // Empty parts at the front are taken off, or a write of nothing would look like an end.
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            let limit = left(until).ok_or(WireError::Late)?;
            if let Some(limit) = new_socket_limit(self.socket_limit, Some(limit)) {
                self.stream.set_write_timeout(limit).map_err(WireError::Socket)?;
                self.socket_limit = limit;
            }
            match self.stream.write_vectored(parts) {
                Ok(0) => return Err(WireError::Cut),
                Ok(sent) => {
                    self.sent += sent as u64;
                    IoSlice::advance_slices(&mut parts, sent);
                }
                Err(error) if is_no_error(&error) => {}
                Err(error) => return Err(WireError::Socket(error)),
            }
        }
        Ok(())
    }
}

/// Both halves of a connection, without delay of small PDUs.
pub fn halves(stream: &TcpStream, segment_max: usize, pdu_limit: Duration) -> io::Result<(Receiver, Sender)> {
    stream.set_nodelay(true)?;
    let receiver = Receiver::new(stream.try_clone()?, segment_max, pdu_limit);
    Ok((receiver, Sender::new(stream.try_clone()?)))
}
