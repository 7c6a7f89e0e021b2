//! The layout of a sealed pack, and the skeleton from which it can be had again.

use std::collections::BTreeSet;

use base::{ByteCount, ContainerId, Crc32c, FileId, StreamChecksums};

use super::header::{PackHeader, PackHeaderError, PackHeaderOf, RECORD_BYTES};
use super::header::{manifest_header, member_header, read_pack_header};
use super::manifest::{self, Manifest, ManifestError};
use super::{
    MemberKind, OWNER_BYTES_MAX, PackMember, PackPlan, SYMLINK_TARGET_BYTES_MAX, padded, stored_path,
};

/// The most members of a pack.
pub const PACK_MEMBERS_MAX: usize = 100_000;
/// The longest skeleton in bytes; about 1.5 kB a member with names of usual length.
pub const SKELETON_BYTES_MAX: usize = 512 << 20;
/// The length of the frame before a stored skeleton.
pub const SKELETON_FRAME_BYTES: usize = 40;

const MAGIC: &[u8; 8] = b"KISTSKEL";
const VERSION: u32 = 1;
/// Two empty records end a tar. Programs need no more; a tape block need not be full.
const END_BYTES: usize = 2 * RECORD_BYTES;
const ZEROS: [u8; RECORD_BYTES] = [0; RECORD_BYTES];

/// Where a member stands in its pack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberLayout {
    /// The file.
    pub file: FileId,
    /// Where its header starts, from the start of the pack.
    pub header_offset: ByteCount,
    /// The length of its header.
    pub header_length: ByteCount,
    /// Where its data starts: right behind the header.
    pub data_offset: ByteCount,
    /// The length of its data, without the zeros behind it.
    pub data_length: ByteCount,
    /// The checksums of its data.
    pub checksums: StreamChecksums,
}

/// A stretch of a pack, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece<'a> {
    /// Bytes of the skeleton.
    Skeleton(&'a [u8]),
    /// All bytes of a file; never empty.
    Data {
        /// The file.
        file: FileId,
        /// How many there must be.
        length: ByteCount,
    },
    /// The zeros that fill the last record of a file: 1 to 511.
    Zeros(u32),
}

/// A sealed pack: its skeleton and where everything stands. From its stored skeleton and the files' data the
/// pack can be written again, byte for byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackLayout {
    container: ContainerId,
    /// The frame and the skeleton.
    stored: Vec<u8>,
    /// The length of the manifest with its header and zeros.
    manifest_bytes: usize,
    members: Vec<MemberLayout>,
    total: ByteCount,
}

/// Why a pack cannot be sealed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SealError {
    /// None or more than [`PACK_MEMBERS_MAX`].
    #[error("a pack of {0} members cannot be: seal 1 to {PACK_MEMBERS_MAX}")]
    Members(usize),
    /// A file twice.
    #[error("file {0} is in the pack twice: list it once")]
    Twice(FileId),
    /// A file whose path is `/`.
    #[error("file {0} has the root as its path")]
    Root(FileId),
    /// A name of owner or group that is too long or holds NUL.
    #[error("file {0} has an owner or group name over {OWNER_BYTES_MAX} bytes or with NUL")]
    Owner(FileId),
    /// A target that is empty, too long or holds NUL.
    #[error(
        "file {0} is a symbolic link whose target is empty, over {SYMLINK_TARGET_BYTES_MAX} bytes, or has NUL"
    )]
    Target(FileId),
    /// A symbolic link with a length, or an empty file with checksums of something.
    #[error("file {0} has no data, but a length or checksums of some: its record is wrong")]
    NotEmpty(FileId),
    /// More than [`SKELETON_BYTES_MAX`] of headers.
    #[error("the headers of the pack have more than {SKELETON_BYTES_MAX} bytes: seal fewer members")]
    SkeletonTooLong,
    /// Lengths that overflow.
    #[error("the pack would be longer than 2^63 bytes: seal fewer members")]
    TooLong,
}

/// Why a stored skeleton is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SkeletonError {
    /// It does not start with the magic.
    #[error("this is no stored pack skeleton")]
    Magic,
    /// A version that is not known.
    #[error(
        "the stored pack skeleton has version {0}: use the release of Kist that wrote it, or a newer one"
    )]
    Version(u32),
    /// Another length than its frame says, or beyond the limits.
    #[error("the stored pack skeleton has {0} bytes, not what its frame says: restore it from another copy")]
    Length(usize),
    /// A checksum is wrong.
    #[error("the stored pack skeleton's checksum is wrong: restore it from another copy")]
    Checksum,
    /// A header within is wrong.
    #[error("header {at} of the stored pack skeleton is wrong: {source}")]
    Header {
        /// Which: 0 is the manifest's.
        at: usize,
        /// What.
        source: PackHeaderError,
    },
    /// The manifest is wrong.
    #[error("the stored pack skeleton: {0}")]
    Manifest(#[from] ManifestError),
    /// Manifest, headers and frame do not say the same.
    #[error("the stored pack skeleton contradicts itself at member {at}: it was written wrongly")]
    Contradiction {
        /// Counted from 0.
        at: usize,
    },
}

impl PackLayout {
    /// Seals a pack: fixes every byte of it but the files' own. The same plan always gives the same pack. A
    /// path that an earlier member or its directory has gets the suffix `~<file id>` within the tar.
    ///
    /// # Errors
    /// If the plan breaks a limit or contradicts itself.
    pub fn seal(plan: &PackPlan) -> Result<Self, SealError> {
        check_plan(plan)?;
        let mut headers = Vec::new();
        let mut ends = Vec::with_capacity(plan.members.len());
        let mut names = Names::default();
        for member in &plan.members {
            headers.extend(member_header(member, &names.stored(member)));
            ends.push(headers.len());
            if headers.len() > SKELETON_BYTES_MAX {
                return Err(SealError::SkeletonTooLong);
            }
        }
        // Its offsets have a fixed width, so the manifest's length is known before they are.
        let text_length = manifest::encode(plan, |_| 0).len();
        let sample = manifest_header(plan.container, plan.created, &vec![0; text_length]);
        let manifest_bytes = sample.len() + text_length.next_multiple_of(RECORD_BYTES);
        let skeleton_length = manifest_bytes + headers.len() + END_BYTES;
        if skeleton_length > SKELETON_BYTES_MAX {
            return Err(SealError::SkeletonTooLong);
        }
        let lengths = ends.iter().scan(0, |before, &end| Some(end - std::mem::replace(before, end)));
        let members = lengths.zip(&plan.members).map(|(header, member)| Placed {
            file: member.file,
            header: header as u64,
            data: member.size.0,
            checksums: member.checksums.stream,
        });
        let (members, total) = place(manifest_bytes, members).ok_or(SealError::TooLong)?;
        let text = manifest::encode(plan, |at| members.get(at).map_or(0, |member| member.data_offset.0));
        let header = manifest_header(plan.container, plan.created, &text);
        assert_eq!((text.len(), header.len()), (text_length, sample.len()), "the offsets have a fixed width");
        let mut skeleton = header;
        skeleton.extend(text);
        skeleton.resize(manifest_bytes, 0);
        skeleton.extend(headers);
        skeleton.resize(skeleton_length, 0);
        let stored = frame(plan.container, members.len(), &skeleton);
        Ok(PackLayout { container: plan.container, stored, manifest_bytes, members, total })
    }

    /// Reads a stored skeleton and gives the layout that sealing gave. All headers are read and compared with
    /// the manifest.
    ///
    /// # Errors
    /// If a byte of it is wrong.
    pub fn from_skeleton(stored: &[u8]) -> Result<Self, SkeletonError> {
        let (container, count, skeleton) = unframe(stored)?;
        let contradiction = |at: usize| SkeletonError::Contradiction { at };
        let head = header_at(skeleton, 0, 0)?;
        let text_start = usize::try_from(head.header_length.0).unwrap_or(usize::MAX);
        let text_end = usize::try_from(head.size.0).ok().and_then(|size| text_start.checked_add(size));
        let text = text_end.and_then(|end| skeleton.get(text_start..end)).ok_or(contradiction(0))?;
        let manifest = Manifest::parse(text)?;
        let right = head.of == PackHeaderOf::Manifest(container) && manifest.container == container;
        if !right || manifest.entries.len() != count {
            return Err(contradiction(0));
        }
        let manifest_bytes = (text_start + text.len()).next_multiple_of(RECORD_BYTES);
        let mut at_byte = manifest_bytes;
        let mut placed = Vec::with_capacity(count);
        for (at, entry) in manifest.entries.iter().enumerate() {
            let header = header_at(skeleton, at + 1, at_byte)?;
            if !same(&header, &entry.member) {
                return Err(contradiction(at));
            }
            at_byte += usize::try_from(header.header_length.0).unwrap_or(0);
            placed.push(Placed {
                file: entry.member.file,
                header: header.header_length.0,
                data: header.size.0,
                checksums: header.checksums.stream,
            });
        }
        let end = skeleton.get(at_byte..).unwrap_or_default();
        if end.len() != END_BYTES || end.iter().any(|&b| b != 0) {
            return Err(contradiction(count));
        }
        let (members, total) = place(manifest_bytes, placed.into_iter()).ok_or(contradiction(count))?;
        let offsets = members.iter().zip(&manifest.entries);
        if let Some(at) = offsets.map(|(m, e)| m.data_offset == e.data_offset).position(|equal| !equal) {
            return Err(contradiction(at));
        }
        Ok(PackLayout { container, stored: stored.to_vec(), manifest_bytes, members, total })
    }

    /// The pack.
    #[must_use]
    pub fn container(&self) -> ContainerId {
        self.container
    }

    /// The skeleton in its frame: what to store durably when the pack is sealed.
    ///
    /// Little-endian:
    ///
    /// ```text
    ///  0  8  "KISTSKEL"
    ///  8  4  version, 1
    /// 12  4  count of members
    /// 16  8  container id
    /// 24  8  length of the skeleton
    /// 32  4  CRC-32C of the skeleton
    /// 36  4  CRC-32C of bytes 0 to 35
    /// 40  .  the skeleton
    /// ```
    #[must_use]
    pub fn stored_skeleton(&self) -> &[u8] {
        &self.stored
    }

    /// All bytes of the pack that are not data and not the zeros behind data, in order.
    #[must_use]
    pub fn skeleton(&self) -> &[u8] {
        self.stored.get(SKELETON_FRAME_BYTES..).unwrap_or_default()
    }

    /// The length of the pack.
    #[must_use]
    pub fn total_length(&self) -> ByteCount {
        self.total
    }

    /// The members in order.
    pub fn members(&self) -> impl ExactSizeIterator<Item = &MemberLayout> {
        self.members.iter()
    }

    /// The pack from its first byte to its last. The lengths of the pieces add up to
    /// [`PackLayout::total_length`].
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let skeleton = self.skeleton();
        let (manifest, mut rest) = skeleton.split_at_checked(self.manifest_bytes).unwrap_or_default();
        let members = self.members.iter().flat_map(move |member| {
            let length = usize::try_from(member.header_length.0).unwrap_or(usize::MAX);
            let (header, tail) = rest.split_at_checked(length).unwrap_or_default();
            rest = tail;
            let data = Piece::Data { file: member.file, length: member.data_length };
            let zeros = member.data_length.0.wrapping_neg() as usize % RECORD_BYTES;
            [
                Some(Piece::Skeleton(header)),
                (member.data_length.0 > 0).then_some(data),
                (zeros > 0).then_some(Piece::Zeros(zeros as u32)),
            ]
        });
        let end = skeleton.get(skeleton.len() - END_BYTES..).unwrap_or_default();
        std::iter::once(Some(Piece::Skeleton(manifest)))
            .chain(members)
            .chain([Some(Piece::Skeleton(end))])
            .flatten()
    }

    /// The checksums of the whole pack, by combination: no data is read.
    #[must_use]
    pub fn checksums(&self) -> StreamChecksums {
        let mut data = self.members.iter().filter(|member| member.data_length.0 > 0);
        self.pieces().fold(StreamChecksums::default(), |sum, piece| match piece {
            Piece::Skeleton(bytes) => sum.extend(bytes),
            Piece::Data { length, .. } => {
                let member = data.next().expect("each piece of data belongs to a member");
                sum.combine(member.checksums, length.0)
            }
            Piece::Zeros(count) => sum.extend(ZEROS.get(..count as usize).unwrap_or_default()),
        })
    }
}

/// Keeps the paths of a pack apart.
#[derive(Default)]
struct Names {
    files: BTreeSet<String>,
    directories: BTreeSet<String>,
}

impl Names {
    fn stored(&mut self, member: &PackMember) -> String {
        let plain = stored_path(&member.path, member.file, false);
        let taken = self.files.contains(&plain) || self.directories.contains(&plain);
        let path = if taken { stored_path(&member.path, member.file, true) } else { plain };
        let parents = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
        for parent in parents {
            if !self.directories.contains(parent) {
                self.directories.insert(parent.to_owned());
            }
        }
        self.files.insert(path.clone());
        path
    }
}

fn check_plan(plan: &PackPlan) -> Result<(), SealError> {
    if !(1..=PACK_MEMBERS_MAX).contains(&plan.members.len()) {
        return Err(SealError::Members(plan.members.len()));
    }
    let mut files = BTreeSet::new();
    for member in &plan.members {
        let file = member.file;
        if !files.insert(file) {
            return Err(SealError::Twice(file));
        }
        if member.path.is_root() {
            return Err(SealError::Root(file));
        }
        if [&member.owner, &member.group]
            .iter()
            .any(|name| name.len() > OWNER_BYTES_MAX || name.contains('\0'))
        {
            return Err(SealError::Owner(file));
        }
        if let MemberKind::Symlink { target } = &member.kind {
            if !(1..=SYMLINK_TARGET_BYTES_MAX).contains(&target.len()) || target.contains('\0') {
                return Err(SealError::Target(file));
            }
            if member.size.0 != 0 {
                return Err(SealError::NotEmpty(file));
            }
        }
        if member.size.0 == 0 && member.checksums.stream != StreamChecksums::default() {
            return Err(SealError::NotEmpty(file));
        }
    }
    Ok(())
}

/// What is known of a member before its place is.
struct Placed {
    file: FileId,
    header: u64,
    data: u64,
    checksums: StreamChecksums,
}

/// Lays the members one behind the other. `None` if the pack would be 2^63 bytes or more.
fn place(
    manifest_bytes: usize,
    placed: impl Iterator<Item = Placed>,
) -> Option<(Vec<MemberLayout>, ByteCount)> {
    let mut at = manifest_bytes as u64;
    let mut members = Vec::new();
    for member in placed {
        let data_offset = at.checked_add(member.header)?;
        members.push(MemberLayout {
            file: member.file,
            header_offset: ByteCount(at),
            header_length: ByteCount(member.header),
            data_offset: ByteCount(data_offset),
            data_length: ByteCount(member.data),
            checksums: member.checksums,
        });
        at = data_offset.checked_add(padded(member.data)?)?;
    }
    let total = at.checked_add(END_BYTES as u64).filter(|&total| total < 1 << 63)?;
    Some((members, ByteCount(total)))
}

fn frame(container: ContainerId, count: usize, skeleton: &[u8]) -> Vec<u8> {
    let count = u32::try_from(count).expect("members are limited");
    let mut stored = Vec::with_capacity(SKELETON_FRAME_BYTES + skeleton.len());
    stored.extend(MAGIC);
    stored.extend(VERSION.to_le_bytes());
    stored.extend(count.to_le_bytes());
    stored.extend(container.0.to_le_bytes());
    stored.extend((skeleton.len() as u64).to_le_bytes());
    stored.extend(Crc32c::of(skeleton).0.to_le_bytes());
    stored.extend(Crc32c::of(&stored).0.to_le_bytes());
    assert_eq!(stored.len(), SKELETON_FRAME_BYTES, "the frame has its length");
    stored.extend(skeleton);
    stored
}

/// Checks the frame; gives container, count of members and skeleton.
fn unframe(stored: &[u8]) -> Result<(ContainerId, usize, &[u8]), SkeletonError> {
    let length = SkeletonError::Length(stored.len());
    if !stored.starts_with(MAGIC) {
        return Err(SkeletonError::Magic);
    }
    let (head, skeleton) = stored.split_at_checked(SKELETON_FRAME_BYTES).ok_or(length.clone())?;
    let u32_at = |at: usize| {
        let field = head.get(at..).and_then(|rest| rest.first_chunk()).copied();
        field.map(u32::from_le_bytes).ok_or(length.clone())
    };
    let u64_at =
        |at: usize| Ok::<u64, SkeletonError>(u64::from(u32_at(at)?) | (u64::from(u32_at(at + 4)?) << 32));
    if Crc32c::of(head.get(..36).unwrap_or_default()).0 != u32_at(36)? {
        return Err(SkeletonError::Checksum);
    }
    // What is damaged has any version: it is believed behind the checksum only.
    if u32_at(8)? != VERSION {
        return Err(SkeletonError::Version(u32_at(8)?));
    }
    let count = usize::try_from(u32_at(12)?).unwrap_or(usize::MAX);
    if u64_at(24)? != skeleton.len() as u64 || skeleton.len() > SKELETON_BYTES_MAX || count > PACK_MEMBERS_MAX
    {
        return Err(length);
    }
    if Crc32c::of(skeleton).0 != u32_at(32)? {
        return Err(SkeletonError::Checksum);
    }
    Ok((ContainerId(u64_at(16)?), count, skeleton))
}

fn header_at(skeleton: &[u8], at: usize, byte: usize) -> Result<PackHeader, SkeletonError> {
    read_pack_header(skeleton.get(byte..).unwrap_or_default())
        .map_err(|source| SkeletonError::Header { at, source })
}

/// Whether a header is that of the manifest's member.
fn same(header: &PackHeader, member: &PackMember) -> bool {
    let of = PackHeaderOf::Member { file: member.file, path: member.path.clone() };
    header.of == of
        && header.size == member.size
        && header.mtime == member.mtime
        && header.mode == member.mode
        && header.owner == member.owner
        && header.group == member.group
        && header.checksums == member.checksums
        && header.kind == member.kind
}
