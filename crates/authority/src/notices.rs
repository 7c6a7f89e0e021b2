//! What an operator should know of the doors, keys and lists: `kist status` shows it among the warnings,
//! beside what the engine says of itself.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use threads::Mutex;

/// Topics that are kept at most; each is one line of code that sets it, and one for each listener.
const TOPICS_MAX: usize = 64;

/// Asked each time when somebody looks at the status.
type Source = Arc<dyn Fn() -> Vec<String> + Send + Sync>;

/// Warnings by topic. Clones are the same warnings.
#[derive(Clone, Default)]
pub struct Notices(Arc<Mutex<BTreeMap<String, Source>>>);

impl Notices {
    /// From now on the warnings of a topic are what `source` says, which must not block.
    pub fn set(&self, topic: &str, source: impl Fn() -> Vec<String> + Send + Sync + 'static) {
        let mut topics = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if topics.len() < TOPICS_MAX || topics.contains_key(topic) {
            topics.insert(topic.to_owned(), Arc::new(source));
        }
    }

    /// From now on the warnings of a topic are these.
    pub fn say(&self, topic: &str, warnings: Vec<String>) {
        self.set(topic, move || warnings.clone());
    }

    /// All warnings now.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        let topics: Vec<Source> =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        topics.iter().flat_map(|source| source()).collect()
    }
}
