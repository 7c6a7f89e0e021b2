//! The examples and what was published about them; every figure against its own text; wrong and extreme
//! sites.

use proptest::prelude::*;

use super::expression;
use super::*;

const SDSC_1998: &str = include_str!("../../../examples/sites/sdsc-1998.toml");
const SDSC_100: &str = include_str!("../../../examples/sites/sdsc-100.toml");
const KIT: &str = include_str!("../../../examples/sites/kit.toml");
const KISTI: &str = include_str!("../../../examples/sites/kisti.toml");
const TIER1: &str = include_str!("../../../examples/sites/tier1.toml");

fn planned(text: &str) -> Plan {
    plan(&Site::parse(text).unwrap()).unwrap()
}

fn value(plan: &Plan, subject: &str, name: &str) -> f64 {
    plan.value(subject, name).unwrap_or_else(|| panic!("no {name:?} of {subject:?}"))
}

fn near(found: f64, wanted: f64, tolerance: f64) {
    assert!((found / wanted - 1.0).abs() <= tolerance, "{found} is not {wanted}");
}

/// A site of one class and LTO-9 drives, with some lines changed.
fn site(class: &str, rest: &str) -> String {
    format!(
        "name = \"x\"\n[[class]]\nname = \"a\"\nmean_file = \"1GB\"\n{class}\n[tape]\n\
         drive = \"LTO-9\"\n{rest}\n"
    )
}

/// SDSC: 223 GB a day, 9 MB/s x 0.15 = 1.35 MB/s, 1.9 drives, published as two; at 100 MB/s at least 80, by
/// the formula 74 and by scaling 77.
#[test]
fn sdsc_s_drives_come_out() {
    let plan = planned(SDSC_1998);
    near(value(&plan, "all", "effective rate of reading"), 1.35e6, 1e-9);
    near(value(&plan, "all", "drives busy, all traffic positioning"), 1.9, 0.01);
    near(value(&plan, "all", "moved on the busiest day"), 642e9, 0.01);
    let plan = planned(SDSC_100);
    let drives = value(&plan, "all", "drives busy, all traffic positioning");
    assert!((74.0..=80.0).contains(&drives), "{drives}");
    // Only what is read positions: 66 MB/s / 9 MB/s + 34 MB/s / 1.35 MB/s.
    near(value(&plan, "all", "drives busy"), 66.0 / 9.0 + 34.0 / 1.35, 1e-9);
    near(value(&plan, "all", "drives writing"), 66.0 / 9.0, 1e-9);
    near(value(&plan, "all", "drives reading"), 34.0 / 1.35, 1e-9);
}

/// KIT: 25 GB/s of migration feed 65 drives at 380 MB/s, 25 GB/s of recall are what 62 drives read.
#[test]
fn kit_s_cache_feeds_its_drives() {
    let plan = planned(KIT);
    near(value(&plan, "", "archived at most"), 25e9, 1e-9);
    near(value(&plan, "", "drives fed, one copy at a time"), 65.0, 0.0);
    near(value(&plan, "", "drives drained by recalls"), 62.0, 0.0);
    near(value(&plan, "aggregates", "moved in the pool for each byte archived"), 3.0, 0.0);
    near(value(&plan, "aggregates", "moved in the pool for each byte recalled"), 2.0, 0.0);
    near(value(&plan, "", "usable space"), 240e12, 1e-9);
    // A mark of 3 s after 789 s of writing costs 0.4 %: mounts of 3 TB cost more.
    let rate = value(&plan, "aggregates", "effective rate of writing");
    assert!(rate < 380e6 / 1.004 && rate > 0.95 * 380e6, "{rate}");
}

fn path_of(lanes: u64, gigabits: f64, pcie: u32, disk_rate: f64) -> PathLimit {
    let text = format!(
        "name = \"x\"\n[[server]]\nname = \"s\"\n[[server.jbod]]\nname = \"j\"\ndisks = 1000\n\
         disk_rate = \"{disk_rate}MB/s\"\nlanes = {lanes}\nlane_rate = \"{gigabits}Gb/s\"\npcie = {pcie}"
    );
    path_limit(&Site::parse(&text).unwrap().servers[0].jbod[0])
}

fn row(lanes: u64, gigabits: f64, pcie: u32, part: &str, limit: f64, disks: [f64; 2]) {
    for (rate, published) in [230.0, 500.0].into_iter().zip(disks) {
        let found = path_of(lanes, gigabits, pcie, rate);
        assert_eq!(found.part, part);
        near(found.limit, limit * 1e6, 1e-9);
        assert!((found.disks_carried - published).abs() <= 1.0, "{found:?}, published {published}");
    }
}

#[test]
fn kisti_6g_x4_pcie2() {
    row(4, 6.0, 2, "SAS", 2200.0, [9.0, 4.0]);
}

#[test]
fn kisti_6g_x8_pcie2() {
    row(8, 6.0, 2, "PCIe", 3200.0, [14.0, 6.0]);
}

#[test]
fn kisti_12g_x4_pcie2() {
    row(4, 12.0, 2, "PCIe", 3200.0, [14.0, 6.0]);
}

#[test]
fn kisti_12g_x4_pcie3() {
    row(4, 12.0, 3, "SAS", 4400.0, [19.0, 8.0]);
}

#[test]
fn kisti_12g_x8_pcie3() {
    row(8, 12.0, 3, "PCIe", 6400.0, [28.0, 12.0]);
}

/// KISTI says that 56 slower disks fill the adapter: 9600 / 170, which leaves the slot out. Behind it: 37.
#[test]
fn kisti_s_56_disks_are_37_behind_the_slot() {
    assert_eq!((9600.0_f64 / 170.0).floor(), 56.0);
    assert_eq!(path_of(8, 12.0, 3, 170.0).disks_carried, 37.0);
    let plan = planned(KISTI);
    near(value(&plan, "measured/nl-sas", "limit of the path: PCIe"), 6.4e9, 1e-9);
    near(value(&plan, "measured/nl-sas", "disks that it carries at full rate"), 37.0, 0.0);
    near(value(&plan, "6G-x4-PCIe2/15k", "limit of the path: SAS"), 2.2e9, 1e-9);
    assert_eq!(plan.lines.iter().filter(|line| line.name.starts_with("limit of the path")).count(), 6);
}

/// What the table does not have: reference, pool (f).
#[test]
fn newer_paths_follow_the_same_function() {
    near(path_of(4, 24.0, 5, 250.0).limit, 8.8e9, 1e-9);
    near(path_of(8, 24.0, 5, 250.0).limit, 17.6e9, 1e-9);
    near(path_of(16, 24.0, 4, 250.0).limit, 12_603e6, 1e-4);
    near(path_of(16, 24.0, 5, 250.0).limit, 25_206e6, 1e-4);
    let text = "name = \"x\"\n[[server]]\nname = \"s\"\n[[server.jbod]]\nname = \"j\"\ndisks = 24\n\
                lanes = 4\ndisk_rate = \"7GB/s\"\nattach = \"nvme\"\npcie = 4\npcie_lanes = 16\n\
                adapter_rate = \"30GB/s\"";
    let found = path_limit(&Site::parse(text).unwrap().servers[0].jbod[0]);
    assert_eq!((found.part, found.disks_carried), ("PCIe", 4.0));
    near(found.limit, 25_206e6, 1e-4);
    let slow = text.replace("30GB/s", "20GB/s");
    assert_eq!(path_limit(&Site::parse(&slow).unwrap().servers[0].jbod[0]).part, "adapter");
    let few = text.replace("disks = 24", "disks = 2");
    assert_eq!(path_limit(&Site::parse(&few).unwrap().servers[0].jbod[0]).part, "disks");
}

#[test]
fn a_tier_1_is_planned_in_all_its_parts() {
    let plan = planned(TIER1);
    let sections: std::collections::BTreeSet<Section> = plan.lines.iter().map(|line| line.section).collect();
    assert_eq!(sections.len(), 11, "{sections:?}");
    near(value(&plan, "raw", "flow into the cache"), 144e12, 1e-9);
    near(value(&plan, "derived", "cache for the wanted residency"), 30.0 * 100e12, 1e-9);
    near(value(&plan, "raw", "written to tape"), 240e12, 1e-9);
    near(value(&plan, "", "usable space"), 672.0 * 20e12 * 0.75 * 0.9, 1e-9);
    near(value(&plan, "pool", "limit of the server: paths to the disks"), 8.8e9, 1e-9);
    near(value(&plan, "", "mounts an hour that the robots can do"), 2.0 * 2.0 * 150.0, 1e-9);
    let busy: f64 = ["raw", "derived", "users"].iter().map(|class| value(&plan, class, "drives busy")).sum();
    assert_eq!(value(&plan, "", "drives, if all classes share them"), busy.ceil());
    assert!(plan.line("", "use of the drives").unwrap().verdict.is_some());
    assert!(plan.bottleneck.as_ref().unwrap().contains("busiest day: "), "{:?}", plan.bottleneck);
    assert_eq!(plan, planned(TIER1), "one site, one plan");
}

#[test]
fn classes_that_may_not_share_round_up_each() {
    let class = |name: &str| {
        format!(
            "[[class]]\nname = \"{name}\"\nmean_file = \"1GB\"\nwritten = \"40MB/s\"\n\
             copies = 1\n"
        )
    };
    let text = format!("name = \"x\"\n{}{}[tape]\ndrive = \"LTO-9\"", class("a"), class("b"));
    let plan = planned(&text);
    near(value(&plan, "", "drives, if all classes share them"), 1.0, 0.0);
    near(value(&plan, "", "drives, if no class uses another's"), 2.0, 0.0);
}

/// The cache of a class: fill 2 TB a day, 20 TB last ten days, five at twice the flow; 30 days want 60 TB.
#[test]
fn cache_lifetimes_follow_sdsc() {
    let class = "written = \"1TB/d\"\nread = \"4TB/d\"\nhit_rate = \"75%\"\npeak = 2.0\ncache = \"20TB\"\n\
                 files = \"small\"";
    let plan = planned(&site(class, ""));
    near(value(&plan, "a", "flow into the cache"), 2e12, 1e-9);
    near(value(&plan, "a", "cache lifetime"), 10.0, 1e-9);
    near(value(&plan, "a", "cache lifetime at the flow of the busiest day"), 5.0, 1e-9);
    near(value(&plan, "a", "cache for the wanted residency"), 60e12, 1e-9);
    assert_eq!(plan.line("a", "cache lifetime").unwrap().verdict, Some(Verdict::Misses));
    let plan = planned(&site(&class.replace("small", "large"), ""));
    assert_eq!(plan.line("a", "cache lifetime").unwrap().verdict, Some(Verdict::Meets));
    let all_hits = class.replace("75%", "100%").replace("1TB/d", "0B/d");
    assert_eq!(planned(&site(&all_hits, "")).line("a", "cache lifetime").unwrap().text, "no bound");
}

#[test]
fn aggregates_cost_what_is_not_wanted() {
    let class = "read = \"1TB/d\"\nrecall_unit = \"300GB\"\nwanted_share = \"10%\"";
    let plan = planned(&site(class, ""));
    near(value(&plan, "a", "read from tape"), 10e12, 1e-9);
    assert!(value(&plan, "a", "share of the drive's time that moves data") > 0.9);
}

/// A tenth of the requests' size costs users most of the disk; tape streams keep theirs.
#[test]
fn seeks_are_charged_to_small_requests() {
    let pool = "[pool]\nlayout = \"4+2\"\nclient_request = \"1MB\"\nstream_run = \"64MB\"\n[[server]]\n\
                name = \"s\"\n[[server.jbod]]\nname = \"j\"\ndisks = 10\ndisk_rate = \"200MB/s\"\n\
                disk_size = \"10TB\"\ndisk_seek = \"10ms\"";
    let class = "written = \"100MB/s\"\nread = \"100MB/s\"\nhit_rate = \"50%\"\ncopies = 2";
    let plan = planned(&site(class, pool));
    let (client, stream) = (1e6 / (0.01 + 0.005), 64e6 / (0.01 + 0.32));
    near(value(&plan, "", "a disk under users"), client, 1e-9);
    near(value(&plan, "", "a disk under tape streams"), stream, 1e-9);
    let time = ((1.5 * 100e6 + 100e6) / client + (200e6 + 1.5 * 50e6) / stream) / 10.0;
    near(value(&plan, "", "share of the disks' time"), time, 1e-9);
    assert!(plan.bottleneck.is_some());
}

#[test]
fn measured_traffic_takes_the_place_of_the_file_s() {
    let mut site = Site::parse(TIER1).unwrap();
    let mut measured = ClassWorkload::new("raw", 5e9);
    measured.cache = Some(1e15);
    measured.written_per_day = 1e12;
    measured.read_per_day = 2e12;
    let new = ClassWorkload::new("new", 1e9);
    site.take_measured(&[measured, new]);
    assert_eq!(site.classes.len(), 4);
    assert_eq!((site.classes[0].written_per_day, site.classes[0].mean_file), (1e12, 5e9));
    assert_eq!((site.classes[0].copies, site.classes[0].files_per_mount), (2, 200.0));
    near(value(&plan(&site).unwrap(), "raw", "written to tape"), 2e12, 1e-9);
}

#[test]
fn wrong_sites_are_refused_with_the_key() {
    let refused = |text: &str, words: &[&str]| {
        let error = Site::parse(text).and_then(|site| plan(&site)).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}\nlacks one of {words:?}");
    };
    refused(&site("colour = \"red\"", ""), &["colour", "unknown field", "planner.md"]);
    refused(&site("written = 12", ""), &["a rate in quotes", "12"]);
    refused(&site("written = \"12 furlongs\"", ""), &["12 furlongs", "300MB/s"]);
    refused(&site("hit_rate = \"120%\"", ""), &["120%", "at most 100%"]);
    refused(&site("peak = 0.5", ""), &["[[class]] a", "peak is 0.5", "1 to"]);
    refused(&site("peak = nan", ""), &["peak is NaN"]);
    refused(&site("copies = 9", ""), &["copies is 9", "0 to 8"]);
    refused(&site("files_per_mount = 0.0", ""), &["files_per_mount"]);
    refused(&site("wanted_share = \"0%\"", ""), &["wanted_share"]);
    refused(&site("", "drives = 0"), &["[tape]", "drives is 0"]);
    refused(&site("", "medium = \"JE\""), &["LTO-9 takes no JE", "LTO-8"]);
    refused(&site("", "library = \"shelf\""), &["library", "shelf", "TS4500"]);
    refused(&site("", "").replace("LTO-9", "LTO-99"), &["drive", "LTO-99", "LTO-9"]);
    refused(&site("", "[pool]\nlayout = \"300+1\""), &["[pool]", "layout is 300+1"]);
    refused(&site("", "[pool]\nread_rate = \"1GB/s\""), &["read_rate", "together with write_rate"]);
    refused(&site("", "[power]\npue = 0.5"), &["[power]", "pue is 0.5"]);
    refused(&site("", "[price]\ncurrency = \"EUR\"\ndisk = -1"), &["[price]", "disk is -1"]);
    refused("name = \"x\"", &["neither classes nor servers"]);
    refused("name = \"x\"\n[[class]]\nname = \"a\"\nmean_file = \"0B\"", &["mean_file is 0"]);
    let class = "[[class]]\nname = \"a\"\nmean_file = \"1B\"\nread = \"1MB/s\"\n";
    refused(&format!("name = \"x\"\n{class}"), &["[[class]] a", "no [tape]"]);
    refused(&format!("name = \"x\"\n{class}{class}"), &["[[class]] a is there twice"]);
    let many: String =
        (0..=PARTS_MAX).map(|n| format!("[[class]]\nname = \"{n}\"\nmean_file = \"1B\"\n")).collect();
    refused(&format!("name = \"x\"\n{many}"), &["1001 classes", "1000"]);
    let jbod = "name = \"x\"\n[[server]]\nname = \"s\"\n[[server.jbod]]\nname = \"j\"\ndisks = 1\n\
                disk_rate = \"1MB/s\"\npcie = 6";
    refused(jbod, &["[[server.jbod]] j of s", "pcie is 6"]);
}

/// The text with its units put into numbers, computed: what somebody does by hand.
fn by_hand(figures: &str) -> f64 {
    const UNITS: [(&str, f64); 27] = [
        ("ms", 1e-3),
        ("µs", 1e-6),
        ("ns", 1e-9),
        ("EB/d", 1e18),
        ("PB/d", 1e15),
        ("TB/d", 1e12),
        ("GB/d", 1e9),
        ("MB/d", 1e6),
        ("kB/d", 1e3),
        ("B/d", 1.0),
        ("EB/s", 1e18),
        ("PB/s", 1e15),
        ("TB/s", 1e12),
        ("GB/s", 1e9),
        ("MB/s", 1e6),
        ("kB/s", 1e3),
        ("B/s", 1.0),
        ("EB", 1e18),
        ("PB", 1e15),
        ("TB", 1e12),
        ("GB", 1e9),
        ("MB", 1e6),
        ("kB", 1e3),
        ("B", 1.0),
        ("%", 0.01),
        ("kW", 1e3),
        ("M", 1e6),
    ];
    let bytes = figures.as_bytes();
    let is_digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let groups = |at: usize| bytes[at] == b',' && is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
    let figures: String =
        figures.char_indices().filter(|(at, _)| !groups(*at)).map(|(_, letter)| letter).collect();
    let mut text = String::new();
    let mut words = figures.split(' ').peekable();
    while let Some(word) = words.next() {
        let trimmed = word.trim_start_matches(|c: char| !c.is_ascii_digit());
        let is_number = trimmed.trim_end_matches([')', ',']).parse::<f64>().is_ok();
        let unit = words.peek().map_or("", |next| next.trim_end_matches([')', ',']));
        let scale = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
        let lone = matches!(unit, "s" | "d");
        text.push_str(if word == "x" { "*" } else { word });
        if is_number && (scale.is_some() || lone) {
            let next = words.next().unwrap_or("");
            text.push_str(&format!(" * {:.12}", scale.unwrap_or(1.0)));
            text.push_str(&next[unit.len()..]);
        }
        text.push(' ');
    }
    expression::parse(&text).value(&|symbol| panic!("{symbol} in {figures}"))
}

/// Division binds a value and its unit as one: `a / 3 MB/s` is `a / (3 * 1e6)`.
#[test]
fn every_figure_can_be_checked_by_hand() {
    let mut checked = 0;
    for text in [SDSC_1998, SDSC_100, KIT, KISTI, TIER1] {
        for line in planned(text).lines {
            let computed =
                line.inputs.is_empty() || line.figures == line.text || line.figures.contains("no bound");
            let (Some(value), false) = (line.value, computed) else { continue };
            let (left, right) = line.figures.rsplit_once(" = ").unwrap();
            assert_eq!(right, line.text);
            let found = by_hand(&bound(left));
            let rounded = line.formula.contains("ceil(") || line.formula.contains("floor(");
            let slack = if rounded { 1.0 } else { 0.0 } + 0.005 * value.abs() + 1e-9;
            let queue = line.formula.contains("erlang_c") || line.formula.contains("max(0");
            assert!(queue || (found - value).abs() <= slack, "{}: {}: {found}", line.name, line.figures);
            assert!(!line.source.is_empty() && !line.formula.is_empty(), "{}", line.name);
            checked += 1;
        }
    }
    assert!(checked > 250, "{checked}");
}

/// Puts parentheses around a number and its unit.
fn bound(text: &str) -> String {
    let mut out = String::new();
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        let next = words.peek().copied().unwrap_or("");
        let unit = next.trim_end_matches([')', ',']);
        let is_unit = ["%", "s", "ms", "µs", "ns", "d", "kW", "M"].contains(&unit) || unit.contains('B');
        let digits = word.find(|c: char| c.is_ascii_digit());
        match digits {
            Some(at) if is_unit => {
                let tail = &next[unit.len()..];
                out.push_str(&format!("{}({} {unit}){tail} ", &word[..at], &word[at..]));
                words.next();
            }
            _ => out.push_str(&format!("{word} ")),
        }
    }
    out.trim_end().to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Nothing, all hits, and more than anyone has: no panic, no value that is no number.
    #[test]
    fn any_site_has_a_plan(
        flows in (0u64..3, 0u64..u64::MAX, 0u64..u64::MAX),
        hits in 0u32..=100,
        size in 1u64..u64::MAX,
        shift in 0u32..64,
        peak in 1.0f64..1e6,
        files in 1u32..40,
        copies in 0u32..=8,
        drives in 1u64..10_000_000,
        measured in any::<bool>(),
    ) {
        let (kind, written, read) = flows;
        let (written, read) = match kind {
            0 => (0, 0),
            1 => (written >> shift, read >> shift),
            _ => (written, read),
        };
        let size = (size >> shift).max(1);
        let class = format!(
            "written = \"{written}B/d\"\nread = \"{read}B/d\"\nhit_rate = \"{hits}%\"\npeak = {peak:?}\n\
             copies = {copies}\nfiles_per_mount = {files}.0\nstored = \"{written}B\"\nresidency = \"30d\""
        );
        let rates = if measured { "read_rate = \"1GB/s\"\nwrite_rate = \"1GB/s\"\n" } else { "" };
        let rest = format!(
            "drives = {drives}\ncartridges = {drives}\n[pool]\n{rates}[[server]]\nname = \"s\"\n\
             [[server.jbod]]\nname = \"j\"\ndisks = {drives}\ndisk_size = \"20TB\"\n\
             disk_rate = \"200MB/s\"\n[power]\ndisk = \"8W\"\n\
             [price]\ncurrency = \"EUR\"\nkwh = 0.3"
        );
        let text = site(&class, &rest).replace("\"1GB\"", &format!("\"{size}B\""));
        let plan = plan(&Site::parse(&text).unwrap()).unwrap();
        for line in &plan.lines {
            prop_assert!(line.value.is_none_or(f64::is_finite), "{}: {}", line.name, line.figures);
            prop_assert!(line.value.is_none_or(|value| value >= 0.0), "{}: {}", line.name, line.figures);
            let inputs = line.inputs.iter().all(|input| input.value.is_none_or(f64::is_finite));
            prop_assert!(inputs, "{}", line.name);
        }
        prop_assert!(plan.bottleneck.is_some());
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,80}") {
        let _ = Site::parse(&text).and_then(|site| plan(&site));
    }
}

/// The access log's analysis becomes the workload: W, R, h by bytes, mean of files read, busiest day.
#[test]
fn a_log_s_analysis_becomes_a_workload() {
    let log = usage::ClassWorkload {
        name: "raw".to_owned(),
        copies: Some(1),
        files_written: 100.0,
        bytes_written: 2e12,
        files_read: 50.0,
        bytes_read: 1e12,
        hit_rate: Some(0.9),
        hit_rate_bytes: Some(0.75),
        files_recalled: 5.0,
        bytes_recalled: 25e10,
        bytes_migrated: 2e12,
        mean_written: Some(base::ByteCount(1_000)),
        mean_read: Some(base::ByteCount(2_000_000_000)),
        peak_written: base::ByteCount(5_000_000_000_000),
        peak_read: base::ByteCount(1_000_000_000_000),
        peak_recalled: base::ByteCount(0),
        space: Some(base::ByteCount(70_000_000_000_000)),
        for_hit_rates: vec![
            (
                0.9,
                Some(usage::Residency {
                    kept: base::Duration::from_secs(12 * 86_400),
                    within: 0.95,
                    hit_rate: 0.91,
                    space: base::ByteCount(30_000_000_000_000),
                }),
            ),
            (0.99, None),
        ],
    };
    let class = ClassWorkload::measured(&log);
    assert_eq!((class.hit_rate, class.mean_file, class.peak, class.copies), (0.75, 2e9, 2.0, 1));
    let mut site = Site::parse("name = \"x\"\n[tape]\ndrive = \"LTO-8\"").unwrap();
    site.take_measured(&[class]);
    let plan = plan(&site).unwrap();
    near(value(&plan, "raw", "read from tape"), 25e10, 1e-9);
    near(value(&plan, "raw", "cache lifetime"), 70.0 / 2.25, 1e-9);
    near(value(&plan, "raw", "cache to serve 90 % of the reads"), 30e12, 1e-9);
    assert!(plan.value("raw", "cache to serve 99 % of the reads").is_none(), "nothing gives that");
    let idle = usage::ClassWorkload {
        bytes_written: 0.0,
        bytes_read: 0.0,
        hit_rate_bytes: None,
        mean_written: None,
        mean_read: None,
        ..log
    };
    let class = ClassWorkload::measured(&idle);
    assert_eq!((class.hit_rate, class.mean_file, class.peak), (0.0, 1e9, 1.0));
}

/// The drives' section called drives busy whose use was low and whose wait was long; the list of uses called
/// the same drives enough, and the headline named another part that was fuller and had no trouble.
#[test]
fn a_part_has_one_verdict_wherever_it_is_told() {
    let mut verdicts = std::collections::BTreeMap::new();
    for drives in 1..40 {
        for written in [1, 10, 20, 50] {
            let class = format!("written = \"{written}TB/d\"\nread = \"2TB/d\"\nfiles_per_mount = 10");
            let plan = planned(&site(&class, &format!("drives = {drives}\ncartridges = 100000")));
            for (own, listed) in [("use of the drives", "tape drives"), ("mounts an hour", "robots")] {
                let of = |name: &str| {
                    let line = plan.line("", name).unwrap_or_else(|| panic!("no {name}"));
                    (line.verdict, line.reason.clone())
                };
                assert_eq!(of(own), of(listed), "{drives} drives, {written} TB a day");
            }
            let worst = plan.lines.iter().filter(|line| line.section == Section::Bottleneck);
            let worst = worst.filter_map(|line| line.verdict).map(|verdict| verdict as u8).max().unwrap();
            let told = plan.bottleneck.as_ref().unwrap();
            let said = match told {
                told if told.contains("too little") => Verdict::Misses,
                told if told.contains("waits grow") || told.contains("busy: ") => Verdict::Busy,
                _ => Verdict::Meets,
            };
            assert_eq!(said as u8, worst, "{told}");
            *verdicts.entry(worst).or_insert(0) += 1;
        }
    }
    assert_eq!(verdicts.len(), 3, "{verdicts:?}");
}
