//! What was wanted before the start.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use base::{ByteCount, ContainerId, FileId, RequestId, ShareId, Timestamp, Vid};
use catalogue::{Command, PRIORITY_USUAL, RecallKey, RequestState, typed};
use scheduler::WantedFile;

use crate::room::Tape;
use ground::ArchiveError;

/// Requests and their files looked at together.
const RESUME_PAGE: usize = 4_096;
/// Rows of the recall sets read in one look at the catalogue.
const LOAD_PAGE: usize = 100_000;

/// A place of a wanted file.
struct Row {
    file: FileId,
    container: ContainerId,
    vid: Vid,
    bytes: ByteCount,
    since: Timestamp,
    share: ShareId,
}

/// Tells the scheduler of everything that the catalogue has as wanted. For the conductor's thread before it
/// hears anything: whatever changes meanwhile is heard after it, and read from the catalogue then.
///
/// Reads the recall sets in the order of their keys, 48 bytes of memory for each row until the end: ten
/// million files with two copies take seconds.
pub(crate) fn load(room: &Tape) -> Result<(), ArchiveError> {
    let mut rows: Vec<Row> = Vec::new();
    let mut after: Option<RecallKey> = None;
    // Rows come container by container, and a container is of one class.
    let mut last = (ContainerId(0), ShareId(0));
    loop {
        let before = rows.len();
        after = room.read(|view| {
            view.recall_rows(after, LOAD_PAGE, |key, item| {
                if item.container != last.0 {
                    let record = view.container(item.container)?;
                    let share = record.map_or(ShareId(0), |record| room.classes.share(record.class));
                    last = (item.container, share);
                }
                let (file, vid, bytes) = (key.file, key.vid, item.length);
                let (container, since, share) = (item.container, item.since, last.1);
                rows.push(Row { file, container, vid, bytes, since, share });
                Ok(())
            })
        })?;
        if rows.len() == before || room.stop.load(Ordering::Relaxed) {
            break;
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    rows.sort_unstable_by_key(|row| (row.file, row.container, row.vid));
    let urgent = urgent(room)?;
    let files = rows.chunk_by(|a, b| a.file == b.file).filter_map(|rows| {
        let row = rows.first()?;
        Some(WantedFile {
            file: row.file,
            bytes: ByteCount(
                rows.chunk_by(|a, b| a.container == b.container)
                    .map(|part| part.first().map_or(0, |row| row.bytes.0))
                    .sum(),
            ),
            since: rows.iter().map(|row| row.since).min().unwrap_or(row.since),
            priority: urgent.get(&row.file).copied().unwrap_or(PRIORITY_USUAL),
            share: row.share,
            copies: rows.iter().map(|row| row.vid).collect::<Vec<Vid>>(),
        })
    });
    let now = room.now();
    room.scheduler().load(now, files);
    Ok(())
}

/// The files that are waited for by requests with a priority of their own, and the highest of them.
fn urgent(room: &Tape) -> Result<BTreeMap<FileId, u8>, ArchiveError> {
    let mut files = BTreeMap::new();
    for (request, priority) in room.read(|view| view.priorities())? {
        for file in waiting_files(room, request)? {
            let highest: &mut u8 = files.entry(file).or_default();
            *highest = priority.max(*highest);
        }
    }
    // Others may want the same with the usual priority; which of them do is not worth looking for.
    files.values_mut().for_each(|priority| *priority = PRIORITY_USUAL.max(*priority));
    Ok(files)
}

/// Brings to an end what the last server had begun with requests. Only requests of before this start: those
/// that come from now on tell of their files themselves.
pub(crate) fn finish_requests(room: &Tape, mut before: RequestId) -> Result<(), ArchiveError> {
    loop {
        let requests = room.read(|view| view.requests(Some(before), RESUME_PAGE))?;
        let Some((last, _)) = requests.last() else { return Ok(()) };
        before = *last;
        for (request, record) in requests {
            match record.state {
                RequestState::Cancelling => {
                    let waiting = waiting_files(room, request)?;
                    while room.ask(typed::CancelSome { request })? {}
                    waiting.into_iter().for_each(|file| room.notifier.wants_changed(file));
                }
                RequestState::Forgetting => while room.ask(typed::ForgetSome { request })? {},
                // Its client never heard its number, and submits the same again.
                RequestState::Filling if record.list.is_some() => room.undo_path_request(request)?,
                // Its client died while it was being filled; what it holds is worked on, nothing more is
                // awaited.
                RequestState::Filling => room.execute(Command::CloseRequest { request })?,
                RequestState::Active | RequestState::Completed | RequestState::Cancelled => {}
            }
            if room.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }
}

/// The files that a request still waits for.
pub(crate) fn waiting_files(room: &Tape, request: RequestId) -> Result<Vec<FileId>, ArchiveError> {
    let mut waiting = Vec::new();
    let mut from = 0;
    loop {
        let items = room.read(|view| view.request_items(request, from, RESUME_PAGE))?;
        let Some((last, _)) = items.last() else { return Ok(waiting) };
        from = last + 1;
        let waits = items.iter().filter(|(_, item)| item.state.waits());
        waiting.extend(waits.map(|(_, item)| item.file));
    }
}
