//! Openness: a cartridge is read by a program that shares no code with Kist (Python's standard library and
//! GNU tar), and every file comes out as it went in.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::common::{Instance, bytes, migrate_all, path, put, put_with};
use archive::PutOptions;
use base::ByteCount;

pub fn read_cartridge(cartridge: &Path, out: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/openness/read_cartridge.py");
    let output = Command::new("python3")
        .arg(script)
        .arg(cartridge)
        .arg(out)
        .arg("--verify")
        .output()
        .expect("python3 runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn a_cartridge_is_read_without_kist() {
    let instance = Instance::new(ByteCount::mib(256));
    let archive = instance.open();
    let mut files = BTreeMap::new();
    for n in 0..40u64 {
        files.insert(format!("/tree/sub{}/file {n}", n % 3), bytes(n + 1, (n as usize * 1_733) % 30_000));
    }
    files.insert("/tree/größe/ünïcode-ä.txt".to_owned(), bytes(77, 5_000));
    files.insert(format!("/tree/{}", "long".repeat(60)), bytes(78, 700));
    files.insert("/tree/large.bin".to_owned(), bytes(79, 6_000_000));
    // Outside of a pack, so that the names stand in the index: each is refused by some LTFS program.
    for (strange, n) in ["\u{fffe}", "\u{ffff}", "\u{feff}", "\u{1f}", "%EF%BF%BE", ":"].into_iter().zip(90..)
    {
        files.insert(format!("/tree/d{strange}/large{strange}.bin"), bytes(n, 2_200_000));
    }
    for (name, content) in &files {
        put(&archive, name, content);
    }
    let link = PutOptions { link_target: Some("../large.bin".to_owned()), ..PutOptions::default() };
    put_with(&archive, "/tree/sub1/link", &[], link).unwrap();
    migrate_all(&archive);
    // A second session, so that the index has a history to point back to, and a newer version of a file.
    files.insert("/tree/large.bin".to_owned(), bytes(80, 5_000_000));
    put(&archive, "/tree/large.bin", &bytes(80, 5_000_000));
    migrate_all(&archive);
    let used: Vec<_> = archive.tapes().unwrap().into_iter().filter(|tape| tape.containers > 0).collect();
    archive.remove(&path("/tree/sub0/file 0")).unwrap();
    archive.close();
    assert_eq!(used.len(), 2, "one tape for each pool");
    for tape in used {
        let out = tempfile::tempdir().unwrap();
        let target = out.path().join("tree");
        let summary = read_cartridge(&instance.cartridge(tape.vid), &target);
        for (name, content) in &files {
            let found = std::fs::read(target.join(name.trim_start_matches('/')));
            assert!(found.is_ok_and(|found| &found == content), "{name} on {}\n{summary}", tape.vid);
        }
        let link = std::fs::read_link(target.join("tree/sub1/link")).unwrap();
        assert_eq!(link.to_str(), Some("../large.bin"));
        assert!(summary.contains("\"errors\": []") && !summary.contains("may refuse"), "{summary}");
    }
}
