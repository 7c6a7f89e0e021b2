//! By what the models of drives were fitted to what their locates took, over stops of the server.
//!
//! A drive that was just opened knows nothing of its locates, and a fit needs some. So what each drive told
//! is kept by its serial number and the medium, and stands until the drive knows as much again. It decides
//! nothing but which of two orders is read, and how long things are foretold to take: a file that cannot be
//! read or written is told, and all goes on by the models.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use base::Timestamp;
use journal::{DriveFitFile, DriveFitRecord};
use library::TapeDrive;
use mechanics::{FittedDrive, Track};
use threads::{Mutex, MutexGuard};

use crate::room::Tape;
use ground::ArchiveError;

/// A fit of so many locates stands in the place of any older one: drives wear, and are repaired.
const SAMPLES_ENOUGH: u64 = 64;

/// What is known of drives: their serial number and the medium's model.
type Key = (String, String);

/// The fits of all drives.
pub(crate) struct KnownFits {
    /// `None`: they are kept as long as the server runs.
    file: Option<DriveFitFile>,
    known: Mutex<BTreeMap<Key, DriveFitRecord>>,
}

impl KnownFits {
    /// What is in the file, which is told if it cannot be read.
    pub(crate) fn open(file: Option<DriveFitFile>) -> Self {
        let mut known = BTreeMap::new();
        if let Some(file) = &file {
            let path = file.path().display();
            match file.read() {
                Ok(fits) => {
                    if fits.damaged + fits.newer > 0 {
                        let (damaged, newer) = (fits.damaged, fits.newer);
                        tracing::warn!(%path, damaged, newer, "lines about drives' locates are passed over");
                    }
                    for record in fits.records {
                        known.insert((record.serial.clone(), record.medium.clone()), record);
                    }
                }
                Err(error) => {
                    tracing::warn!(%path, %error, "what was known of drives' locates cannot be read");
                }
            }
        }
        KnownFits { file, known: Mutex::new(known) }
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Key, DriveFitRecord>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Vec<DriveFitRecord> {
        self.known().values().cloned().collect()
    }

    /// A track as the drive tells it, by the kept fit if that knows more.
    pub(crate) fn adjust(&self, track: Track) -> Track {
        let known = track.fitted.as_ref().and_then(|fitted| self.of(fitted));
        match known {
            Some(kept) if !is_as_good(&track, &kept) => track.refitted(kept.fit()),
            _ => track,
        }
    }

    /// Keeps what the drive's locates say now, if that is as good as what is kept.
    pub(crate) fn learn(&self, track: &Track, now: Timestamp) {
        let Some(fitted) = track.fitted.as_ref().filter(|fitted| !fitted.serial.is_empty()) else { return };
        let Some(fit) = &fitted.fit else { return };
        if self.of(fitted).is_some_and(|kept| !is_as_good(track, &kept)) {
            return;
        }
        let FittedDrive { serial, drive, medium, .. } = fitted;
        let record = DriveFitRecord::new(serial, &drive.name, &medium.name, now, fit);
        // Written under the lock: of two drives neither writes what the other has not.
        let mut known = self.known();
        known.insert((serial.clone(), medium.name.clone()), record);
        let Some(file) = &self.file else { return };
        if let Err(error) = file.write(known.values()) {
            let path = file.path().display();
            tracing::warn!(%path, %error, "what the drive's locates took is not kept over a stop");
        }
    }

    /// What is kept of a drive and medium, by the model that the drive has now.
    fn of(&self, fitted: &FittedDrive) -> Option<DriveFitRecord> {
        let kept = self.known().get(&(fitted.serial.clone(), fitted.medium.name.clone())).cloned();
        kept.filter(|kept| kept.drive == fitted.drive.name)
    }
}

/// Whether the drive itself knows enough of its locates by now.
fn is_as_good(track: &Track, kept: &DriveFitRecord) -> bool {
    let fit = track.fitted.as_ref().and_then(|fitted| fitted.fit);
    fit.is_some_and(|fit| fit.locate.samples as u64 >= kept.samples.min(SAMPLES_ENOUGH))
}

impl Tape {
    /// By what the model was fitted to a drive: a record for each kind of media. The drive is known by what
    /// it said of itself in its last mounts.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchDrive`].
    pub fn drive_fits(&self, drive: &str) -> Result<Vec<DriveFitRecord>, ArchiveError> {
        let mounts = self.drive_mounts(drive)?;
        let product = mounts.iter().find_map(|mount| mount.product.as_ref());
        let is_its = |record: &DriveFitRecord| product.is_some_and(|it| it.serial == record.serial);
        Ok(self.fits.all().into_iter().filter(is_its).collect())
    }

    /// What the ways on the tape in a drive cost, as far as is known.
    pub(crate) fn track(&self, drive: &mut dyn TapeDrive, block_size: u32) -> Track {
        self.fits.adjust(crate::tracks::track(drive, block_size))
    }

    /// Keeps what the locates of a session said of its drive.
    pub(crate) fn learn_locates(&self, drive: &mut dyn TapeDrive, block_size: u32) {
        // A drive that does not tell says so when it is asked for the next session.
        if let Ok(Some(track)) = drive.track(block_size) {
            self.fits.learn(&track, self.now());
        }
    }
}

#[cfg(test)]
mod tests {
    use mechanics::{DriveFit, LocateFit};

    use super::*;

    fn track(serial: &str, fit: Option<(f64, usize)>) -> Track {
        let (drive, medium) = (mechanics::drive("LTO-9").unwrap(), mechanics::medium("LTO-9").unwrap());
        let fitted = FittedDrive { serial: serial.to_owned(), drive, medium, fit: None };
        let track = Track { fitted: Some(fitted), ..medium.track(drive, 1 << 18, None) };
        let fit = fit.map(|(factor, samples)| {
            let locate = LocateFit { fixed: factor, way: factor, samples };
            DriveFit { locate, error: 0.05 }
        });
        fit.into_iter().fold(track, Track::refitted)
    }

    fn factor(track: &Track) -> f64 {
        (track.locate.base_us / self::track("", None).locate.base_us * 1e6).round() / 1e6
    }

    #[test]
    fn what_a_drive_told_outlives_a_stop() {
        let directory = tempfile::tempdir().unwrap();
        let open = || KnownFits::open(Some(DriveFitFile::new(directory.path())));
        let fits = open();
        let track = track("S1", Some((1.5, 100)));
        assert_eq!(fits.adjust(track.clone()), track, "nothing is known yet");
        fits.learn(&track, Timestamp(1));
        fits.learn(&self::track("S2", None), Timestamp(1));
        fits.learn(&self::track("", Some((2.0, 100))), Timestamp(1));

        let fits = open();
        assert_eq!(fits.all().len(), 1, "of drives without a fit or a number nothing is kept");
        let adjusted = fits.adjust(self::track("S1", None));
        assert_eq!((factor(&adjusted), adjusted.error), (1.5, Some(0.05)));
        for other in ["S2", ""] {
            assert_eq!(fits.adjust(self::track(other, None)), self::track(other, None), "another drive");
        }
    }

    #[test]
    fn a_fit_stands_until_the_drive_knows_as_much() {
        let fits = KnownFits::open(None);
        let now = |samples, factor| track("S1", Some((factor, samples)));
        fits.learn(&now(30, 1.5), Timestamp(1));
        // Fewer locates say less.
        fits.learn(&now(10, 2.0), Timestamp(2));
        assert_eq!(factor(&fits.adjust(now(10, 2.0))), 1.5);
        fits.learn(&now(30, 1.2), Timestamp(3));
        assert_eq!((factor(&fits.adjust(now(8, 2.0))), fits.all()[0].at), (1.2, Timestamp(3)));
        // With enough of them the newer ones say more, however many the older ones were.
        fits.learn(&now(500, 1.2), Timestamp(4));
        fits.learn(&now(63, 2.0), Timestamp(5));
        assert_eq!(factor(&fits.adjust(now(63, 2.0))), 1.2);
        fits.learn(&now(64, 2.0), Timestamp(6));
        assert_eq!((factor(&fits.adjust(track("S1", None))), fits.all()[0].samples), (2.0, 64));
    }

    #[test]
    fn a_file_of_garbage_is_as_none() {
        let directory = tempfile::tempdir().unwrap();
        let file = DriveFitFile::new(directory.path());
        std::fs::write(file.path(), vec![b'x'; 5_000]).unwrap();
        let fits = KnownFits::open(Some(file.clone()));
        assert!(fits.all().is_empty());
        fits.learn(&track("S1", Some((1.5, 100))), Timestamp(1));
        assert_eq!(file.read().unwrap().damaged, 0, "it is written anew");
        // A directory in its place is told, and nothing else.
        let blocked = DriveFitFile::new(&directory.path().join("other"));
        std::fs::create_dir_all(blocked.path().join("in it")).unwrap();
        let fits = KnownFits::open(Some(blocked));
        fits.learn(&track("S1", Some((1.5, 100))), Timestamp(1));
        assert_eq!(fits.all().len(), 1, "as long as the server runs");
    }
}
