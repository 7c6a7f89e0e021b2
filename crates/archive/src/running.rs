//! The one place that starts and ends the threads of all rooms.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use threads::mpsc::sync_channel;

use base::{Duration, LibraryId, RequestId};
use ground::{Duty, Ends, OpenError, Worker};
use scheduler::Event;

use crate::Archive;
use crate::change_log::BasesAsked;
use crate::conductor::{Conductor, ORDERS_MAX, SEALS_MAX, run_sealer};
use crate::engine::Engine;
use crate::flow::Flow;
use crate::settle;
use crate::tape::DriveThread;

/// A stopping engine waits for its access log to go on for no longer than this.
const ACCESS_LOG_PATIENCE: Duration = Duration::from_secs(5);

impl Archive {
    /// `down`: tape drives that an operator has taken out of use; `settled_with`: the drives of the pool that
    /// a restored catalogue is compared with.
    pub(crate) fn start(
        &self,
        down: &BTreeMap<String, String>,
        settled_with: Option<settle::Drives>,
    ) -> Result<(), OpenError> {
        let engine = &self.0.engine;
        self.start_serving()?;
        let mut orders = BTreeMap::new();
        for name in engine.library.drives() {
            let (sender, receiver) = sync_channel(ORDERS_MAX);
            let handle = engine.library.take_drive(&name)?;
            let thread = DriveThread::new(Arc::clone(engine), name.clone(), handle);
            orders.insert(name.as_str().to_owned(), sender);
            let library = LibraryId(engine.library.library_of(&name));
            let is_down = down.contains_key(name.as_str());
            let looks = settled_with.is_some() && !is_down;
            let own = name.as_str().to_owned();
            engine.bell.post(Event::DriveIn(own.clone(), library));
            engine.bell.post(match down.get(&own) {
                Some(reason) => Event::DriveDown(own, reason.clone()),
                None if looks => Event::DriveDown(own, settle::DRIVES_LOOK.to_owned()),
                None => Event::DriveUp(own),
            });
            let duty = self.duty(&format!("tape-{name}"), |engine| engine.settling.stop());
            engine.start(duty, move |me| thread.run(&receiver, looks, me))?;
        }
        for (vid, record) in engine.catalogue.read(|view| view.tapes())? {
            engine.bell.post(Event::Tape(vid, engine.summary_of(vid, &record)));
        }
        let (sealer, seals) = sync_channel(SEALS_MAX);
        self.go("sealer", |engine| engine.settling.stop(), move |engine, me| run_sealer(engine, &seals, me))?;
        let (trimmed, mut asked) = (Arc::clone(engine), BasesAsked::default());
        engine.upkeep.start(move || crate::change_log::turn(&trimmed, &mut asked))?;
        self.namespace().start()?;
        let archive = self.clone();
        self.go(
            "lifecycle",
            |engine| engine.lifecycle.ring(),
            move |_, me| crate::lifecycle::run(&archive, me),
        )?;
        self.go(
            "inventory",
            |engine| engine.inventory.stop(),
            |engine, me| crate::inventory::run(engine, me),
        )?;
        let conductor = Conductor {
            engine: Arc::clone(engine),
            began: engine.now(),
            drives: orders,
            sealer,
            todo_since: BTreeMap::new(),
            sealing: BTreeMap::new(),
            wake: None,
            flow: Flow::default(),
            too_large: false,
            resting: BTreeSet::new(),
        };
        self.go("conductor", |engine| engine.bell.stop(), move |_, me| conductor.run(me))?;
        if let Some(drives) = settled_with {
            self.go(
                "settle",
                |engine| engine.settling.stop(),
                move |engine, me| settle::run(engine, &drives, me),
            )?;
        }
        // Only requests of before this start: those that come from now on tell of their files themselves.
        let newest = engine.catalogue.read(|view| view.requests(None, 1))?;
        let before = newest.first().map_or(RequestId(0), |(id, _)| RequestId(id.0 + 1));
        self.go("resume", |engine| engine.settling.stop(), move |engine, me| resume(engine, before, me))
    }

    /// The threads that serve clients and all others until those have ended.
    fn start_serving(&self) -> Result<(), OpenError> {
        self.ingest().start()?;
        let engine = &self.0.engine;
        if engine.access.log().is_none() {
            return Ok(());
        }
        let own = Arc::clone(engine);
        let duty = self.duty("access-log", |engine| engine.access.stop()).ending(Ends::Last);
        engine.start(duty, move |me| crate::access_log::run(&own, me))
    }

    fn duty(&self, name: &str, wake: impl Fn(&Engine) + Send + Sync + 'static) -> Duty {
        let engine = Arc::clone(&self.0.engine);
        Duty::new(name, move || wake(&engine))
    }

    fn go(
        &self,
        name: &str,
        wake: impl Fn(&Engine) + Send + Sync + 'static,
        run: impl FnOnce(&Arc<Engine>, &Arc<Worker>) + Send + 'static,
    ) -> Result<(), OpenError> {
        let engine = Arc::clone(&self.0.engine);
        self.0.engine.start(self.duty(name, wake), move |me| run(&engine, me))
    }

    /// Stops sessions at the next good point, writes owed indexes, unmounts, seals open segments. Afterwards
    /// every operation that writes is refused.
    pub fn close(&self) {
        let engine = &self.0.engine;
        engine.stop.store(true, Ordering::SeqCst);
        engine.workers.wake(Ends::First);
        engine.workers.join(Ends::First);
        engine.workers.wake(Ends::BehindOthers);
        engine.workers.join(Ends::BehindOthers);
        engine.pool.close();
        engine.upkeep.stamp();
        // Unless its disk hangs: statistics hold up no stop.
        engine.workers.wake(Ends::Last);
        if engine.access.wait_for_end(ACCESS_LOG_PATIENCE) {
            engine.workers.join(Ends::Last);
        } else {
            tracing::error!("the disk of the access log does not answer: its last lines are missing");
        }
        if let Some(backup) = self.0.backup.get() {
            // What the other threads did last.
            backup.turn(false);
        }
    }
}

/// Goes on with what the last stop broke off.
fn resume(engine: &Engine, before: RequestId, me: &Worker) {
    me.does("going on with requests");
    if let Err(error) = crate::resume::finish_requests(engine, before) {
        tracing::error!(%error, "open requests cannot be read");
        me.failed(&error);
    }
    if let Err(error) = ingest::finish_aborts(engine) {
        tracing::error!(%error, "uploads in parts cannot be read");
        me.failed(&error);
    }
    me.rests();
    // What is to be written again is decided by what the pool has.
    if !engine.settling.wait_for_pool() {
        return;
    }
    me.does("going on with tapes");
    if let Err(error) = crate::tapes::resume(engine) {
        tracing::error!(%error, "what is to be done on tapes cannot be read");
        me.failed(&error);
    }
}
