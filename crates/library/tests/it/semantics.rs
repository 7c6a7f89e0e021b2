//! The virtual drive is a tape drive.

use crate::common::{Bench, VID, config, drive_name, vid};
use crate::drive_suite::{self, Encrypting, Rig};
use library::{Library, TapeDrive, VirtualLibrary};

struct Virtual {
    bench: Bench,
    drive: Option<Box<dyn TapeDrive>>,
}

impl Virtual {
    fn new() -> Self {
        let bench = Bench::new();
        let drive = Some(bench.load(VID));
        Virtual { bench, drive }
    }

    fn unload(&mut self) {
        self.drive = None;
        assert_eq!(self.bench.library.unmount(&drive_name("vdrive0")).unwrap(), vid(VID));
    }
}

impl Rig for Virtual {
    fn drive(&mut self) -> &mut dyn TapeDrive {
        self.drive.as_deref_mut().unwrap()
    }

    fn reload(&mut self) {
        self.unload();
        self.drive = Some(self.bench.load(VID));
    }

    fn lose_index_and_reload(&mut self) {
        self.unload();
        for file in ["partition-a.idx", "partition-b.idx"] {
            let _ = std::fs::remove_file(self.bench.cartridge(VID).join(file));
        }
        self.drive = Some(self.bench.load(VID));
    }

    fn crash(&mut self) {
        self.drive = None;
        let directory = std::mem::replace(&mut self.bench.directory, tempfile::tempdir().unwrap());
        let nothing = VirtualLibrary::create(self.bench.directory.path(), &config()).unwrap();
        drop(std::mem::replace(&mut self.bench.library, nothing));
        let library = VirtualLibrary::open(directory.path(), &config()).unwrap();
        self.bench = Bench { directory, library };
        self.drive = Some(self.bench.load(VID));
    }

    fn block_bytes_max(&self) -> usize {
        library::BLOCK_BYTES_MAX
    }
}

#[test]
fn drive_behaves_as_a_tape() {
    drive_suite::behaves_as_a_tape(48, Virtual::new);
    drive_suite::behaves_as_a_tape(24, || Encrypting(Virtual::new()));
}

#[test]
fn drive_passes_the_suite() {
    drive_suite::single_tests(Virtual::new);
    drive_suite::single_tests(|| Encrypting(Virtual::new()));
}
