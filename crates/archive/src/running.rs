//! The one place that starts and ends the threads of all rooms.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Duration;
use ground::{Duty, Ends, OpenError};
use tape::{BasesAsked, Begun, QueueWalk};

use crate::Archive;

/// A stopping engine waits for its access log to go on for no longer than this.
const ACCESS_LOG_PATIENCE: Duration = Duration::from_secs(5);

impl Archive {
    /// Starts all of them.
    pub(crate) fn start(&self, begun: &Begun) -> Result<(), OpenError> {
        self.0.ingest.start()?;
        self.start_access_log()?;
        self.0.tape.start(begun)?;
        let (tape, mut asked) = (Arc::clone(&self.0.tape), BasesAsked::default());
        let mut walk = QueueWalk::default();
        self.0.upkeep.start(move || {
            if let Err(error) = tape.drop_unneeded(&mut walk) {
                tracing::error!(%error, "what nobody needs stays queued for tapes");
            }
            tape::trim_change_log(&tape, &mut asked)
        })?;
        self.0.namespace.start()?;
        let archive = self.clone();
        let duty = Duty::new("lifecycle", &self.0.ground, |ground| ground.lifecycle.ring());
        self.0.ground.start(duty, move |me| crate::lifecycle::run(&archive, me))
    }

    fn start_access_log(&self) -> Result<(), OpenError> {
        if self.0.ground.access.log().is_none() {
            return Ok(());
        }
        let tape = Arc::clone(&self.0.tape);
        let duty = Duty::new("access-log", &self.0.ground, |ground| ground.access.stop()).ending(Ends::Last);
        self.0.ground.start(duty, move |me| crate::access_log::run(&tape, me))
    }

    /// Stops sessions at the next good point, writes owed indexes, unmounts, seals open segments. Afterwards
    /// every operation that writes is refused.
    pub fn close(&self) {
        let ground = &*self.0.ground;
        ground.stop.store(true, Ordering::SeqCst);
        ground.workers.wake(Ends::First);
        ground.workers.join(Ends::First);
        ground.workers.wake(Ends::BehindOthers);
        ground.workers.join(Ends::BehindOthers);
        ground.pool.close();
        self.0.upkeep.stamp();
        // Unless its disk hangs: statistics hold up no stop.
        ground.workers.wake(Ends::Last);
        if ground.access.wait_for_end(ACCESS_LOG_PATIENCE) {
            ground.workers.join(Ends::Last);
        } else {
            tracing::error!("the disk of the access log does not answer: its last lines are missing");
        }
        if let Some(backup) = self.0.backup.get() {
            // What the other threads did last.
            backup.turn(false);
        }
    }
}
