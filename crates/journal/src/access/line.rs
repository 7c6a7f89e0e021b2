//! A record as a line of text: `docs/format/access-log.md` says it to the byte.

use std::fmt::Write;

use base::{BlockAddress, ByteCount, ContainerId, Duration, FileId, RequestId, Timestamp, Vid};
use usage::{
    ACCESS_NAME_MAX, Access, Begins, CLASS_POOLS_MAX, ClassState, CopyPlace, DriveState, FileSize, Get,
    Migrated, Put, Recalled, STAGE_COPIES_MAX, Stage, Start, TapeState, What,
};

use super::files::{ACCESS_LOG_BYTES_MAX, ACCESS_LOG_FILES_MAX};
use crate::form::{LogForm, Naming, Record, TimedRecord, TornEnd};
use crate::line::{self, Fields, LineFault, TextForm, Values, nanos, parts};

/// The longest line that is read, its end included. None that is written comes near it.
pub const ACCESS_LINE_BYTES_MAX: usize = 128 << 10;
/// Lines are out of the order of their times by no more than this.
pub const ACCESS_ORDER_SLACK: Duration = Duration::from_secs(60);
/// Most fields of a line that is read.
const FIELDS_MAX: usize = 128;
/// Names of classes, pools, keys and drives.
const NAMES: TextForm = TextForm { escapes_comma: true, bytes_max: ACCESS_NAME_MAX };

impl Record for Access {
    type Link = ();
    type Fault = LineFault;
    const FORM: LogForm = LogForm {
        stem: "access",
        naming: Naming::ByAge,
        bytes_max: ACCESS_LOG_BYTES_MAX,
        files_max: ACCESS_LOG_FILES_MAX,
        line_bytes_max: ACCESS_LINE_BYTES_MAX,
        torn: TornEnd::Ended,
        is_durable: false,
        mode: 0o666,
        reserve: None,
    };

    fn encode(&self, (): (), out: &mut String) {
        line::seal(base::Crc32c(0), out, |body| {
            body.push(' ');
            body.push_str(word(&self.what));
            let mut fields = Fields { out: body, texts: NAMES };
            fields.number("at", self.at.0);
            fields.optional_text("class", self.class.as_deref());
            fields.optional_text("who", self.who.as_deref());
            encode_what(&self.what, &mut fields);
        });
    }

    fn decode(line: &[u8]) -> Result<(Self, ()), LineFault> {
        let (kind, rest) = line::open(line)?.split_once(' ').ok_or(LineFault::Damaged)?;
        let values = Values::read(rest, FIELDS_MAX, NAMES).ok_or(LineFault::Damaged)?;
        let what = decode_what(kind, &values).ok_or(LineFault::Damaged)??;
        let head =
            || Some((values.number("at")?, values.optional_text("class")?, values.optional_text("who")?));
        let (at, class, who) = head().ok_or(LineFault::Damaged)?;
        Ok((Access { at: Timestamp(at), class, who, what }, ()))
    }
}

impl TimedRecord for Access {
    const ORDER_SLACK: Duration = ACCESS_ORDER_SLACK;

    fn written_at(&self) -> Timestamp {
        self.at
    }
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
            stage.copies.iter().take(STAGE_COPIES_MAX).for_each(|copy| encode_copy(copy, fields));
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
            fields.optional_text("pool", Some(&migrated.pool));
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
            fields.optional_text("pool", tape.pool.as_deref());
            fields.optional_text("library", Some(&tape.library));
            fields.optional_text("state", Some(&tape.state));
            fields.number("capacity", tape.capacity.0);
            fields.number("written", tape.written.0);
            fields.number("free", tape.free.0);
            fields.number("end", tape.end_of_data.0);
        }
        What::Drive(drive) => {
            fields.optional_text("drive", Some(&drive.drive));
            fields.optional_text("library", Some(&drive.library));
            fields.flag("up", drive.up);
        }
        What::Class(class) => {
            fields.optional("pool_max", class.pool_max.map(|bytes| bytes.0));
            class
                .pools
                .iter()
                .take(CLASS_POOLS_MAX)
                .for_each(|pool| fields.optional_text("pool", Some(pool)));
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
        "evicted" => What::Evicted(file_size(values)?),
        "deleted" => What::Deleted(file_size(values)?),
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
            pool: values.optional_text("pool")?,
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
            pools: values.several("pool", CLASS_POOLS_MAX, |pool| NAMES.read(pool))?,
            pool_max: values.optional("pool_max")?.map(ByteCount),
        }),
        _ => return Some(Err(LineFault::Newer)),
    }))
}

fn encode_copy(copy: &CopyPlace, fields: &mut Fields<'_>) {
    fields.text("copy", &copy.pool);
    let (vid, container, block) = (copy.vid, copy.container.0, copy.block.0);
    let (whole, offset, length) = (copy.container_length.0, copy.offset.0, copy.length.0);
    let _ = write!(fields.out, ",{vid},{container},{block},{whole},{offset},{length}");
}

fn read_copy(value: &str) -> Option<CopyPlace> {
    let [pool, vid, container, block, whole, offset, length] = parts(value)?;
    Some(CopyPlace {
        pool: NAMES.read(pool)?,
        vid: Vid::new(vid).ok()?,
        container: ContainerId(container.parse().ok()?),
        block: BlockAddress(block.parse().ok()?),
        container_length: ByteCount(whole.parse().ok()?),
        offset: ByteCount(offset.parse().ok()?),
        length: ByteCount(length.parse().ok()?),
    })
}

fn file_size(values: &Values<'_>) -> Option<FileSize> {
    Some(FileSize { file: FileId(values.number("file")?), bytes: values.optional("bytes")?.map(ByteCount) })
}

#[cfg(test)]
mod tests;
