//! One append on its way through the ring.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use io_uring::{opcode, types};

use crate::AlignedBuffer;
use crate::queue::{WriteOperation, WriteStep};
use crate::uring::extent::Extent;
use crate::uring::ring::Next;
use crate::uring::{answer, has_ended, transfer_length};
use crate::writer::FileExtentWriter;

pub(crate) struct Writing {
    extent: Arc<Extent>,
    writer: Box<FileExtentWriter>,
    operation: Box<dyn WriteOperation>,
    /// What is written instead of the operation's own bytes.
    copy: Option<AlignedBuffer>,
    written: usize,
    result: io::Result<()>,
}

impl Writing {
    pub(crate) fn new(
        extent: Arc<Extent>,
        writer: Box<FileExtentWriter>,
        operation: Box<dyn WriteOperation>,
        copy: Option<AlignedBuffer>,
    ) -> Self {
        Writing { extent, writer, operation, copy, written: 0, result: Ok(()) }
    }

    fn bytes(&self) -> &[u8] {
        match (&self.copy, self.operation.step()) {
            (Some(copy), _) => copy.as_slice(),
            (None, WriteStep::Append(bytes)) => bytes,
            (None, WriteStep::Sync | WriteStep::Seal) => &[],
        }
    }

    pub(crate) fn next(&self) -> Next {
        let left = &self.bytes()[self.written..];
        if self.result.is_err() || left.is_empty() {
            return Next::Done;
        }
        let (at, length) = (self.writer.length + self.written as u64, transfer_length(left.len()));
        let file = types::Fd(self.writer.file.as_raw_fd());
        Next::Kernel(opcode::Write::new(file, left.as_ptr(), length).offset(at).build())
    }

    pub(crate) fn ended(&mut self, result: i32) {
        match answer(result) {
            Ok(0) => self.result = Err(io::ErrorKind::WriteZero.into()),
            Ok(moved) => self.written += moved,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => self.result = Err(error),
        }
    }

    pub(crate) fn tell(self) {
        let length = self.bytes().len();
        let Writing { extent, mut writer, operation, result, .. } = self;
        match writer.end_append(length, result) {
            Ok(()) => extent.over(Some(writer), operation, Ok(())),
            Err(error) => extent.failed(writer, operation, error),
        }
    }

    /// The queue has ended.
    pub(crate) fn give_up(mut self) {
        self.result = Err(has_ended());
        self.tell();
    }

    /// The kernel may still read the bytes.
    pub(crate) fn lose(self) {
        let Writing { extent, mut writer, operation, copy, .. } = self;
        std::mem::forget(copy);
        if let Err(error) = writer.end_append(0, Err(has_ended())) {
            extent.lost(writer, operation, error);
        }
    }
}
