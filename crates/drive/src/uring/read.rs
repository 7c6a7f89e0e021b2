//! A read on its way through the ring: its file is opened, then its parts are read one behind the other.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use io_uring::{opcode, types};
use rustix::fs::OFlags;

use crate::DriveError;
use crate::files::Files;
use crate::queue::ReadOperation;
use crate::uring::ring::Next;
use crate::uring::{Parts, Told, answer, has_ended, transfer_length};

pub(crate) struct Reading {
    files: Arc<Files>,
    parts: Arc<Parts>,
    operation: Box<dyn ReadOperation>,
    /// What the kernel opens.
    name: CString,
    file: Option<File>,
    /// The part that is read, and what has come of it.
    number: usize,
    filled: usize,
    result: Told,
}

impl Reading {
    pub(crate) fn new(files: Arc<Files>, parts: Arc<Parts>, operation: Box<dyn ReadOperation>) -> Self {
        let path = files.file(operation.extent());
        let (name, result) = match CString::new(path.as_os_str().as_bytes()) {
            Ok(name) => (name, Ok(())),
            Err(error) => {
                let refused = io::Error::new(io::ErrorKind::InvalidInput, error);
                (CString::default(), Err(files.not_opened(operation.extent(), refused)))
            }
        };
        Reading { files, parts, operation, name, file: None, number: 0, filled: 0, result }
    }

    pub(crate) fn next(&mut self) -> Next {
        if self.result.is_err() {
            return Next::Done;
        }
        let Some(file) = &self.file else {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC | self.direct();
            let entry = opcode::OpenAt::new(types::Fd(rustix::fs::CWD.as_raw_fd()), self.name.as_ptr());
            return Next::Kernel(entry.flags(flags.bits() as i32).build());
        };
        loop {
            let Some((offset, into)) = self.operation.part(self.number) else { return Next::Done };
            let left = &mut into[self.filled..];
            if left.is_empty() {
                (self.number, self.filled) = (self.number + 1, 0);
                continue;
            }
            let (at, length) = (offset.0 + self.filled as u64, transfer_length(left.len()));
            let entry = opcode::Read::new(types::Fd(file.as_raw_fd()), left.as_mut_ptr(), length);
            return Next::Kernel(entry.offset(at).build());
        }
    }

    /// All parts come from one file: if one of them cannot be read past the page cache, none is.
    fn direct(&mut self) -> OFlags {
        let mut number = 0;
        while let Some((offset, into)) = self.operation.part(number) {
            if !self.files.can_be_direct(offset, into) {
                return OFlags::empty();
            }
            number += 1;
        }
        OFlags::DIRECT
    }

    pub(crate) fn ended(&mut self, result: i32) {
        let id = self.operation.extent();
        let moved = match answer(result) {
            Ok(moved) => moved,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return,
            Err(error) => {
                self.result = Err(match self.file {
                    None => self.files.not_opened(id, error),
                    Some(_) => self.not_read(error),
                });
                return;
            }
        };
        if self.file.is_none() {
            // SAFETY: the kernel has just opened this descriptor for us, and nobody else knows of it.
            self.file = Some(unsafe { File::from_raw_fd(result) });
            return;
        }
        match moved {
            0 => self.result = Err(self.not_read(io::ErrorKind::UnexpectedEof.into())),
            moved => self.filled += moved,
        }
    }

    fn not_read(&mut self, source: io::Error) -> DriveError {
        let id = self.operation.extent();
        let (offset, length) =
            self.operation.part(self.number).map_or_else(Default::default, |(at, into)| (at, into.len()));
        self.files.not_read(id, offset, length, source)
    }

    pub(crate) fn tell(self) {
        let Reading { files, parts, operation, file, result, .. } = self;
        // Nothing of the drive is held when somebody is told.
        drop((file, files));
        match result {
            Ok(()) => operation.done(Ok(())),
            // Whoever is told of an error may look at the drive, which blocks.
            Err(error) => parts.workers.run(move || operation.done(Err(error))),
        }
    }

    /// The queue has ended.
    pub(crate) fn give_up(mut self) {
        self.result = Err(self.abandoned());
        self.tell();
    }

    /// The kernel may still fill the memory, and read the name.
    pub(crate) fn lose(mut self) {
        let error = self.abandoned();
        let Reading { files, parts, operation, name, file, .. } = self;
        std::mem::forget(name);
        drop((file, files));
        parts.workers.run(move || operation.lost(error));
    }

    fn abandoned(&mut self) -> DriveError {
        self.files.shared.mark_suspect();
        self.not_read(has_ended())
    }
}
