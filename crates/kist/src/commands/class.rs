//! `kist class`.

use terminal::{Outcome, Table, output, text};
use wire::ClassReply;

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  kist class ls")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// List the storage classes
    Ls,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let Action::Ls = args.action;
    let classes: Vec<ClassReply> = common.connection.client()?.get("/api/v1/classes")?;
    if common.json {
        return output::json(&classes);
    }
    let headings = [
        "class",
        ">up to",
        "copies",
        ">pack",
        ">unpacked from",
        ">files",
        ">bytes",
        ">online",
        ">bytes",
        ">unsealed",
    ];
    let mut table = Table::new(&headings);
    for class in classes {
        table.row(vec![
            class.name,
            class.up_to.map_or_else(|| "any".to_owned(), text::size),
            class.copies.join(", "),
            text::size(class.pack_bytes),
            text::size(class.large_bytes),
            text::count(class.files),
            text::size(class.bytes),
            text::count(class.online_files),
            text::size(class.online_bytes),
            text::count(class.todo_files),
        ]);
    }
    output::write(&table.render())
}
