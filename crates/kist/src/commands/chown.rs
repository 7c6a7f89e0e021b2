//! `kist chown`.

use client::archive_path;
use terminal::{Failure, Outcome, output};
use wire::OwnerBody;

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
What stands below a directory keeps its owners.

Examples:
  kist chown anna /in/run7
  kist chown anna:cms /in/run7
  kist chown :cms /in/run7
  kist chown wlcg:anna: /in/run7     (the last colon counts)")]
pub struct Args {
    /// The owner, the group behind a colon, or both
    #[arg(value_name = "OWNER[:GROUP]")]
    owner: String,
    /// Files and directories
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let (owner, group) = split(&args.owner)?;
    let client = common.connection.client()?;
    for path in &args.paths {
        let body = OwnerBody { path: archive_path(path)?, owner: owner.clone(), group: group.clone() };
        client.post("/api/v1/owner", &body)?;
    }
    if !common.json {
        return Ok(());
    }
    output::json(&serde_json::json!({ "changed": args.paths.len() }))
}

fn split(text: &str) -> Outcome<(Option<String>, Option<String>)> {
    // The last one: the names of token users have colons of their own.
    let (owner, group) = match text.rsplit_once(':') {
        Some((owner, group)) => (owner, Some(group).filter(|group| !group.is_empty())),
        None => (text, None),
    };
    let owner = Some(owner).filter(|owner| !owner.is_empty());
    if owner.is_none() && group.is_none() {
        return Err(Failure::usage(format!("'{text}' names neither an owner nor a group")));
    }
    if text.starts_with(':') && owner.is_some() {
        let message =
            format!("'{text}': a group has no colon in it; an owner may, who stands before the last one");
        return Err(Failure::usage(message));
    }
    Ok((owner.map(str::to_owned), group.map(str::to_owned)))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn owner_and_group_stand_apart() {
        let both = |owner: &str, group: &str| (Some(owner.to_owned()), Some(group.to_owned()));
        assert_eq!(split("anna:cms").unwrap(), both("anna", "cms"));
        assert_eq!(split("anna").unwrap(), (Some("anna".to_owned()), None));
        assert_eq!(split(":cms").unwrap(), (None, Some("cms".to_owned())));
        assert_eq!(split("wlcg:anna:").unwrap(), (Some("wlcg:anna".to_owned()), None));
        assert_eq!(split("wlcg:anna:cms").unwrap(), both("wlcg:anna", "cms"));
        assert!(split(":").is_err() && split("").is_err());
        // Story: it made ':b' the owner.
        assert!(split(":b:c").unwrap_err().message.contains("no colon"));
    }
}
