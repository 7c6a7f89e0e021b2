//! Watches what the scheduler is told and orders, and knows from it how long things take.

use std::collections::BTreeMap;

use base::{ByteCount, ClassId, FileId, TapePoolId, Timestamp, Vid};

use super::calibration::{Calibration, Nominal, Subject};
use super::expected::Forecast;
use super::pace::{Inflow, Learned, Pace};
use super::summary::{Activity, Outlook, Summary};
use crate::scheduler::Scheduler;
use crate::{Action, Backlog, DriveName, DriveState, Event, SessionEnd};

/// Files of one forecast whose coming is watched.
const SAMPLE: usize = 16;

/// Learns how long everything takes and how far forecasts were off; makes forecasts.
///
/// Deterministic, like the scheduler beside which it stands. It holds some thousand figures and at most
/// 20,000 forecasts that have not come true yet.
#[derive(Clone, Debug)]
pub struct Forecaster {
    learned: Learned,
    calibration: Calibration,
    activities: BTreeMap<DriveName, Activity>,
    sealing: BTreeMap<ClassId, (Timestamp, ByteCount)>,
    inflow: BTreeMap<ClassId, Inflow>,
    /// The last file that was watched.
    sampled: FileId,
}

impl Forecaster {
    /// One that has seen nothing and goes by a nominal pace.
    #[must_use]
    pub fn new(nominal: Pace) -> Self {
        Forecaster {
            learned: Learned::new(nominal),
            calibration: Calibration::default(),
            activities: BTreeMap::new(),
            sealing: BTreeMap::new(),
            inflow: BTreeMap::new(),
            sampled: FileId(0),
        }
    }

    /// [`Scheduler::step`], watched. A scheduler and its forecaster are stepped together only.
    pub fn step(
        &mut self,
        scheduler: &mut Scheduler,
        now: Timestamp,
        event: Event,
        actions: &mut Vec<Action>,
    ) {
        self.before(scheduler, now, &event);
        let known = actions.len();
        scheduler.step(now, event, actions);
        for action in &actions[known..] {
            self.ordered(scheduler, now, action);
        }
    }

    /// How long things take by now.
    #[must_use]
    pub fn pace(&self) -> Pace {
        self.learned.pace()
    }

    /// What a forecast needs to know. Takes time proportional to tapes and their combinations, not to files.
    #[must_use]
    pub fn summary(&mut self, scheduler: &mut Scheduler, now: Timestamp) -> Summary {
        let mut summary = Summary::take(scheduler, now, self.learned.pace());
        summary.sample = scheduler.recall.files_after(self.sampled, SAMPLE);
        self.sampled = summary.sample.last().map_or(FileId(0), |(file, _)| *file);
        summary.inflow = self.inflow.iter().map(|(class, inflow)| (*class, inflow.rates(now))).collect();
        summary.activities = self.activities.clone();
        summary.sealing = self.sealing.iter().map(|(class, (since, _))| (*class, *since)).collect();
        summary
    }

    /// Makes ranges of an outlook, and remembers it, to learn from how it turns out.
    #[must_use]
    pub fn forecast(&mut self, outlook: Outlook) -> Forecast {
        let forecast = Forecast { outlook, stretches: self.calibration.stretches() };
        self.remember(&forecast);
        forecast
    }

    /// Remembers what was foretold of something that the scheduler does not know: a request.
    pub fn foretell(&mut self, subject: Subject, made: Timestamp, nominal: Nominal) {
        self.calibration.foretell(subject, made, nominal);
    }

    /// What was foretold came at this time.
    pub fn came(&mut self, subject: &Subject, at: Timestamp) {
        self.calibration.came(subject, at, |_| true);
    }

    /// What was foretold will not come.
    pub fn forget(&mut self, subject: &Subject) {
        self.calibration.forget(subject);
    }

    /// Everything foretold that has not come yet.
    pub fn outstanding(&self) -> impl Iterator<Item = &Subject> {
        self.calibration.outstanding()
    }

    fn remember(&mut self, forecast: &Forecast) {
        let outlook = &forecast.outlook;
        let made = outlook.made;
        for (file, group) in &outlook.sample {
            if let Some(nominal) = forecast.nominal(group, 1) {
                self.calibration.foretell(Subject::File(*file), made, nominal);
            }
        }
        let tapes = outlook.tapes.iter().map(|(vid, fate)| (Subject::Tape(*vid), fate));
        let pools = outlook.tape_pools.iter().map(|(id, fate)| (Subject::TapePool(*id), fate));
        let classes = outlook.classes.iter().map(|(id, fate)| (Subject::Class(*id), fate));
        let drives = outlook.drives.iter().map(|(name, fate)| (Subject::Drive(name.clone()), fate));
        for (subject, fate) in tapes.chain(pools).chain(classes).chain(drives) {
            if let Some(nominal) = outlook.nominal(fate) {
                self.calibration.foretell(subject, made, nominal);
            }
        }
        // Another tape has the file, or nobody wants it any more.
        let moot: Vec<Subject> = self
            .calibration
            .outstanding()
            .filter(|subject| matches!(subject, Subject::Tape(vid) if !outlook.tapes.contains_key(vid)))
            .cloned()
            .collect();
        moot.iter().for_each(|subject| self.calibration.forget(subject));
    }

    /// What an event tells, seen before the scheduler has heard of it.
    fn before(&mut self, scheduler: &Scheduler, now: Timestamp, event: &Event) {
        match event {
            Event::NotWanted(file) => {
                if let Some((bytes, vid)) = scheduler.recall.taken(*file) {
                    self.did(scheduler, vid, 1, bytes);
                    self.calibration.came(&Subject::File(*file), now, |_| true);
                } else {
                    self.calibration.forget(&Subject::File(*file));
                }
            }
            Event::Queued(tape_pool, backlog) => self.queued(scheduler, now, *tape_pool, backlog),
            Event::SealEnded(class) => self.sealed(*class, now),
            Event::Mounted(drive, vid) => {
                let ordered = matches!(scheduler.state(drive),
                    Some(DriveState::Mounting { vid: of, .. }) if of == vid);
                if let Some(activity) = self.ended(drive, now).filter(|_| ordered) {
                    self.learned.mounted(now.since(activity.since));
                }
            }
            Event::Unmounted(drive) => {
                if let Some(activity) = self.ended(drive, now) {
                    self.learned.unmounted(now.since(activity.since));
                }
            }
            Event::RecallEnded(drive, end) => self.recall_ended(scheduler, drive, end, now),
            Event::MigrationEnded(drive, _) => {
                if let Some(activity) = self.ended(drive, now).filter(|activity| activity.bytes.0 > 0) {
                    self.learned.wrote(activity.bytes, now.since(activity.since));
                }
            }
            Event::MaintenanceEnded(drive, end) => {
                if let Some(activity) = self.ended(drive, now).filter(|_| *end == SessionEnd::Drained) {
                    self.learned.maintained(now.since(activity.since));
                }
            }
            Event::MountFailed(drive, ..)
            | Event::Cleaned(drive, _)
            | Event::DriveDown(drive, _)
            | Event::DriveFailed(drive, _) => {
                self.activities.remove(drive);
                self.calibration.forget(&Subject::Drive(drive.clone()));
            }
            Event::Todo(class, backlog) => self.todo(scheduler, now, *class, backlog),
            Event::DriveUp(_)
            | Event::RetireDrive(..)
            | Event::CleanDrive(..)
            | Event::CleaningCartridges(_)
            | Event::Maintain(..)
            | Event::Tape(..)
            | Event::MigrateNow(_)
            | Event::MigrateForRoom { .. }
            | Event::Wanted { .. }
            | Event::CopyFailed(..)
            | Event::DriveIn(..)
            | Event::TapeReleased(_)
            | Event::PoolSpace { .. }
            | Event::RoomMade
            | Event::Streams { .. }
            | Event::Tick => {}
        }
    }

    fn sealed(&mut self, class: ClassId, now: Timestamp) {
        if let Some((since, bytes)) = self.sealing.remove(&class)
            && bytes.0 > 0
        {
            self.learned.sealed(bytes, now.since(since));
        }
        self.calibration.came(&Subject::Class(class), now, |_| true);
    }

    /// What has come for a class.
    fn todo(&mut self, scheduler: &Scheduler, now: Timestamp, class: ClassId, backlog: &Backlog) {
        let old = scheduler.classes.get(&class).map(|state| state.backlog).unwrap_or_default();
        let more = |new: u64, old: u64| new.saturating_sub(old) as f64;
        let (files, bytes) = (more(backlog.items, old.items), more(backlog.bytes.0, old.bytes.0));
        self.inflow.entry(class).or_insert_with(|| Inflow::new(now)).add(now, files, bytes);
    }

    fn ended(&mut self, drive: &DriveName, now: Timestamp) -> Option<Activity> {
        self.calibration.came(&Subject::Drive(drive.clone()), now, |_| true);
        self.activities.remove(drive)
    }

    fn recall_ended(&mut self, scheduler: &Scheduler, drive: &DriveName, end: &SessionEnd, now: Timestamp) {
        let vid = scheduler.state(drive).and_then(DriveState::vid);
        let Some(activity) = self.ended(drive, now) else { return };
        if *end == SessionEnd::Drained && activity.files > 0 {
            let written = vid.map_or(ByteCount(0), |vid| scheduler.written(vid));
            self.learned.read(activity.files, activity.bytes, written, now.since(activity.since));
            if let Some(vid) = vid {
                self.calibration.came(&Subject::Tape(vid), now, |_| true);
            }
        }
    }

    /// What a session on a tape has got done.
    fn did(&mut self, scheduler: &Scheduler, vid: Vid, files: u64, bytes: ByteCount) {
        let drive = scheduler.tapes.get(&vid).and_then(|tape| tape.drive.as_ref());
        if let Some(activity) = drive.and_then(|drive| self.activities.get_mut(drive)) {
            activity.files += files;
            activity.bytes = ByteCount(activity.bytes.0.saturating_add(bytes.0));
        }
    }

    /// What a queue has become smaller by, its writers have written.
    fn queued(&mut self, scheduler: &Scheduler, now: Timestamp, tape_pool: TapePoolId, backlog: &Backlog) {
        let old = scheduler.pools.get(&tape_pool).map(|state| state.backlog).unwrap_or_default();
        let writing = |state: &DriveState| match state {
            DriveState::Migrating { vid, tape_pool: of, .. } if *of == tape_pool => Some(*vid),
            _ => None,
        };
        let writers: Vec<Vid> = scheduler.drives().filter_map(|(_, state)| writing(state)).collect();
        let less = old.bytes.0.saturating_sub(backlog.bytes.0);
        if let Some(each) = less.checked_div(u64::try_from(writers.len()).unwrap_or(u64::MAX)) {
            writers.iter().for_each(|vid| self.did(scheduler, *vid, 0, ByteCount(each)));
        }
        let oldest = backlog.oldest.filter(|_| backlog.items > 0);
        let all_since = |made: Timestamp| oldest.is_none_or(|oldest| oldest > made);
        self.calibration.came(&Subject::TapePool(tape_pool), now, all_since);
    }

    fn ordered(&mut self, scheduler: &Scheduler, now: Timestamp, action: &Action) {
        match action {
            Action::Mount { drive, .. }
            | Action::Migrate { drive, .. }
            | Action::Recall { drive, .. }
            | Action::Maintain { drive, .. }
            | Action::Clean { drive, .. }
            | Action::Unmount { drive } => {
                let begun = Activity { since: now, files: 0, bytes: ByteCount(0) };
                self.activities.insert(drive.clone(), begun);
            }
            Action::Seal { class, .. } => {
                let bytes = scheduler.classes.get(class).map(|state| state.backlog.bytes);
                self.sealing.insert(*class, (now, bytes.unwrap_or_default()));
            }
            Action::Clear { .. } | Action::WakeAt(_) => {}
        }
    }
}

impl Scheduler {
    /// What a wanted file waits for, as a group that a [`Forecast`] speaks of; `None` if it is not wanted.
    #[must_use]
    pub fn group_of(&self, file: FileId) -> Option<crate::WantedGroup> {
        self.recall.group_of(file)
    }

    /// What is wanted on behalf of a share, by what it waits for; a file of each group is named if one is
    /// among the first `looked_at` wanted files.
    #[must_use]
    pub fn wanted_of_share(&self, share: base::ShareId, looked_at: usize) -> Vec<crate::WantedOfShare> {
        self.recall.of_share(share, looked_at)
    }
}
