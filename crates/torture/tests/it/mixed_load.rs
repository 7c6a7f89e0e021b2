//! A share of the mixed load: bounded by operations, not by the clock.

use std::time::Duration;

use torture::server::released;
use torture::soak::{Length, Settings, run};

#[test]
fn kills_and_lost_drives_under_mixed_load_lose_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings {
        kist: released().unwrap(),
        dir: directory.path().join("soak"),
        pool_dir: None,
        length: Length::Operations(4000),
        clients: 48,
        slots: 6,
        seed: 1,
        kills: 4,
        losses: 3,
        // In this form bytes an operation.
        put_rate: 12_000,
        think: Duration::from_millis(10),
        large: 6 << 20,
        cartridge: "1GB".to_owned(),
        cartridges: 8,
        verbose: false,
    };
    let report = run(settings).unwrap();
    println!("{report}");
    assert_eq!(report.violations(), 0, "{report}");
    let [kills, losses, emptied] = report.faults();
    assert!(kills >= 4 && losses >= 1 && emptied >= 1, "{report}");
    let kinds =
        ["put", "get", "delete", "rename", "list", "stage", "evict", "tape verify", "evicted at the end"];
    for kind in kinds.into_iter().chain(["read back", "live files on tape"]) {
        assert!(report.done(kind) > 0, "no {kind} was done: {report}");
    }
}
