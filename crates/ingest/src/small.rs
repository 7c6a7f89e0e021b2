//! Small puts of many clients in common: one sync of their segment, one commit of the catalogue.
//!
//! Uploads are handed over complete, and who handed one over need not wait: one thread takes all that have
//! come while it served the ones before, stores them, commits them, and tells each. So the syncs serve more
//! puts the more clients there are, and a put costs one change of threads instead of one for each step.

use std::collections::VecDeque;
use std::sync::PoisonError;
use threads::{Condvar, Mutex, MutexGuard};

use base::{BlobDescription, BlobPiece};
use catalogue::{PoolData, PutFile, PutOutcome};
use pool::PoolError;
use store::ExecuteError;

use crate::Shared;
use crate::upload::{PutCallback, Upload};
use ground::ArchiveError;
use ground::Class;
use ground::Worker;

/// Puts that may wait; who hands over one more waits.
const WAITING_MAX: usize = 1024;
/// Puts served together at most.
const GROUP_MAX: usize = 512;
/// Bytes of values served together, unless one alone has more: what one write to a segment takes.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// A put whose body is complete and small.
pub(crate) struct SmallPut {
    pub(crate) upload: Upload,
    /// All but where the bytes are.
    pub(crate) put: PutFile,
    pub(crate) class: Class,
    pub(crate) done: PutCallback,
}

/// The puts that wait.
#[derive(Default)]
pub(crate) struct SmallPuts {
    state: Mutex<State>,
    came: Condvar,
    room: Condvar,
    repeated: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<SmallPut>,
    /// Puts that were made before: what was kept is read before they are acknowledged. Each was among those
    /// that wait, and keeps its place there in the count.
    repeats: VecDeque<Repeat>,
    stopped: bool,
    /// The thread that serves those that wait has ended.
    ended: bool,
}

/// A repeat that the catalogue has accepted, and where its bytes came to lie.
struct Repeat {
    put: SmallPut,
    place: Place,
    outcome: PutOutcome,
}

impl SmallPuts {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over a put, which is told of its end once. Waits while too many are waiting.
    pub(crate) fn submit(&self, put: SmallPut) {
        let mut state = self.lock();
        while state.waiting.len() + state.repeats.len() >= WAITING_MAX && !state.stopped {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.stopped {
            drop(state);
            return (put.done)(Err(ArchiveError::Stopping));
        }
        state.waiting.push_back(put);
        // The thread looks again after each group; only an idle one has to be woken.
        if state.waiting.len() == 1 {
            self.came.notify_one();
        }
    }

    /// Takes no more; those that wait are still served.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.came.notify_all();
        self.room.notify_all();
    }

    /// Waits for a repeat; `None` once no more can come.
    fn take_repeat(&self) -> Option<Repeat> {
        let mut state = self.lock();
        loop {
            if let Some(repeat) = state.repeats.pop_front() {
                self.room.notify_all();
                return Some(repeat);
            }
            if state.ended {
                return None;
            }
            state = self.repeated.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for puts and takes a group; `None` once stopped and empty.
    fn take(&self) -> Option<Vec<SmallPut>> {
        let mut state = self.lock();
        while state.waiting.is_empty() {
            if state.stopped {
                return None;
            }
            state = self.came.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let mut bytes = 0;
        let fits = |put: &&SmallPut| {
            bytes += put.upload.small().len();
            bytes <= GROUP_BYTES_MAX
        };
        let count = state.waiting.iter().take(GROUP_MAX).take_while(fits).count();
        let group = state.waiting.drain(..count.max(1)).collect();
        self.room.notify_all();
        Some(group)
    }
}

/// Drops what still waits when the thread that serves it ends, however it ends. A put that waits holds the
/// engine that holds it here, so that both would stay for ever once nobody serves it.
struct Leftovers<'a> {
    puts: &'a SmallPuts,
    take: fn(&mut State) -> VecDeque<SmallPut>,
}

impl Drop for Leftovers<'_> {
    fn drop(&mut self) {
        // Puts tell their clients when they go, so that they go after the lock.
        let left = (self.take)(&mut self.puts.lock());
        drop(left);
    }
}

fn take_waiting(state: &mut State) -> VecDeque<SmallPut> {
    state.stopped = true;
    std::mem::take(&mut state.waiting)
}

fn take_repeats(state: &mut State) -> VecDeque<SmallPut> {
    std::mem::take(&mut state.repeats).into_iter().map(|repeat| repeat.put).collect()
}

/// The thread of small puts.
pub(crate) fn run_small_puts(ingest: &Shared, me: &Worker) {
    let _leftovers = Leftovers { puts: &ingest.small, take: take_waiting };
    while let Some(group) = ingest.small.take() {
        me.does("storing");
        // Before the gate is entered, which garbage waits for.
        ingest.pool.pace(group.iter().map(|put| put.upload.small().len() as u64).sum());
        serve(ingest, group);
        me.rests();
    }
    ingest.small.lock().ended = true;
    ingest.small.repeated.notify_all();
}

/// The thread of repeated small puts: a drive that hangs may hold up their reading.
pub(crate) fn run_repeats(ingest: &Shared, me: &Worker) {
    let _leftovers = Leftovers { puts: &ingest.small, take: take_repeats };
    while let Some(Repeat { put, place: (blob, piece), outcome }) = ingest.small.take_repeat() {
        me.does("reading");
        let _storing = ingest.gate.enter();
        finish(put, Some(&(blob, piece)), Ok(outcome));
        me.rests();
    }
}

/// Where a value is.
type Place = (BlobDescription, BlobPiece);

/// Syncs the group's values, commits them, and tells each. The gate is entered before, so that a segment
/// which is swept meanwhile is still known as garbage when the commit arrives; see `sweep`.
fn serve(ingest: &Shared, group: Vec<SmallPut>) {
    let _storing = ingest.gate.enter();
    let places = store(ingest, &group);
    let mut stored = Vec::with_capacity(group.len());
    for (put, place) in group.into_iter().zip(places) {
        match place {
            Ok(place) => stored.push((put, place)),
            Err(error) => (put.done)(Err(error.into())),
        }
    }
    let results = commit(ingest, &stored);
    for ((put, place), result) in stored.into_iter().zip(results) {
        end(ingest, put, place, result);
    }
}

/// Syncs the values. An empty one needs no place.
fn store(ingest: &Shared, group: &[SmallPut]) -> Vec<Result<Option<Place>, PoolError>> {
    let values = group.iter().map(|put| put.upload.small());
    let filled: Vec<&[u8]> = values.clone().filter(|value| !value.is_empty()).collect();
    let mut placed = ingest.pool.put_small_all(&filled).into_iter();
    let mut place = |value: &[u8]| match value {
        [] => Ok(None),
        _ => placed.next().unwrap_or(Err(PoolError::Closed)).map(Some),
    };
    values.map(&mut place).collect()
}

fn placed(put: &PutFile, place: Option<&Place>) -> PutFile {
    let data = place.map(|(blob, piece)| PoolData { blobs: vec![blob.clone()], pieces: vec![*piece] });
    PutFile { data, ..put.clone() }
}

/// Commits all in one transaction; each is accepted or refused by itself.
fn commit(ingest: &Shared, stored: &[(SmallPut, Option<Place>)]) -> Vec<Result<PutOutcome, ArchiveError>> {
    let command =
        |(put, place): &(SmallPut, Option<Place>)| put.upload.command(placed(&put.put, place.as_ref()));
    match ingest.catalogue.ask_all(stored.iter().map(command)) {
        Ok(results) => {
            results.into_iter().map(|result| result.map_err(|error| ingest.failed(error))).collect()
        }
        // One of them needs too much; by itself each of the others may fit.
        Err(error) if error.shortage().is_some() && stored.len() > 1 => {
            stored.iter().map(|put| ingest.ask(command(put))).collect()
        }
        Err(error) => stored.iter().map(|_| Err(ArchiveError::Store(same(&error)))).collect(),
    }
}

/// The same failure for each put of a group.
fn same(error: &ExecuteError) -> ExecuteError {
    match error {
        ExecuteError::MapFull => ExecuteError::MapFull,
        ExecuteError::MapRead => ExecuteError::MapRead,
        ExecuteError::DiskFull => ExecuteError::DiskFull,
        ExecuteError::NotNow(why) => ExecuteError::NotNow(why.clone()),
        ExecuteError::Engine(reason) => ExecuteError::Engine(reason.clone()),
        _ => ExecuteError::Stopped,
    }
}

/// Does what follows from the commit and tells the client.
fn end(ingest: &Shared, put: SmallPut, place: Option<Place>, result: Result<PutOutcome, ArchiveError>) {
    let result = result.map_err(|error| put.upload.in_words(error));
    let result = match put.upload.has_lost_parent(&result) {
        true => put.upload.commit(placed(&put.put, place.as_ref())),
        false => result,
    };
    match (result, place) {
        (Ok(outcome), Some(place)) if !outcome.created => {
            ingest.small.lock().repeats.push_back(Repeat { put, place, outcome });
            ingest.small.repeated.notify_one();
        }
        (result, place) => finish(put, place.as_ref(), result),
    }
}

fn finish(put: SmallPut, place: Option<&Place>, result: Result<PutOutcome, ArchiveError>) {
    let SmallPut { upload, put, class, done } = put;
    let result = match place {
        Some((blob, piece)) => {
            upload.settle_small(blob, piece, result).unwrap_or_else(|| upload.store_small(&put))
        }
        None => result,
    };
    done(result.and_then(|outcome| upload.complete(&put, class, &outcome)));
}
