//! What is where on a drive: keys, and the versions that bind a value to what it is of. Bytes are described
//! in `docs/format/kinetic-drive.md`.

use base::{BlobId, DriveId, Uuid};
use bytes::{BufMut, Bytes, BytesMut};
use drive::ExtentId;

/// The superblock, and the same once more.
pub(crate) const SUPERBLOCKS: [&[u8]; 2] = [b"kist/drive", b"kist/drive.copy"];
/// Says that the drive took the place of another one and lacks what that one held.
pub(crate) const UNFILLED: &[u8] = b"kist/unfilled";
/// What a probe writes.
pub(crate) const PROBE: &[u8] = b"kist/probe";
/// The first key that is ours, and the first behind all of them.
pub(crate) const OURS: (&[u8], &[u8]) = (b"kist/", b"kist0");
/// Before all keys of extents, and the first behind them.
const EXTENTS: (&[u8], &[u8]) = (b"kist/x/", b"kist/x0");
/// Before the marks of replacements under way, and the first behind them.
const REPLACEMENTS: (&[u8], &[u8]) = (b"kist/r/", b"kist/r0");
const ID_BYTES: usize = 14;
const HEAD: u8 = 0;
const PIECE: u8 = 1;
/// Higher than what follows an id in any key.
const BEHIND: u8 = 0xff;

/// Which writing of an extent: a random number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Generation(pub(crate) u64);

/// A piece of an extent: where it begins and how long it is, in pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Piece {
    pub(crate) from: u32,
    pub(crate) pages: u16,
}

impl Piece {
    pub(crate) fn end(self) -> u64 {
        u64::from(self.from) + u64::from(self.pages)
    }
}

fn put_id(into: &mut impl BufMut, id: ExtentId) {
    into.put_slice(&id.blob.0.to_le_bytes()[..1]);
    into.put_u64(id.blob.0);
    into.put_u32(id.stripe);
    into.put_u8(id.shard);
}

fn with_id(prefix: &[u8], id: ExtentId) -> BytesMut {
    let mut key = BytesMut::with_capacity(64);
    key.put_slice(prefix);
    put_id(&mut key, id);
    key
}

/// The key of the head of an extent.
pub(crate) fn head(id: ExtentId) -> Bytes {
    let mut key = with_id(EXTENTS.0, id);
    key.put_u8(HEAD);
    key.freeze()
}

/// The key of a piece.
pub(crate) fn piece(id: ExtentId, generation: Generation, piece: Piece) -> Bytes {
    let mut key = with_id(EXTENTS.0, id);
    key.put_u8(PIECE);
    key.put_u64(generation.0);
    key.put_u32(piece.from);
    key.put_u16(piece.pages);
    key.freeze()
}

/// Before all pieces of one writing of an extent, and the first behind them.
pub(crate) fn pieces(id: ExtentId, generation: Generation) -> (Bytes, Bytes) {
    let mut start = with_id(EXTENTS.0, id);
    start.put_u8(PIECE);
    start.put_u64(generation.0);
    let mut end = start.clone();
    end.put_u8(BEHIND);
    end.put_slice(&[BEHIND; 8]);
    (start.freeze(), end.freeze())
}

/// Before all that is of an extent, and behind it.
pub(crate) fn all_of(id: ExtentId) -> (Bytes, Bytes) {
    let start = with_id(EXTENTS.0, id);
    let mut end = start.clone();
    end.put_u8(BEHIND);
    (start.freeze(), end.freeze())
}

/// Behind all that is of this extent, or before all extents; and the end of all.
pub(crate) fn extents_after(after: Option<ExtentId>) -> (Bytes, Bytes) {
    let start = after.map_or_else(|| Bytes::from_static(EXTENTS.0), |id| all_of(id).1);
    (start, Bytes::from_static(EXTENTS.1))
}

/// The key of the mark that this writing replaces an extent.
pub(crate) fn replacement(id: ExtentId, generation: Generation) -> Bytes {
    let mut key = with_id(REPLACEMENTS.0, id);
    key.put_u64(generation.0);
    key.freeze()
}

/// Where the marks of replacements stand.
pub(crate) fn replacements() -> (Bytes, Bytes) {
    (Bytes::from_static(REPLACEMENTS.0), Bytes::from_static(REPLACEMENTS.1))
}

/// What a key of ours names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Named {
    Head(ExtentId),
    Piece(ExtentId, Generation, Piece),
    Replacement(ExtentId, Generation),
}

impl Named {
    pub(crate) fn id(self) -> ExtentId {
        match self {
            Named::Head(id) | Named::Piece(id, ..) | Named::Replacement(id, _) => id,
        }
    }
}

/// Reads a key; `None` if it is none of an extent.
pub(crate) fn read(key: &[u8]) -> Option<Named> {
    let (is_mark, rest) = match key.strip_prefix(EXTENTS.0) {
        Some(rest) => (false, rest),
        None => (true, key.strip_prefix(REPLACEMENTS.0)?),
    };
    let (id, rest) = rest.split_first_chunk::<ID_BYTES>()?;
    let [bucket, b0, b1, b2, b3, b4, b5, b6, b7, s0, s1, s2, s3, shard] = *id;
    let blob = u64::from_be_bytes([b0, b1, b2, b3, b4, b5, b6, b7]);
    let id = ExtentId { blob: BlobId(blob), stripe: u32::from_be_bytes([s0, s1, s2, s3]), shard };
    if bucket != b7 {
        return None;
    }
    if is_mark {
        let generation = u64::from_be_bytes(rest.try_into().ok()?);
        return Some(Named::Replacement(id, Generation(generation)));
    }
    match rest.split_first()? {
        (&HEAD, []) => Some(Named::Head(id)),
        (&PIECE, rest) => {
            let (generation, rest) = rest.split_first_chunk::<8>()?;
            let (from, rest) = rest.split_first_chunk::<4>()?;
            let pages = u16::from_be_bytes(rest.try_into().ok()?);
            let piece = Piece { from: u32::from_be_bytes(*from), pages };
            Some(Named::Piece(id, Generation(u64::from_be_bytes(*generation)), piece))
        }
        _ => None,
    }
}

/// The version of the head of an extent. `change` counts what was written over it.
pub(crate) fn head_version(instance: Uuid, id: ExtentId, generation: Generation, change: u32) -> Bytes {
    let mut version = BytesMut::with_capacity(48);
    version.put_slice(b"KH");
    version.put_slice(&instance.0);
    put_id(&mut version, id);
    version.put_u64(generation.0);
    version.put_u32(change);
    version.freeze()
}

/// What the version of a piece says: whose it is, and how it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PieceVersion {
    /// How often it was written anew, with holes.
    pub(crate) change: u32,
    /// How many of its pages are stored; all of them if there are no holes.
    pub(crate) kept: u16,
}

impl PieceVersion {
    pub(crate) fn whole(piece: Piece) -> Self {
        PieceVersion { change: 0, kept: piece.pages }
    }
}

fn piece_identity(instance: Uuid, id: ExtentId, generation: Generation, piece: Piece) -> BytesMut {
    let mut version = BytesMut::with_capacity(64);
    version.put_slice(b"KP");
    version.put_slice(&instance.0);
    put_id(&mut version, id);
    version.put_u64(generation.0);
    version.put_u32(piece.from);
    version.put_u16(piece.pages);
    version
}

/// The version of a piece.
pub(crate) fn piece_version(
    instance: Uuid,
    id: ExtentId,
    generation: Generation,
    piece: Piece,
    stored: PieceVersion,
) -> Bytes {
    let mut version = piece_identity(instance, id, generation, piece);
    version.put_u32(stored.change);
    version.put_u16(stored.kept);
    version.freeze()
}

/// Reads the version of a piece; `None` if it is of another one, or of none.
pub(crate) fn read_piece_version(
    version: &[u8],
    instance: Uuid,
    id: ExtentId,
    generation: Generation,
    piece: Piece,
) -> Option<PieceVersion> {
    let rest = version.strip_prefix(piece_identity(instance, id, generation, piece).as_ref())?;
    let (change, kept) = rest.split_first_chunk::<4>()?;
    let kept = u16::from_be_bytes(kept.try_into().ok()?);
    (kept <= piece.pages).then_some(PieceVersion { change: u32::from_be_bytes(*change), kept })
}

/// The version of a page of the superblock: another one each time.
pub(crate) fn superblock_version(instance: Uuid, drive: DriveId, writing: u64) -> Bytes {
    let mut version = BytesMut::with_capacity(32);
    version.put_slice(b"KS");
    version.put_slice(&instance.0);
    version.put_u16(drive.0);
    version.put_u64(writing);
    version.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ExtentId = ExtentId { blob: BlobId(0x0102_0304_0506_0708), stripe: 9, shard: 3 };
    const AT: Piece = Piece { from: 257, pages: 256 };

    #[test]
    fn keys_are_read_back_and_have_the_bytes_of_the_format() {
        let generation = Generation(0xa1a2_a3a4_a5a6_a7a8);
        let key = piece(ID, generation, AT);
        let id = b"\x08\x01\x02\x03\x04\x05\x06\x07\x08\0\0\0\x09\x03";
        let expected = [b"kist/x/", id.as_slice(), b"\x01\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\0\0\x01\x01\x01\0"];
        assert_eq!(key, expected.concat());
        assert_eq!(read(&key), Some(Named::Piece(ID, generation, AT)));
        assert_eq!(read(&head(ID)), Some(Named::Head(ID)));
        assert_eq!(read(&replacement(ID, generation)), Some(Named::Replacement(ID, generation)));
        for bad in [&key[..key.len() - 1], &[&key[..], b"x"].concat(), b"kist/drive", b"kist/x/", b""] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
        let (start, end) = all_of(ID);
        assert!(start < head(ID) && head(ID) < key && key < end);
        let (start, end) = pieces(ID, generation);
        assert!(start < key && key < end && end < pieces(ID, Generation(generation.0 + 1)).0);
    }

    #[test]
    fn keys_are_in_the_order_of_extents() {
        let id = |blob, stripe, shard| ExtentId { blob: BlobId(blob), stripe, shard };
        let mut ids: Vec<ExtentId> = [0, 1, 255, 256, 0x0100_0000_0000_0001]
            .into_iter()
            .flat_map(|blob| {
                [(0, 0), (0, 1), (1, 0), (300, 7)].map(|(stripe, shard)| id(blob, stripe, shard))
            })
            .collect();
        ids.sort_unstable();
        let keys: Vec<Bytes> = ids.iter().map(|id| head(*id)).collect();
        assert!(keys.is_sorted());
    }

    #[test]
    fn a_version_is_of_one_piece_alone() {
        let (instance, generation) = (Uuid([7; 16]), Generation(5));
        let stored = PieceVersion { change: 2, kept: 9 };
        let version = piece_version(instance, ID, generation, AT, stored);
        let read =
            |instance, id, generation, piece| read_piece_version(&version, instance, id, generation, piece);
        assert_eq!(read(instance, ID, generation, AT), Some(stored));
        assert_eq!(read(Uuid([8; 16]), ID, generation, AT), None);
        assert_eq!(read(instance, ExtentId { shard: 4, ..ID }, generation, AT), None);
        assert_eq!(read(instance, ID, Generation(6), AT), None);
        assert_eq!(read(instance, ID, generation, Piece { from: 256, ..AT }), None);
        assert_eq!(read(instance, ID, generation, Piece { pages: 255, ..AT }), None);
    }
}
