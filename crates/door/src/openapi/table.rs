//! All addresses of `/api/v1`.

use super::endpoint::{Endpoint, Kind, Query, Shape};
use wire::{AcceptClockBody, BackupReply, ClockReply, QuarantineReply, SnapshotReply};

const fn text(name: &'static str, meaning: &'static str) -> Query {
    Query { name, kind: Kind::Text, needed: false, meaning }
}

const fn needed(name: &'static str, meaning: &'static str) -> Query {
    Query { name, kind: Kind::Text, needed: true, meaning }
}

const fn number(name: &'static str, meaning: &'static str) -> Query {
    Query { name, kind: Kind::Number, needed: false, meaning }
}

const LIMIT: Query = number("limit", "most lines of this page");

/// All of them.
pub(super) fn endpoints() -> Vec<Endpoint> {
    [names(), access(), requests(), tapes(), pool(), state()].concat()
}

fn names() -> Vec<Endpoint> {
    const PATH: &[Query] = &[needed("path", "path in the archive")];
    const LIST: &[Query] = &[needed("path", "a directory"), text("after", "begin behind this name"), LIMIT];
    const VERIFY: &[Query] =
        &[needed("path", "a file"), number("offset", "from this byte on"), number("length", "so many bytes")];
    const WHY: &[Query] = &[
        text("path", "a file or directory"),
        number("request", "a request"),
        text("name", "a tape (VID), a tape pool, a class or a tape drive"),
    ];
    vec![
        Endpoint::get("/stat", "All about a file or directory", Shape::of::<wire::StatReply>()).query(PATH),
        Endpoint::get("/list", "A page of a directory", Shape::of::<wire::ListReply>()).query(LIST),
        Endpoint::post("/mkdir", "Makes a directory", 201).with(Shape::of::<wire::MakeDirectoryBody>()),
        Endpoint::post("/rename", "Gives a file or directory another path", 204)
            .with(Shape::of::<wire::RenameBody>()),
        Endpoint::get("/removals", "Directories that were removed", Shape::list::<wire::RemovalReply>()),
        Endpoint::post("/removals", "Removes a directory at once with all that is in it", 202)
            .with(Shape::of::<wire::RemovalBody>())
            .replies(Shape::of::<wire::RemovalReply>()),
        Endpoint::get("/removals/{id}", "How far a removal is", Shape::of::<wire::RemovalReply>()),
        Endpoint::post("/evict", "Removes pool copies of files that are on tape", 200)
            .with(Shape::of::<wire::SelectionBody>())
            .replies(Shape::of::<wire::EvictReply>()),
        Endpoint::get("/verify", "Reads bytes of a file and checks them", Shape::of::<wire::VerifyReply>())
            .query(VERIFY),
        Endpoint::post("/verify/catalogue", "Checks the catalogue", 200)
            .replies(Shape::of::<wire::VerifyCatalogueReply>()),
        Endpoint::get("/why", "Why something waits", Shape::of::<wire::WhyReply>()).query(WHY),
    ]
}

fn access() -> Vec<Endpoint> {
    const PATH: &[Query] = &[needed("path", "a directory")];
    vec![
        Endpoint::post("/owner", "Gives a file or directory another owner or group", 204)
            .with(Shape::of::<wire::OwnerBody>()),
        Endpoint::get("/acl", "Who may do what in a directory and below", Shape::of::<wire::AclReply>())
            .query(PATH),
        Endpoint::post("/acl", "Says who may do what", 204).with(Shape::of::<wire::AclBody>()),
        Endpoint::get("/quotas", "All quotas and what is used of them", Shape::list::<wire::QuotaReply>()),
        Endpoint::post("/quotas", "Sets a quota", 204).with(Shape::of::<wire::QuotaBody>()),
        Endpoint::post("/quotas/remove", "Ends a quota", 204).with(Shape::of::<wire::QuotaBody>()),
        Endpoint::get("/locks", "Locks that clients of WebDAV hold", Shape::list::<wire::LockReply>()),
        Endpoint::post("/locks/remove", "Ends all locks that were taken on a path", 204)
            .with(Shape::of::<wire::LockBody>()),
        Endpoint::get("/keys", "The keys that were given out", Shape::list::<wire::KeyReply>()),
        Endpoint::post("/keys", "Makes a key; its secret is told only now", 201)
            .with(Shape::of::<wire::KeyBody>())
            .replies(Shape::of::<wire::NewKeyReply>()),
        Endpoint::post("/keys/{id}/disable", "Has a key open nothing for a while", 204),
        Endpoint::post("/keys/{id}/enable", "Has it open again", 204),
        Endpoint::post("/keys/{id}/remove", "Removes a key", 204),
        Endpoint::post("/macaroons/revoke", "Ends all macaroons that were given out", 204),
    ]
}

fn requests() -> Vec<Endpoint> {
    const REQUESTS: &[Query] = &[number("before", "begin with older ones than this request"), LIMIT];
    const FILES: &[Query] = &[number("from", "begin with this item"), LIMIT];
    let request = "All about a request and what is to come of it";
    let work = "How far a stage, cancel, release or evict is that was answered with 202";
    vec![
        Endpoint::get("/works", "Those calls, the newest first", Shape::list::<wire::WorkReply>()),
        Endpoint::get("/works/{id}", work, Shape::of::<wire::WorkReply>()),
        Endpoint::get("/requests", "Requests, newest first", Shape::list::<wire::RequestReply>())
            .query(REQUESTS),
        Endpoint::post("/requests", "Has files brought back from tape", 201)
            .with(Shape::of::<wire::SelectionBody>())
            .replies(Shape::of::<wire::CreatedReply>()),
        Endpoint::get("/requests/{id}", request, Shape::of::<wire::RequestReply>()),
        Endpoint::get("/requests/{id}/files", "Files of a request", Shape::of::<wire::RequestFilesReply>())
            .query(FILES),
        Endpoint::post("/requests/{id}/cancel", "Cancels what waits and gives back the pins", 204),
        Endpoint::post("/requests/{id}/priority", "Makes a request more or less urgent", 204)
            .with(Shape::of::<wire::PriorityBody>()),
        Endpoint::post("/requests/{id}/release", "Gives back pins", 204)
            .with(Shape::of::<wire::ReleaseBody>()),
    ]
}

fn tapes() -> Vec<Endpoint> {
    const CONTENT: &[Query] = &[number("from", "begin with this block"), LIMIT];
    const REPORT: &[Query] =
        &[number("seconds", "the last so many seconds"), text("by", "what a row is: see kist tape report")];
    let tape = "A tape and the containers on it";
    const HEALTH: &[Query] = &[text("vid", "this tape only")];
    let drive = "A tape drive, how well it is and its last mounts";
    let health = "How well tape drives and tapes are";
    let report = "What tapes and drives did";
    vec![
        Endpoint::get("/tapes", "All tapes", Shape::list::<wire::TapeReply>()),
        Endpoint::get("/tapes/{vid}", tape, Shape::of::<wire::TapeContentReply>()).query(CONTENT),
        Endpoint::post("/tapes/{vid}", "Says what may be done with a tape", 204)
            .with(Shape::of::<wire::TapeBody>()),
        Endpoint::get("/tapes/{vid}/verify", "How far a check is", Shape::of::<wire::TapeCheckReply>()),
        Endpoint::post("/tapes/verify", "Has several tapes read and checked, or none", 202)
            .with(Shape::of::<wire::TapeCheckBody>()),
        Endpoint::post("/tapes/{vid}/verify", "Has a tape read and checked", 202),
        Endpoint::post("/tapes/{vid}/verify/stop", "Calls off the check of a tape", 204),
        Endpoint::get("/tapes/{vid}/repack", "How far a repack is", Shape::of::<wire::TapeRepackReply>()),
        Endpoint::post("/tapes/{vid}/repack", "Copies what a tape holds to other tapes", 202)
            .with(Shape::of::<wire::ReasonBody>()),
        Endpoint::post("/tapes/{vid}/reclaim", "Makes an empty tape scratch", 204),
        Endpoint::post("/tapes/{vid}/export", "Brings a tape to where it is taken out", 200)
            .replies(Shape::of::<wire::TapeExportReply>()),
        Endpoint::post("/tapes/{vid}/add", "Takes a tape into use that was retired", 204),
        Endpoint::post("/tapes/{vid}/retire", "Takes an empty tape out of use for ever", 204)
            .with(Shape::of::<wire::ReasonBody>()),
        Endpoint::post("/library/import", "Brings cartridges in from import/export elements", 200)
            .with(Shape::of::<wire::TapeImportBody>())
            .replies(Shape::list::<wire::TapeImportReply>()),
        Endpoint::post("/library/inventory", "Has libraries say now what they hold", 200)
            .with(Shape::of::<wire::InventoryBody>())
            .replies(Shape::of::<wire::InventoryReply>()),
        Endpoint::get("/drives", "The tape drives", Shape::list::<wire::DriveReply>()),
        Endpoint::get("/drives/{name}", drive, Shape::of::<wire::DriveContentReply>()),
        Endpoint::post("/drives/{name}/up", "Puts a tape drive into use", 204),
        Endpoint::post("/drives/{name}/down", "Takes a tape drive out of use", 204)
            .with(Shape::of::<wire::ReasonBody>()),
        Endpoint::post("/drives/{name}/clean", "Cleans a tape drive as soon as its session has ended", 204)
            .with(Shape::of::<wire::CleanBody>()),
        Endpoint::get("/report/health", health, Shape::of::<wire::HealthReply>()).query(HEALTH),
        Endpoint::get("/report/tape", report, Shape::of::<wire::TapeReportReply>()).query(REPORT),
        Endpoint::post("/migrate", "Writes to tape now", 202).with(Shape::of::<wire::MigrateBody>()),
    ]
}

fn pool() -> Vec<Endpoint> {
    vec![
        Endpoint::get("/pool", "The disk pool and its drives", Shape::of::<wire::PoolReply>()),
        Endpoint::get("/pool/health", "What the pool lacks", Shape::of::<wire::PoolHealthReply>()),
        Endpoint::post("/pool/rebuild", "Rebuilds what missing drives held", 202)
            .with(Shape::of::<wire::RebuildBody>()),
        Endpoint::post("/pool/rebalance", "Moves what is stored until drives are equally full", 202)
            .with(Shape::of::<wire::RebalanceBody>()),
        Endpoint::post("/pool/rebalance/end", "Ends a rebalance: what has moved stays there", 200)
            .replies(Shape::of::<wire::RebalanceEndReply>()),
        Endpoint::post("/pool/recode", "Writes what is stored in another code anew in the pool's", 202)
            .replies(Shape::of::<wire::RecodeBegunReply>()),
        Endpoint::post("/pool/recode/end", "Ends a change of code: what was written anew stays so", 200)
            .replies(Shape::of::<wire::RecodeEndReply>()),
        Endpoint::post("/pool/drives", "Adds a drive to the pool, and names it in kist.toml", 200)
            .with(Shape::of::<wire::AddDriveBody>())
            .replies(Shape::of::<wire::AddDriveReply>()),
        Endpoint::get(
            "/pool/disks",
            "The drives for who watches their disks",
            Shape::of::<wire::DiskWatchReply>(),
        ),
        Endpoint::post("/pool/disks", "Tells on which disks the drives are, and how these are", 200)
            .with(Shape::of::<wire::DisksFoundBody>())
            .replies(Shape::of::<wire::DisksFoundReply>()),
        Endpoint::post("/pool/drives/{id}/light", "Says which light is switched on for a drive", 204)
            .with(Shape::of::<wire::DriveLightBody>()),
        Endpoint::post(
            "/pool/drives/{id}/take-over",
            "Puts the disk in its slot in a lost drive's place",
            200,
        )
        .with(Shape::of::<wire::TakeOverBody>())
        .replies(Shape::of::<wire::ReplaceReply>()),
        Endpoint::post("/pool/drives/{id}/lost", "Says that a drive will not come back", 204)
            .with(Shape::of::<wire::DriveLostBody>()),
        Endpoint::post("/pool/drives/{id}/drain", "Has a drive emptied onto the others", 204),
        Endpoint::post("/pool/drives/{id}/keep", "Ends a drain: the drive is in use again", 204),
        Endpoint::post("/pool/drives/{id}/remove", "Takes a drive out that is empty", 204),
        Endpoint::post("/pool/drives/{id}/replace", "Puts in a drive in the place of another", 200)
            .with(Shape::of::<wire::ReplaceBody>())
            .replies(Shape::of::<wire::ReplaceReply>()),
        Endpoint::get("/pool/quarantine", "What is kept since a restore", Shape::of::<QuarantineReply>()),
        Endpoint::post("/pool/quarantine/end", "Has it removed", 200)
            .replies(Shape::of::<wire::QuarantineEndReply>()),
        Endpoint::get("/scrub", "How the checking of the pool stands", Shape::of::<wire::ScrubReply>()),
        Endpoint::post("/scrub", "Checks all of the pool now", 202),
    ]
}

fn state() -> Vec<Endpoint> {
    const USAGE: &[Query] =
        &[number("seconds", "the last so many seconds"), text("class", "files of this class only")];
    vec![
        Endpoint::get("/classes", "The storage classes", Shape::list::<wire::ClassReply>()),
        Endpoint::get("/queue", "What waits, and why", Shape::list::<wire::QueueReply>()),
        Endpoint::get("/status", "The counters of the archive", Shape::of::<wire::StatusReply>()),
        Endpoint::get("/report/usage", "What users did", Shape::of::<wire::UsageReply>()).query(USAGE),
        Endpoint::get("/backup", "How the backup of the catalogue stands", Shape::of::<BackupReply>()),
        Endpoint::post("/backup/snapshot", "Takes a snapshot of the catalogue", 202)
            .replies(Shape::of::<SnapshotReply>()),
        Endpoint::get("/clock", "The trusted time and the system's clock", Shape::of::<ClockReply>()),
        Endpoint::post("/clock/accept", "Vouches for the system's clock", 200)
            .with(Shape::of::<AcceptClockBody>())
            .replies(Shape::of::<ClockReply>()),
    ]
}
