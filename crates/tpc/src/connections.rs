//! How many connections are open, all together and to one host. They are shared as places are: one caller
//! has as many as stay free, so that nobody keeps others from a server by copies that do not go on.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use base::{Duration, Fit};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::error::Error;
use crate::settings::Limits;

/// Counts connections.
#[derive(Default, Debug)]
pub(crate) struct Connections {
    held: Mutex<Held>,
    freed: Notify,
}

#[derive(Default, Debug)]
struct Held {
    total: usize,
    /// Only hosts with one at least.
    hosts: BTreeMap<String, usize>,
    /// To each host by each caller; only where there is one at least.
    callers: BTreeMap<(String, String), usize>,
}

impl Held {
    /// Those of a caller to all hosts.
    fn of_caller(&self, caller: &str) -> usize {
        self.callers.iter().filter(|((other, _), _)| other == caller).map(|(_, count)| count).sum()
    }
}

/// One connection to a host; dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct Permit {
    connections: Arc<Connections>,
    caller: String,
    host: String,
}

/// What to do while there is no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IfFull {
    /// Give up.
    Refuse,
    /// Wait for so long: one that is open already makes use of it.
    Wait(Duration),
}

impl Connections {
    pub(crate) async fn take(
        self: &Arc<Self>,
        (caller, host): (&str, &str),
        limits: &Limits,
        if_full: IfFull,
    ) -> Result<Permit, Error> {
        let wait = match (self.try_take(caller, host, limits), if_full) {
            (Some(permit), _) => return Ok(permit),
            (None, IfFull::Refuse) => return Err(Error::Busy),
            (None, IfFull::Wait(wait)) => wait,
        };
        let free = async {
            loop {
                let freed = self.freed.notified();
                if let Some(permit) = self.try_take(caller, host, limits) {
                    return permit;
                }
                freed.await;
            }
        };
        timeout(wait, free).await.map_err(|_| Error::Busy)
    }

    fn try_take(self: &Arc<Self>, caller: &str, host: &str, limits: &Limits) -> Option<Permit> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let of_host = held.hosts.get(host).copied().unwrap_or(0);
        let key = (caller.to_owned(), host.to_owned());
        let of_both = held.callers.get(&key).copied().unwrap_or(0);
        let free = limits.connections.saturating_sub(held.total);
        let free_at_host = limits.connections_per_host.saturating_sub(of_host);
        let fits = [Fit::of(1, free, [held.of_caller(caller)]), Fit::of(1, free_at_host, [of_both])];
        if fits != [Fit::Yes, Fit::Yes] {
            return None;
        }
        held.total += 1;
        held.hosts.insert(host.to_owned(), of_host + 1);
        held.callers.insert(key, of_both + 1);
        Some(Permit { connections: self.clone(), caller: caller.to_owned(), host: host.to_owned() })
    }

    /// How many are open.
    pub(crate) fn open(&self) -> usize {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).total
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = self.connections.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.total -= 1;
        let host = std::mem::take(&mut self.host);
        one_less(&mut held.hosts, host.clone());
        one_less(&mut held.callers, (std::mem::take(&mut self.caller), host));
        drop(held);
        self.connections.freed.notify_waiters();
    }
}

/// Counts one down; of none nothing is kept.
fn one_less<K: Ord>(counts: &mut BTreeMap<K, usize>, key: K) {
    if let Entry::Occupied(mut entry) = counts.entry(key) {
        *entry.get_mut() -= 1;
        if *entry.get() == 0 {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn room_is_limited_by_host_and_altogether() {
        let connections = Arc::new(Connections::default());
        let limits = Limits { connections: 3, connections_per_host: 2, ..Limits::default() };
        let take = |caller: &'static str, host: &'static str, if_full| {
            let connections = connections.clone();
            async move { connections.take((caller, host), &limits, if_full).await }
        };
        let one = take("anna", "a", IfFull::Refuse).await.unwrap();
        let _two = take("bert", "a", IfFull::Refuse).await.unwrap();
        assert_eq!(take("carl", "a", IfFull::Refuse).await.unwrap_err(), Error::Busy);
        let _three = take("carl", "b", IfFull::Refuse).await.unwrap();
        assert_eq!(take("dora", "c", IfFull::Refuse).await.unwrap_err(), Error::Busy);
        let wait = IfFull::Wait(Duration::from_secs(5));
        assert_eq!(take("dora", "a", wait).await.unwrap_err(), Error::Busy);
        let waiting = tokio::spawn(take("dora", "a", wait));
        tokio::task::yield_now().await;
        drop(one);
        let four = waiting.await.unwrap().unwrap();
        assert_eq!(connections.open(), 3);
        drop(four);
        let held = connections.held.lock().unwrap();
        assert_eq!((held.hosts.len(), held.callers.len()), (2, 2));
    }

    /// Copies that do not go on held all connections to a host, and everybody else's copies to it failed.
    #[tokio::test]
    async fn one_caller_leaves_as_many_as_it_has() {
        let connections = Arc::new(Connections::default());
        let limits = Limits { connections: 12, connections_per_host: 8, ..Limits::default() };
        let all = |caller: &'static str, host: &'static str| {
            let connections = connections.clone();
            async move {
                let mut got = Vec::new();
                while let Ok(permit) = connections.take((caller, host), &limits, IfFull::Refuse).await {
                    got.push(permit);
                }
                got
            }
        };
        let anna = all("anna", "a").await;
        assert_eq!(anna.len(), 4, "half of a host's");
        assert_eq!(all("anna", "b").await.len(), 2, "half of all");
        let bert = all("bert", "a").await;
        assert_eq!(bert.len(), 2);
        assert_eq!(all("carl", "a").await.len(), 1);
        drop((anna, bert));
        assert_eq!(connections.open(), 0);
        assert!(connections.held.lock().unwrap().callers.is_empty());
    }
}
