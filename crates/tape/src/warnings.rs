//! What an operator should know, in words: `kist status` says it.

use std::collections::BTreeMap;

use backup::TapeLook;
use base::{Count, DriveId, Duration, Vid};
use catalogue::{TapeRecord, TapeState};
use library::Library;
use mounts::{HealthReport, Judgement, Verdict};
use pool::{DriveHealth, DriveReport, GatheringReport, PoolStatus};
use scheduler::DriveState;
use settle::SILENT_MAX;
use store::Shortage;

use crate::operate::leaving;
use crate::reasons::Waiting;
use crate::room::Tape;
use crate::tapes::is_unidentified;
use ground::{DriveDiskInfo, HealthProblem, PoolHolders, SettlingInfo, SettlingStage};
use ground::{GroupInfo, truncated};

/// Objects named in one warning; the others are only counted.
const NAMED_MAX: usize = 5;
/// Disks of which a warning each is told.
const DISKS_TOLD_MAX: usize = 20;
/// A pool that is so full, in hundredths, is warned of.
const FILL_WARNED: u64 = 90;
/// A drive that has not answered for so long is told of while all others wait for it.
const SILENT_TOLD: Duration = Duration::from_secs(300);
/// Most bytes of a reason within a warning: as many as are kept of one, since what to do comes last in it.
const REASON_MAX: usize = 512;

/// What keeps the server from taking changes.
pub(crate) fn health(room: &Tape) -> Vec<HealthProblem> {
    if !room.catalogue.is_writing() {
        return vec![HealthProblem::CatalogueStopped];
    }
    let problem = |(shortage, refused)| match shortage {
        Shortage::Disk => HealthProblem::CatalogueDiskFull(refused),
        Shortage::Map => HealthProblem::CatalogueMapFull(refused),
        Shortage::Readers => HealthProblem::CatalogueMapRead,
    };
    let of_catalogue = room.catalogue.lack().map(problem);
    // What the catalogue lacks is told as that.
    let of_tapes = match of_catalogue {
        None => room.tapes_not_written(),
        Some(_) => None,
    };
    of_catalogue.into_iter().chain(room.pool_refuses()).chain(of_tapes).collect()
}

/// What is not as it should be.
pub(crate) fn all(
    room: &Tape,
    tapes: &[(Vid, TapeRecord)],
    pool: &PoolStatus,
    holders: &PoolHolders,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let standing = room.clock.trusted().map(base::TrustedClock::standing);
    warnings.extend(standing.filter(base::TimeStanding::is_apart).map(|it| upkeep::apart(&it)));
    if let Ok(Some(to)) = room.read(|view| Ok(view.clock()?.planned_back)) {
        warnings.push(format!("the trusted time goes back to {to} at the next start: restart the server"));
    }
    let settling = room.settling.info(room.now(), room.steady());
    warnings.extend(settling.as_ref().and_then(of_settling));
    if matches!(room.read(|view| view.quarantine()), Ok(Some(_))) {
        let kept = match holders.quarantined.0 {
            0 => String::new(),
            _ => format!(" ({} of the drives hold nothing else)", holders.quarantined),
        };
        warnings.push(format!(
            "the catalogue was restored: what is older than the restore keeps its room in the pool{kept}, \
             also what is deleted or evicted, since later points of the backup may need it, and no tape is \
             reclaimed: see kist pool quarantine"
        ));
    }
    let problems = health(room);
    warnings.extend(problems.iter().map(ToString::to_string));
    warnings.extend(of_uploads(&room.pool.gathering_report()));
    let is_full = problems.contains(&HealthProblem::PoolFull);
    let stuck = if holders.unsafe_yet.bytes.0 > 0 { room.why_stuck_for_tape() } else { None };
    warnings.extend(of_pool(pool, room.pool.config().bears(), is_full, &holders.advice(stuck.as_ref())));
    warnings.extend(room.upkeep.group_infos().iter().filter_map(of_group));
    warnings.extend(of_disks(&room.upkeep.drive_disks().unwrap_or_default()));
    if let Ok(Some(reason)) = room.reason(Waiting::RoomForReads) {
        warnings.push(format!("tapes that are repacked, or whose copies are mended: {reason}"));
    }
    let states: Vec<(String, DriveState)> =
        room.scheduler().drives().map(|(name, state)| (name.clone(), state.clone())).collect();
    // Drives that look at tapes since a restore are no matter of their own.
    let all_look = settling.is_some_and(|settling| settling.stage == SettlingStage::WrittenTapes);
    let down = room.read(|view| view.drives_down()).unwrap_or_default();
    let is_told = |name: &str| !all_look || down.iter().any(|(drive, _)| drive == name);
    for (name, state) in states {
        if let Some(leaving) = leaving(&state, &name, &down) {
            let leaving = truncated(&leaving, REASON_MAX);
            warnings.push(format!("tape drive {name} {leaving}: kist drive up {name}"));
        }
        if let DriveState::Down { reason } = state
            && is_told(&name)
        {
            let reason = truncated(&reason, REASON_MAX);
            warnings.push(format!("tape drive {name} is out of use ({reason}): kist drive up {name}"));
        }
    }
    let drives = room.pool.drive_health();
    let unnamed = drives.iter().filter_map(|(id, health)| Some((id, room.told_unnamed(*id, health)?)));
    warnings.extend(unnamed.map(|(id, told)| format!("drive {id} of the pool: {told}")));
    warnings.extend(of_health(&room.machine_health()));
    warnings.extend(match room.settings.tape.mounts.cleaning.is_by_policy() {
        true => room.warn_of_cleaning(),
        false => of_cleaning(&room.machine_health()),
    });
    let goes_to_tape = room.classes.all().iter().any(|class| !class.settings.copies.is_empty());
    warnings.extend(of_tapes(tapes, goes_to_tape, &room.unreached(), |vid| !room.libraries.holds(vid)));
    warnings.extend(room.asked_for_away(tapes));
    warnings.extend(room.keys_missing_told(tapes));
    warnings.extend(of_what_has_no_vid(room.library.as_ref()));
    warnings.extend(of_what_is_out_of_reach(room.library.as_ref()));
    warnings.extend(of_changers(room.library.as_ref(), |number| room.libraries.name(number)));
    warnings.extend(of_change_log(room));
    warnings
}

/// Who keeps uploads waiting for memory.
fn of_uploads(report: &GatheringReport) -> Option<String> {
    if !report.is_scarce && report.waiting == 0 {
        return None;
    }
    let most = report.most.as_ref().map_or_else(String::new, |(caller, bytes)| {
        let caller = if caller.is_empty() { "callers without a name" } else { caller };
        format!(", {bytes} are held by {caller}")
    });
    let GatheringReport { total, free, waiting, .. } = report;
    Some(format!(
        "{free} of {total} of memory for uploads whose clients send slowly are free{most}; {waiting} uploads \
         wait for some"
    ))
}

/// What keeps tapes from giving the catalogue back, or its log from being trimmed.
fn of_change_log(room: &Tape) -> Vec<String> {
    let lacking = crate::change_log::lacking(room).unwrap_or_default().into_iter().map(|pool| {
        format!(
            "too few tapes of pool {pool} have a base of the catalogue, and its log does not go back to the \
             first change: the tapes of this pool alone do not give the catalogue back; the next tape that \
             may be written gets one (kist tape ls)"
        )
    });
    let failing = room.bases.failing().map(|reason| {
        let reason = truncated(&reason, REASON_MAX);
        format!("no base of the catalogue can be made, and its log of changes is not trimmed: {reason}")
    });
    lacking.chain(failing).collect()
}

/// How far a restored catalogue was compared with pool and tapes.
fn of_settling(settling: &SettlingInfo) -> Option<String> {
    let unseen: Vec<String> = settling.unseen.iter().map(Vid::to_string).collect();
    let left = settling.left.filter(|left| !left.is_zero());
    let left = left.map_or_else(String::new, |left| format!(", about {} s left", left.as_secs().max(1)));
    let tapes = format!("{} of {} tapes{left}", Count(settling.tapes_done), Count(settling.tapes));
    let what = match settling.stage {
        SettlingStage::WrittenTapes => format!(
            "all drives look at the tapes that may be written, before any is ({tapes}); files are read from \
             the pool and put meanwhile, and recalls wait"
        ),
        SettlingStage::Pool => format!(
            "files are looked for in the pool ({} of {}{left}); nothing is removed from it, mended or \
             evicted before",
            Count(settling.files_done),
            Count(settling.files)
        ),
        SettlingStage::OtherTapes => format!(
            "the labels of all tapes with data are checked when drives have nothing better to do ({tapes}); \
             nothing is evicted before"
        ),
        SettlingStage::Missing => {
            format!(
                "files are missing, and all tapes are searched for them ({tapes}); nothing is evicted before"
            )
        }
        SettlingStage::Unsettled => {
            if settling.missing > 0 {
                return Some(of_missing(settling));
            }
            if unseen.is_empty() && !settling.absent.is_empty() {
                return Some(format!(
                    "the catalogue was restored: nothing is evicted until its comparison with pool and tapes \
                     goes on{}",
                    of_absent(&settling.absent)
                ));
            }
            let what = match unseen.is_empty() {
                true => "drives of the pool are away that may hold shards (see kist pool show)".to_owned(),
                false => format!("tapes could not be looked at: {}", named(&unseen)),
            };
            format!(
                "{what}: nothing is evicted until they are put back, or disabled or replaced, and the server \
                 is restarted"
            )
        }
        SettlingStage::Settled => return None,
    };
    let failing = settling.failing.as_ref().map_or_else(String::new, |why| {
        format!("; it cannot go on now, and is tried again: {}", truncated(why, REASON_MAX))
    });
    let silent = settling.looking.iter().filter(|look| look.silent >= SILENT_TOLD).map(|look| {
        let TapeLook { vid, drive, silent, waits_for_library } = look;
        let (silent, given_up) = (silent.as_secs(), SILENT_MAX.as_secs());
        if *waits_for_library {
            return format!(
                "; the library has not brought tape {vid} to drive {drive}, or taken it away, for {silent} \
                 s, and has served no other drive since: is the robot stuck? Nobody is given up for that, \
                 and no tape is written before it works"
            );
        }
        format!(
            "; drive {drive} looks at tape {vid} and has not answered for {silent} s: both are given up \
             after {given_up} s, and the tape is not written then"
        )
    });
    let silent: String = silent.collect();
    let unseen = match unseen.is_empty() || settling.stage == SettlingStage::Unsettled {
        true => String::new(),
        false => format!("; could not be looked at: {}", named(&unseen)),
    };
    let absent = of_absent(&settling.absent);
    Some(format!("the catalogue was restored: {what}{silent}{unseen}{absent}{failing}"))
}

/// Files that only tapes which were not looked at may have.
fn of_missing(settling: &SettlingInfo) -> String {
    let of = |vids: &[Vid], what: &str| {
        let vids: Vec<String> = vids.iter().map(Vid::to_string).collect();
        (!vids.is_empty()).then(|| format!(", and {what}: {}", named(&vids)))
    };
    let unsearched = of(&settling.unsearched, "these disabled tapes were not");
    let unseen = of(&settling.unseen, "these tapes could not be looked at");
    let others: String = unsearched.into_iter().chain(unseen).collect();
    let until = match others.is_empty() {
        true => "",
        false => " until the tapes are in the library, or the files are removed, and the server is restarted",
    };
    format!(
        "the catalogue was restored: {} files (named in the log) are neither in the pool nor on a tape that \
         was searched{others}. The files are not LOST and cannot be staged, and nothing is evicted{until}{}",
        settling.missing,
        of_absent(&settling.absent)
    )
}

/// Tapes with sessions of before the restore that cannot be mounted, and what to do.
fn of_absent(absent: &[Vid]) -> String {
    let Some(first) = absent.first() else { return String::new() };
    let absent: Vec<String> = absent.iter().map(Vid::to_string).collect();
    format!(
        "; a session of before the restore is open on {}, which no library has, or which failed too often: \
         put it back (and say kist tape set {first} active, if it is suspect), then this goes on by itself; \
         if it is gone for good: kist tape set {first} disabled",
        named(&absent)
    )
}

/// Disks that are to be replaced: which, where, and what keeps that from being done by itself.
fn of_disks(disks: &BTreeMap<DriveId, DriveDiskInfo>) -> Vec<String> {
    let of = |(drive, disk): (&DriveId, &DriveDiskInfo)| {
        let slot = disk.known.slot;
        let slot = slot.map(|slot| format!(", slot {} of enclosure {:016x}", slot.number, slot.enclosure));
        let slot = slot.unwrap_or_default();
        let waits = disk.waits.as_ref().map(|waits| format!("; {}", waits.text)).unwrap_or_default();
        let name = &disk.known.disk;
        if let Some(why) = &disk.known.drained {
            let pull = if disk.wants_light { ", is empty, and its disk is to be replaced" } else { "" };
            return Some(format!("drive {drive} of the pool is emptied{pull}: its disk {name}{slot}: {why}"));
        }
        let predicts = disk.reasons.iter().find(|reason| reason.predicts)?;
        let why = &predicts.text;
        Some(format!("drive {drive} of the pool: its disk {name}{slot} foretells its failure: {why}{waits}"))
    };
    let lost = |(drive, disk): (&DriveId, &DriveDiskInfo)| {
        let waits = disk.waits.as_ref().filter(|_| disk.reasons.iter().all(|reason| !reason.predicts))?;
        Some(format!("drive {drive} of the pool: nothing takes the place of its disk: {}", waits.text))
    };
    disks.iter().filter_map(of).chain(disks.iter().filter_map(lost)).take(DISKS_TOLD_MAX).collect()
}

/// What is wrong with the drives of the pool, and how full it is; `advice`: what makes room in it.
/// A group that gets nothing.
fn of_group(group: &GroupInfo) -> Option<String> {
    let (name, taking, needed) = (&group.name, group.room.takers, group.code.width());
    (taking < needed).then(|| {
        format!(
            "group {name} gets nothing: {taking} of its drives take files, and {} needs {needed}; what its \
             classes get goes to the drives in no group: see kist pool show and kist pool drive add --group \
             {name}",
            group.code
        )
    })
}

fn of_pool(pool: &PoolStatus, bears: usize, is_full: bool, advice: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let (mut silent, mut hurt, mut gaps, mut new) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut slow = Vec::new();
    // One that was taken out is none of them.
    let drives: Vec<&DriveReport> =
        pool.drives.iter().filter(|drive| drive.health != DriveHealth::Removed).collect();
    for drive in &drives {
        if drive.filling && !drive.health.is_silent() {
            new.push(drive.id.to_string());
        } else if drive.gaps_after.is_some() && !drive.health.is_silent() {
            gaps.push(drive.id.to_string());
        }
        if let Some(times) = drive.slow {
            slow.push(format!("{} ({times} times as long)", drive.id));
        }
        let named = format!("{} ({})", drive.id, if drive.is_full() { "full" } else { drive.health.word() });
        if drive.health.is_silent() {
            silent.push(named);
        } else if !drive.takes_files() && !drive.drains {
            hurt.push(named);
        }
    }
    let of = drives.len();
    if !silent.is_empty() {
        let beyond = if silent.len() > bears {
            "; that is more than the parity bears for certain: some files may not be readable from the pool"
        } else {
            ""
        };
        let (count, named) = (silent.len(), named(&silent));
        let verb = if count == 1 { "does" } else { "do" };
        warnings.push(format!(
            "{count} of {of} drives of the pool {verb} not answer: {named}{beyond}: see kist pool show"
        ));
    }
    if !hurt.is_empty() {
        let (count, named) = (hurt.len(), named(&hurt));
        let verb = if count == 1 { "takes" } else { "take" };
        warnings.push(format!(
            "{count} of {of} drives of the pool {verb} no new data: {named}: see kist pool show"
        ));
    }
    if !slow.is_empty() {
        let (count, named) = (slow.len(), named(&slow));
        let verb = if count == 1 { "is" } else { "are" };
        warnings.push(format!(
            "{count} of {of} drives of the pool {verb} much slower than the others, which get the new data: \
             {named}: see kist pool show and kist disk health"
        ));
    }
    if !gaps.is_empty() {
        let (count, named) = (gaps.len(), named(&gaps));
        warnings.push(format!(
            "{count} of {of} drives of the pool may lack what was written while away, or were put back from \
             an old copy: {named}: what is missing is looked for and written anew: see kist pool show"
        ));
    }
    if !new.is_empty() {
        let (count, named) = (new.len(), named(&new));
        let verb = if count == 1 { "is" } else { "are" };
        warnings.push(format!(
            "{count} of {of} drives of the pool {verb} new and not filled yet: {named}: the shards that \
             should be there are being written: kist scrub shows how far that is"
        ));
    }
    let fill = base::percent(pool.used, pool.capacity).unwrap_or(0);
    if is_full || fill >= FILL_WARNED {
        warnings.push(format!("the drives of the pool are {fill}% full: {advice}"));
    }
    warnings
}

/// Drives and tapes that get worse, before they fail.
fn of_health(health: &HealthReport) -> Vec<String> {
    let bad = |judgement: &Judgement| judgement.verdict == Verdict::Bad;
    let drives = health.drives.iter().filter(|(_, judgement)| bad(judgement));
    let drives =
        drives.map(|(name, judgement)| (format!("tape drive {name}"), judgement, "have it serviced"));
    let tapes = health.tapes.iter().filter(|(_, judgement)| bad(judgement));
    let tapes = tapes.map(|(vid, judgement)| (format!("tape {vid}"), judgement, "repack it"));
    let all: Vec<_> = drives.chain(tapes).collect();
    let told = all.iter().take(NAMED_MAX).map(|(name, Judgement { reason, .. }, advice)| {
        let reason = truncated(&reason.to_string(), REASON_MAX);
        format!("{name} is bad ({reason}): {advice}; see kist tape health")
    });
    let left = all.len().saturating_sub(NAMED_MAX);
    let others = (left > 0).then(|| format!("{left} more drives and tapes are bad: see kist tape health"));
    told.chain(others).collect()
}

/// Drives that somebody else is to clean.
fn of_cleaning(health: &HealthReport) -> Vec<String> {
    let cleaning = health.cleaning.iter().map(|(name, alert)| {
        format!("tape drive {name} has asked for cleaning in its last mount ({alert}): clean it")
    });
    cleaning.collect()
}

/// What stands in a library like a cartridge and cannot be asked for, and what to do.
pub fn of_what_has_no_vid(library: &dyn Library) -> Option<String> {
    let found = library.without_vid();
    let what = match found.len() {
        0 => return None,
        1 => "has no VID of its own and is",
        _ => "have no VIDs of their own and are",
    };
    Some(format!(
        "{} {what} left alone: a VID is six characters like KS0001, and none is there twice; give it another \
         name or label, or take it out of the library",
        named(&found)
    ))
}

/// Libraries and drives that are not reached.
fn of_what_is_out_of_reach(library: &dyn Library) -> impl Iterator<Item = String> {
    let told = |text: String| {
        let text = truncated(&text, REASON_MAX);
        format!("{text}: it is tried again; kist library scan, with its portal if it has one, looks for it")
    };
    library.out_of_reach().into_iter().map(told)
}

/// What changers have raised of themselves in the last day.
fn of_changers<'a>(library: &dyn Library, name: impl Fn(u16) -> &'a str) -> Vec<String> {
    let all = library.conditions().into_iter();
    all.flat_map(|condition| {
        let name = name(condition.library);
        let own: Vec<String> =
            condition.alerts.iter().map(|alert| format!("tape library {name} has raised {alert}")).collect();
        own
    })
    .collect()
}

/// `unreached`: the libraries of which nobody knows what they hold.
fn of_tapes(
    tapes: &[(Vid, TapeRecord)],
    goes_to_tape: bool,
    unreached: &[String],
    is_away: impl Fn(Vid) -> bool,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let is_missed = |tape: &TapeRecord| !tape.may_be_away();
    let away: Vec<String> = tapes
        .iter()
        .filter(|(vid, tape)| is_missed(tape) && is_away(*vid))
        .map(|(vid, _)| vid.to_string())
        .collect();
    if let Some(first) = away.first() {
        let what = if away.len() == 1 { "tape" } else { "tapes" };
        let (count, names) = (away.len(), named(&away));
        // Nobody is to be sent for tapes that stand in a library whose cable is out.
        warnings.push(match unreached {
            [] => format!(
                "no library holds {count} {what}: {names}: put them in, or say of what is to stay away: kist \
                 tape set {first} off-site --where PLACE"
            ),
            unreached => format!(
                "no library that is reached holds {count} {what}: {names}: what stands in {} is not known: \
                 {}",
                named(unreached),
                scheduler::REACH_IT
            ),
        });
    }
    let suspect: Vec<String> = tapes
        .iter()
        .filter(|(_, tape)| tape.state == TapeState::Suspect)
        .map(|(vid, _)| vid.to_string())
        .collect();
    if let Some(first) = suspect.first() {
        let what = if suspect.len() == 1 { "tape is" } else { "tapes are" };
        warnings.push(format!(
            "{} {what} suspect: {}: kist tape show {first} tells why",
            suspect.len(),
            named(&suspect)
        ));
    }
    let unknown: Vec<String> =
        tapes.iter().filter(|(_, tape)| is_unidentified(tape)).map(|(vid, _)| vid.to_string()).collect();
    if let Some(first) = unknown.first() {
        let what = if unknown.len() == 1 { "cartridge" } else { "cartridges" };
        warnings.push(format!(
            "the library cannot identify {} {what}: {}: nothing is written there; kist why {first} tells \
             what to do",
            unknown.len(),
            named(&unknown)
        ));
    }
    let is_blank = |tape: &TapeRecord| tape.state == TapeState::Scratch && !is_unidentified(tape);
    if goes_to_tape && !tapes.iter().any(|(_, tape)| is_blank(tape)) {
        warnings.push("there is no scratch tape: add cartridges, or reclaim empty tapes".to_owned());
    }
    warnings
}

fn named(names: &[String]) -> String {
    let mut text = names.iter().take(NAMED_MAX).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED_MAX {
        text += &format!(" and {} more", names.len() - NAMED_MAX);
    }
    text
}

#[cfg(test)]
mod tests {
    use base::{ByteCount, DriveId};
    use catalogue::Tally;

    use super::*;

    fn pool(healths: &[DriveHealth], used: u64) -> PoolStatus {
        let drive = |(id, health): (usize, &DriveHealth)| DriveReport {
            group: base::DriveGroup::MAIN,
            drains: false,
            id: DriveId(id as u16),
            name: String::new(),
            health: health.clone(),
            gaps_after: None,
            burn_in: None,
            queue: None,
            filling: false,
            capacity: ByteCount(100),
            used: ByteCount(used),
            free: ByteCount(100 - used),
            bytes_read: ByteCount(0),
            bytes_written: ByteCount(0),
            syncs: 0,
            errors: 0,
            damaged: 0,
            reconstructions: 0,
            late: 0,
            recoveries: 0,
            slow: None,
            silence: Duration::ZERO,
        };
        let count = healths.len() as u64;
        PoolStatus {
            drives: healths.iter().enumerate().map(drive).collect(),
            capacity: ByteCount(100 * count),
            used: ByteCount(used * count),
            free: ByteCount((100 - used) * count),
            bytes_read: ByteCount(0),
            bytes_written: ByteCount(0),
            syncs: 0,
            errors: 0,
            damaged: 0,
            reconstructions: 0,
        }
    }

    /// A newcomer found `"warnings": []` with drives missing.
    #[test]
    fn drives_that_do_not_answer_or_are_full_are_warned_of() {
        let evictable = Tally { files: 18_000, bytes: ByteCount(23_000_000_000) };
        let (none, some) = (PoolHolders::default(), PoolHolders { evictable, ..PoolHolders::default() });
        let of_pool =
            |pool: &PoolStatus, holders: PoolHolders| of_pool(pool, 1, false, &holders.advice(None));
        assert_eq!(of_pool(&pool(&[DriveHealth::Up, DriveHealth::Up], 89), none), [""; 0]);
        let away = DriveHealth::Away { reason: "gone".to_owned() };
        let told = of_pool(&pool(&[DriveHealth::Missing, DriveHealth::Up, away], 90), some);
        assert_eq!(told.len(), 2, "{told:?}");
        let silent = "2 of 3 drives of the pool do not answer: 0 (missing), 2 (away); that is more than";
        assert!(told[0].starts_with(silent), "{told:?}");
        let fill = "the drives of the pool are 90% full: up to 18,000 files (23.0 GB) can be evicted now";
        assert!(told[1].starts_with(fill), "{told:?}");
        let told = of_pool(&pool(&[DriveHealth::Lost, DriveHealth::Full], 1), none);
        assert!(told[0].starts_with("1 of 2 drives of the pool does not answer: 0 (lost): see"), "{told:?}");
        assert!(told[1].starts_with("1 of 2 drives of the pool takes no new data: 1 (full)"), "{told:?}");
        let reason = String::new();
        let mut status = pool(&[DriveHealth::Up, DriveHealth::Wiped { reason }], 1);
        status.drives.iter_mut().for_each(|drive| drive.gaps_after = Some(7));
        let told = of_pool(&status, none);
        assert!(told[0].contains("does not answer: 1 (wiped)"), "{told:?}");
        assert!(told[1].starts_with("1 of 2 drives of the pool may lack") && told[1].contains(": 0: what"));
        status.drives.iter_mut().for_each(|drive| drive.filling = true);
        let told = of_pool(&status, none);
        assert!(told[1].contains("new and not filled yet: 0: the shards") && told.len() == 2, "{told:?}");
        let mut status = pool(&[DriveHealth::Up, DriveHealth::Up], 1);
        status.drives[1].slow = Some(14);
        let told = of_pool(&status, none);
        assert!(told[0].starts_with("1 of 2 drives of the pool is much slower"), "{told:?}");
        assert!(told[0].contains(": 1 (14 times as long): see") && told.len() == 1, "{told:?}");
    }

    #[test]
    fn suspect_tapes_and_a_lack_of_scratch_tapes_are_warned_of() {
        let tape = |n: usize, state| {
            let record = TapeRecord { state, ..TapeRecord::scratch(ByteCount(1)) };
            (Vid::new(&format!("KS{n:04}")).unwrap(), record)
        };
        let none = |_| false;
        assert_eq!(
            of_tapes(&[tape(1, TapeState::Scratch), tape(2, TapeState::Full)], true, &[], none),
            [""; 0]
        );
        let states = [TapeState::Full, TapeState::Disabled, TapeState::Active, TapeState::Scratch];
        let tapes: Vec<_> = (1..).zip(states).map(|(n, state)| tape(n, state)).collect();
        let far = ["library far".to_owned()];
        let unknown = of_tapes(&tapes, true, &far, |_| true);
        assert!(unknown[0].contains("what stands in library far is not known"), "{unknown:?}");
        assert!(unknown[0].contains("kist library scan") && !unknown[0].contains("off-site"), "{unknown:?}");
        let told = of_tapes(&tapes, true, &[], |_| true);
        assert!(
            told.len() == 1 && told[0].starts_with("no library holds 2 tapes: KS0001, KS0003"),
            "{told:?}"
        );
        assert_eq!(of_tapes(&[], false, &[], none), [""; 0]);
        let told = of_tapes(&[tape(1, TapeState::Full)], true, &[], none);
        assert!(told.len() == 1 && told[0].contains("no scratch tape"), "{told:?}");
        let suspects: Vec<_> = (1..=7).map(|n| tape(n, TapeState::Suspect)).collect();
        let told = of_tapes(&suspects, false, &[], none);
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("7 tapes are suspect: KS0001, KS0002"), "{told:?}");
        assert!(told[0].contains("KS0005 and 2 more: kist tape show KS0001"), "{told:?}");
    }
}
