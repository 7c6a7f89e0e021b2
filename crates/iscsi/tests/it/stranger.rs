//! Programs that share no code with ours, and a `tgtd` of a test's own. The tests of other crates include
//! this file too.
#![allow(dead_code, reason = "each test program uses a part")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long `tgtd` may take until it listens.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program of the system, or what to install.
pub fn program(name: &str, package: &str) -> Command {
    let directories = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
    let found =
        directories.iter().map(|directory| Path::new(directory).join(name)).find(|path| path.exists());
    let path = found.unwrap_or_else(|| {
        panic!("{name} is not there: apt-get install {package} (make needs-test does it)")
    });
    let mut command = Command::new(path);
    command.stdin(Stdio::null());
    command
}

/// Runs a program to its end, which is a good one.
pub fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    output
}

/// A tgtd of its own with one target, which has no units yet; ended when dropped.
pub struct Tgtd {
    child: Child,
    control: PathBuf,
    pub portal: String,
    directory: tempfile::TempDir,
}

impl Drop for Tgtd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Tgtd {
    /// Starts it and makes the target.
    pub fn start(target: &str) -> Tgtd {
        let directory = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let portal = listener.local_addr().unwrap().to_string();
        drop(listener);
        // Its socket for tgtadm lies among files of the whole machine, unless it is told.
        let control = directory.path().join("control");
        let child = program("tgtd", "tgt")
            .env("TGT_IPC_SOCKET", &control)
            .args(["-f", "--iscsi", &format!("portal={portal}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let tgtd = Tgtd { child, control, portal, directory };
        let begun = Instant::now();
        while !tgtd.admin("new", "target", &["-T", target]).output().unwrap().status.success() {
            assert!(begun.elapsed() < PATIENCE, "tgtd does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        tgtd
    }

    /// Kills it before its time.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// A file beside its socket.
    pub fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    /// What changes it.
    pub fn tgtadm(&self) -> Command {
        let mut admin = program("tgtadm", "tgt");
        admin.env("TGT_IPC_SOCKET", &self.control).args(["--lld", "iscsi"]);
        admin
    }

    /// What changes the target or a unit of it.
    pub fn admin(&self, operation: &str, mode: &str, more: &[&str]) -> Command {
        let mut admin = self.tgtadm();
        admin.args(["--op", operation, "--mode", mode, "--tid", "1"]).args(more);
        admin
    }

    /// Makes the file of a cartridge, of so many MiB.
    pub fn make_tape(&self, name: &str, barcode: &str, size: &str) {
        let about = ["--op", "new", "--device-type", "tape", "--barcode", barcode, "--size", size];
        run(program("tgtimg", "tgt").args(about).args(["--type", "data", "--file", &self.path(name)]));
    }

    /// Makes a tape drive that holds a cartridge.
    pub fn make_drive(&self, lun: &str, tape: &str) {
        let unit = ["--lun", lun, "-b", &self.path(tape), "--device-type", "tape"];
        run(&mut self.admin("new", "logicalunit", &unit));
    }

    /// Lets everybody in.
    pub fn open(&self) {
        run(&mut self.admin("bind", "target", &["-I", "ALL"]));
    }
}
