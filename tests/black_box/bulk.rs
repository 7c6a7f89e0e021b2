//! Calls over very many files, from the command line.

use std::fs;

use crate::harness::Instance;

/// As many paths as one call takes, and one more; the first takes long enough to be answered before it is
/// over, which nobody sees but in how it goes on.
#[test]
fn as_many_paths_as_one_stage_takes_and_one_more() {
    const PATHS: usize = 100_000;
    let instance = Instance::serving();
    let file = instance.beside("file");
    fs::write(&file, "bytes").unwrap();
    instance.kist(&["put", file.to_str().unwrap(), "/f"]).exits(0);
    let list = instance.beside("list");
    let list_of = |count: usize| {
        fs::write(&list, "/f\n".repeat(count)).unwrap();
        list.to_str().unwrap()
    };
    let asked = instance.kist(&["stage", "--from-file", list_of(PATHS), "--json"]).exits(0).json();
    let request = asked["id"].as_u64().unwrap().to_string();
    let shown = instance.kist(&["request", "show", &request, "--json"]).exits(0).json();
    assert_eq!(shown["request"]["files"].as_u64(), Some(1), "repeats are one");
    let refused = instance.kist(&["stage", "--from-file", list_of(PATHS + 1)]).exits(4);
    refused.says(&["100001 paths", "the limit is 100000"]);
    instance.kist(&["release", &request]).exits(0);
    // Only what took more than a second is listed.
    let works = instance.kist(&["work", "ls", "--json"]).exits(0).json();
    let is_it = |work: &serde_json::Value| work["what"] == "stage" && work["state"] == "done";
    assert!(works.as_array().unwrap().iter().all(is_it), "{works}");
    instance.kist(&["work", "show", "99"]).exits(3).says(&["there is no work 99"]);
}
