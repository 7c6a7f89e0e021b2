//! How many connections are open, all together and to one host.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use base::Duration;
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
}

/// One connection to a host; dropping it makes room for another.
#[derive(Debug)]
pub(crate) struct Permit {
    connections: Arc<Connections>,
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
        host: &str,
        limits: &Limits,
        if_full: IfFull,
    ) -> Result<Permit, Error> {
        let wait = match (self.try_take(host, limits), if_full) {
            (Some(permit), _) => return Ok(permit),
            (None, IfFull::Refuse) => return Err(Error::Busy),
            (None, IfFull::Wait(wait)) => wait,
        };
        let free = async {
            loop {
                let freed = self.freed.notified();
                if let Some(permit) = self.try_take(host, limits) {
                    return permit;
                }
                freed.await;
            }
        };
        timeout(wait, free).await.map_err(|_| Error::Busy)
    }

    fn try_take(self: &Arc<Self>, host: &str, limits: &Limits) -> Option<Permit> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let of_host = held.hosts.get(host).copied().unwrap_or(0);
        if held.total >= limits.connections || of_host >= limits.connections_per_host {
            return None;
        }
        held.total += 1;
        held.hosts.insert(host.to_owned(), of_host + 1);
        Some(Permit { connections: self.clone(), host: host.to_owned() })
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
        let left = held.hosts.get(&self.host).map_or(0, |count| count - 1);
        if left == 0 {
            held.hosts.remove(&self.host);
        } else {
            held.hosts.insert(self.host.clone(), left);
        }
        drop(held);
        self.connections.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn room_is_limited_by_host_and_altogether() {
        let connections = Arc::new(Connections::default());
        let limits = Limits { connections: 3, connections_per_host: 2, ..Limits::default() };
        let take = |host: &'static str, if_full| {
            let connections = connections.clone();
            async move { connections.take(host, &limits, if_full).await }
        };
        let one = take("a", IfFull::Refuse).await.unwrap();
        let _two = take("a", IfFull::Refuse).await.unwrap();
        assert_eq!(take("a", IfFull::Refuse).await.unwrap_err(), Error::Busy);
        let _three = take("b", IfFull::Refuse).await.unwrap();
        assert_eq!(take("c", IfFull::Refuse).await.unwrap_err(), Error::Busy);
        let wait = IfFull::Wait(Duration::from_secs(5));
        assert_eq!(take("a", wait).await.unwrap_err(), Error::Busy);
        let waiting = tokio::spawn(take("a", wait));
        tokio::task::yield_now().await;
        drop(one);
        let four = waiting.await.unwrap().unwrap();
        assert_eq!(connections.open(), 3);
        drop(four);
        assert_eq!(connections.held.lock().unwrap().hosts.len(), 2);
    }
}
