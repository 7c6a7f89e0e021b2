//! `kist quota`.

use client::archive_path;
use config::Size;
use terminal::{Failure, Outcome, Table, output, text};
use wire::{QuotaBody, QuotaReply};

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A quota of a directory counts all files below it, that of a virtual organisation all files of its group,
wherever they are. What is put beyond it is refused. Setting a quota sets both limits.

Examples:
  kist quota set /cms --bytes 10TB --files 1000000
  kist quota set --vo cms --bytes 50TB
  kist quota ls
  kist quota rm /cms")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Limit what may be kept below a directory or of a virtual organisation
    Set {
        #[command(flatten)]
        subject: Subject,
        #[command(flatten)]
        limits: Limits,
    },
    /// List the quotas and what is used of them
    Ls,
    /// End a quota
    Rm {
        #[command(flatten)]
        subject: Subject,
    },
}

#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
struct Subject {
    /// A directory
    path: Option<String>,
    /// A virtual organisation
    #[arg(long, value_name = "NAME")]
    vo: Option<String>,
}

/// At least one of them.
#[derive(clap::Args, Debug)]
#[group(required = true, multiple = true)]
struct Limits {
    /// Most bytes, such as 10TB
    #[arg(long)]
    bytes: Option<String>,
    /// Most files
    #[arg(long)]
    files: Option<u64>,
}

impl Subject {
    fn body(&self) -> Outcome<QuotaBody> {
        let path = self.path.as_deref().map(archive_path).transpose()?;
        Ok(QuotaBody { path, vo: self.vo.clone(), ..QuotaBody::default() })
    }
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    match &args.action {
        Action::Set { subject, limits: Limits { bytes, files } } => {
            let bytes = bytes.as_deref().map(Size::parse).transpose().map_err(Failure::usage)?;
            let body = QuotaBody { bytes: bytes.map(|size| size.0.0), files: *files, ..subject.body()? };
            client.post("/api/v1/quotas", &body)?;
            done(common, &body, "holds from now on: kist quota ls tells what counts")
        }
        Action::Rm { subject } => {
            let body = subject.body()?;
            client.post("/api/v1/quotas/remove", &body)?;
            done(common, &body, "is removed")
        }
        Action::Ls => list(&client.get::<Vec<QuotaReply>>("/api/v1/quotas")?, common),
    }
}

fn done(common: &Common, body: &QuotaBody, what: &str) -> Outcome {
    let of = body.path.clone().or_else(|| body.vo.clone()).unwrap_or_default();
    output::done(common, body, &format!("the quota of {of} {what}"))
}

fn list(quotas: &[QuotaReply], common: &Common) -> Outcome {
    if common.json {
        return output::json(&quotas);
    }
    let mut table = Table::new(&["quota of", ">used", ">of", ">", ">files", ">of", ">", "counted"]);
    for quota in quotas {
        let name = match (&quota.path, &quota.vo) {
            (Some(path), _) => path.clone(),
            (None, vo) => format!("vo {}", vo.as_deref().unwrap_or_default()),
        };
        table.row(vec![
            name,
            text::size(quota.bytes_used),
            quota.bytes.map_or_else(|| "any".to_owned(), text::size),
            percent(quota.bytes_used, quota.bytes),
            text::count(quota.files_used),
            quota.files.map_or_else(|| "any".to_owned(), text::count),
            percent(quota.files_used, quota.files),
            if quota.counting { format!("{:.0} %", quota.counted * 100.0) } else { "all".to_owned() },
        ]);
    }
    output::write(&table.render())
}

fn percent(used: u64, limit: Option<u64>) -> String {
    match limit {
        None => String::new(),
        Some(0) if used == 0 => "0 %".to_owned(),
        Some(0) => "over".to_owned(),
        Some(limit) => format!("{:.0} %", used as f64 / limit as f64 * 100.0),
    }
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn shares_are_told_for_limits_only() {
        assert_eq!(percent(5, None), "");
        assert_eq!(percent(5, Some(10)), "50 %");
        assert_eq!(percent(30, Some(10)), "300 %");
        assert_eq!(percent(0, Some(0)), "0 %");
        assert_eq!(percent(1, Some(0)), "over");
    }
}
