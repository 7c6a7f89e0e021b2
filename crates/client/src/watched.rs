//! The progress of a call over many files, shown once the server has said that it takes long.

use terminal::Progress;
use wire::WorkReply;

/// Shows how far a call is; nothing of one that is answered soon.
pub struct Watched {
    title: &'static str,
    quiet: bool,
    progress: Option<Progress>,
}

impl Watched {
    /// Nothing is shown yet, and never if `quiet`.
    pub fn new(title: &'static str, quiet: bool) -> Self {
        Watched { title, quiet, progress: None }
    }

    /// The call is so far now.
    pub fn show(&mut self, work: &WorkReply) {
        let start = || Progress::start(self.title, 0, 0, self.quiet);
        let progress = self.progress.get_or_insert_with(start);
        progress.set_totals(0, work.bytes_total);
        progress.set(work.files, work.bytes);
        let request = work.request.map(|request| format!("request {request} is being filled"));
        progress.note(request.as_deref().unwrap_or_default());
    }
}
