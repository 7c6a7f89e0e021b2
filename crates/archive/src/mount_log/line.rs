//! A mount as a line of text: `docs/format/mount-log.md` says it to the byte.

use std::fmt::Write;

use base::{ByteCount, Crc32c, Duration, Timestamp, Vid};

use super::record::{
    MOUNT_REASON_MAX, MOUNT_SESSIONS_MAX, MotionRecord, MountKind, MountRecord, MountSessionEnd,
    QueueAtMount, SessionRecord,
};
use crate::engine::truncated;

/// The version of the line's content.
const VERSION: &str = "1";
/// The longest line that is read, its end included. None that is written comes near it.
pub(super) const LINE_BYTES_MAX: usize = 256 << 10;

/// For the fuzz targets: what is read is written as it reads.
///
/// # Panics
/// If it is not.
pub(crate) fn check_line(line: &[u8]) {
    if let Ok(record) = decode(line) {
        let written = encode(&record);
        assert_eq!(decode(written.trim_end_matches('\n').as_bytes()).as_ref(), Ok(&record), "{written}");
    }
}

/// Why a line is no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LineFault {
    /// Its checksum does not agree, or it is malformed.
    Damaged,
    /// A newer Kist has written it.
    Newer,
}

/// The line of a record, with the line feed at its end.
pub(super) fn encode(record: &MountRecord) -> String {
    let mut body = String::from(VERSION);
    let mut field = |name: &str, value: &str| {
        let _ = write!(body, " {name}={value}");
    };
    field("drive", &escaped(&record.drive));
    field("vid", record.vid.as_str());
    field("pool", &text(record.tape_pool.as_deref()));
    field("for", kind_word(record.kind));
    field("ordered", &record.ordered.0.to_string());
    field("loaded", &time(record.loaded));
    field("ready", &time(record.ready));
    field("unmounting", &time(record.unmounting));
    field("unmounted", &time(record.unmounted));
    field("failed", &text(record.failed.as_deref().map(|why| truncated(why, MOUNT_REASON_MAX)).as_deref()));
    let queue = &record.queue;
    field("queue", &format!("{},{},{}", queue.items, queue.bytes.0, time(queue.oldest)));
    let moved = (record.read.0, record.written.0, record.locates, nanos(record.moving));
    field("moved", &format!("{},{},{},{}", moved.0, moved.1, moved.2, moved.3));
    if let Some(motion) = &record.motion {
        let spans =
            [motion.locating, motion.streaming, motion.starved, motion.hitching, motion.flushing].map(nanos);
        let [locating, streaming, starved, hitching, flushing] = spans;
        let counts = format!("{},{}", motion.back_hitches, motion.flushes);
        field("motion", &format!("{locating},{streaming},{starved},{hitching},{flushing},{counts}"));
    }
    if let Some(rate) = record.native_rate {
        field("native", &rate.to_string());
    }
    for session in record.sessions.iter().take(MOUNT_SESSIONS_MAX) {
        field("session", &encode_session(session));
    }
    format!("{} {body}\n", Crc32c::of(body.as_bytes()))
}

fn encode_session(session: &SessionRecord) -> String {
    let (word, why) = match &session.end {
        MountSessionEnd::Drained => ("drained", None),
        MountSessionEnd::Full => ("full", None),
        MountSessionEnd::Stopped => ("stopped", None),
        MountSessionEnd::Failed(why) => ("failed", Some(truncated(why, MOUNT_REASON_MAX))),
    };
    let parts = [
        kind_word(session.kind).to_owned(),
        session.began.0.to_string(),
        session.ended.0.to_string(),
        time(session.first_byte),
        time(session.last_byte),
        session.bytes.0.to_string(),
        session.files.to_string(),
        session.read.0.to_string(),
        session.written.0.to_string(),
        session.locates.to_string(),
        nanos(session.moving).to_string(),
        word.to_owned(),
        text(why.as_deref()),
    ];
    parts.join(",")
}

/// The record of a line without its line feed.
pub(super) fn decode(line: &[u8]) -> Result<MountRecord, LineFault> {
    let line = std::str::from_utf8(line).map_err(|_| LineFault::Damaged)?;
    let (sum, body) = line.split_once(' ').ok_or(LineFault::Damaged)?;
    if sum != Crc32c::of(body.as_bytes()).to_string() {
        return Err(LineFault::Damaged);
    }
    let mut words = body.split(' ');
    if words.next() != Some(VERSION) {
        return Err(LineFault::Newer);
    }
    decode_fields(words).ok_or(LineFault::Damaged)
}

fn decode_fields<'a>(words: impl Iterator<Item = &'a str>) -> Option<MountRecord> {
    let (mut drive, mut vid, mut kind, mut ordered) = (None, None, None, None);
    let any = Vid::new("000000").ok()?;
    let mut record = MountRecord::ordered("", any, MountKind::Migrate, Timestamp(0));
    for word in words {
        let (name, value) = word.split_once('=')?;
        match name {
            "drive" => drive = Some(plain(value)?),
            "vid" => vid = Some(Vid::new(value).ok()?),
            "pool" => record.tape_pool = read_text(value)?,
            "for" => kind = Some(read_kind(value)?),
            "ordered" => ordered = Some(Timestamp(value.parse().ok()?)),
            "loaded" => record.loaded = read_time(value)?,
            "ready" => record.ready = read_time(value)?,
            "unmounting" => record.unmounting = read_time(value)?,
            "unmounted" => record.unmounted = read_time(value)?,
            "failed" => record.failed = read_reason(value)?,
            "queue" => {
                let [items, bytes, oldest] = parts(value)?;
                let (items, bytes) = (items.parse().ok()?, ByteCount(bytes.parse().ok()?));
                record.queue = QueueAtMount { items, bytes, oldest: read_time(oldest)? };
            }
            "moved" => {
                let [read, written, locates, moving] = parts(value)?;
                record.read = ByteCount(read.parse().ok()?);
                record.written = ByteCount(written.parse().ok()?);
                record.locates = locates.parse().ok()?;
                record.moving = read_span(moving)?;
            }
            "motion" => record.motion = Some(decode_motion(value)?),
            "native" => record.native_rate = Some(value.parse().ok()?),
            "session" if record.sessions.len() < MOUNT_SESSIONS_MAX => {
                record.sessions.push(decode_session(value)?);
            }
            "session" => return None,
            // A later Kist of the same version may say more.
            _ => {}
        }
    }
    Some(MountRecord { drive: drive?, vid: vid?, kind: kind?, ordered: ordered?, ..record })
}

fn decode_motion(value: &str) -> Option<MotionRecord> {
    let [locating, streaming, starved, hitching, flushing, back_hitches, flushes] = parts(value)?;
    Some(MotionRecord {
        locating: read_span(locating)?,
        streaming: read_span(streaming)?,
        starved: read_span(starved)?,
        hitching: read_span(hitching)?,
        flushing: read_span(flushing)?,
        back_hitches: back_hitches.parse().ok()?,
        flushes: flushes.parse().ok()?,
    })
}

fn decode_session(value: &str) -> Option<SessionRecord> {
    let [kind, began, ended, first, last, bytes, files, read, written, locates, moving, end, why] =
        parts(value)?;
    Some(SessionRecord {
        kind: read_kind(kind)?,
        began: Timestamp(began.parse().ok()?),
        ended: Timestamp(ended.parse().ok()?),
        first_byte: read_time(first)?,
        last_byte: read_time(last)?,
        bytes: ByteCount(bytes.parse().ok()?),
        files: files.parse().ok()?,
        read: ByteCount(read.parse().ok()?),
        written: ByteCount(written.parse().ok()?),
        locates: locates.parse().ok()?,
        moving: read_span(moving)?,
        end: match end {
            "drained" => MountSessionEnd::Drained,
            "full" => MountSessionEnd::Full,
            "stopped" => MountSessionEnd::Stopped,
            "failed" => MountSessionEnd::Failed(read_reason(why)?.unwrap_or_default()),
            _ => return None,
        },
    })
}

/// Exactly `N` parts between commas.
fn parts<const N: usize>(value: &str) -> Option<[&str; N]> {
    let parts: Vec<&str> = value.split(',').collect();
    parts.try_into().ok()
}

fn kind_word(kind: MountKind) -> &'static str {
    match kind {
        MountKind::Migrate => "migrate",
        MountKind::Recall => "recall",
        MountKind::Maintain => "maintain",
        MountKind::Recover => "recover",
    }
}

fn read_kind(word: &str) -> Option<MountKind> {
    let kinds = [MountKind::Migrate, MountKind::Recall, MountKind::Maintain, MountKind::Recover];
    kinds.into_iter().find(|kind| kind_word(*kind) == word)
}

fn time(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "-".to_owned(), |at| at.0.to_string())
}

fn read_time(text: &str) -> Option<Option<Timestamp>> {
    if text == "-" { Some(None) } else { text.parse().ok().map(|nanos| Some(Timestamp(nanos))) }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn read_span(text: &str) -> Option<Duration> {
    text.parse().ok().map(Duration::from_nanos)
}

/// `-` for nothing; a text that is `-` itself is written with its percent sign.
fn text(value: Option<&str>) -> String {
    match value {
        None => "-".to_owned(),
        Some("-") => "%2D".to_owned(),
        Some(value) => escaped(value),
    }
}

fn read_text(value: &str) -> Option<Option<String>> {
    if value == "-" { Some(None) } else { plain(value).map(Some) }
}

/// Why something failed. A longer text than any that is written is none.
fn read_reason(value: &str) -> Option<Option<String>> {
    read_text(value).filter(|why| why.as_ref().is_none_or(|why| why.len() <= MOUNT_REASON_MAX))
}

/// Bytes outside of `!` to `~`, and `%` and `,`, as `%` and two upper-case hexadecimal digits.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_graphic() && !matches!(byte, b'%' | b',') {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn plain(text: &str) -> Option<String> {
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
    String::from_utf8(out).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The record of the golden file.
    pub(in crate::mount_log) fn sample() -> MountRecord {
        let second = |count: i64| Timestamp(1_795_292_940_000_000_000 + count * 1_000_000_000);
        let mut record =
            MountRecord::ordered("vdrive0", Vid::new("KS0001").unwrap(), MountKind::Recall, second(0));
        record.tape_pool = Some("archive 1".to_owned());
        record.loaded = Some(second(20));
        record.ready = Some(second(35));
        record.unmounting = Some(second(135));
        record.unmounted = Some(second(160));
        record.queue =
            QueueAtMount { items: 12, bytes: ByteCount(24_000_000_000), oldest: Some(second(-3600)) };
        record.read = ByteCount(24_100_000_000);
        record.written = ByteCount(4_096);
        record.locates = 7;
        record.moving = Duration::from_millis(66_500);
        record.motion = Some(MotionRecord {
            locating: Duration::from_secs(30),
            streaming: Duration::from_secs(66),
            starved: Duration::from_secs(1),
            hitching: Duration::from_millis(2_500),
            flushing: Duration::from_millis(500),
            back_hitches: 2,
            flushes: 1,
        });
        record.native_rate = Some(360_000_000);
        record.add_session(SessionRecord {
            kind: MountKind::Recall,
            began: second(36),
            ended: second(130),
            first_byte: Some(second(50)),
            last_byte: Some(second(129)),
            bytes: ByteCount(24_000_000_000),
            files: 12,
            read: ByteCount(24_100_000_000),
            written: ByteCount(0),
            locates: 6,
            moving: Duration::from_secs(66),
            end: MountSessionEnd::Failed("block 7 of KS0001, 100% unreadable".to_owned()),
        });
        record
    }

    /// Bytes that a released Kist has written stay readable: this file never changes.
    #[test]
    fn the_golden_line_is_written_and_read() {
        let golden = include_str!("golden/mount-1.log");
        assert_eq!(encode(&sample()), golden);
        assert_eq!(decode(golden.trim_end().as_bytes()), Ok(sample()));
    }

    #[test]
    fn damage_and_newer_versions_are_told_apart() {
        let line = encode(&sample());
        let line = line.trim_end();
        for at in 0..line.len() {
            let mut bytes = line.as_bytes().to_vec();
            bytes[at] ^= 1;
            assert_eq!(decode(&bytes), Err(LineFault::Damaged), "byte {at}");
        }
        let framed = |body: &str| format!("{} {body}", Crc32c::of(body.as_bytes()));
        assert_eq!(decode(framed("2 whatever").as_bytes()), Err(LineFault::Newer));
        let body = line.split_once(' ').unwrap().1;
        let more = decode(framed(&format!("{body} new=1")).as_bytes());
        assert_eq!(more, Ok(sample()), "an unknown field is passed over");
        for wrong in ["drive", "ordered=x", "session=recall,1", "for=fun", "failed=%2", "queue=1,2"] {
            let wrong = framed(&format!("{body} {wrong}"));
            assert_eq!(decode(wrong.as_bytes()), Err(LineFault::Damaged), "{wrong}");
        }
        assert_eq!(decode(framed("1 drive=a").as_bytes()), Err(LineFault::Damaged), "fields are missing");
        let sessions = " session=recall,1,2,-,-,0,0,0,0,0,0,drained,-".repeat(MOUNT_SESSIONS_MAX);
        assert_eq!(decode(framed(&format!("{body}{sessions}")).as_bytes()), Err(LineFault::Damaged));
    }

    /// Fuzzing found a reason longer than any that is written: it was read as it stood and cut when it was
    /// written again.
    #[test]
    fn reasons_are_read_up_to_the_length_that_is_written() {
        let line = |mount: &str, session: &str| {
            let session = format!("session=recall,1,2,-,-,0,0,0,0,0,0,failed,{session}");
            let body = format!("1 drive=a vid=KS0001 for=recall ordered=1 failed={mount} {session}");
            decode(format!("{} {body}", Crc32c::of(body.as_bytes())).as_bytes())
        };
        let longest = "x".repeat(MOUNT_REASON_MAX);
        let beyond = "x".repeat(MOUNT_REASON_MAX + 1);
        let escaped = "%C3%A9".repeat(MOUNT_REASON_MAX / 2);
        for why in [&longest, &escaped] {
            let record = line(why, why).unwrap();
            let MountSessionEnd::Failed(of_session) = &record.sessions[0].end else { panic!("{record:?}") };
            assert_eq!((of_session.len(), record.failed.as_ref().map(String::len)), (512, Some(512)));
            assert_eq!(decode(encode(&record).trim_end().as_bytes()), Ok(record));
        }
        assert_eq!(line(&beyond, "-"), Err(LineFault::Damaged));
        assert_eq!(line("-", &beyond), Err(LineFault::Damaged));
        assert_eq!(line("-", &format!("{escaped}x")), Err(LineFault::Damaged));
    }

    proptest! {
        #[test]
        fn any_text_comes_back(
            drive in "\\PC{0,20}",
            pool in proptest::option::of("\\PC{0,20}"),
            why in "\\PC{0,60}",
        ) {
            let mut record = sample();
            record.drive = drive;
            record.tape_pool = pool;
            record.failed = Some(why);
            let line = encode(&record);
            prop_assert_eq!(line.matches('\n').count(), 1);
            prop_assert_eq!(decode(line.trim_end_matches('\n').as_bytes()), Ok(record));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn the_longest_line_is_within_its_limit() {
        let mut record = sample();
        let why = "\u{1}".repeat(2 * MOUNT_REASON_MAX);
        record.failed = Some(why.clone());
        record.sessions.clear();
        for _ in 0..MOUNT_SESSIONS_MAX {
            let session = sample().sessions.remove(0);
            record.add_session(SessionRecord { end: MountSessionEnd::Failed(why.clone()), ..session });
        }
        assert!(encode(&record).len() < LINE_BYTES_MAX);
    }
}
