//! Several libraries as one.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{ByteCount, Vid};
use library::{
    CartridgeInfo, DriveName, Library, LibraryError, Place, TapeDrive, Union, VirtualCartridgeOptions,
    VirtualLibrary, VirtualLibraryConfig,
};

fn vid(text: &str) -> Vid {
    Vid::new(text).unwrap()
}

fn name(text: &str) -> DriveName {
    DriveName::new(text).unwrap()
}

fn library(directory: &Path, drives: &[&str], vids: &[&str]) -> Arc<VirtualLibrary> {
    let config = VirtualLibraryConfig {
        drives: drives.iter().map(|drive| name(drive)).collect(),
        robots: 1,
        cartridges: vids.iter().map(|text| (vid(text), ByteCount::mib(64))).collect(),
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    Arc::new(VirtualLibrary::create(directory, &config).unwrap())
}

#[test]
fn each_cartridge_goes_into_drives_of_its_own_library() {
    let directory = tempfile::tempdir().unwrap();
    let near = library(&directory.path().join("near"), &["vdrive0", "vdrive1"], &["KA0001", "KC0001"]);
    let far = library(&directory.path().join("far"), &["far-vdrive0"], &["KB0001"]);
    let union =
        Union::new(vec![("near".to_owned(), near as Arc<dyn Library>), ("far".to_owned(), far)]).unwrap();
    assert_eq!(union.names(), ["near", "far"]);
    assert_eq!(union.drives(), [name("vdrive0"), name("vdrive1"), name("far-vdrive0")]);
    assert_eq!([0, 2].map(|at: usize| union.library_of(&union.drives()[at])), [0, 1]);
    let where_they_are: Vec<_> =
        union.inventory().unwrap().into_iter().map(|cartridge| (cartridge.vid, cartridge.library)).collect();
    assert_eq!(where_they_are, [(vid("KA0001"), 0), (vid("KB0001"), 1), (vid("KC0001"), 0)]);

    let error = union.mount(vid("KB0001"), &name("vdrive0")).unwrap_err();
    assert!(matches!(error, LibraryError::OtherLibrary { .. }), "{error}");
    assert!(error.to_string().contains("far") && error.to_string().contains("near"), "{error}");
    assert!(matches!(
        union.mount(vid("KX0001"), &name("vdrive0")),
        Err(LibraryError::UnknownCartridge { .. })
    ));
    assert!(matches!(union.mount(vid("KA0001"), &name("x")), Err(LibraryError::UnknownDrive { .. })));

    union.mount(vid("KB0001"), &name("far-vdrive0")).unwrap();
    let held =
        union.inventory().unwrap().into_iter().find(|cartridge| cartridge.vid == vid("KB0001")).unwrap();
    assert_eq!((held.place, held.library), (Place::Drive(name("far-vdrive0")), 1));
    assert_eq!(union.unmount(&name("far-vdrive0")).unwrap(), vid("KB0001"));
    union.take_drive(&name("far-vdrive0")).unwrap();
}

/// A library that cannot be asked while it is away.
struct Distant {
    library: Arc<VirtualLibrary>,
    is_away: AtomicBool,
}

impl Distant {
    fn asked(&self) -> Result<&dyn Library, LibraryError> {
        match self.is_away.load(Ordering::Relaxed) {
            true => Err(LibraryError::NotReached { why: "its cable is cut".to_owned() }),
            false => Ok(&*self.library),
        }
    }
}

impl Library for Distant {
    fn inventory(&self) -> Result<Vec<CartridgeInfo>, LibraryError> {
        self.asked()?.inventory()
    }

    fn changes(&self) -> Result<u64, LibraryError> {
        self.asked()?.changes()
    }

    fn without_vid(&self) -> Vec<String> {
        self.library.without_vid()
    }

    fn out_of_reach(&self) -> Vec<String> {
        Vec::new()
    }

    fn drives(&self) -> Vec<DriveName> {
        self.library.drives()
    }

    fn library_of(&self, drive: &DriveName) -> u16 {
        self.library.library_of(drive)
    }

    fn take_drive(&self, name: &DriveName) -> Result<Box<dyn TapeDrive>, LibraryError> {
        self.asked()?.take_drive(name)
    }

    fn mount(&self, vid: Vid, drive: &DriveName) -> Result<(), LibraryError> {
        self.asked()?.mount(vid, drive)
    }

    fn unmount(&self, drive: &DriveName) -> Result<Vid, LibraryError> {
        self.asked()?.unmount(drive)
    }
}

/// One library that is away made the inventory of all fail: what came into the others was not seen, and
/// nothing was imported or exported there.
#[test]
fn one_library_that_is_away_leaves_the_others_their_inventory() {
    let directory = tempfile::tempdir().unwrap();
    let distant = |name: &str, drive: &str, vids: &[&str]| {
        let library = library(&directory.path().join(name), &[drive], vids);
        Arc::new(Distant { library, is_away: AtomicBool::new(false) })
    };
    let near = distant("near", "vdrive0", &["KA0001"]);
    let far = distant("far", "far-vdrive0", &["KB0001", "KC0001"]);
    let late = distant("late", "late-vdrive0", &["KD0001"]);
    late.is_away.store(true, Ordering::Relaxed);
    let members: [(&str, &Arc<Distant>); 3] = [("near", &near), ("far", &far), ("late", &late)];
    let members = members.map(|(name, one)| (name.to_owned(), Arc::clone(one) as Arc<dyn Library>));
    let union = Union::new(members.into()).unwrap();
    let held = |union: &Union| -> Vec<(Vid, u16)> {
        let all = union.inventory_in_reach().unwrap();
        all.into_iter().map(|cartridge| (cartridge.vid, cartridge.library)).collect()
    };
    let first = [(vid("KA0001"), 0), (vid("KB0001"), 1), (vid("KC0001"), 1)];
    assert_eq!(held(&union), first, "one that was never asked holds nothing that is known");
    assert_eq!(union.out_of_reach(), ["library late: the library is not reached: its cable is cut"]);
    let before = union.changes().unwrap();

    // It comes: a change, though it counts none itself.
    late.is_away.store(false, Ordering::Relaxed);
    assert_ne!(union.changes().unwrap(), before);
    assert_eq!(held(&union).len(), 4);
    assert!(union.out_of_reach().is_empty());
    let before = union.changes().unwrap();

    // Another goes: it is taken to hold what it held, and is named.
    far.is_away.store(true, Ordering::Relaxed);
    assert_eq!(union.changes().unwrap(), before, "nothing changed that is known");
    assert_eq!(held(&union).len(), 4);
    assert_eq!(union.out_of_reach(), ["library far: the library is not reached: its cable is cut"]);
    let strict = union.inventory();
    assert!(matches!(strict, Err(LibraryError::NotReached { .. })), "who needs all of them hears of it");
    let mount = union.mount(vid("KB0001"), &name("far-vdrive0"));
    assert!(matches!(mount, Err(LibraryError::NotReached { .. })));
    union.mount(vid("KA0001"), &name("vdrive0")).unwrap();

    // What is seen elsewhere meanwhile was carried there.
    let options = VirtualCartridgeOptions::default();
    near.library.add_cartridge(vid("KC0001"), ByteCount::mib(64), &options).unwrap();
    assert_ne!(union.changes().unwrap(), before);
    let carried = [(vid("KA0001"), 0), (vid("KB0001"), 1), (vid("KC0001"), 0), (vid("KD0001"), 2)];
    assert_eq!(held(&union), carried);

    // All away is an error as it is of one.
    for one in [&near, &late] {
        one.is_away.store(true, Ordering::Relaxed);
    }
    assert!(union.changes().is_err() && union.inventory_in_reach().is_err());
}

#[test]
fn a_cartridge_or_a_drive_that_is_there_twice_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let near = || library(&directory.path().join("near"), &["vdrive0"], &[]);
    let first = library(&directory.path().join("first"), &["first-vdrive0"], &["KA0001"]);
    let second = library(&directory.path().join("second"), &["vdrive1"], &["KA0001"]);
    let twice = Union::new(vec![("a".to_owned(), near() as Arc<dyn Library>), ("b".to_owned(), near())]);
    assert!(matches!(twice, Err(LibraryError::DuplicateDrive { .. })));
    let twice = Union::new(vec![("a".to_owned(), first as Arc<dyn Library>), ("b".to_owned(), second)]);
    assert!(matches!(twice, Err(LibraryError::CartridgeTwice { .. })));
}
