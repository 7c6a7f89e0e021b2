//! A rebuild from cartridges that hold nothing of Kist. Those that hold something take an engine to write
//! them: `crates/archive/tests/it/rebuild.rs`.

use std::fs;

use backup::{PoolSeen, RebuildError, rebuild};
use base::{ByteCount, Timestamp, Vid};
use library::{DriveName, VirtualCartridgeOptions, VirtualLibrary, VirtualLibraryConfig};

use crate::server::MAP;

#[test]
fn without_the_beginning_nothing_is_made_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let config = VirtualLibraryConfig {
        drives: vec![DriveName::new("vdrive0").unwrap(), DriveName::new("vdrive1").unwrap()],
        robots: 1,
        cartridges: (1..=3).map(|n| (Vid::new(&format!("KT000{n}")).unwrap(), ByteCount::mib(64))).collect(),
        options: VirtualCartridgeOptions::default(),
        drop_cache: false,
    };
    VirtualLibrary::create(&path("library"), &config).unwrap();
    let library = || VirtualLibrary::open(&path("library"), &config).unwrap();
    let into = |name: &str| {
        let (pool, now) = (PoolSeen::default(), Timestamp(1));
        rebuild(
            (&library(), &library::TapeKeys::default()),
            pool,
            &path(name),
            &path("spool"),
            MAP,
            now,
            &mut |_| {},
        )
    };
    let nothing = into("catalogue");
    assert!(matches!(nothing, Err(RebuildError::NoBeginning { tapes: 0, .. })), "{nothing:?}");
    // What is there is not written over.
    fs::create_dir(path("other")).unwrap();
    fs::write(path("other/file"), b"somebody's").unwrap();
    let occupied = into("other");
    assert!(matches!(&occupied, Err(RebuildError::NotEmpty(at)) if *at == path("other")), "{occupied:?}");
    assert_eq!(fs::read(path("other/file")).unwrap(), b"somebody's");
}
