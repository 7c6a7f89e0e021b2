//! `soak`: a mixed load with kills and lost drives on the real server.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use torture::soak::{Length, Settings, run};

const USAGE: &str = "soak --dir DIR [--kist PATH] [--pool-dir DIR] [--minutes 60 | --operations N]
     [--clients 64] [--slots 100] [--seed 1] [--kills N] [--losses N] [--put-rate BYTES/S]
     [--think MS] [--json] [--quiet]";

fn settings(mut arguments: impl Iterator<Item = String>) -> Option<(Settings, bool)> {
    let mut settings = Settings {
        kist: torture::server::released().unwrap_or_default(),
        dir: PathBuf::new(),
        pool_dir: None,
        length: Length::Time(Duration::from_secs(3600)),
        clients: 64,
        slots: 100,
        seed: 1,
        kills: u64::MAX,
        losses: u64::MAX,
        put_rate: 2_500_000,
        think: Duration::from_millis(120),
        large: 12 << 20,
        cartridge: "2GB".to_owned(),
        cartridges: 12,
        verbose: true,
    };
    let mut json = false;
    while let Some(name) = arguments.next() {
        match name.as_str() {
            "--json" => json = true,
            "--quiet" => settings.verbose = false,
            _ => {
                let value = arguments.next()?;
                match name.as_str() {
                    "--kist" => settings.kist = value.into(),
                    "--dir" => settings.dir = value.into(),
                    "--pool-dir" => settings.pool_dir = Some(value.into()),
                    "--minutes" => {
                        settings.length =
                            Length::Time(Duration::from_secs_f64(60.0 * value.parse::<f64>().ok()?));
                    }
                    "--operations" => settings.length = Length::Operations(value.parse().ok()?),
                    "--clients" => settings.clients = value.parse().ok()?,
                    "--slots" => settings.slots = value.parse().ok()?,
                    "--seed" => settings.seed = value.parse().ok()?,
                    "--kills" => settings.kills = value.parse().ok()?,
                    "--losses" => settings.losses = value.parse().ok()?,
                    "--put-rate" => settings.put_rate = value.parse().ok()?,
                    "--think" => settings.think = Duration::from_millis(value.parse().ok()?),
                    _ => return None,
                }
            }
        }
    }
    let seconds = match settings.length {
        Length::Time(time) => time.as_secs(),
        Length::Operations(count) => count / 400,
    };
    if settings.kills == u64::MAX {
        settings.kills = (seconds / 50).max(1);
    }
    if settings.losses == u64::MAX {
        settings.losses = (seconds / 60).max(1);
    }
    (!settings.dir.as_os_str().is_empty()).then_some((settings, json))
}

fn main() -> ExitCode {
    let Some((settings, json)) = settings(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(settings) {
        Ok(report) => {
            if json {
                println!("{}", report.json());
            } else {
                println!("{report}");
            }
            if report.violations() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::from(8)
        }
    }
}
