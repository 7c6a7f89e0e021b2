//! What the three logs have in common, each property for the description of each log.

use std::path::PathBuf;
use std::process::Command;

use base::{ByteCount, Duration, FileId, Timestamp, Vid};
use usage::{Access, Put, What};

use super::*;
use crate::audit::AuditLine;
use crate::audit::tests::entry;
use crate::line::encode as encode_line;
use crate::mount::{MountKind, MountRecord};

/// A record that tells its number.
trait Numbered: Record + PartialEq + std::fmt::Debug {
    fn numbered(number: i64) -> Self;

    /// `None` of the line that begins a file.
    fn number(&self) -> Option<i64>;
}

impl Numbered for Access {
    fn numbered(number: i64) -> Self {
        let put = Put { file: FileId(1), bytes: ByteCount(1), set: 1, took: Duration::ZERO };
        Access { at: Timestamp(number), class: Some("small".to_owned()), who: None, what: What::Put(put) }
    }

    fn number(&self) -> Option<i64> {
        Some(self.at.0)
    }
}

impl Numbered for MountRecord {
    fn numbered(number: i64) -> Self {
        MountRecord::ordered("drive", Vid::new("KS0001").unwrap(), MountKind::Recall, Timestamp(number))
    }

    fn number(&self) -> Option<i64> {
        Some(self.ordered.0)
    }
}

impl Numbered for AuditLine {
    fn numbered(number: i64) -> Self {
        AuditLine::Entry(Box::new(crate::AuditEntry { at: Timestamp(number), ..entry("/a") }))
    }

    fn number(&self) -> Option<i64> {
        match self {
            AuditLine::Begin { .. } => None,
            AuditLine::Entry(entry) => Some(entry.at.0),
        }
    }
}

/// One property for all logs.
macro_rules! of_each_log {
    ($($name:ident => $property:ident;)*) => {$(
        #[test]
        fn $name() {
            $property::<Access>();
            $property::<MountRecord>();
            $property::<AuditLine>();
        }
    )*};
}

of_each_log! {
    lines_are_read_in_the_order_in_which_they_were_appended => order;
    a_file_at_its_limit_takes_no_further_line_and_one_below_it_does => rotation_at_the_limit;
    the_oldest_files_go_and_the_others_stay_in_order => trimming;
    a_torn_last_line_is_passed_over_and_spoils_no_other => torn_line;
    a_line_without_end_costs_no_memory_and_no_other_line => line_too_long;
    a_full_disk_costs_only_what_it_did_not_take => full_disk;
    a_file_that_is_none_of_the_log_is_left_alone => foreign_files;
}

fn append<R: Numbered>(log: &mut Appender<R>, numbers: impl IntoIterator<Item = i64>) -> io::Result<()> {
    let records: Vec<R> = numbers.into_iter().map(R::numbered).collect();
    log.append(&records)
}

/// Each by itself, so that it may begin a file.
fn append_each<R: Numbered>(log: &mut Appender<R>, numbers: impl IntoIterator<Item = i64>) {
    numbers.into_iter().for_each(|number| append(log, [number]).unwrap());
}

/// The numbers of the records that can be read, and how many lines cannot.
fn read<R: Numbered>(files: &LogFiles<R>) -> (Vec<i64>, u64) {
    let (mut numbers, mut damaged) = (Vec::new(), 0);
    for (_, path) in files.list().unwrap() {
        let mut lines = LineReader::<_, R>::new(File::open(path).unwrap());
        while let Some(piece) = lines.next_piece().unwrap() {
            match piece {
                Piece::Whole([]) | Piece::Torn(_) => {}
                Piece::TooLong => damaged += 1,
                Piece::Whole(line) => match R::decode(line) {
                    Ok((record, _)) => numbers.extend(record.number()),
                    Err(_) => damaged += 1,
                },
            }
        }
    }
    (numbers, damaged)
}

fn growing<R: Record>(files: &LogFiles<R>) -> PathBuf {
    files.list().unwrap().pop().unwrap().1
}

fn bytes_of<R: Record>(files: &LogFiles<R>) -> u64 {
    fs::metadata(growing(files)).unwrap().len()
}

fn order<R: Numbered>() {
    let directory = tempfile::tempdir().unwrap();
    let files = LogFiles::<R>::new(&directory.path().join("log"));
    assert_eq!(read(&files), (vec![], 0), "a log that nobody wrote to is empty");
    let mut log = Appender::open(files.clone()).unwrap();
    append(&mut log, [1, 2]).unwrap();
    append(&mut log, [3]).unwrap();
    drop(log);
    let mut log = Appender::open(files.clone()).unwrap();
    append(&mut log, [4]).unwrap();
    log.sync().unwrap();
    assert_eq!(read(&files), (vec![1, 2, 3, 4], 0), "{}", R::FORM.stem);
}

fn rotation_at_the_limit<R: Numbered>() {
    let directory = tempfile::tempdir().unwrap();
    let files = LogFiles::<R>::new(&directory.path().join("measure"));
    let mut log = Appender::open(files.clone()).unwrap();
    append(&mut log, [1, 2]).unwrap();
    let two = bytes_of(&files);
    for (bytes_max, count) in [(two, 2), (two + 1, 1)] {
        let below = directory.path().join(bytes_max.to_string());
        let files = LogFiles::<R>::with_limits(&below, bytes_max, 9);
        let mut log = Appender::open(files.clone()).unwrap();
        append(&mut log, [1, 2]).unwrap();
        assert_eq!(log.is_full(), count == 2);
        append(&mut log, [3]).unwrap();
        assert_eq!(files.list().unwrap().len(), count, "{} with {bytes_max}", R::FORM.stem);
        drop(log);
        // Another process finds a file at its limit just so.
        let mut log = Appender::open(files.clone()).unwrap();
        assert!(count == 2 || log.is_full());
        append(&mut log, [4]).unwrap();
        assert_eq!(files.list().unwrap().len(), 2);
        assert_eq!(read(&files), (vec![1, 2, 3, 4], 0));
    }
}

fn trimming<R: Numbered>() {
    for files_max in 1..4u32 {
        let directory = tempfile::tempdir().unwrap();
        let files = LogFiles::<R>::with_limits(directory.path(), 1, files_max);
        let mut log = Appender::open(files.clone()).unwrap();
        let begins_with_line = R::first_of_file(1, R::Link::default()).is_some();
        append_each(&mut log, 0..9);
        let list = files.list().unwrap();
        assert_eq!(list.len(), files_max as usize, "{}", R::FORM.stem);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), list.len());
        // Each line goes to a file of its own.
        assert_eq!(read(&files), ((9 - i64::from(files_max)..9).collect(), 0));
        for (number, path) in &list {
            let text = fs::read_to_string(path).unwrap();
            assert_eq!(text.lines().count(), 1 + usize::from(begins_with_line), "file {number}: {text}");
        }
        // Files are kept or go as a whole: a smaller number of them takes effect with the next one.
        drop(log);
        let files = LogFiles::<R>::with_limits(directory.path(), 1, 1);
        append(&mut Appender::open(files.clone()).unwrap(), [9]).unwrap();
        assert_eq!(read(&files), (vec![9], 0));
    }
}

fn torn_line<R: Numbered>() {
    let directory = tempfile::tempdir().unwrap();
    let files = LogFiles::<R>::new(directory.path());
    let mut log = Appender::open(files.clone()).unwrap();
    append(&mut log, [1]).unwrap();
    let path = growing(&files);
    let whole = fs::read(&path).unwrap();
    let mut torn = String::new();
    R::numbered(2).encode(log.link, &mut torn);
    drop(log);
    for cut in [1, torn.len() / 2, torn.len() - 1] {
        let told = format!("{} cut at {cut}", R::FORM.stem);
        fs::write(&path, [&whole, &torn.as_bytes()[..cut]].concat()).unwrap();
        assert_eq!(read(&files), (vec![1], 0), "{told}: a reader passes it over");
        append(&mut Appender::open(files.clone()).unwrap(), [3]).unwrap();
        // A line that was whole but for its end becomes one, where it is ended.
        let (expected, damaged) = match R::FORM.torn {
            TornEnd::CutOff => (vec![1, 3], 0),
            TornEnd::Ended if cut == torn.len() - 1 => (vec![1, 2, 3], 0),
            TornEnd::Ended => (vec![1, 3], 1),
        };
        assert_eq!(read(&files), (expected, damaged), "{told}");
        assert!(fs::read(&path).unwrap().starts_with(&whole), "{told}: what was whole is as it was");
    }
    // Nothing of the file was written.
    fs::write(&path, b"").unwrap();
    append(&mut Appender::open(files.clone()).unwrap(), [4]).unwrap();
    assert_eq!(read(&files), (vec![4], 0), "{}", R::FORM.stem);
}

fn line_too_long<R: Numbered>() {
    let directory = tempfile::tempdir().unwrap();
    let files = LogFiles::<R>::new(directory.path());
    let mut log = Appender::open(files.clone()).unwrap();
    append(&mut log, [1]).unwrap();
    drop(log);
    let (path, most) = (growing(&files), R::FORM.line_bytes_max);
    let mut bytes = fs::read(&path).unwrap();
    let before = bytes.len() as u64;
    bytes.extend(vec![b'x'; 3 * most]);
    bytes.push(b'\n');
    fs::write(&path, &bytes).unwrap();
    let mut lines = LineReader::<_, R>::new(File::open(&path).unwrap());
    while lines.read() < before {
        assert!(matches!(lines.next_piece().unwrap(), Some(Piece::Whole(_))));
    }
    for part in 1..4 {
        assert_eq!(lines.next_piece().unwrap(), Some(Piece::TooLong), "{}", R::FORM.stem);
        assert_eq!(lines.read(), before + part * most as u64);
    }
    assert_eq!(lines.next_piece().unwrap(), Some(Piece::Whole(b"")));
    assert_eq!(lines.next_piece().unwrap(), None);
    append(&mut Appender::open(files.clone()).unwrap(), [2]).unwrap();
    assert_eq!(read(&files), (vec![1, 2], 3), "{}", R::FORM.stem);
}

/// A file system of its own, gone when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None`, with a word about it, where mounting is not allowed.
    fn mount(at: PathBuf) -> Option<Self> {
        fs::create_dir(&at).unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "none"]).arg(&at).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(SmallDisk(at));
        }
        eprintln!("skipped: this machine does not let the test mount a file system");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn full_disk<R: Numbered>() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(directory.path().join("disk")) else { return };
    let files = LogFiles::<R>::new(&disk.0.join("log"));
    let mut log = Appender::open(files.clone()).unwrap();
    assert_eq!(log.look_ahead(), Room::Enough);
    append(&mut log, [1]).unwrap();
    let other = disk.0.join("other");
    assert!(io::copy(&mut io::repeat(7), &mut File::create(&other).unwrap()).is_err());
    let (mut taken, mut failures) = (vec![1], 0);
    for begin in (0..).map(|step| 1_000 + 100 * step) {
        match append(&mut log, begin..begin + 100) {
            Ok(()) => taken.extend(begin..begin + 100),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{}", R::FORM.stem);
                failures += 1;
                break;
            }
        }
    }
    assert_eq!(failures, 1, "the disk is full");
    if R::FORM.reserve.is_some() {
        assert!(taken.len() > 1_000 && log.look_ahead() == Room::None, "{} lines", taken.len());
    }
    fs::remove_file(other).unwrap();
    if R::FORM.torn == TornEnd::Ended {
        log = Appender::open(files.clone()).unwrap();
    }
    append(&mut log, [2]).unwrap();
    let (found, damaged) = read(&files);
    // Where torn lines are ended, whole ones of the batch that failed are there too, and half a one.
    let kept = R::FORM.torn == TornEnd::CutOff;
    assert!(found.starts_with(&taken) && found.last() == Some(&2), "{}", R::FORM.stem);
    assert!(damaged <= u64::from(!kept) && (!kept || found.len() == taken.len() + 1), "{damaged}");
    assert_eq!(log.look_ahead(), Room::Enough);
}

fn foreign_files<R: Numbered>() {
    let directory = tempfile::tempdir().unwrap();
    let stem = R::FORM.stem;
    let foreign = [format!("{stem}.txt"), format!("{stem}.x.log"), format!("{stem}.01.log"), "a.log".into()];
    foreign.iter().for_each(|name| fs::write(directory.path().join(name), b"mine").unwrap());
    let files = LogFiles::<R>::with_limits(directory.path(), 1, 2);
    append_each(&mut Appender::open(files.clone()).unwrap(), 0..5);
    assert_eq!(read(&files), (vec![3, 4], 0), "{stem}");
    for name in foreign {
        assert_eq!(fs::read(directory.path().join(&name)).unwrap(), b"mine", "{name}");
    }
}

/// Lines that were encoded before are appended as they are.
#[test]
fn lines_may_be_encoded_before() {
    let directory = tempfile::tempdir().unwrap();
    let files = LogFiles::<Access>::new(directory.path());
    let mut text = String::new();
    (1..4).for_each(|number| encode_line(&Access::numbered(number), &mut text));
    Appender::open(files.clone()).unwrap().append_lines(&text).unwrap();
    assert_eq!(read(&files), (vec![1, 2, 3], 0));
}
