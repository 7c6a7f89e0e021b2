//! Which servers can be measured on this machine, and what is missing of the others.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use terminal::{Failure, Outcome};

/// A server, or a door of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Server {
    /// Kist over S3.
    S3,
    /// Kist over WebDAV.
    Webdav,
    /// nginx with its DAV module on a plain directory.
    Nginx,
    /// A stock XRootD with Kist's plugins.
    XrootdKist,
    /// A stock XRootD on a plain directory.
    Xrootd,
}

impl Server {
    /// Its name in rows, as JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Server::S3 => "s3",
            Server::Webdav => "webdav",
            Server::Nginx => "nginx",
            Server::XrootdKist => "xrootd-kist",
            Server::Xrootd => "xrootd",
        }
    }
}

/// What the arguments name.
pub struct Wanted<'a> {
    /// Where the plugins of XRootD are.
    pub plugins: Option<&'a Path>,
    /// nginx.
    pub nginx: Option<&'a Path>,
}

/// Programs that are there.
#[derive(Clone, Default, Debug)]
pub struct Found {
    /// nginx.
    pub nginx: Option<PathBuf>,
    /// XRootD and its client.
    pub xrootd: Option<Xrootd>,
    /// Whether Kist's plugins for it are there, and where, if the system does not find them itself.
    pub plugins: Option<Option<PathBuf>>,
    /// What is not.
    pub missing: Vec<Missing>,
}

/// A stock XRootD.
#[derive(Clone, Debug)]
pub struct Xrootd {
    /// The server.
    pub server: PathBuf,
    /// Its client.
    pub xrdcp: PathBuf,
    /// The user that it runs as, where it is started as root, which it refuses to be.
    pub user: Option<String>,
}

/// A server that is not measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Missing {
    /// Which.
    pub server: Server,
    /// Why, and what to do.
    pub why: String,
}

impl Missing {
    fn new(server: Server, why: impl Into<String>) -> Self {
        Missing { server, why: why.into() }
    }

    /// In a line.
    pub fn told(&self) -> String {
        format!("{} is not measured: {}", self.server.name(), self.why)
    }
}

impl Found {
    /// All that are measured.
    pub fn servers(&self) -> Vec<Server> {
        let mut servers = vec![Server::S3, Server::Webdav];
        servers.extend(self.nginx.as_ref().map(|_| Server::Nginx));
        if self.xrootd.is_some() {
            servers.extend(self.plugins.as_ref().map(|_| Server::XrootdKist));
            servers.push(Server::Xrootd);
        }
        servers
    }
}

/// Looks for all of them. What is named and not there is an error.
pub fn find(wanted: &Wanted<'_>) -> Outcome<Found> {
    let mut found = Found::default();
    match nginx(wanted.nginx)? {
        Ok(program) => found.nginx = Some(program),
        Err(why) => found.missing.push(Missing::new(Server::Nginx, why)),
    }
    match xrootd() {
        Ok(xrootd) => {
            found.xrootd = Some(xrootd);
            match plugins(wanted.plugins)? {
                Ok(plugins) => found.plugins = Some(plugins),
                Err(why) => found.missing.push(Missing::new(Server::XrootdKist, why)),
            }
        }
        Err(why) => {
            found.missing.push(Missing::new(Server::XrootdKist, why.clone()));
            found.missing.push(Missing::new(Server::Xrootd, why));
        }
    }
    Ok(found)
}

/// A program, or why it is not there; the outer result: what was named does not exist.
type Looked<T> = Outcome<Result<T, String>>;

fn nginx(named: Option<&Path>) -> Looked<PathBuf> {
    if let Some(program) = named {
        let there = program.canonicalize();
        return there.map(Ok).map_err(|error| Failure::io("looking for nginx", program, &error));
    }
    let missing = || "no nginx in PATH: `make needs-bench-doors` unpacks one, --nginx names one".to_owned();
    Ok(in_path("nginx").ok_or_else(missing))
}

fn xrootd() -> Result<Xrootd, String> {
    let program = |name: &str| {
        in_path(name).ok_or_else(|| format!("no {name} in PATH: `make needs-xrootd` installs it"))
    };
    let (server, xrdcp) = (program("xrootd")?, program("xrdcp")?);
    let user = rustix::process::getuid().is_root().then(|| "xrootd".to_owned());
    if let Some(user) = &user {
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        if !users.lines().any(|line| line.split(':').next() == Some(user)) {
            return Err(
                "XRootD refuses to be root, and there is no user xrootd: make one, or be another user".into(),
            );
        }
    }
    Ok(Xrootd { server, xrdcp, user })
}

/// Where Debian has libraries.
const LIBRARIES: [&str; 3] = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/local/lib"];
/// The plugins, with the version that XRootD puts into their name.
const PLUGINS: &str = "libXrdKist-5.so";

fn plugins(named: Option<&Path>) -> Looked<Option<PathBuf>> {
    if let Some(directory) = named {
        let failed = |error: std::io::Error| Failure::io("looking for the plugins", directory, &error);
        let directory = directory.canonicalize().map_err(failed)?;
        let why = format!("no {PLUGINS} in {}: `make xrootd` builds it", directory.display());
        return Ok(if directory.join(PLUGINS).exists() { Ok(Some(directory)) } else { Err(why) });
    }
    let is_there = LIBRARIES.iter().any(|directory| Path::new(directory).join(PLUGINS).exists());
    let why = || format!("no {PLUGINS}: `make xrootd` builds it, --plugins names its directory");
    Ok(if is_there { Ok(None) } else { Err(why()) })
}

fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    directories.map(|directory| directory.join(name)).find(|program| program.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_and_what_was_named_has_to_be_there() {
        let nowhere = Path::new("/nowhere/nginx");
        assert!(nginx(Some(nowhere)).is_err());
        let empty = tempfile::tempdir().unwrap();
        let why = plugins(Some(empty.path())).unwrap().unwrap_err();
        assert!(why.contains("make xrootd"), "{why}");
        let told = Missing::new(Server::Nginx, "no nginx").told();
        assert_eq!(told, "nginx is not measured: no nginx");
    }

    #[test]
    fn plugins_without_a_server_are_not_measured() {
        let alone = Found { plugins: Some(None), ..Found::default() };
        assert_eq!(alone.servers(), [Server::S3, Server::Webdav]);
    }
}
