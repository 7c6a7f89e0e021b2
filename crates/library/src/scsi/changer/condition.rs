//! What a changer says of itself: TapeAlert flags, its temperature, what its robot has done. No changer has
//! all of it, and old ones have nothing: what is not there is not asked for again, and nothing else depends
//! on it.

use std::collections::BTreeMap;
use std::time::Duration;

use ::scsi::command::{PageControl, Primary};
use ::scsi::log::{LogPage, TapeAlerts, changer_statistics as statistics, page, temperature};

use super::robot::Robot;
use crate::scsi::unit::Failure;
use crate::{ChangerAlert, LibraryCondition, RobotCount};

/// Bytes of a page: the flags take 324.
const PAGE_BYTES: u16 = 4096;
/// A flag is told for so long after the changer has told it.
const ALERT_TOLD: Duration = Duration::from_secs(24 * 3600);

const COUNTS: [(u16, RobotCount); 10] = [
    (statistics::MOVES, RobotCount::Moves),
    (statistics::PICKS, RobotCount::Picks),
    (statistics::PICK_RETRIES, RobotCount::PickRetries),
    (statistics::PLACES, RobotCount::Places),
    (statistics::PLACE_RETRIES, RobotCount::PlaceRetries),
    (statistics::TAGS_READ, RobotCount::LabelsRead),
    (statistics::TAGS_INVALID, RobotCount::LabelsUnread),
    (statistics::DOOR_OPENS, RobotCount::DoorOpens),
    (statistics::IMPORT_EXPORT_OPENS, RobotCount::ImportExportOpens),
    (statistics::SCANS, RobotCount::Scans),
];

/// What came of a look at the pages.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub alerts: Vec<ChangerAlert>,
    pub celsius: Option<u8>,
    pub counts: Vec<(RobotCount, u64)>,
}

impl Robot {
    /// Asks for the pages that it has. The flags are cleared by that.
    pub(super) fn condition(&mut self) -> Told {
        let alerts = self.log_page(page::TAPE_ALERT);
        let heat = self.log_page(page::TEMPERATURE);
        let counts = self.log_page(page::CHANGER_STATISTICS);
        let number = |log: &LogPage, code| log.number(code);
        Told {
            alerts: alerts
                .map(|log| TapeAlerts::of_log(&log).flags().map(ChangerAlert).collect())
                .unwrap_or_default(),
            celsius: heat.and_then(|log| temperature::celsius(&log)),
            counts: counts
                .map(|log| {
                    COUNTS.iter().filter_map(|(code, what)| Some((*what, number(&log, *code)?))).collect()
                })
                .unwrap_or_default(),
        }
    }

    /// A page; `None` if there is none, or it does not come now.
    fn log_page(&mut self, code: u8) -> Option<LogPage> {
        if self.without_pages.contains(&code) {
            return None;
        }
        let room = self.room_max().min(usize::from(PAGE_BYTES));
        let command = Primary::LogSense {
            save: false,
            control: PageControl::CUMULATIVE,
            page: code,
            subpage: 0,
            parameter: 0,
            allocation_length: u16::try_from(room).unwrap_or(PAGE_BYTES),
        };
        let was_stale = self.is_stale;
        let failure = match self.ask(command, room) {
            Ok(answer) => match LogPage::decode(&answer) {
                Ok(log) if log.code == code && log.subpage.is_none() => return Some(log),
                // Another page, or none: it would be so the next time.
                _ => None,
            },
            Err(failure) => Some(failure),
        };
        let lost = matches!(failure, Some(Failure::Lost(..)));
        if lost {
            // Nothing moves by this command: an answer that is lost makes nothing doubtful.
            self.is_stale = was_stale;
        }
        if lost || failure.as_ref().is_none_or(Failure::is_refusal) {
            self.without_pages.insert(code);
        }
        None
    }
}

/// What is told of a changer: flags go some time after they came, all else is as last heard.
#[derive(Debug, Default)]
pub(super) struct Condition {
    /// When each flag was told last.
    alerts: BTreeMap<ChangerAlert, u64>,
    celsius: Option<u8>,
    counts: Vec<(RobotCount, u64)>,
}

impl Condition {
    /// Takes over what was heard.
    pub(super) fn heard(&mut self, told: Told, now_us: u64) {
        self.alerts.extend(told.alerts.into_iter().map(|alert| (alert, now_us)));
        (self.celsius, self.counts) = (told.celsius, told.counts);
    }

    fn forget_old(&mut self, now_us: u64) {
        let told = u64::try_from(ALERT_TOLD.as_micros()).unwrap_or(u64::MAX);
        self.alerts.retain(|_, at| now_us.saturating_sub(*at) < told);
    }

    /// `None` if it says nothing.
    pub(super) fn told(&mut self, now_us: u64) -> Option<LibraryCondition> {
        self.forget_old(now_us);
        let (celsius, counts) = (self.celsius, self.counts.clone());
        let alerts: Vec<ChangerAlert> = self.alerts.keys().copied().collect();
        let is_something = !alerts.is_empty() || celsius.is_some() || !counts.is_empty();
        is_something.then_some(LibraryCondition { library: 0, alerts, celsius, counts })
    }
}
