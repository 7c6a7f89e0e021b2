//! A mount as a line of text: `docs/format/mount-log.md` says it to the byte.

use base::{ByteCount, Crc32c, Duration, Timestamp, Vid};

use super::files::{MOUNT_LOG_BYTES_MAX, MOUNT_LOG_FILES_MAX};
use super::health::{ALERT_MAX, CounterRecord, ErrorRecord, ProductRecord};
use super::record::{
    MOUNT_REASON_MAX, MOUNT_SESSIONS_MAX, MotionRecord, MountKind, MountRecord, MountSessionEnd, OrderRecord,
    QueueAtMount, SessionRecord,
};
use crate::form::{LogForm, Naming, Record, TimedRecord, TornEnd};
use crate::line::{self, Fields, LineFault, TextForm, nanos, optional, parts, span};

/// The longest line that is read, its end included. None that is written comes near it.
const LINE_BYTES_MAX: usize = 256 << 10;
/// Names of drives and pools.
const NAMES: TextForm = TextForm { escapes_comma: true, bytes_max: LINE_BYTES_MAX };
/// Why something failed.
const REASONS: TextForm = TextForm { escapes_comma: true, bytes_max: MOUNT_REASON_MAX };

impl Record for MountRecord {
    type Link = ();
    type Fault = LineFault;
    const FORM: LogForm = LogForm {
        stem: "mounts",
        naming: Naming::ByAge,
        bytes_max: MOUNT_LOG_BYTES_MAX,
        files_max: MOUNT_LOG_FILES_MAX,
        line_bytes_max: LINE_BYTES_MAX,
        torn: TornEnd::Ended,
        is_durable: false,
        mode: 0o666,
        reserve: None,
    };

    fn encode(&self, (): (), out: &mut String) {
        line::seal(Crc32c(0), out, |body| encode_fields(self, &mut Fields { out: body, texts: NAMES }));
    }

    fn decode(line: &[u8]) -> Result<(Self, ()), LineFault> {
        decode_fields(line::open(line)?).map(|record| (record, ())).ok_or(LineFault::Damaged)
    }
}

/// Mounts are written down when they end.
impl TimedRecord for MountRecord {
    const ORDER_SLACK: Duration = Duration::ZERO;

    fn written_at(&self) -> Timestamp {
        self.newest()
    }
}

fn encode_fields(record: &MountRecord, fields: &mut Fields<'_>) {
    fields.text("drive", &record.drive);
    fields.number("vid", record.vid);
    fields.optional_text("pool", record.tape_pool.as_deref());
    fields.number("for", kind_word(record.kind));
    fields.number("ordered", record.ordered.0);
    fields.number("loaded", time(record.loaded));
    fields.number("ready", time(record.ready));
    fields.number("unmounting", time(record.unmounting));
    fields.number("unmounted", time(record.unmounted));
    fields.number("failed", reason(record.failed.as_deref()));
    let queue = &record.queue;
    fields.number("queue", format_args!("{},{},{}", queue.items, queue.bytes.0, time(queue.oldest)));
    let moved = (record.read.0, record.written.0, record.locates, nanos(record.moving));
    fields.number("moved", format_args!("{},{},{},{}", moved.0, moved.1, moved.2, moved.3));
    if let Some(motion) = &record.motion {
        let spans =
            [motion.locating, motion.streaming, motion.starved, motion.hitching, motion.flushing].map(nanos);
        let [locating, streaming, starved, hitching, flushing] = spans;
        let spans = format_args!("{locating},{streaming},{starved},{hitching},{flushing}");
        fields.number("motion", format_args!("{spans},{},{}", motion.back_hitches, motion.flushes));
    }
    if let Some(counted) = &record.counted {
        fields.number("counted", encode_counted(counted));
    }
    if !record.alerts.is_empty() {
        let flags: Vec<String> = record.alerts.iter().map(u8::to_string).collect();
        fields.number("alerts", flags.join(","));
    }
    if let Some(ProductRecord { vendor, product, firmware, serial }) = &record.product {
        let mut texts = String::new();
        for (number, text) in [vendor, product, firmware, serial].into_iter().enumerate() {
            texts.push_str(if number == 0 { "" } else { "," });
            NAMES.write(&mut texts, text);
        }
        fields.number("product", texts);
    }
    if let Some(rate) = record.native_rate {
        fields.number("native", rate);
    }
    if let Some(OrderRecord { compared, drives, own, drive, failed }) = record.order {
        let [own, drive] = [own, drive].map(nanos);
        fields.number("order", format_args!("{compared},{drives},{own},{drive},{failed}"));
    }
    for session in record.sessions.iter().take(MOUNT_SESSIONS_MAX) {
        fields.number("session", encode_session(session));
    }
}

fn encode_counted(counted: &CounterRecord) -> String {
    let CounterRecord { written, read, writing, reading, celsius } = counted;
    let [written, read] = [written, read].map(|bytes| bytes.map(|bytes| bytes.0));
    let of = |errors: &ErrorRecord| [errors.corrected, errors.retries, errors.uncorrected];
    let ([a, b, c], [d, e, f]) = (of(writing), of(reading));
    let parts = [written, read, a, b, c, d, e, f, celsius.map(u64::from)].map(number);
    parts.join(",")
}

fn encode_session(session: &SessionRecord) -> String {
    let (word, why) = match &session.end {
        MountSessionEnd::Drained => ("drained", None),
        MountSessionEnd::Full => ("full", None),
        MountSessionEnd::Stopped => ("stopped", None),
        MountSessionEnd::Failed(why) => ("failed", Some(why.as_str())),
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
        reason(why),
    ];
    parts.join(",")
}

fn decode_fields(text: &str) -> Option<MountRecord> {
    let (mut drive, mut vid, mut kind, mut ordered) = (None, None, None, None);
    let any = Vid::new("000000").ok()?;
    let mut record = MountRecord::ordered("", any, MountKind::Migrate, Timestamp(0));
    for field in line::fields(text) {
        let (name, value) = field?;
        match name {
            "drive" => drive = Some(NAMES.read(value)?),
            "vid" => vid = Some(Vid::new(value).ok()?),
            "pool" => record.tape_pool = NAMES.read_optional(value)?,
            "for" => kind = Some(read_kind(value)?),
            "ordered" => ordered = Some(Timestamp(value.parse().ok()?)),
            "loaded" => record.loaded = read_time(value)?,
            "ready" => record.ready = read_time(value)?,
            "unmounting" => record.unmounting = read_time(value)?,
            "unmounted" => record.unmounted = read_time(value)?,
            "failed" => record.failed = REASONS.read_optional(value)?,
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
                record.moving = span(moving)?;
            }
            "motion" => record.motion = Some(decode_motion(value)?),
            "counted" => record.counted = Some(decode_counted(value)?),
            "alerts" => record.alerts = decode_alerts(value)?,
            "product" => {
                let [vendor, product, firmware, serial] = parts(value)?;
                record.product = Some(ProductRecord {
                    vendor: NAMES.read(vendor)?,
                    product: NAMES.read(product)?,
                    firmware: NAMES.read(firmware)?,
                    serial: NAMES.read(serial)?,
                });
            }
            "native" => record.native_rate = Some(value.parse().ok()?),
            "order" => {
                let [compared, drives, own, drive, failed] = parts(value)?;
                record.order = Some(OrderRecord {
                    compared: compared.parse().ok()?,
                    drives: drives.parse().ok()?,
                    own: span(own)?,
                    drive: span(drive)?,
                    failed: failed.parse().ok()?,
                });
            }
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
        locating: span(locating)?,
        streaming: span(streaming)?,
        starved: span(starved)?,
        hitching: span(hitching)?,
        flushing: span(flushing)?,
        back_hitches: back_hitches.parse().ok()?,
        flushes: flushes.parse().ok()?,
    })
}

fn decode_counted(value: &str) -> Option<CounterRecord> {
    let [written, read, a, b, c, d, e, f, celsius] = parts(value)?;
    let of = |[corrected, retries, uncorrected]: [&str; 3]| {
        let (corrected, retries) = (optional(corrected)?, optional(retries)?);
        Some(ErrorRecord { corrected, retries, uncorrected: optional(uncorrected)? })
    };
    let bytes = |value| Some(optional(value)?.map(ByteCount));
    Some(CounterRecord {
        written: bytes(written)?,
        read: bytes(read)?,
        writing: of([a, b, c])?,
        reading: of([d, e, f])?,
        celsius: optional(celsius)?,
    })
}

/// Flags in ascending order.
fn decode_alerts(value: &str) -> Option<Vec<u8>> {
    let flags = value.split(',').map(|flag| flag.parse().ok().filter(|flag| (1..=ALERT_MAX).contains(flag)));
    let flags: Vec<u8> = flags.collect::<Option<_>>()?;
    flags.is_sorted_by(|one, next| one < next).then_some(flags)
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
        moving: span(moving)?,
        end: match end {
            "drained" => MountSessionEnd::Drained,
            "full" => MountSessionEnd::Full,
            "stopped" => MountSessionEnd::Stopped,
            "failed" => MountSessionEnd::Failed(REASONS.read_optional(why)?.unwrap_or_default()),
            _ => return None,
        },
    })
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

fn number(value: Option<u64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

fn time(at: Option<Timestamp>) -> String {
    at.map_or_else(|| "-".to_owned(), |at| at.0.to_string())
}

fn read_time(text: &str) -> Option<Option<Timestamp>> {
    optional(text).map(|nanos| nanos.map(Timestamp))
}

fn reason(why: Option<&str>) -> String {
    let mut out = String::new();
    REASONS.write_optional(&mut out, why);
    out
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(line: &[u8]) -> Result<MountRecord, LineFault> {
        line::decode(line)
    }

    /// The record of the golden file.
    pub(crate) fn sample() -> MountRecord {
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

    fn encode(record: &MountRecord) -> String {
        let mut line = String::new();
        line::encode(record, &mut line);
        line
    }

    /// Bytes that a released Kist has written stay readable: this file never changes.
    #[test]
    fn the_golden_line_is_written_and_read() {
        let golden = include_str!("golden/mount-1.log");
        assert_eq!(encode(&sample()), golden);
        assert_eq!(decode(golden.trim_end().as_bytes()), Ok(sample()));
    }

    /// As `sample`, with what the drive says of itself.
    fn sample_with_counters() -> MountRecord {
        let errors = |corrected, retries, uncorrected| ErrorRecord { corrected, retries, uncorrected };
        MountRecord {
            counted: Some(CounterRecord {
                written: Some(ByteCount(4_100)),
                read: Some(ByteCount(24_100_000_123)),
                writing: errors(Some(0), None, Some(0)),
                reading: errors(Some(1_234), Some(56), Some(1)),
                celsius: Some(41),
            }),
            alerts: vec![4, 20],
            product: Some(ProductRecord {
                vendor: "IBM".to_owned(),
                product: "ULTRIUM-TD9, 1".to_owned(),
                firmware: "R3G3".to_owned(),
                serial: String::new(),
            }),
            ..sample()
        }
    }

    /// The second golden line: what later releases say of a mount.
    #[test]
    fn the_golden_line_with_counters_is_written_and_read() {
        let golden = include_str!("golden/mount-1-counters.log");
        assert_eq!(encode(&sample_with_counters()), golden);
        assert_eq!(decode(golden.trim_end().as_bytes()), Ok(sample_with_counters()));
        let body = golden.trim_end().split_once(' ').unwrap().1;
        let framed = |body: &str| format!("{} {body}", Crc32c::of(body.as_bytes()));
        for wrong in [
            "counted=1,2,3",
            "counted=1,2,3,4,5,6,7,8,300",
            "alerts=20,4",
            "alerts=0",
            "alerts=",
            "product=a,b,c",
        ] {
            let wrong = framed(&format!("{body} {wrong}"));
            assert_eq!(decode(wrong.as_bytes()), Err(LineFault::Damaged), "{wrong}");
        }
    }

    /// As `sample`, read in orders of which some were the drive's.
    fn sample_with_orders() -> MountRecord {
        let (own, drive) = (Duration::from_millis(812_500), Duration::from_secs(790));
        MountRecord { order: Some(OrderRecord { compared: 3, drives: 2, own, drive, failed: 1 }), ..sample() }
    }

    /// The third golden line: whose order was read.
    #[test]
    fn the_golden_line_with_orders_is_written_and_read() {
        let golden = include_str!("golden/mount-1-order.log");
        assert_eq!(encode(&sample_with_orders()), golden);
        assert_eq!(decode(golden.trim_end().as_bytes()), Ok(sample_with_orders()));
        let body = golden.trim_end().split_once(' ').unwrap().1;
        for wrong in ["order=1,2,3,4", "order=1,2,3,4,-", "order=1,2,-3,4,5", "order="] {
            let wrong = format!("{body} {wrong}");
            let wrong = format!("{} {wrong}", Crc32c::of(wrong.as_bytes()));
            assert_eq!(decode(wrong.as_bytes()), Err(LineFault::Damaged), "{wrong}");
        }
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
