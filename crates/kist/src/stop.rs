//! How a server is asked to stop: by SIGINT or SIGTERM from its first moment on, and by the end of its
//! standard input when it is open.

use std::fs;
use std::io::{Read, stdin};
use std::path::PathBuf;
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::thread;

use terminal::{Failure, Outcome};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// What a request to stop does.
enum Phase {
    /// The process ends at once: nothing was promised to anybody yet, and whatever was begun bears a crash.
    Opening { files: Vec<PathBuf> },
    /// The server is told, and ends in good order.
    Serving(oneshot::Sender<()>),
    /// It is being stopped already.
    Stopping,
}

static PHASE: Mutex<Phase> = Mutex::new(Phase::Stopping);

fn phase() -> std::sync::MutexGuard<'static, Phase> {
    PHASE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes requests to stop from now on. `files` are removed if one comes before [`serving`].
///
/// # Errors
/// If signals cannot be waited for.
pub fn watch(files: Vec<PathBuf>) -> Outcome {
    *phase() = Phase::Opening { files };
    let failed = |error: std::io::Error| Failure::internal(format!("signals cannot be waited for: {error}"));
    let (ready, is_ready) = mpsc::channel();
    let watch = move || match signals() {
        Ok((runtime, mut interrupts, mut terminations)) => {
            let _ = ready.send(Ok(()));
            runtime.block_on(async {
                tokio::select! {
                    _ = interrupts.recv() => {}
                    _ = terminations.recv() => {}
                }
            });
            request();
        }
        Err(error) => drop(ready.send(Err(error))),
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watch).map_err(failed)?;
    let result = is_ready.recv().unwrap_or_else(|_| Err(std::io::Error::other("their thread has ended")));
    result.map_err(failed)?;
    Ok(())
}

fn signals() -> std::io::Result<(tokio::runtime::Runtime, Signal, Signal)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (interrupts, terminations) = {
        let _entered = runtime.enter();
        // Heard later; one that came before would end the process.
        drop(signal(SignalKind::hangup())?);
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    Ok((runtime, interrupts, terminations))
}

/// Somebody wants the server to stop.
fn request() {
    let mut phase = phase();
    match std::mem::replace(&mut *phase, Phase::Stopping) {
        Phase::Opening { files } => {
            tracing::info!("stopping: the instance was not open yet");
            files.iter().for_each(|file| drop(fs::remove_file(file)));
            std::process::exit(0);
        }
        Phase::Serving(sender) => drop(sender.send(())),
        Phase::Stopping => {}
    }
}

/// The server is open: ready when it is to stop. `with_stdin`: also when standard input ends, or has ended;
/// whoever gives none wants to see whether the instance can be opened.
pub fn serving(with_stdin: bool) -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    *phase() = Phase::Serving(sender);
    if with_stdin {
        thread::spawn(|| {
            let mut buffer = [0u8; 256];
            while stdin().lock().read(&mut buffer).is_ok_and(|count| count > 0) {}
            request();
        });
    }
    receiver
}
