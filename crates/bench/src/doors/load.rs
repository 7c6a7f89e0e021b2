//! What is asked of each server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde::Serialize;
use terminal::{Failure, Outcome};

use super::bed::{ALL, Bed, OPEN};
use super::peers::Server;
use crate::s3::body::{Body, Checked, Pattern};
use crate::s3::load::share_out;
use crate::s3::target::expect;

/// Files of a directory.
const DIRECTORY_FILES: u64 = 1000;
/// Files that xrdcp copies at once: the most that it does.
pub const XRDCP_PARALLEL: u32 = 4;

/// One large file, or many small ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Amount {
    /// One.
    Large,
    /// Many.
    Small,
}

/// What is put.
#[derive(Clone, Copy, Debug)]
pub struct Files {
    /// Of which kind.
    pub amount: Amount,
    /// How many.
    pub count: u64,
    /// Bytes of each.
    pub size: u64,
}

/// What is done with them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Put the large file.
    PutLarge,
    /// Get it.
    GetLarge,
    /// Put the small files.
    PutSmall,
    /// Get them.
    GetSmall,
}

impl Operation {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Operation::PutLarge => "put, large",
            Operation::GetLarge => "get, large",
            Operation::PutSmall => "put, small",
            Operation::GetSmall => "get, small",
        }
    }
}

impl Files {
    /// Bytes in all.
    pub fn bytes(self) -> u64 {
        self.count.saturating_mul(self.size)
    }

    /// What is done with them, in this order.
    pub fn operations(self) -> [Operation; 2] {
        match self.amount {
            Amount::Large => [Operation::PutLarge, Operation::GetLarge],
            Amount::Small => [Operation::PutSmall, Operation::GetSmall],
        }
    }

    fn directories(self) -> u64 {
        self.count.div_ceil(DIRECTORY_FILES)
    }

    /// The path of a file below a directory, and the path of its own directory.
    pub fn path(self, below: &str, number: u64) -> String {
        format!("{below}/d{}/f{number}", number / DIRECTORY_FILES)
    }
}

/// The bytes of the files, made before the clock runs.
pub struct Source {
    /// What.
    pub files: Files,
    pattern: Pattern,
}

impl Source {
    /// Makes them.
    pub fn new(files: Files) -> Outcome<Self> {
        let size =
            usize::try_from(files.size).map_err(|_| Failure::usage("--size is more than memory holds"))?;
        Ok(Source { files, pattern: Pattern::new(size) })
    }

    fn body(&self, number: u64, checked: Checked) -> Body<'_> {
        Body::new(&self.pattern, self.pattern.bytes().len(), number, checked)
    }

    /// Writes them as files, for a client that reads such.
    fn write(&self, tree: &Path) -> Outcome {
        let failed = |error: std::io::Error| Failure::io("writing what is to be copied", tree, &error);
        for number in 0..self.files.count {
            let path = PathBuf::from(self.files.path(&tree.display().to_string(), number));
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(failed)?;
            }
            let body = self.body(number, Checked::Unsaid);
            fs::write(&path, body.pieces(&[]).concat()).map_err(failed)?;
        }
        Ok(())
    }
}

/// How long one phase took.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Seconds.
    pub seconds: f64,
    /// Processor seconds of the server.
    pub cpu: f64,
}

/// Who asks.
pub struct Load<'a> {
    bed: &'a Bed,
    source: &'a Source,
    clients: usize,
    directory: PathBuf,
}

impl<'a> Load<'a> {
    /// With files for xrdcp below `directory`, if it is there.
    pub fn new(bed: &'a Bed, source: &'a Source, clients: usize, directory: &Path) -> Outcome<Self> {
        if bed.xrdcp().is_ok() {
            source.write(&directory.join(TREE))?;
        }
        Ok(Load { bed, source, clients, directory: directory.to_owned() })
    }

    /// Does one thing with one server.
    pub fn run(&self, operation: Operation, server: Server) -> Outcome<Took> {
        let is_put = matches!(operation, Operation::PutLarge | Operation::PutSmall);
        match (server, is_put) {
            (Server::S3 | Server::Webdav | Server::Nginx, true) => {
                put(self.bed, server, self.source, &below(server), self.clients)
            }
            (Server::S3 | Server::Webdav | Server::Nginx, false) => self.get(server),
            (Server::XrootdKist | Server::Xrootd, true) => self.copy_in(server),
            (Server::XrootdKist | Server::Xrootd, false) => self.copy_out(server),
        }
    }

    /// Gets all over HTTP, in an order that no cache expects.
    fn get(&self, server: Server) -> Outcome<Took> {
        let (files, below) = (self.source.files, below(server));
        timed(self.bed, server, self.clients, files.count, |link, number| {
            let path = files.path(&below, number.wrapping_mul(7919) % files.count);
            let got = expect("a get", link.ask("GET", &path, "", false), 200)?;
            if got.bytes == files.size { Ok(()) } else { Err(Failure::internal("a get was not whole")) }
        })
    }

    /// Copies all in with xrdcp.
    fn copy_in(&self, server: Server) -> Outcome<Took> {
        let tree = self.directory.join(TREE);
        let mut command = self.bed.xrdcp()?;
        match self.source.files.amount {
            Amount::Large => {
                command.arg(self.source.files.path(&tree.display().to_string(), 0));
                command.arg(self.bed.url(server, LARGE)?);
            }
            Amount::Small => {
                command.args(["-r", "--parallel", &XRDCP_PARALLEL.to_string()]).arg(tree);
                command.arg(self.bed.url(server, &format!("{OPEN}/"))?);
            }
        }
        self.ran(command, server)
    }

    /// Copies all out with xrdcp: the large file to nowhere, the small ones into a directory that is empty.
    fn copy_out(&self, server: Server) -> Outcome<Took> {
        let mut command = self.bed.xrdcp()?;
        if self.source.files.amount == Amount::Large {
            command.arg("-f").arg(self.bed.url(server, LARGE)?).arg("/dev/null");
            return self.ran(command, server);
        }
        let back = self.directory.join(format!("back-{}", server.name()));
        fs::create_dir_all(&back).map_err(|error| Failure::io("making the directory", &back, &error))?;
        command.args(["-r", "--parallel", &XRDCP_PARALLEL.to_string()]);
        command.arg(self.bed.url(server, &format!("{OPEN}/{TREE}"))?).arg(&back);
        let took = self.ran(command, server)?;
        self.check(&back)?;
        fs::remove_dir_all(&back).map_err(|error| Failure::io("removing", &back, &error))?;
        Ok(took)
    }

    /// Demands that every file came back whole.
    fn check(&self, back: &Path) -> Outcome {
        let (files, below) = (self.source.files, back.join(TREE).display().to_string());
        for number in 0..files.count {
            let path = files.path(&below, number);
            let got = fs::read(&path)
                .map_err(|error| Failure::io("reading what came back", Path::new(&path), &error))?;
            if got != self.source.body(number, Checked::Unsaid).pieces(&[]).concat() {
                return Err(Failure::new(terminal::Exit::Differs, format!("{path}: other bytes came back")));
            }
        }
        Ok(())
    }

    fn ran(&self, mut command: Command, server: Server) -> Outcome<Took> {
        let (before, started) = (self.bed.cpu(server), Instant::now());
        let ran = command.output();
        let seconds = started.elapsed().as_secs_f64();
        let ran = ran.map_err(|error| Failure::internal(format!("xrdcp: {error}")))?;
        if !ran.status.success() {
            let said = String::from_utf8_lossy(&ran.stderr).trim().to_owned();
            let failure = Failure::internal(format!("xrdcp with {}: {said}", server.name()));
            return Err(self.bed.kist().with_log(failure));
        }
        Ok(Took { seconds, cpu: self.bed.cpu(server) - before })
    }
}

/// What xrdcp copies, and how its copy is called.
const TREE: &str = "tree";
const LARGE: &str = "/open/large";

/// Where the files of a server go, so that doors of one instance do not share them.
fn below(server: Server) -> String {
    format!("{ALL}/{}", server.name())
}

/// Puts all over HTTP. S3's bodies have a CRC-64 in a trailer, as today's clients send them; others have
/// nothing.
pub fn put(bed: &Bed, server: Server, source: &Source, below: &str, clients: usize) -> Outcome<Took> {
    let (status, checked) = match server {
        Server::S3 => (200, Checked::Trailer),
        _ => (201, Checked::Unsaid),
    };
    if server == Server::Webdav {
        make_directories(bed, source.files, below)?;
    }
    let bodies: Vec<Body<'_>> = match source.files.amount {
        Amount::Large => vec![source.body(0, checked)],
        // Each is made when it is sent: it takes microseconds.
        Amount::Small => Vec::new(),
    };
    timed(bed, server, clients, source.files.count, |link, number| {
        let path = source.files.path(below, number);
        let answer = match bodies.first() {
            Some(body) => link.put(&path, body),
            None => link.put(&path, &source.body(number, checked)),
        };
        expect("a put", answer, status).map(drop)
    })
}

/// Directories have to be there before a put over WebDAV.
fn make_directories(bed: &Bed, files: Files, below: &str) -> Outcome {
    let mut link = bed.connect(Server::Webdav)?;
    let of_files = (0..files.directories()).map(|number| format!("{below}/d{number}"));
    for path in std::iter::once(below.to_owned()).chain(of_files) {
        expect("making a directory", link.ask("MKCOL", &path, "", true), 201)?;
    }
    Ok(())
}

fn timed(
    bed: &Bed,
    server: Server,
    clients: usize,
    count: u64,
    work: impl Fn(&mut crate::s3::link::Link, u64) -> Outcome + Sync,
) -> Outcome<Took> {
    let links = (0..clients).map(|_| bed.connect(server)).collect::<Outcome<Vec<_>>>()?;
    let before = bed.cpu(server);
    let seconds = share_out(links, count, work).map_err(|failure| bed.kist().with_log(failure))?;
    Ok(Took { seconds, cpu: bed.cpu(server) - before })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_written_have_the_bytes_that_are_sent() {
        let files = Files { amount: Amount::Small, count: 1001, size: 100 };
        assert_eq!(files.directories(), 2);
        let source = Source::new(files).unwrap();
        let directory = tempfile::tempdir().unwrap();
        source.write(directory.path()).unwrap();
        let last = fs::read(directory.path().join("d1/f1000")).unwrap();
        assert_eq!(last, source.body(1000, Checked::Unsaid).pieces(&[]).concat());
        assert_ne!(last, source.body(999, Checked::Unsaid).pieces(&[]).concat());
    }
}
