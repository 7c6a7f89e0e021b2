//! Why something waits, in types and in plain words.

use std::fmt;

use base::{ByteCount, ContainerId, Count, Duration, RequestId, ShareId, Timestamp, Vid};

use crate::{CleaningBar, DriveName};

/// What an operator does about a library that is not reached.
pub const REACH_IT: &str = "it was not reached since the start and is tried again; see whether it is on, \
                            and what kist library scan, with its portal if it has one, finds";

/// Why something is not done yet, or that it is being done. Displayed as one sentence for operators.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields say no more than their names and the variant's sentence")]
pub enum Reason {
    /// Nothing waits.
    NothingWaits,
    /// The policy does not name the class or tape pool.
    NoPolicy,
    /// Not enough is gathered and it has not waited long enough.
    WaitingForBytes { have: ByteCount, need: ByteCount, due: Option<Timestamp> },
    /// The files are being gathered into containers.
    Sealing,
    /// The tape is on its way into the drive.
    Mounting { drive: DriveName, vid: Vid },
    /// The tape is being written.
    Writing { drive: DriveName, vid: Vid },
    /// The tape is being read; `position` older files are read in the same session.
    Reading { drive: DriveName, vid: Vid, position: usize },
    /// The tape is on its way to its slot.
    Unmounting { drive: DriveName, vid: Vid },
    /// The drive is being cleaned with this cartridge.
    Cleaning { drive: DriveName, vid: Vid },
    /// The drive is to be cleaned, and something keeps it from that; `rests_until`: it gets no tape before.
    ToBeCleaned { drive: DriveName, bar: CleaningBar, rests_until: Option<Timestamp> },
    /// The tape is in a drive that does something else with it.
    TapeInUse { drive: DriveName, vid: Vid, doing: String },
    /// No begun tape of the pool can be written and no scratch tape is there.
    NoScratchTape,
    /// The same, and these tapes hold nothing: they are scratch once they are reclaimed.
    OnlyEmptyTapes { tapes: Vec<Vid> },
    /// The same, and some tapes are not at hand: what stands in these libraries is not known, tapes of the
    /// pool with room are away, or it is not known what some can hold.
    NoTapeAtHand { unreached: Vec<String>, away: Vec<Vid>, unidentified: Vec<Vid> },
    /// The library whose tapes the pool has has no drive that is up.
    PoolsLibraryDown { library: String },
    /// There is no tape drive.
    NoDriveKnown,
    /// Every tape drive is down.
    AllDrivesDown { down: Vec<(DriveName, String)> },
    /// Every drive that could be used does something else.
    NoDrive { busy: Vec<(DriveName, String)> },
    /// As many drives as the tape pool may have write to it already.
    DrivesMax { limit: usize },
    /// The only tape with a copy must not be read.
    TapeNotReadable { vid: Vid, reason: String },
    /// No tape with a copy may be read.
    NoReadableCopy { tapes: Vec<(Vid, String)> },
    /// It failed and is left alone for a while.
    Resting { until: Timestamp, cause: String },
    /// Writing failed for this host, whatever the tape and the drive: it rests as a whole.
    HostCannotWrite { until: Timestamp, cause: String },
    /// The pool has no room for more than what is being recalled already.
    WaitingForSpace { free: ByteCount, coming: ByteCount, of: ShortRoom },
    /// The same, while files that are on tape leave the pool.
    RoomIsBeingMade { free: ByteCount },
    /// It stands on the tape under no index yet, and something waits for the room that it holds in the pool.
    WaitingForIndex { vid: Vid, every: Duration },
    /// What a request has brought back is pinned by it and holds the room that the rest of it needs: `left`
    /// bytes are still to come, and no evict of others makes room for them.
    OwnPinsHoldPool { request: RequestId, pinned: ByteCount, left: ByteCount, free: ByteCount },
    /// The pool had no room for a container that a repack or a repair reads from tape; `need`: the smallest
    /// one that found none. It is tried again when there seems to be room, else then. `goes_on`: what they
    /// have read already holds room, and makes it when it is written.
    NoRoomForReads { need: ByteCount, free: ByteCount, until: Timestamp, goes_on: bool },
    /// No tape can give the file alone: its container is put together from what its copies still have, and
    /// `cause` is what that waits for.
    BeingMended { container: ContainerId, cause: Box<Reason> },
    /// The tape is set aside, and what was to be done with it waits for an operator's word.
    TapeSetAside { vid: Vid, reason: String },
    /// The pool feeds as many tape streams as it can.
    WaitingForStream { limit: usize },
    /// The library's robots move as many tapes as they can.
    WaitingForRobot { limit: usize },
    /// As many drives as the share may have work for it already.
    ShareDrivesMax { share: ShareId, name: String, limit: usize },
    /// As many drives as may read, or may write, do.
    SideDrivesMax { reading: bool, limit: usize },
    /// The pool has as many begun tapes as it may have, and none of them can be used now.
    OpenTapesMax { limit: usize },
    /// The tape was just unmounted and too little waits for it.
    JustUnmounted { vid: Vid, until: Timestamp },
    /// The tape's library has no drive that is up.
    NoDriveInLibrary { vid: Vid },
    /// The files that are wanted from the tape stand on others too, and these give them.
    ReadElsewhere { vid: Vid, tapes: Vec<Vid> },
    /// The scheduler has not heard of the files that are wanted from the tape yet, or they have just come.
    NotHeardYet { vid: Vid },
    /// No library holds the tape; `away`: how and where it is by an operator's word; `unreached`: libraries
    /// of which nobody knows what they hold.
    TapeAway { vid: Vid, away: Option<String>, unreached: Vec<String> },
    /// A key cannot be had: that of the tape, or, without one, that of new tapes of the pool. `others`: tapes
    /// that have the same, and what each of them waits for.
    KeyMissing { vid: Option<Vid>, key: String, why: String, others: Vec<(Vid, String)> },
    /// The tape is in its slot and nothing waits for it.
    InSlot,
    /// The tape is being checked or copied, for which nobody waits.
    Checking { drive: DriveName, vid: Vid },
    /// Nothing is to be done with the mounted tape; it stays a while in case something comes.
    KeptMounted { drive: DriveName, vid: Vid, until: Timestamp },
    /// The drive is out of use; `retry`: Kist tries it again then.
    DriveDown { drive: DriveName, reason: String, retry: Option<Timestamp> },
    /// No tape of the pool takes so much, even when it is empty.
    LargerThanTapes { length: ByteCount, largest: ByteCount },
    /// The pool has no room even for the headers of packs, without which small files do not go to tape.
    PoolFull,
    /// Fewer drives of the pool take new data than a seal needs; `drives`: those that take none, and how they
    /// stand.
    TooFewPoolDrives { needed: usize, takes: usize, drives: Vec<(String, String)> },
    /// The file has no copy that can be read: nothing can be written to tape or recalled.
    Lost,
    /// The catalogue has no room for containers, but for a last part that is kept for what makes room.
    CatalogueFull,
    /// An operator takes the drive out of use; it ends what it does.
    DriveRetiring { drive: DriveName, reason: String },
    /// The catalogue was restored: drives look at the tapes that may be written before they do anything else.
    DrivesLook { done: u64, tapes: u64 },
    /// This drive does; `vid`: what it looks at now.
    DriveLooks { drive: DriveName, vid: Option<Vid> },
}

/// Whose room is short.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ShortRoom {
    /// The pool's.
    Pool,
    /// That of the share of this name, by its `pool_max`, or for a file that is larger than what is free.
    Share(String),
    /// The share of this name has no limit of its own: a file of it is larger than what is free.
    LargeFile(String),
}

fn listed(tapes: &[Vid]) -> String {
    tapes.iter().map(Vid::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NothingWaits => write!(f, "nothing waits"),
            Reason::NoPolicy => write!(f, "no policy names it; add it to the configuration"),
            Reason::WaitingForBytes { have, need, due: Some(due) } => {
                write!(f, "waits for more: {have} of {need} are there; it begins at {due} at the latest")
            }
            Reason::WaitingForBytes { have, need, due: None } => {
                write!(f, "waits for more: {have} of {need} are there")
            }
            Reason::Sealing => write!(f, "is being gathered into containers"),
            Reason::Mounting { drive, vid } => write!(f, "tape {vid} is being mounted in drive {drive}"),
            Reason::Writing { drive, vid } => write!(f, "tape {vid} is being written in drive {drive}"),
            Reason::Reading { drive, vid, position } => {
                write!(
                    f,
                    "tape {vid} is being read in drive {drive}, {} older files in the same session",
                    Count(*position as u64)
                )
            }
            Reason::Unmounting { drive, vid } => {
                write!(f, "tape {vid} is being unmounted from drive {drive}")
            }
            Reason::TapeInUse { drive, vid, doing } => {
                write!(f, "waits for tape {vid}, which is in drive {drive}: {doing}")
            }
            Reason::PoolsLibraryDown { library } => {
                write!(f, "no tape drive of library {library} is up: kist drive ls tells why")
            }
            Reason::NoScratchTape => {
                write!(
                    f,
                    "no tape of the pool can be written and there is no scratch tape; add scratch tapes"
                )
            }
            Reason::NoTapeAtHand { unreached, .. } if !unreached.is_empty() => write!(
                f,
                "no library that is reached has a tape that can be written, and what stands in {} is not \
                 known: {REACH_IT}",
                unreached.join(", ")
            ),
            Reason::NoTapeAtHand { away, unidentified, .. } => {
                write!(f, "no tape of the pool can be written and there is no scratch tape")?;
                if !away.is_empty() {
                    let tapes = listed(away);
                    write!(
                        f,
                        "; {tapes} with room for more are away: kist tape import-slot brings one back"
                    )?;
                }
                if !unidentified.is_empty() {
                    let tapes = listed(unidentified);
                    write!(f, "; what {tapes} can hold is not known: kist tape show VID tells why")?;
                }
                write!(f, "; or add scratch tapes")
            }
            Reason::OnlyEmptyTapes { tapes } => {
                let first = tapes.first().map_or_else(|| "VID".to_owned(), Vid::to_string);
                write!(
                    f,
                    "no tape of the pool can be written and there is no scratch tape, but empty ones ({}): \
                     kist tape reclaim {first} makes the first scratch",
                    listed(tapes)
                )
            }
            Reason::LargerThanTapes { length, largest } => {
                write!(
                    f,
                    "it has {length}, more than the largest tape of the pool that may be written takes when \
                     it is empty ({largest}): add larger cartridges, or remove the file"
                )
            }
            Reason::PoolFull => write!(
                f,
                "the pool is full, also for the headers of packs: evict or remove files, or free its disks \
                 of other files"
            ),
            Reason::TooFewPoolDrives { needed, takes, drives } => {
                write!(
                    f,
                    "{takes} drives of the pool take new data and {needed} are needed: bring back, replace \
                     or make room on those that take none (kist pool show)"
                )?;
                list(f, drives)
            }
            Reason::Lost => write!(
                f,
                "it is LOST: no copy of it can be read, so nothing is written to tape or recalled; if drives \
                 of the pool that held it can be had again, put them in (kist pool drive replace), then kist \
                 scrub --now; else put the file anew, or remove it"
            ),
            Reason::CatalogueFull => {
                write!(f, "the catalogue is full: what is sealed finds no room in it; kist status says more")
            }
            Reason::NoDriveKnown => write!(f, "there is no tape drive"),
            Reason::DrivesLook { done, tapes } => write!(
                f,
                "the catalogue was restored: the drives first look at the tapes that may be written, {} of \
                 {} so far; nothing is written to tape or recalled before (kist status)",
                Count(*done),
                Count(*tapes)
            ),
            Reason::DriveLooks { drive, vid: Some(vid) } => {
                write!(f, "drive {drive} looks at tape {vid}: the catalogue was restored (kist status)")
            }
            Reason::DriveLooks { drive, vid: None } => write!(
                f,
                "drive {drive} waits until the others have looked at their tapes: the catalogue was restored \
                 (kist status)"
            ),
            Reason::AllDrivesDown { down } => {
                write!(f, "every tape drive is down")?;
                list(f, down)?;
                write!(f, "; kist drive up NAME takes one into use again, when it is well")
            }
            Reason::NoDrive { busy } => {
                write!(f, "waits for a drive")?;
                list(f, busy)
            }
            Reason::DrivesMax { limit } => {
                write!(f, "the tape pool may be written by at most {limit} drives at once, and is")
            }
            Reason::TapeNotReadable { vid, reason } => {
                write!(f, "the only copy is on tape {vid}, which cannot be read: {reason}")
            }
            Reason::NoReadableCopy { tapes } => {
                write!(f, "no copy can be read")?;
                list(f, tapes)
            }
            Reason::BeingMended { container, cause } => write!(
                f,
                "all its copies are damaged, and container {container} is put together from what they still \
                 have: {cause}"
            ),
            Reason::TapeSetAside { vid, reason } => {
                write!(f, "tape {vid} is set aside ({reason}): kist tape set {vid} active, if it is well")
            }
            Reason::Resting { until, cause } => write!(f, "failed ({cause}) and is tried again at {until}"),
            Reason::HostCannotWrite { until, cause } => {
                write!(f, "this host cannot write to tapes: {cause}; tried again at {until}")
            }
            Reason::ReadElsewhere { vid, tapes } => {
                let named: Vec<String> = tapes.iter().map(Vid::to_string).collect();
                let noun = if tapes.len() == 1 { "tape" } else { "tapes" };
                write!(f, "its files are read from {noun} {}, not from {vid}", named.join(", "))
            }
            Reason::NotHeardYet { .. } => {
                write!(f, "its files have just come, or the scheduler is about to hear of them")
            }
            Reason::TapeAway { vid, away: Some(away), .. } => {
                write!(f, "tape {vid} is {away}: bring it back, and say kist tape import-slot")
            }
            Reason::TapeAway { vid, away: None, unreached } if !unreached.is_empty() => write!(
                f,
                "no library that is reached holds tape {vid}, and what stands in {} is not known: {REACH_IT}",
                unreached.join(", ")
            ),
            Reason::TapeAway { vid, away: None, .. } => write!(
                f,
                "no library holds tape {vid}: put it in, or say kist tape set {vid} off-site --where PLACE \
                 if it is to stay away"
            ),
            Reason::KeyMissing { vid: Some(vid), why, others, .. } => {
                write!(f, "tape {vid} waits for its key: {why}; ")?;
                for (other, why) in others {
                    write!(f, "tape {other}, which has the same, for its own: {why}; ")?;
                }
                let which = if others.is_empty() { "the key" } else { "one of the keys" };
                write!(f, "it goes on by itself when {which} is there")
            }
            Reason::KeyMissing { vid: None, why, .. } => {
                write!(f, "nothing is written: {why}; it goes on by itself when the key is there")
            }
            Reason::InSlot => write!(f, "in its slot; nothing waits for it"),
            Reason::Checking { drive, vid } => write!(f, "tape {vid} is being checked in drive {drive}"),
            Reason::KeptMounted { drive, vid, until } => {
                write!(f, "nothing waits for tape {vid}; it stays in drive {drive} until {until}")
            }
            // The text of a drive that Kist tries again by itself says when.
            Reason::DriveDown { drive, reason, retry: Some(_) } => {
                write!(f, "drive {drive} is down: {reason}")
            }
            Reason::DriveDown { drive, reason, retry: None } => write!(
                f,
                "drive {drive} is down: {reason}; kist drive up {drive} takes it into use again, when it is \
                 well"
            ),
            Reason::DriveRetiring { drive, reason } => {
                write!(f, "drive {drive} is being taken out of use and ends what it does: {reason}")
            }
            Reason::Cleaning { drive, vid } => {
                write!(f, "drive {drive} is being cleaned with cleaning cartridge {vid}")
            }
            Reason::ToBeCleaned { drive, bar, rests_until } => fmt_to_be_cleaned(f, drive, bar, *rests_until),
            limit => limit.fmt_limit(f),
        }
    }
}

impl Reason {
    /// Reasons that are limits of the policy or of the machine.
    fn fmt_limit(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::WaitingForSpace { free, coming, of } => {
                write!(f, "waits for room in the pool")?;
                match of {
                    ShortRoom::Pool => {}
                    ShortRoom::Share(of) => {
                        write!(f, " {of} (its pool_max, or a file larger than what is free)")?;
                    }
                    // What is free is not what it lacks: the figures are of the share, and say nothing.
                    ShortRoom::LargeFile(of) => {
                        return write!(
                            f,
                            ": a file {of} is larger than what is free; evict files, or release them first"
                        );
                    }
                }
                write!(
                    f,
                    ": {free} are free for recalls and {coming} are on their way to it; evict files, or \
                     release them first"
                )
            }
            Reason::RoomIsBeingMade { free } => write!(
                f,
                "waits for room in the pool, which is being made: files that are on tape leave it; {free} \
                 are free for recalls"
            ),
            Reason::WaitingForIndex { vid, every } => write!(
                f,
                "it is on tape {vid} and leaves the pool when the tape's next index names it: something \
                 waits for that room, so the index is written as soon as the drive is free for it, at most \
                 every {} s",
                every.as_secs()
            ),
            Reason::NoRoomForReads { need, free, until, goes_on } => {
                let helps = match goes_on {
                    true => "what they have read makes room when it is written",
                    false => "evict or remove files",
                };
                write!(
                    f,
                    "waits for room in the pool, where what repacks and repairs read from tape stands until \
                     it is written: a container of {need} found none, and {free} are free for files; \
                     {helps}; tried again then, or at {until}"
                )
            }
            Reason::OwnPinsHoldPool { request, pinned, left, free } => {
                write!(
                    f,
                    "request {request} itself holds the pool: it has {pinned} pinned there, {left} are still \
                     to come and {free} are free; release what is done with (kist release {request} PATH, \
                     then kist evict PATH), or stage in smaller parts"
                )
            }
            Reason::WaitingForStream { limit } => {
                write!(
                    f,
                    "waits for the end of another session: the pool feeds {limit} at a time at the drives' \
                     rate (tape.streams_max, or what was measured)"
                )
            }
            Reason::WaitingForRobot { limit } => {
                write!(f, "waits for a robot: {limit} tapes may be moved at once, and are")
            }
            Reason::ShareDrivesMax { share, name, limit } if name.is_empty() => {
                write!(f, "share {share} may have {limit} drives at once, and has")
            }
            Reason::ShareDrivesMax { name, limit, .. } => {
                write!(f, "share {name} may have {limit} drives at once, and has")
            }
            Reason::SideDrivesMax { reading, limit } => {
                let what = if *reading { "read" } else { "write" };
                write!(f, "{limit} drives may {what} at once, and do")
            }
            Reason::OpenTapesMax { limit } => {
                write!(f, "the tape pool may have {limit} begun tapes, and none of those can be used now")
            }
            Reason::JustUnmounted { vid, until } => {
                write!(f, "tape {vid} was just unmounted and is mounted again at {until}")
            }
            Reason::NoDriveInLibrary { vid } => {
                write!(f, "the library of tape {vid} has no drive that is up")
            }
            other => unreachable!("{other:?} is no limit"),
        }
    }
}

fn fmt_to_be_cleaned(
    f: &mut fmt::Formatter<'_>,
    drive: &DriveName,
    bar: &CleaningBar,
    rests_until: Option<Timestamp>,
) -> fmt::Result {
    write!(f, "drive {drive} asks to be cleaned")?;
    match bar {
        CleaningBar::NoCartridge => write!(
            f,
            ", and its library has no cleaning cartridge that can be used: put one in (kist library \
             inventory shows those that are there)"
        ),
        CleaningBar::Lately { cleaned } => write!(
            f,
            " again, and was cleaned at {cleaned}: look at the drive; kist drive clean {drive} cleans it all \
             the same"
        ),
        CleaningBar::Failed { until, cause } => {
            write!(f, "; cleaning it failed ({cause}) and is tried again at {until}")
        }
        CleaningBar::InUse => write!(f, " and waits for a cleaning cartridge that cleans another drive"),
    }?;
    match rests_until {
        Some(until) => write!(f, "; it gets no tape until {until}, or kist drive up {drive}"),
        None => Ok(()),
    }
}

/// `: A (why), B (why)`.
fn list(f: &mut fmt::Formatter<'_>, items: &[(impl fmt::Display, String)]) -> fmt::Result {
    for (at, (name, why)) in items.iter().enumerate() {
        write!(f, "{}{name} ({why})", if at == 0 { ": " } else { ", " })?;
    }
    Ok(())
}
