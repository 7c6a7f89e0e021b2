//! Puts many small files over many connections that are kept, as `benches/growth.py` needs it: one thread
//! writes the next request to each connection as soon as it has read the answer to the one before, so that
//! the client takes little of the processor that the server is measured on.
//!
//! `cargo run --release -p kist --example small_puts ADDRESS KEY_FILE TREE BEGIN END BYTES CONNECTIONS`
//!
//! File `n` is `/TREE/D/E/fF` with `F` = `n` modulo 1,000 and at most 100 directories in each `D`. Prints the
//! seconds that it took, and fails with the first answer that is no success.

use std::io::{Error, Read, Result, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

const FILES_A_DIRECTORY: u64 = 1_000;
const DIRECTORIES_A_DIRECTORY: u64 = 100;
const PATIENCE: Duration = Duration::from_secs(300);
/// Room for an answer: some 600 bytes.
const ANSWER_BYTES_MAX: usize = 16 << 10;

struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Connection { stream, buffer: vec![0; ANSWER_BYTES_MAX] })
    }

    /// Reads an answer whole, and checks that it is a success.
    fn answer(&mut self) -> Result<()> {
        let mut filled = 0;
        loop {
            let room = self.buffer.get_mut(filled..).unwrap_or_default();
            let count = self.stream.read(room)?;
            filled += count;
            let text = self.buffer.get(..filled).unwrap_or_default();
            if count == 0 {
                return Err(Error::other(format!("cut off: {}", String::from_utf8_lossy(text))));
            }
            let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(text.get(..end).unwrap_or_default()).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.and_then(|n| n.trim().parse().ok()).unwrap_or(0);
            if filled < end + 4 + length {
                continue;
            }
            if !head.starts_with("http/1.1 20") {
                return Err(Error::other(String::from_utf8_lossy(text).into_owned()));
            }
            return Ok(());
        }
    }
}

fn path(tree: &str, number: u64) -> String {
    let directory = number / FILES_A_DIRECTORY;
    let (upper, lower) = (directory / DIRECTORIES_A_DIRECTORY, directory % DIRECTORIES_A_DIRECTORY);
    format!("/{tree}/{upper}/{lower}/f{}", number % FILES_A_DIRECTORY)
}

fn run(args: &[String]) -> Result<f64> {
    let [address, key_file, tree, begin, end, bytes, connections] = args else {
        return Err(Error::other("ADDRESS KEY_FILE TREE BEGIN END BYTES CONNECTIONS"));
    };
    let number = |text: &String| text.parse::<u64>().map_err(Error::other);
    let (begin, end, bytes, connections) =
        (number(begin)?, number(end)?, number(bytes)?, number(connections)?);
    let key = std::fs::read_to_string(key_file)?;
    let body: Vec<u8> = (0..bytes).map(|n| n as u8).collect();
    let request = |number: u64| {
        let head = format!(
            "PUT /data{} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {}\r\n\
             content-length: {bytes}\r\n\r\n",
            path(tree, number),
            key.trim(),
        );
        [head.as_bytes(), &body].concat()
    };
    let count = connections.min(end - begin);
    let mut open = (0..count).map(|_| Connection::open(address)).collect::<Result<Vec<_>>>()?;
    let begun = Instant::now();
    for (number, connection) in (begin..end).zip(&mut open) {
        connection.stream.write_all(&request(number))?;
    }
    // In the order in which they were asked; what is answered earlier waits in its socket.
    let mut next = begin + count;
    for turn in 0..end - begin {
        let Some(connection) = open.get_mut((turn % count) as usize) else { break };
        connection.answer()?;
        if next < end {
            connection.stream.write_all(&request(next))?;
            next += 1;
        }
    }
    Ok(begun.elapsed().as_secs_f64())
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match run(&args) {
        Ok(seconds) => println!("{seconds:.6}"),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}
