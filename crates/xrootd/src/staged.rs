//! Files on tape that somebody wants to open: who asks again and again asks for the same request, and hears
//! how it ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use archive::{ErrorKind, has_ended};
use authority::Staging as _;
use base::{ArchivePath, Duration, RequestId, Timestamp};
use catalogue::ItemState;
use rustix::io::Errno;

use crate::errors::Refused;
use crate::people::Client;
use crate::staging;

/// Requests that an open of a file on tape made and that are remembered.
const STAGED_MAX: usize = 10_000;
/// For this long whoever opens the file hears that staging it failed; then it is tried once more. Clients ask
/// every 5 s: all that wait for it hear of it.
const FAILURE_TOLD: Duration = Duration::from_secs(600);

/// Who wants to open what.
type Key = (String, ArchivePath);
/// The request that was made for it, if any. Whoever holds the lock looks, or makes one.
type Slot = Arc<Mutex<Option<RequestId>>>;

/// The requests that opens have made.
#[derive(Default)]
pub struct Staged {
    slots: Mutex<BTreeMap<Key, Slot>>,
}

/// How a file of a request stands.
enum Standing {
    /// It is waited for.
    Waits,
    /// It will not come, for this reason, since that time.
    Failed(String, Timestamp),
    /// It came, and is on tape only again, or nobody knows the request any more.
    Over,
}

impl Staged {
    /// Has a file staged that somebody wants to open, once for all times that they ask.
    ///
    /// # Errors
    /// If they may not, or if staging it failed a short while ago.
    pub fn once(
        &self,
        client: &Client,
        path: &ArchivePath,
        pin: Duration,
        now: Timestamp,
    ) -> Result<(), Refused> {
        let stage = || staging::stage_paths(client, vec![path.clone()], 0, pin);
        self.ask((client.caller.name.clone(), path.clone()), now, |known| standing(client, known), stage)
    }

    fn ask(
        &self,
        key: Key,
        now: Timestamp,
        standing: impl FnOnce(RequestId) -> Result<Standing, Refused>,
        stage: impl FnOnce() -> Result<RequestId, Refused>,
    ) -> Result<(), Refused> {
        let path = key.1.clone();
        let slot = self.slot(key);
        // Others who want this file wait here until it is known whether there is a request; nobody else does.
        let mut known = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(request) = *known {
            match standing(request)? {
                Standing::Waits => return Ok(()),
                Standing::Failed(why, at) if now.since(at) < FAILURE_TOLD => {
                    let why = format!(
                        "{path} is on tape only, and request {} could not bring it: {why}. An open tries \
                         again {} s after that, 'kist stage' at once",
                        request.0,
                        FAILURE_TOLD.as_secs()
                    );
                    return Err(Refused::new(Errno::IO, why));
                }
                Standing::Failed(..) | Standing::Over => {}
            }
        }
        *known = Some(stage()?);
        Ok(())
    }

    fn slot(&self, key: Key) -> Slot {
        let mut slots = self.slots();
        if slots.len() >= STAGED_MAX && !slots.contains_key(&key) {
            // Whoever is forgotten makes another request, which costs nothing but a line.
            slots.clear();
        }
        slots.entry(key).or_default().clone()
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<Key, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How the file of a request stands that an open made: it has one.
fn standing(client: &Client, request: RequestId) -> Result<Standing, Refused> {
    let info = match client.engine.request(request) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Standing::Over),
        info => info?.record,
    };
    let ended = info.ended.unwrap_or(info.created);
    let (files, _) = client.engine.request_files(request, 0, 1)?;
    Ok(match files.into_iter().next().map(|file| (file.state, file.ended)) {
        Some((ItemState::Failed(why), at)) => Standing::Failed(why, at.unwrap_or(ended)),
        Some((ItemState::Cancelled, at)) => {
            Standing::Failed("it was cancelled".to_owned(), at.unwrap_or(ended))
        }
        Some((ItemState::Done(_) | ItemState::Released, _)) => Standing::Over,
        Some((ItemState::Waiting | ItemState::WaitingUnpinned, _)) => Standing::Waits,
        None if has_ended(info.state) => Standing::Over,
        None => Standing::Waits,
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    use super::*;

    fn key(path: &str) -> Key {
        ("anna".to_owned(), crate::names::path(path).unwrap())
    }

    const NOW: Timestamp = Timestamp(1_000_000_000_000_000);

    #[test]
    fn a_failure_is_told_and_not_tried_again_every_few_seconds() {
        let (staged, made) = (Staged::default(), Cell::new(0));
        let ask = |path: &str, now: Timestamp, stands: fn(RequestId) -> Standing| {
            let stage = || {
                made.set(made.get() + 1);
                Ok(RequestId(made.get()))
            };
            staged.ask(key(path), now, |request| Ok(stands(request)), stage)
        };
        let fails = |_| Standing::Failed("no cartridge has it".to_owned(), NOW);
        assert!(ask("/a", NOW, |_| Standing::Over).is_ok(), "the first time");
        for path in ["/a", "//a", "///a/"] {
            assert!(ask(path, NOW, |_| Standing::Waits).is_ok(), "it is waited for");
        }
        for seconds in [0, 5, 599] {
            let now = Timestamp(NOW.0 + seconds * 1_000_000_000);
            let refused = ask("//a", now, fails).unwrap_err();
            assert_eq!(i32::from(refused.errno), Errno::IO.raw_os_error());
            assert!(refused.why.contains("no cartridge has it"), "{}", refused.why);
        }
        assert_eq!(made.get(), 1, "requests");
        assert!(ask("/a", Timestamp(NOW.0 + 601_000_000_000), fails).is_ok(), "later it is tried again");
        assert!(
            ask("/a", NOW, |request| if request.0 == 2 { Standing::Waits } else { Standing::Over }).is_ok()
        );
        assert_eq!(made.get(), 2, "requests");
        assert!(ask("/a", NOW, |_| Standing::Over).is_ok(), "it came, and went again");
        assert_eq!(made.get(), 3, "requests");
    }

    #[test]
    fn many_at_once_make_one_request() {
        let (staged, made) = (Staged::default(), AtomicU64::new(0));
        let meet = std::sync::Barrier::new(50);
        let ask = || {
            meet.wait();
            staged.ask(
                key("/a"),
                NOW,
                |_| Ok(Standing::Waits),
                || {
                    // Whoever else has looked by now is about to make one too, if nothing hinders it.
                    (0..100).for_each(|_| thread::yield_now());
                    Ok(RequestId(made.fetch_add(1, Ordering::Relaxed)))
                },
            )
        };
        thread::scope(|scope| {
            let all: Vec<_> = (0..50).map(|_| scope.spawn(ask)).collect();
            all.into_iter().for_each(|one| assert!(one.join().unwrap().is_ok()));
        });
        assert_eq!(made.load(Ordering::Relaxed), 1, "requests");
    }

    #[test]
    fn what_is_refused_is_not_remembered() {
        let staged = Staged::default();
        let refuse = || Err(Refused::new(Errno::ACCESS, "may not stage"));
        assert!(staged.ask(key("/a"), NOW, |_| unreachable!(), refuse).is_err());
        assert!(staged.ask(key("/a"), NOW, |_| unreachable!(), || Ok(RequestId(1))).is_ok());
    }
}
