//! `kist acl`.

use client::archive_path;
use identity::AclEntry;
use terminal::{Failure, Outcome, Table, output, text};
use wire::{AclBody, AclLine, AclReply};

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A list says who may do what in a directory and in all below it that has no list of its own. Lines are
user:NAME=RIGHTS, group:NAME=RIGHTS, authenticated=RIGHTS or anyone=RIGHTS. Rights are letters:
t stat, l list, r read, c create, w write (overwrite, rename, delete), s stage, p poll, m manage,
b make buckets: directories right in this one, which are then their maker's. Alone it opens nothing else,
while all others hold below too: those of / in everybody's buckets.

Examples:
  kist acl set / user:anna=b
  kist acl set /cms user:anna=rlwsm group:cms=rls
  kist acl show /cms/run7
  kist acl rm /cms")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Show a directory's list, or the one above that holds there
    Show {
        /// The directory
        path: String,
    },
    /// Give a directory another list; the old one ends
    Set {
        /// The directory
        path: String,
        /// Who may do what
        #[arg(required = true, value_name = "SUBJECT=RIGHTS")]
        entries: Vec<String>,
    },
    /// End a directory's list: what holds above holds there
    Rm {
        /// The directory
        path: String,
    },
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    let set = |path: &str, entries: Option<Vec<AclLine>>| {
        let body = AclBody { path: archive_path(path)?, entries };
        client.post("/api/v1/acl", &body)?;
        let what = if body.entries.is_some() { "has this list" } else { "has no list of its own" };
        output::done(common, &body, &format!("{path} {what} from now on"))
    };
    match &args.action {
        Action::Set { path, entries } => {
            set(path, Some(entries.iter().map(|entry| line(entry)).collect::<Outcome<_>>()?))
        }
        Action::Rm { path } => set(path, None),
        Action::Show { path } => {
            let path = archive_path(path)?;
            show(&client.get(&format!("/api/v1/acl?path={}", text::encode(&path)))?, common)
        }
    }
}

/// Reads `user:anna=rwl`, or `user:anna:rwl` as logs and replies have it.
fn line(text: &str) -> Outcome<AclLine> {
    let written = match text.rsplit_once('=') {
        Some((subject, rights)) => format!("{subject}:{rights}"),
        None => text.to_owned(),
    };
    let entry: AclEntry = written.parse().map_err(|error| Failure::usage(format!("{text}: {error}")))?;
    Ok(AclLine { subject: entry.subject.to_string(), rights: entry.rights.to_string() })
}

fn show(reply: &AclReply, common: &Common) -> Outcome {
    if common.json {
        return output::json(reply);
    }
    let Some(effective) = &reply.effective else {
        return output::line(&format!(
            "{} has no list and none above it has one: its owner '{}' and admins may",
            reply.path, reply.owner
        ));
    };
    if reply.entries.is_none()
        && let Some(above) = &reply.effective_path
    {
        output::line(&format!("{} has no list of its own; that of {above} holds:", reply.path))?;
    }
    let mut table = Table::new(&["who", "rights"]);
    for line in effective {
        table.row(vec![line.subject.clone(), line.rights.clone()]);
    }
    output::write(&table.render())
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn lines_are_read_in_both_forms() {
        for text in ["user:anna=rl", "user:anna:lr"] {
            let line = line(text).unwrap();
            assert_eq!((line.subject.as_str(), line.rights.as_str()), ("user:anna", "lr"));
        }
        assert_eq!(line("anyone=r").unwrap().subject, "anyone");
        for bad in ["user:anna", "anna=r", "user:anna=x", "user:=r", "=r", ""] {
            assert!(line(bad).is_err(), "{bad}");
        }
    }
}
