//! A record as a line of text: `docs/format/access-log.md` says it to the byte.

use std::fmt::Write;

use base::{BlockAddress, ByteCount, ContainerId, Crc32c, Duration, FileId, RequestId, Timestamp, Vid};

use crate::access::{
    ACCESS_NAME_MAX, Access, Begins, CLASS_POOLS_MAX, ClassState, CopyPlace, DriveState, FileSize, Get,
    Migrated, Put, Recalled, STAGE_COPIES_MAX, Stage, Start, TapeState, What,
};

/// The version of the line's content.
const VERSION: &str = "1";
/// The longest line that is read, its end included. None that is written comes near it.
pub const ACCESS_LINE_BYTES_MAX: usize = 128 << 10;

/// Why a line is no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LineFault {
    /// Its checksum does not agree, or it is malformed.
    #[error("the line is damaged: pass it over, the others stand by themselves")]
    Damaged,
    /// A newer Kist has written it.
    #[error("a newer kist has written the line: read it with that one")]
    Newer,
}

/// Appends the line of a record, with the line feed at its end, to `out`.
pub fn encode(access: &Access, out: &mut String) {
    let begin = out.len();
    // The checksum takes the place of the zeros once the body is known.
    out.push_str("00000000 ");
    let body = out.len();
    out.push_str(VERSION);
    out.push(' ');
    out.push_str(word(&access.what));
    let mut fields = Fields(out);
    fields.number("at", access.at.0);
    fields.text("class", access.class.as_deref());
    fields.text("who", access.who.as_deref());
    encode_what(&access.what, &mut fields);
    let sum = Crc32c::of(out.as_bytes().get(body..).unwrap_or_default()).to_string();
    out.replace_range(begin..begin + sum.len(), &sum);
    out.push('\n');
}

/// The record of a line, with or without its line feed.
///
/// # Errors
/// [`LineFault::Damaged`], [`LineFault::Newer`] of another version or kind.
pub fn decode(line: &[u8]) -> Result<Access, LineFault> {
    let line = std::str::from_utf8(line).map_err(|_| LineFault::Damaged)?;
    let line = line.strip_suffix('\n').unwrap_or(line);
    let (sum, body) = line.split_once(' ').ok_or(LineFault::Damaged)?;
    if !is_sum(sum, Crc32c::of(body.as_bytes())) {
        return Err(LineFault::Damaged);
    }
    let (version, rest) = body.split_once(' ').unwrap_or((body, ""));
    if version != VERSION {
        return Err(LineFault::Newer);
    }
    let (kind, rest) = rest.split_once(' ').ok_or(LineFault::Damaged)?;
    let values = Values::read(rest).ok_or(LineFault::Damaged)?;
    let what = match decode_what(kind, &values) {
        Some(Ok(what)) => what,
        Some(Err(newer)) => return Err(newer),
        None => return Err(LineFault::Damaged),
    };
    let head = || Some((values.number("at")?, values.text("class")?, values.text("who")?));
    let (at, class, who) = head().ok_or(LineFault::Damaged)?;
    Ok(Access { at: Timestamp(at), class, who, what })
}

/// Whether a text is the checksum as [`encode`] writes it: eight hexadecimal digits in lower case. Compared
/// as a number: to make a text for each line takes time.
fn is_sum(text: &str, sum: Crc32c) -> bool {
    let is_form = text.len() == 8 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_form && u32::from_str_radix(text, 16) == Ok(sum.0)
}

fn word(what: &What) -> &'static str {
    match what {
        What::Put(_) => "put",
        What::Get(_) => "get",
        What::Stage(_) => "stage",
        What::Recalled(_) => "recalled",
        What::Evicted(_) => "evicted",
        What::Deleted(_) => "deleted",
        What::Migrated(_) => "migrated",
        What::Start(_) => "start",
        What::Tape(_) => "tape",
        What::Drive(_) => "drive",
        What::Class(_) => "class",
        What::Dropped { .. } => "dropped",
    }
}

fn encode_what(what: &What, fields: &mut Fields<'_>) {
    match what {
        What::Put(put) => {
            fields.number("file", put.file.0);
            fields.number("bytes", put.bytes.0);
            fields.number("set", put.set);
            fields.number("took", nanos(put.took));
        }
        What::Get(get) => {
            fields.number("file", get.file.0);
            fields.number("bytes", get.bytes.0);
            fields.number("offset", get.offset.0);
            fields.number("asked", get.asked.0);
            fields.number("sent", get.sent.0);
            fields.flag("online", get.online);
            fields.number("took", nanos(get.took));
        }
        What::Stage(stage) => {
            fields.number("file", stage.file.0);
            fields.number("bytes", stage.bytes.0);
            fields.number("request", stage.request.0);
            fields.number("priority", stage.priority);
            fields.flag("online", stage.online);
            stage.copies.iter().take(STAGE_COPIES_MAX).for_each(|copy| fields.copy(copy));
        }
        What::Recalled(recalled) => {
            fields.number("file", recalled.file.0);
            fields.number("bytes", recalled.bytes.0);
            fields.number("vid", recalled.vid);
            fields.optional("wait", recalled.wait.map(nanos));
        }
        What::Evicted(file) | What::Deleted(file) => {
            fields.number("file", file.file.0);
            fields.optional("bytes", file.bytes.map(|bytes| bytes.0));
        }
        What::Migrated(migrated) => {
            fields.number("container", migrated.container.0);
            fields.text("pool", Some(&migrated.pool));
            fields.number("vid", migrated.vid);
            fields.number("block", migrated.block.0);
            fields.number("length", migrated.length.0);
            fields.number("members", migrated.members);
            fields.flag("repack", migrated.repack);
        }
        What::Dropped { count } => fields.number("count", count),
        What::Start(_) | What::Tape(_) | What::Drive(_) | What::Class(_) => encode_state(what, fields),
    }
}

fn encode_state(what: &What, fields: &mut Fields<'_>) {
    match what {
        What::Start(start) => {
            let begins = match start.begins {
                Begins::Server => "server",
                Begins::File => "file",
            };
            fields.number("begins", begins);
            fields.number("tapes", start.tapes);
            fields.number("drives", start.drives);
            fields.number("pool", start.pool.0);
            fields.number("block_size", start.block_size.0);
        }
        What::Tape(tape) => {
            fields.number("vid", tape.vid);
            fields.text("pool", tape.pool.as_deref());
            fields.text("library", Some(&tape.library));
            fields.text("state", Some(&tape.state));
            fields.number("capacity", tape.capacity.0);
            fields.number("written", tape.written.0);
            fields.number("free", tape.free.0);
            fields.number("end", tape.end_of_data.0);
        }
        What::Drive(drive) => {
            fields.text("drive", Some(&drive.drive));
            fields.text("library", Some(&drive.library));
            fields.flag("up", drive.up);
        }
        What::Class(class) => {
            fields.optional("pool_max", class.pool_max.map(|bytes| bytes.0));
            class.pools.iter().take(CLASS_POOLS_MAX).for_each(|pool| fields.text("pool", Some(pool)));
        }
        _ => {}
    }
}

/// `None`: a value is missing or malformed.
fn decode_what(kind: &str, values: &Values<'_>) -> Option<Result<What, LineFault>> {
    Some(Ok(match kind {
        "put" => What::Put(Put {
            file: FileId(values.number("file")?),
            bytes: values.bytes("bytes")?,
            set: values.number("set")?,
            took: values.span("took")?,
        }),
        "get" => What::Get(Get {
            file: FileId(values.number("file")?),
            bytes: values.bytes("bytes")?,
            offset: values.bytes("offset")?,
            asked: values.bytes("asked")?,
            sent: values.bytes("sent")?,
            online: values.flag("online")?,
            took: values.span("took")?,
        }),
        "stage" => What::Stage(Stage {
            file: FileId(values.number("file")?),
            bytes: values.bytes("bytes")?,
            request: RequestId(values.number("request")?),
            priority: values.number("priority")?,
            online: values.flag("online")?,
            copies: values.several("copy", STAGE_COPIES_MAX, read_copy)?,
        }),
        "recalled" => What::Recalled(Recalled {
            file: FileId(values.number("file")?),
            bytes: values.bytes("bytes")?,
            vid: values.vid("vid")?,
            wait: values.optional("wait")?.map(Duration::from_nanos),
        }),
        "evicted" => What::Evicted(values.file_size()?),
        "deleted" => What::Deleted(values.file_size()?),
        "migrated" => What::Migrated(Migrated {
            container: ContainerId(values.number("container")?),
            pool: values.name("pool")?,
            vid: values.vid("vid")?,
            block: BlockAddress(values.number("block")?),
            length: values.bytes("length")?,
            members: values.number("members")?,
            repack: values.flag("repack")?,
        }),
        "dropped" => What::Dropped { count: values.number("count")? },
        _ => return decode_state(kind, values),
    }))
}

fn decode_state(kind: &str, values: &Values<'_>) -> Option<Result<What, LineFault>> {
    Some(Ok(match kind {
        "start" => What::Start(Start {
            begins: match values.get("begins")? {
                "server" => Begins::Server,
                "file" => Begins::File,
                _ => return None,
            },
            tapes: values.number("tapes")?,
            drives: values.number("drives")?,
            pool: values.bytes("pool")?,
            block_size: values.bytes("block_size")?,
        }),
        "tape" => What::Tape(TapeState {
            vid: values.vid("vid")?,
            pool: values.text("pool")?,
            library: values.name("library")?,
            state: values.name("state")?,
            capacity: values.bytes("capacity")?,
            written: values.bytes("written")?,
            free: values.bytes("free")?,
            end_of_data: BlockAddress(values.number("end")?),
        }),
        "drive" => What::Drive(DriveState {
            drive: values.name("drive")?,
            library: values.name("library")?,
            up: values.flag("up")?,
        }),
        "class" => What::Class(ClassState {
            pools: values.several("pool", CLASS_POOLS_MAX, plain)?,
            pool_max: values.optional("pool_max")?.map(ByteCount),
        }),
        _ => return Some(Err(LineFault::Newer)),
    }))
}

/// Writes ` name=value`.
struct Fields<'a>(&'a mut String);

impl Fields<'_> {
    fn number(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = write!(self.0, " {name}={value}");
    }

    fn optional(&mut self, name: &str, value: Option<u64>) {
        match value {
            Some(value) => self.number(name, value),
            None => self.number(name, "-"),
        }
    }

    fn flag(&mut self, name: &str, value: bool) {
        self.number(name, u8::from(value));
    }

    fn text(&mut self, name: &str, value: Option<&str>) {
        let _ = write!(self.0, " {name}=");
        match value {
            None => self.0.push('-'),
            // A text that is `-` itself is told from nothing by its percent sign.
            Some("-") => self.0.push_str("%2D"),
            Some(value) => self.escaped(value),
        }
    }

    fn copy(&mut self, copy: &CopyPlace) {
        self.0.push_str(" copy=");
        self.escaped(&copy.pool);
        let (vid, container, block) = (copy.vid, copy.container.0, copy.block.0);
        let (whole, offset, length) = (copy.container_length.0, copy.offset.0, copy.length.0);
        let _ = write!(self.0, ",{vid},{container},{block},{whole},{offset},{length}");
    }

    /// Bytes outside of `!` to `~`, and `%` and `,`, as `%` and two upper-case hexadecimal digits.
    fn escaped(&mut self, text: &str) {
        let short = text.get(..text.floor_char_boundary(ACCESS_NAME_MAX.min(text.len())));
        for byte in short.unwrap_or_default().bytes() {
            if byte.is_ascii_graphic() && !matches!(byte, b'%' | b',') {
                self.0.push(char::from(byte));
            } else {
                let _ = write!(self.0, "%{byte:02X}");
            }
        }
    }
}

/// Most fields of a line that is read.
const FIELDS_MAX: usize = 128;

/// The names and values of a line.
struct Values<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Values<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let mut values = Vec::with_capacity(12);
        for word in text.split(' ') {
            if values.len() == FIELDS_MAX {
                return None;
            }
            values.push(word.split_once('=')?);
        }
        Some(Values(values))
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.get(name)?.parse().ok()
    }

    fn bytes(&self, name: &str) -> Option<ByteCount> {
        self.number(name).map(ByteCount)
    }

    fn span(&self, name: &str) -> Option<Duration> {
        self.number(name).map(Duration::from_nanos)
    }

    fn vid(&self, name: &str) -> Option<Vid> {
        Vid::new(self.get(name)?).ok()
    }

    fn flag(&self, name: &str) -> Option<bool> {
        match self.get(name)? {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }
    }

    fn optional(&self, name: &str) -> Option<Option<u64>> {
        match self.get(name)? {
            "-" => Some(None),
            value => value.parse().ok().map(Some),
        }
    }

    fn text(&self, name: &str) -> Option<Option<String>> {
        match self.get(name)? {
            "-" => Some(None),
            value => plain(value).map(Some),
        }
    }

    fn name(&self, name: &str) -> Option<String> {
        self.text(name)?
    }

    fn file_size(&self) -> Option<FileSize> {
        Some(FileSize { file: FileId(self.number("file")?), bytes: self.optional("bytes")?.map(ByteCount) })
    }

    fn several<T>(&self, name: &str, limit: usize, read: impl Fn(&str) -> Option<T>) -> Option<Vec<T>> {
        let found = self.0.iter().filter(|(known, _)| *known == name).map(|(_, value)| read(value));
        let found: Vec<T> = found.collect::<Option<_>>()?;
        (found.len() <= limit).then_some(found)
    }
}

fn read_copy(value: &str) -> Option<CopyPlace> {
    let parts: Vec<&str> = value.split(',').collect();
    let [pool, vid, container, block, whole, offset, length] = parts.try_into().ok()?;
    Some(CopyPlace {
        pool: plain(pool)?,
        vid: Vid::new(vid).ok()?,
        container: ContainerId(container.parse().ok()?),
        block: BlockAddress(block.parse().ok()?),
        container_length: ByteCount(whole.parse().ok()?),
        offset: ByteCount(offset.parse().ok()?),
        length: ByteCount(length.parse().ok()?),
    })
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// What an escaped text says; `None` if it is not one, or longer than any that is written.
fn plain(text: &str) -> Option<String> {
    if !text.contains('%') {
        return Some(text.to_owned()).filter(|text| text.len() <= ACCESS_NAME_MAX);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let (high, low) = (char::from(bytes.next()?).to_digit(16)?, char::from(bytes.next()?).to_digit(16)?);
        out.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(out).ok().filter(|text| text.len() <= ACCESS_NAME_MAX)
}

#[cfg(test)]
mod tests;
