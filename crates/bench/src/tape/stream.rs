//! The limit: the same bytes over a plain connection, with the same copies and no protocol.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};

use super::slices::{Work, repeat};

/// The other side takes `length` bytes, and sends one if it acknowledges, over and over.
pub fn plain(length: usize, acknowledges: bool) -> Result<Work, String> {
    let mut ours = connected(length, acknowledges).map_err(|error| format!("a TCP connection: {error}"))?;
    let bytes = vec![7; length];
    Ok(Box::new(move |time| {
        repeat(time, length, || {
            let sent = ours.write_all(&bytes);
            let done = sent.and_then(|()| if acknowledges { ours.read_exact(&mut [0]) } else { Ok(()) });
            done.map_err(|error| format!("a TCP connection: {error}"))
        })
    }))
}

fn connected(length: usize, acknowledges: bool) -> io::Result<TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let ours = TcpStream::connect(listener.local_addr()?)?;
    let (mut theirs, _) = listener.accept()?;
    ours.set_nodelay(true)?;
    theirs.set_nodelay(true)?;
    // It ends with its connection.
    std::thread::spawn(move || {
        let mut buffer = vec![0; length];
        while theirs.read_exact(&mut buffer).is_ok() {
            black_box(&buffer);
            if acknowledges && theirs.write_all(&[1]).is_err() {
                return;
            }
        }
    });
    Ok(ours)
}
