//! By what the models of drives were fitted to what their locates took: a small file, written anew as a
//! whole, a line for each drive and medium. `docs/format/drive-fits.md` says it to the byte.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use base::{Crc32c, Timestamp};
use mechanics::{DriveFit, LocateFit};

use crate::line::{self, Fields, LineFault, TextForm, parts};

/// The file's name.
pub const DRIVE_FITS_FILE: &str = "drive-fits";
/// Drives and media in it; beyond, what was learned longest ago is left out.
pub const DRIVE_FITS_MAX: usize = 1_000;
/// More is not read.
const BYTES_MAX: u64 = 1 << 20;
/// Names of drives and media; longer ones are not told by any drive.
const NAMES: TextForm = TextForm { escapes_comma: true, bytes_max: 256 };
/// Factors and errors are written in millionths.
const MILLION: f64 = 1e6;

/// What a drive's locates say of it, with media of one kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveFitRecord {
    /// The drive's serial number.
    pub serial: String,
    /// Its model.
    pub drive: String,
    /// The model of the medium.
    pub medium: String,
    /// When the newest locate was made.
    pub at: Timestamp,
    /// Locates of which it was made.
    pub samples: u64,
    /// The factor on the part of a locate that does not depend on the way, in millionths.
    pub fixed_millionths: u32,
    /// The factor on the part that does, in millionths.
    pub way_millionths: u32,
    /// By which part of what it takes the model is off, the median of the locates, in millionths.
    pub error_millionths: u32,
}

impl DriveFitRecord {
    /// A fit as it is written down.
    #[must_use]
    pub fn new(serial: &str, drive: &str, medium: &str, at: Timestamp, fit: &DriveFit) -> Self {
        // Saturates; what is no number is 0, which no reader takes.
        let millionths = |value: f64| (value * MILLION).round() as u32;
        DriveFitRecord {
            serial: serial.to_owned(),
            drive: drive.to_owned(),
            medium: medium.to_owned(),
            at,
            samples: fit.locate.samples as u64,
            fixed_millionths: millionths(fit.locate.fixed),
            way_millionths: millionths(fit.locate.way),
            error_millionths: millionths(fit.error),
        }
    }

    /// The fit.
    #[must_use]
    pub fn fit(&self) -> DriveFit {
        let value = |millionths: u32| f64::from(millionths) / MILLION;
        let locate = LocateFit {
            fixed: value(self.fixed_millionths),
            way: value(self.way_millionths),
            samples: usize::try_from(self.samples).unwrap_or(usize::MAX),
        };
        DriveFit { locate, error: value(self.error_millionths) }
    }

    fn encode(&self, out: &mut String) {
        line::seal(Crc32c(0), out, |body| {
            let mut fields = Fields { out: body, texts: NAMES };
            fields.text("serial", &self.serial);
            fields.text("drive", &self.drive);
            fields.text("medium", &self.medium);
            fields.number("at", self.at.0);
            let DriveFitRecord { samples, fixed_millionths, way_millionths, error_millionths, .. } = self;
            let factors = format_args!("{samples},{fixed_millionths},{way_millionths},{error_millionths}");
            fields.number("fit", factors);
        });
    }

    fn decode(line: &[u8]) -> Result<Self, LineFault> {
        read(line::open(line)?).filter(DriveFitRecord::is_believable).ok_or(LineFault::Damaged)
    }

    /// Whether a fit can have made it.
    fn is_believable(&self) -> bool {
        let DriveFit { locate, error } = self.fit();
        let factors = LocateFit::FACTOR_MIN..=LocateFit::FACTOR_MAX;
        !self.serial.is_empty()
            && factors.contains(&locate.fixed)
            && factors.contains(&locate.way)
            && error <= DriveFit::ERROR_MAX
            && locate.samples >= LocateFit::SAMPLES_MIN
    }
}

fn read(text: &str) -> Option<DriveFitRecord> {
    let (mut serial, mut drive, mut medium, mut at, mut fit) = (None, None, None, None, None);
    for field in line::fields(text) {
        let (name, value) = field?;
        match name {
            "serial" => serial = Some(NAMES.read(value)?),
            "drive" => drive = Some(NAMES.read(value)?),
            "medium" => medium = Some(NAMES.read(value)?),
            "at" => at = Some(Timestamp(value.parse().ok()?)),
            "fit" => fit = Some(parts::<4>(value)?),
            // A later Kist of the same version may say more.
            _ => {}
        }
    }
    let [samples, fixed, way, error] = fit?;
    Some(DriveFitRecord {
        serial: serial?,
        drive: drive?,
        medium: medium?,
        at: at?,
        samples: samples.parse().ok()?,
        fixed_millionths: fixed.parse().ok()?,
        way_millionths: way.parse().ok()?,
        error_millionths: error.parse().ok()?,
    })
}

/// What is in the file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DriveFits {
    /// The records, in their order.
    pub records: Vec<DriveFitRecord>,
    /// Lines that are damaged, or say what no fit can have made.
    pub damaged: u64,
    /// Lines of a newer Kist.
    pub newer: u64,
}

/// The file in the directory of the logs. Statistics, as the mount log: it may be removed at any time, it is
/// never synced, and a line that is damaged costs no more than itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DriveFitFile {
    path: PathBuf,
}

impl DriveFitFile {
    /// The file in this directory.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        DriveFitFile { path: directory.join(DRIVE_FITS_FILE) }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it; nothing if it is not there.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn read(&self) -> io::Result<DriveFits> {
        let mut bytes = Vec::new();
        match File::open(&self.path) {
            Ok(file) => file.take(BYTES_MAX).read_to_end(&mut bytes)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(DriveFits::default()),
            Err(error) => return Err(error),
        };
        let mut fits = DriveFits::default();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match DriveFitRecord::decode(line) {
                Ok(_) if fits.records.len() == DRIVE_FITS_MAX => fits.damaged += 1,
                Ok(record) => fits.records.push(record),
                Err(LineFault::Damaged) => fits.damaged += 1,
                Err(LineFault::Newer) => fits.newer += 1,
            }
        }
        Ok(fits)
    }

    /// Puts these in the place of what is in it. A crash leaves the one or the other.
    ///
    /// # Errors
    /// If it cannot be written: what was in it stands.
    pub fn write<'a>(&self, records: impl IntoIterator<Item = &'a DriveFitRecord>) -> io::Result<()> {
        let mut records: Vec<&DriveFitRecord> = records.into_iter().collect();
        records.sort_by_key(|record| std::cmp::Reverse(record.at));
        records.truncate(DRIVE_FITS_MAX);
        let mut text = String::new();
        records.iter().for_each(|record| record.encode(&mut text));
        if let Some(directory) = self.path.parent() {
            fs::create_dir_all(directory)?;
        }
        let new = self.path.with_extension("new");
        let written = File::create(&new).and_then(|mut file| file.write_all(text.as_bytes()));
        let moved = written.and_then(|()| fs::rename(&new, &self.path));
        if moved.is_err() {
            // It is in nobody's way, and is written over the next time.
            let _ = fs::remove_file(&new);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(serial: &str, at: i64) -> DriveFitRecord {
        let locate = LocateFit { fixed: 1.6, way: 0.7, samples: 120 };
        let fit = DriveFit { locate, error: 0.034_5 };
        DriveFitRecord::new(serial, "LTO-9", "LTO-9", Timestamp(at), &fit)
    }

    /// Bytes that a released Kist has written stay readable: this file never changes.
    #[test]
    fn the_golden_line_is_written_and_read() {
        let golden = include_str!("golden/drive-fits-1");
        let mut line = String::new();
        record("10WT0,41%", 1_795_292_940_000_000_000).encode(&mut line);
        assert_eq!(line, golden);
        let read = DriveFitRecord::decode(golden.trim_end().as_bytes()).unwrap();
        assert_eq!(read, record("10WT0,41%", 1_795_292_940_000_000_000));
        assert!((read.fit().error - 0.034_5).abs() < 1e-9);
    }

    #[test]
    fn what_is_damaged_or_newer_costs_no_more_than_itself() {
        let directory = tempfile::tempdir().unwrap();
        let file = DriveFitFile::new(&directory.path().join("log"));
        assert_eq!(file.read().unwrap(), DriveFits::default(), "there is none");
        file.write(&[record("a", 1), record("b", 2)]).unwrap();
        let whole = fs::read_to_string(file.path()).unwrap();
        assert_eq!(file.read().unwrap().records, [record("b", 2), record("a", 1)]);
        let framed = |body: &str| format!("{} {body}\n", Crc32c::of(body.as_bytes()));
        let body = "1 serial=c drive=LTO-9 medium=LTO-9 at=1";
        let unbelievable =
            ["8,200000,1000000,1", "8,1000000,3000001,1", "8,1000000,1000000,500001", "7,1000000,1000000,1"];
        let mut text = framed("2 whatever") + "no line\n";
        for fit in unbelievable {
            text += &framed(&format!("{body} fit={fit}"));
        }
        text += &framed("1 serial= drive=LTO-9 medium=LTO-9 at=1 fit=8,1000000,1000000,1");
        text += &framed(&format!("{body} new=1 fit=8,1000000,1000000,1"));
        // The last line is torn.
        fs::write(file.path(), text + &whole + &whole[..20]).unwrap();
        let read = file.read().unwrap();
        assert_eq!((read.records.len(), read.damaged, read.newer), (3, 7, 1));
        fs::write(file.path(), vec![0xff; 3_000_000]).unwrap();
        assert_eq!(file.read().unwrap(), DriveFits { damaged: 1, ..DriveFits::default() });
    }

    #[test]
    fn what_was_learned_longest_ago_is_left_out() {
        let directory = tempfile::tempdir().unwrap();
        let file = DriveFitFile::new(directory.path());
        let many: Vec<_> = (0..=DRIVE_FITS_MAX as i64).map(|at| record(&format!("s{at}"), at)).collect();
        file.write(&many).unwrap();
        let read = file.read().unwrap();
        assert_eq!((read.records.len(), read.damaged), (DRIVE_FITS_MAX, 0));
        assert!(read.records.iter().all(|record| record.at.0 > 0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = DriveFitRecord::decode(&bytes);
        }

        #[test]
        fn any_text_comes_back(serial in "\\PC{1,20}") {
            let mut line = String::new();
            record(&serial, 7).encode(&mut line);
            let read = DriveFitRecord::decode(line.trim_end_matches('\n').as_bytes());
            prop_assert_eq!(read, Ok(record(&serial, 7)));
        }
    }
}
