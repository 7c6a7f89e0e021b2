//! What each recorded machine is read as.

use scsi::enclosure::ElementCode;
use topology::bottleneck::{Bottlenecks, LinkKind, LinkRow, Rates, bottlenecks, kisti_table};
use topology::counters::Since;
use topology::health::{Finding, Health, Reason, Verdict};
use topology::layout::Layout;
use topology::{Counter, DiskKind, Hop, HostKind, Machine, Recorder, Slot, SlotState};

use crate::{machine, record};

/// Every machine, with how many disks it has.
const ALL: [(&str, usize); 9] = [
    ("me484-one-path", 80),
    ("me484-two-path", 80),
    ("data60-zoned", 30),
    ("nvme-switch", 8),
    ("half-cable", 12),
    ("half-cable-later", 11),
    ("mpi3mr-24g", 12),
    ("kisti-five", 140),
    ("virtio", 1),
];

fn rows(machine: &Machine) -> Bottlenecks {
    bottlenecks(machine, Rates::default())
}

fn link<'a>(found: &'a Bottlenecks, name: &str) -> &'a LinkRow {
    let is = |row: &&LinkRow| matches!(&row.hop, Hop::Pci(own) | Hop::Port(own) if own == name);
    found.links.iter().find(is).unwrap_or_else(|| panic!("{name} is not in {:?}", found.links))
}

/// The verdicts that are not good: the name of the disk, and the words of its reasons.
fn bad(machine: &Machine, since: Option<&Since>) -> Vec<(String, Verdict, Vec<&'static str>)> {
    let health = Health::of(machine, since);
    let bad = health.disks.iter().filter(|disk| disk.verdict != Verdict::Good);
    bad.map(|one| {
        let words = one.reasons.iter().map(Reason::word).collect();
        (machine.disks[one.disk].name().to_owned(), one.verdict, words)
    })
    .collect()
}

fn one(name: &str, verdict: Verdict, words: &[&'static str]) -> (String, Verdict, Vec<&'static str>) {
    (name.to_owned(), verdict, words.to_vec())
}

fn count(machine: &Machine, state: SlotState) -> usize {
    machine.enclosures.iter().flat_map(|one| &one.slots).filter(|slot| slot.state() == state).count()
}

#[test]
fn every_machine_is_read_whole() {
    for (name, disks) in ALL {
        assert_eq!(machine(name).disks.len(), disks, "{name}");
    }
}

/// What is recorded of a machine is all that is needed to read it again.
#[test]
fn a_record_of_a_machine_is_read_as_the_machine() {
    for (name, _) in ALL {
        let record = record(name);
        let recorder = Recorder::new(&record);
        let first = Machine::read(&recorder);
        let again = recorder.into_record();
        assert_eq!(Machine::read(&again), first, "{name}");
        assert!(again.entries() > 0, "{name}");
    }
}

#[test]
fn eighty_four_slots_on_one_path() {
    let machine = machine("me484-one-path");
    let [enclosure] = &machine.enclosures[..] else { panic!("{:?}", machine.enclosures.len()) };
    assert_eq!(enclosure.product.as_deref(), Some("Array584EMM"));
    assert_eq!((enclosure.slots.len(), enclosure.services.len()), (84, 1));
    assert_eq!((count(&machine, SlotState::Disk), count(&machine, SlotState::Empty)), (80, 4));
    // Each disk stands where the number on its slot says.
    for (at, disk) in machine.disks.iter().enumerate() {
        let (_, slot) = machine.slot_of(disk).unwrap();
        assert_eq!(disk.serial, Some(format!("ZL2{:05}", slot.number)));
        assert_eq!((slot.disk, disk.paths.len(), disk.kind), (Some(at), 1, DiskKind::Hdd));
        assert_eq!(disk.paths[0].hops.len(), 5, "two on PCI, three ports");
    }
    let layout = Layout::of(enclosure);
    let shape: Vec<_> = layout.panels.iter().map(|panel| (panel.title.as_str(), panel.rows.len())).collect();
    assert_eq!(shape, [("top drawer", 3), ("bottom drawer", 3)]);
    assert_eq!(layout.panels[1].rows[0].first(), Some(&42));
    let host = &machine.hosts["host7"];
    assert_eq!(
        (host.kind, host.has_sas_objects, host.pci.as_deref()),
        (HostKind::Sas, true, Some("0000:18:00.0"))
    );
    assert_eq!(machine.disks[0].size, Some(16_000_900_661_248));
    assert_eq!((machine.disks[0].celsius, machine.disks[0].power_on_hours), (Some(34), Some(21_000)));
    assert_eq!(machine.find("/dev/sdb"), [1]);
    assert_eq!(machine.find("ZL200001"), [1]);
    assert_eq!(machine.find("5000c500a1000103"), [1]);
    assert_eq!(machine.find("7:0:1:0"), [1]);
}

#[test]
fn verdicts_of_eighty_disks() {
    let machine = machine("me484-one-path");
    let enclosure = ["enclosure-fault", "enclosure-expects-failure", "enclosure-status"];
    let expected = [
        one("sdf", Verdict::Watch, &["data-lost"]),
        one("sdj", Verdict::Watch, &["hot"]),
        one("sdk", Verdict::Watch, &["too-hot"]),
        one("sdm", Verdict::Replace, &["failure-expected"]),
        one("sdu", Verdict::Watch, &["defects"]),
        one("sdae", Verdict::Replace, &enclosure),
    ];
    assert_eq!(bad(&machine, None), expected);
    let findings = Health::of(&machine, None).findings;
    let [Finding::Part(0, _, name, ElementCode::Critical, _)] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!(name, "Fan 3");
}

/// A row of KISTI's table on a real topology: four lanes at 12 Gbit/s, generation 3.
#[test]
fn one_cable_limits_eighty_disks() {
    let found = rows(&machine("me484-one-path"));
    let [way] = &found.ways[..] else { panic!("{:?}", found.ways) };
    assert_eq!((way.sas.map(f64::round), way.pcie.map(f64::round)), (Some(4400.0), Some(6302.0)));
    assert_eq!((way.carried.round(), way.limit.clone()), (4400.0, Some(Hop::Port("port-7:0".into()))));
    assert_eq!((way.hdds, way.ssds, way.needs), (19, 8, 80.0 * 230.0));
    assert_eq!((found.carried.round(), found.network.round()), (4400.0, 12_392.0));
    let trunk = link(&found, "port-7:0:0");
    assert_eq!((trunk.now.words(LinkKind::Sas), trunk.disks.len()), ("8 x 12 Gbit/s".into(), 42));
    assert!(trunk.is_limit() && !trunk.is_degraded());
    assert!(!link(&found, "port-7:0:1").is_limit(), "38 disks are fewer than it carries");
    assert!(
        found.links.iter().all(|row| row.carried <= row.usable + 0.1),
        "no link carries more than it can"
    );
}

#[test]
fn a_disk_on_two_paths_is_one_disk() {
    let mut machine = machine("me484-two-path");
    assert_eq!(machine.disks.iter().map(|disk| disk.paths.len()).sum::<usize>(), 159);
    let first = machine.disks.iter().find(|disk| disk.serial.as_deref() == Some("ZL200000")).unwrap();
    let hosts: Vec<_> = first.paths.iter().map(|path| path.host.as_deref().unwrap()).collect();
    assert_eq!((first.multipath.as_deref(), hosts), (Some("mpatha"), vec!["host7", "host8"]));
    assert_eq!(
        first.paths.iter().map(|path| machine.node_of(&path.hops)).collect::<Vec<_>>(),
        [Some(0), Some(1)]
    );
    // The two services processes are of one enclosure, and its slots are told once.
    let [enclosure] = &machine.enclosures[..] else { panic!("{}", machine.enclosures.len()) };
    assert_eq!((enclosure.services.len(), enclosure.slots.len()), (2, 84));
    let slot: &Slot = &enclosure.slots[0];
    assert_eq!((slot.at.len(), slot.addresses.len()), (2, 2));
    // One path is lost.
    assert!(bad(&machine, None).contains(&one("mpathr", Verdict::Watch, &["few-paths"])));
    let found = rows(&machine);
    assert_eq!((found.ways.len(), found.carried.round()), (2, 8800.0));
    // What host7 moves is on node 0, the network on node 1.
    let (beyond, link) = found.between_nodes.unwrap();
    assert_eq!((beyond.round(), link), (4400.0, 19_200.0));
    // Where no enclosure tells of its disks, those of a model are compared.
    machine.disks.iter_mut().for_each(|disk| disk.place = None);
    let told = bad(&machine, None);
    assert!(told.iter().any(|(name, _, why)| name == "mpathr" && why.contains(&"few-paths")), "{told:?}");
}

#[test]
fn zoning_hides_half_of_sixty_disks() {
    let machine = machine("data60-zoned");
    assert_eq!((count(&machine, SlotState::Disk), count(&machine, SlotState::Hidden)), (30, 30));
    let findings = Health::of(&machine, None).findings;
    let [Finding::Hidden(0, slots)] = &findings[..] else { panic!("{findings:?}") };
    assert!(slots.len() == 30 && slots.iter().all(|slot| slot % 2 == 1));
    let found = rows(&machine);
    assert_eq!(link(&found, "port-2:0:0").now.words(LinkKind::Sas), "10 x 12 Gbit/s");
    // Two cables of four lanes: the slot of the adapter is what limits. A third and fourth connector are
    // free.
    let cables = link(&found, "port-2:0");
    assert!(!cables.is_degraded(), "{cables:?}");
    assert_eq!((cables.usable.round(), found.ways[0].carried.round()), (8800.0, 6302.0));
    assert_eq!(found.ways[0].limit, Some(Hop::Pci("0000:3b:00.0".into())));
}

#[test]
fn drives_behind_a_switch() {
    let machine = machine("nvme-switch");
    let found = rows(&machine);
    let [way] = &found.ways[..] else { panic!("{:?}", found.ways) };
    assert_eq!((way.disks.len(), way.carried.round(), way.node), (8, 25_206.0, Some(1)));
    assert_eq!(way.limit, Some(Hop::Pci("0000:c1:00.0".into())), "the upper side of the switch");
    // Links are between root port and switch, and between switch and drives: not within the switch.
    assert_eq!(found.links.len(), 9);
    let narrow = link(&found, "0000:c9:00.0");
    assert!(narrow.is_degraded());
    assert_eq!((narrow.now.lanes(), narrow.possible.lanes()), (2, 4));
    let expected = [
        one("nvme3n1", Verdict::Replace, &["degraded", "data-lost"]),
        one("nvme4n1", Verdict::Watch, &["worn"]),
    ];
    assert_eq!(bad(&machine, None), expected);
    assert_eq!((machine.disks[0].celsius, machine.disks[0].power_on_hours), (Some(38), Some(9_000)));
    // The network is on the other socket, and one link between them is slower than it.
    let (beyond, between) = found.between_nodes.unwrap();
    assert!(beyond > between, "{beyond} {between}");
}

#[test]
fn half_of_a_cable_is_down() {
    let machine = machine("half-cable");
    let found = rows(&machine);
    let cable = link(&found, "port-0:0");
    let words = |row: &LinkRow| (row.now.words(row.kind), row.possible.words(row.kind));
    assert_eq!(words(cable), ("2 x 12 Gbit/s".into(), "4 x 12 Gbit/s".into()));
    assert!(cable.is_degraded() && cable.is_limit());
    let findings = Health::of(&machine, None).findings;
    assert!(
        matches!(&findings[..], [Finding::Degraded(Hop::Port(port), _, _)] if port == "port-0:0"),
        "{findings:?}"
    );
    let expected = [
        one("sdf", Verdict::Watch, &["data-lost"]),
        one("sdg", Verdict::Watch, &["defects"]),
        one("sdh", Verdict::Watch, &["slow-link"]),
        one("sdk", Verdict::Watch, &["defects"]),
        one("sdl", Verdict::Replace, &["smart-attribute", "defects"]),
    ];
    assert_eq!(bad(&machine, None), expected);
    // Two disks of the twelve are SATA: SMART tells of them.
    let sata = &machine.disks[machine.find("sdk")[0]];
    assert_eq!((sata.celsius, sata.power_on_hours), (Some(33), Some(17_500)));
    assert_eq!(sata.counters.get(Counter::Pending), Some(8));
}

#[test]
fn what_has_grown_in_an_hour() {
    let (before, now) = (machine("half-cable"), machine("half-cable-later"));
    let since = Since::of(&before, &now);
    assert_eq!(since.seconds, Some(3_600));
    assert_eq!(since.gone.iter().map(ToString::to_string).collect::<Vec<_>>(), ["naa.5000c500a1026303"]);
    assert!(since.new.is_empty());
    let expected = [
        one("sdc", Verdict::Watch, &["link-errors-since", "link-errors-since", "link-errors-since"]),
        one("sdf", Verdict::Replace, &["data-lost-since"]),
        one("sdg", Verdict::Watch, &["defects-since"]),
        one("sdh", Verdict::Watch, &["slow-link"]),
        one("sdk", Verdict::Watch, &["defects"]),
    ];
    assert_eq!(bad(&now, Some(&since)), expected);
    let health = Health::of(&now, Some(&since));
    let lost = &health.disks[now.find("sdf")[0]].reasons;
    assert_eq!(lost[0], Reason::LostSince(Counter::ReadUncorrected, 3));
    let words: Vec<&str> = health.findings.iter().map(Finding::word).collect();
    let link = "link-errors-since";
    assert_eq!(words, ["degraded-link", "disk-gone", link, link, link, "pci-errors-since"]);
    assert!(health.findings.contains(&Finding::PciSince("0000:01:00.0".into(), [5, 0, 0])));
    // The other way round everything has fallen: counters that were reset tell nothing.
    let back = Since::of(&now, &before);
    assert!(bad(&before, Some(&back)).iter().all(|(_, _, words)| !words.contains(&"data-lost-since")));
}

/// An answer that one of two looks has not is no growth.
#[test]
fn a_look_without_answers_is_compared_with_care() {
    let now = machine("half-cable-later");
    let mut before = machine("half-cable");
    for disk in &mut before.disks {
        disk.answered = topology::Answered::Nothing("nobody was root".into());
        disk.counters.0.retain(|counter, _| counter.is_link());
    }
    let since = Since::of(&before, &now);
    assert!(since.disks.values().flatten().all(|(counter, _)| !counter.is_link()), "{:?}", since.disks);
}

/// Neither SAS objects nor the `ses` driver: disks are found in their slots by what devices say themselves.
#[test]
fn a_driver_that_shows_no_links() {
    let machine = machine("mpi3mr-24g");
    assert!(machine.ports.is_empty() && machine.expanders.is_empty());
    assert_eq!((count(&machine, SlotState::Disk), count(&machine, SlotState::Empty)), (12, 12));
    assert_eq!(machine.disks[0].paths[0].megabits, Some(22_500), "log page 18h tells it");
    let way = &rows(&machine).ways[0];
    assert!(way.is_blind && way.sas.is_none());
    let words: Vec<&str> = Health::of(&machine, None).findings.iter().map(Finding::word).collect();
    assert_eq!(words, ["degraded-link", "no-sas-objects"]);
    assert_eq!(bad(&machine, None), [one("sde", Verdict::Replace, &["worn"])]);
}

/// The five rows of KISTI on five adapters. As published the last is 6400: with the coding of generation 3
/// it is 6302.
#[test]
fn five_adapters_are_the_five_rows() {
    let machine = machine("kisti-five");
    let found = rows(&machine);
    let of = |what: fn(&topology::bottleneck::WayRow) -> f64| found.ways.iter().map(what).map(f64::round);
    assert_eq!(of(|way| way.carried).collect::<Vec<_>>(), [2200.0, 3200.0, 3200.0, 4400.0, 6302.0]);
    assert_eq!(found.ways.iter().map(|way| way.hdds).collect::<Vec<_>>(), [9, 13, 13, 19, 27]);
    let published: Vec<f64> = kisti_table().iter().map(|row| row.published.round()).collect();
    assert_eq!(published, [2200.0, 3200.0, 3200.0, 4400.0, 6400.0]);
    let limits: Vec<_> = found.ways.iter().map(|way| way.limit.clone().unwrap()).collect();
    let pci = |name: &str| Hop::Pci(name.into());
    let port = |name: &str| Hop::Port(name.into());
    assert_eq!(
        limits,
        [port("port-0:0"), pci("0000:11:00.0"), pci("0000:21:00.0"), port("port-3:0"), pci("0000:41:00.0")]
    );
    // Nobody was asked: nothing is known, and nothing is said to be good.
    assert_eq!(
        Health::of(&machine, None).counts().into_iter().collect::<Vec<_>>(),
        [(Verdict::Unknown, 140)]
    );
}

#[test]
fn a_virtual_machine_has_its_disk_and_nothing_else() {
    let machine = machine("virtio");
    let [disk] = &machine.disks[..] else { panic!("{:?}", machine.disks) };
    assert_eq!((disk.name(), disk.kind, disk.size), ("vda", DiskKind::Virtual, Some(274_877_906_944)));
    assert!(machine.enclosures.is_empty() && machine.hosts.is_empty());
    let found = rows(&machine);
    assert!(found.links.is_empty() && found.needs == 0.0);
}
