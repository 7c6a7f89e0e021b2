//! What is asked of each server, the same of all.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use terminal::{Failure, Outcome};

use super::body::{Body, Checked, Pattern};
use super::link::Link;
use super::target::{BUCKET, Target, expect};
use crate::cpu;

/// Keys of a page, the most that S3 gives.
const PAGE_KEYS: usize = 1000;
/// Objects of a directory.
const DIRECTORY_KEYS: u64 = 1000;
/// Bytes of a small object.
pub const SMALL_BYTES: usize = 16_000;

/// How much of each.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Large objects.
    pub files: u64,
    /// Bytes of each.
    pub size: u64,
    /// Connections for them.
    pub streams: usize,
    /// Small objects.
    pub small: u64,
    /// Connections for them.
    pub clients: usize,
    /// Keys that are listed.
    pub keys: u64,
    /// Rounds of each; the median counts.
    pub rounds: usize,
}

/// How long something took.
#[derive(Clone, Copy, Debug)]
pub struct Took {
    /// Bytes or operations.
    pub amount: f64,
    /// Seconds.
    pub seconds: f64,
    /// Processor seconds of the server.
    pub cpu: f64,
}

/// The key of an object.
fn key(kind: &str, number: u64) -> String {
    format!("/{BUCKET}/{kind}/{:04}/{number:08}", number / DIRECTORY_KEYS)
}

/// Puts large objects.
pub fn put_large(target: &Target, plan: Plan, checked: Checked) -> Outcome<Took> {
    let size = usize::try_from(plan.size).map_err(|_| Failure::usage("--size is more than memory holds"))?;
    let pattern = Pattern::new(size);
    let bodies: Vec<Body<'_>> =
        (0..plan.files).map(|number| Body::new(&pattern, size, number, checked)).collect();
    let mut took = timed(target, plan.files, plan.streams, |link, number| {
        let Some(body) = bodies.get(number as usize) else { return Ok(()) };
        expect("a put", link.put(&key("large", number), body), 200).map(drop)
    })?;
    took.amount = (plan.files * plan.size) as f64;
    Ok(took)
}

/// Gets them.
pub fn get_large(target: &Target, plan: Plan) -> Outcome<Took> {
    let mut took = timed(target, plan.files, plan.streams, |link, number| {
        let got = expect("a get", link.ask("GET", &key("large", number), "", false), 200)?;
        if got.bytes == plan.size { Ok(()) } else { Err(Failure::internal("a get was not whole")) }
    })?;
    took.amount = (plan.files * plan.size) as f64;
    Ok(took)
}

/// Puts small objects.
pub fn put_small(target: &Target, plan: Plan) -> Outcome<Took> {
    let pattern = Pattern::new(SMALL_BYTES);
    timed(target, plan.small, plan.clients, |link, number| {
        let body = Body::new(&pattern, SMALL_BYTES, number, Checked::Trailer);
        expect("a small put", link.put(&key("small", number), &body), 200).map(drop)
    })
}

/// Gets them, in an order that no cache expects.
pub fn get_small(target: &Target, plan: Plan) -> Outcome<Took> {
    timed(target, plan.small, plan.clients, |link, number| {
        let number = number.wrapping_mul(7919) % plan.small;
        let got = expect("a small get", link.ask("GET", &key("small", number), "", false), 200)?;
        if got.bytes == SMALL_BYTES as u64 { Ok(()) } else { Err(Failure::internal("a get was not whole")) }
    })
}

/// Makes the keys that are to be listed, of empty objects.
pub fn make_keys(target: &Target, plan: Plan) -> Outcome {
    let pattern = Pattern::new(0);
    timed(target, plan.keys, plan.clients, |link, number| {
        let body = Body::new(&pattern, 0, number, Checked::Md5);
        expect("making a key", link.put(&key("key", number), &body), 200).map(drop)
    })
    .map(drop)
}

/// Lists them all, page after page.
pub fn list(target: &Target, plan: Plan) -> Outcome<Took> {
    let mut link = target.connect()?;
    let (before, started) = (cpu::seconds(target.pid()), Instant::now());
    let (mut keys, mut after) = (0u64, String::new());
    loop {
        let query = format!("{after}list-type=2&max-keys={PAGE_KEYS}");
        let page = expect("a listing", link.ask("GET", &format!("/{BUCKET}"), &query, true), 200)?;
        let page = String::from_utf8_lossy(&page.kept);
        keys += page.matches("<Key>").count() as u64;
        let token = page.split_once("<NextContinuationToken>").and_then(|(_, rest)| rest.split_once('<'));
        let Some((token, _)) = token else { break };
        after = format!("continuation-token={}&", encoded(&token.replace("&amp;", "&")));
    }
    let seconds = started.elapsed().as_secs_f64();
    if keys != plan.keys {
        return Err(Failure::internal(format!("{keys} of {} keys were listed", plan.keys)));
    }
    Ok(Took { amount: keys as f64, seconds, cpu: cpu::seconds(target.pid()) - before })
}

/// As a value of a query is written in a signature.
fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Runs `work` for each number over so many connections.
fn timed(
    target: &Target,
    count: u64,
    connections: usize,
    work: impl Fn(&mut Link, u64) -> Outcome + Sync,
) -> Outcome<Took> {
    let links = (0..connections.max(1)).map(|_| target.connect()).collect::<Outcome<Vec<_>>>()?;
    let before = cpu::seconds(target.pid());
    let seconds = share_out(links, count, work).map_err(|failure| target.with_reason(failure))?;
    Ok(Took { amount: count as f64, seconds, cpu: cpu::seconds(target.pid()) - before })
}

/// Runs `work` for each number, on whichever of the connections is free; gives seconds.
pub fn share_out(
    links: Vec<Link>,
    count: u64,
    work: impl Fn(&mut Link, u64) -> Outcome + Sync,
) -> Outcome<f64> {
    let next = AtomicUsize::new(0);
    let run = |mut link: Link| -> Outcome {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed) as u64;
            if number >= count {
                return Ok(());
            }
            // The first failure ends all.
            work(&mut link, number).inspect_err(|_| {
                next.store(usize::try_from(count).unwrap_or(usize::MAX), Ordering::Relaxed);
            })?;
        }
    };
    let started = Instant::now();
    let results: Vec<Outcome> = std::thread::scope(|scope| {
        let running: Vec<_> = links.into_iter().map(|link| scope.spawn(|| run(link))).collect();
        let failed = || Err(Failure::internal("a client of the measurement panicked"));
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| failed())).collect()
    });
    let seconds = started.elapsed().as_secs_f64();
    results.into_iter().collect::<Outcome>()?;
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_queries_are_encoded() {
        assert_eq!(encoded("a/b+c=d~e ü"), "a%2Fb%2Bc%3Dd~e%20%C3%BC");
    }
}
