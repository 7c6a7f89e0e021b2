//! A file on its way in: pieces go to the engine in order, and it is kept only once XRootD says that it is
//! complete.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use archive::PutDone;
use authority::Upload;
use rustix::io::Errno;

use crate::errors::Refused;
use crate::window::Window;

/// A new file.
pub struct Writing {
    upload: Option<Box<dyn Upload>>,
    window: Window,
    /// What the client has said that it will send.
    size: Option<u64>,
    /// Bytes that wait in all windows.
    all_kept: Arc<AtomicU64>,
    all_kept_max: u64,
    failed: Option<Refused>,
}

impl Writing {
    /// Into an upload that was begun.
    pub fn new(upload: Box<dyn Upload>, size: Option<u64>, window: u64, all: (Arc<AtomicU64>, u64)) -> Self {
        let (all_kept, all_kept_max) = all;
        Writing {
            upload: Some(upload),
            window: Window::new(window),
            size,
            all_kept,
            all_kept_max,
            failed: None,
        }
    }

    /// Takes a piece.
    ///
    /// # Errors
    /// The first time that one cannot be taken; the file is over then, and further ones are passed over.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Refused> {
        if self.failed.is_some() {
            return Ok(());
        }
        let written = self.take(offset, bytes);
        if let Err(refused) = &written {
            self.fail(refused.clone());
        }
        written
    }

    fn take(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Refused> {
        let end = offset.saturating_add(bytes.len() as u64);
        if let Some(size) = self.size.filter(|size| end > *size) {
            let why = format!("bytes up to {end} were sent of a file that was announced with {size}");
            return Err(Refused::new(Errno::ILSEQ, why));
        }
        let kept = self.window.kept();
        let is_next = self.window.take(offset, bytes)?;
        let Some(upload) = &mut self.upload else { return Ok(()) };
        if !is_next {
            let more = self.window.kept() - kept;
            let before = self.all_kept.fetch_add(more, Ordering::Relaxed);
            if before + more > self.all_kept_max {
                let why = "too many bytes of files wait for those before them: send fewer streams at once";
                return Err(Refused::new(Errno::NOMEM, why));
            }
            return Ok(());
        }
        upload.write(bytes)?;
        let mut kept = kept;
        while let Some(piece) = self.window.ready() {
            self.all_kept.fetch_sub(kept - self.window.kept(), Ordering::Relaxed);
            kept = self.window.kept();
            upload.write(&piece)?;
        }
        Ok(())
    }

    /// Whether it is over: nothing of it will be kept.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// A piece of it was refused: without that piece nothing of the file may be kept.
    pub fn fail(&mut self, refused: Refused) {
        self.upload = None;
        self.failed = Some(refused);
        self.forget();
    }

    /// What waits in this window waits no more.
    fn forget(&mut self) {
        self.all_kept.fetch_sub(self.window.kept(), Ordering::Relaxed);
        self.window = Window::new(0);
    }

    /// Makes the file durable.
    ///
    /// # Errors
    /// If something of it failed or is missing. Nothing is kept then.
    pub fn finish(mut self) -> Result<PutDone, Refused> {
        if let Some(refused) = self.failed.take() {
            return Err(refused);
        }
        let got = self.window.next();
        if self.window.kept() > 0 {
            return Err(Refused::new(Errno::ILSEQ, format!("bytes {got}.. were never sent")));
        }
        if let Some(size) = self.size.filter(|size| *size != got) {
            return Err(Refused::new(Errno::ILSEQ, format!("{got} bytes were sent of {size}")));
        }
        let upload = self.upload.take().ok_or_else(|| Refused::new(Errno::IO, "there is no upload"))?;
        Ok(upload.finish()?)
    }

    /// The client sends nothing now: others get the engine's memory.
    pub fn pause(&mut self) {
        if let Some(upload) = &mut self.upload {
            upload.pause();
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use archive::{ArchiveError, PutCallback};

    use super::*;
    use crate::window::PIECE_BYTES_MIN;

    /// An upload without room.
    pub(crate) struct Full;

    impl Upload for Full {
        fn write(&mut self, _: &[u8]) -> Result<(), ArchiveError> {
            Ok(())
        }

        fn pause(&mut self) {}

        fn attribute(&mut self, _: String, _: Vec<u8>) {}

        fn finish(self: Box<Self>) -> Result<PutDone, ArchiveError> {
            Err(ArchiveError::PoolFull)
        }

        fn finish_then(self: Box<Self>, done: PutCallback) {
            done(self.finish());
        }
    }

    fn writing(size: Option<u64>, all: &Arc<AtomicU64>) -> Writing {
        Writing::new(Box::new(Full), size, 2 * PIECE_BYTES_MIN, (all.clone(), PIECE_BYTES_MIN))
    }

    #[test]
    fn what_waits_is_counted_until_it_waits_no_more() {
        let all = Arc::new(AtomicU64::new(0));
        let (mut one, mut two) = (writing(None, &all), writing(None, &all));
        assert!(one.write(1, b"123456").is_ok());
        let refused = two.write(1, b"123456").unwrap_err();
        assert_eq!(
            (refused.errno, all.load(Ordering::Relaxed)),
            (12, PIECE_BYTES_MIN),
            "more than all may keep"
        );
        assert!(two.write(0, b"0").is_ok(), "the rest is passed over");
        assert_eq!(two.finish().unwrap_err().errno, 12, "and refused in the same words");
        assert!(one.write(0, b"0").is_ok());
        assert_eq!(all.load(Ordering::Relaxed), 0, "handed on");
        assert!(one.write(9, b"9").is_ok());
        drop(one);
        assert_eq!(all.load(Ordering::Relaxed), 0, "gone with its client");
    }

    #[test]
    fn nothing_is_finished_that_is_not_complete() {
        let all = Arc::new(AtomicU64::new(0));
        let finished = |size, pieces: &[(u64, &[u8])]| {
            let mut writing = writing(size, &all);
            pieces.iter().for_each(|(offset, bytes)| drop(writing.write(*offset, bytes)));
            writing.finish().unwrap_err().errno
        };
        let (missing, written, full) = (84, 95, 28);
        assert_eq!(finished(None, &[(0, b"abc")]), full, "the engine is asked");
        assert_eq!(finished(Some(3), &[(1, b"bc"), (0, b"a")]), full);
        assert_eq!(finished(Some(4), &[(0, b"abc")]), missing);
        assert_eq!(finished(Some(2), &[(0, b"abc")]), missing);
        assert_eq!(finished(None, &[(0, b"abc"), (4, b"e")]), missing);
        assert_eq!(finished(None, &[(0, b"abc"), (2, b"c")]), written);
        assert_eq!(finished(Some(1), &[]), missing);
    }
}
