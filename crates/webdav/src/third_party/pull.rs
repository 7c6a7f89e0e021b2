//! A file is fetched from another server.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use archive::{ErrorKind, PutDone, PutOptions};
use authority::{Bytes as _, Upload};
use base::StreamChecksums;
use bytes::Bytes;
use entrance::{Kind, Refusal};
use http::HeaderMap;
use tpc::{Checksums, Client, Digests, PullBody, Want};
use transfer::{Beside, Hasher, Reply, Sink, Source};

use super::{Failed, Progress, Wishes, compare, told};
use crate::answer::{Answer, Failure};
use crate::context::Asked;
use crate::digests::{Announced, announced};
use crate::put::attributes;
use crate::tree::{of_parent, taken, there};

pub(super) async fn pull(asked: &Asked, client: Arc<Client>, source: String, wishes: Wishes) -> Answer {
    if asked.target.has_slash {
        return Err(Refusal::new(Kind::IsADirectory, "the address ends with '/': a copy makes a file").into());
    }
    let headers = &asked.parts.headers;
    let announced = announced(headers)?;
    let options = PutOptions {
        adler32: announced.adler32,
        attributes: attributes(&described(headers))?,
        keep_existing: !wishes.overwrite,
        who: Some(asked.call.principal.name.clone()),
        ..PutOptions::default()
    };
    // What may not be put needs no other server.
    let (probe, overwrite) = (options.clone(), wishes.overwrite);
    asked
        .run(move |asked: &Asked| -> Result<(), Failure> {
            if !overwrite && there(asked, &asked.target.path)?.is_some() {
                return Err(taken(&asked.target.path));
            }
            asked.engine.begin_put(&asked.target.path, probe).map(drop).map_err(of_parent)
        })
        .await?;
    let progress = Progress::default();
    let job =
        Job { asked: asked.clone(), client, source, wishes, options, announced, progress: progress.clone() };
    Ok(told(asked, progress, job.run()))
}

/// The headers that say what the file is; the type of the request's own body is not its.
fn described(headers: &HeaderMap) -> HeaderMap {
    let mut described = headers.clone();
    described.remove(http::header::CONTENT_TYPE);
    described
}

struct Job {
    asked: Asked,
    client: Arc<Client>,
    source: String,
    wishes: Wishes,
    options: PutOptions,
    announced: Announced,
    progress: Progress,
}

impl Job {
    async fn run(self) -> Result<(), Failed> {
        let Job { asked, client, source, wishes, mut options, announced, progress } = self;
        // The place first: what comes from there takes memory.
        let place = asked.context.transfers.admit(&asked.holder()).await.map_err(Refusal::from)?;
        let several = asked.context.several.clone().try_acquire_owned().ok().filter(|_| wishes.streams > 1);
        let streams = if several.is_some() { wishes.streams } else { 1 };
        let want = Want { streams, checksums: true };
        let pulled = client.pull(&source, wishes.headers, want).await?;
        options.length = pulled.length;
        let source = Fetched {
            body: pulled.body,
            checksums: Some(pulled.checksums),
            theirs: Digests::default(),
            progress,
        };
        let must_verify = wishes.must_verify;
        let job = asked.clone();
        let begin = move || -> Result<Receiving, Stopped> {
            let upload = job.engine.begin_put(&job.target.path, options).map_err(Stopped::engine)?;
            let md5 = announced
                .md5
                .map(|_| Beside::start(Hasher::new(true, false, []), job.context.transfers.md5()));
            Ok(Receiving { upload, ours: StreamChecksums::of(b""), md5: md5.transpose()?, announced })
        };
        let finish = move |receiving: Receiving, theirs: Digests, reply: Reply<PutDone, Stopped>| {
            receiving.finish(&theirs, must_verify, reply);
        };
        asked
            .context
            .transfers
            .receive_in(place, source, begin, finish)
            .await
            .map_err(|Stopped(failed)| failed)?;
        Ok(())
    }
}

/// Why a file that is fetched is not stored.
struct Stopped(Failed);

impl Stopped {
    fn engine(error: archive::ArchiveError) -> Stopped {
        match error.kind() {
            ErrorKind::Exists => Stopped(Failed::because(format!("{error}, and Overwrite is F"))),
            _ => Stopped(error.into()),
        }
    }
}

impl From<transfer::Fault> for Stopped {
    fn from(fault: transfer::Fault) -> Self {
        Stopped(Refusal::from(fault).into())
    }
}

impl From<archive::ArchiveError> for Stopped {
    fn from(error: archive::ArchiveError) -> Self {
        Stopped(error.into())
    }
}

/// The bytes from the other server; behind them its checksums.
struct Fetched {
    body: PullBody,
    checksums: Option<Checksums>,
    theirs: Digests,
    progress: Progress,
}

impl Source for Fetched {
    type End = Digests;
    type Error = Stopped;

    async fn next(&mut self) -> Result<Option<Bytes>, Stopped> {
        let bytes = self.body.next().await.map_err(|error| Stopped(error.into()))?;
        if let Some(bytes) = &bytes {
            self.progress.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        } else if let Some(checksums) = self.checksums.take() {
            self.theirs = checksums.wait().await.map_err(|error| Stopped(error.into()))?;
        }
        Ok(bytes)
    }

    fn end(self) -> Digests {
        self.theirs
    }
}

/// The file on its way in.
struct Receiving {
    upload: Box<dyn Upload>,
    ours: StreamChecksums,
    /// If the client announced one.
    md5: Option<Beside>,
    announced: Announced,
}

impl Sink<Stopped> for Receiving {
    fn write(&mut self, bytes: &Bytes) -> Result<(), Stopped> {
        self.ours = self.ours.extend(bytes);
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes)?;
        }
        Sink::<Stopped>::write(&mut self.upload, bytes)
    }

    fn pause(&mut self) {
        Sink::<Stopped>::pause(&mut self.upload);
    }
}

impl Receiving {
    /// Gives the file its name, if it is the one that the other server has.
    fn finish(self, theirs: &Digests, must_verify: bool, reply: Reply<PutDone, Stopped>) {
        let Receiving { upload, ours, md5, announced } = self;
        // What the client says that it is counts as a check as well.
        let is_announced = announced != Announced::default();
        if let Err(failed) = compare(theirs, ours.adler32, ours.crc32c, must_verify && !is_announced) {
            return reply(Err(Stopped(failed)));
        }
        if announced.crc32c.is_some_and(|announced| announced != ours.crc32c) {
            return reply(Err(Stopped(Failed::because(
                "checksum mismatch: the file has another crc32c than was announced",
            ))));
        }
        match md5.map(Beside::finish).transpose() {
            Ok(sums) if sums.as_ref().and_then(|sums| sums.md5) == announced.md5 => {}
            Ok(_) => {
                let why = "checksum mismatch: the file has another md5 than was announced";
                return reply(Err(Stopped(Failed::because(why))));
            }
            Err(fault) => return reply(Err(fault.into())),
        }
        upload.finish_then(Box::new(move |done| reply(done.map_err(Stopped::engine))));
    }
}
