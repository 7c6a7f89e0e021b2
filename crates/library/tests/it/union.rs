//! Several libraries as one.

use std::path::Path;
use std::sync::Arc;

use base::{ByteCount, Vid};
use library::{
    DriveName, Library, LibraryError, Place, Union, VirtualCartridgeOptions, VirtualLibrary,
    VirtualLibraryConfig,
};

fn vid(text: &str) -> Vid {
    Vid::new(text).unwrap()
}

fn name(text: &str) -> DriveName {
    DriveName::new(text).unwrap()
}

fn library(directory: &Path, drives: &[&str], vids: &[&str]) -> Arc<dyn Library> {
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
    let union = Union::new(vec![("near".to_owned(), near), ("far".to_owned(), far)]).unwrap();
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

#[test]
fn a_cartridge_or_a_drive_that_is_there_twice_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let near = || library(&directory.path().join("near"), &["vdrive0"], &[]);
    let first = library(&directory.path().join("first"), &["first-vdrive0"], &["KA0001"]);
    let second = library(&directory.path().join("second"), &["vdrive1"], &["KA0001"]);
    let twice = Union::new(vec![("a".to_owned(), near()), ("b".to_owned(), near())]);
    assert!(matches!(twice, Err(LibraryError::DuplicateDrive { .. })));
    let twice = Union::new(vec![("a".to_owned(), first), ("b".to_owned(), second)]);
    assert!(matches!(twice, Err(LibraryError::CartridgeTwice { .. })));
}
