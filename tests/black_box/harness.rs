//! Instances, servers and commands.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;

use tempfile::TempDir;

/// The program as it is released.
pub static KIST: LazyLock<PathBuf> = LazyLock::new(|| torture::server::released().unwrap());

/// What a command did.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Demands an exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// Demands words on standard error.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Self {
        for word in words {
            assert!(self.err.contains(word), "'{word}' is not in:\n{}", self.err);
        }
        self
    }

    /// Standard output as JSON.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}:\n{}", self.out))
    }
}

/// Runs the program without a server in its environment.
pub fn kist(arguments: &[&str]) -> Ran {
    ran(&mut command(arguments))
}

/// Runs a command that was prepared.
pub fn ran(command: &mut Command) -> Ran {
    Ran::of(command.output().unwrap())
}

pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(&*KIST);
    command.args(arguments).env_remove("KIST_SERVER").env_remove("KIST_KEY_FILE").env_remove("KIST_INSTANCE");
    command
}

/// An instance in a temporary directory and perhaps its server.
pub struct Instance {
    root: TempDir,
    server: Option<Child>,
    pub url: String,
}

impl Instance {
    /// Makes one with small packs and short ages.
    pub fn init() -> Self {
        Instance::init_with(&[])
    }

    /// Likewise, with more options of `kist init`.
    pub fn init_with(options: &[&str]) -> Self {
        Instance::init_as(&[&["--cartridges", "4", "--cartridge-size", "1GB"], options].concat())
    }

    /// Likewise, with a library of the caller's.
    pub fn init_as(options: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let instance = Instance { root, server: None, url: String::new() };
        let (dir, key) = (instance.dir(), instance.dir().join("../key"));
        let (dir, key) = (dir.to_str().unwrap(), key.to_str().unwrap());
        let mut arguments = vec!["init", dir, "--demo", "--listen", "127.0.0.1:0", "--save-key", key];
        arguments.extend(options);
        // The directory of the key is named by way of the instance's, so it has to be there.
        fs::create_dir(instance.dir()).unwrap();
        kist(&arguments).exits(0);
        instance
    }

    /// Makes one and starts its server.
    pub fn serving() -> Self {
        let mut instance = Instance::init();
        instance.start();
        instance
    }

    pub fn dir(&self) -> PathBuf {
        self.root.path().join("instance")
    }

    /// A place for local files beside the instance.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn key_file(&self) -> PathBuf {
        self.root.path().join("key")
    }

    pub fn key(&self) -> String {
        fs::read_to_string(self.key_file()).unwrap().trim().to_owned()
    }

    /// Starts the server; it ends with this value.
    pub fn start(&mut self) {
        let mut child =
            command(&["serve", "--stop-with-stdin", "--log", "warn", self.dir().to_str().unwrap()])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(fs::File::create(self.beside("server.log")).unwrap())
                .spawn()
                .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let log = fs::read_to_string(self.beside("server.log")).unwrap();
        let url = line.trim_end().rsplit(' ').next().unwrap_or("");
        assert!(url.starts_with("http://127.0.0.1:"), "the server said '{line}' and logged:\n{log}");
        self.url = url.to_owned();
        self.server = Some(child);
    }

    /// What the server has logged, once it has said this.
    pub fn log_until(&self, words: &str) -> String {
        let begun = std::time::Instant::now();
        loop {
            let log = fs::read_to_string(self.beside("server.log")).unwrap();
            if log.contains(words) {
                return log;
            }
            assert!(begun.elapsed() < std::time::Duration::from_secs(60), "not '{words}' but:\n{log}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        self.server.as_ref().unwrap().id()
    }

    /// Kills the server as a power failure would.
    pub fn kill(&mut self) {
        let mut server = self.server.take().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
    }

    /// Stops the server cleanly.
    pub fn stop(&mut self) {
        let mut server = self.server.take().unwrap();
        drop(server.stdin.take());
        assert!(
            server.wait().unwrap().success(),
            "{}",
            fs::read_to_string(self.beside("server.log")).unwrap()
        );
    }

    /// Runs a client command against this instance.
    pub fn kist(&self, arguments: &[&str]) -> Ran {
        self.kist_with_input(arguments, b"")
    }

    /// Likewise, with standard input.
    pub fn kist_with_input(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut child = command(arguments)
            .env("KIST_INSTANCE", self.dir())
            .env("KIST_KEY_FILE", self.key_file())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_owned();
        let writer = std::thread::spawn(move || {
            // A command that does not read its input closes it.
            let _ = stdin.write_all(&input);
        });
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        Ran::of(output)
    }

    /// Runs a client command whose standard error is a pipe that nobody reads any more; gives its exit code.
    pub fn kist_unheard(&self, arguments: &[&str]) -> i32 {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = command(arguments);
        command.env("KIST_INSTANCE", self.dir()).env("KIST_KEY_FILE", self.key_file());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer);
        command.status().unwrap().code().unwrap_or(-1)
    }

    /// Sends bytes over a connection of their own and gives the whole answer.
    pub fn raw(&self, request: &[u8]) -> String {
        self.exchange(request, false)
    }

    /// Sends bytes over a connection of their own and leaves it open.
    pub fn begun(&self, request: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.url.strip_prefix("http://").unwrap()).unwrap();
        stream.write_all(request).unwrap();
        stream
    }

    /// Sends bytes and ends the connection in the midst of the request.
    pub fn torn(&self, request: &[u8]) -> String {
        self.exchange(request, true)
    }

    fn exchange(&self, request: &[u8], end: bool) -> String {
        let mut stream = TcpStream::connect(self.url.strip_prefix("http://").unwrap()).unwrap();
        let mut answer = Vec::new();
        // A server that refuses early may close while the rest is still sent.
        let _ = stream.write_all(request);
        if end {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Sends a request with the key, headers as given, and gives status and answer.
    pub fn http(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
        let mut head = format!("{method} {target} HTTP/1.1\r\nHost: kist\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "Authorization") {
            head.push_str(&format!("Authorization: Bearer {}\r\n", self.key()));
        }
        if !headers.iter().any(|(name, _)| *name == "Content-Length") {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        let answer = self.raw(&[head.as_bytes(), b"\r\n", body].concat());
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, answer)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Waits for something that the server does by itself.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !holds() {
        assert!(begin.elapsed().as_secs() < 120, "waited too long until {what}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Bytes that compress badly and differ by seed.
pub fn bytes(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

/// Writes a file and its directories.
pub fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Makes a file on which a file system seems to stand; gives its bytes.
pub fn write_ext4_image(path: &Path) -> Vec<u8> {
    let mut bytes = vec![0; 4 << 20];
    // The magic of an ext4 superblock.
    bytes[1024 + 56..1024 + 58].copy_from_slice(&[0x53, 0xef]);
    fs::write(path, &bytes).unwrap();
    bytes
}

/// A tree with all that a tree may hold.
pub fn make_tree(root: &Path) {
    write(&root.join("empty"), b"");
    write(&root.join("one"), b"1");
    write(&root.join("a/small with space & ü"), &bytes(20_000, 1));
    write(&root.join("a/b/new\nline?#%25"), &bytes(300_000, 2));
    write(&root.join("a/b/medium"), &bytes(3_000_001, 3));
    write(&root.join("large"), &bytes(9_000_000, 4));
    fs::create_dir_all(root.join("nothing/inside")).unwrap();
    std::os::unix::fs::symlink("../one", root.join("a/link")).unwrap();
    std::os::unix::fs::symlink("nowhere", root.join("dangling")).unwrap();
    for n in 0..40 {
        write(&root.join(format!("many/{n:02}")), &bytes(1000 * n, 100 + n as u64));
    }
}
