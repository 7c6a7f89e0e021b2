//! `kist kinetic log`: what a drive knows of itself.

use bytes::Bytes;
use kinetic::{Answer, Log, LogType, Request};
use serde_json::{Map, Value, json};
use terminal::{Exit, Failure, Outcome, Table, output, text};

use crate::cli::Common;
use crate::commands::kinetic_at::{Reached, parse_bytes, screaming, shown};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Without names of logs all that the drive has. A log of the maker has a name of its
own: --device NAME.

Examples:
  kist kinetic log d1
  kist kinetic log d1 capacities utilizations --json")]
pub struct Args {
    /// The drive
    drive: String,
    /// Which
    #[arg(value_parser = ["utilizations", "temperatures", "capacities", "configuration", "statistics",
                          "messages", "limits"])]
    logs: Vec<String>,
    /// A log of the maker, which goes to standard output as it is
    #[arg(long, value_name = "NAME", value_parser = parse_bytes, conflicts_with = "logs")]
    device: Option<Bytes>,
}

impl Args {
    /// The drive that is asked.
    pub fn drive(&self) -> &str {
        &self.drive
    }
}

const ALL: [LogType; 7] = [
    LogType::Configuration,
    LogType::Capacities,
    LogType::Utilizations,
    LogType::Temperatures,
    LogType::Statistics,
    LogType::Limits,
    LogType::Messages,
];

/// Runs the command.
pub fn run(drive: &Reached, args: &Args, common: &Common) -> Outcome {
    if let Some(name) = &args.device {
        let request = Request::GetLog { types: vec![LogType::Device], device: Some(name.clone()) };
        return match drive.ask(&format!("log {}", shown(name)), request)?.answer {
            Answer::Log { device, .. } => output::bytes(&device),
            _ => Err(Failure::internal(format!("{}: the answer has no log", drive.name))),
        };
    }
    let is_wanted = |one: &LogType| {
        args.logs.is_empty()
            || args.logs.iter().any(|name| screaming(&format!("{one:?}")) == name.to_uppercase())
    };
    let mut log = Log::default();
    for one in ALL.into_iter().filter(is_wanted) {
        let response = drive.answer(Request::GetLog { types: vec![one], device: None })?;
        match response.answer {
            Answer::Log { log: part, .. } if response.status.is_success() => add(&mut log, one, *part),
            // Not every drive has each: one that was named is missed.
            _ if args.logs.is_empty() && response.status.code != kinetic::StatusCode::NotAuthorized => {}
            _ if response.status.is_success() => {
                let message = format!("{}: it has no log {one:?}", drive.name);
                return Err(Failure::new(Exit::NotFound, message));
            }
            _ => return Err(drive.refused("log", &response.status)),
        }
    }
    if common.json { output::json(&as_json(drive, &log)) } else { output::write(&as_text(&log)) }
}

fn add(log: &mut Log, one: LogType, part: Log) {
    log.types.push(one);
    match one {
        LogType::Utilizations => log.utilizations = part.utilizations,
        LogType::Temperatures => log.temperatures = part.temperatures,
        LogType::Capacities => log.capacity = part.capacity,
        LogType::Configuration => log.configuration = part.configuration,
        LogType::Statistics => log.statistics = part.statistics,
        LogType::Messages => log.messages = part.messages,
        LogType::Limits => log.limits = part.limits,
        LogType::Device => {}
    }
}

/// Bytes that are mostly text.
fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The stated limits, by name.
fn limits(log: &Log) -> Vec<(&'static str, Option<u32>)> {
    let Some(limits) = &log.limits else { return Vec::new() };
    vec![
        ("key bytes", limits.key_bytes),
        ("value bytes", limits.value_bytes),
        ("version bytes", limits.version_bytes),
        ("tag bytes", limits.tag_bytes),
        ("message bytes", limits.message_bytes),
        ("connections", limits.connections),
        ("reads under way", limits.reads),
        ("writes under way", limits.writes),
        ("keys of a range", limits.range_keys),
        ("identities", limits.identities),
        ("PIN bytes", limits.pin_bytes),
        ("operations of a batch", limits.batch_operations),
        ("batches", limits.batches),
        ("batch bytes", limits.batch_bytes),
        ("deletes of a batch", limits.batch_deletes),
    ]
}

fn request_name(statistics: &kinetic::Statistics) -> String {
    match statistics.request() {
        Some(request) => screaming(&format!("{request:?}")),
        None => format!("number {}", statistics.message_type),
    }
}

fn as_json(drive: &Reached, log: &Log) -> Value {
    let mut all = Map::new();
    all.insert("drive".to_owned(), json!(drive.name));
    if let Some(it) = &log.configuration {
        let value = json!({
            "vendor": it.vendor, "model": it.model, "serial_number": words(&it.serial_number),
            "world_wide_name": words(&it.world_wide_name), "firmware": it.version,
            "protocol": it.protocol_version, "port": it.port, "tls_port": it.tls_port,
        });
        all.insert("configuration".to_owned(), value);
    }
    if let Some(it) = &log.capacity {
        let value = json!({ "nominal_bytes": it.nominal_bytes, "portion_full": it.portion_full });
        all.insert("capacity".to_owned(), value);
    }
    for one in &log.types {
        let (name, value) = match one {
            LogType::Utilizations => {
                let of = |it: &kinetic::Utilization| json!({ "name": it.name, "portion": it.portion });
                ("utilizations", log.utilizations.iter().map(of).collect::<Vec<_>>())
            }
            LogType::Temperatures => {
                let of = |it: &kinetic::Temperature| {
                    json!({
                        "name": it.name, "celsius": it.current, "minimum": it.minimum,
                        "maximum": it.maximum, "target": it.target,
                    })
                };
                ("temperatures", log.temperatures.iter().map(of).collect())
            }
            LogType::Statistics => {
                let of = |it: &kinetic::Statistics| {
                    json!({
                        "request": request_name(it), "count": it.count, "bytes": it.bytes,
                        "longest_microseconds": it.latency_max,
                    })
                };
                ("statistics", log.statistics.iter().map(of).collect())
            }
            _ => continue,
        };
        all.insert(name.to_owned(), Value::Array(value));
    }
    if log.limits.is_some() {
        let value: Map<String, Value> = limits(log)
            .into_iter()
            .map(|(name, limit)| (name.to_lowercase().replace(' ', "_"), json!(limit)))
            .collect();
        all.insert("limits".to_owned(), Value::Object(value));
    }
    if !log.messages.is_empty() {
        all.insert("messages".to_owned(), json!(words(&log.messages)));
    }
    Value::Object(all)
}

fn as_text(log: &Log) -> String {
    let mut said = String::new();
    let percent = |portion: f32| format!("{:.1}%", portion * 100.0);
    if let Some(it) = &log.configuration {
        said.push_str(&format!("{} {}, firmware {}\n", it.vendor, it.model, text::or_dash(&it.version)));
        said.push_str(&format!("serial number {}", text::or_dash(&words(&it.serial_number))));
        said.push_str(&format!(", wwn {}", text::or_dash(&words(&it.world_wide_name))));
        said.push_str(&format!(", protocol {}\n", text::or_dash(&it.protocol_version)));
        let port = |port: Option<u16>| port.map_or_else(|| "-".to_owned(), |port| port.to_string());
        said.push_str(&format!("port {}, TLS port {}\n", port(it.port), port(it.tls_port)));
    }
    if let Some(it) = &log.capacity {
        said.push_str(&format!("{}, {} full\n", text::size(it.nominal_bytes), percent(it.portion_full)));
    }
    let mut parts = Vec::new();
    if !log.utilizations.is_empty() {
        let mut table = Table::new(&["part", ">busy"]);
        log.utilizations.iter().for_each(|it| table.row(vec![it.name.clone(), percent(it.portion)]));
        parts.push(table);
    }
    if !log.temperatures.is_empty() {
        let mut table = Table::new(&["part", ">°C", ">lowest", ">highest"]);
        let degrees = |it: Option<f32>| it.map_or_else(|| "-".to_owned(), |it| format!("{it:.0}"));
        for it in &log.temperatures {
            let now = degrees(Some(it.current));
            table.row(vec![it.name.clone(), now, degrees(it.minimum), degrees(it.maximum)]);
        }
        parts.push(table);
    }
    let counted: Vec<_> = log.statistics.iter().filter(|it| it.count > 0).collect();
    if !counted.is_empty() {
        let mut table = Table::new(&["request", ">count", ">bytes", ">longest"]);
        for it in counted {
            let longest = it.latency_max.map_or_else(|| "-".to_owned(), |micros| format!("{micros} µs"));
            table.row(vec![request_name(it), text::count(it.count), text::size(it.bytes), longest]);
        }
        parts.push(table);
    }
    if log.limits.is_some() {
        let mut table = Table::new(&["limit", ">at most"]);
        for (name, limit) in limits(log) {
            let limit = limit.map_or_else(|| "not stated".to_owned(), |limit| text::count(limit.into()));
            table.row(vec![name.to_owned(), limit]);
        }
        parts.push(table);
    }
    for table in parts {
        if !said.is_empty() {
            said.push('\n');
        }
        said.push_str(&table.render());
    }
    if !log.messages.is_empty() {
        said.push('\n');
        for line in words(&log.messages).lines() {
            said.push_str(&terminal::one_line(line));
            said.push('\n');
        }
    }
    said
}
