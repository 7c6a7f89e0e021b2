//! `kist library scan`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use archive::ChapSettings;
use base::ByteCount;
use library::scsi::changer::{
    Barcode, ChangerReport, ChangerTimes, DriveSeat, Holdings, ScsiLibrary, ScsiLibraryConfig, SeenElement,
};
use library::scsi::{
    DeviceChoice, DeviceType, ElementAddress, ElementType, Found, FoundDevice, FoundDevices, IscsiName,
    Sources, Ways, discover, drive_abilities, portal,
};
use library::{ChangerAlert, LibraryCondition, Place};
use serde_json::{Map, Value, json};
use terminal::{Exit, Failure, Outcome, Table, output, text};

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Looks at the portals that are named and at the SCSI devices of this machine. A device
is known by its serial number, whatever its address is today. Nothing is moved.

Examples:
  kist library scan
  kist library scan --portal tape1.example.org:3260
  kist library scan --portal tape1 --chap-user kist --chap-secret-file chap --json")]
pub struct Args {
    #[command(flatten)]
    reach: Reach,
}

/// Where libraries are looked for, and who asks.
#[derive(clap::Args, Debug)]
pub struct Reach {
    /// Ask this iSCSI portal for its targets; may be given several times
    #[arg(long = "portal", value_name = "HOST:PORT")]
    portals: Vec<String>,
    /// The name to ask under; default: one made of this machine's
    #[arg(long, value_name = "IQN")]
    initiator: Option<String>,
    /// Prove under this name who asks (CHAP)
    #[arg(long, value_name = "NAME", requires = "chap_secret_file")]
    chap_user: Option<String>,
    /// The file of the secret for it
    #[arg(long, value_name = "FILE", requires = "chap_user")]
    chap_secret_file: Option<PathBuf>,
}

impl Reach {
    /// Whether a portal was named.
    pub fn is_named(&self) -> bool {
        !self.portals.is_empty()
    }

    /// The initiator's name and account as a configuration has them.
    pub fn settings(&self) -> Outcome<(Option<IscsiName>, Option<ChapSettings>)> {
        let initiator = self.initiator.as_deref().map(IscsiName::new).transpose();
        let chap = self.chap_user.as_ref().zip(self.chap_secret_file.as_ref());
        let chap = chap.map(|(user, file)| ChapSettings { user: user.clone(), secret_file: file.clone() });
        Ok((initiator.map_err(|error| Failure::usage(error.to_string()))?, chap))
    }

    /// The ways, and where they lead to.
    pub fn ways(&self) -> Outcome<(Ways, Sources)> {
        let portals = self.portals.iter().map(|text| portal(text)).collect::<Result<Vec<_>, _>>();
        let portals = portals.map_err(|error| Failure::usage(error.to_string()))?;
        let (initiator, chap) = self.settings()?;
        let ways = archive::scsi_ways(initiator, chap.as_ref());
        let ways = ways.map_err(|error| Failure::usage(error.to_string()))?;
        Ok((ways, Sources::with_this_machine(portals)))
    }
}

/// A changer and what was found of it.
pub struct ChangerFound {
    pub device: FoundDevice,
    /// `None`: it could not be asked, for this reason.
    pub report: Result<ChangerReport, String>,
    /// The device of each drive element, if it was found.
    drives: BTreeMap<ElementAddress, Option<FoundDevice>>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let (ways, sources) = args.reach.ways()?;
    let found = discover(&ways, &sources);
    let changers: Vec<ChangerFound> = found
        .of_type(DeviceType::Changer)
        .map(|device| ChangerFound::of(device.clone(), &ways, &sources, &found))
        .collect();
    let placed: Vec<&FoundDevice> = changers.iter().flat_map(|one| one.drives.values().flatten()).collect();
    let loose: Vec<&FoundDevice> =
        found.of_type(DeviceType::Tape).filter(|drive| !placed.contains(drive)).collect();
    if common.json {
        output::json(&as_json(&changers, &loose, &found, (&ways, &sources), &args.reach))?;
    } else {
        output::write(&written(&changers, &loose, &found, (&ways, &sources), &args.reach))?;
    }
    match found.devices.is_empty() {
        true => Err(Failure::new(Exit::NotFound, nothing_found(&found))),
        false => Ok(()),
    }
}

/// Why nothing was found, as far as that is known, and what to do.
fn nothing_found(found: &Found) -> String {
    let nothing = "no changer and no tape drive was found";
    match found.failed.as_slice() {
        [] => format!("{nothing}: name the portal of one with --portal"),
        failed => format!("{nothing}; {}", failed.join("; ")),
    }
}

impl ChangerFound {
    pub fn of(device: FoundDevice, ways: &Ways, sources: &Sources, found: &Found) -> ChangerFound {
        // No drive is ours: nothing of the library is taken into use.
        let config = ScsiLibraryConfig {
            slots: None,
            drives: Vec::new(),
            capacity: ByteCount(0),
            times: ChangerTimes::default(),
        };
        let devices = FoundDevices {
            ways: ways.clone(),
            sources: sources.clone(),
            changer: DeviceChoice::At(device.address.clone()),
            make: Box::new(|name, way| archive::scsi_drive(name, way, None)),
        };
        let opened = ScsiLibrary::new(config, Arc::new(devices), Arc::clone(&ways.waiter));
        let report = opened.map_err(|error| error.to_string()).and_then(|library| {
            use library::Library as _;
            library.report().ok_or_else(|| library.out_of_reach().join("; "))
        });
        let elements = report.iter().flat_map(|report| &report.elements);
        let drives = elements
            .filter(|(_, element)| element.kind == ElementType::DataTransfer)
            .map(|(at, element)| (*at, drive_at(*at, element, &device.serial, found).cloned()))
            .collect();
        ChangerFound { device, report, drives }
    }

    /// How it is named in a configuration.
    pub fn choice(&self) -> DeviceChoice {
        match self.device.serial.as_str() {
            "" => DeviceChoice::At(self.device.address.clone()),
            serial => DeviceChoice::Serial(serial.to_owned()),
        }
    }

    /// How its drives are named there, by element; `None`: the drive was not found.
    pub fn seats(&self) -> BTreeMap<ElementAddress, Option<DriveSeat>> {
        let elements = self.report.as_ref().map(|report| &report.elements);
        let seat = |(at, drive): (&ElementAddress, &Option<FoundDevice>)| {
            let tells = elements.is_ok_and(|all| all.get(at).is_some_and(|one| one.identifier.is_some()));
            let seat = drive.as_ref().map(|drive| match tells {
                true => DriveSeat::Serial(drive.serial.clone()),
                false => DriveSeat::SerialAt(drive.serial.clone(), *at),
            });
            (*at, seat)
        };
        self.drives.iter().map(seat).collect()
    }

    /// What stands in the configuration for it.
    fn configuration(&self, sources: &Sources, reach: &Reach) -> String {
        let changer = self.choice();
        let mut text = format!("[library]\nkind = \"scsi\"\nchanger = \"{changer}\"\n");
        if !sources.portals.is_empty() {
            let quoted: Vec<String> = sources.portals.iter().map(|one| format!("\"{one}\"")).collect();
            let _ = writeln!(text, "portals = [{}]", quoted.join(", "));
        }
        // Nobody is let in without them: what reached the library now is to reach it then.
        if let Some(name) = &reach.initiator {
            let _ = writeln!(text, "initiator = {}", quoted(name));
        }
        if let Some((user, file)) = reach.chap_user.as_ref().zip(reach.chap_secret_file.as_ref()) {
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            let (user, file) = (quoted(user), quoted(&file.display().to_string()));
            let _ = writeln!(text, "chap = {{ user = {user}, secret_file = {file} }}");
        }
        text.push_str("drives = [\n");
        for (at, seat) in self.seats() {
            let _ = match seat {
                Some(DriveSeat::Serial(serial)) => writeln!(text, "  \"serial:{serial}\","),
                Some(DriveSeat::SerialAt(serial, at)) => writeln!(text, "  \"{at}=serial:{serial}\","),
                Some(DriveSeat::Number(_)) | None => {
                    writeln!(text, "  # element {at}: its drive was not found")
                }
            };
        }
        text.push_str("]\n");
        if let Ok(report) = &self.report
            && let Some(barcode) = unknown_medium(report)
        {
            let _ =
                writeln!(text, "# The label {barcode} does not say what medium it is: say what it holds.");
            text.push_str("# cartridge_capacity = \"12TB\"\n");
        }
        text
    }
}

/// A text as TOML has it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// The label of a cartridge that does not say what medium it is.
fn unknown_medium(report: &ChangerReport) -> Option<String> {
    let held = report.holdings();
    let barcodes = held.cartridges.into_values().filter_map(|cartridge| cartridge.barcode);
    barcodes.filter(|barcode| barcode.capacity().0 == 0).map(|barcode| barcode.to_string()).next()
}

/// The device of a drive element: the one that the changer names, or that says itself where it stands.
fn drive_at<'a>(
    at: ElementAddress,
    element: &SeenElement,
    changer: &str,
    found: &'a Found,
) -> Option<&'a FoundDevice> {
    let named = |drive: &&FoundDevice| {
        element.identifier.as_ref().is_some_and(|identifier| drive.is_named_by(identifier))
    };
    let says =
        |drive: &&FoundDevice| drive.element == Some(at) && drive.library_serial.as_deref() == Some(changer);
    let drives = || found.of_type(DeviceType::Tape).filter(|drive| !drive.serial.is_empty());
    drives().find(named).or_else(|| drives().find(says))
}

fn place_words(place: &Place) -> String {
    match place {
        Place::Slot(slot) => format!("slot {slot}"),
        Place::Drive(element) => format!("drive at {element}"),
        Place::ImportExport(slot) => format!("import/export {slot}"),
        Place::Unknown => "in the hand".to_owned(),
    }
}

/// Elements of a type, and how many of them are full.
fn counted(report: &ChangerReport, kind: ElementType) -> (usize, usize) {
    let all = || report.elements.values().filter(move |element| element.kind == kind);
    (all().count(), all().filter(|element| element.full).count())
}

fn device_json(device: &FoundDevice) -> Value {
    json!({
        "address": device.address.to_string(),
        "serial": device.serial,
        "vendor": device.vendor,
        "product": device.product,
        "revision": device.revision,
    })
}

fn drive_json(device: &FoundDevice, ways: &Ways) -> Value {
    let mut value = device_json(device);
    value["can"] = json!(drive_abilities(ways, &device.address));
    value
}

fn cartridges_json(held: &Holdings) -> Vec<Value> {
    let one = |(vid, cartridge): (&base::Vid, &library::scsi::changer::SeenCartridge)| {
        json!({
            "vid": vid.as_str(),
            "barcode": cartridge.barcode.as_ref().map(Barcode::as_str),
            "suffix": cartridge.barcode.as_ref().and_then(Barcode::suffix),
            "place": place_words(&cartridge.place),
        })
    };
    held.cartridges.iter().map(one).collect()
}

fn as_json(
    changers: &[ChangerFound],
    loose: &[&FoundDevice],
    found: &Found,
    (ways, sources): (&Ways, &Sources),
    reach: &Reach,
) -> Value {
    let changer = |one: &ChangerFound| {
        let mut value = device_json(&one.device);
        value["configuration"] = json!(one.configuration(sources, reach));
        let drives = one.drives.iter().map(|(at, drive)| {
            let mut value = drive.as_ref().map_or_else(|| json!({}), |drive| drive_json(drive, ways));
            value["element"] = json!(at.0);
            value
        });
        value["drives"] = drives.collect();
        match &one.report {
            Err(why) => value["error"] = json!(why),
            Ok(report) => {
                let held = report.holdings();
                let elements = |kind| {
                    let (count, full) = counted(report, kind);
                    json!({ "count": count, "full": full })
                };
                value["can"] = json!(abilities(report));
                condition_json(&report.condition, &mut value);
                value["slots"] = elements(ElementType::Storage);
                value["import_export"] = elements(ElementType::ImportExport);
                value["cartridges"] = json!(cartridges_json(&held));
                value["cleaning"] = held
                    .cleaning
                    .iter()
                    .map(|one| {
                        let barcode = one.barcode.as_ref().map(Barcode::as_str);
                        json!({ "barcode": barcode, "place": place_words(&one.place) })
                    })
                    .collect();
                value["without_vid"] = json!(held.without_vid);
            }
        }
        value
    };
    json!({
        "changers": changers.iter().map(changer).collect::<Vec<_>>(),
        "drives": loose.iter().map(|drive| drive_json(drive, ways)).collect::<Vec<_>>(),
        "failed": found.failed,
    })
}

/// What a changer says of itself: what it does not tell is null, or not there.
fn condition_json(condition: &LibraryCondition, value: &mut Value) {
    let LibraryCondition { library: _, alerts, celsius, counts } = condition;
    let alert =
        |alert: &ChangerAlert| json!({ "flag": alert.0, "name": alert.name(), "meaning": alert.meaning() });
    value["alerts"] = alerts.iter().map(alert).collect();
    value["celsius"] = json!(celsius);
    value["robot"] = counts
        .iter()
        .map(|(what, count)| (what.word().to_owned(), json!(count)))
        .collect::<Map<_, _>>()
        .into();
}

/// The same for people, a line for each thing.
fn condition_text(condition: &LibraryCondition) -> Vec<String> {
    let LibraryCondition { library: _, alerts, celsius, counts } = condition;
    let mut lines: Vec<String> = alerts.iter().map(|alert| format!("raised {alert}")).collect();
    let celsius = celsius.map(|celsius| format!("{celsius} \u{b0}C"));
    // What never happened says nothing.
    let done = counts.iter().filter(|(_, count)| *count > 0);
    let done = done.map(|(what, count)| format!("{} {count}", what.word().replace('_', " ")));
    let told: Vec<String> = celsius.into_iter().chain(done).collect();
    if !told.is_empty() {
        lines.push(told.join(", "));
    }
    lines
}

/// What a changer can do, in words.
fn abilities(report: &ChangerReport) -> Vec<&'static str> {
    let can = &report.abilities;
    let all = [
        (can.volume_tags, "volume tags"),
        (can.identifiers, "identifiers of drives"),
        (can.exchange, "exchange"),
        (can.initialize_range, "look at some slots"),
    ];
    all.into_iter().filter(|(can, _)| *can).map(|(_, word)| word).collect()
}

fn written(
    changers: &[ChangerFound],
    loose: &[&FoundDevice],
    found: &Found,
    (ways, sources): (&Ways, &Sources),
    reach: &Reach,
) -> String {
    let mut out = String::new();
    for one in changers {
        changer_text(&mut out, one, ways, &one.configuration(sources, reach));
    }
    if !loose.is_empty() {
        out.push_str("Drives of no changer that was found:\n");
        let mut table = Table::new(&DRIVE_HEADINGS);
        loose.iter().for_each(|drive| table.row(drive_row("-".to_owned(), Some(drive), "", ways)));
        let _ = writeln!(out, "{}", table.render());
    }
    for failed in &found.failed {
        let _ = writeln!(out, "Not reached: {failed}");
    }
    out
}

const DRIVE_HEADINGS: [&str; 7] = [">element", "drive", "revision", "serial", "holds", "address", "can"];

fn drive_row(at: String, drive: Option<&FoundDevice>, holds: &str, ways: &Ways) -> Vec<String> {
    let Some(drive) = drive else {
        return [at.as_str(), "not found", "-", "-", holds, "-", "-"].map(str::to_owned).to_vec();
    };
    let can = drive_abilities(ways, &drive.address).map_or_else(|| "-".to_owned(), |can| can.join(", "));
    vec![
        at,
        format!("{} {}", drive.vendor, drive.product),
        drive.revision.clone(),
        drive.serial.clone(),
        holds.to_owned(),
        drive.address.to_string(),
        can,
    ]
}

fn changer_text(out: &mut String, one: &ChangerFound, ways: &Ways, configuration: &str) {
    let FoundDevice { address, vendor, product, revision, serial, .. } = &one.device;
    // Writing into a String cannot fail.
    let _ = writeln!(out, "Changer {vendor} {product} {revision}, serial number {serial}, at {address}");
    let report = match &one.report {
        Ok(report) => report,
        Err(why) => {
            let _ = writeln!(out, "  cannot be asked: {why}\n");
            return;
        }
    };
    let held = report.holdings();
    let (slots, full) = counted(report, ElementType::Storage);
    let (doors, in_doors) = counted(report, ElementType::ImportExport);
    let _ = writeln!(out, "  can: {}", abilities(report).join(", "));
    for line in condition_text(&report.condition) {
        let _ = writeln!(out, "  {line}");
    }
    let _ = writeln!(
        out,
        "  {full} of {} full, {in_doors} of {} full; {} with a VID, {} for cleaning",
        text::plural(slots as u64, "slot"),
        text::plural(doors as u64, "import/export slot"),
        text::plural(held.cartridges.len() as u64, "cartridge"),
        held.cleaning.len()
    );
    for without in &held.without_vid {
        let _ = writeln!(out, "  left alone: {without}");
    }
    let mut table = Table::new(&DRIVE_HEADINGS);
    for (at, drive) in &one.drives {
        let element = report.elements.get(at).filter(|element| element.full);
        let holds = element.map_or("-", |element| element.barcode.as_ref().map_or("?", Barcode::as_str));
        table.row(drive_row(at.to_string(), drive.as_ref(), holds, ways));
    }
    // A heading over nothing says nothing.
    if !one.drives.is_empty() {
        let _ = writeln!(out, "\n{}", table.render());
    }
    let mut table = Table::new(&["VID", "barcode", "place"]);
    for (vid, cartridge) in &held.cartridges {
        let barcode = cartridge.barcode.as_ref().map_or("-", Barcode::as_str);
        table.row(vec![vid.to_string(), barcode.to_owned(), place_words(&cartridge.place)]);
    }
    for cleaner in &held.cleaning {
        let vid = cleaner.vid.as_ref().map_or_else(|| "-".to_owned(), base::Vid::to_string);
        let barcode = cleaner.barcode.as_ref().map_or("-", Barcode::as_str);
        table.row(vec![vid, barcode.to_owned(), format!("{} (cleaning)", place_words(&cleaner.place))]);
    }
    if !held.cartridges.is_empty() || !held.cleaning.is_empty() {
        let _ = writeln!(out, "{}", table.render());
    }
    let _ = writeln!(out, "For kist.toml:\n\n{configuration}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changer() -> ChangerFound {
        let device = FoundDevice {
            address: "/dev/sg3".parse().unwrap(),
            device_type: DeviceType::Changer,
            vendor: "KIST".to_owned(),
            product: "VTL".to_owned(),
            revision: "1".to_owned(),
            serial: "S1".to_owned(),
            identifiers: Vec::new(),
            library_serial: None,
            element: None,
        };
        ChangerFound { device, report: Err("not asked".to_owned()), drives: BTreeMap::new() }
    }

    /// Story: who had named a portal was told to name one.
    #[test]
    fn what_could_not_be_asked_is_why_nothing_was_found() {
        assert!(nothing_found(&Found::default()).contains("--portal"));
        let failed = vec!["portal tape1:3260: cannot connect".to_owned()];
        let said = nothing_found(&Found { failed, ..Found::default() });
        assert!(
            said.ends_with("; portal tape1:3260: cannot connect") && !said.contains("--portal"),
            "{said}"
        );
    }

    /// Story: a library was found with a name and a secret, and what was printed for `kist.toml` had neither:
    /// the server was not let in.
    #[test]
    fn what_is_printed_for_kist_toml_says_who_asks() {
        let sources = Sources::with_this_machine(Vec::new());
        let reach = |initiator: Option<&str>, user: Option<&str>| Reach {
            portals: Vec::new(),
            initiator: initiator.map(str::to_owned),
            chap_user: user.map(str::to_owned),
            chap_secret_file: user.map(|_| PathBuf::from("a \"secret\"")),
        };
        let read = |reach: &Reach| {
            changer().configuration(&sources, reach).parse::<toml::Table>().unwrap()["library"].clone()
        };
        let plain = read(&reach(None, None));
        assert!(plain.get("chap").is_none() && plain.get("initiator").is_none(), "{plain}");
        let library = read(&reach(Some("iqn.2026-11.example:kist"), Some("ki\"st")));
        assert_eq!(library["initiator"].as_str(), Some("iqn.2026-11.example:kist"));
        assert_eq!(library["chap"]["user"].as_str(), Some("ki\"st"));
        let file = PathBuf::from(library["chap"]["secret_file"].as_str().unwrap());
        // A relative one in kist.toml is one of the instance's directory.
        assert_eq!(file, std::env::current_dir().unwrap().join("a \"secret\""));
    }
}
