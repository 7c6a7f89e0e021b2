//! `kist key`.

use base::Duration;
use client::Client;
use terminal::{Exit, Failure, Outcome, Table, output, text};
use wire::{KeyBody, KeyReply, NewKeyReply};

use crate::cli::Common;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The secret of a key is shown once, when it is made. A key without --s3 is a bearer
key (a file for KIST_KEY_FILE); with --s3 it is an access key id and a secret for
S3 clients. Changes count at once.

Examples:
  kist key create anna --group cms --expires 30d
  kist key create ci --s3 --group cms
  kist key ls
  kist key disable KIST2ABCDEFGHIJKLMNO
  kist key revoke-macaroons")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Make a key
    Create {
        /// Whom it stands for: the owner of what is made with it, the name in the audit log
        name: String,
        /// An admin's: everything is allowed but what is held
        #[arg(long)]
        admin: bool,
        /// May look at machines and reports, and at the names and attributes of all files
        #[arg(long)]
        operator: bool,
        /// A group; may be given several times, the first is that of what is made
        #[arg(long, value_name = "GROUP")]
        group: Vec<String>,
        /// It ends after this, such as 30d
        #[arg(long, value_name = "SPAN", value_parser = span)]
        expires: Option<Duration>,
        /// An access key id and a secret, for S3
        #[arg(long)]
        s3: bool,
    },
    /// List the keys, without their secrets
    Ls,
    /// Let a key open nothing, until it is enabled
    Disable {
        /// The id of the key
        id: String,
    },
    /// Let a disabled key open again
    Enable {
        /// The id of the key
        id: String,
    },
    /// Remove a key for good
    Rm {
        /// The id of the key
        id: String,
    },
    /// End all macaroons that were given out, whoever asked for them
    RevokeMacaroons,
}

fn span(input: &str) -> Result<Duration, String> {
    text::parse_span(input).ok_or_else(|| "say a span of time with its unit, such as 30d".to_owned())
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    let (id, verb) = match &args.action {
        Action::Create { name, admin, operator, group, expires, s3 } => {
            let body = KeyBody {
                name: name.clone(),
                groups: group.clone(),
                admin: *admin,
                operator: *operator,
                expires_seconds: expires.map(|span| span.as_secs()),
                s3: *s3,
            };
            if expires.is_some_and(|span| span.as_secs() == 0) {
                return Err(Failure::usage("--expires is at least 1s"));
            }
            return show_new(&client.post_for("/api/v1/keys", &body)?, common);
        }
        Action::RevokeMacaroons => {
            client.post("/api/v1/macaroons/revoke", &serde_json::json!({}))?;
            let done = "all macaroons have ended; who needs one asks for it again";
            return output::done(common, &serde_json::json!({ "revoked": "macaroons" }), done);
        }
        Action::Ls => return list(&client.get::<Vec<KeyReply>>("/api/v1/keys")?, common),
        Action::Disable { id } => (id, "disable"),
        Action::Enable { id } => (id, "enable"),
        Action::Rm { id } => (id, "remove"),
    };
    let done = client.post(&format!("/api/v1/keys/{}/{verb}", text::encode(id)), &serde_json::json!({}));
    if let Err(failure) = done {
        return Err(named(&client, id, failure));
    }
    let now = match verb {
        "disable" => "is good for nothing until it is enabled",
        "enable" => "is good again",
        _ => "is removed",
    };
    output::done(common, &serde_json::json!({ "id": id }), &format!("key {id} {now}"))
}

/// A name was given for an id: which ids it has. A name may have several keys, so none is guessed.
fn named(client: &Client, given: &str, failure: Failure) -> Failure {
    if failure.exit != Exit::NotFound {
        return failure;
    }
    let keys = client.get::<Vec<KeyReply>>("/api/v1/keys").unwrap_or_default();
    match ids_of(&keys, given) {
        Some(ids) => {
            Failure { message: format!("{given} is a name, say the id of one of its keys: {ids}"), ..failure }
        }
        None => failure,
    }
}

fn ids_of(keys: &[KeyReply], name: &str) -> Option<String> {
    let ids: Vec<&str> = keys.iter().filter(|key| key.name == name).map(|key| key.id.as_str()).collect();
    (!ids.is_empty()).then(|| ids.join(", "))
}

fn show_new(new: &NewKeyReply, common: &Common) -> Outcome {
    if common.json {
        return output::json(new);
    }
    if new.key.s3 {
        output::line(&format!("access key id  {}", new.key.id))?;
        return output::line(&format!("secret         {}", new.secret));
    }
    output::line(&format!("id   {}", new.key.id))?;
    output::line(&format!("key  {}", new.secret))
}

fn state(key: &KeyReply) -> &'static str {
    // Both are of one form, in UTC: their order is that of their texts.
    let now = text::whole_seconds(&text::rfc3339(text::now()));
    match key.expires.as_deref().map(text::whole_seconds) {
        _ if key.disabled => "disabled",
        Some(end) if end <= now => "expired",
        _ => "enabled",
    }
}

fn list(keys: &[KeyReply], common: &Common) -> Outcome {
    if common.json {
        return output::json(&keys);
    }
    let mut table = Table::new(&["id", "name", "groups", "may", "kind", "created", "expires", "state"]);
    for key in keys {
        let may = match (key.admin, key.operator) {
            (true, _) => "admin",
            (false, true) => "operator",
            (false, false) => "-",
        };
        let groups = if key.groups.is_empty() { "-".to_owned() } else { key.groups.join(",") };
        table.row(vec![
            key.id.clone(),
            key.name.clone(),
            groups,
            may.to_owned(),
            if key.s3 { "s3" } else { "bearer" }.to_owned(),
            text::whole_seconds(&key.created),
            key.expires.as_deref().map_or("-".to_owned(), text::whole_seconds),
            state(key).to_owned(),
        ]);
    }
    output::write(&table.render())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: `kist key disable anna` said that there is no key anna, which `kist key ls` shows.
    #[test]
    fn a_name_tells_the_ids_of_its_keys() {
        let key = |id: &str, name: &str| KeyReply {
            id: id.to_owned(),
            name: name.to_owned(),
            groups: Vec::new(),
            admin: false,
            operator: false,
            s3: false,
            created: String::new(),
            expires: None,
            disabled: false,
        };
        let keys = [key("KIST1", "anna"), key("KIST2", "ben"), key("KIST3", "anna")];
        assert_eq!(ids_of(&keys, "anna").as_deref(), Some("KIST1, KIST3"));
        assert_eq!(ids_of(&keys, "eve"), None);
    }
}
