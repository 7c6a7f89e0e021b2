//! Scenarios that cannot be: each is refused with its line, its key and what would be right.

use proptest::prelude::*;
use scenario::parse;

/// Line by line, so that a case replaces one.
const GOOD: &str = r#"title = "good"
[run]
span = "1d"
[library.main]
robot = "generic"
scratch = 10
[library.main.drives]
model = "LTO-8"
count = 3
[tape_pool.a]
drives_max = 2
[class.data]
sizes = "1GB"
copies = ["a"]
[holding.old]
class = "data"
files = 1000
[pool]
capacity = "10TB"
[pool.disks]
count = 10
rate = "200MB/s"
[tape]
recall_age = "1min"
[foreign]
order = "planned"
[workload.campaign]
kind = "campaign"
class = "data"
[workload.users]
kind = "users"
class = "data"
per_day = 100
[workload.backup]
kind = "backup"
class = "data"
files = 100
[workload.old]
kind = "recorded"
class = "data"
puts = ["1s", "2s"]
[fault.robots]
kind = "robot-jam"
every = "7d"
"#;

fn refusal(text: &str) -> String {
    let refused = parse("t.toml", text, &|name| Err(format!("no {name}")));
    refused.err().map(|error| error.to_string()).unwrap_or_default()
}

/// A line of the good scenario, what stands in its place, and parts of what is said of it.
const CASES: &[(&str, &str, &[&str])] = &[
    ("title = \"good\"", "", &["t.toml", "title is missing"]),
    ("title = \"good\"", "title = \" \"", &["t.toml:1: title", "in a few words"]),
    ("title = \"good\"", "title = 7", &["t.toml:1: title: 7 stands where words in quotes"]),
    ("title = \"good\"", "title = \"good", &["t.toml:1: this is not TOML"]),
    ("title = \"good\"", "titel = \"good\"", &["t.toml:1: titel: unknown key (did you mean 'title'?)"]),
    ("title = \"good\"", "title = \"good\"\nvariant = 3", &["variant: variants are tables by name"]),
    ("title = \"good\"", "title = \"a\"\ntitle = \"b\"", &["t.toml:2: this is not TOML", "duplicate"]),
    ("title = \"good\"", "title = \"a\"\nsite = \"gridkaa\"", &["t.toml:2: site: there is no built-in site"]),
    ("title = \"good\"", "title = \"a\"\nsite = \"./a.toml\"", &["site: './a.toml': no ./a.toml"]),
    ("title = \"good\"", "title = \"a\"\nsite = 3", &["site: write the name of a built-in site"]),
    ("span = \"1d\"", "", &["t.toml:2: run.span is missing"]),
    ("span = \"1d\"", "span = \"1 day\"", &["t.toml:3: run.span: '1 day' has no unit", "\"7d\""]),
    ("span = \"1d\"", "span = 86400", &["t.toml:3: run.span: 86400 stands where a span of time"]),
    ("span = \"1d\"", "span = \"-1d\"", &["run.span: '-1d' does not begin with a number"]),
    ("span = \"1d\"", "span = \"0s\"", &["run.span: nothing happens in no time"]),
    ("span = \"1d\"", "span = \"200y\"", &["run.span: 73000 days", "SPAN_DAYS_MAX"]),
    ("span = \"1d\"", "span = \"1d\"\nstep = \"1ms\"", &["t.toml:4: run.step", "bins", "BINS_MAX"]),
    ("span = \"1d\"", "span = \"1d\"\nwarm_up = \"1d\"", &["run.warm_up: nothing would count"]),
    ("span = \"1d\"", "span = \"1d\"\nseeds = 0", &["run.seeds: without a seed"]),
    ("span = \"1d\"", "span = \"1d\"\nseeds = -1", &["run.seeds: -1 stands where how many seeds"]),
    ("span = \"1d\"", "span = \"1d\"\nseeds = 100000", &["run.seeds: 100000 seeds", "SEEDS_MAX"]),
    ("span = \"1d\"", "span = \"1d\"\nseeds = [1, 2, 1]", &["run.seeds: seed 1 is there twice"]),
    (
        "robot = \"generic\"",
        "robot = \"SL85000\"",
        &["library.main.robot: there is no library 'SL85000'", "SL8500"],
    ),
    ("robot = \"generic\"", "robots = 0", &["t.toml:5: library.main.robots: a library has at least one"]),
    (
        "robot = \"generic\"",
        "capacity = \"99TB\"",
        &["library.main.capacity: a cartridge LTO-8 has room for"],
    ),
    (
        "robot = \"generic\"",
        "medium = \"JE\"",
        &["library.main.drives", "LTO-8 do not take the library's medium JE"],
    ),
    ("scratch = 10", "scratch = 99000000000", &["library.main.scratch", "4294967295"]),
    (
        "model = \"LTO-8\"",
        "model = \"LTO-88\"",
        &["library.main.drives", "no drive 'LTO-88' (did you mean 'LTO-8'?)"],
    ),
    ("model = \"LTO-8\"", "", &["t.toml:7: library.main.drives.model is missing"]),
    ("count = 3", "count = 0", &["library.main.drives", "at least one drive"]),
    ("count = 3", "count = 100000", &["library: 100000 drives in all", "DRIVES_MAX"]),
    ("count = 3", "count = 3\nrate = \"300MB\"", &["library.main.drives.rate: '300MB' has no unit"]),
    ("count = 3", "count = 3\nspeed = 1", &["library.main.drives.speed: unknown key", "known here: model"]),
    ("count = 3", "count = 3\nlocate_factor = \"0%\"", &["locate_factor: it is \"1%\""]),
    ("drives_max = 2", "drives_max = 0", &["t.toml:11: tape_pool.a.drives_max: it is at least 1"]),
    ("drives_max = 2", "drives_min = 2", &["tape_pool.a.drives_min: 2 drives cannot be kept where 1"]),
    ("drives_max = 2", "open_tapes_max = 0", &["tape_pool.a.open_tapes_max: it is at least 1"]),
    (
        "drives_max = 2",
        "library = \"man\"",
        &["tape_pool.a.library: there is no library 'man' (did you mean 'main'?)"],
    ),
    ("sizes = \"1GB\"", "sizes = \"0B\"", &["class.data.sizes: a file has 1B to"]),
    ("sizes = \"1GB\"", "sizes = { mean = \"1GB\" }", &["class.data.sizes: a table stands where a size"]),
    (
        "sizes = \"1GB\"",
        "sizes = { kind = \"normal\" }",
        &["class.data.sizes.kind: 'normal' is not known (did you mean 'lognormal'?)"],
    ),
    ("sizes = \"1GB\"", "sizes = { kind = \"lognormal\" }", &["class.data.sizes.mean is missing"]),
    (
        "sizes = \"1GB\"",
        "sizes = { kind = \"lognormal\", mean = \"1GB\" }",
        &["class.data.sizes.spread is missing"],
    ),
    (
        "sizes = \"1GB\"",
        "sizes = { kind = \"list\", sizes = [] }",
        &["class.data.sizes.sizes: at least one size"],
    ),
    (
        "sizes = \"1GB\"",
        "sizes = { kind = \"mix\", parts = [{ share = \"50%\", sizes = \"1GB\" }] }",
        &["class.data.sizes", "50"],
    ),
    (
        "sizes = \"1GB\"",
        "sizes = { kind = \"quantiles\", at = [\"0%\", \"50%\"], sizes = [\"1GB\", \"2GB\"] }",
        &["class.data.sizes.at: shares rise from \"0%\" to \"100%\""],
    ),
    (
        "copies = [\"a\"]",
        "copies = [\"b\"]",
        &["class.data.copies: there is no tape pool 'b'", "there are: a"],
    ),
    ("copies = [\"a\"]", "copies = [\"a\", \"a\"]", &["class.data.copies: two copies in one tape pool"]),
    ("copies = [\"a\"]", "copies = []", &["holding.old.class: its files are on no tape"]),
    ("copies = [\"a\"]", "copies = [\"a\"]\nweight = 0", &["class.data.weight: it is 1 to 1000000"]),
    (
        "copies = [\"a\"]",
        "copies = [\"a\"]\nrecall = \"all\"",
        &["class.data.recall: 'all' is not known", "file, pack"],
    ),
    ("files = 1000", "", &["t.toml:15: holding.old.files is missing"]),
    ("files = 1000", "files = \"1T\"", &["holding.old.files: '1T' has no unit"]),
    ("files = 1000", "files = -5", &["holding.old.files: a count is not negative"]),
    ("files = 1000", "files = \"900G\"", &["holding: 900000000000 files", "FILES_MAX"]),
    ("files = 1000", "files = \"1G\"", &["runs of files", "RUNS_MAX"]),
    ("files = 1000", "bytes = \"1EB\"\nfiles = 3", &["holding.old.bytes: say either files or bytes"]),
    ("files = 1000", "files = 9\nresident = \"120%\"", &["holding.old.resident: '120%' is out of range"]),
    ("files = 1000", "files = 9\nresident = \"0.01%\"", &["holding.old.resident", "too fine"]),
    ("files = 1000", "files = 9\nduplicates = \"5%\"", &["holding.old.duplicate_tapes"]),
    ("capacity = \"10TB\"", "capacity = \"10\"", &["t.toml:19: pool.capacity: '10' has no unit", "TB"]),
    (
        "capacity = \"10TB\"",
        "capacity = \"10TB\"\nlow_water = \"95%\"",
        &["pool.low_water: it is no more than"],
    ),
    ("capacity = \"10TB\"", "capacity = \"10TB\"\ndata = 0", &["pool.data: a stripe has at least one"]),
    ("rate = \"200MB/s\"", "rate = \"0B/s\"", &["pool.disks.rate: nothing moves"]),
    ("rate = \"200MB/s\"", "rate = \"1MB/s\"\nsmall_write_factor = nan", &["small_write_factor: it is 1 to"]),
    (
        "recall_age = \"1min\"",
        "recal_age = \"1min\"",
        &["t.toml:24: tape.recal_age: unknown key (did you mean 'recall_age'?)"],
    ),
    ("recall_age = \"1min\"", "recall_at_once = 10", &["tape.recall_at_once: it is 0 to 9"]),
    ("recall_age = \"1min\"", "index_bytes = \"1GB\"", &["tape.index_bytes: an index covers at least"]),
    (
        "recall_age = \"1min\"",
        "index_bytes_a_file = \"1EB\"",
        &[
            "t.toml:24: tape.index_bytes_a_file: 1000000000000000000 bytes",
            "1048576 at most",
            "INDEX_BYTES_A",
        ],
    ),
    ("recall_age = \"1min\"", "recall_drives_min = 4", &["tape.recall_drives_min: 4 drives cannot be kept"]),
    ("order = \"planned\"", "order = \"window\"", &["t.toml:25: foreign.window is missing"]),
    ("order = \"planned\"", "window = 7", &["foreign.window: it has a meaning only with"]),
    ("order = \"planned\"", "marks = \"synchronous\"", &["foreign.marks: it has a meaning only with"]),
    ("order = \"planned\"", "labels = \"ansi\"", &["foreign.labels: 'ansi' is not known"]),
    ("order = \"planned\"", "flush_files = -1", &["foreign.flush_files"]),
    ("order = \"planned\"", "spans = \"yes\"", &["foreign.spans"]),
    ("order = \"planned\"", "[path]\nread_stream = \"0MB/s\"", &["path.read_stream"]),
    ("order = \"planned\"", "[path]\nwrite_total = \"4GB\"", &["path.write_total"]),
    (
        "order = \"planned\"",
        "order = \"planed\"",
        &["foreign.order: 'planed' is not known (did you mean 'planned'?)"],
    ),
    ("kind = \"campaign\"", "", &["t.toml:27: workload.campaign.kind is missing"]),
    (
        "kind = \"campaign\"",
        "kind = \"campain\"",
        &["workload.campaign.kind: 'campain' is not known (did you mean 'campaign'?)"],
    ),
    ("kind = \"campaign\"", "kind = 3", &["workload.campaign.kind: 3 stands where a word in quotes"]),
    (
        "kind = \"campaign\"",
        "kind = \"campaign\"\nper_day = 3",
        &["workload.campaign.per_day: unknown key", "known here: class, begin"],
    ),
    (
        "kind = \"campaign\"",
        "kind = \"campaign\"\nfiles = 2000",
        &["workload.campaign.files: there are 1000 files"],
    ),
    (
        "kind = \"campaign\"",
        "kind = \"campaign\"\nbegin = \"2d\"",
        &["workload.campaign.begin: it never begins"],
    ),
    (
        "kind = \"campaign\"",
        "kind = \"campaign\"\npriority = 10",
        &["workload.campaign.priority: it is 0 to 9"],
    ),
    (
        "sizes = \"1GB\"",
        "sizes = \"20TB\"",
        &["t.toml:", "holding.old.class: files of class 'data' have up to 20.0 TB", "library 'main' takes"],
    ),
    ("per_day = 100", "", &["workload.users.per_day is missing"]),
    ("per_day = 100", "per_day = -1", &["workload.users.per_day: it comes to -1"]),
    ("per_day = 100", "per_day = inf", &["workload.users.per_day: it comes to inf"]),
    ("per_day = 100", "per_day = 1\nrepeat = 0.5", &["workload.users.repeat: 0.5 stands where a share"]),
    ("files = 100", "files = 1\nwindow = \"2d\"", &["workload.backup.window: a backup is over"]),
    ("files = 100", "files = 1\nrestore_at = \"1h\"", &["workload.backup.restore_files is missing"]),
    ("puts = [\"1s\", \"2s\"]", "puts = [\"3s\", \"2s\"]", &["workload.old.puts: times ascend"]),
    ("puts = [\"1s\", \"2s\"]", "puts = [\"3s\", 2]", &["workload.old.puts.1: 2 stands where a span"]),
    ("puts = [\"1s\", \"2s\"]", "stages = [\"3s\"]", &["workload.old.stage_files: 0 numbers for 1"]),
    ("kind = \"robot-jam\"", "kind = \"robot-yam\"", &["fault.robots.kind", "(did you mean 'robot-jam'?)"]),
    ("every = \"7d\"", "every = \"0s\"", &["fault.robots.every: it is at least \"1s\""]),
    ("every = \"7d\"", "every = \"7d\"\n[variant]", &["variant: at least one variant"]),
    (
        "every = \"7d\"",
        "every = \"7d\"\n[variant.x]\nsite = \"a\"",
        &["variant.x.site: variants have it in common"],
    ),
    (
        "every = \"7d\"",
        "every = \"7d\"\n[variant.\"a b\"]\ntape.recal_age = \"1s\"",
        &["t.toml:46: variant.\"a b\".tape.recal_age: unknown key", "'recall_age'"],
    ),
    ("every = \"7d\"", "every = \"7d\"\n[variant.x]\npool = \"none\"", &["pool is missing"]),
    (
        "every = \"7d\"",
        "every = \"7d\"\n[variant.x]\nfault.drivs = \"none\"",
        &["fault.drivs", "there is nothing to remove"],
    ),
    ("every = \"7d\"", "every = \"7d\"\n[provenance]\nx = 3", &["provenance: only a site's file has it"]),
];

#[test]
fn what_cannot_be_is_refused_with_line_and_key() {
    assert_eq!(refusal(GOOD), "");
    assert!(CASES.len() >= 40);
    let mut wrong = Vec::new();
    for (line, instead, words) in CASES {
        let lines = GOOD.lines().map(|good| if good == *line { *instead } else { good });
        let text = lines.collect::<Vec<_>>().join("\n");
        assert!(GOOD.lines().any(|good| good == *line), "{line}");
        let said = refusal(&text);
        let silent = words.iter().filter(|word| !said.contains(**word));
        wrong.extend(silent.map(|word| format!("{instead:?}\n  should say {word:?}\n  says {said:?}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_too_much_is_refused_before_it_is_made() {
    let deep = format!("{}{} = 1", "a.".repeat(60), "b");
    let said = refusal(&deep);
    assert!(said.contains("DEPTH_MAX") || said.contains("TOML"), "{said}");
    let said = refusal(&format!("x = {}{}", "[".repeat(100_000), "]".repeat(100_000)));
    assert!(said.contains("TOML"), "{said}");
    let variants: String = (0..65).map(|at| format!("[variant.v{at}]\n")).collect();
    let said = refusal(&format!("{GOOD}{variants}"));
    assert!(said.contains("65 variants") && said.contains("VARIANTS_MAX"), "{said}");
    assert_eq!(refusal(&format!("{GOOD}{}", variants.replace("[variant.v64]\n", ""))), "");
    let said = refusal(&" ".repeat(scenario::TEXT_BYTES_MAX + 1));
    assert!(said.contains("TEXT_BYTES_MAX"), "{said}");
}

/// Nothing bounded what workloads put in a run: four thousand million files at a time, a thousand million
/// times a day, until the machine had no memory left.
#[test]
fn more_files_than_a_run_can_hold_are_refused() {
    let with = |more: &str| refusal(&format!("{GOOD}[workload.flood]\nclass = \"data\"\n{more}\n"));
    for (more, words) in [
        ("kind = \"ingest\"\nper_day = 1e9\nburst = 4000000000", "t.toml:48: workload.flood.per_day: "),
        (
            "kind = \"ingest\"\nbytes_per_day = \"18EB\"\nburst = 100\nstorms_per_year = 100\n\
             storm_factor = 100\nstorm_length = \"1d\"",
            "workload.flood.bytes_per_day: ",
        ),
        ("kind = \"users\"\nper_day = 1e6\nfiles = 4000000000", "workload.flood.per_day: "),
        ("kind = \"backup\"\nfiles = \"18000G\"", "workload.flood.files: "),
        (
            "kind = \"backup\"\nfiles = 1\nrestore_at = \"1h\"\nrestore_files = \"1000G\"",
            "workload.flood.files: ",
        ),
        (
            "kind = \"ingest\"\nper_day = 5e8\nburst = 100\nstorms_per_year = 100\nstorm_factor = 100\n\
             storm_length = \"1d\"",
            "workload.flood.per_day: ",
        ),
    ] {
        let said = with(more);
        for word in [words, "files in all of the run", "100000000000 at most", "FILES_MAX"] {
            assert!(said.contains(word), "{more}\n  should say {word:?}\n  says {said:?}");
        }
    }
    assert_eq!(with("kind = \"ingest\"\nper_day = 5e8\nburst = 100"), "");
    // It ends soon enough; and two that are too much together.
    let half = "kind = \"ingest\"\nper_day = 1e9\nburst = 150\nend = \"12h\"";
    assert_eq!(with(half), "");
    let said = with(&format!("{half}\n[workload.second]\nclass = \"data\"\n{half}"));
    assert!(said.contains("workload.second.per_day: 150000"), "{said}");
}

#[test]
fn a_site_file_is_checked_as_well() {
    let read = |site: &str| {
        let text = format!("site = \"./s.toml\"\n{GOOD}");
        parse("t.toml", &text, &|_| Ok(site.to_owned())).map_err(|error| error.to_string())
    };
    for (site, words) in [
        ("site = \"x\"", "./s.toml:1: site: a site's file does not have it"),
        ("[pol]\na = 1", "./s.toml:1: pol: unknown key (did you mean 'pool'?)"),
        ("[provenance]\npool = 3", "./s.toml:2: provenance.pool: write {"),
        ("[provenance]\npool = { kind = \"known\", source = \"x\" }", "'known' is none of published"),
        ("[provenance]\npool = { kind = \"fitted\" }", "provenance.pool.source: say in words"),
        (
            "[provenance]\npool = { kind = \"fitted\", source = \"x\", page = 3 }",
            "provenance.pool.page: unknown key",
        ),
        (
            "[provenance]\n\"pool.size\" = { kind = \"fitted\", source = \"x\" }",
            "provenance.pool.size: the site's file has no such key",
        ),
    ] {
        let said = read(site).unwrap_err();
        assert!(said.contains(words), "{site}: {said}");
    }
    assert!(read("[tape]\nrecall_age = \"1h\"").is_ok());
}

/// Pieces that a scenario is made of, and some that it is not.
const PIECES: &[&str] = &[
    "\"none\"",
    "[",
    "]",
    "{",
    "}",
    "=",
    ".",
    "\n",
    "kind",
    "0",
    "-1",
    "1e400",
    "inf",
    "nan",
    "\"9EB\"",
    "\"1d\"",
    "\"100%\"",
    "[variant.x]\n",
    "[[class]]\n",
    "\"",
    "'",
    "#",
    "18446744073709551616",
    "2020-01-01",
    "true",
    "[]",
    "{}",
    "\"584000y\"",
    "provenance",
    "\u{0}",
    "ä",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Whatever happens to a file, it is read or refused, and a refusal says something.
    #[test]
    fn mangled_files_are_read_or_refused(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0..20_usize, 0..PIECES.len()), 1..6),
    ) {
        let mut text: Vec<char> = GOOD.chars().collect();
        for (at, length, piece) in cuts {
            let at = at.index(text.len().max(1)).min(text.len());
            let end = (at + length).min(text.len());
            text.splice(at..end, PIECES[piece].chars());
        }
        let text: String = text.into_iter().collect();
        if let Err(error) = parse("t.toml", &text, &|name| Err(format!("no {name}"))) {
            prop_assert!(error.to_string().len() > 20);
        }
    }

    #[test]
    fn values_are_read_or_refused(line in 0..44_usize, piece in 0..PIECES.len()) {
        let mut lines: Vec<String> = GOOD.lines().map(str::to_owned).collect();
        if let Some((key, _)) = lines[line].clone().split_once('=') {
            lines[line] = format!("{key} = {}", PIECES[piece]);
        }
        let _ = parse("t.toml", &lines.join("\n"), &|name| Err(format!("no {name}")));
    }
}
