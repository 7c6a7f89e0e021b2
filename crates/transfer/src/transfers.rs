//! The one budget of all doors for bodies of files.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use authority::Notices;
use base::{ByteCount, Duration};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;

use crate::fault::Fault;
use crate::md5_lanes::Md5Lanes;
use crate::places::{Holder, Place, Places};
use crate::rate::LowestRate;

/// Bodies up to this many bytes go in one piece: they are gathered before the engine is called, or read to
/// their end before any of them is sent, so that a thread is needed only for a moment. It is the size up to
/// which the engine keeps a file as a small value.
pub const WHOLE_BYTES_MAX: u64 = archive::SMALL_BYTES_MAX as u64;

/// The bounds of bodies of files, over all doors together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransferLimits {
    /// Bodies of files that are streamed at once, in and out; each has a thread that may block. A caller, and
    /// a connection, gets as many as stay free ([`Places`]): half of them if nobody else is there.
    pub at_once: usize,
    /// Downloads at once that hand on the pool's own memory; further ones copy, so that clients that stop
    /// reading cannot hold all of it.
    pub loans: usize,
    /// How long a request waits for a place, of these or of others of a door, before it is refused.
    pub admission_wait: Duration,
    /// Pieces of a file between the connection and the engine, of at most 1 MiB each; at least 1.
    pub pieces: usize,
    /// What a client has to send or take (as many times as its caller holds places, while few are free): else
    /// it is broken off.
    pub rate: LowestRate,
}

impl Default for TransferLimits {
    /// For a server with hundreds of clients.
    fn default() -> Self {
        TransferLimits {
            at_once: 96,
            loans: 6,
            admission_wait: Duration::from_secs(10),
            pieces: 2,
            rate: LowestRate { bytes: ByteCount::kib(960), window: Duration::from_secs(60) },
        }
    }
}

/// The budget itself: one for a server, whatever doors it has. Clones are the same budget.
#[derive(Clone)]
pub struct Transfers(Arc<Inner>);

struct Inner {
    limits: TransferLimits,
    places: Places,
    loans: Arc<Semaphore>,
    md5: Md5Lanes,
}

impl Transfers {
    /// A budget with these limits. `notices` say when places are scarce; `haste` says how many times the
    /// lowest rate is due of the uploads of a caller ([`authority::Bytes::upload_haste`]).
    #[must_use]
    pub fn new(
        limits: TransferLimits,
        notices: &Notices,
        haste: impl Fn(&str) -> u64 + Send + Sync + 'static,
    ) -> Self {
        let places = Places::with_haste(limits.at_once, haste);
        let told = places.clone();
        notices.set("transfers", move || told.shortage("transfers").into_iter().collect());
        // None is as good as any number: all downloads copy then.
        let loans = Arc::new(Semaphore::new(limits.loans.min(Semaphore::MAX_PERMITS)));
        Transfers(Arc::new(Inner { limits, places, loans, md5: Md5Lanes::default() }))
    }

    /// Its limits.
    #[must_use]
    pub fn limits(&self) -> &TransferLimits {
        &self.0.limits
    }

    /// The places for bodies, to tell how many are free.
    #[must_use]
    pub fn places(&self) -> &Places {
        &self.0.places
    }

    /// Where MD5s of large bodies are computed.
    #[must_use]
    pub fn md5(&self) -> &Md5Lanes {
        &self.0.md5
    }

    /// Waits for a place for one body, but not for long.
    ///
    /// # Errors
    /// [`Fault::Busy`] if none came free within [`TransferLimits::admission_wait`].
    pub async fn admit(&self, holder: &Holder) -> Result<Place, Fault> {
        self.admit_to(&self.0.places, holder, 1).await
    }

    /// As [`Transfers::admit_to`] of one place, for a thread that may block.
    ///
    /// # Errors
    /// As [`Transfers::admit`].
    pub fn admit_blocking(&self, places: &Places, holder: &Holder) -> Result<Place, Fault> {
        let mut admission = pin!(places.admit(holder));
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let since = Instant::now();
        loop {
            if let Poll::Ready(place) = admission.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Ok(place);
            }
            let left = self.0.limits.admission_wait.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Err(Fault::Busy);
            }
            thread::park_timeout(left);
        }
    }

    /// Waits as long for so many of other places of a door at once.
    ///
    /// # Errors
    /// As [`Transfers::admit`].
    pub async fn admit_to(&self, places: &Places, holder: &Holder, count: usize) -> Result<Place, Fault> {
        let wait = tokio::time::timeout(self.0.limits.admission_wait, places.admit_many(holder, count)).await;
        wait.map_err(|_| Fault::Busy)
    }

    /// Does something on a thread that may block, for which there are `places`: waits for one as long.
    ///
    /// # Errors
    /// [`Fault::Busy`] if none came free, [`Fault::Lost`] if it panicked; those of `work`.
    pub async fn block<T, E, W>(&self, places: &Places, holder: &Holder, work: W) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<Fault> + Send + 'static,
        W: FnOnce() -> Result<T, E> + Send + 'static,
    {
        let place = self.admit_to(places, &holder.unpaced(), 1).await?;
        let outcome = spawn_blocking(move || {
            let _place = place;
            work()
        });
        outcome.await.map_err(|_| Fault::Lost)?
    }

    /// The right to hand on the pool's own memory, if it is to be had now.
    pub(crate) fn loan(&self) -> Option<OwnedSemaphorePermit> {
        self.0.loans.clone().try_acquire_owned().ok()
    }

    /// Pieces between a connection and a thread; a channel has room for one at least.
    pub(crate) fn pieces(&self) -> usize {
        self.0.limits.pieces.max(1)
    }
}

/// Wakes a thread that waits for a place.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::tests::holder;

    #[test]
    fn a_thread_waits_for_a_place_and_not_for_long() {
        let limits = TransferLimits { at_once: 1, ..TransferLimits::default() };
        let transfers = Transfers::new(limits, &Notices::default(), |_| 1);
        let place = transfers.admit_blocking(transfers.places(), &holder("anna", 1)).unwrap();
        let (other, bert) = (transfers.clone(), holder("bert", 2));
        let waits = thread::spawn(move || other.admit_blocking(other.places(), &bert).is_ok());
        while transfers.places().waiting() == 0 {
            thread::yield_now();
        }
        drop(place);
        assert!(waits.join().unwrap());
        let limits =
            TransferLimits { at_once: 1, admission_wait: Duration::ZERO, ..TransferLimits::default() };
        let transfers = Transfers::new(limits, &Notices::default(), |_| 1);
        let _place = transfers.admit_blocking(transfers.places(), &holder("anna", 1)).unwrap();
        let refused = transfers.admit_blocking(transfers.places(), &holder("bert", 2));
        assert_eq!(refused.err(), Some(Fault::Busy));
    }
}
