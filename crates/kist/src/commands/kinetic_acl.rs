//! `kist kinetic acl`: who may do what with a drive. A drive never tells its lists, since they hold keys.

use std::fs;
use std::path::PathBuf;

use kinetic::{Acl, Identity, Permission, Priority, Request, Scope, SecurityChange};
use serde::Deserialize;
use serde_json::json;
use terminal::{Failure, Outcome, output, text};

use crate::cli::Common;
use crate::commands::kinetic_at::{Reached, parse_bytes, screaming, secret};

/// The longest file of lists.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Over TLS: the lists hold keys. FILE has all identities that the drive will know;
who is not in it is refused from then on, identity 1 with its well-known key too:

  [{ \"identity\": 7, \"key_file\": \"/etc/kist/d7.key\",
     \"scopes\": [{ \"permissions\": [\"READ\", \"RANGE\"], \"key\": \"C:\", \"offset\": 0,
                  \"tls_required\": false }] }]

A scope without key holds for every key, one without permissions allows all:
READ, WRITE, DELETE, RANGE, SETUP, PEER_TO_PEER, GET_LOG, SECURITY,
POWER_MANAGEMENT. At least one identity has to keep SECURITY.

Example:
  kist kinetic --tls --ca d1.pem acl d1 lists.json")]
pub struct Args {
    /// The drive
    drive: String,
    /// The lists, JSON
    file: PathBuf,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListFile {
    identity: i64,
    key_file: PathBuf,
    #[serde(default)]
    scopes: Vec<ScopeFile>,
    max_priority: Option<i32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeFile {
    permissions: Option<Vec<String>>,
    #[serde(default)]
    key: String,
    #[serde(default)]
    offset: u64,
    #[serde(default)]
    tls_required: bool,
}

/// Runs the command.
pub fn run(args: &Args, reach: &dyn Fn(&str) -> Outcome<Reached>, common: &Common) -> Outcome {
    let file = &args.file;
    let length = fs::metadata(file).map_err(|error| Failure::io("reading", file, &error))?.len();
    if length > FILE_BYTES_MAX {
        return Err(Failure::usage(format!("{}: lists have at most 1 MiB", file.display())));
    }
    let text = fs::read_to_string(file).map_err(|error| Failure::io("reading", file, &error))?;
    let acls = parse(&text).map_err(|why| Failure::usage(format!("{}: {why}", file.display())))?;
    let count = acls.len() as u64;
    reach(&args.drive)?.ask("access lists", Request::Security(SecurityChange::Acls(acls)))?;
    let said = match count {
        1 => format!("{} knows 1 identity and no other", args.drive),
        _ => format!("{} knows {} identities and no others", args.drive, text::count(count)),
    };
    output::done(common, &json!({ "drive": args.drive, "identities": count }), &said)
}

fn parse(text: &str) -> Result<Vec<Acl>, String> {
    let lists: Vec<ListFile> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let acls = lists.iter().map(acl).collect::<Result<Vec<_>, _>>()?;
    let mut identities: Vec<i64> = acls.iter().map(|acl| acl.identity.0).collect();
    identities.sort_unstable();
    if let Some(twice) = identities.windows(2).find(|two| two[0] == two[1]) {
        return Err(format!("identity {} stands there twice", twice[0]));
    }
    if !acls.iter().any(|acl| acl.allows(Permission::Security, true)) {
        return Err("no identity has SECURITY: nobody could change the lists again".to_owned());
    }
    Ok(acls)
}

fn acl(list: &ListFile) -> Result<Acl, String> {
    let scopes = match list.scopes.as_slice() {
        [] => vec![Scope::everything()],
        scopes => scopes.iter().map(scope).collect::<Result<_, _>>()?,
    };
    let max_priority = match list.max_priority {
        None => Priority::HIGHEST,
        Some(number) => Priority::from_number(number).ok_or("a priority is 1 to 9")?,
    };
    let key = secret(&list.key_file).map_err(|failure| failure.message)?;
    Ok(Acl { identity: Identity(list.identity), key, scopes, max_priority })
}

fn scope(scope: &ScopeFile) -> Result<Scope, String> {
    let permissions = match &scope.permissions {
        None => Permission::ALL.to_vec(),
        Some(names) if names.is_empty() => {
            return Err("a scope without any permission says nothing".to_owned());
        }
        Some(names) => names.iter().map(|name| permission(name)).collect::<Result<_, _>>()?,
    };
    let value = parse_bytes(&scope.key)?;
    Ok(Scope { offset: scope.offset, value, permissions, tls_required: scope.tls_required })
}

fn permission(name: &str) -> Result<Permission, String> {
    let word = |one: &Permission| screaming(&format!("{one:?}"));
    Permission::ALL.iter().find(|one| word(one) == name).copied().ok_or_else(|| {
        let all: Vec<String> = Permission::ALL.iter().map(word).collect();
        format!("'{name}' is no permission: there are {}", all.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn lists_are_read_whole_or_refused() {
        let mut key = tempfile::NamedTempFile::new().unwrap();
        key.write_all(b"secret\n").unwrap();
        let key = key.path().display();
        let read = |rest: &str| parse(&format!(r#"[{{"identity":7,"key_file":"{key}"{rest}}}]"#));
        let acl = &read("").unwrap()[0];
        assert_eq!((acl.identity, acl.key.bytes().as_ref()), (Identity(7), &b"secret"[..]));
        assert_eq!(acl.scopes, [Scope::everything()]);
        let scoped =
            &read(r#","scopes":[{},{"permissions":["READ"],"key":"C\\x00","offset":2}]"#).unwrap()[0];
        assert_eq!(scoped.scopes[1].value.as_ref(), b"C\0");
        assert_eq!(scoped.scopes[1].permissions, [Permission::Read]);
        for (wrong, why) in [
            (r#","scopes":[{"permissions":["READ"]}]"#, "SECURITY"),
            (r#","scopes":[{"permissions":["read"]}]"#, "is no permission"),
            (r#","scopes":[{"permissions":[]}]"#, "without any permission"),
            (r#","max_priority":10"#, "1 to 9"),
            (r#","scope":[]"#, "unknown field"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
        let twice = format!(r#"{{"identity":7,"key_file":"{key}"}}"#);
        assert!(parse(&format!("[{twice},{twice}]")).unwrap_err().contains("twice"));
    }
}
