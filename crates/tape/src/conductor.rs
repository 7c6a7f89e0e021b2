//! The conductor: hears what happened, asks the scheduler, and hands its actions to the threads that carry
//! them out.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use threads::mpsc::{Receiver, SyncSender, TrySendError};

use base::{ByteCount, ClassId, ContainerId, TapePoolId, Timestamp, Vid};
use catalogue::{Counter, ReadError, View};
use scheduler::{Action, Backlog, DriveName, Event};

use crate::flow::Flow;
use crate::room::{Tape, wanted_event};
use crate::seal::seal_class;
use ground::ArchiveError;
use ground::notifier::{Heard, Notice};
use ground::{LeavingCause, Worker};

/// The longest time without a tick.
const TICK_EVERY: Duration = Duration::from_secs(1);
/// Orders that may wait for one drive; the scheduler gives a drive one at a time.
pub(crate) const ORDERS_MAX: usize = 4 + scheduler::DRIVE_SUSPECTS_MAX;
/// Seals that may wait; there is at most one for each class, and one for packs that are too large.
pub(crate) const SEALS_MAX: usize = 256;

/// What a drive's thread is to do.
#[derive(Clone, Debug)]
pub(crate) enum DriveTask {
    /// Something with the drive; its end is told.
    Order(Order),
    /// A tape that this drive failed on becomes what it was; nothing is to be told of it.
    Clear(Vid),
}

/// What a drive is to do.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    Mount { vid: Vid, assign: Option<TapePoolId> },
    Migrate { vid: Vid, tape_pool: TapePoolId },
    Recall { vid: Vid },
    Maintain { vid: Vid },
    Clean { vid: Vid },
    Unmount,
}

impl Order {
    /// What a drive does that carries it out.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Order::Mount { .. } => "mounting",
            Order::Migrate { .. } => "writing",
            Order::Recall { .. } => "recalling",
            Order::Maintain { .. } => "maintaining",
            Order::Clean { .. } => "cleaning",
            Order::Unmount => "unmounting",
        }
    }
}

/// What the sealer is to do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seal {
    /// Seals a class; with `partial` all of it.
    Class { class: ClassId, partial: bool },
    /// Dissolves the packs that no tape takes, and what failed and is needed by nobody.
    Dissolve,
}

/// A seal of a class that is under way.
pub(crate) struct SealUnderWay {
    /// Also of what does not fill a pack: nothing that was there when it began is left.
    partial: bool,
    began: Timestamp,
}

pub(crate) struct Conductor {
    pub(crate) room: Arc<Tape>,
    /// The time at its start.
    pub(crate) began: Timestamp,
    pub(crate) drives: BTreeMap<DriveName, SyncSender<DriveTask>>,
    /// What the scheduler is told before all else, of drives and tapes. It does not come through the
    /// notifier: there may be more tapes than that keeps events, and nobody hears them before this thread
    /// runs.
    pub(crate) known: Vec<Event>,
    pub(crate) sealer: SyncSender<Seal>,
    pub(crate) todo_since: BTreeMap<ClassId, Timestamp>,
    /// Seals under way, and whether they take everything.
    pub(crate) sealing: BTreeMap<ClassId, SealUnderWay>,
    pub(crate) wake: Option<Timestamp>,
    /// What the pool can take and feed, as the scheduler was told last.
    pub(crate) flow: Flow,
    /// Whether some container was larger than all tapes when the scheduler was told what is queued.
    pub(crate) too_large: bool,
    /// Containers that were left alone when the scheduler was told what is queued.
    pub(crate) resting: Arc<BTreeSet<ContainerId>>,
}

impl Conductor {
    /// The conductor's thread.
    pub(crate) fn run(mut self, me: &Worker) {
        self.room.notifier.backlog_changed();
        if let Err(error) = crate::resume::load(&self.room) {
            tracing::error!(%error, "what is wanted from tape cannot all be read");
            me.failed(&error);
        }
        loop {
            me.rests();
            let mut heard = self.room.notifier.listen(self.patience());
            if heard.stop {
                return;
            }
            if !self.known.is_empty() {
                let known = std::mem::take(&mut self.known).into_iter().map(Notice::Event);
                heard.notices.splice(0..0, known);
            }
            me.does("deciding");
            self.conduct(heard);
            self.room.foresee();
            // Here, since this thread waits for no drive of the pool, but a moment for those that are to tell
            // their room.
            self.room.pool.tend();
        }
    }

    fn patience(&self) -> Duration {
        match self.wake {
            Some(wake) => wake.since(self.room.now()).min(TICK_EVERY),
            None => TICK_EVERY,
        }
    }

    /// A row that cannot be read costs its own notice, never the others: what a drive reported must be heard.
    fn conduct(&mut self, heard: Heard) {
        let (mut events, mut waiting_again) = (Vec::with_capacity(heard.notices.len() + 1), Vec::new());
        for notice in heard.notices {
            match notice {
                Notice::Event(event) => events.push(event),
                Notice::WaitsSince(class, since) => waiting_again.push((class, since)),
                Notice::Wants(file) => {
                    let (room, awaited) = (&self.room, &self.room.own.awaited);
                    match room.read(|view| wanted_event(&room.classes, awaited, view, file)) {
                        Ok(event) => events.push(event),
                        Err(error) => tracing::error!(%file, %error, "a wanted file cannot be read"),
                    }
                }
            }
        }
        // Not posted: this thread never waits for its own notifier.
        events.extend(self.room.suspects_due(self.room.now()));
        let resting = self.room.resting_now();
        // Before the end of the session that found them: else the next tape is taken for the same ones.
        let others_rest = !Arc::ptr_eq(&resting, &self.resting) && resting != self.resting;
        let mut figures_first = heard.backlog || others_rest || self.room.too_small_has_rested();
        // One that takes what no other did may have come.
        figures_first |= self.too_large && events.iter().any(|event| matches!(event, Event::Tape(..)));
        self.resting = resting;
        for event in &events {
            match event {
                Event::SealEnded(class) => {
                    figures_first = true;
                    self.seal_ended(*class);
                }
                Event::MigrateNow(_) | Event::MigrateForRoom { .. } => figures_first = true,
                _ => {}
            }
        }
        // After the seals that ended: these did not have them, and their age does not begin anew.
        for (class, since) in waiting_again {
            figures_first = true;
            let oldest = self.todo_since.entry(class).or_insert(since);
            *oldest = since.min(*oldest);
        }
        // First: a session that ended for want of room is not to be begun again at once.
        let ended = events.iter().any(|event| matches!(event, Event::RecallEnded(..)));
        let mut told = self.flow.events(&self.room, ended);
        if figures_first {
            match self.backlogs() {
                Ok(backlogs) => told.extend(backlogs),
                Err(error) => tracing::error!(%error, "the backlogs cannot be read"),
            }
        }
        told.extend(events);
        told.extend(self.flow.room_came(&self.room, ended));
        told.extend(self.flow.seen_for_files().map_or_else(Vec::new, |seen| self.room.reads_due(seen)));
        told.extend(self.room.rested_reads());
        told.push(Event::Tick);
        let wants_more = told.iter().any(|event| matches!(event, Event::Wanted { .. }));
        while !told.is_empty() {
            told = self.step(told);
        }
        if wants_more {
            // Not before the scheduler knows of them: a session that looks now may claim them.
            self.room.recall_arrivals.fetch_add(1, Ordering::Relaxed);
            if self.flow.is_without_room() {
                self.room.leaving.tell(LeavingCause::RecallWaits);
            }
        }
    }

    /// What waits after a seal of everything has come since: its age begins anew.
    fn seal_ended(&mut self, class: ClassId) {
        let Some(seal) = self.sealing.remove(&class).filter(|seal| seal.partial) else { return };
        // Nothing of what was there when somebody asked for haste is left to seal.
        let mut haste = self.room.haste();
        haste.seal_ended(class, seal.began, self.room.has_nothing_to_seal(class));
        drop(haste);
        self.todo_since.remove(&class);
    }

    /// Tells the scheduler and carries out what it says. Gives what could not be carried out, as events: the
    /// conductor never posts to its own notifier, which may be full.
    fn step(&mut self, events: Vec<Event>) -> Vec<Event> {
        let now = self.room.now();
        let mut actions = Vec::new();
        {
            let mut scheduler = self.room.scheduler();
            let mut forecaster = self.room.foresight.forecaster();
            for event in events {
                forecaster.step(&mut scheduler, now, event, &mut actions);
            }
        }
        if self.wake.is_some_and(|wake| wake <= now) {
            self.wake = None;
        }
        actions.into_iter().filter_map(|action| self.act(action)).collect()
    }

    fn act(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Seal { class, partial } => {
                self.sealing.insert(class, SealUnderWay { partial, began: self.room.now() });
                self.sealer.try_send(Seal::Class { class, partial }).err().map(|_| Event::SealEnded(class))
            }
            Action::Mount { drive, vid, assign } => self.order(&drive, Order::Mount { vid, assign }),
            Action::Migrate { drive, vid, tape_pool } => {
                self.order(&drive, Order::Migrate { vid, tape_pool })
            }
            Action::Recall { drive, vid } => self.order(&drive, Order::Recall { vid }),
            Action::Maintain { drive, vid } => self.order(&drive, Order::Maintain { vid }),
            Action::Clean { drive, vid } => self.order(&drive, Order::Clean { vid }),
            Action::Unmount { drive } => self.order(&drive, Order::Unmount),
            Action::WakeAt(at) => {
                self.wake = Some(self.wake.map_or(at, |wake| wake.min(at)));
                None
            }
            // By the drive's thread: this one waits for no lock under which others post.
            Action::Clear { drive, vid } => self.send(&drive, DriveTask::Clear(vid)),
        }
    }

    fn order(&self, drive: &str, order: Order) -> Option<Event> {
        self.send(drive, DriveTask::Order(order))
    }

    fn send(&self, drive: &str, task: DriveTask) -> Option<Event> {
        let sent = self.drives.get(drive).map(|tasks| tasks.try_send(task));
        match sent {
            Some(Ok(())) => None,
            Some(Err(TrySendError::Full(task))) => {
                unreachable!("the scheduler gave drive {drive} {task:?} while others wait")
            }
            Some(Err(TrySendError::Disconnected(_))) | None => {
                Some(Event::DriveDown(drive.to_owned(), "its thread has ended".to_owned()))
            }
        }
    }

    /// What waits now, by class and tape pool.
    fn backlogs(&mut self) -> Result<Vec<Event>, ArchiveError> {
        let classes: Vec<ClassId> = self.room.classes.all().iter().map(|class| class.id).collect();
        let pools: Vec<TapePoolId> = self.room.classes.tape_pools().keys().copied().collect();
        let (since, now) = (&self.todo_since, self.room.now());
        let (mut too_large, mut to_dissolve) = (false, false);
        let events = self.room.read(|view| {
            let (mut events, clock) = (Vec::new(), view.clock()?);
            // What tapes of a history that a restore gave up tell of the future has waited since this start:
            // it grows older, and is older than whatever is asked of the server.
            let began = self.began;
            let from = |oldest| match clock.waits_from(oldest, now) {
                from if oldest > now => from.min(began),
                from => from,
            };
            let waits = |backlog: Backlog| Backlog { oldest: backlog.oldest.map(from), ..backlog };
            for class in classes {
                let backlog = todo_backlog(view, class, since.get(&class).copied())?;
                events.push(Event::Todo(class, waits(backlog)));
            }
            for pool in pools {
                // No tape is mounted for what it cannot take.
                let large = self.room.too_large(view, pool)?.containers;
                too_large |= !large.is_empty();
                to_dissolve |= !large.is_empty() && !self.room.to_seal_anew(view, pool)?.is_empty();
                let left_alone: BTreeSet<ContainerId> =
                    large.into_iter().map(|(id, _)| id).chain(self.resting.iter().copied()).collect();
                // First: what is told of the queue may be what one of these takes.
                events.extend(self.room.with_room_again(view, pool, &left_alone)?);
                // Nor is any for a pool whose key nobody gives.
                let queued = match self.room.pool_key_missing(pool) {
                    Some(_) => Backlog::default(),
                    None => waits(queued_backlog(view, pool, &left_alone)?),
                };
                events.push(Event::Queued(pool, queued));
            }
            to_dissolve = to_dissolve || !self.room.unneeded(view)?.is_empty();
            Ok(events)
        })?;
        self.too_large = too_large;
        // If too much waits for the sealer it is found again: sealing changes the backlogs.
        if to_dissolve && !self.room.dissolving.swap(true, Ordering::Relaxed) {
            let sent = self.sealer.try_send(Seal::Dissolve);
            self.room.dissolving.store(sent.is_ok(), Ordering::Relaxed);
        }
        for event in &events {
            if let Event::Todo(class, backlog) = event {
                match backlog.oldest {
                    Some(oldest) => self.todo_since.insert(*class, oldest),
                    None => self.todo_since.remove(class),
                };
            }
        }
        Ok(events)
    }
}

/// The first file of the queue's order is not the oldest one, so the age of a backlog is that of its first
/// file when the backlog began, and stays until it is empty or everything in it was sealed.
fn todo_backlog(view: &View<'_>, class: ClassId, since: Option<Timestamp>) -> Result<Backlog, ReadError> {
    let tally = view.tally(Counter::Todo(class))?;
    if tally.files == 0 {
        return Ok(Backlog::default());
    }
    let oldest = match since {
        Some(since) => Some(since),
        None => view.todo(class, None, 1)?.first().map(|(_, todo)| todo.since),
    };
    Ok(Backlog { items: tally.files, bytes: tally.bytes, oldest })
}

/// What is queued and not left alone.
fn queued_backlog(
    view: &View<'_>,
    pool: TapePoolId,
    resting: &BTreeSet<ContainerId>,
) -> Result<Backlog, ReadError> {
    let tally = view.tally(Counter::Queued(pool))?;
    let (mut items, mut bytes) = (tally.files, tally.bytes.0);
    for id in resting {
        let row = view.queue(pool, Some(ContainerId(id.0.saturating_sub(1))), 1)?;
        if let Some((_, queued)) = row.first().filter(|(found, _)| found == id) {
            items = items.saturating_sub(1);
            bytes = bytes.saturating_sub(queued.length.0);
        }
    }
    let first = view.queue(pool, None, resting.len().saturating_add(1))?;
    let oldest = first.iter().find(|(id, _)| !resting.contains(id)).map(|(_, queued)| queued.since);
    Ok(Backlog { items, bytes: ByteCount(bytes), oldest })
}

/// The sealer's thread.
pub(crate) fn run_sealer(room: &Arc<Tape>, seals: &Receiver<Seal>, me: &Worker) {
    for seal in seals {
        // What tapes hold that may be written is not sealed once more.
        if !room.settling.wait_for_tapes() {
            return;
        }
        me.does("sealing");
        match seal {
            Seal::Class { class, partial } => {
                let sealed = seal_class(room, class, partial);
                room.seal_failures.ended(class, sealed.as_ref().err());
                if let Err(error) = sealed {
                    me.failed(&error);
                    let class = room.classes.name(class);
                    tracing::error!(class, %error, "sealing failed; it is tried again");
                }
                room.notifier.post(Event::SealEnded(class));
            }
            Seal::Dissolve => {
                room.dissolving.store(false, Ordering::Relaxed);
                if let Err(error) = room.dissolve_too_large().and_then(|()| room.dissolve_all_unneeded()) {
                    tracing::error!(%error, "what no tape takes, or nobody needs, is dissolved later");
                    me.failed(&error);
                }
            }
        }
        me.rests();
    }
}
