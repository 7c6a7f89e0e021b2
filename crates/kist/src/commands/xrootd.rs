//! `kist xrootd`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use config::CONFIG_FILE;
use terminal::{Failure, Outcome, output};

use crate::cli::Common;
use crate::instance::Instance;

/// Arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  kist xrootd config > /etc/xrootd/xrootd-kist.cfg")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Write the configuration of an XRootD server in front of this instance
    #[command(after_help = "\
The instance needs the table [xrootd] in kist.toml. The file goes to standard
output; it names the plugins, the socket and what XRootD must do so that
nothing is kept of a file that was not written to its end.

Examples:
  kist xrootd config > /etc/xrootd/xrootd-kist.cfg
  kist xrootd config --tls-certificate /etc/grid-security/hostcert.pem \\
      --tls-key /etc/grid-security/hostkey.pem > /etc/xrootd/xrootd-kist.cfg")]
    Config(ConfigArgs),
}

#[derive(clap::Args, Debug)]
struct ConfigArgs {
    /// The port that XRootD listens at
    #[arg(long, default_value_t = 1094)]
    port: u16,
    /// The directory of the plugins, if it is none that the system searches
    #[arg(long, value_name = "DIR")]
    plugins: Option<PathBuf>,
    /// Where XRootD keeps its own files
    #[arg(long, value_name = "DIR", default_value = "/var/spool/xrootd")]
    admin_dir: PathBuf,
    /// The certificate of this host, PEM: with TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Its private key, PEM
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Authorities of clients' certificates
    #[arg(long, value_name = "DIR", default_value = "/etc/grid-security/certificates")]
    tls_ca: PathBuf,
    /// The keys of protocol sss
    #[arg(long, value_name = "FILE", default_value = "/etc/xrootd/sss.keytab")]
    sss_keytab: PathBuf,
}

/// Runs the command.
pub fn run(args: &Args, common: &Common) -> Outcome {
    let Action::Config(args) = &args.action;
    let instance = Instance::open(&common.connection.instance_directory())?;
    let file = instance.path(CONFIG_FILE);
    let config = config::load(&file).map_err(|error| Failure::usage(error.to_string()))?;
    let Some(xrootd) = &config.xrootd else {
        let why = format!("{}: add a table [xrootd]: kist serves no socket for XRootD yet", file.display());
        return Err(Failure::usage(why));
    };
    let socket = xrootd.socket(&instance.directory);
    output::write(&text(args, &socket, xrootd.trust.get_ref()))
}

/// The file.
fn text(args: &ConfigArgs, socket: &Path, trust: &[String]) -> String {
    let plugin = match &args.plugins {
        Some(directory) => directory.join("libXrdKist.so").display().to_string(),
        None => "libXrdKist.so".to_owned(),
    };
    let copier = match &args.plugins {
        Some(directory) => directory.join("kist-xrootd-tpc").display().to_string(),
        None => "/usr/lib/kist/kist-xrootd-tpc".to_owned(),
    };
    let (socket, admin, port) = (socket.display(), args.admin_dir.display(), args.port);
    let mut text = format!(
        "# XRootD in front of Kist, as `kist xrootd config` wrote it: docs/reference/xrootd.md explains it.\n\
         all.export / nolock\n\
         xrd.port {port}\n\
         all.adminpath {admin}\n\
         all.pidpath {admin}\n\
         \n\
         # All of Kist is in one plugin. Each of these lines is needed.\n\
         kist.socket {socket}\n\
         ofs.osslib {plugin}\n\
         # XRootD lets several clients share an open file: this asks Kist about each of them.\n\
         ofs.authorize\n\
         ofs.authlib {plugin}\n\
         ofs.preplib +noauth {plugin}\n\
         ofs.ckslib * {plugin}\n\
         xrootd.chksum max 64 adler32 crc32c\n\
         # A file is kept once its client has closed it, and not if the client went away.\n\
         ofs.persist auto hold 0\n\
         # XRootD would have these in local files, which are none of Kist's.\n\
         ofs.xattr uset off\n\
         ofs.chkpnt disable\n\
         \n\
         # Copies between two servers: this one fetches.\n\
         ofs.tpc ttl 60 120 xfr 16 streams 4 pgm {copier}\n"
    );
    text.push_str("\n# Who comes in.\n");
    let has_sss = trust.iter().any(|protocol| protocol == "sss");
    let line = |on: bool| if on { "" } else { "# " };
    let any = has_sss || args.tls_certificate.is_some();
    let _ = writeln!(text, "{}xrootd.seclib libXrdSec.so", line(any));
    let _ = writeln!(text, "{}sec.protocol sss -s {}", line(has_sss), args.sss_keytab.display());
    let tls = args.tls_certificate.as_ref().zip(args.tls_key.as_ref());
    let _ = writeln!(text, "{}sec.protocol ztn -maxsz 16k -tokenlib {plugin}", line(tls.is_some()));
    text.push_str(
        "# sec.protocol gsi -certdir:/etc/grid-security/certificates \\\n\
         #     -cert:/etc/grid-security/hostcert.pem \\\n\
         #     -key:/etc/grid-security/hostkey.pem -crl:1 -gmapopt:nomap -moninfo:1 -vomsat:1 \\\n\
         #     -vomsfun:libXrdVoms.so -vomsfunparms:dbg\n\
         # sec.protocol krb5 /etc/xrootd/krb5.keytab xrootd/<host>@EXAMPLE.ORG\n",
    );
    let _ = writeln!(text, "\n# TLS: tokens are not to be sent without it.");
    let (certificate, key) = tls.map_or_else(
        || ("/etc/grid-security/hostcert.pem".to_owned(), "/etc/grid-security/hostkey.pem".to_owned()),
        |(certificate, key)| (certificate.display().to_string(), key.display().to_string()),
    );
    let on = line(tls.is_some());
    let _ = writeln!(text, "{on}xrd.tls {certificate} {key}");
    let _ = writeln!(text, "{on}xrd.tlsca certdir {}", args.tls_ca.display());
    let _ = writeln!(text, "{on}xrootd.tls capable all");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> ConfigArgs {
        ConfigArgs {
            port: 1094,
            plugins: None,
            admin_dir: "/var/spool/xrootd".into(),
            tls_certificate: None,
            tls_key: None,
            tls_ca: "/ca".into(),
            sss_keytab: "/sss".into(),
        }
    }

    #[test]
    fn what_data_safety_needs_is_always_there() {
        let plain = text(&args(), Path::new("/srv/kist/xrootd.sock"), &[]);
        for line in [
            "\nkist.socket /srv/kist/xrootd.sock\n",
            "\nofs.osslib libXrdKist.so\n",
            "\nofs.authorize\n",
            "\nofs.persist auto hold 0\n",
            "\nofs.xattr uset off\n",
            "\nofs.chkpnt disable\n",
            "\n# sec.protocol sss",
            "\n# xrd.tls ",
        ] {
            assert!(plain.contains(line), "{line}{plain}");
        }
        let (certificate, key) = (Some("/c".into()), Some("/k".into()));
        let plugins = Some("/opt".into());
        let tls = ConfigArgs { tls_certificate: certificate, tls_key: key, plugins, ..args() };
        let set = text(&tls, Path::new("/s"), &["sss".to_owned()]);
        for line in [
            "\nsec.protocol sss -s /sss\n",
            "\nsec.protocol ztn -maxsz 16k -tokenlib /opt/libXrdKist.so\n",
            "\nxrd.tls /c /k\n",
            " /opt/libXrdKist.so\n",
        ] {
            assert!(set.contains(line), "{line}{set}");
        }
    }
}
