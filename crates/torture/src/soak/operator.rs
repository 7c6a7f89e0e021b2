//! What an operator does while the load runs: drives of the pool that are emptied and put in again, tapes
//! that are checked, brought to other tapes and made scratch.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::world::{World, lock};
use crate::http::{Fate, Http};
use crate::random::Random;

/// How often the operator looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Nothing may stand still for longer at the end.
const PATIENCE: Duration = Duration::from_secs(300);

/// What has to happen until an emptied drive counts as whole again.
#[derive(Clone, Copy)]
struct Mend {
    /// The server's life of which `passes` are counted.
    life: u64,
    /// Passes of the scrubber of that life by which all was seen since.
    passes: u64,
}

/// The operator. The fault's thread is also this one's.
#[derive(Default)]
pub struct Operator {
    /// Drives whose content is not known to be whole.
    mends: BTreeMap<u64, Option<Mend>>,
    looked: Option<Instant>,
    pub emptied: u64,
    pub mended: u64,
}

impl Operator {
    /// Drives that must count as lost.
    pub fn unusable(&self) -> impl Iterator<Item = u64> + '_ {
        self.mends.keys().copied()
    }

    /// Gives a drive up, empties its directory and puts it in as a new one.
    pub fn empty(&mut self, world: &World, drive: u64) {
        let http = http(world);
        let here = world.settings.dir.join(format!("pool/d{drive}"));
        world.say(&format!("drive {drive} is emptied and put in again"));
        // From the first step on, since any of them may be cut.
        self.mends.insert(drive, None);
        let lost = http.tell(&format!("pool/drives/{drive}/lost"), &json!({}));
        let renewed = empty_directory(&here);
        let replaced = http.tell(&format!("pool/drives/{drive}/replace"), &json!({}));
        match (&lost, &renewed, &replaced) {
            (Fate::Done(_), Ok(()), Fate::Done(what)) if what["what"] == "new" => self.emptied += 1,
            other => world.violation(format!("drive {drive} was not replaced: {other:?}")),
        }
        self.looked = None;
    }

    /// Tells the server that a drive with all that was on it is there again. Gives whether it is in use.
    pub fn put_back(&mut self, world: &World, drive: u64) -> bool {
        let http = http(world);
        let lost = http.tell(&format!("pool/drives/{drive}/lost"), &json!({}));
        let replaced = http.tell(&format!("pool/drives/{drive}/replace"), &json!({}));
        match (&lost, &replaced) {
            (Fate::Done(_), Fate::Done(what)) if what["what"] == "returned" => {
                world.tally("drive put back", |t| t.done += 1);
                true
            }
            other => {
                world.violation(format!("drive {drive} was not put back: {other:?}"));
                false
            }
        }
    }

    /// Looks whether emptied drives are whole, and has the pool scrubbed until they are.
    pub fn look(&mut self, world: &World) {
        if self.mends.is_empty() || self.looked.is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return;
        }
        self.looked = Some(Instant::now());
        let (life, http) = (world.life.load(Ordering::SeqCst), http(world));
        let Fate::Done(scrub) = http.ask("scrub") else { return };
        let passes = scrub["passes"].as_u64().unwrap_or(0);
        if scrub["lost"].as_u64().unwrap_or(0) > 0 {
            world.violation(format!("LOST by the scrubber: {scrub}"));
        }
        let running = scrub["running"] == true;
        let before = self.mends.len();
        self.mends.retain(|_, mend| {
            // One that runs already may have passed by; a new life knows nothing of the order.
            let fresh = Mend { life, passes: passes + 1 + u64::from(running) };
            let known = mend.filter(|mend| mend.life == life).unwrap_or(fresh);
            *mend = Some(known);
            passes < known.passes
        });
        self.mended += (before - self.mends.len()) as u64;
        if !running && !self.mends.is_empty() {
            http.tell("scrub", &json!({}));
        }
    }

    /// Has a tape checked.
    pub fn verify(&mut self, world: &World, random: &mut Random) {
        let http = http(world);
        if let Some(vid) = choose(&http, random, &["active", "full"]) {
            match http.tell(&format!("tapes/{vid}/verify"), &json!({})) {
                Fate::Done(_) => world.tally("tape verify", |t| t.done += 1),
                Fate::Refused(..) => world.tally("tape verify", |t| t.refused += 1),
                other => world.violation(format!("verify {vid}: {other:?}")),
            }
        }
    }

    /// Makes tapes that are repacked scratch, and begins with another one if none is left.
    pub fn repack(&mut self, world: &World, random: &mut Random) {
        let http = http(world);
        if !end_repacks(world, &http).is_empty() {
            return;
        }
        // First those that nothing can be written to any more: damage has made them so.
        let spent = choose(&http, random, &["read-only"]);
        if let Some(vid) = spent.or_else(|| choose(&http, random, &["active", "full"])) {
            match http.tell(&format!("tapes/{vid}/repack"), &json!({"reason": "soak"})) {
                Fate::Done(_) => world.tally("tape repack", |t| t.done += 1),
                Fate::Refused(..) => world.tally("tape repack", |t| t.refused += 1),
                other => world.violation(format!("repack {vid}: {other:?}")),
            }
        }
    }
}

fn http(world: &World) -> Http {
    let url = world.place().map(|place| place.url).unwrap_or_default();
    Http::new(&url, &world.instance.key)
}

fn empty_directory(here: &std::path::Path) -> std::io::Result<()> {
    let doomed = here.with_extension("doomed");
    std::fs::rename(here, &doomed)?;
    std::fs::create_dir(here)?;
    std::fs::remove_dir_all(&doomed)
}

fn tapes(http: &Http, states: &[&str]) -> Vec<String> {
    let Fate::Done(Value::Array(tapes)) = http.ask("tapes") else { return Vec::new() };
    let fits = |tape: &&Value| tape["state"].as_str().is_some_and(|state| states.contains(&state));
    tapes.iter().filter(fits).filter_map(|tape| tape["vid"].as_str().map(str::to_owned)).collect()
}

fn choose(http: &Http, random: &mut Random, states: &[&str]) -> Option<String> {
    let tapes = tapes(http, states);
    (!tapes.is_empty()).then(|| tapes[random.below(tapes.len() as u64) as usize].clone())
}

/// Makes tapes scratch whose repack is done; gives those that are not.
fn end_repacks(world: &World, http: &Http) -> Vec<String> {
    let mut left = Vec::new();
    for vid in tapes(http, &["repacking"]) {
        let Fate::Done(repack) = http.ask(&format!("tapes/{vid}/repack")) else { continue };
        if repack["state"] != "done" {
            left.push(vid);
            continue;
        }
        match http.tell(&format!("tapes/{vid}/reclaim"), &json!({})) {
            Fate::Done(_) => world.tally("tape reclaim", |t| t.done += 1),
            // Changes of the catalogue stand on it that no other tape has yet.
            Fate::Refused(..) => world.tally("tape reclaim", |t| t.refused += 1),
            other => world.violation(format!("reclaim {vid}: {other:?}")),
        }
    }
    left
}

/// Waits until no tape is being repacked and no check is under way.
pub fn end_tape_work(world: &World, http: &Http) {
    let since = Instant::now();
    let checked = ["active", "full", "suspect", "read-only", "repacking"];
    let is_under_way = |vid: &String| {
        let check = http.ask(&format!("tapes/{vid}/verify")).done().unwrap_or_default();
        matches!(check["state"].as_str(), Some("waiting" | "running"))
    };
    while tapes(http, &checked).iter().any(is_under_way) {
        if since.elapsed() > PATIENCE {
            return world.violation("HUNG check of a tape".to_owned());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    loop {
        let left = end_repacks(world, http);
        if left.is_empty() {
            break;
        }
        if since.elapsed() > PATIENCE {
            let show: Vec<_> = left.iter().map(|vid| http.ask(&format!("tapes/{vid}/repack"))).collect();
            return world.violation(format!("HUNG repack of {left:?}: {show:?}"));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    for vid in tapes(http, &checked) {
        if let Fate::Done(check) = http.ask(&format!("tapes/{vid}/verify"))
            && check["damage_count"].as_u64().unwrap_or(0) > 0
        {
            world.violation(format!("WRONG on tape {vid}, by its check: {check}"));
        }
    }
    let aside = tapes(http, &["suspect", "read-only", "disabled"]);
    if !aside.is_empty() {
        lock(&world.notes).insert(format!("tapes set aside: {aside:?}"), 1);
    }
}
