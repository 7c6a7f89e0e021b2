//! A file's bytes: the most frequent record by far, so that what is usual takes no room.

use base::{BlobPiece, ByteCount, Timestamp};

use crate::codec::{Codec, Reader};
use crate::record::{Attributes, FileKind, FileRecord, FileState};

/// The link's target follows.
const LINK: u8 = 1;
/// It is not live: the state follows.
const NOT_LIVE: u8 = 1 << 1;
/// Extended attributes follow.
const XATTRS: u8 = 1 << 2;
/// The data set is not the directory's number: it follows.
const DATASET: u8 = 1 << 3;
/// One piece, which is the whole file: its blob and offset follow.
const WHOLE: u8 = 1 << 4;
/// Other pieces follow. Without this and `WHOLE` there are none.
const PIECES: u8 = 1 << 5;
/// The modification time is a number of whole seconds since 1970: a varint of them instead of eight bytes.
const SECONDS: u8 = 1 << 6;
/// The permission bits are not 0o644: they follow.
const MODE: u8 = 1 << 7;
/// What most files may.
const USUAL_MODE: u32 = 0o644;
const SECOND: i64 = 1_000_000_000;

/// The only piece, if it is as long as the file.
fn whole(file: &FileRecord) -> Option<&BlobPiece> {
    match file.pieces.as_slice() {
        [piece] if piece.length == file.size => Some(piece),
        _ => None,
    }
}

/// The seconds, if the time is that many whole ones after 1970 and a varint of them is shorter.
fn seconds(at: Timestamp) -> Option<u64> {
    (at.0 >= 0 && at.0 % SECOND == 0).then_some((at.0 / SECOND) as u64)
}

fn flags(file: &FileRecord) -> u8 {
    let flag = |is_set: bool, flag| if is_set { flag } else { 0 };
    let is_whole = whole(file).is_some();
    flag(file.kind != FileKind::Regular, LINK)
        | flag(file.state != FileState::Live, NOT_LIVE)
        | flag(!file.attributes.xattrs.is_empty(), XATTRS)
        | flag(file.dataset != file.parent.0, DATASET)
        | flag(is_whole, WHOLE)
        | flag(!is_whole && !file.pieces.is_empty(), PIECES)
        | flag(seconds(file.attributes.mtime).is_some(), SECONDS)
        | flag(file.attributes.mode != USUAL_MODE, MODE)
}

impl Codec for FileRecord {
    fn put(&self, out: &mut Vec<u8>) {
        let FileRecord { parent, name, kind, state, size, created, .. } = self;
        let FileRecord { attributes, checksums, class, dataset, pieces, .. } = self;
        let Attributes { mtime, mode, owner, group, xattrs } = attributes;
        let flags = flags(self);
        out.push(flags);
        parent.put(out);
        name.put(out);
        if let FileKind::Symlink(target) = kind {
            target.put(out);
        }
        if flags & NOT_LIVE != 0 {
            state.put(out);
        }
        size.put(out);
        created.put(out);
        match seconds(*mtime) {
            Some(seconds) => seconds.put(out),
            None => mtime.put(out),
        }
        if flags & MODE != 0 {
            mode.put(out);
        }
        owner.put(out);
        group.put(out);
        if flags & XATTRS != 0 {
            xattrs.put(out);
        }
        checksums.put(out);
        class.put(out);
        if flags & DATASET != 0 {
            dataset.put(out);
        }
        match whole(self) {
            Some(piece) => {
                piece.blob.put(out);
                piece.offset.put(out);
            }
            None if flags & PIECES != 0 => pieces.put(out),
            None => {}
        }
    }

    fn take(input: &mut Reader<'_>) -> Option<Self> {
        let flags = input.byte()?;
        let has = |flag| flags & flag != 0;
        let parent = Codec::take(input)?;
        let name = Codec::take(input)?;
        let kind = if has(LINK) { FileKind::Symlink(Codec::take(input)?) } else { FileKind::Regular };
        let state = if has(NOT_LIVE) { Codec::take(input)? } else { FileState::Live };
        let size: ByteCount = Codec::take(input)?;
        let created = Codec::take(input)?;
        let mtime = match has(SECONDS) {
            true => Timestamp(i64::try_from(u64::take(input)?).ok()?.checked_mul(SECOND)?),
            false => Codec::take(input)?,
        };
        let mode = if has(MODE) { Codec::take(input)? } else { USUAL_MODE };
        let (owner, group) = Codec::take(input)?;
        let xattrs = if has(XATTRS) { Codec::take(input)? } else { Vec::new() };
        let checksums = Codec::take(input)?;
        let class = Codec::take(input)?;
        let dataset = if has(DATASET) { Codec::take(input)? } else { dataset_of(parent) };
        let pieces = if has(WHOLE) {
            vec![BlobPiece { blob: Codec::take(input)?, offset: Codec::take(input)?, length: size }]
        } else if has(PIECES) {
            Codec::take(input)?
        } else {
            Vec::new()
        };
        let attributes = Attributes { mtime, mode, owner, group, xattrs };
        let file = FileRecord {
            parent,
            name,
            kind,
            state,
            size,
            created,
            attributes,
            checksums,
            class,
            dataset,
            pieces,
        };
        // Each file has one form only.
        (self::flags(&file) == flags).then_some(file)
    }
}

/// The data set of files that say nothing else.
fn dataset_of(parent: base::DirId) -> u64 {
    parent.0
}
