//! Giving back pages of a file.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use base::ByteCount;
use rustix::fs::{FallocateFlags, fallocate};

use crate::buffer::AlignedBuffer;
use crate::object::{PAGE, SharedPage};

/// Pages read together.
const PAGES_MAX: usize = 256;

/// Makes a hole. A file system without holes is no error.
pub(crate) fn punch(file: &File, offset: ByteCount, length: ByteCount) -> io::Result<()> {
    let flags = FallocateFlags::KEEP_SIZE | FallocateFlags::PUNCH_HOLE;
    match fallocate(file, flags, offset.0, length.0).map_err(io::Error::from) {
        Err(error) if error.kind() != io::ErrorKind::Unsupported => Err(error),
        _ => Ok(()),
    }
}

/// Makes holes of those pages of which all that somebody may need is zeros; gives their numbers.
pub(crate) fn punch_unneeded(file: &File, pages: &[SharedPage]) -> io::Result<Vec<u32>> {
    let mut given_back = Vec::new();
    let mut buffer = AlignedBuffer::new(PAGES_MAX.min(pages.len()) * PAGE);
    for run in runs(pages) {
        let Some(first) = run.first() else { continue };
        let bytes = buffer.as_mut_slice().get_mut(..run.len() * PAGE).unwrap_or_default();
        match file.read_exact_at(bytes, first.offset().0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => continue,
            read => read?,
        }
        let unneeded = run.iter().zip(bytes.chunks(PAGE)).filter(|(page, bytes)| page.is_unneeded(bytes));
        let unneeded: Vec<SharedPage> = unneeded.map(|(page, _)| *page).collect();
        for hole in runs(&unneeded) {
            let Some(first) = hole.first() else { continue };
            punch(file, first.offset(), ByteCount((hole.len() * PAGE) as u64))?;
            given_back.extend(hole.iter().map(|page| page.number));
        }
    }
    Ok(given_back)
}

/// Pages that follow one another, so many at most that they can be read together.
fn runs(pages: &[SharedPage]) -> impl Iterator<Item = &[SharedPage]> {
    let follows = |a: &SharedPage, b: &SharedPage| a.number.checked_add(1) == Some(b.number);
    pages.chunk_by(follows).flat_map(|run| run.chunks(PAGES_MAX))
}
