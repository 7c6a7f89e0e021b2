//! `kist kinetic`: network drives, one at a time, without a server of Kist.

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;

use bytes::Bytes;
use kinetic::{
    Algorithm, Answer, Change, ClusterVersion, Delete, Entry, KeyRange, Metadata, PowerLevel, Put, Request,
    Synchronization, TagCheck, VALUE_BYTES_MAX, Which, check_tag, crc32c_tag,
};
use serde_json::{Value, json};
use terminal::{Exit, Failure, Outcome, Progress, Table, output, text};

use crate::cli::Common;
use crate::commands::kinetic_at::{Access, Reached, parse_bytes, shown, word};
use crate::commands::{kinetic_acl, kinetic_discover, kinetic_log, kinetic_pin, kinetic_push};

/// Keys of a page where a drive does not say how many it gives.
const PAGE_KEYS_MAX: u32 = 1000;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Open Kinetic drives are servers of keys and values: Seagate's, and any disk behind
'kist drive serve'. A drive is HOST or HOST:PORT; several addresses of one drive
stand behind each other with commas. Keys and versions are text, in which \\xNN is
a byte and \\\\ a backslash.

These commands speak to one drive and know nothing of pools. What a pool of Kist
has on a drive is its own: to put or remove keys there destroys files.

Examples:
  kist kinetic discover
  kist kinetic log d1
  kist kinetic ls d1 --prefix C:data: -l
  kist kinetic get d1 C:metadata:/f out.bin
  kist kinetic scan d1")]
pub struct Args {
    #[command(flatten)]
    access: Access,
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Find drives that announce themselves in this network
    Discover(kinetic_discover::Args),
    /// List keys
    Ls(LsArgs),
    /// Show version, tag and size of the value of a key
    Stat(KeyArgs),
    /// Get the value of a key; checked by its tag where that can be
    Get {
        #[command(flatten)]
        key: KeyArgs,
        /// Where to; '-' or nothing: standard output
        file: Option<PathBuf>,
    },
    /// Put a value, with a CRC-32C as its tag
    Put(PutArgs),
    /// Remove a key
    Rm(RmArgs),
    /// Have the drive check its values, or read them and check them here
    Scan(ScanArgs),
    /// Show what a drive knows of itself: utilisation, temperatures, capacity, statistics, limits
    Log(kinetic_log::Args),
    /// Have the drive put entries to another drive
    Push(kinetic_push::Args),
    /// Make durable what was written back
    Flush {
        /// The drive
        drive: String,
    },
    /// Replace who may do what with a drive
    Acl(kinetic_acl::Args),
    /// Set the cluster version: who belongs to another one is refused from then on
    SetClusterVersion {
        /// The drive
        drive: String,
        /// The version
        #[arg(allow_negative_numbers = true)]
        version: i64,
    },
    /// Change how awake a drive is
    Power {
        /// The drive
        drive: String,
        /// What it is to be
        #[arg(value_parser = ["operational", "hibernate", "shutdown"])]
        level: String,
    },
    /// Set the PIN for locking or erasing, over TLS
    SetPin(kinetic_pin::SetArgs),
    /// Lock a drive: nobody gets anything from it until it is unlocked; over TLS
    Lock(kinetic_pin::PinArgs),
    /// Unlock a drive, over TLS
    Unlock(kinetic_pin::PinArgs),
    /// Remove all data, keys of identities and PINs from a drive, over TLS
    Erase(kinetic_pin::EraseArgs),
}

#[derive(clap::Args, Debug)]
struct KeyArgs {
    /// The drive
    drive: String,
    /// The key
    #[arg(value_parser = parse_bytes)]
    key: Bytes,
}

#[derive(clap::Args, Debug)]
struct LsArgs {
    /// The drive
    drive: String,
    /// Only keys that begin so
    #[arg(long, value_name = "KEY", value_parser = parse_bytes, default_value = "")]
    prefix: Bytes,
    /// Begin with this key
    #[arg(long, value_name = "KEY", value_parser = parse_bytes)]
    from: Option<Bytes>,
    /// At most so many
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// With version, tag and size; each is asked for
    #[arg(short, long)]
    long: bool,
}

#[derive(clap::Args, Debug)]
struct PutArgs {
    #[command(flatten)]
    key: KeyArgs,
    /// The file with the value; '-': standard input
    file: PathBuf,
    #[command(flatten)]
    condition: Condition,
    /// The version that stands there afterwards [default: one that was never used]
    #[arg(long, value_name = "VERSION", value_parser = parse_bytes)]
    new_version: Option<Bytes>,
    /// Answered before it is durable: that is when the drive likes, or with the next flush
    #[arg(long)]
    write_back: bool,
}

#[derive(clap::Args, Debug)]
struct RmArgs {
    #[command(flatten)]
    key: KeyArgs,
    #[command(flatten)]
    condition: Condition,
}

/// What has to stand there.
#[derive(clap::Args, Debug)]
struct Condition {
    /// The version that has to stand there [default: nothing, or an empty one]
    #[arg(long, value_name = "VERSION", value_parser = parse_bytes, conflicts_with = "force")]
    if_version: Option<Bytes>,
    /// Whatever stands there
    #[arg(long)]
    force: bool,
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
The drive checks values whose tags it knows (CRC-32C, SHA-1), and what it has
beside them. --read brings them here and checks them here, which also finds what
happens on the way.

Examples:
  kist kinetic scan d1
  kist kinetic scan d1 --prefix C:data: --read")]
struct ScanArgs {
    /// The drive
    drive: String,
    /// Only keys that begin so
    #[arg(long, value_name = "KEY", value_parser = parse_bytes, default_value = "")]
    prefix: Bytes,
    /// Get each value and check it here
    #[arg(long)]
    read: bool,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let access = &args.access;
    let reach = |drive: &str| access.reach(drive, common);
    match &args.action {
        Action::Discover(args) => kinetic_discover::run(args, common),
        Action::Ls(args) => list(&reach(&args.drive)?, args, common),
        Action::Stat(args) => stat(&reach(&args.drive)?, &args.key, common),
        Action::Get { key, file } => get(&reach(&key.drive)?, &key.key, file.as_ref(), common),
        Action::Put(args) => put(&reach(&args.key.drive)?, args, common),
        Action::Rm(args) => remove(&reach(&args.key.drive)?, args, common),
        Action::Scan(args) => scan(&reach(&args.drive)?, args, common),
        Action::Log(args) => kinetic_log::run(&reach(args.drive())?, args, common),
        Action::Push(args) => kinetic_push::run(&reach(args.drive())?, args, common),
        Action::Flush { drive } => {
            reach(drive)?.ask("flush", Request::FlushAllData)?;
            output::done(common, &json!({ "drive": drive }), &format!("{drive}: all is durable"))
        }
        Action::Acl(args) => kinetic_acl::run(args, &reach, common),
        Action::SetClusterVersion { drive, version } => {
            let version = ClusterVersion(*version);
            reach(drive)?.ask("cluster version", Request::SetClusterVersion(version))?;
            let text = format!("{drive} belongs to cluster version {}", version.0);
            output::done(common, &json!({ "drive": drive, "cluster_version": version.0 }), &text)
        }
        Action::Power { drive, level } => {
            let power = match level.as_str() {
                "hibernate" => PowerLevel::Hibernate,
                "shutdown" => PowerLevel::Shutdown,
                _ => PowerLevel::Operational,
            };
            reach(drive)?.ask("power level", Request::SetPowerLevel(power))?;
            output::done(common, &json!({ "drive": drive, "power": level }), &format!("{drive}: {level}"))
        }
        Action::SetPin(args) => kinetic_pin::set(&reach(args.drive())?, args, common),
        Action::Lock(args) => kinetic_pin::lock(access, args, common),
        Action::Unlock(args) => kinetic_pin::unlock(access, args, common),
        Action::Erase(args) => kinetic_pin::erase(access, args, common),
    }
}

/// Keys from one on that begin with a prefix, a page at a time.
struct Pages<'a> {
    drive: &'a Reached,
    next: Bytes,
    is_first: bool,
    end: Bytes,
    end_inclusive: bool,
    most: u32,
}

impl<'a> Pages<'a> {
    fn new(drive: &'a Reached, prefix: &Bytes, from: Option<&Bytes>) -> Self {
        let bounds = drive.link.greeting().map(|greeting| greeting.bounds());
        let key_bytes = bounds.map_or(kinetic::assumed::KEY_BYTES, |bounds| bounds.key_bytes) as usize;
        // The first key that does not begin so; there is none where all bytes are 0xff.
        let end = match prefix.iter().rposition(|byte| *byte != u8::MAX) {
            Some(last) => {
                let mut end = prefix.slice(..=last).to_vec();
                end[last] += 1;
                Some(Bytes::from(end))
            }
            None => None,
        };
        let end_inclusive = end.is_none();
        Pages {
            drive,
            next: from.filter(|from| *from > prefix).unwrap_or(prefix).clone(),
            is_first: true,
            end: end.unwrap_or_else(|| vec![u8::MAX; key_bytes].into()),
            end_inclusive,
            most: bounds.map_or(kinetic::assumed::RANGE_KEYS, |bounds| bounds.range_keys).min(PAGE_KEYS_MAX),
        }
    }

    /// The next page; empty at the end.
    fn next(&mut self) -> Outcome<Vec<Bytes>> {
        let range = KeyRange {
            start: self.next.clone(),
            start_inclusive: self.is_first,
            end: self.end.clone(),
            end_inclusive: self.end_inclusive,
            max_returned: self.most,
            reverse: false,
        };
        let response = self.drive.ask("keys", Request::GetKeyRange(range))?;
        // An empty list has no body with some drives.
        let keys = if let Answer::Keys(keys) = response.answer { keys } else { Vec::new() };
        if let Some(last) = keys.last() {
            if !self.is_first && *last <= self.next {
                let message = format!("{}: its list of keys does not go on", self.drive.name);
                return Err(Failure::new(Exit::Internal, message));
            }
            (self.next, self.is_first) = (last.clone(), false);
        }
        Ok(keys)
    }
}

fn entry(drive: &Reached, key: &Bytes, metadata_only: bool) -> Outcome<Entry> {
    let request = Request::Get { which: Which::Exact, key: key.clone(), metadata_only };
    match drive.ask(&shown(key), request)?.answer {
        Answer::Entry(entry) if entry.key == *key || entry.key.is_empty() => Ok(entry),
        _ => Err(Failure::internal(format!("{}: the answer has another key, or none", drive.name))),
    }
}

/// The algorithm of a tag for people.
fn algorithm(metadata: &Metadata) -> String {
    let known = [
        (Algorithm::SHA1, "SHA-1"),
        (Algorithm::SHA2, "SHA-2"),
        (Algorithm::SHA3, "SHA-3"),
        (Algorithm::CRC32C, "CRC-32C"),
        (Algorithm::CRC64, "CRC-64"),
        (Algorithm::CRC32, "CRC-32"),
    ];
    match metadata.algorithm {
        None => "-".to_owned(),
        Some(algorithm) => match known.iter().find(|(one, _)| *one == algorithm) {
            Some((_, name)) => (*name).to_owned(),
            None => format!("number {}", algorithm.0),
        },
    }
}

fn metadata_json(key: &[u8], metadata: &Metadata) -> Value {
    json!({
        "key": shown(key),
        "version": shown(&metadata.version),
        "tag": text::hex(&metadata.tag),
        "algorithm": algorithm(metadata),
    })
}

fn list(drive: &Reached, args: &LsArgs, common: &Common) -> Outcome {
    let mut pages = Pages::new(drive, &args.prefix, args.from.as_ref());
    let mut left = args.limit.unwrap_or(u64::MAX);
    let mut list = if common.json { Some(output::JsonArray::begin()?) } else { None };
    while left > 0 {
        let mut keys = pages.next()?;
        if keys.is_empty() {
            break;
        }
        keys.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        left -= keys.len() as u64;
        let mut table = Table::new(&["version", "algorithm", "tag", "key"]);
        for key in &keys {
            let metadata = if args.long {
                match entry(drive, key, true) {
                    Ok(entry) => Some(entry.metadata),
                    // Removed since it was listed.
                    Err(failure) if failure.exit == Exit::NotFound => continue,
                    Err(failure) => return Err(failure),
                }
            } else {
                None
            };
            match (&mut list, metadata) {
                (Some(list), Some(metadata)) => list.push(&metadata_json(key, &metadata))?,
                (Some(list), None) => list.push(&json!({ "key": shown(key) }))?,
                (None, Some(metadata)) => table.row(vec![
                    text::or_dash(&shown(&metadata.version)),
                    algorithm(&metadata),
                    text::or_dash(&text::hex(&metadata.tag)),
                    shown(key),
                ]),
                (None, None) => output::line(&shown(key))?,
            }
        }
        if !table.is_empty() {
            output::write(&table.render())?;
        }
    }
    list.map_or(Ok(()), output::JsonArray::end)
}

fn stat(drive: &Reached, key: &Bytes, common: &Common) -> Outcome {
    // How large it is only the value itself says.
    let entry = entry(drive, key, false)?;
    let check = match check_tag(&entry.metadata, &entry.value) {
        TagCheck::Agrees => "agrees",
        TagCheck::Differs => "differs",
        TagCheck::Unknown => "cannot be checked",
    };
    let size = entry.value.len() as u64;
    if common.json {
        let mut value = metadata_json(key, &entry.metadata);
        value["bytes"] = json!(size);
        value["check"] = json!(check);
        return output::json(&value);
    }
    output::write(&format!(
        "key      {}\nsize     {}\nversion  {}\ntag      {} ({}, {check})\n",
        shown(key),
        text::size(size),
        text::or_dash(&shown(&entry.metadata.version)),
        text::or_dash(&text::hex(&entry.metadata.tag)),
        algorithm(&entry.metadata),
    ))
}

fn get(drive: &Reached, key: &Bytes, file: Option<&PathBuf>, common: &Common) -> Outcome {
    let entry = entry(drive, key, false)?;
    if check_tag(&entry.metadata, &entry.value) == TagCheck::Differs {
        let message = format!(
            "{} on {}: the value does not agree with its tag ({}): it is damaged, nothing was written",
            shown(key),
            drive.name,
            algorithm(&entry.metadata)
        );
        return Err(Failure::new(Exit::Differs, message));
    }
    match file.filter(|file| file.as_os_str() != "-") {
        None => output::bytes(&entry.value),
        Some(file) => {
            fs::write(file, &entry.value).map_err(|error| Failure::io("writing", file, &error))?;
            let bytes = entry.value.len() as u64;
            let mut value = metadata_json(key, &entry.metadata);
            value["bytes"] = json!(bytes);
            output::done(common, &value, &format!("{}: {}", file.display(), text::size(bytes)))
        }
    }
}

fn put(drive: &Reached, args: &PutArgs, common: &Common) -> Outcome {
    let value = value_of(&args.file)?;
    let version = match &args.new_version {
        Some(version) => version.clone(),
        None => Bytes::from(text::hex(&text::random::<16>()?)),
    };
    let metadata =
        Metadata { version: version.clone(), tag: crc32c_tag(&value), algorithm: Some(Algorithm::CRC32C) };
    let bytes = value.len() as u64;
    let put = Put {
        key: args.key.key.clone(),
        metadata,
        db_version: args.condition.if_version.clone().unwrap_or_default(),
        force: args.condition.force,
        synchronization: if args.write_back {
            Synchronization::WriteBack
        } else {
            Synchronization::WriteThrough
        },
        value,
    };
    let key = shown(&args.key.key);
    drive.ask(&key, Request::Change(Change::Put(put)))?;
    let value = json!({ "key": key, "version": shown(&version), "bytes": bytes });
    let durable = if args.write_back { ", not durable yet" } else { "" };
    let said = format!("{key}: {}, version {}{durable}", text::size(bytes), shown(&version));
    output::done(common, &value, &said)
}

fn value_of(file: &PathBuf) -> Outcome<Bytes> {
    let failed = |error: io::Error| Failure::io("reading", file, &error);
    let most = u64::from(VALUE_BYTES_MAX) + 1;
    let mut bytes = Vec::new();
    if file.as_os_str() == "-" {
        io::stdin().lock().take(most).read_to_end(&mut bytes).map_err(failed)?;
    } else {
        let opened = fs::File::open(file).map_err(failed)?;
        opened.take(most).read_to_end(&mut bytes).map_err(failed)?;
    }
    if bytes.len() as u64 == most {
        let message =
            format!("{}: a value has at most {}", file.display(), text::size(VALUE_BYTES_MAX.into()));
        return Err(Failure::usage(message));
    }
    Ok(bytes.into())
}

fn remove(drive: &Reached, args: &RmArgs, common: &Common) -> Outcome {
    let delete = Delete {
        key: args.key.key.clone(),
        db_version: args.condition.if_version.clone().unwrap_or_default(),
        force: args.condition.force,
        synchronization: Synchronization::WriteThrough,
    };
    let key = shown(&args.key.key);
    drive.ask(&key, Request::Change(Change::Delete(delete)))?;
    output::done(common, &json!({ "key": key }), &format!("{key} is removed"))
}

/// What a scan found.
#[derive(Default)]
struct Scanned {
    keys: u64,
    bytes: u64,
    unchecked: u64,
    damaged: Vec<(Bytes, String)>,
}

fn scan(drive: &Reached, args: &ScanArgs, common: &Common) -> Outcome {
    let mut pages = Pages::new(drive, &args.prefix, None);
    let progress = Progress::start("scanning", 0, 0, common.quiet || common.json);
    let mut scanned = Scanned::default();
    loop {
        let keys = pages.next()?;
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else { break };
        if args.read {
            for key in &keys {
                read_one(drive, key, &mut scanned)?;
            }
        } else {
            scan_range(drive, (first, last), pages.most, &mut scanned)?;
        }
        scanned.keys += keys.len() as u64;
        progress.set(scanned.keys, scanned.bytes);
    }
    drop(progress);
    told(drive, args, &scanned, common)
}

/// Has the drive read these keys; where it ends before the last one, it is asked to go on.
fn scan_range(drive: &Reached, (first, last): (&Bytes, &Bytes), most: u32, scanned: &mut Scanned) -> Outcome {
    let mut range = KeyRange {
        start: first.clone(),
        start_inclusive: true,
        end: last.clone(),
        end_inclusive: true,
        max_returned: most,
        reverse: false,
    };
    loop {
        let response = drive.answer(Request::MediaScan(range.clone()))?;
        let Answer::Scanned { damaged, last } = response.answer else {
            return Err(drive.refused("scan", &response.status));
        };
        let said = "does not agree with its tag, or is not readable";
        scanned.damaged.extend(damaged.into_iter().map(|key| (key, said.to_owned())));
        if response.status.is_success() {
            return Ok(());
        }
        // A drive that does not come further will not with the next request either.
        match last.filter(|last| *last > range.start || (range.start_inclusive && *last == range.start)) {
            Some(last) => range = KeyRange { start: last, start_inclusive: false, ..range },
            None => return Err(drive.refused("scan", &response.status)),
        }
    }
}

fn read_one(drive: &Reached, key: &Bytes, scanned: &mut Scanned) -> Outcome {
    let request = Request::Get { which: Which::Exact, key: key.clone(), metadata_only: false };
    let response = drive.answer(request)?;
    match (response.status.code, response.answer) {
        (_, Answer::Entry(entry)) if response.status.is_success() => {
            scanned.bytes += entry.value.len() as u64;
            match check_tag(&entry.metadata, &entry.value) {
                TagCheck::Agrees => {}
                TagCheck::Unknown => scanned.unchecked += 1,
                TagCheck::Differs => {
                    scanned.damaged.push((key.clone(), "does not agree with its tag".to_owned()));
                }
            }
        }
        // Removed since it was listed.
        (kinetic::StatusCode::NotFound, _) => {}
        (kinetic::StatusCode::DataError | kinetic::StatusCode::PermDataError, _) => {
            scanned.damaged.push((key.clone(), word(&response.status)));
        }
        _ => return Err(drive.refused(&shown(key), &response.status)),
    }
    Ok(())
}

fn told(drive: &Reached, args: &ScanArgs, scanned: &Scanned, common: &Common) -> Outcome {
    if common.json {
        let damaged: Vec<Value> =
            scanned.damaged.iter().map(|(key, why)| json!({ "key": shown(key), "why": why })).collect();
        let mut value = json!({ "drive": drive.name, "keys": scanned.keys, "damaged": damaged });
        if args.read {
            value["bytes"] = json!(scanned.bytes);
            value["without_known_tag"] = json!(scanned.unchecked);
        }
        output::json(&value)?;
    } else {
        for (key, why) in &scanned.damaged {
            output::line(&format!("{}: {why}", shown(key)))?;
        }
        let mut said = format!("{}: {}", drive.name, text::plural(scanned.keys, "key"));
        if args.read {
            said.push_str(&format!(", {}", text::size(scanned.bytes)));
        }
        said.push_str(&format!(", {} damaged", text::count(scanned.damaged.len() as u64)));
        if scanned.unchecked > 0 {
            said.push_str(&format!(", {} without a tag that can be checked", text::count(scanned.unchecked)));
        }
        output::line(&said)?;
    }
    if scanned.damaged.is_empty() {
        return Ok(());
    }
    let message = format!("{}: {} damaged", drive.name, text::plural(scanned.damaged.len() as u64, "value"));
    Err(Failure::new(Exit::Differs, message))
}
