//! The servers of one round, each on an empty directory of the same file system.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use terminal::{Failure, Outcome};

use super::peers::{Found, Server, Xrootd};
use crate::cpu;
use crate::s3::caller::Caller;
use crate::s3::link::Link;
use crate::s3::ours::{self, Ours};
use crate::s3::target::{DATA, DRIVES, Other, PARITY, expect, free_address, make};
use crate::subject::Subject;

/// The bucket of S3 and the directory of all others where all files go.
pub const ALL: &str = "/bench";
/// Where everybody may write who comes in over XRootD: without a protocol that says who.
pub const OPEN: &str = "/open";
/// A name server that does not answer would be waited for.
pub const NO_NAMES: (&str, &str) = ("RES_OPTIONS", "timeout:1 attempts:1");
const LOG: &str = "server.log";

/// Running servers; they end with this value.
pub struct Bed {
    // Before Kist, whose socket it uses.
    plugin: Option<Running>,
    plain: Option<Running>,
    nginx: Option<Running>,
    kist: Ours,
    xrootd: Option<Xrootd>,
}

struct Running {
    process: Other,
    host: String,
}

impl Bed {
    /// Starts all that were found.
    pub fn start(directory: &Path, found: &Found, subject: &dyn Subject) -> Outcome<Self> {
        let has_plugin = found.plugins.is_some() && found.xrootd.is_some();
        let tables = if has_plugin { table(directory) } else { String::new() };
        let kist = Ours::start_with(directory, subject, "webdav_listen = \"127.0.0.1:0\"\n", &tables)?;
        let mut bed = Bed { plugin: None, plain: None, nginx: None, kist, xrootd: found.xrootd.clone() };
        bed.make_directories()?;
        if let Some(xrootd) = &found.xrootd {
            if let Some(plugins) = &found.plugins {
                bed.plugin =
                    Some(start_plugin(&directory.join("plugin"), directory, xrootd, plugins.as_deref())?);
            }
            bed.plain = Some(start_plain(&directory.join("plain"), xrootd)?);
        }
        if let Some(nginx) = &found.nginx {
            bed.nginx = Some(start_nginx(&directory.join("nginx"), nginx)?);
        }
        Ok(bed)
    }

    fn make_directories(&self) -> Outcome {
        expect("making the bucket", self.connect(Server::S3)?.ask("PUT", ALL, "", true), 200)?;
        expect("making a directory", self.connect(Server::Webdav)?.ask("MKCOL", OPEN, "", true), 201)
            .map(drop)
    }

    /// Kist's own server.
    pub fn kist(&self) -> &Ours {
        &self.kist
    }

    /// A connection to a server that speaks HTTP.
    pub fn connect(&self, server: Server) -> Outcome<Link> {
        let plain = |host: &str, credential| Caller::Plain { host: host.to_owned(), credential };
        let (host, caller) = match server {
            Server::S3 => (self.kist.host(), Caller::Signed(self.kist.signer())),
            Server::Nginx => {
                let host = self.running(server)?.host.as_str();
                (host, plain(host, None))
            }
            _ => {
                let host = self.kist.webdav();
                (host, plain(host, Some(self.kist.client().authorization())))
            }
        };
        Link::connect(host, caller).map_err(|error| Failure::internal(format!("{host}: {error}")))
    }

    /// The URL of a path of an XRootD.
    pub fn url(&self, server: Server, path: &str) -> Outcome<String> {
        Ok(format!("root://{}/{path}", self.running(server)?.host))
    }

    /// The client of XRootD.
    pub fn xrdcp(&self) -> Outcome<Command> {
        let xrootd = self.xrootd.as_ref().ok_or_else(|| Failure::internal("there is no XRootD"))?;
        let mut command = Command::new(&xrootd.xrdcp);
        command.env(NO_NAMES.0, NO_NAMES.1).arg("--nopbar");
        Ok(command)
    }

    /// Processor seconds of all that a server is.
    pub fn cpu(&self, server: Server) -> f64 {
        let of = |running: &Option<Running>| {
            running.as_ref().map_or(0.0, |running| cpu::seconds_with_children(running.process.pid()))
        };
        match server {
            Server::S3 | Server::Webdav => cpu::seconds(self.kist.pid()),
            Server::XrootdKist => cpu::seconds(self.kist.pid()) + of(&self.plugin),
            Server::Xrootd => of(&self.plain),
            Server::Nginx => of(&self.nginx),
        }
    }

    fn running(&self, server: Server) -> Outcome<&Running> {
        let running = match server {
            Server::Nginx => &self.nginx,
            Server::XrootdKist => &self.plugin,
            _ => &self.plain,
        };
        running.as_ref().ok_or_else(|| Failure::internal(format!("{} does not run", server.name())))
    }
}

/// The socket for the plugins. Not within the instance, which XRootD's user cannot enter.
fn table(directory: &Path) -> String {
    let socket = directory.join("xrootd.sock");
    let (user, group) = match rustix::process::getuid() {
        root if root.is_root() => ("xrootd".to_owned(), "xrootd".to_owned()),
        own => (own.as_raw().to_string(), rustix::process::getgid().as_raw().to_string()),
    };
    let socket = socket.display();
    format!("\n[xrootd]\nsocket = \"{socket}\"\nuser = \"{user}\"\ngroup = \"{group}\"\ntrust = []\n")
}

/// XRootD as `kist xrootd config` configures it.
fn start_plugin(directory: &Path, bed: &Path, xrootd: &Xrootd, plugins: Option<&Path>) -> Outcome<Running> {
    own(&bed.join(ours::INSTANCE), &["acl", "set", OPEN, "anyone=tlrcwsp"])?;
    let (host, port) = address()?;
    let admin = open_to_all(directory)?;
    let (admin, plugins) =
        (admin.display().to_string(), plugins.map(|plugins| plugins.display().to_string()));
    let mut arguments = vec!["xrootd", "config", "--port", &port, "--admin-dir", &admin];
    arguments.extend(plugins.iter().flat_map(|plugins| ["--plugins", plugins]));
    let config = own(&bed.join(ours::INSTANCE), &arguments)?;
    start_xrootd(directory, xrootd, &config, host)
}

/// A stock XRootD on a plain directory.
fn start_plain(directory: &Path, xrootd: &Xrootd) -> Outcome<Running> {
    let (host, port) = address()?;
    let admin = open_to_all(directory)?.display().to_string();
    let root = directory.join("data");
    open_to_all(&root)?;
    open_to_all(&root.join(OPEN.trim_start_matches('/')))?;
    let config = format!(
        "all.export /\noss.localroot {}\nxrd.port {port}\nall.adminpath {admin}\nall.pidpath {admin}\n",
        root.display()
    );
    start_xrootd(directory, xrootd, &config, host)
}

fn start_xrootd(directory: &Path, xrootd: &Xrootd, config: &str, host: String) -> Outcome<Running> {
    let file = write(directory, "xrootd.cfg", &format!("{config}xrd.network nodnr\n"))?;
    let mut command = Command::new(&xrootd.server);
    if let Some(user) = &xrootd.user {
        command.args(["-R", user]);
    }
    command.arg("-c").arg(file).current_dir(directory).env(NO_NAMES.0, NO_NAMES.1);
    start(command, directory, host)
}

/// nginx on a plain directory: a process for each core, bodies beside the files that they become.
fn start_nginx(directory: &Path, program: &Path) -> Outcome<Running> {
    let (host, _) = address()?;
    let (root, at) = (make(&directory.join("data"))?, directory.display());
    // A user is named only where it would be another one.
    let user = if rustix::process::getuid().is_root() { "user root;\n" } else { "" };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("    {kind}_temp_path {at}/{kind};\n"))
        .collect();
    let root = root.display();
    let config = [
        user,
        "daemon off;\nworker_processes auto;\nerror_log stderr warn;\n",
        &format!("pid {at}/pid;\nevents {{ worker_connections 1024; }}\nhttp {{\n{temporary}"),
        "    access_log off;\n    sendfile on;\n    tcp_nodelay on;\n",
        "    client_max_body_size 0;\n    keepalive_requests 1000000;\n",
        &format!("    server {{\n        listen {host};\n        location / {{\n            root {root};\n"),
        "            dav_methods PUT DELETE MKCOL;\n            create_full_put_path on;\n",
        "        }\n    }\n}\n",
    ]
    .concat();
    let file = write(directory, "nginx.conf", &config)?;
    let mut command = Command::new(program);
    command.arg("-p").arg(directory).arg("-c").arg(file).args(["-e", "stderr"]);
    start(command, directory, host)
}

fn start(command: Command, directory: &Path, host: String) -> Outcome<Running> {
    let log = directory.join(LOG);
    let mut process = Other::start(command, &log)?;
    process.wait_until_it_listens(&host, &log)?;
    Ok(Running { process, host })
}

/// Runs a command of this program on the instance and gives what it prints.
fn own(instance: &Path, arguments: &[&str]) -> Outcome<String> {
    let failed = |error: std::io::Error| Failure::io("running this program for", instance, &error);
    let program = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(program);
    let ran = command.arg("--instance").arg(instance).args(arguments).output().map_err(failed)?;
    if ran.status.success() {
        return Ok(String::from_utf8_lossy(&ran.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
    Err(Failure::internal(format!("kist {}: {said}", arguments.join(" "))))
}

/// An address that nobody has now, and its port.
fn address() -> Outcome<(String, String)> {
    let host = free_address()?;
    let port = host.rsplit(':').next().unwrap_or_default().to_owned();
    Ok((host, port))
}

/// A directory that XRootD's user can write to.
fn open_to_all(directory: &Path) -> Outcome<PathBuf> {
    let made = make(directory)?;
    fs::set_permissions(&made, fs::Permissions::from_mode(0o777))
        .map_err(|error| Failure::io("opening the directory", &made, &error))?;
    Ok(made)
}

fn write(directory: &Path, name: &str, text: &str) -> Outcome<PathBuf> {
    let file = directory.join(name);
    fs::write(&file, text).map_err(|error| Failure::io("writing the configuration", &file, &error))?;
    Ok(file)
}

/// How Kist is configured, for the page.
pub fn note() -> String {
    format!(
        "{DRIVES} drives, {DATA}+{PARITY}; each put is durable before it is answered, each get is verified."
    )
}
