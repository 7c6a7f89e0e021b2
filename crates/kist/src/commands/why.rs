//! `kist why`.

use door::wire::WhyReply;

use crate::cli::Common;
use crate::client::archive_path;
use crate::failure::Outcome;
use crate::table::one_line;
use crate::{output, text};

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  kist why /demo-1/README.md\n  kist why 17")]
pub struct Args {
    /// A path, or the number of a request
    #[arg(value_name = "PATH|REQUEST")]
    subject: String,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let target = match args.subject.parse::<u64>() {
        Ok(request) => format!("/api/v1/why?request={request}"),
        Err(_) => format!("/api/v1/why?path={}", text::encode(&archive_path(&args.subject)?)),
    };
    let reply: WhyReply = common.connection.client()?.get(&target)?;
    if common.json {
        return output::json(&reply);
    }
    reply.reasons.iter().try_for_each(|reason| output::line(&one_line(reason)))
}
