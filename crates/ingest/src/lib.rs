//! The room that bytes pass on their way in and out: puts, small values that share their syncs, uploads in
//! parts, copies, gets.

use std::ops::Deref;
use std::sync::Arc;

use ground::{Duty, Ends, Ground, OpenError};
use namespace::Namespace;
use upkeep::Upkeep;

mod clone;
mod download;
mod multipart;
mod open_parts;
mod part_upload;
mod small;
mod upload;
mod verify;

pub use download::Download;
pub use multipart::{MULTIPART_PAGE_MAX, UPLOAD_XATTRS, finish_aborts, give_up_restored};
pub use part_upload::PartUpload;
pub use upload::{PutCallback, Upload};
pub use verify::{VERIFY_BYTES_MAX, VerifyDone};

/// The way in and out of one instance. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct Ingest(Arc<Shared>);

/// What all puts and gets share. It stands on the [`Ground`], all of which it has as its own.
struct Shared {
    ground: Arc<Ground>,
    namespace: Arc<Namespace>,
    upkeep: Arc<Upkeep>,
    /// Small puts that wait for their common syncs.
    small: small::SmallPuts,
    /// What the parts of uploads hold that are no files yet.
    open_parts: open_parts::OpenParts,
}

impl Deref for Shared {
    type Target = Ground;

    fn deref(&self) -> &Ground {
        &self.ground
    }
}

impl Ingest {
    /// The way into these names, and out of them.
    #[must_use]
    pub fn new(ground: Arc<Ground>, namespace: Arc<Namespace>, upkeep: Arc<Upkeep>) -> Self {
        let (small, open_parts) = (small::SmallPuts::default(), open_parts::OpenParts::default());
        Ingest(Arc::new(Shared { ground, namespace, upkeep, small, open_parts }))
    }

    /// Starts the threads of small puts, which serve clients until all others have ended.
    ///
    /// # Errors
    /// If the system has no threads for them.
    pub fn start(&self) -> Result<(), OpenError> {
        let duty = |name| Duty::new(name, &self.0, |own| own.small.stop()).ending(Ends::BehindOthers);
        let own = Arc::clone(&self.0);
        self.0.start(duty("small-puts"), move |me| small::run_small_puts(&own, me))?;
        let own = Arc::clone(&self.0);
        self.0.start(duty("small-repeats"), move |me| small::run_repeats(&own, me))
    }
}
