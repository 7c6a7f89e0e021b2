//! Why things wait and for how long, for people and for programs.

use serde_json::Value;

use crate::harness::{Instance, bytes, write};

/// The names of the tape drives.
fn drives(instance: &Instance) -> Vec<String> {
    let drives = instance.kist(&["drive", "ls", "--json"]).exits(0).json();
    drives.as_array().unwrap().iter().map(|drive| drive["name"].as_str().unwrap().to_owned()).collect()
}

/// An instance with `/f` NEARLINE and every tape drive out of use.
fn without_drives() -> (Instance, Vec<String>) {
    let instance = Instance::serving();
    let file = instance.beside("file");
    write(&file, &bytes(3_000_000, 1));
    instance.kist(&["put", "--quiet", file.to_str().unwrap(), "/f"]).exits(0);
    instance.kist(&["migrate", "--now"]).exits(0);
    instance.kist(&["wait", "--quiet", "--timeout", "60s"]).exits(0);
    instance.kist(&["evict", "/f"]).exits(0);
    let names = drives(&instance);
    for name in &names {
        instance.kist(&["drive", "down", name, "--reason", "for the test"]).exits(0);
    }
    let is_down = |name: &str| {
        let why = instance.kist(&["why", "--json", name]).exits(0).json();
        why["causes"][0]["reason"]["kind"] == "drive-down"
    };
    let begin = std::time::Instant::now();
    while !names.iter().all(|name| is_down(name)) {
        assert!(begin.elapsed().as_secs() < 60, "the drives go out of use");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    (instance, names)
}

/// What a command says once it tells a time: a forecast is kept for a moment, and may be older than what is
/// asked about.
fn foretold(instance: &Instance, command: &[&str], expected: impl Fn(&Value) -> &Value) -> Value {
    let begin = std::time::Instant::now();
    loop {
        let reply = instance.kist(command).exits(0).json();
        if kind(expected(&reply)) != "none" {
            return reply;
        }
        assert!(begin.elapsed().as_secs() < 20, "nothing is foretold: {reply}");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
}

fn kind(reason: &Value) -> &str {
    reason["kind"].as_str().unwrap_or("none")
}

#[test]
fn a_request_that_cannot_end_names_what_is_missing_and_what_comes_last() {
    let (instance, names) = without_drives();
    instance.kist(&["stage", "/f"]).exits(0);
    let shown =
        foretold(&instance, &["request", "show", "1", "--json"], |it| &it["request"]["outlook"]["expected"]);
    let outlook = &shown["request"]["outlook"];
    assert_eq!((&outlook["waiting"], &outlook["looked_at"]), (&1.into(), &1.into()), "{shown}");
    assert_eq!(kind(&outlook["expected"]), "never", "{shown}");
    assert_eq!(kind(&outlook["expected"]["reason"]), "all-drives-down", "{shown}");
    let tail = &outlook["tail"][0];
    assert_eq!((tail["path"].as_str(), tail["size"].as_u64()), (Some("/f"), Some(3_000_000)), "{tail}");
    assert_eq!(kind(&tail["reason"]), "all-drives-down", "{tail}");
    assert_eq!(tail["reason"]["drives"].as_array().unwrap().len(), names.len(), "{tail}");
    assert_eq!(tail["reason"]["needs_an_operator"], true, "{tail}");
    let vid = tail["tapes"][0].as_str().unwrap();

    let people = instance.kist(&["request", "show", "1"]).exits(0).out;
    for words in ["waits for 1 file", "complete not before somebody does something", "last to come", vid] {
        assert!(people.contains(words), "'{words}' is not in:\n{people}");
    }
    let queue = instance.kist(&["queue", "--json"]).exits(0).json();
    let line = queue.as_array().unwrap().iter().find(|line| line["what"] == format!("recall {vid}")).unwrap();
    assert_eq!(kind(&line["cause"]), "all-drives-down", "{queue}");
    assert_eq!(kind(&line["expected"]), "never", "{queue}");
    let people = instance.kist(&["queue"]).exits(0).out;
    assert!(people.contains("longest wait") && people.contains("not before somebody"), "{people}");

    let tape = instance.kist(&["why", "--json", vid]).exits(0).json();
    assert_eq!(tape["subject"], format!("tape {vid}"));
    assert_eq!(kind(&tape["causes"][0]["reason"]), "all-drives-down", "{tape}");
    let drive = instance.kist(&["why", &names[0]]).exits(0).out;
    assert!(drive.contains("is down: for the test"), "{drive}");
    let file = instance.kist(&["why", "--json", "/f"]).exits(0).json();
    assert_eq!(kind(&file["causes"][0]["expected"]), "never", "{file}");
    assert_eq!(file["causes"][0]["text"], file["reasons"][0], "{file}");
    let unknown = instance.kist(&["why", "no-such-thing"]).exits(3);
    unknown.says(&["no tape (VID), tape pool, storage class or drive", "kist class ls", "begins with"]);
    let lower = vid.to_lowercase();
    instance.kist(&["why", &lower]).exits(3).says(&[&format!("there is {vid}")]);
    for name in ["vault", "VAULT-A"] {
        instance.kist(&["why", name]).exits(3).says(&["there is vault-a"]);
    }
    assert!(instance.kist(&["why", "vault-a"]).exits(0).out.contains("nothing waits for tapes of this pool"));
    instance.kist(&["tape", "set", vid, "read-only", "--reason", "a look"]).exits(0);
    let state = instance.kist(&["why", vid]).exits(0).out;
    assert!(state.contains("its state is read-only: a look") && !state.contains("ReadOnly"), "{state}");
    instance.kist(&["tape", "set", vid, "active"]).exits(0);
    instance.kist(&["why", "99"]).exits(3);

    for name in &names {
        instance.kist(&["drive", "up", name]).exits(0);
    }
    instance.kist(&["stage", "--wait", "/f"]).exits(0);
    let shown = instance.kist(&["request", "show", "1", "--json"]).exits(0).json();
    assert_eq!(shown["request"]["outlook"]["waiting"], 0, "{shown}");
}

#[test]
fn a_drive_that_is_to_come_back_gives_a_range() {
    let (instance, names) = without_drives();
    instance.kist(&["stage", "/f"]).exits(0);
    let other = instance.beside("other");
    write(&other, &bytes(100_000, 2));
    instance.kist(&["put", "--quiet", other.to_str().unwrap(), "/young"]).exits(0);
    // A file that is gathered by its age needs no drive for that.
    let why = foretold(&instance, &["why", "--json", "/young"], |why| &why["causes"][0]["expected"]);
    let cause = &why["causes"][0];
    assert_eq!(kind(&cause["reason"]), "waiting-for-bytes", "{why}");
    assert_eq!(kind(&cause["expected"]), "within", "{why}");
    let [earliest, likely, latest] =
        ["earliest", "likely", "latest"].map(|at| cause["expected"][at].as_str().unwrap().to_owned());
    assert!(earliest <= likely && likely <= latest, "{why}");
    let people = instance.kist(&["why", "/young"]).exits(0).out;
    // One form of times: the reason's.
    for time in [&earliest, &likely, &latest] {
        assert!(time.len() == "2026-11-21T20:29:00Z".len(), "{why}");
    }
    let words: Vec<&str> = people.split_whitespace().collect();
    let at =
        words.windows(2).position(|pair| pair == ["done", "between"]).unwrap_or_else(|| panic!("{people}"));
    for time in [words[at + 2], words[at + 4].trim_end_matches(','), words[at + 6]] {
        assert!(time.len() == earliest.len() && time.ends_with('Z'), "{people}");
    }
    instance.kist(&["drive", "up", &names[0]]).exits(0);
    instance.kist(&["stage", "--wait", "/f"]).exits(0);
}
