//! `[xrootd]`: the socket for the plugins of an XRootD server, and what is believed of that server.

use std::path::{Path, PathBuf};

use ::xrootd::Nearline;
use identity::XrootdTrust;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::check::Finding;
use super::value::Span;

/// Protocols of XRootD with rules of their own: nothing is to be believed of them.
const NEVER_TRUSTED: [&str; 3] = ["gsi", "ztn", "https"];
/// Those that can be believed by their word alone, if the site says so.
const TRUSTED: [&str; 5] = ["sss", "krb5", "pwd", "unix", "host"];
/// Where users and groups of this machine stand.
const PASSWD: &str = "/etc/passwd";
const GROUP: &str = "/etc/group";

/// `[xrootd]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Xrootd {
    /// The socket, within the instance or absolute.
    #[serde(default = "socket")]
    pub socket: PathBuf,
    /// The user that XRootD runs as, by name or number.
    #[serde(default = "user")]
    pub user: Spanned<String>,
    /// The group that gets the socket, by name or number; that of the server, if it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Spanned<String>>,
    /// Protocols whose names and groups are taken as XRootD tells them.
    #[serde(default = "nobody")]
    pub trust: Spanned<Vec<String>>,
    /// Whether VOMS groups let somebody in who has no mapping of their own.
    #[serde(default)]
    pub voms: bool,
    /// What a client gets that opens a file which is on tape only.
    #[serde(default)]
    pub nearline: OnNearline,
    /// For how long staged files are pinned.
    #[serde(default = "pin")]
    pub pin: Spanned<Span>,
}

/// What a client gets that opens a file which is on tape only.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnNearline {
    /// An error.
    #[default]
    Error,
    /// It waits.
    Stall,
}

fn socket() -> PathBuf {
    "xrootd.sock".into()
}

fn user() -> Spanned<String> {
    Spanned::new(0..0, "xrootd".to_owned())
}

fn nobody() -> Spanned<Vec<String>> {
    Spanned::new(0..0, Vec::new())
}

fn pin() -> Spanned<Span> {
    Spanned::new(0..0, Span(base::Duration::from_secs(7 * 86_400)))
}

/// What the door is told of `[xrootd]`, with names of users as numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct XrootdSettings {
    /// The socket, absolute.
    pub socket: PathBuf,
    /// The user that XRootD runs as.
    pub uid: u32,
    /// The group that gets the socket.
    pub gid: Option<u32>,
    /// What is believed.
    pub trust: XrootdTrust,
    /// Files that are on tape only.
    pub nearline: Nearline,
    /// For how long staged files are pinned.
    pub pin: base::Duration,
}

impl Xrootd {
    /// Where the socket is.
    pub fn socket(&self, directory: &Path) -> PathBuf {
        directory.join(&self.socket)
    }

    /// The settings of the door; a user or group that is not there is told.
    pub fn settings(&self, directory: &Path) -> Result<XrootdSettings, String> {
        let Xrootd { socket: _, user, group, trust, voms, nearline, pin } = self;
        let named = |name: &Spanned<String>, file| number(name.get_ref(), file, read(file)?.as_str());
        Ok(XrootdSettings {
            socket: self.socket(directory),
            uid: named(user, PASSWD).map_err(|why| format!("[xrootd] user: {why}"))?,
            gid: group
                .as_ref()
                .map(|group| named(group, GROUP))
                .transpose()
                .map_err(|why| format!("[xrootd] group: {why}"))?,
            trust: XrootdTrust { protocols: trust.get_ref().clone(), voms: *voms },
            nearline: match nearline {
                OnNearline::Error => Nearline::Refuse,
                OnNearline::Stall => Nearline::Stall,
            },
            pin: pin.get_ref().0,
        })
    }
}

fn read(file: &str) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))
}

/// A user or group by number, or by its name in a file such as `/etc/passwd`.
fn number(name: &str, file: &str, text: &str) -> Result<u32, String> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let numbers = text.lines().filter_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    numbers
        .into_iter()
        .next()
        .ok_or_else(|| format!("'{name}' is not in {file}: name one there, or a number"))
}

/// Checks what types cannot say.
pub(super) fn check(xrootd: &Xrootd) -> Result<(), Finding> {
    let trust = &xrootd.trust;
    let never = |name: &&String| NEVER_TRUSTED.contains(&name.as_str());
    let is_known = |name: &&String| TRUSTED.contains(&name.as_str()) || never(name);
    if let Some(wrong) = trust.get_ref().iter().find(|name| !is_known(name)) {
        let known = TRUSTED.join(", ");
        return Err((
            trust.span(),
            format!("'{wrong}' is no protocol of XRootD that can be trusted: {known}"),
        ));
    }
    if xrootd.pin.get_ref().0 == base::Duration::ZERO {
        return Err((xrootd.pin.span(), "files that are staged have to stay for a while: \"7d\"".to_owned()));
    }
    match trust.get_ref().iter().find(never) {
        Some(never) => {
            let message = format!(
                "'{never}' is not to be trusted: its certificates go by [[identity.certificates]], its \
                 tokens are verified here"
            );
            Err((trust.span(), message))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Xrootd, String> {
        let xrootd: Xrootd = toml::from_str(text).map_err(|error| error.to_string())?;
        check(&xrootd).map_err(|(_, message)| message)?;
        Ok(xrootd)
    }

    #[test]
    fn nobody_is_trusted_that_is_not_named() {
        let usual = parse("user = \"7\"").unwrap().settings(Path::new("/srv")).unwrap();
        assert_eq!(usual.socket, PathBuf::from("/srv/xrootd.sock"));
        assert_eq!((usual.uid, usual.gid, usual.nearline), (7, None, Nearline::Refuse));
        assert_eq!(usual.trust, XrootdTrust::default());
        let text = "socket = \"/run/x\"\nuser = \"0\"\ngroup = \"root\"\ntrust = [\"sss\"]\nvoms = true\n\
                    nearline = \"stall\"\npin = \"1d\"";
        let set = parse(text).unwrap();
        let settings = set.settings(Path::new("/srv")).unwrap();
        assert_eq!((settings.socket, settings.gid), (PathBuf::from("/run/x"), Some(0)));
        assert!(settings.trust.voms && settings.nearline == Nearline::Stall);
        // What is printed is read again.
        assert!(parse(&toml::to_string(&set).unwrap()).is_ok());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for (text, word) in [
            ("trust = [\"gsi\"]", "[[identity.certificates]]"),
            ("trust = [\"ztn\"]", "verified here"),
            ("trust = [\"\"]", "no protocol"),
            ("nearline = \"wait\"", "nearline"),
            ("users = \"a\"", "users"),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(refused.contains(word), "{text}: {refused}");
        }
        let nobody = parse("user = \"nobody at all\"").unwrap().settings(Path::new("/")).unwrap_err();
        assert!(nobody.contains("/etc/passwd"), "{nobody}");
        let passwd = "daemon:x:1:1::/:/bin/false\nxrootd:x:102:110::/:/bin/false\nodd:x\n";
        assert_eq!(number("xrootd", PASSWD, passwd), Ok(102));
        assert!(number("odd", PASSWD, passwd).is_err() && number("x", PASSWD, passwd).is_err());
    }
}
