//! Answers that are written while they are sent: a thread that may block writes, the connection takes it piece by
//! piece.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use entrance::Call;
use hyper::body::{Body, Frame};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use transfer::{AnyError, Fault, Place, ReplyBody};

use crate::answer::{Failure, whole};
use crate::context::Asked;

/// Bytes that are gathered before they go.
const PIECE_BYTES: usize = 32 << 10;
/// Pieces that wait for the connection.
const PIECES: usize = 2;

/// The client has gone away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gone;

/// The answer could not be written to its end: the connection is closed before it.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the answer could not be written to its end")]
struct Broken;

enum Piece {
    Bytes(Bytes),
    End,
}

/// What is known when the answer begins.
enum Begun {
    /// All of it.
    Whole(Bytes),
    /// The rest comes.
    Rest,
}

/// Where the answer is written.
pub(crate) struct Out {
    told: Option<oneshot::Sender<Result<Begun, Failure>>>,
    pieces: mpsc::Sender<Piece>,
    gathered: String,
}

impl Out {
    /// Writes on. Waits while the client takes nothing.
    pub(crate) fn push(&mut self, text: &str) -> Result<(), Gone> {
        self.gathered.push_str(text);
        if self.gathered.len() < PIECE_BYTES {
            return Ok(());
        }
        if let Some(told) = self.told.take() {
            told.send(Ok(Begun::Rest)).map_err(|_| Gone)?;
        }
        let piece = std::mem::replace(&mut self.gathered, String::with_capacity(PIECE_BYTES + 4096));
        self.pieces.blocking_send(Piece::Bytes(piece.into())).map_err(|_| Gone)
    }

    /// Writes bytes on, as a piece of their own.
    pub(crate) fn push_bytes(&mut self, bytes: Bytes) -> Result<(), Gone> {
        if let Some(told) = self.told.take() {
            told.send(Ok(Begun::Rest)).map_err(|_| Gone)?;
        }
        let before = Bytes::from(std::mem::take(&mut self.gathered));
        for piece in [before, bytes] {
            if !piece.is_empty() {
                self.pieces.blocking_send(Piece::Bytes(piece)).map_err(|_| Gone)?;
            }
        }
        Ok(())
    }

    fn end(mut self) {
        let rest = Bytes::from(std::mem::take(&mut self.gathered));
        if let Some(told) = self.told.take() {
            drop(told.send(Ok(Begun::Whole(rest))));
        } else if self.pieces.blocking_send(Piece::Bytes(rest)).is_ok() {
            drop(self.pieces.blocking_send(Piece::End));
        }
    }
}

/// An answer of any length, with a place that has a thread: `prepare` says whether there is one, `write`
/// writes it, both on one thread that may block. What ends before much is written has its length.
///
/// # Errors
/// Those of `prepare`; no thread.
pub(crate) async fn written<T>(
    asked: &Asked,
    place: Place,
    prepare: impl FnOnce(&Asked) -> Result<T, Failure> + Send + 'static,
    write: impl FnOnce(&Asked, T, &mut Out) -> Result<(), Gone> + Send + 'static,
) -> Result<ReplyBody, Failure> {
    let (told, begun) = oneshot::channel();
    let (pieces, receiver) = mpsc::channel(PIECES);
    let job = asked.clone();
    spawn_blocking(move || {
        let _place = place;
        let prepared = match prepare(&job) {
            Ok(prepared) => prepared,
            Err(failure) => return drop(told.send(Err(failure))),
        };
        let mut out = Out { told: Some(told), pieces, gathered: String::new() };
        if write(&job, prepared, &mut out).is_ok() {
            out.end();
        }
    });
    match begun.await.map_err(|_| Fault::Lost)?? {
        Begun::Whole(bytes) => Ok(whole(bytes)),
        Begun::Rest => {
            Ok(ReplyBody::new(Writing { pieces: receiver, is_over: false, _call: asked.call.clone() }))
        }
    }
}

/// The body of such an answer.
struct Writing {
    pieces: mpsc::Receiver<Piece>,
    is_over: bool,
    /// Counts against the caller until the last byte.
    _call: Arc<Call>,
}

impl Body for Writing {
    type Data = Bytes;
    type Error = AnyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnyError>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        Poll::Ready(match ready!(self.pieces.poll_recv(cx)) {
            Some(Piece::Bytes(bytes)) => Some(Ok(Frame::data(bytes))),
            Some(Piece::End) => {
                self.is_over = true;
                None
            }
            // The thread has panicked, or the engine failed in the midst.
            None => Some(Err(Broken.into())),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.is_over
    }
}
