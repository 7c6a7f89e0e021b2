//! Progress on standard error: a bar on a terminal, a line now and then elsewhere.

use std::io::{IsTerminal, stderr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{output, text};

/// How often a bar is redrawn.
const BAR_EVERY: Duration = Duration::from_millis(125);
/// How often a line is written where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// After so long without a sign of life it is said, and again after each further time.
const SILENCE_STEP: Duration = Duration::from_secs(30);

/// The count of files and bytes of a running command; shared by its threads.
pub struct Progress {
    shared: Arc<Shared>,
    ticker: Option<JoinHandle<()>>,
}

struct Shared {
    title: String,
    noun: &'static str,
    files_total: AtomicU64,
    bytes_total: AtomicU64,
    files: AtomicU64,
    bytes: AtomicU64,
    note: Mutex<String>,
    is_stuck: AtomicBool,
    /// Whether the time left is told by a note.
    is_foretold: AtomicBool,
    /// `None`: nothing is to be heard.
    heard: Mutex<Option<Instant>>,
    stopped: Mutex<bool>,
    wake: Condvar,
    started: Instant,
}

impl Progress {
    /// Starts to show progress, unless `quiet`. Totals of 0 are unknown.
    pub fn start(title: &str, files_total: u64, bytes_total: u64, quiet: bool) -> Self {
        Progress::start_of(title, "file", files_total, bytes_total, quiet)
    }

    /// As [`Progress::start`], counting something else than files.
    pub fn start_of(
        title: &str,
        noun: &'static str,
        files_total: u64,
        bytes_total: u64,
        quiet: bool,
    ) -> Self {
        let shared = Arc::new(Shared {
            title: title.to_owned(),
            noun,
            files_total: AtomicU64::new(files_total),
            bytes_total: AtomicU64::new(bytes_total),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            note: Mutex::new(String::new()),
            is_stuck: AtomicBool::new(false),
            is_foretold: AtomicBool::new(false),
            heard: Mutex::new(None),
            stopped: Mutex::new(false),
            wake: Condvar::new(),
            started: Instant::now(),
        });
        let ticker = (!quiet).then(|| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(
                move || if stderr().is_terminal() { draw(&shared) } else { write_lines(&shared) },
            )
        });
        Progress { shared, ticker }
    }

    /// Counts finished files.
    pub fn add_files(&self, files: u64) {
        self.shared.files.fetch_add(files, Ordering::Relaxed);
    }

    /// Counts bytes that went through.
    pub fn add_bytes(&self, bytes: u64) {
        self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Takes bytes back that must go through again.
    pub fn take_bytes(&self, bytes: u64) {
        self.shared.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Sets what is done, for something that others count.
    pub fn set(&self, files: u64, bytes: u64) {
        self.shared.files.store(files, Ordering::Relaxed);
        self.shared.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Sets the totals.
    pub fn set_totals(&self, files: u64, bytes: u64) {
        self.shared.files_total.store(files, Ordering::Relaxed);
        self.shared.bytes_total.store(bytes, Ordering::Relaxed);
    }

    /// Shows a note behind the figures, such as why nothing moves; empty: none.
    pub fn note(&self, note: &str) {
        *self.shared.note.lock().unwrap_or_else(PoisonError::into_inner) = note.to_owned();
    }

    /// While what is left is stuck, no rate and no time left are shown: it does not end by itself.
    pub fn set_stuck(&self, is_stuck: bool) {
        self.shared.is_stuck.store(is_stuck, Ordering::Relaxed);
    }

    /// No time left is computed from what was done: who counts has a forecast, and tells it as a note.
    pub fn tell_no_time_left(&self) {
        self.shared.is_foretold.store(true, Ordering::Relaxed);
    }

    /// There was a sign of life: from now on it is shown how long there is none.
    pub fn heard(&self) {
        *self.shared.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// What is shown of it now.
    pub fn figures(&self) -> String {
        self.shared.figures()
    }

    /// Whether nothing is shown.
    pub fn is_quiet(&self) -> bool {
        self.ticker.is_none()
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.shared.started.elapsed()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        *self.shared.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.wake.notify_all();
        if let Some(ticker) = self.ticker.take() {
            // A panic of the ticker spoils only the picture.
            let _ = ticker.join();
        }
    }
}

impl Shared {
    /// Waits for the next tick; `false` at the end.
    fn tick(&self, every: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let (stopped, _) = self
            .wake
            .wait_timeout_while(stopped, every, |stopped| !*stopped)
            .unwrap_or_else(PoisonError::into_inner);
        !*stopped
    }

    fn figures(&self) -> String {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (files, files_total) = (load(&self.files), load(&self.files_total));
        let (bytes, bytes_total) = (load(&self.bytes), load(&self.bytes_total));
        let elapsed = self.started.elapsed();
        let is_stuck = self.is_stuck.load(Ordering::Relaxed);
        let mut text = match (files, files_total) {
            // Of bytes alone.
            (0, 0) if bytes_total > 0 => String::new(),
            (files, 0) => text::plural(files, self.noun) + ", ",
            (files, total) => format!("{} of {}, ", text::count(files), text::plural(total, self.noun)),
        };
        if bytes_total == 0 && bytes == 0 {
            text.truncate(text.len().saturating_sub(2));
        } else {
            let of = if bytes_total > 0 { format!(" of {}", text::size(bytes_total)) } else { String::new() };
            text.push_str(&format!("{}{of}", text::size(bytes)));
            if elapsed >= text::RATED_FROM && !is_stuck {
                text.push_str(&format!(", {}", text::rate(bytes, elapsed)));
            }
        }
        let (done, total) = if bytes_total > 0 { (bytes, bytes_total) } else { (files, files_total) };
        let may_tell = !is_stuck && !self.is_foretold.load(Ordering::Relaxed);
        if done > 0 && done < total && elapsed >= Duration::from_secs(1) && may_tell {
            let left = elapsed.mul_f64((total - done) as f64 / done as f64);
            text.push_str(&format!(", {} left", text::span(left)));
        }
        let mut note = self.note.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(silence) = heard.and_then(|heard| silence(heard.elapsed())) {
            note = if note.is_empty() { silence } else { format!("{note}, {silence}") };
        }
        if files == 0 && files_total == 0 && bytes == 0 && bytes_total == 0 && !note.is_empty() {
            // Nothing is counted here: the note has the figures.
            return note;
        }
        if !note.is_empty() {
            text.push_str(&format!(" ({note})"));
        }
        text
    }

    /// Writes the line if it is another one than `last`; gives what was written last.
    fn changed(&self, last: String, write: impl FnOnce(&str)) -> String {
        let line = format!("{}: {}", self.title, self.figures());
        if line != last {
            write(&line);
        }
        line
    }

    fn share(&self) -> u64 {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (done, total) = match load(&self.bytes_total) {
            0 => (load(&self.files), load(&self.files_total)),
            total => (load(&self.bytes), total),
        };
        if total == 0 { 0 } else { (done as f64 / total as f64 * 1000.0).min(1000.0) as u64 }
    }
}

/// In whole steps: where lines are written, each other one is a new line.
fn silence(since: Duration) -> Option<String> {
    let steps = since.as_secs() / SILENCE_STEP.as_secs();
    (steps > 0).then(|| format!("nothing for {} s", steps * SILENCE_STEP.as_secs()))
}

fn draw(shared: &Shared) {
    let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{prefix:>9} [{bar:24}] {wide_msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar.set_prefix(shared.title.clone());
    while shared.tick(BAR_EVERY) {
        bar.set_position(shared.share());
        bar.set_message(shared.figures());
    }
    bar.finish_and_clear();
}

fn write_lines(shared: &Shared) {
    let mut last = String::new();
    while shared.tick(LINE_EVERY) {
        last = shared.changed(last, output::note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_name_what_is_done() {
        let progress = Progress::start("put", 10, 1000, true);
        progress.add_files(3);
        progress.add_bytes(500);
        progress.note("waiting");
        let figures = progress.shared.figures();
        assert!(figures.starts_with("3 of 10 files, 500 B of 1.00 kB"), "{figures}");
        assert!(figures.ends_with(" (waiting)"), "{figures}");
        assert_eq!(progress.shared.share(), 500);
    }

    /// Story: a disk that hung looked as one that works.
    #[test]
    fn a_long_silence_is_told() {
        let told = |seconds| silence(Duration::from_secs(seconds));
        assert_eq!((told(0), told(29)), (None, None));
        assert_eq!((told(30), told(59)), (Some("nothing for 30 s".into()), Some("nothing for 30 s".into())));
        assert_eq!(told(3601), Some("nothing for 3600 s".into()));
        let progress = Progress::start("burn-in", 0, 1000, true);
        progress.note("writes");
        let ago = Instant::now().checked_sub(Duration::from_secs(65));
        *progress.shared.heard.lock().unwrap() = ago;
        // Where the machine has just started there is no time before.
        assert!(ago.is_none() || progress.figures().ends_with(" (writes, nothing for 60 s)"));
        progress.heard();
        assert!(progress.figures().ends_with(" (writes)"), "{}", progress.figures());
    }

    /// Story: a wait for what does not end before somebody does something said "12 s left".
    #[test]
    fn what_is_stuck_has_no_rate_and_no_time_left() {
        let progress = Progress::start("to tape", 10, 1000, true);
        progress.set(3, 500);
        std::thread::sleep(Duration::from_millis(1100));
        let figures = progress.figures();
        assert!(figures.contains("B/s") && figures.ends_with(" left"), "{figures}");
        progress.set_stuck(true);
        assert_eq!(progress.figures(), "3 of 10 files, 500 B of 1.00 kB");
        progress.set_stuck(false);
        assert!(progress.figures().ends_with(" left"));
        progress.tell_no_time_left();
        let figures = progress.figures();
        assert!(figures.contains("B/s") && !figures.contains("left"), "{figures}");
    }

    /// Story: what waited for a drive wrote the same line every five seconds, for hours.
    #[test]
    fn a_line_is_written_when_it_changes() {
        let progress = Progress::start_of("checked", "container", 10, 0, true);
        progress.note("every tape drive is down");
        let mut written = Vec::new();
        let mut last = String::new();
        for done in [0, 0, 0, 1, 1] {
            progress.set(done, 0);
            last = progress.shared.changed(last, |line| written.push(line.to_owned()));
        }
        let line = |done| format!("checked: {done} of 10 containers (every tape drive is down)");
        assert_eq!(written, [line(0), line(1)]);
    }

    #[test]
    fn what_is_not_counted_is_not_named() {
        let progress = Progress::start("rm", 0, 0, true);
        progress.set(2, 0);
        assert_eq!(progress.shared.figures(), "2 files");
        progress.set_totals(0, 1000);
        progress.set(0, 10);
        assert_eq!(progress.shared.figures(), "10 B of 1.00 kB");
    }
}
