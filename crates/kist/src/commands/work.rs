//! `kist work`.

use terminal::{Outcome, Table, output, text};
use wire::WorkReply;

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Stages, cancels, releases and evicts of very many files go on after the server
has answered that they take long, also without the command that began them. A
server that is started anew knows none of them any more: a stage holds then
what it had asked for, a cancel goes on, the others end where they were.

Examples:
  kist work ls
  kist work show 3")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// List what goes on, and what ended without its command, the newest first
    Ls,
    /// Show how far one is, or what became of it
    Show {
        /// Its number
        work: u64,
    },
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    match &args.action {
        Action::Ls => {
            let works: Vec<WorkReply> = client.get("/api/v1/works")?;
            if common.json { output::json(&works) } else { output::write(&table(&works)) }
        }
        Action::Show { work } => {
            let work: WorkReply = client.get(&format!("/api/v1/works/{work}"))?;
            if common.json {
                return output::json(&work);
            }
            output::write(&table(std::slice::from_ref(&work)))?;
            match (&work.problem, &work.reply) {
                (Some(problem), _) => output::line(&problem.detail),
                (None, Some(reply)) => output::line(&reply.to_string()),
                (None, None) => Ok(()),
            }
        }
    }
}

fn table(works: &[WorkReply]) -> String {
    let mut table = Table::new(&[">work", "what", "state", ">files", ">seconds", "by", "about"]);
    for work in works {
        let about = match work.request {
            Some(request) => format!("{}, request {request}", work.about),
            None => work.about.clone(),
        };
        table.row(vec![
            work.id.to_string(),
            work.what.clone(),
            work.state.clone(),
            text::count(work.files),
            format!("{:.0}", work.seconds),
            work.owner.clone(),
            about,
        ]);
    }
    table.render()
}
