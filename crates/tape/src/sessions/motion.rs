//! What the drive did in a session, if it counts: for the log and for displays.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use base::{ByteCount, Vid};
use library::TapeDrive;
use mechanics::MotionReport;

use crate::conductor::Order;
use crate::room::Session;
use ground::TapeMotionInfo;

/// A session whose drive counts what it does.
pub(super) struct SessionMotion(Option<(&'static str, Vid, MotionReport)>);

impl SessionMotion {
    /// Before an order is carried out. Mounts and unmounts are no sessions.
    pub(super) fn begin(drive: &mut dyn TapeDrive, order: &Order) -> Self {
        let session = match order {
            Order::Migrate { vid, .. } => Some(("migrate", *vid)),
            Order::Recall { vid } => Some(("recall", *vid)),
            Order::Maintain { vid } => Some(("maintain", *vid)),
            Order::Mount { .. } | Order::Clean { .. } | Order::Unmount => None,
        };
        SessionMotion(session.and_then(|(kind, vid)| Some((kind, vid, drive.motion_report()?))))
    }

    /// After it.
    pub(super) fn end(self, drive: &mut dyn TapeDrive, session: &Session) {
        let SessionMotion(Some((kind, vid, before))) = self else { return };
        let Some(report) = drive.motion_report() else { return };
        let motion = report.since(&before);
        let bytes = ByteCount(session.bytes.load(Ordering::Relaxed));
        let info = TapeMotionInfo { session: kind, vid, bytes, motion };
        tracing::info!(
            drive = %drive.id(),
            %vid,
            session = kind,
            bytes = bytes.0,
            read = motion.bytes_read,
            written = motion.bytes_written,
            streamed = motion.bytes_streamed,
            seconds = seconds(motion.transfer_seconds()),
            streaming = seconds(motion.streaming_seconds),
            locating = seconds(motion.locate_seconds),
            locates = motion.locates,
            flushing = seconds(motion.flush_seconds),
            backhitches = motion.backhitches,
            waiting = seconds(motion.waiting_seconds),
            "tape motion"
        );
        *session.motion.lock().unwrap_or_else(PoisonError::into_inner) = Some(info);
    }
}

/// Milliseconds are enough.
fn seconds(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}
