//! MD5s of many bodies, computed together by few threads: see [`base::Md5Stream`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use base::{MD5_LANES, Md5Stream};
use bytes::Bytes;

/// Pieces of one body that wait.
const WAITING_MAX: usize = 2;
/// One thread for so many processors.
const PROCESSORS_A_THREAD: usize = 8;
/// Bodies go together by as many bytes as the shortest piece has of those that have at least so many.
const TOGETHER_BYTES_MIN: usize = 4 << 10;

/// Computes MD5s; threads are started with the first body and end with this value.
#[derive(Default)]
pub struct Md5Lanes(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// A thread has something to do.
    work: Condvar,
}

#[derive(Default)]
struct State {
    bodies: BTreeMap<u64, Body>,
    next: u64,
    /// The body whose turn it is.
    turn: u64,
    is_started: bool,
    /// Threads that run.
    threads: usize,
    stopping: bool,
}

#[derive(Default)]
struct Body {
    waiting: VecDeque<Bytes>,
    /// Not here while a thread works on it, nor when the MD5 is known.
    stream: Option<Md5Stream>,
    has_ended: bool,
    md5: Option<[u8; 16]>,
    /// There is room for a piece, or the MD5 is known, or the threads have ended.
    changed: Arc<Condvar>,
}

/// The MD5 of one body. Dropping it forgets the body.
pub(crate) struct Lane {
    shared: Arc<Shared>,
    id: u64,
    changed: Arc<Condvar>,
}

/// The threads have ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lost;

impl Md5Lanes {
    /// Begins a body; `None` where nothing is gained by computing several together, or no thread can be had.
    pub(crate) fn begin(&self) -> Option<Lane> {
        if Md5Stream::together_pays() { self.begin_anyway() } else { None }
    }

    fn begin_anyway(&self) -> Option<Lane> {
        let mut state = self.0.lock();
        if !state.is_started {
            state.is_started = true;
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            for _ in 0..processors.div_ceil(PROCESSORS_A_THREAD) {
                let shared = self.0.clone();
                let thread = std::thread::Builder::new().name("md5".to_owned()).spawn(move || shared.run());
                match thread {
                    Ok(_) => state.threads += 1,
                    Err(error) => tracing::error!(%error, "no thread can be had for MD5"),
                }
            }
        }
        if state.threads == 0 || state.stopping {
            return None;
        }
        let id = state.next;
        state.next += 1;
        let body = Body { stream: Some(Md5Stream::default()), ..Body::default() };
        let changed = body.changed.clone();
        state.bodies.insert(id, body);
        Some(Lane { shared: self.0.clone(), id, changed })
    }
}

impl Drop for Md5Lanes {
    fn drop(&mut self) {
        self.0.lock().stopping = true;
        self.0.work.notify_all();
    }
}

impl Lane {
    /// Takes the next bytes; waits if the threads lag behind.
    pub(crate) fn update(&self, bytes: &Bytes) -> Result<(), Lost> {
        let mut state = self.shared.lock();
        loop {
            let is_lost = state.is_lost();
            let body = state.bodies.get_mut(&self.id).filter(|_| !is_lost).ok_or(Lost)?;
            if body.waiting.len() < WAITING_MAX {
                body.waiting.push_back(bytes.clone());
                self.shared.work.notify_one();
                return Ok(());
            }
            state = wait(&self.changed, state);
        }
    }

    /// The MD5 of all bytes.
    pub(crate) fn finish(self) -> Result<[u8; 16], Lost> {
        let mut state = self.shared.lock();
        if let Some(body) = state.bodies.get_mut(&self.id) {
            body.has_ended = true;
        }
        self.shared.work.notify_one();
        loop {
            let body = state.bodies.get(&self.id).ok_or(Lost)?;
            match body.md5 {
                Some(md5) => return Ok(md5),
                None if state.is_lost() => return Err(Lost),
                None => state = wait(&self.changed, state),
            }
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        // What it held is given back when nobody waits for the lock.
        let body = self.shared.lock().bodies.remove(&self.id);
        drop(body);
    }
}

/// A piece of a body that a thread works on.
struct Taken {
    id: u64,
    stream: Md5Stream,
    piece: Bytes,
}

/// Takes note of the end of a thread, however it ended.
struct Running<'s>(&'s Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.threads -= 1;
        // The streams that it had are gone: nobody shall wait for them. Later bodies go without lanes.
        state.stopping |= std::thread::panicking();
        state.bodies.values().for_each(|body| body.changed.notify_all());
        self.0.work.notify_all();
    }
}

impl State {
    /// Whether some body may wait for ever.
    fn is_lost(&self) -> bool {
        self.stopping || self.threads == 0
    }
}

impl Shared {
    /// What is guarded is whole between statements.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let _running = Running(self);
        while let Some(mut taken) = self.take() {
            let mut pairs: Vec<_> =
                taken.iter_mut().map(|taken| (&mut taken.stream, taken.piece.as_ref())).collect();
            Md5Stream::update_together(&mut pairs);
            self.give_back(taken);
        }
    }

    /// A piece each of as many bodies as go together; waits for some. `None`: the end.
    fn take(&self) -> Option<Vec<Taken>> {
        let mut state = self.lock();
        loop {
            if state.stopping {
                return None;
            }
            // Whoever comes behind the last one that was taken is first.
            let ready = |body: &Body| body.stream.is_some() && (!body.waiting.is_empty() || body.has_ended);
            let (before, behind) = (state.bodies.range(..state.turn), state.bodies.range(state.turn..));
            let ids = behind.chain(before).filter(|(_, body)| ready(body)).map(|(id, _)| *id);
            let ids: Vec<u64> = ids.take(MD5_LANES).collect();
            let (mut taken, mut some_ended) = (Vec::new(), false);
            for id in ids {
                state.turn = id + 1;
                let Some(body) = state.bodies.get_mut(&id) else { continue };
                let Some(stream) = body.stream.take() else { continue };
                match body.waiting.pop_front() {
                    Some(piece) => taken.push(Taken { id, stream, piece }),
                    None => {
                        body.md5 = Some(stream.finish());
                        body.changed.notify_all();
                        some_ended = true;
                    }
                }
            }
            even_out(&mut state, &mut taken);
            for Taken { id, .. } in &taken {
                let body = state.bodies.get(id).filter(|body| body.waiting.len() < WAITING_MAX);
                body.into_iter().for_each(|body| body.changed.notify_all());
            }
            if !taken.is_empty() {
                return Some(taken);
            }
            if !some_ended {
                state = wait(&self.work, state);
            }
        }
    }

    fn give_back(&self, taken: Vec<Taken>) {
        let mut pieces = Vec::new();
        let mut state = self.lock();
        for Taken { id, stream, piece } in taken {
            pieces.push(piece);
            // Its lane may have been dropped.
            if let Some(body) = state.bodies.get_mut(&id) {
                body.stream = Some(stream);
            }
        }
        drop(state);
        // There may be more than one thread takes.
        self.work.notify_one();
    }
}

/// Cuts pieces to the length of the shortest, so that no lane runs empty before the others; very short ones
/// do not count.
fn even_out(state: &mut State, taken: &mut [Taken]) {
    let lengths = taken.iter().map(|taken| taken.piece.len());
    let Some(shortest) = lengths.filter(|length| *length >= TOGETHER_BYTES_MIN).min() else { return };
    for Taken { id, piece, .. } in taken.iter_mut().filter(|taken| taken.piece.len() > shortest) {
        let rest = piece.split_off(shortest);
        if let Some(body) = state.bodies.get_mut(id) {
            body.waiting.push_front(rest);
        }
    }
}

fn wait<'s>(condition: &Condvar, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
    condition.wait(state).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use md5::{Digest, Md5};

    fn content(body: usize, length: usize) -> Bytes {
        (0..length).map(|at| (at * 7 + at / 253 + body * 13) as u8).collect()
    }

    #[test]
    fn bodies_that_come_together_have_the_md5_that_each_has_alone() {
        let lanes = Md5Lanes::default();
        std::thread::scope(|scope| {
            for body in 0..3 * MD5_LANES {
                let lanes = &lanes;
                scope.spawn(move || {
                    let bytes = content(body, 200_000 + body * 4099);
                    let lane = lanes.begin_anyway().unwrap();
                    for piece in bytes.chunks(1 + body * 3001) {
                        lane.update(&Bytes::copy_from_slice(piece)).unwrap();
                    }
                    let expected: [u8; 16] = Md5::digest(&bytes).into();
                    assert_eq!(lane.finish(), Ok(expected), "body {body}");
                });
            }
        });
        assert!(lanes.0.lock().bodies.is_empty(), "nothing is kept of a body");
    }

    #[test]
    fn a_body_that_is_given_up_is_forgotten_and_the_end_is_told() {
        let lanes = Md5Lanes::default();
        let given_up = lanes.begin_anyway().unwrap();
        given_up.update(&content(1, 100_000)).unwrap();
        drop(given_up);
        assert!(lanes.0.lock().bodies.is_empty());
        let lane = lanes.begin_anyway().unwrap();
        drop(lanes);
        let mut outcome = Ok(());
        while outcome.is_ok() {
            outcome = lane.update(&content(1, 10));
        }
        assert_eq!(lane.finish(), Err(Lost));
    }
}
