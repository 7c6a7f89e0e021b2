//! The header of one member: a pax extended header, then a ustar header (POSIX.1-2001), 512-byte records.

use std::collections::BTreeMap;

use base::{
    Adler32, ArchivePath, Blake3, ByteCount, Checksums, ContainerId, Crc32c, FileId, StreamChecksums,
    Timestamp,
};

use super::{MemberKind, PackMember, manifest_path};

/// The record of a tar.
pub(crate) const RECORD_BYTES: usize = 512;
/// The longest body of a pax header that is read.
const PAX_BODY_BYTES_MAX: usize = 31 << 10;
/// The longest header of a member: enough to read any with one access.
pub const PACK_HEADER_BYTES_MAX: usize = PAX_BODY_BYTES_MAX + 2 * RECORD_BYTES;

const OCTAL_11_MAX: u64 = (1 << 33) - 1;
/// No user: the numeric id says nothing in thirty years, the name does.
const NOBODY: u64 = 65_534;

/// What a header in a pack belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PackHeaderOf {
    /// The manifest of this pack.
    Manifest(ContainerId),
    /// A file.
    Member {
        /// Its id.
        file: FileId,
        /// Its path in the archive, which differs from the stored one if another member has that.
        path: ArchivePath,
    },
}

/// A member's header, read back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PackHeader {
    /// Whose it is.
    pub of: PackHeaderOf,
    /// The path under which `tar` extracts it; relative, without `..`.
    pub stored_path: String,
    /// The length of the data behind it.
    pub size: ByteCount,
    /// The modification time.
    pub mtime: Timestamp,
    /// The permission bits.
    pub mode: u32,
    /// The name of the owner.
    pub owner: String,
    /// The name of the group.
    pub group: String,
    /// The checksums of the data.
    pub checksums: Checksums,
    /// What it is.
    pub kind: MemberKind,
    /// The length of this header in bytes: the data starts that far behind its start.
    pub header_length: ByteCount,
}

/// Why bytes are no header of a pack's member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PackHeaderError {
    /// Fewer bytes than the header has.
    #[error("the bytes end within the member's header: give up to {PACK_HEADER_BYTES_MAX} bytes")]
    Short,
    /// No tar header with a right checksum where one belongs.
    #[error(
        "there is no tar header here, or its checksum is wrong: the position is wrong or the copy is damaged"
    )]
    NotTar,
    /// A tar header, not one that Kist writes.
    #[error("the tar header was not written by Kist: read it with tar")]
    NotKist,
    /// The pax records are malformed or their checksum is wrong.
    #[error("the member's pax records are damaged: read another copy")]
    Pax,
    /// A record that must be there is not.
    #[error("the member's pax record '{0}' is missing: read another copy")]
    Missing(&'static str),
    /// A record that has an illegal value.
    #[error("the member's pax record '{0}' has an illegal value: read another copy")]
    Value(&'static str),
}

/// Writes the header of a file.
pub(crate) fn member_header(member: &PackMember, stored_path: &str) -> Vec<u8> {
    let id = ("KIST.file_id", member.file.to_string());
    let differs = member.path.as_str().strip_prefix('/') != Some(stored_path);
    let mut records = vec![id];
    if differs {
        records.push(("KIST.path", member.path.as_str().to_owned()));
    }
    let target = match &member.kind {
        MemberKind::Regular => None,
        MemberKind::Symlink { target } => Some(target.as_str()),
    };
    let head = Head {
        id: member.file.0,
        path: stored_path,
        size: member.size,
        mtime: member.mtime,
        mode: member.mode & 0o7777,
        owner: &member.owner,
        group: &member.group,
        target,
        checksums: &member.checksums,
    };
    head.encode(records)
}

/// Writes the header of a manifest.
pub(crate) fn manifest_header(container: ContainerId, created: Timestamp, text: &[u8]) -> Vec<u8> {
    let head = Head {
        id: container.0,
        path: &manifest_path(container),
        size: ByteCount(text.len() as u64),
        mtime: created,
        mode: 0o444,
        owner: "",
        group: "",
        target: None,
        checksums: &Checksums::of(text),
    };
    head.encode(vec![("KIST.container", container.to_string())])
}

struct Head<'a> {
    id: u64,
    path: &'a str,
    size: ByteCount,
    mtime: Timestamp,
    mode: u32,
    owner: &'a str,
    group: &'a str,
    target: Option<&'a str>,
    checksums: &'a Checksums,
}

impl Head<'_> {
    fn encode(&self, ids: Vec<(&'static str, String)>) -> Vec<u8> {
        let body = self.pax_body(ids);
        let seconds = u64::try_from(self.mtime.0.div_euclid(1_000_000_000)).unwrap_or(0);
        let pax = Ustar {
            name: &format!("PaxHeaders/{:016x}", self.id),
            prefix: "",
            mode: 0o644,
            size: body.len() as u64,
            mtime: seconds,
            typeflag: b'x',
            target: "",
            owner: "",
            group: "",
        };
        let (prefix, name) = self.short_name();
        let plain = Ustar {
            name: &name,
            prefix: &prefix,
            mode: self.mode,
            size: self.size.0,
            mtime: seconds,
            typeflag: if self.target.is_some() { b'2' } else { b'0' },
            target: self.target.filter(|target| fits(target, 100)).unwrap_or(""),
            owner: if fits(self.owner, 31) { self.owner } else { "" },
            group: if fits(self.group, 31) { self.group } else { "" },
        };
        let mut out = Vec::with_capacity(2 * RECORD_BYTES + body.len().next_multiple_of(RECORD_BYTES));
        out.extend(pax.encode());
        out.extend(&body);
        out.resize(out.len().next_multiple_of(RECORD_BYTES), 0);
        out.extend(plain.encode());
        assert!(out.len() <= PACK_HEADER_BYTES_MAX, "names are limited, so headers are");
        out
    }

    /// The records in the order written; the last one is the checksum of those before it.
    fn pax_body(&self, ids: Vec<(&'static str, String)>) -> Vec<u8> {
        let mut body = Vec::with_capacity(1024);
        let mut record = |key: &str, value: &str| push_record(&mut body, key, value);
        record("path", self.path);
        if self.size.0 > OCTAL_11_MAX {
            record("size", &self.size.0.to_string());
        }
        record("mtime", &format_mtime(self.mtime));
        if let Some(target) = self.target.filter(|target| !fits(target, 100)) {
            record("linkpath", target);
        }
        if !fits(self.owner, 31) {
            record("uname", self.owner);
        }
        if !fits(self.group, 31) {
            record("gname", self.group);
        }
        for (key, value) in ids {
            record(key, &value);
        }
        record("KIST.adler32", &self.checksums.stream.adler32.to_string());
        record("KIST.crc32c", &self.checksums.stream.crc32c.to_string());
        record("KIST.blake3", &self.checksums.blake3.to_string());
        let check = Crc32c::of(&body).to_string();
        push_record(&mut body, "KIST.records", &check);
        body
    }

    /// The ustar name for programs that do not know pax: the path if it fits, else one of the id and what
    /// fits.
    fn short_name(&self) -> (String, String) {
        if fits(self.path, 100) {
            return (String::new(), self.path.to_owned());
        }
        if fits(self.path, 256) {
            let split = self.path.match_indices('/').map(|(at, _)| at).find(|at| self.path.len() - at <= 101);
            if let Some((prefix, name)) = split.filter(|&at| at <= 155).map(|at| self.path.split_at(at)) {
                return (prefix.to_owned(), name.trim_start_matches('/').to_owned());
            }
        }
        let last = self.path.rsplit('/').next().unwrap_or_default();
        let plain = |c: char| if c.is_ascii_graphic() && c != '/' { c } else { '_' };
        let cut: String = last.chars().map(plain).take(78).collect();
        (String::new(), format!("kist-{:016x}-{cut}", self.id))
    }
}

/// Whether a ustar field of `length` bytes holds the text.
fn fits(text: &str, length: usize) -> bool {
    text.len() <= length && text.bytes().all(|b| (b' '..=b'~').contains(&b))
}

/// Appends `<length> <key>=<value>\n`, where the length counts itself.
fn push_record(body: &mut Vec<u8>, key: &str, value: &str) {
    let rest = key.len() + value.len() + 3;
    let digits = |n: usize| n.checked_ilog10().map_or(1, |log| log as usize + 1);
    let mut length = rest + digits(rest);
    if digits(length) > digits(rest) {
        length = rest + digits(length);
    }
    let before = body.len();
    body.extend(format!("{length} {key}={value}\n").as_bytes());
    assert_eq!(body.len() - before, length, "a pax record states its own length");
}

fn format_mtime(time: Timestamp) -> String {
    let sign = if time.0 < 0 { "-" } else { "" };
    let nanos = time.0.unsigned_abs();
    format!("{sign}{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

fn parse_mtime(text: &str) -> Option<Timestamp> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (seconds, nanos) = digits.split_once('.')?;
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if nanos.len() != 9 || !plain(seconds) || !plain(nanos) {
        return None;
    }
    let total = seconds.parse::<i128>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos.parse().ok()?)?;
    i64::try_from(if negative { -total } else { total }).ok().map(Timestamp)
}

struct Ustar<'a> {
    name: &'a str,
    prefix: &'a str,
    mode: u32,
    size: u64,
    mtime: u64,
    typeflag: u8,
    target: &'a str,
    owner: &'a str,
    group: &'a str,
}

impl Ustar<'_> {
    fn encode(&self) -> [u8; RECORD_BYTES] {
        let octal = |value: u64, digits: usize| format!("{value:0digits$o}\0").into_bytes();
        let fields: [(usize, Vec<u8>); 14] = [
            (100, self.name.into()),
            (8, octal(u64::from(self.mode), 7)),
            (8, octal(NOBODY, 7)),
            (8, octal(NOBODY, 7)),
            (12, octal(self.size.min(OCTAL_11_MAX), 11)),
            (12, octal(self.mtime.min(OCTAL_11_MAX), 11)),
            (8, b"        ".to_vec()),
            (1, vec![self.typeflag]),
            (100, self.target.into()),
            (8, b"ustar\x0000".to_vec()),
            (32, self.owner.into()),
            (32, self.group.into()),
            (16, b"0000000\x000000000\0".to_vec()),
            (155, self.prefix.into()),
        ];
        let mut bytes = Vec::with_capacity(RECORD_BYTES);
        for (length, mut field) in fields {
            assert!(field.len() <= length, "a ustar field fits");
            field.resize(length, 0);
            bytes.extend(field);
        }
        bytes.resize(RECORD_BYTES, 0);
        let sum: u32 = bytes.iter().map(|&b| u32::from(b)).sum();
        let mut out = [0; RECORD_BYTES];
        out.copy_from_slice(&bytes);
        out[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        out
    }
}

/// A ustar header, read back.
struct UstarRead<'a> {
    record: &'a [u8],
    typeflag: u8,
    size: u64,
}

impl<'a> UstarRead<'a> {
    fn parse(record: &'a [u8]) -> Result<Self, PackHeaderError> {
        let field = |from: usize, length: usize| record.get(from..from + length).unwrap_or_default();
        let bytes: u32 = record.iter().map(|&b| u32::from(b)).sum();
        let stored: u32 = field(148, 8).iter().map(|&b| u32::from(b)).sum();
        let expected = format!("{:06o}\0 ", bytes - stored + 8 * u32::from(b' '));
        if record.len() != RECORD_BYTES || field(148, 8) != expected.as_bytes() {
            return Err(PackHeaderError::NotTar);
        }
        if field(257, 8) != b"ustar\x0000" {
            return Err(PackHeaderError::NotKist);
        }
        let size = octal(field(124, 12)).ok_or(PackHeaderError::NotKist)?;
        let typeflag = field(156, 1).first().copied().unwrap_or(0);
        Ok(UstarRead { record, typeflag, size })
    }

    fn text(&self, from: usize, length: usize) -> Option<String> {
        let field = self.record.get(from..from + length)?;
        let text = field.split(|&b| b == 0).next()?;
        std::str::from_utf8(text).ok().map(str::to_owned)
    }
}

/// Digits and one NUL.
fn octal(field: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(field.strip_suffix(b"\0")?).ok()?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| u64::from_str_radix(digits, 8).ok()).flatten()
}

/// Reads the header that `bytes` start with; more bytes may follow. [`PACK_HEADER_BYTES_MAX`] bytes are
/// always enough. The pax records carry a checksum of their own, so a header that is read is what was
/// written; whether it is the member that is expected is for the caller to compare.
///
/// # Errors
/// If it is anything but what a pack holds.
pub fn read_pack_header(bytes: &[u8]) -> Result<PackHeader, PackHeaderError> {
    let (first, rest) = bytes.split_at_checked(RECORD_BYTES).ok_or(PackHeaderError::Short)?;
    let pax = UstarRead::parse(first)?;
    let length = usize::try_from(pax.size).ok().filter(|&length| length <= PAX_BODY_BYTES_MAX);
    let length = length.filter(|_| pax.typeflag == b'x').ok_or(PackHeaderError::NotKist)?;
    let (body, rest) =
        rest.split_at_checked(length.next_multiple_of(RECORD_BYTES)).ok_or(PackHeaderError::Short)?;
    let plain = UstarRead::parse(rest.get(..RECORD_BYTES).ok_or(PackHeaderError::Short)?)?;
    let (body, padding) = body.split_at_checked(length).ok_or(PackHeaderError::Short)?;
    if padding.iter().any(|&b| b != 0) {
        return Err(PackHeaderError::Pax);
    }
    let records = Records::parse(body)?;
    let header_length = 2 * RECORD_BYTES + body.len() + padding.len();
    assemble(&records, &plain, ByteCount(header_length as u64))
}

fn assemble(
    records: &Records,
    plain: &UstarRead<'_>,
    header_length: ByteCount,
) -> Result<PackHeader, PackHeaderError> {
    let size = match records.get("size") {
        Some(text) => records.read("size", text.parse().ok())?,
        None => plain.size,
    };
    let stored_path = records.need("path")?.to_owned();
    let or_plain = |key: &'static str, from: usize, length: usize| match records.get(key) {
        Some(text) => Ok(text.to_owned()),
        None => plain.text(from, length).ok_or(PackHeaderError::Value(key)),
    };
    let kind = match plain.typeflag {
        b'0' => MemberKind::Regular,
        b'2' if size == 0 => MemberKind::Symlink { target: or_plain("linkpath", 157, 100)? },
        _ => return Err(PackHeaderError::NotKist),
    };
    let mode = octal(plain.record.get(100..108).unwrap_or_default());
    Ok(PackHeader {
        of: whose(records, &stored_path)?,
        size: ByteCount(size),
        mtime: records.read("mtime", parse_mtime(records.need("mtime")?))?,
        mode: records.read("mode", mode.and_then(|mode| u32::try_from(mode).ok()))?,
        owner: or_plain("uname", 265, 32)?,
        group: or_plain("gname", 297, 32)?,
        checksums: records.checksums()?,
        kind,
        stored_path,
        header_length,
    })
}

fn whose(records: &Records, stored_path: &str) -> Result<PackHeaderOf, PackHeaderError> {
    if let Some(container) = records.get("KIST.container") {
        let container = ContainerId(records.read("KIST.container", container.parse().ok())?);
        let right = stored_path == manifest_path(container);
        return records.read("path", right.then_some(PackHeaderOf::Manifest(container)));
    }
    let file = FileId(records.read("KIST.file_id", records.need("KIST.file_id")?.parse().ok())?);
    let path = match records.get("KIST.path") {
        Some(path) => records.read("KIST.path", ArchivePath::new(path).ok())?,
        None => records.read("path", ArchivePath::new(&format!("/{stored_path}")).ok())?,
    };
    // What tar extracts must stay below the directory it is extracted to.
    let climbs = stored_path.split('/').any(|part| matches!(part, "" | "." | ".."));
    records.read("path", (!climbs).then_some(PackHeaderOf::Member { file, path }))
}

struct Records(BTreeMap<String, String>);

impl Records {
    /// Reads all records and checks the last, the checksum of those before it.
    fn parse(body: &[u8]) -> Result<Self, PackHeaderError> {
        let mut found = BTreeMap::new();
        let mut rest = body;
        let mut checksum = None;
        while !rest.is_empty() {
            if checksum.is_some() {
                return Err(PackHeaderError::Pax);
            }
            let (key, value, tail) = split_record(rest).ok_or(PackHeaderError::Pax)?;
            if key == "KIST.records" {
                let before = body.get(..body.len() - rest.len()).unwrap_or_default();
                checksum = Some(Crc32c::of(before).to_string() == value);
            }
            if found.insert(key.to_owned(), value.to_owned()).is_some() {
                return Err(PackHeaderError::Pax);
            }
            rest = tail;
        }
        match checksum {
            Some(true) => Ok(Records(found)),
            Some(false) => Err(PackHeaderError::Pax),
            None => Err(PackHeaderError::NotKist),
        }
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    fn need(&self, key: &'static str) -> Result<&str, PackHeaderError> {
        self.get(key).ok_or(PackHeaderError::Missing(key))
    }

    fn read<T>(&self, key: &'static str, value: Option<T>) -> Result<T, PackHeaderError> {
        value.ok_or(PackHeaderError::Value(key))
    }

    fn checksums(&self) -> Result<Checksums, PackHeaderError> {
        let crc = |text: &str| (text.len() == 8).then(|| Adler32::parse(text)).flatten();
        Ok(Checksums {
            stream: StreamChecksums {
                adler32: self.read("KIST.adler32", crc(self.need("KIST.adler32")?))?,
                crc32c: Crc32c(self.read("KIST.crc32c", crc(self.need("KIST.crc32c")?))?.0),
            },
            blake3: self.read("KIST.blake3", Blake3::parse(self.need("KIST.blake3")?))?,
        })
    }
}

/// The key and value of the first record, and what follows it.
fn split_record(body: &[u8]) -> Option<(&str, &str, &[u8])> {
    let space = body.iter().take(8).position(|&b| b == b' ')?;
    let digits = std::str::from_utf8(body.get(..space)?).ok()?;
    let length: usize = digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()?;
    let (record, tail) = body.split_at_checked(length)?;
    let text = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let (key, value) = std::str::from_utf8(text).ok()?.split_once('=')?;
    Some((key, value, tail))
}
