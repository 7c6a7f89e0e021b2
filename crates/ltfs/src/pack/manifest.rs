//! The manifest: the first member of a pack, a table of the others that `less` can show.

use std::fmt::Write as _;

use base::{
    Adler32, ArchivePath, Blake3, ByteCount, Checksums, ContainerId, Crc32c, FileId, StreamChecksums,
    Timestamp,
};

use super::layout::PACK_MEMBERS_MAX;
use super::{MemberKind, PackMember, PackPlan};
use crate::text::{percent_decode, percent_encode};
use crate::time;

/// The longest manifest that is read, in bytes.
pub const MANIFEST_BYTES_MAX: usize = 512 << 20;

/// The longest line of a member without its names and paths, in bytes: ids, lengths and checksums with the
/// tabs between them.
pub(crate) const LINE_NUMBERS_MAX: usize = 256;
/// The longest lines before and behind those of the members, in bytes.
pub(crate) const FRAME_BYTES_MAX: usize = 512;

const MARK: &str = "kist-pack-manifest\t";
const VERSION_LINE: &str = "kist-pack-manifest\t1";
const COLUMNS: &str =
    "file\tkind\toffset\tsize\tadler32\tcrc32c\tblake3\tmtime_ns\tmode\towner\tgroup\tpath\ttarget";

/// A manifest, read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// The pack.
    pub container: ContainerId,
    /// When it was sealed.
    pub created: Timestamp,
    /// Its members, in order.
    pub entries: Vec<ManifestEntry>,
}

/// One line of a manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManifestEntry {
    /// The file.
    pub member: PackMember,
    /// Where its data starts, from the start of the pack.
    pub data_offset: ByteCount,
}

/// Why a text is no manifest. `line` counts from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ManifestError {
    /// Longer than [`MANIFEST_BYTES_MAX`].
    #[error("the manifest has {0} bytes, more than {MANIFEST_BYTES_MAX}: it is refused")]
    TooLarge(usize),
    /// Not UTF-8.
    #[error("the manifest is not UTF-8: read another copy")]
    NotUtf8,
    /// No manifest, or of a version that is not known.
    #[error("this is no pack manifest of version 1")]
    Version,
    /// A line that is wrong.
    #[error("line {line} of the manifest is wrong: read another copy")]
    Line {
        /// Which.
        line: usize,
    },
    /// Another number of lines than it says.
    #[error("the manifest has {have} members and says {said}: read another copy")]
    Count {
        /// Lines it has.
        have: usize,
        /// Lines it should have.
        said: usize,
    },
    /// The checksum in the last line is wrong.
    #[error("the manifest's checksum is wrong: read another copy")]
    Checksum,
}

/// Writes a manifest. Its length does not depend on the offsets, which are asked for by place in the pack.
pub(crate) fn encode(plan: &PackPlan, offset: impl Fn(usize) -> u64) -> Vec<u8> {
    let mut out = String::with_capacity(256 * (plan.members.len() + 1));
    let (container, created) = (plan.container.0, time::format(plan.created));
    let members = plan.members.len();
    writeln!(
        out,
        "{VERSION_LINE}\ncontainer\t{container:016x}\ncreated\t{created}\nmembers\t{members}\n{COLUMNS}"
    )
    .expect("writing to memory succeeds");
    for (at, member) in plan.members.iter().enumerate() {
        let (kind, target) = match &member.kind {
            MemberKind::Regular => ("file", ""),
            MemberKind::Symlink { target } => ("link", target.as_str()),
        };
        let (Checksums { stream, blake3 }, mode) = (member.checksums, member.mode & 0o7777);
        let (file, offset, size, mtime) = (member.file, offset(at), member.size.0, member.mtime.0);
        let (adler32, crc32c) = (stream.adler32, stream.crc32c);
        write!(
            out,
            "{file}\t{kind}\t{offset:020}\t{size}\t{adler32}\t{crc32c}\t{blake3}\t{mtime}\t{mode:04o}"
        )
        .expect("writing to memory succeeds");
        for text in [&member.owner, &member.group, member.path.as_str(), target] {
            out.push('\t');
            out.push_str(&percent_encode(text, |c| c == '%' || c.is_control()));
        }
        out.push('\n');
    }
    let check = Crc32c::of(out.as_bytes());
    writeln!(out, "end\t{check}").expect("writing to memory succeeds");
    out.into_bytes()
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// If it is anything but what sealing wrote.
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        if bytes.len() > MANIFEST_BYTES_MAX {
            return Err(ManifestError::TooLarge(bytes.len()));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| ManifestError::NotUtf8)?;
        if !text.starts_with(MARK) {
            return Err(ManifestError::Version);
        }
        // What is damaged has any version: it is believed behind the checksum only.
        check_end(text)?;
        let mut lines = text.split_terminator('\n').enumerate().map(|(at, line)| (at + 1, line));
        let mut line = || lines.next().ok_or(ManifestError::Version);
        if line()?.1 != VERSION_LINE {
            return Err(ManifestError::Version);
        }
        let mut field = |key: &str| {
            let (at, text) = line()?;
            let value = text.strip_prefix(key).and_then(|rest| rest.strip_prefix('\t'));
            value.map(|value| (at, value)).ok_or(ManifestError::Line { line: at })
        };
        let (at, container) = field("container")?;
        let container = hex_id(container).ok_or(ManifestError::Line { line: at })?;
        let (at, created) = field("created")?;
        let created = time::parse(created).ok_or(ManifestError::Line { line: at })?;
        let (at, said) = field("members")?;
        let said: usize = said.parse().map_err(|_| ManifestError::Line { line: at })?;
        if line()?.1 != COLUMNS {
            return Err(ManifestError::Version);
        }
        let mut entries = Vec::new();
        for (at, text) in lines.by_ref() {
            if text.starts_with("end\t") {
                break;
            }
            if entries.len() == PACK_MEMBERS_MAX {
                return Err(ManifestError::Count { have: entries.len() + 1, said });
            }
            entries.push(parse_line(text).ok_or(ManifestError::Line { line: at })?);
        }
        if entries.len() != said || lines.next().is_some() {
            return Err(ManifestError::Count { have: entries.len(), said });
        }
        Ok(Manifest { container: ContainerId(container), created, entries })
    }
}

fn check_end(text: &str) -> Result<(), ManifestError> {
    let end = text.rfind("\nend\t").ok_or(ManifestError::Checksum)? + 1;
    let (before, end) = text.split_at(end);
    if end == format!("end\t{}\n", Crc32c::of(before.as_bytes())) {
        Ok(())
    } else {
        Err(ManifestError::Checksum)
    }
}

fn hex_id(text: &str) -> Option<u64> {
    let digits = text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    digits.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

fn parse_line(line: &str) -> Option<ManifestEntry> {
    let columns: Vec<&str> = line.split('\t').collect();
    let &[file, kind, offset, size, adler32, crc32c, blake3, mtime, mode, owner, group, path, target] =
        columns.as_slice()
    else {
        return None;
    };
    let target = percent_decode(target)?;
    let kind = match (kind, target.is_empty()) {
        ("file", true) => MemberKind::Regular,
        ("link", false) => MemberKind::Symlink { target },
        _ => return None,
    };
    let stream =
        StreamChecksums { adler32: Adler32::parse(adler32)?, crc32c: Crc32c(Adler32::parse(crc32c)?.0) };
    let member = PackMember {
        file: FileId(file.parse().ok()?),
        path: ArchivePath::new(&percent_decode(path)?).ok()?,
        size: ByteCount(size.parse().ok()?),
        mtime: Timestamp(mtime.parse().ok()?),
        mode: u32::from_str_radix(mode, 8).ok()?,
        owner: percent_decode(owner)?,
        group: percent_decode(group)?,
        checksums: Checksums { stream, blake3: Blake3::parse(blake3)? },
        kind,
    };
    Some(ManifestEntry { member, data_offset: ByteCount(offset.parse().ok()?) })
}
