//! The two threads of a link: one connects and reads, one writes and minds the time.

use std::sync::PoisonError;
use std::time::Duration;

use kinetic::{Client, OutFrame};

use crate::frames::{Frames, ReadError};
use crate::link::{Shared, State};
use crate::settings::SUBMITTED_BYTES_MAX;
use crate::stream::Stream;

/// Frames that are written with one call.
const FRAMES_MAX: usize = 32;

/// Connects and reads until the link is closed.
pub(crate) fn link(shared: &Shared) {
    let settings = &shared.settings;
    let (mut address, mut back_off) = (0, settings.back_off_min);
    let mut failed = 0;
    while !shared.state().desk.is_closed() {
        let target = settings.addresses.get(address % settings.addresses.len()).map_or("", String::as_str);
        match Stream::connect(settings, target) {
            Ok(stream) if read(shared, &stream) => {
                // It worked: it is tried again at once, where it was.
                (failed, back_off) = (0, settings.back_off_min);
                continue;
            }
            Ok(_) => {}
            Err(error) => {
                let mut state = shared.state();
                state.desk.not_connected(format!("{target}: {error}"));
            }
        }
        address += 1;
        failed += 1;
        if failed % settings.addresses.len() == 0 {
            let mut state = shared.state();
            state.rounds_failed += 1;
            shared.changed.notify_all();
            wait(shared, state, back_off);
            back_off = (back_off * 2).min(settings.back_off_max);
        }
    }
}

/// Waits before the next attempt, unless somebody is in a hurry.
fn wait(shared: &Shared, mut state: threads::MutexGuard<'_, State>, span: Duration) {
    let until = shared.now().plus(span);
    loop {
        let left = until.since(shared.now());
        let is_hurried = std::mem::take(&mut state.is_hurried);
        if is_hurried || left.is_zero() || state.desk.is_closed() {
            return;
        }
        state = shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// Reads a connection to its end; whether the drive answered to anything over it.
fn read(shared: &Shared, stream: &Stream) -> bool {
    let connection = {
        let mut state = shared.state();
        if state.desk.is_closed() {
            return false;
        }
        let mut client = shared.settings.client.clone();
        client.is_tls = shared.settings.trust.is_some();
        state.desk.connected(Client::new(client, shared.now()));
        state.stream = Some(stream.clone());
        shared.to_write.notify_all();
        state.desk.connection()
    };
    let (mut frames, mut was_open) = (Frames::new(stream.reader()), false);
    loop {
        let next = frames.next();
        let mut state = shared.state();
        let now = shared.now();
        if !state.desk.is_current(connection) {
            break;
        }
        match next {
            Ok(frame) => state.desk.received(now, frame),
            Err(ReadError::Lost) => state.desk.lost(now, None),
            Err(ReadError::Frame(error)) => state.desk.lost(now, Some(error)),
        }
        if !was_open && state.desk.greeting().is_some() {
            was_open = true;
            shared.changed.notify_all();
        }
        let told = state.desk.told();
        let is_over = !state.desk.is_current(connection);
        drop(state);
        shared.to_write.notify_all();
        for (then, result) in told {
            then(result);
        }
        if is_over {
            break;
        }
    }
    stream.shut();
    let mut state = shared.state();
    state.stream = None;
    shared.changed.notify_all();
    shared.to_write.notify_all();
    state.desk.has_answered()
}

/// Writes what is to be written until the link is closed.
pub(crate) fn write(shared: &Shared) {
    loop {
        let mut state = shared.state();
        let (stream, connection, frames) = loop {
            let now = shared.now();
            state.desk.tick(now);
            let told = state.desk.told();
            if !told.is_empty() {
                drop(state);
                for (then, result) in told {
                    then(result);
                }
                state = shared.state();
                continue;
            }
            if state.desk.is_closed() {
                return;
            }
            let connection = state.desk.connection();
            if let Some(stream) = state.stream.clone() {
                if !state.desk.is_current(connection) {
                    // A deadline or the device has ended it: its reader finds that out by this.
                    stream.shut();
                    state.stream = None;
                    continue;
                }
                let frames = take(&mut state, shared);
                if !frames.is_empty() {
                    break (stream, connection, frames);
                }
            }
            let deadline = state.desk.deadline(now);
            state = match deadline.map(|deadline| deadline.since(now)) {
                None => shared.to_write.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(left) => {
                    // A deadline is over when the clock is past it.
                    let left = left.max(Duration::from_millis(1));
                    shared.to_write.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        };
        drop(state);
        let pieces: Vec<&[u8]> = frames
            .iter()
            .flat_map(|frame| [frame.head.as_ref(), frame.value.as_ref()])
            .filter(|piece| !piece.is_empty())
            .collect();
        let is_wanted = || {
            let mut state = shared.state();
            state.desk.tick(shared.now());
            let (told, is_current) = (state.desk.told(), state.desk.is_current(connection));
            drop(state);
            for (then, result) in told {
                then(result);
            }
            is_current
        };
        if stream.write_all(&pieces, is_wanted).is_err() {
            // The reader may still find what the device said before it closed, and then tells of the end.
            stream.shut();
        }
    }
}

fn take(state: &mut State, shared: &Shared) -> Vec<OutFrame> {
    let (mut frames, mut bytes) = (Vec::new(), 0);
    while frames.len() < FRAMES_MAX && bytes < SUBMITTED_BYTES_MAX {
        let Some(frame) = state.desk.transmit(shared.now()) else { break };
        bytes += frame.length();
        frames.push(frame);
    }
    frames
}
