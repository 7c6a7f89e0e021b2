//! Making durable what was written back: one flush for all who wait.

use std::sync::Arc;

use kinetic::Request;
use kinetic_client::{Answered, CallError};
use threads::Mutex;

use crate::inner::{Inner, lock};

type Then = Box<dyn FnOnce(Result<Answered, CallError>) + Send>;

/// Who waits for a flush.
#[derive(Default)]
pub(crate) struct Flusher(Mutex<State>);

#[derive(Default)]
struct State {
    is_under_way: bool,
    /// They asked after the one under way was sent: it may not cover what they wrote.
    next: Vec<Then>,
}

/// Has the drive flush. Tells what came of a flush that was sent after this call.
pub(crate) fn flush(inner: &Arc<Inner>, then: Then) {
    {
        let mut state = lock(&inner.flusher.0);
        state.next.push(then);
        if std::mem::replace(&mut state.is_under_way, true) {
            return;
        }
    }
    send(inner);
}

fn send(inner: &Arc<Inner>) {
    let waiting = {
        let mut state = lock(&inner.flusher.0);
        state.is_under_way = !state.next.is_empty();
        std::mem::take(&mut state.next)
    };
    if waiting.is_empty() {
        return;
    }
    let shared = Arc::clone(inner);
    inner.submit(Request::FlushAllData, move |result| {
        for then in waiting {
            then(result.clone());
        }
        send(&shared);
    });
}
