//! The reference and the parser agree: what the page shows is read, and what is read is on the page.

use std::collections::{BTreeMap, BTreeSet};

use scenario::model::FaultKind;
use scenario::{self, Seen, parse};

const PAGE: &str = include_str!("../../../../docs/reference/twin.md");

/// What a fragment of the page needs in order to be read by itself.
const AROUND: &str = r#"
run.span = "30d"
pool.capacity = "1PB"
library.main.drives = { model = "LTO-8", count = 10 }
tape_pool.a.drives_max = 2
class.data.sizes = "1GB"
class.data.copies = ["a"]
holding.old.class = "data"
holding.old.files = "1M"
fault.drives = { kind = "drive-loss", every = "30d" }
"#;

/// The TOML blocks of a kind.
fn blocks(kind: &str) -> Vec<String> {
    let begin = format!("```toml{kind}\n");
    PAGE.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// Reads a scenario over a site, and says what its tables may hold and held.
fn read(text: &str, site: &str) -> Vec<Seen> {
    let found = parse("page", text, &|_| Ok(site.to_owned()));
    found.unwrap_or_else(|error| panic!("{error}\n{text}")).seen
}

fn all_seen() -> Vec<Seen> {
    // All plain blocks together are one scenario.
    let whole = blocks("").join("\n");
    assert!(whole.contains("[run]") && whole.contains("[fault.drives]"));
    let mut seen = read(&whole, "");
    for fragment in blocks(" fragment") {
        let copies = fragment.replace("\nsizes =", "\ncopies = [\"a\"]\nsizes =");
        seen.extend(read(&format!("title = 'x'\nsite = './s.toml'\n{copies}"), &around()));
    }
    for site in blocks(" site") {
        let text =
            "title = 'x'\nsite = './s.toml'\n".to_owned() + &AROUND.replace("pool.capacity = \"1PB\"", "");
        seen.extend(read(&text, &site));
    }
    seen
}

fn around() -> String {
    AROUND.replace("LTO-8", "T10000C")
}

#[test]
fn every_block_is_read_and_every_key_is_on_the_page() {
    let seen = all_seen();
    let mut known: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for table in &seen {
        known.entry(table.form).or_default().extend(table.known);
    }
    for table in &seen {
        if let Some(missing) = known.get_mut(table.form) {
            table.given.iter().for_each(|key| {
                missing.remove(key.as_str());
            });
        }
    }
    // These are read before the tables are.
    if let Some(top) = known.get_mut("Scenario") {
        for key in ["site", "variant", "provenance"] {
            assert!(top.remove(key), "{key}");
        }
    }
    let missing: Vec<_> = known.iter().filter(|(_, keys)| !keys.is_empty()).collect();
    assert!(missing.is_empty(), "not on the page: {missing:?}");
    assert!(known.len() > 25, "every kind of table was there: {:?}", known.keys());
}

#[test]
fn every_word_is_on_the_page() {
    for kind in FaultKind::ALL {
        assert!(PAGE.contains(&format!("`{}`", kind.name())), "{}", kind.name());
    }
    for word in ["any", "newest", "first", "planned", "block", "arrival", "window", "pack", "file"] {
        assert!(PAGE.contains(&format!("\"{word}\"")), "{word}");
    }
}

#[test]
fn limits_are_on_the_page() {
    let limits = [
        ("UNITS_MAX", scenario::UNITS_MAX),
        ("DRIVES_MAX", scenario::DRIVES_MAX),
        ("FILES_MAX", scenario::FILES_MAX),
        ("INDEX_BYTES_A_FILE_MAX", scenario::INDEX_BYTES_A_FILE_MAX),
        ("RUNS_MAX", scenario::RUNS_MAX),
        ("TAPES_MAX", scenario::TAPES_MAX),
        ("SPAN_DAYS_MAX", scenario::SPAN_DAYS_MAX),
        ("BINS_MAX", scenario::BINS_MAX),
    ];
    for (name, most) in limits {
        let row = PAGE.lines().find(|line| line.starts_with(&format!("| `{name}`:")));
        let said = row.and_then(|row| row.split('|').nth(2)).unwrap_or_else(|| panic!("no {name}"));
        let number = said.trim().trim_end_matches(" MiB").replace(',', "").parse::<u64>().unwrap();
        let unit = if said.contains("MiB") { 1 << 20 } else { 1 };
        assert_eq!(number * unit, most, "{name}");
    }
}
