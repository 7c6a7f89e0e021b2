//! What a PIN allows: unlock, lock, erase. A locked drive takes nothing else, so that this has a connection
//! of its own.

use std::time::{Duration, Instant};

use base::Timestamp;
use kinetic::client::{Event, Options};
use kinetic::{Client, PinOperation, Response, Secret};
use threads::mpsc::{self, RecvTimeoutError};

use crate::desk::{CallError, Result};
use crate::frames::{Frames, ReadError};
use crate::settings::LinkSettings;
use crate::stream::Stream;

/// How long an erase may take: a drive may write over all that it holds.
pub const PIN_WITHIN: Duration = Duration::from_secs(24 * 3600);

/// Sends one operation with a PIN, over TLS, to the first address that can be reached, and waits for the
/// answer, `within` at most.
///
/// # Errors
/// [`CallError::Unreachable`] and [`CallError::NotTaken`]: nothing was done. [`CallError::Unknown`]: it was
/// sent, and the drive did not say what became of it, as one that ends all its connections may not.
pub fn pin(
    settings: &LinkSettings,
    operation: PinOperation,
    pin: Secret,
    within: Duration,
) -> Result<Response> {
    let mut failed = "it has no address".to_owned();
    for address in &settings.addresses {
        match Stream::connect(settings, address) {
            Ok(stream) => return over(settings, stream, operation, pin, within),
            Err(error) => failed = format!("{address}: {error}"),
        }
    }
    Err(CallError::Unreachable(failed))
}

fn over(
    settings: &LinkSettings,
    stream: Stream,
    operation: PinOperation,
    pin: Secret,
    within: Duration,
) -> Result<Response> {
    let mut client = settings.client.clone();
    (client.is_tls, client.request_within) = (settings.trust.is_some(), within);
    let patience = client.greeting_within + within;
    let (send, receive) = mpsc::sync_channel(1);
    let talking = stream.clone();
    let talk = move || {
        let _ = send.send(exchange(&talking, Client::new(client, Timestamp(1)), operation, &pin));
    };
    threads::spawn_guarded("kinetic pin", talk, || ())
        .map_err(|error| CallError::Unreachable(error.to_string()))?;
    let result = receive.recv_timeout(patience);
    stream.shut();
    match result {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            Err(CallError::Unknown("it does not answer".to_owned()))
        }
    }
}

fn exchange(stream: &Stream, mut client: Client, operation: PinOperation, pin: &Secret) -> Result<Response> {
    let began = Instant::now();
    let mut frames = Frames::new(stream.reader());
    let mut is_sent = false;
    loop {
        let now = Timestamp(1).plus(began.elapsed());
        match frames.next() {
            Ok(frame) => client.received(now, frame),
            Err(ReadError::Lost) => client.lost(),
            Err(ReadError::Frame(error)) => client.broken(error),
        }
        while let Some(event) = client.event() {
            match event {
                Event::Greeted(_) => {
                    client.submit_pin(now, operation, pin.clone(), Options::default())?;
                    is_sent = true;
                }
                Event::Answered { response, .. } => return Ok(response),
                Event::Ended(reason) if is_sent => return Err(CallError::Unknown(reason.to_string())),
                Event::Ended(reason) => return Err(CallError::Unreachable(reason.to_string())),
                _ => {}
            }
        }
        while let Some(frame) = client.transmit(now) {
            let bytes = frame.to_vec();
            if stream.write_all(&[&bytes], || true).is_err() {
                client.lost();
            }
        }
    }
}
