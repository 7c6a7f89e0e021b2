//! What a seal does with the files of a class that wait: large ones become containers of their own, the
//! others packs.

use std::convert::Infallible;

use base::{ByteCount, FileId};

use super::gather::{Gather, PackLimit, PackSize, Rest, Waiting};

/// Most members of one pack. Its headers are held in memory while it is sealed and while it is written: about
/// 3 kB each.
pub const PACK_MEMBERS_MAX: usize = 20_000;
/// Large files that are handed over together, at most.
pub const SEAL_BATCH_MAX: usize = 256;
/// Most parts of a file that is larger than a tape.
pub const FILE_PARTS_MAX: usize = 10_000;
/// Parts of files begin at multiples of this, so that each begins with a cell of the pool; on tapes that take
/// less, anywhere.
const PART_ALIGN: u64 = 1 << 20;
/// What small data sets leave behind together is put into packs once it is so many packs' worth.
const PACKS_LEFT_MAX: u64 = 16;
/// Pieces in place of the files of a pack's worth, where only their sum is known.
const BULK_PIECES: u64 = 16;
/// Of a backlog of more packs than this, those in front are taken to be full.
const BULK_PACKS_MAX: u64 = 32;

/// The parts into which a file that is larger than `largest` is cut, each with its offset and length: the
/// largest container that an empty tape takes in each of the tape pools that get a copy. `sealed`: so many
/// bytes stand in parts already, whatever those were cut by. The bounds are those of all copies.
///
/// `None` if that is more than [`FILE_PARTS_MAX`] parts.
#[must_use]
pub fn parts_of(
    size: ByteCount,
    sealed: ByteCount,
    largest: ByteCount,
) -> Option<Vec<(ByteCount, ByteCount)>> {
    let aligned = largest.0 - largest.0 % PART_ALIGN;
    let most = if aligned > 0 { aligned } else { largest.0 };
    let left = size.0.saturating_sub(sealed.0);
    if most == 0 || left.div_ceil(most) > FILE_PARTS_MAX as u64 {
        return None;
    }
    let mut parts = Vec::new();
    let mut at = sealed.0;
    while at < size.0 {
        // What a tape takes whole is not cut for its bounds.
        let length = if size.0 - at <= largest.0 { size.0 - at } else { most };
        parts.push((ByteCount(at), ByteCount(length)));
        at += length;
    }
    assert_eq!(at, size.0.max(sealed.0), "the parts have all bytes of the file");
    Some(parts)
}

impl PackSize {
    /// The size of the packs of a class, which its tapes limit.
    #[must_use]
    pub fn of(pack_bytes: ByteCount, limit: PackLimit) -> PackSize {
        PackSize { bytes: pack_bytes.0.max(1), members: PACK_MEMBERS_MAX, limit }
    }
}

/// Whose files are sealed, and what becomes of them.
pub trait Sealing {
    /// Why it cannot go on.
    type Error;

    /// The next files that wait behind this data set and file, in the order of both; none at the end. What
    /// was sealed since may be missing.
    ///
    /// # Errors
    /// Whatever keeps them from being read.
    fn waiting(&mut self, after: Option<(u64, FileId)>) -> Result<Vec<Waiting>, Self::Error>;

    /// Where a file stands in the tree: small data sets that are neighbours go together.
    ///
    /// # Errors
    /// Whatever keeps it from being read.
    fn place(&mut self, file: FileId) -> Result<String, Self::Error>;

    /// Each of these becomes a container of its own: at most [`SEAL_BATCH_MAX`].
    ///
    /// # Errors
    /// Whatever keeps them from being sealed.
    fn seal_files(&mut self, files: &[FileId]) -> Result<(), Self::Error>;

    /// These become one pack, in this order.
    ///
    /// # Errors
    /// Whatever keeps it from being sealed.
    fn seal_pack(&mut self, files: &[Waiting]) -> Result<(), Self::Error>;
}

/// Seals every file from `large` on, or that is too large for any pack, by itself, and packs of data sets
/// that fill them and half a one more; with `partial` all that waits. The rest stays until then, unless much
/// of it has come together. At any time no more is in memory than the files of two packs and the window of
/// small data sets, a few words each.
///
/// # Errors
/// The first one of `class`: what was sealed by then is.
pub fn seal<S: Sealing>(
    class: &mut S,
    size: PackSize,
    large: ByteCount,
    partial: bool,
) -> Result<(), S::Error> {
    if partial {
        pass(class, size, large, Rest::Goes)?;
        return Ok(());
    }
    let (files, bytes) = pass(class, size, large, Rest::Stays)?;
    if size.is_filled(bytes, usize::try_from(files).unwrap_or(usize::MAX), PACKS_LEFT_MAX, 1) {
        pass(class, size, large, Rest::Mixed)?;
    }
    Ok(())
}

/// Goes once through what waits; gives the files and bytes of what is left for packs.
fn pass<S: Sealing>(
    class: &mut S,
    size: PackSize,
    large: ByteCount,
    rest: Rest,
) -> Result<(u64, u64), S::Error> {
    let mut gather = Gather::new(size, rest);
    let mut alone = Vec::new();
    let mut after = None;
    loop {
        let page = class.waiting(after)?;
        let Some(last) = page.last() else { break };
        assert!(after.is_none_or(|after| after < (last.data_set, last.file)), "files come in their order");
        after = Some((last.data_set, last.file));
        for file in page {
            if file.size >= large.0 || !size.limit.allows(file.size, 1) {
                alone.push(file.file);
                if alone.len() >= SEAL_BATCH_MAX {
                    class.seal_files(&std::mem::take(&mut alone))?;
                }
                continue;
            }
            for pack in gather.push(file) {
                class.seal_pack(&pack)?;
            }
            if gather.window_is_full() {
                for pack in gather.mix(false, |file| class.place(file))? {
                    class.seal_pack(&pack)?;
                }
            }
        }
    }
    if !alone.is_empty() {
        class.seal_files(&alone)?;
    }
    let mut packs = gather.end();
    packs.extend(gather.mix(true, |file| class.place(file))?);
    for pack in packs {
        class.seal_pack(&pack)?;
    }
    Ok(gather.left())
}

/// What came of a seal of which only sums are known.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sealed {
    /// Containers that were made.
    pub containers: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that go on waiting.
    pub files_left: u64,
    /// Bytes that go on waiting.
    pub bytes_left: u64,
}

/// Pieces of equal size that wait.
struct Pieces {
    left: Vec<Waiting>,
    sealed: Sealed,
}

impl Sealing for Pieces {
    type Error = Infallible;

    fn waiting(&mut self, after: Option<(u64, FileId)>) -> Result<Vec<Waiting>, Infallible> {
        Ok(if after.is_none() { self.left.clone() } else { Vec::new() })
    }

    fn place(&mut self, _: FileId) -> Result<String, Infallible> {
        Ok(String::new())
    }

    fn seal_files(&mut self, files: &[FileId]) -> Result<(), Infallible> {
        unreachable!("none of {} pieces is a file of its own", files.len())
    }

    fn seal_pack(&mut self, files: &[Waiting]) -> Result<(), Infallible> {
        self.sealed.containers += 1;
        self.sealed.bytes += files.iter().map(|file| file.size).sum::<u64>();
        // One data set: its packs are cut from what waits.
        let begin = self.left.partition_point(|waiting| Some(waiting) < files.first());
        self.left.drain(begin..begin + files.len());
        Ok(())
    }
}

/// What [`seal`] makes of so many files and bytes, as far as the sums tell: the files of one data set, all
/// alike, none of them large. What tapes take does not come into it: packs are small beside tapes, but for a
/// few.
#[must_use]
pub fn seal_in_bulk(files: u64, bytes: ByteCount, size: PackSize, partial: bool) -> Sealed {
    if files == 0 {
        return Sealed::default();
    }
    let of_files = |part: u64| (u128::from(bytes.0) * u128::from(part) / u128::from(files)) as u64;
    let whole = u128::from(size.bytes) * u128::from(files);
    let of_a_pack = u64::try_from(whole.div_ceil(u128::from(bytes.0.max(1)))).unwrap_or(u64::MAX);
    let of_a_pack = of_a_pack.clamp(1, size.members as u64);
    let full = (files / of_a_pack).saturating_sub(BULK_PACKS_MAX);
    let in_front = full * of_a_pack;
    let (rest, rest_bytes) = (files - in_front, bytes.0 - of_files(in_front));
    let pieces = (rest / of_a_pack + 1).saturating_mul(BULK_PIECES).min(rest);
    let upto = |at: u64| (u128::from(rest_bytes) * u128::from(at) / u128::from(pieces)) as u64;
    let piece = |at: u64| Waiting { data_set: 0, file: FileId(at + 1), size: upto(at + 1) - upto(at) };
    let members = usize::try_from(size.members as u64 * pieces / rest).unwrap_or(usize::MAX).max(2);
    let sealed = Sealed { containers: full, bytes: of_files(in_front), ..Sealed::default() };
    let mut waiting = Pieces { left: (0..pieces).map(piece).collect(), sealed };
    let size = PackSize { members, limit: PackLimit::NONE, ..size };
    let Ok(()) = seal(&mut waiting, size, ByteCount(u64::MAX), partial);
    let Pieces { left, mut sealed } = waiting;
    sealed.bytes_left = left.iter().map(|piece| piece.size).sum();
    sealed.files_left = (u128::from(rest) * left.len() as u128 / u128::from(pieces)) as u64;
    assert_eq!(sealed.bytes + sealed.bytes_left, bytes.0, "every byte is in a pack or waits");
    sealed
}

#[cfg(test)]
mod tests;
