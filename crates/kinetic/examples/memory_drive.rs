//! A drive in memory on plain TCP, for clients that are not ours: nothing in it survives the program.
//!
//!     cargo run -p kinetic --example memory_drive -- 127.0.0.1:8123

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use base::Timestamp;
use bytes::BytesMut;
use kinetic::model::{Drive, Peers};
use kinetic::server::{Action, Device, DeviceSettings, DeviceState};
use kinetic::{Configuration, ConnectionId, FrameReader, Limits, Progress};

struct Both {
    device: Device,
    drive: Drive,
}

fn main() -> std::io::Result<()> {
    let Some(address) = std::env::args().nth(1) else {
        eprintln!("usage: memory_drive HOST:PORT");
        std::process::exit(2);
    };
    let listener = TcpListener::bind(&address)?;
    let configuration = Configuration {
        vendor: "Kist".to_owned(),
        model: "memory".to_owned(),
        serial_number: bytes::Bytes::from_static(b"1"),
        world_wide_name: bytes::Bytes::from_static(b"kist-memory-drive"),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol_version: kinetic::PROTOCOL_VERSION.to_owned(),
        port: Some(listener.local_addr()?.port()),
        ..Configuration::default()
    };
    let settings = DeviceSettings {
        configuration,
        limits: Limits::stated(),
        is_security_over_tls: true,
        connection_first: ConnectionId(i64::from(std::process::id()) << 32),
    };
    let device = Device::new(settings, DeviceState::factory());
    let both = Arc::new(Mutex::new(Both { device, drive: Drive::default() }));
    println!("serving at {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let (stream, both) = (stream?, both.clone());
        std::thread::spawn(move || match serve(stream, &both) {
            Ok(()) => println!("a connection was closed"),
            Err(error) => println!("a connection broke: {error}"),
        });
    }
    Ok(())
}

fn serve(mut stream: TcpStream, both: &Mutex<Both>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let began = Instant::now();
    let (accepted, limits) = {
        let mut both = both.lock().expect("a lock");
        (both.device.accept(false), both.device.frame_limits())
    };
    let (mut connection, greeting) = match accepted {
        Ok(accepted) => accepted,
        Err(last_word) => return stream.write_all(&last_word.to_vec()),
    };
    stream.write_all(&greeting.to_vec())?;
    let (mut reader, mut buffer) = (FrameReader::new(limits), BytesMut::new());
    let mut piece = vec![0; 1 << 16];
    let result = loop {
        let mut actions = Vec::new();
        let mut locked = both.lock().expect("a lock");
        let Both { device, drive } = &mut *locked;
        match reader.next(&mut buffer) {
            Ok(Progress::Frame(frame)) => {
                let now = Timestamp(0).plus(began.elapsed());
                connection.received(device, now, frame, &mut actions);
                let mut place = 0;
                while let Some(action) = actions.get(place).cloned() {
                    place += 1;
                    if let Action::Execute(work) = action {
                        let outcome = drive.execute(work.operation, &mut Peers::new());
                        connection.done(device, now, work.job, outcome, &mut actions);
                    }
                }
            }
            Ok(Progress::More(_)) => {
                drop(locked);
                match stream.read(&mut piece) {
                    Ok(0) => break Ok(()),
                    Ok(count) => buffer.extend_from_slice(&piece[..count]),
                    Err(error) => break Err(error),
                }
                continue;
            }
            Err(error) => connection.broken(device, error, &mut actions),
        }
        drop(locked);
        let sent = actions.iter().try_for_each(|action| match action {
            Action::Send(frame) => {
                stream.write_all(&frame.head)?;
                stream.write_all(&frame.value)
            }
            Action::Execute(_) | Action::Close => Ok(()),
        });
        if sent.is_err() || connection.is_closed() {
            break sent;
        }
    };
    connection.closed(&mut both.lock().expect("a lock").device);
    result
}
