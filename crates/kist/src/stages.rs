//! Progress of long tasks of several stages: restores and rebuilds.

use std::time::Duration;

use terminal::{Progress, text};

/// Says how far a long task of several stages is, with the time left of the present one.
pub struct Stages {
    shown: Progress,
    /// The present stage, and when it began.
    stage: (&'static str, Duration),
}

impl Stages {
    /// Shows a task.
    pub fn of(shown: Progress) -> Self {
        Stages { shown, stage: ("", Duration::ZERO) }
    }

    /// How far it is.
    pub fn told(&mut self, progress: backup::Progress) {
        let now = self.shown.elapsed();
        if self.stage.0 != progress.what {
            self.stage = (progress.what, now);
        }
        self.shown.note(&told(progress, now.saturating_sub(self.stage.1)));
    }
}

fn told(progress: backup::Progress, took: Duration) -> String {
    let backup::Progress { what, done, total, containers } = progress;
    let mut text = format!("{} of {} {what}", text::count(done), text::count(total));
    if containers > 0 {
        text.push_str(&format!(", {} files and packs", text::count(containers)));
    }
    let left = archive::time_left(took, done, total).filter(|left| !left.is_zero());
    if let Some(left) = left {
        text.push_str(&format!(", {} left", text::span(left)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `kist rebuild` said "0 steps" until it had read its first tape.
    #[test]
    fn stages_say_what_is_done_from_the_beginning_on() {
        let progress = Progress::start_of("rebuild", "step", 0, 0, true);
        progress.note("the library is being opened");
        let mut stages = Stages::of(progress);
        assert_eq!(stages.shown.figures(), "the library is being opened");
        stages.told(backup::Progress { what: "tapes read", done: 0, total: 12, containers: 0 });
        assert_eq!(stages.shown.figures(), "0 of 12 tapes read");
    }
}
