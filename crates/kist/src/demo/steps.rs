//! The steps of the demonstration, one line each.

use std::path::Path;
use std::time::{Duration, Instant};

use client::transfer::{
    ComparePair, JOBS_DEFAULT, LocalItem, LocalKind, PutItem, PutSettings, Putter, Tally, compare_all,
    download_to,
};
use client::{ADMIN_KEY_FILE, Client, Server, join};
use terminal::{Exit, Failure, Outcome, Progress, output, text};
use wire::{MigrateBody, StatusReply};

use super::source::{self, Source};
use super::summary::{self, Measured};
use super::{Args, copies};
use crate::commands::{evict, init, release, stage, wait};
use crate::instance::Instance;

/// For how long the staged files stay pinned.
const PIN: Duration = Duration::from_secs(600);
/// How long a migration may take before the demonstration gives up and says why.
const MIGRATE_WITHIN: Duration = Duration::from_secs(1800);
/// The port of an instance if nobody has it.
const PORT: u16 = 7420;
const S3_PORT: u16 = 7421;
const WEBDAV_PORT: u16 = 7422;

/// Runs all steps.
pub fn run(args: &Args, quiet: bool) -> Outcome {
    let started = Instant::now();
    // A tree that cannot be read is said before anything is made.
    let named = args.from.as_deref().map(source::named).transpose()?;
    prepare(&args.dir)?;
    let source = match named {
        Some(source) => source,
        None => source::usual(&args.dir)?,
    };
    done(&format!(
        "chose {}, {} of {}",
        text::files(source.tree.files.len() as u64),
        text::size(source.tree.bytes()),
        source.name
    ))?;
    let server = Server::start(&args.dir)?;
    done(&format!("started the server at {}", server.client.url()))?;
    let measured = archive(&server.client, &source, quiet)?;
    done(&format!("all in {}", text::span(started.elapsed())))?;
    summary::print(&measured, &args.dir, args.keep_serving)?;
    output::flush()?;
    if args.keep_serving {
        output::note(&format!("the server runs on at {}; Ctrl-C stops it", server.client.url()));
        return server.join();
    }
    server.stop()
}

fn prepare(directory: &Path) -> Outcome {
    if Instance::exists(directory) {
        // A running server is said now, with its process, and not after the files were chosen.
        drop(Instance::open(directory)?.lock(|wait| output::note(&format!("kist: {wait}")))?);
        if !directory.join(ADMIN_KEY_FILE).exists() {
            let message = format!(
                "{0} is an instance without {0}/{ADMIN_KEY_FILE}, so not one of kist demo: \
                 name another directory",
                directory.display()
            );
            return Err(Failure::new(Exit::Refused, message));
        }
        return done(&format!("found the instance in {}", directory.display()));
    }
    let mut init = init::Args::defaults(directory);
    init.demo = true;
    init.listen = ([127, 0, 0, 1], PORT).into();
    init.s3_listen = Some(([127, 0, 0, 1], S3_PORT).into());
    init.webdav_listen = Some(([127, 0, 0, 1], WEBDAV_PORT).into());
    let key = init::make(&init)?;
    crate::instance::write_durable(&directory.join(ADMIN_KEY_FILE), format!("{key}\n").as_bytes(), 0o600)?;
    done(&format!(
        "made an instance in {}: {} drives at {}, {} cartridges, {} tape drives",
        directory.display(),
        init.drives,
        init.code(),
        init.cartridges,
        init.tape_drives
    ))
}

fn archive(client: &Client, source: &Source, quiet: bool) -> Outcome<Measured> {
    let remote = free_directory(client)?;
    let before: StatusReply = client.get("/api/v1/status")?;
    let put = put(client, source, &remote, quiet)?;
    let (migrated, migrate) = migrate(client, quiet)?;
    let files: Vec<String> = source.tree.files.iter().map(|file| join(&remote, &file.relative)).collect();
    let with_bytes: Vec<String> = source
        .tree
        .files
        .iter()
        .filter(|file| file.kind == LocalKind::File && file.size > 0)
        .map(|file| join(&remote, &file.relative))
        .collect();
    let tapes = copies::check(client, &with_bytes, quiet)?;
    done(&format!(
        "checked: each of {} is under an index on two tapes of two tape pools ({})",
        text::files(with_bytes.len() as u64),
        tapes.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
    ))?;
    let evicted = evict::evict(client, vec![remote.clone()], quiet)?;
    evict::outcome(&evicted)?;
    let without_bytes = match files.len() as u64 - with_bytes.len() as u64 {
        0 => String::new(),
        1 => "; 1 empty file or link has nothing to evict".to_owned(),
        more => format!("; {} empty files or links have nothing to evict", text::count(more)),
    };
    let (files_evicted, size) = (text::files(evicted.evicted), text::size(evicted.bytes));
    done(&format!("evicted {files_evicted}, {size} from the pool{without_bytes}"))?;
    let example = with_bytes.first().or(files.first()).cloned().unwrap_or_default();
    show_refusal(client, &example)?;
    let (request, recall) = recall(client, &remote, quiet)?;
    let compare = compare(client, source, &remote, quiet)?;
    // Its pins would keep the user from evicting the files again.
    release::release(client, request, None, quiet)?;
    done(&format!("released request {request}: its files may be evicted again"))?;
    let after = client.get("/api/v1/status")?;
    let (files, bytes) = (source.tree.files.len() as u64, source.tree.bytes());
    Ok(Measured {
        files,
        bytes,
        remote,
        example,
        put,
        migrated,
        migrate,
        recall,
        compare,
        tapes,
        before,
        after,
    })
}

/// The first `/demo-N` that is not there.
fn free_directory(client: &Client) -> Outcome<String> {
    let mut number = 1u32;
    loop {
        let path = format!("/demo-{number}");
        if client.find(&path)?.is_none() {
            return Ok(path);
        }
        number += 1;
    }
}

fn put(client: &Client, source: &Source, remote: &str, quiet: bool) -> Outcome<Duration> {
    let tree = &source.tree;
    let tally = Tally::default();
    let settings = PutSettings { jobs: JOBS_DEFAULT, ..PutSettings::default() };
    let item = |local: &LocalItem| PutItem {
        remote: if local.relative.is_empty() { remote.to_owned() } else { join(remote, &local.relative) },
        local: local.clone(),
    };
    let directories: Vec<PutItem> = tree.directories.iter().map(item).collect();
    let files: Vec<PutItem> = tree.files.iter().map(item).collect();
    let progress = Progress::start("put", files.len() as u64, tree.bytes(), quiet);
    for (path, failure) in &tree.left_out {
        output::note(&format!("kist: {}: left out: {failure}", path.display()));
    }
    let putter = Putter::new(client, &settings, &progress, &tally);
    putter.directories(&directories);
    putter.files(&files);
    let elapsed = progress.elapsed();
    drop(progress);
    tally.outcome(files.len().max(2))?;
    done(&format!("put {} to {remote}, {}", text::files(tally.done()), text::speed(tally.bytes(), elapsed)))?;
    Ok(elapsed)
}

/// Gives the bytes of all copies that were written meanwhile, and how long it took.
fn migrate(client: &Client, quiet: bool) -> Outcome<(u64, Duration)> {
    let before: StatusReply = client.get("/api/v1/status")?;
    let progress = wait::progress(quiet);
    client.post("/api/v1/migrate", &MigrateBody::default())?;
    wait::wait(client, &progress, Some(MIGRATE_WITHIN))?;
    let elapsed = progress.elapsed();
    drop(progress);
    let after: StatusReply = client.get("/api/v1/status")?;
    let written = after.tape_written.saturating_sub(before.tape_written);
    done(&format!("migrated to tape, two copies, {}", text::speed(written, elapsed)))?;
    Ok((written, elapsed))
}

/// Reads what is on tape only, which has to be refused.
fn show_refusal(client: &Client, path: &str) -> Outcome {
    let progress = Progress::start("get", 0, 0, true);
    match download_to(client, path, &mut std::io::sink(), &progress) {
        Err(attempt) if attempt.failure.exit == Exit::Refused => {
            done(&format!("a read without staging is refused: {}", attempt.failure))
        }
        Err(attempt) => Err(attempt.failure),
        Ok(_) => Err(Failure::internal(format!("{path} was evicted, but could be read without staging"))),
    }
}

/// Gives the request and how long it took.
fn recall(client: &Client, remote: &str, quiet: bool) -> Outcome<(u64, Duration)> {
    let progress = Progress::start("stage", 0, 0, quiet);
    let id = stage::submit(client, vec![remote.to_owned()], PIN, None, quiet)?;
    let request = stage::wait_for(client, id, &progress)?;
    let elapsed = progress.elapsed();
    drop(progress);
    stage::outcome(client, &request)?;
    done(&format!(
        "staged {} by request {id}, {}",
        text::files(u64::from(request.done)),
        text::speed(request.done_bytes, elapsed)
    ))?;
    Ok((id, elapsed))
}

fn compare(client: &Client, source: &Source, remote: &str, quiet: bool) -> Outcome<Duration> {
    let pair = |file: &LocalItem| ComparePair::new(file, join(remote, &file.relative));
    let pairs: Vec<ComparePair> = source.tree.files.iter().map(pair).collect();
    let tally = Tally::default();
    let progress = Progress::start("compare", pairs.len() as u64, source.tree.bytes(), quiet);
    compare_all(client, &pairs, JOBS_DEFAULT, &progress, &tally);
    let elapsed = progress.elapsed();
    drop(progress);
    tally.outcome(pairs.len().max(2))?;
    done(&format!(
        "compared {}: every byte is the same, {}",
        text::files(tally.done()),
        text::speed(tally.bytes(), elapsed)
    ))?;
    Ok(elapsed)
}

fn done(what: &str) -> Outcome {
    output::line(&format!("✓ {what}"))?;
    output::flush()
}
