//! Copies of the catalogue that leave the disk to others meanwhile.

use std::fs::File;
use std::io::{self, PipeReader, Read};
use std::os::fd::OwnedFd;

use heed::{CompactionOption, Env, WithoutTls};

/// Bytes of a copy between two syncs. Where a copy of gigabytes waits in memory to be written, each sync of
/// others on the same disk, such as that of a put, waits for much of it.
const SYNCED_BYTES: u64 = 4 << 20;

/// Writes all tables of one moment into `file`, durable but for the file's name.
///
/// # Errors
/// If the engine fails or the file cannot be written.
pub(crate) fn copy(env: &Env<WithoutTls>, file: &mut File, how: CompactionOption) -> Result<(), heed::Error> {
    let (pages, into) = io::pipe()?;
    // LMDB writes to files.
    let mut into = File::from(OwnedFd::from(into));
    threads::scope(|scope| {
        let written = scope.spawn(move || pour(pages, file, &mut |file| file.sync_data()));
        let copied = env.copy_to_file(&mut into, how);
        // The end of what is read there.
        drop(into);
        match written.join() {
            Ok(Ok(())) => copied,
            Ok(Err(error)) => Err(heed::Error::Io(error)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Writes what comes into `file` and has it synced piece by piece.
fn pour(
    mut pages: PipeReader,
    file: &mut File,
    sync: &mut dyn FnMut(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let written = loop {
        let piece = io::copy(&mut (&mut pages).take(SYNCED_BYTES), file);
        match piece.and_then(|bytes| if bytes > 0 { sync(file).map(|()| bytes) } else { Ok(0) }) {
            Ok(0) => break Ok(()),
            Ok(_) => {}
            Err(error) => break Err(error),
        }
    };
    if written.is_err() {
        // LMDB cannot be told to stop; a pipe that nobody reads would hold it, or end the process.
        io::copy(&mut pages, &mut io::sink())?;
    }
    written
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn poured(bytes: usize, sync: &mut dyn FnMut(&mut File) -> io::Result<()>) -> (io::Result<()>, Vec<u8>) {
        let (pages, mut into) = io::pipe().unwrap();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("copy");
        let mut file = File::create_new(&path).unwrap();
        let written = std::thread::scope(|scope| {
            // All of it goes in, or this thread would wait for ever.
            scope.spawn(move || into.write_all(&vec![7; bytes]).unwrap());
            pour(pages, &mut file, sync)
        });
        (written, std::fs::read(path).unwrap())
    }

    /// A snapshot of a gigabyte was written at once and synced at its end: puts beside it waited for up to a
    /// second.
    #[test]
    fn a_copy_never_has_more_than_a_piece_that_is_not_durable() {
        let bytes = 2 * SYNCED_BYTES as usize + 1;
        let mut lengths = Vec::new();
        let mut sync = |file: &mut File| {
            lengths.push(file.metadata()?.len());
            Ok(())
        };
        let (written, copy) = poured(bytes, &mut sync);
        written.unwrap();
        assert!(copy == vec![7; bytes]);
        assert_eq!(lengths, [SYNCED_BYTES, 2 * SYNCED_BYTES, bytes as u64]);
    }

    #[test]
    fn a_copy_that_fails_says_so_and_lets_lmdb_end() {
        let mut syncs = 0;
        let mut sync = |_: &mut File| {
            syncs += 1;
            if syncs == 2 { Err(io::Error::other("planted")) } else { Ok(()) }
        };
        let (written, copy) = poured(5 * SYNCED_BYTES as usize, &mut sync);
        assert_eq!(written.unwrap_err().to_string(), "planted");
        assert_eq!((syncs, copy.len() as u64), (2, 2 * SYNCED_BYTES));
    }
}
