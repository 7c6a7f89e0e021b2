//! A request of the Tape REST API with many files that only tapes have.

use std::time::{Duration, Instant};

use terminal::{Failure, Outcome, Progress};
use wire::MigrateBody;

use super::bed::Bed;
use super::load::{self, Source};
use super::peers::Server;
use crate::s3::link::{Answer, Link};
use crate::s3::sign::Asked;
use crate::s3::target::expect;
use crate::subject::Subject;

/// Where the interface is.
const STAGE: &str = "/.well-known/wlcg-tape-rest-api/v1/stage";
/// Where the files are.
const BELOW: &str = "/tape";
/// How long all may take to go to tape, and to come back.
const WITHIN: Duration = Duration::from_secs(1800);
/// Between two looks at whether all have come.
const LOOK: Duration = Duration::from_millis(200);

/// What one round took.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Files of the request.
    pub files: u64,
    /// Seconds from the request to the answer that it is kept.
    pub staged: f64,
    /// Seconds of the first poll after that, while tapes are read.
    pub polled: f64,
    /// Seconds until all files were there.
    pub back: f64,
}

/// Puts files, has them go to tape, and stages them.
pub fn measure(bed: &Bed, source: &Source, clients: usize, subject: &dyn Subject) -> Outcome<Took> {
    let client = bed.kist().client();
    load::put(bed, Server::Webdav, source, BELOW, clients)?;
    client.post("/api/v1/migrate", &MigrateBody::default())?;
    subject.wait(client, &Progress::start("bench", 0, 0, true), WITHIN)?;
    subject.evict(client, BELOW)?;

    let files = source.files.count;
    let paths = (0..files).map(|number| serde_json::json!({"path": source.files.path(BELOW, number)}));
    let body = serde_json::json!({"files": paths.collect::<Vec<_>>()}).to_string();
    let mut link = bed.connect(Server::Webdav)?;
    let started = Instant::now();
    let answer = post(&mut link, &body)?;
    let staged = started.elapsed().as_secs_f64();
    let id = json(&answer)?["requestId"].as_str().unwrap_or_default().to_owned();
    let poll = Instant::now();
    let mut reply = expect("a poll", link.ask("GET", &format!("{STAGE}/{id}"), "", true), 200)?;
    let polled = poll.elapsed().as_secs_f64();
    loop {
        let state = json(&reply)?;
        let of = |wanted: &str| count(&state, wanted);
        if count_all(&state) != files || of("FAILED") > 0 {
            return Err(bed
                .kist()
                .with_log(Failure::internal("a poll names other files, or one has failed")));
        }
        if of("COMPLETED") == files {
            return Ok(Took { files, staged, polled, back: started.elapsed().as_secs_f64() });
        }
        if started.elapsed() > WITHIN {
            return Err(bed.kist().with_log(Failure::internal("the files do not come back from tape")));
        }
        std::thread::sleep(LOOK);
        reply = expect("a poll", link.ask("GET", &format!("{STAGE}/{id}"), "", true), 200)?;
    }
}

fn post(link: &mut Link, body: &str) -> Outcome<Answer> {
    let headers =
        [("content-type", "application/json".to_owned()), ("content-length", body.len().to_string())];
    let asked = Asked { method: "POST", path: STAGE, query: "", headers: &headers, payload: "" };
    expect("a request to stage", link.send(asked, &[body.as_bytes()], true), 201)
}

fn json(answer: &Answer) -> Outcome<serde_json::Value> {
    serde_json::from_slice(&answer.kept)
        .map_err(|error| Failure::internal(format!("an answer of the Tape REST API: {error}")))
}

fn of_files(state: &serde_json::Value) -> &[serde_json::Value] {
    state["files"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn count_all(state: &serde_json::Value) -> u64 {
    of_files(state).len() as u64
}

fn count(state: &serde_json::Value, wanted: &str) -> u64 {
    of_files(state).iter().filter(|file| file["state"] == wanted).count() as u64
}
