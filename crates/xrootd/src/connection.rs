//! One connection of the plugins: a frame in, its answer out, on a thread of its own. At most one file is
//! open in it.

use std::io::{IoSlice, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use base::Duration;
use bytes::Bytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use transfer::{Holder, Place, Transfers};

use crate::errors::{NEARLINE, Refused};
use crate::frame::{
    Asker, FRAME_BYTES_MAX, HEADER_BYTES, Header, IO_BYTES_MAX, MAGIC, Request, VERSION, tag,
};
use crate::names::{self, Meant};
use crate::people::{Client, let_in};
use crate::reading::Reading;
use crate::server::Shared;
use crate::settings::Nearline;
use crate::staging;
use crate::wire::{Body, FrameError};
use crate::writing::Writing;

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The other side has closed it.
    #[error("it was closed")]
    Closed,
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A frame cannot be understood.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It did not begin with a greeting that is understood.
    #[error("it did not begin with HELLO of version {VERSION}")]
    NoHello,
}

/// What is answered.
enum Answer {
    /// Nothing: the frame has none.
    None,
    Body(Body),
    Data(Vec<Bytes>),
}

/// The file that is open in a connection.
enum Open {
    Reading(Reading),
    Writing(Box<Writing>),
}

/// An open file, whose it is, and its places.
struct OpenFile {
    open: Open,
    holder: Holder,
    /// Its place among all files that are open.
    _place: Place,
    /// Its place among transfers, while it is used.
    transfer: Option<Place>,
}

/// A connection.
pub struct Connection {
    stream: UnixStream,
    shared: Arc<Shared>,
    file: Option<OpenFile>,
    buffer: Vec<u8>,
}

impl Connection {
    /// Over a socket whose other side was looked at.
    pub fn new(stream: UnixStream, shared: Arc<Shared>) -> Self {
        Connection { stream, shared, file: None, buffer: Vec::new() }
    }

    /// Answers until the other side ends.
    pub fn serve(&mut self) -> Result<(), Ended> {
        let wait = Some(self.shared.settings.limits.frame_wait);
        self.stream.set_read_timeout(wait)?;
        self.stream.set_write_timeout(wait)?;
        self.greet()?;
        loop {
            self.wait_for_frame()?;
            let header = match self.header() {
                Err(Ended::Closed) => return Ok(()),
                header => header?,
            };
            let mut buffer = std::mem::take(&mut self.buffer);
            self.body(header, &mut buffer)?;
            let request = Request::parse(header.tag, &buffer);
            let answer = match request {
                Ok(request) => self.answer(request),
                Err(error) => {
                    // What comes next cannot be told from it, and who speaks so is no plugin of ours.
                    let refused = Refused::new(Errno::PROTO, error.to_string());
                    self.refuse(header.id, &refused)?;
                    return Err(error.into());
                }
            };
            self.buffer = buffer;
            match answer {
                Ok(Answer::None) => {}
                Ok(Answer::Body(body)) => self.reply(header, &[IoSlice::new(&body.0)])?,
                Ok(Answer::Data(pieces)) => {
                    let slices: Vec<IoSlice<'_>> = pieces.iter().map(|piece| IoSlice::new(piece)).collect();
                    self.reply(header, &slices)?;
                }
                Err(refused) => self.refuse(header.id, &refused)?,
            }
        }
    }

    fn greet(&mut self) -> Result<(), Ended> {
        let header = self.header()?;
        if header.tag != tag::HELLO || header.length > 256 {
            return Err(Ended::NoHello);
        }
        let mut buffer = Vec::new();
        self.body(header, &mut buffer)?;
        match Request::parse(header.tag, &buffer)? {
            Request::Hello { magic: MAGIC, version: VERSION } => {
                let body = Body::default().u64(MAGIC).u16(VERSION).u32(IO_BYTES_MAX).u32(FRAME_BYTES_MAX);
                self.reply(header, &[IoSlice::new(&body.0)])
            }
            Request::Hello { magic: MAGIC, version } => {
                let why =
                    format!("version {version} is not spoken here, only {VERSION}: install matching plugins");
                self.refuse(header.id, &Refused::new(Errno::PROTONOSUPPORT, why))?;
                Err(Ended::NoHello)
            }
            _ => Err(Ended::NoHello),
        }
    }

    /// Waits for the next frame. A file that is not used meanwhile gives back what others need.
    fn wait_for_frame(&mut self) -> Result<(), Ended> {
        let limits = &self.shared.settings.limits;
        if self.file.as_ref().is_some_and(|file| file.transfer.is_some()) {
            if self.readable_within(limits.pause_after)? {
                return Ok(());
            }
            if let Some(file) = &mut self.file {
                file.pause();
            }
        }
        if let Some(OpenFile { open: Open::Reading(reading), .. }) = &self.file
            && reading.holds()
        {
            if self.readable_within(limits.let_go_after)? {
                return Ok(());
            }
            if let Some(OpenFile { open: Open::Reading(reading), .. }) = &mut self.file {
                reading.let_go();
            }
        }
        self.readable(None)?;
        Ok(())
    }

    fn readable_within(&self, wait: Duration) -> Result<bool, Ended> {
        let wait =
            Timespec::try_from(wait).map_err(|_| std::io::Error::from(std::io::ErrorKind::InvalidInput))?;
        self.readable(Some(&wait))
    }

    fn readable(&self, wait: Option<&Timespec>) -> Result<bool, Ended> {
        loop {
            let mut fds = [PollFd::new(&self.stream, PollFlags::IN)];
            match poll(&mut fds, wait) {
                Ok(ready) => return Ok(ready > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(std::io::Error::from(error).into()),
            }
        }
    }

    fn header(&mut self) -> Result<Header, Ended> {
        let mut bytes = [0; HEADER_BYTES];
        let mut got = 0;
        while let Some(rest) = bytes.get_mut(got..).filter(|rest| !rest.is_empty()) {
            match self.stream.read(rest) {
                Ok(0) if got == 0 => return Err(Ended::Closed),
                Ok(0) => return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
                Ok(count) => got += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Header::parse(&bytes)?)
    }

    fn body(&mut self, header: Header, buffer: &mut Vec<u8>) -> Result<(), Ended> {
        buffer.resize(header.length as usize, 0);
        self.stream.read_exact(buffer)?;
        // A connection that once had a large frame does not keep its memory for ever.
        if header.length < 64 << 10 && self.file.is_none() {
            buffer.shrink_to(64 << 10);
        }
        Ok(())
    }

    fn reply(&mut self, to: Header, body: &[IoSlice<'_>]) -> Result<(), Ended> {
        let length: usize = body.iter().map(|slice| slice.len()).sum();
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let header = Header { length, tag: to.tag | tag::ANSWER, id: to.id }.bytes();
        let mut slices = Vec::with_capacity(body.len() + 1);
        slices.push(IoSlice::new(&header));
        slices.extend_from_slice(body);
        self.send(&mut slices)
    }

    fn refuse(&mut self, id: u64, refused: &Refused) -> Result<(), Ended> {
        let body = Body::default().u16(refused.errno).text(&refused.why).0;
        let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
        let header = Header { length, tag: tag::REFUSED, id }.bytes();
        self.send(&mut [IoSlice::new(&header), IoSlice::new(&body)])
    }

    fn send(&mut self, mut slices: &mut [IoSlice<'_>]) -> Result<(), Ended> {
        IoSlice::advance_slices(&mut slices, 0);
        while !slices.is_empty() {
            match self.stream.write_vectored(slices) {
                Ok(0) => return Err(Ended::Closed),
                Ok(count) => IoSlice::advance_slices(&mut slices, count),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn client(&self, asker: &Asker, verb: &str, what: &str) -> Result<Client, Refused> {
        let_in(&self.shared.guard, &self.shared.settings, asker, verb, what)
    }

    fn answer(&mut self, request: Request<'_>) -> Result<Answer, Refused> {
        match request {
            Request::Hello { .. } => Err(Refused::new(Errno::PROTO, "a connection begins with HELLO once")),
            Request::Open { asker, path } => self.open(&asker, &path),
            Request::Create { asker, path, exclusive, parents, mode, size } => {
                let client = self.client(&asker, "put", &path)?;
                let clock = &*self.shared.settings.clock;
                self.none_is_open()?;
                let place = self.place(&client)?;
                let upload = names::create(&client, clock, &path, (exclusive, parents), mode, size)?;
                let limits = &self.shared.settings.limits;
                let all = (self.shared.windows.clone(), limits.windows.0);
                let writing = Writing::new(upload, size, limits.window.0, all);
                self.file = Some(OpenFile::new(Open::Writing(Box::new(writing)), &client, place));
                Ok(Answer::Body(Body::default()))
            }
            Request::Read(piece) => {
                let reading = self.reading()?;
                Ok(Answer::Data(reading.read(piece)?))
            }
            Request::ReadVector(pieces) => {
                let reading = self.reading()?;
                Ok(Answer::Data(vec![reading.read_vector(&pieces)?.into()]))
            }
            Request::Write { offset, bytes } => {
                let file = self.file.as_mut();
                file.ok_or_else(no_new_file)?.write(&self.shared.transfers, offset, bytes)?;
                Ok(Answer::None)
            }
            Request::Finish => self.finish(),
            Request::Close => {
                self.file = None;
                Ok(Answer::Body(Body::default()))
            }
            other => self.call(other).map(Answer::Body),
        }
    }

    /// What needs no open file.
    fn call(&self, request: Request<'_>) -> Result<Body, Refused> {
        let clock = &*self.shared.settings.clock;
        let done = |()| Body::default();
        match request {
            Request::Stat { asker, path } => names::stat(&self.client(&asker, "stat", &path)?, &path),
            Request::List { asker, path, after, limit } => {
                let client = self.client(&asker, "list", &path)?;
                let _place = self.long_call(&client)?;
                names::list(&client, &path, &after, limit)
            }
            Request::MakeDirectory { asker, path, mode, parents } => {
                let client = self.client(&asker, "mkdir", &path)?;
                names::make_directory(&client, clock, &path, mode, parents).map(done)
            }
            Request::RemoveDirectory { asker, path } => {
                names::remove(&self.client(&asker, "remove", &path)?, &path, Meant::Directory).map(done)
            }
            Request::Remove { asker, path } => {
                names::remove(&self.client(&asker, "remove", &path)?, &path, Meant::File).map(done)
            }
            Request::Rename { asker, from, to } => {
                names::rename(&self.client(&asker, "rename", &from)?, &from, &to).map(done)
            }
            Request::Stage { asker, priority, paths } => {
                let client = self.client(&asker, "stage", first(&paths))?;
                let request = staging::stage(&client, &paths, priority, self.shared.settings.pin)?;
                Ok(Body::default().text(&request))
            }
            Request::Cancel { asker, request } => {
                staging::cancel(&self.client(&asker, "cancel", &request)?, &request).map(done)
            }
            Request::Query { asker, request, paths } => {
                let client = self.client(&asker, "request", &request)?;
                let _place = self.long_call(&client)?;
                let answer = staging::query(&client, &request, &paths)?;
                let mut body = Body::default().u32(answer.paths);
                body.0.extend_from_slice(answer.json.as_bytes());
                Ok(body)
            }
            Request::Evict { asker, paths } => {
                staging::evict(&self.client(&asker, "evict", first(&paths))?, &paths).map(done)
            }
            Request::Space { asker } => {
                let _client = self.client(&asker, "stat", "space")?;
                let space = self.shared.space().unwrap_or_default();
                Ok(Body::default().u64(space.total.0).u64(space.free.0))
            }
            _ => Err(Refused::new(Errno::PROTO, "not a call")),
        }
    }

    fn open(&mut self, asker: &Asker, text: &str) -> Result<Answer, Refused> {
        let client = self.client(asker, "read", text)?;
        self.none_is_open()?;
        let place = self.place(&client)?;
        let path = names::path(text)?;
        let opened = Reading::open(client.engine.clone(), path.clone());
        let (reading, stat) = match opened {
            Err(refused)
                if refused.errno == Refused::new(NEARLINE, "").errno
                    && self.shared.settings.nearline == Nearline::Stall =>
            {
                let settings = &self.shared.settings;
                self.shared.staged.once(&client, &path, settings.pin, settings.clock.now())?;
                return Err(Refused::new(Errno::BUSY, format!("{} It is being staged.", refused.why)));
            }
            opened => opened?,
        };
        self.file = Some(OpenFile::new(Open::Reading(reading), &client, place));
        Ok(Answer::Body(names::file(Body::default(), &stat)))
    }

    fn none_is_open(&self) -> Result<(), Refused> {
        match self.file {
            None => Ok(()),
            Some(_) => Err(Refused::new(Errno::BUSY, "a file is open in this connection")),
        }
    }

    /// A place among the files that are open at once.
    fn place(&self, client: &Client) -> Result<Place, Refused> {
        Ok(self.shared.transfers.admit_blocking(&self.shared.open_files, &holder(client))?)
    }

    /// A place among the calls with long answers.
    fn long_call(&self, client: &Client) -> Result<Place, Refused> {
        Ok(self.shared.transfers.admit_blocking(&self.shared.long_calls, &holder(client))?)
    }

    /// The open file has a place among the transfers while it is used.
    fn take_transfer(&mut self) -> Result<(), Refused> {
        self.file.as_mut().map_or(Ok(()), |file| file.take_transfer(&self.shared.transfers))
    }

    fn reading(&mut self) -> Result<&mut Reading, Refused> {
        self.take_transfer()?;
        match &mut self.file {
            Some(OpenFile { open: Open::Reading(reading), .. }) => Ok(reading),
            _ => Err(Refused::new(Errno::BADF, "no file is open for reading in this connection")),
        }
    }

    fn finish(&mut self) -> Result<Answer, Refused> {
        self.take_transfer()?;
        match self.file.take() {
            Some(OpenFile { open: Open::Writing(writing), _place, transfer, .. }) => {
                let done = writing.finish();
                drop((transfer, _place));
                let done = done?;
                let sums = done.checksums.stream;
                let body = Body::default().u64(done.file.0).u64(done.size.0);
                Ok(Answer::Body(body.u32(sums.adler32.0).u32(sums.crc32c.0)))
            }
            other => {
                self.file = other;
                Err(no_new_file())
            }
        }
    }
}

impl OpenFile {
    fn new(open: Open, client: &Client, place: Place) -> Self {
        OpenFile { open, holder: holder(client), _place: place, transfer: None }
    }

    fn take_transfer(&mut self, transfers: &Transfers) -> Result<(), Refused> {
        if self.transfer.is_none() {
            self.transfer = Some(transfers.admit_blocking(transfers.places(), &self.holder)?);
        }
        Ok(())
    }

    /// Takes a piece of a new file. One that is refused, for whatever reason, ends the file: without it a
    /// shorter one would be kept.
    fn write(&mut self, transfers: &Transfers, offset: u64, bytes: &[u8]) -> Result<(), Refused> {
        // What is passed over needs no place.
        let has_place = match &self.open {
            Open::Writing(writing) if writing.has_failed() => return Ok(()),
            Open::Writing(_) => self.take_transfer(transfers),
            Open::Reading(_) => return Err(no_new_file()),
        };
        match (&mut self.open, has_place) {
            (Open::Writing(writing), Ok(())) => writing.write(offset, bytes),
            (Open::Writing(writing), Err(refused)) => {
                writing.fail(refused.clone());
                Err(refused)
            }
            (Open::Reading(_), _) => Err(no_new_file()),
        }
    }

    fn pause(&mut self) {
        match &mut self.open {
            Open::Reading(reading) => reading.pause(),
            Open::Writing(writing) => writing.pause(),
        }
        self.transfer = None;
    }
}

fn holder(client: &Client) -> Holder {
    Holder { caller: client.caller.name.clone(), ..Holder::default() }
}

fn no_new_file() -> Refused {
    Refused::new(Errno::BADF, "no new file is open in this connection")
}

fn first(paths: &[String]) -> &str {
    paths.first().map_or("", String::as_str)
}

#[cfg(test)]
mod tests {
    use authority::Notices;
    use transfer::{Places, TransferLimits};

    use super::*;
    use crate::writing::tests::Full;

    #[test]
    fn a_piece_that_finds_no_place_ends_the_file() {
        let limits =
            TransferLimits { at_once: 1, admission_wait: Duration::ZERO, ..TransferLimits::default() };
        let transfers = Transfers::new(limits, &Notices::default(), |_| 1);
        let holder = Holder { caller: "anna".to_owned(), ..Holder::default() };
        let writing = Writing::new(Box::new(Full), None, 1 << 20, (Arc::default(), 1 << 20));
        let mut file = OpenFile {
            open: Open::Writing(Box::new(writing)),
            holder: holder.clone(),
            _place: transfers.admit_blocking(&Places::new(1), &holder).unwrap(),
            transfer: None,
        };
        assert!(file.write(&transfers, 0, b"abc").is_ok());
        file.pause();
        let busy = transfers.admit_blocking(transfers.places(), &holder).unwrap();
        let refused = file.write(&transfers, 3, b"def").unwrap_err();
        assert_eq!(i32::from(refused.errno), Errno::BUSY.raw_os_error());
        drop(busy);
        // There are places again: the piece is missing all the same.
        assert!(file.write(&transfers, 6, b"ghi").is_ok(), "further ones are passed over");
        let Open::Writing(writing) = file.open else { unreachable!() };
        assert_eq!(
            writing.finish().map(|done| done.size),
            Err(refused),
            "the upload was not asked for its end"
        );
    }
}
