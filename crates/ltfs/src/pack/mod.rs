//! Packs: many small files in one pax tar archive, whose every byte but the files' own is fixed when it is
//! sealed.
//!
//! ```text
//! pax header, ustar header, manifest text, zeros to 512      the manifest, `.kist/pack-<id>.manifest`
//! pax header, ustar header, data, zeros to 512               each member, in order
//! 1,024 zeros                                                the end
//! ```
//!
//! All of this without data and without the zeros behind data is the *skeleton*. It is kept from sealing
//! until the last copy is on tape, so that each copy, whenever it is written, is byte for byte the same.

mod header;
mod layout;
mod manifest;

pub use header::{PACK_HEADER_BYTES_MAX, PackHeader, PackHeaderError, PackHeaderOf, read_pack_header};
pub use layout::{
    MemberLayout, PACK_MEMBERS_MAX, PackLayout, Piece, SKELETON_BYTES_MAX, SKELETON_FRAME_BYTES, SealError,
    SkeletonError,
};
pub use manifest::{MANIFEST_BYTES_MAX, Manifest, ManifestEntry, ManifestError};

use base::{ArchivePath, ByteCount, Checksums, ContainerId, FileId, Timestamp};

/// The longest target of a symbolic link in bytes.
pub const SYMLINK_TARGET_BYTES_MAX: usize = 4095;
/// The longest name of an owner or a group in bytes.
pub const OWNER_BYTES_MAX: usize = 255;

/// What a member takes in its pack beside the bytes of its file, at most: its header, the zeros that fill its
/// last record, and its line in the manifest, where a byte of a name or path stands as three at most.
pub const MEMBER_OVERHEAD_MAX: usize = PACK_HEADER_BYTES_MAX
    + header::RECORD_BYTES
    + manifest::LINE_NUMBERS_MAX
    + 3 * (2 * OWNER_BYTES_MAX + base::PATH_BYTES_MAX + SYMLINK_TARGET_BYTES_MAX);
/// What a pack takes beside its members, at most: the header, first lines and last line of its manifest, and
/// its end.
pub const PACK_OVERHEAD_MAX: usize =
    PACK_HEADER_BYTES_MAX + manifest::FRAME_BYTES_MAX + header::RECORD_BYTES + 2 * header::RECORD_BYTES;

/// What to seal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackPlan {
    /// The pack's id.
    pub container: ContainerId,
    /// When it is sealed.
    pub created: Timestamp,
    /// Its files, in the order in which they shall stand in it.
    pub members: Vec<PackMember>,
}

/// One file of a pack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackMember {
    /// The file.
    pub file: FileId,
    /// Its path in the archive when the pack is sealed.
    pub path: ArchivePath,
    /// Its length; 0 for a symbolic link.
    pub size: ByteCount,
    /// The user's modification time.
    pub mtime: Timestamp,
    /// The user's permission bits; others are dropped.
    pub mode: u32,
    /// The name of the owner, may be empty.
    pub owner: String,
    /// The name of the group, may be empty.
    pub group: String,
    /// The checksums of its content.
    pub checksums: Checksums,
    /// What it is.
    pub kind: MemberKind,
}

/// What a member of a pack is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MemberKind {
    /// A file.
    Regular,
    /// A symbolic link.
    Symlink {
        /// Where it leads.
        target: String,
    },
}

/// The length of `bytes` with the zeros that fill its last tar record.
pub(crate) fn padded(bytes: u64) -> Option<u64> {
    bytes.checked_next_multiple_of(header::RECORD_BYTES as u64)
}

/// The path of a pack's manifest within it.
pub(crate) fn manifest_path(container: ContainerId) -> String {
    format!(".kist/pack-{:016x}.manifest", container.0)
}

/// The path under which a member stands in the tar: relative, so that it extracts below the current
/// directory. `taken` says that another member has that path already; then the file id is added.
pub(crate) fn stored_path(path: &ArchivePath, file: FileId, taken: bool) -> String {
    let relative = path.as_str().trim_start_matches('/');
    if !taken {
        return relative.to_owned();
    }
    let suffix = format!("~{file}");
    let (parent, name) = relative.rsplit_once('/').map_or(("", relative), |(parent, name)| (parent, name));
    let room = base_name_room(name, suffix.len());
    let name = name.get(..room).unwrap_or_default();
    if parent.is_empty() { format!("{name}{suffix}") } else { format!("{parent}/{name}{suffix}") }
}

fn base_name_room(name: &str, suffix: usize) -> usize {
    let room = crate::tree::TAPE_NAME_BYTES_MAX.saturating_sub(suffix);
    name.floor_char_boundary(room.min(name.len()))
}
