//! This program as `kist bench` measures it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use bench::{Coded, Subject};
use client::{ADMIN_KEY_FILE, Client};
use terminal::{Outcome, Progress};

use crate::commands::{evict, init, stage, wait};
use crate::instance;
use crate::serve::SystemClock;

/// The program itself.
pub struct Measured;

impl Subject for Measured {
    fn make(&self, directory: &Path, coded: Option<Coded>) -> Outcome {
        let mut args = init::Args::defaults(directory);
        if let Some(Coded { drives, data, parity }) = coded {
            (args.drives, args.data, args.parity) = (drives, data, parity);
        }
        args.demo = true;
        args.listen = ([127, 0, 0, 1], 0).into();
        let key = init::make(&args)?;
        instance::write_durable(&directory.join(ADMIN_KEY_FILE), key.as_bytes(), 0o600)
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(SystemClock)
    }

    fn wait(&self, client: &Client, progress: &Progress, at_most: Duration) -> Outcome {
        wait::wait(client, progress, Some(at_most)).map(drop)
    }

    fn evict(&self, client: &Client, path: &str) -> Outcome {
        evict::outcome(&evict::evict(client, vec![path.to_owned()], true)?)
    }

    fn stage(&self, client: &Client, path: &str, pin: Duration, progress: &Progress) -> Outcome<u64> {
        let id = stage::submit(client, vec![path.to_owned()], pin, None, true)?;
        let request = stage::wait_for(client, id, progress)?;
        stage::outcome(client, &request)?;
        Ok(request.done_bytes)
    }
}
