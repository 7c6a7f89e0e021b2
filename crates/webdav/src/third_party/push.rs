//! A file is sent to another server.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use archive::{ArchiveError, ErrorKind, FileStat};
use authority::Bytes as _;
use base::ByteCount;
use bytes::Bytes;
use entrance::{Call, Refusal};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, SizeHint};
use tpc::{Client, How};
use transfer::{AnyError, Content, Fault, Opened, ReplyBody};

use super::{Failed, Progress, Wishes, compare, told};
use crate::answer::{Answer, Failure};
use crate::context::Asked;
use crate::get::nearline;

pub(super) async fn push(asked: &Asked, client: Arc<Client>, to: String, wishes: Wishes) -> Answer {
    let job = asked.clone();
    let open = move |_: &Arc<Call>| -> Result<Opened<FileStat>, Unopened> {
        let download = job.engine.open_read_for(&job.target.path, &job.call.principal.name)?;
        let stat = download.stat().clone();
        download.check_drives()?;
        Ok(Opened { length: stat.size.0, head: stat, download: Some(download) })
    };
    let opened = asked.context.transfers.send(&asked.holder(), asked.call.clone(), open).await;
    let (stat, content) = opened.map_err(|Unopened(failure)| failure)?;
    let body = match content {
        Content::Whole(bytes) => ReplyBody::new(Full::new(bytes).map_err(|never| match never {})),
        Content::Stream(rest) => ReplyBody::new(rest.map_err(Into::into)),
    };
    let progress = Progress::default();
    let body = Counted { body, progress: progress.clone() };
    Ok(told(asked, progress, run(client, to, wishes, stat, body)))
}

async fn run(
    client: Arc<Client>,
    to: String,
    wishes: Wishes,
    stat: FileStat,
    body: Counted,
) -> Result<(), Failed> {
    if !wishes.overwrite {
        match client.head(&to, &wishes.headers).await {
            Ok(_) => return Err(Failed::because("the other server has a file there, and Overwrite is F")),
            Err(tpc::Error::Status(404)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let how = if wishes.overwrite { How::Replace } else { How::OnlyNew };
    let pushed = client.push(&to, wishes.headers.clone(), ByteCount(stat.size.0), how, body).await?;
    let sums = stat.checksums.stream;
    let mut theirs = pushed.digests;
    if theirs.adler32.is_none() && theirs.crc32c.is_none() {
        theirs = match client.head(&to, &wishes.headers).await {
            Ok(head) if head.length.is_some_and(|length| length != stat.size) => {
                return Err(Failed::because("the other server has another number of bytes than were sent"));
            }
            Ok(head) => head.digests,
            Err(error) if wishes.must_verify => return Err(error.into()),
            Err(_) => theirs,
        };
    }
    compare(&theirs, sums.adler32, sums.crc32c, wishes.must_verify)
}

/// Why a file cannot be sent.
struct Unopened(Failure);

impl From<ArchiveError> for Unopened {
    fn from(error: ArchiveError) -> Self {
        Unopened(match error.kind() {
            ErrorKind::Nearline => nearline(&error).into(),
            _ => error.into(),
        })
    }
}

impl From<Fault> for Unopened {
    fn from(fault: Fault) -> Self {
        Unopened(Refusal::from(fault).into())
    }
}

/// A body whose bytes are counted.
struct Counted {
    body: ReplyBody,
    progress: Progress,
}

impl Body for Counted {
    type Data = Bytes;
    type Error = AnyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, AnyError>>> {
        let next = Pin::new(&mut self.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &next {
            let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
            self.progress.fetch_add(bytes, Ordering::Relaxed);
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
