//! Tapes that go out of the library and come back: by its import/export elements, or by hand; and those that
//! are never used again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;

use base::{Count, RequestId, Timestamp, Vid};
use catalogue::{AwayKind, Command, Object, ReadError, Rejection, TapeRecord, TapeState, View};
use library::{CleanerInfo, LibraryError, Place, Slot};

use crate::held_back::PUT_IT_IN;
use crate::reasons::Waiting;
use crate::room::Tape;
use crate::tapes::need_identified;
use ground::{ArchiveError, TapeExport, TapeImport, truncated};
use upkeep::no_tape_gives;

/// Rows of a tape's recall set that are looked at to tell what waits for it.
const ASKED_FOR_ROWS_MAX: usize = 1_000;
/// Tapes away that are told one by one.
const ASKED_FOR_TOLD_MAX: usize = 5;

/// Most bytes that are kept of why a library could not bring a tape out.
const EXPORT_ERROR_MAX: usize = 250;

/// Why a tape that is to be exported is not out yet.
pub(crate) struct ExportFailure {
    why: String,
    /// It is tried again then.
    until: Timestamp,
}

/// What is told of a tape on which nothing new is begun since it is to be exported.
const LEAVES: &str = "it is being exported: it goes out when its drive has given it back";

/// Whether an export that a library could not do may be done later: not without a place to take cartridges
/// out, or of one that is not there.
fn may_pass(error: &LibraryError) -> bool {
    !matches!(error, LibraryError::NoImportExport | LibraryError::UnknownCartridge { .. })
}

/// What is told of a tape that no library holds.
pub(crate) fn absent_text(record: &TapeRecord) -> String {
    match &record.away {
        Some(away) => format!("it is {away}: bring it back, and say kist tape import-slot"),
        None => PUT_IT_IN.to_owned(),
    }
}

fn wrong<T>(vid: Vid, state: &'static str, needed: &'static str) -> Result<T, ArchiveError> {
    Err(ArchiveError::Rejected(Rejection::WrongState { object: Object::Tape(vid), state, needed }))
}

impl Tape {
    /// The libraries that were not reached since the start, as they are named to people.
    pub(crate) fn unreached(&self) -> Vec<String> {
        let numbers = self.library.unreached().into_iter();
        let name = |number| match self.libraries.name(number) {
            "" => "the library".to_owned(),
            name => format!("library {name}"),
        };
        numbers.map(name).collect()
    }

    /// Whether a tape is to be exported as soon as no drive has it.
    pub(crate) fn is_leaving(&self, vid: Vid) -> bool {
        self.inventory.leaving().contains(&vid)
    }

    /// Brings a tape to an import/export element of its library, from which an operator takes it out. While a
    /// drive has it, or its last session is not closed, nothing new is begun on it, and it goes out by itself
    /// later, also after a restart. Durable: the tape is exported from then on, until a library shows it in a
    /// slot again. Of one that stands in such an element already that is told.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchTape`]; [`ArchiveError::Rejected`] if it is in no library;
    /// [`ArchiveError::Library`] if there is no free element, or the robot fails: the
    /// tape is used as before then, and nothing goes out later. Of one that waits already that is told as
    /// what it waits for.
    pub fn export_tape(&self, vid: Vid) -> Result<TapeExport, ArchiveError> {
        if let Err(error @ (ArchiveError::NoSuchTape(_) | ArchiveError::TapeNotSeen { .. })) = self.tape(vid)
        {
            return match self.library.cleaners().into_iter().find(|cleaner| cleaner.vid == vid) {
                Some(cleaner) => self.export_cleaner(&cleaner),
                None => Err(error),
            };
        }
        // Who asks for the same one meanwhile finds it where it is then.
        let _one = self.inventory.exporting();
        let waited = self.is_leaving(vid);
        self.export_alone(vid, waited)
    }

    /// Calls an export off that waits; whether one did. One that is being carried out is waited for.
    pub(crate) fn call_export_off(&self, vid: Vid) -> Result<bool, ArchiveError> {
        if !self.is_leaving(vid) {
            return Ok(false);
        }
        let _one = self.inventory.exporting();
        if !self.is_leaving(vid) {
            return Ok(false);
        }
        self.set_leaving(vid, false)?;
        self.post_tape(vid);
        Ok(true)
    }

    /// Exports a tape as soon as it can be, unless that was called off meanwhile. If its library cannot do it
    /// now it goes on waiting: whoever asked was told that it goes out.
    fn export_that_waits(&self, vid: Vid) -> Result<(), ArchiveError> {
        let _one = self.inventory.exporting();
        if !self.is_leaving(vid) {
            return Ok(());
        }
        self.export_alone(vid, true).map(drop)
    }

    /// What is told of a tape that is to be exported.
    pub(crate) fn leaving_text(&self, vid: Vid) -> String {
        self.why_not_out(vid).unwrap_or_else(|| LEAVES.to_owned())
    }

    /// Why a tape that is to be exported is not out, if its library could not do it.
    pub(crate) fn why_not_out(&self, vid: Vid) -> Option<String> {
        let failures = self.inventory.export_failures();
        let why = &failures.get(&vid)?.why;
        Some(format!(
            "it is being exported: its library cannot bring it out now ({why}); it is tried again; to call \
             it off: kist tape set {vid} active"
        ))
    }

    /// Whether a library that failed to bring a tape out is left alone with it for a while.
    fn export_rests(&self, vid: Vid) -> bool {
        let now = self.now();
        self.inventory.export_failures().get(&vid).is_some_and(|failure| failure.until > now)
    }

    fn export_failed(&self, vid: Vid, error: &LibraryError) {
        let why = truncated(&error.to_string(), EXPORT_ERROR_MAX);
        let until = self.now().plus(self.settings.tape.retry_delay);
        tracing::error!(%vid, %error, "the tape is not exported yet; it is tried again");
        self.inventory.export_failures().insert(vid, ExportFailure { why, until });
    }

    /// While no other export is under way. `waited`: somebody was told before that it goes out.
    fn export_alone(&self, vid: Vid, waited: bool) -> Result<TapeExport, ArchiveError> {
        let done = self.try_export(vid);
        match &done {
            Ok(TapeExport::Waiting { .. }) => drop(self.inventory.export_failures().remove(&vid)),
            Err(ArchiveError::Library(error)) if waited && may_pass(error) => self.export_failed(vid, error),
            Ok(TapeExport::Done { .. }) | Err(_) => self.set_leaving(vid, false)?,
        }
        // The answer is about the export, however the library answers to the next question.
        if let Err(error) = self.look_at_inventory() {
            tracing::warn!(%vid, %error, "after an export the library does not say what it holds");
        }
        self.post_tape(vid);
        match done {
            Err(ArchiveError::Library(error)) if waited && may_pass(&error) => {
                Ok(TapeExport::Waiting { reason: self.leaving_text(vid), begins: false })
            }
            done => done,
        }
    }

    /// A cleaning cartridge, which is in no catalogue as long as it has cleaned nothing, goes out at once or
    /// not at all.
    fn export_cleaner(&self, cleaner: &CleanerInfo) -> Result<TapeExport, ArchiveError> {
        let vid = cleaner.vid;
        let element = match cleaner.place {
            Place::ImportExport(element) => element,
            Place::Slot(_) | Place::Drive(_) | Place::Unknown => self.library.export(vid)?,
        };
        tracing::info!(%vid, %element, "the cleaning cartridge was exported");
        self.look_at_cleaners();
        let library = self.libraries.name(cleaner.library).to_owned();
        Ok(TapeExport::Done { library, element: element.0 })
    }

    fn try_export(&self, vid: Vid) -> Result<TapeExport, ArchiveError> {
        let record = self.tape(vid)?;
        let begins = !self.is_leaving(vid);
        if self.is_in_doubt(vid) {
            if begins {
                self.set_leaving(vid, true)?;
                self.post_tape(vid);
            }
            return Ok(TapeExport::Waiting { reason: self.doubt_text(), begins });
        }
        match self.libraries.place_of(vid) {
            None | Some(Place::Unknown) => {
                return wrong(
                    vid,
                    "in no library",
                    "in one to be exported: what is kept elsewhere is off-site",
                );
            }
            Some(Place::ImportExport(element)) => {
                self.set_away(vid, Some(AwayKind::Exported), None)?;
                return Ok(self.exported(vid, element));
            }
            Some(Place::Slot(_) | Place::Drive(_)) => {}
        }
        self.set_leaving(vid, true)?;
        // From now on the scheduler hears that it is neither read nor written.
        self.post_tape(vid);
        if self.is_in_a_drive(vid) {
            return self.export_waits(vid, begins);
        }
        // Once no drive has it: a session that ended since is closed.
        if self.tape(vid)?.run.is_some() {
            let reason = "its last session was cut short, and is closed first".to_owned();
            return Ok(TapeExport::Waiting { reason, begins });
        }
        // Over the move nobody takes the inventory: it would show the tape in its slot, that is not away.
        let _taken = self.inventory.seen();
        // Before the move: a tape that an operator finds in the element is exported.
        let before = record.away.clone();
        self.set_away(vid, Some(AwayKind::Exported), None)?;
        match self.library.export(vid) {
            Ok(element) => {
                tracing::info!(%vid, %element, "the tape was exported");
                Ok(self.exported(vid, element))
            }
            Err(error) => {
                let place = before.as_ref().map(|away| away.place.as_str());
                self.set_away(vid, before.as_ref().map(|away| away.kind), place)?;
                match error {
                    // A drive was faster.
                    LibraryError::CartridgeInUse { .. } => self.export_waits(vid, begins),
                    error => Err(error.into()),
                }
            }
        }
    }

    fn exported(&self, vid: Vid, element: Slot) -> TapeExport {
        let library = self.libraries.name(self.libraries.of_tape(vid)).to_owned();
        TapeExport::Done { library, element: element.0 }
    }

    fn export_waits(&self, vid: Vid, begins: bool) -> Result<TapeExport, ArchiveError> {
        let drive = self.tape_drives().into_iter().find(|drive| drive.vid == Some(vid));
        let reason = match (drive, self.reason(Waiting::Tape(vid))?) {
            (Some(drive), _) => format!("drive {} has it ({})", drive.name, drive.state),
            (None, Some(reason)) => reason.to_string(),
            (None, None) => "a drive has it".to_owned(),
        };
        Ok(TapeExport::Waiting { reason, begins })
    }

    fn is_in_a_drive(&self, vid: Vid) -> bool {
        let has_it = |place| matches!(place, Some(Place::Drive(_)));
        let is_sent_for = self.scheduler().drives().any(|(_, state)| state.vid() == Some(vid));
        if is_sent_for || !has_it(self.libraries.place_of(vid)) {
            return is_sent_for;
        }
        // It was in a drive when the library was asked last, and our own moves are no news of the library:
        // one that a drive had at the start may be in its slot since.
        let now = self.library.inventory_in_reach();
        now.map_or(true, |now| now.iter().any(|it| it.vid == vid && has_it(Some(it.place.clone()))))
    }

    /// Takes from the catalogue which tapes are to be exported since before this start.
    ///
    /// # Errors
    /// If the catalogue cannot be read.
    pub(crate) fn know_what_leaves(&self) -> Result<(), ReadError> {
        let known = self.catalogue.read(|view| view.tapes_leaving())?;
        *self.inventory.leaving() = known.into_iter().collect();
        Ok(())
    }

    /// Exports the tapes whose drives have given them back meanwhile. What its library cannot move now is
    /// tried again later.
    pub(crate) fn export_what_leaves(&self) {
        let leaving: Vec<Vid> = self.inventory.leaving().iter().copied().collect();
        for vid in leaving.into_iter().filter(|vid| !self.export_rests(*vid) && !self.is_in_a_drive(*vid)) {
            let is_out =
                !self.libraries.holds(vid) && self.tape(vid).is_ok_and(|record| record.away.is_some());
            // One that an operator took out of the element, or says is elsewhere, has gone out.
            let done = if is_out { self.set_leaving(vid, false) } else { self.export_that_waits(vid) };
            if let Err(error) = done {
                tracing::error!(%vid, %error, "the tape is not exported, and used as before");
            }
        }
    }

    /// Whether the library of a tape does not answer, or is not sure where it is: nothing is decided by that.
    fn is_in_doubt(&self, vid: Vid) -> bool {
        match self.libraries.place_of(vid) {
            None => !self.library.unreached().is_empty(),
            place => place == Some(Place::Unknown),
        }
    }

    fn doubt_text(&self) -> String {
        match self.unreached()[..] {
            [] => "its library does not say now where it is".to_owned(),
            ref unreached => format!(
                "no library that is reached holds it, and what stands in {} is not known, which was not \
                 reached since the start (kist status tells why)",
                unreached.join(", ")
            ),
        }
    }

    /// Says, durably, whether a tape is to be exported as soon as no drive has it. It stays so until the
    /// robot has brought it out, though it is away in the catalogue before that.
    pub(crate) fn set_leaving(&self, vid: Vid, leaving: bool) -> Result<(), ArchiveError> {
        let _one = self.tape_states();
        self.execute(Command::SetTapeLeaving { vid, leaving })?;
        match leaving {
            true => self.inventory.leaving().insert(vid),
            false => {
                self.inventory.export_failures().remove(&vid);
                self.inventory.leaving().remove(&vid)
            }
        };
        Ok(())
    }

    /// Brings cartridges from import/export elements into slots: that of one element, or all. Each is tried,
    /// whatever becomes of the others. One that Kist knows is what it was before it went; others are scratch.
    ///
    /// # Errors
    /// If the library cannot be asked, or the catalogue not be written.
    pub fn import_tapes(&self, element: Option<u32>) -> Result<Vec<TapeImport>, ArchiveError> {
        self.refresh_inventory(false)?;
        let mut imports = Vec::new();
        let tapes = self.library.inventory_in_reach()?.into_iter().map(|it| (it.vid, it.place, it.library));
        let cleaners = self.library.cleaners().into_iter().map(|it| (it.vid, it.place, it.library));
        for (vid, place, library) in tapes.chain(cleaners) {
            let Place::ImportExport(from) = place else { continue };
            if element.is_some_and(|element| element != from.0) {
                continue;
            }
            let to = self.library.import(vid);
            match &to {
                Ok(slot) => tracing::info!(%vid, element = %from, %slot, "the tape was imported"),
                Err(error) => tracing::error!(%vid, element = %from, %error, "the tape is not imported"),
            }
            imports.push(TapeImport {
                vid,
                library: self.libraries.name(library).to_owned(),
                element: from.0,
                slot: to.map(|slot| slot.0).map_err(|error| error.to_string()),
            });
        }
        self.look_at_inventory()?;
        Ok(imports)
    }

    /// Has the libraries say now what they hold, which is asked for every few seconds and after each unit
    /// attention anyway; `scan`: robots look at all slots with their own eyes, which can take minutes. Gives
    /// the tapes that came, went, or can be used otherwise than before.
    ///
    /// # Errors
    /// If a library cannot be asked, or the catalogue not be written.
    pub fn refresh_inventory(&self, scan: bool) -> Result<BTreeSet<Vid>, ArchiveError> {
        self.library.look_again(scan)?;
        self.look_at_inventory()
    }

    /// An operator says where a tape is kept that no library holds. Its copies count as copies, and are not
    /// counted on to be read. Durable on return. Once a library shows it in a slot it is here again.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchTape`]; [`ArchiveError::Rejected`] if a library holds it, it is in a run, or the
    /// place is told in too many bytes.
    pub fn set_tape_off_site(&self, vid: Vid, place: &str) -> Result<(), ArchiveError> {
        self.tape(vid)?;
        if self.libraries.holds(vid) {
            return wrong(vid, "in a library", "taken out to be off-site: kist tape export with its VID");
        }
        self.set_away(vid, Some(AwayKind::OffSite), Some(place))?;
        self.post_tape(vid);
        Ok(())
    }

    /// Tapes that no library holds and that files wait for which no other tape can give, in words.
    pub(crate) fn asked_for_away(&self, tapes: &[(Vid, TapeRecord)]) -> Vec<String> {
        let absent = tapes.iter().filter(|(vid, _)| !self.libraries.holds(*vid));
        let told = self.read(|view| {
            let told =
                absent.filter_map(|(vid, record)| waiting_for(self, view, *vid).ok()?.told(*vid, record));
            Ok(told.collect())
        });
        // A catalogue that cannot be read is told by others.
        let mut told: Vec<String> = told.unwrap_or_default();
        if told.len() > ASKED_FOR_TOLD_MAX {
            let more = told.len() - ASKED_FOR_TOLD_MAX;
            told.truncate(ASKED_FOR_TOLD_MAX);
            told.push(format!("files wait for {more} more tapes that no library holds: kist queue"));
        }
        told
    }

    fn set_away(&self, vid: Vid, kind: Option<AwayKind>, place: Option<&str>) -> Result<(), ArchiveError> {
        let _one = self.tape_states();
        let place = place.unwrap_or_default().to_owned();
        self.execute(Command::SetTapeAway { vid, kind, place }).map(drop)
    }

    /// What a library shows in a slot or a drive is not away any more, whatever was said of it.
    ///
    /// # Errors
    /// If the catalogue cannot be read or written.
    pub(crate) fn note_returned(&self) -> Result<(), ArchiveError> {
        let tapes = self.read(|view| view.tapes())?;
        for (vid, record) in tapes.into_iter().filter(|(_, record)| record.away.is_some()) {
            if self.libraries.holds(vid) {
                self.set_away(vid, None, None)?;
                tracing::info!(%vid, state = record.state.word(), "a tape that was away is here again");
            }
        }
        Ok(())
    }

    /// Takes a tape into use: one that was retired is scratch again. Of one that a library shows and that is
    /// in use, or scratch, nothing is changed: all cartridges of the libraries are taken for ours when they
    /// are seen.
    ///
    /// # Errors
    /// [`ArchiveError::NoSuchTape`] if no library shows it.
    pub fn add_tape(&self, vid: Vid) -> Result<(), ArchiveError> {
        self.refresh_inventory(false)?;
        if self.tape(vid)?.state == TapeState::Retired {
            let _one = self.tape_states();
            self.execute(Command::AddTape { vid })?;
        }
        self.post_tape(vid);
        Ok(())
    }

    /// Takes a tape out of use for ever. It must be what a reclaim wants ([`Tape::reclaim_tape`]), or
    /// scratch; then it holds nothing, and no session takes it for a scratch tape while it stands in a
    /// library.
    ///
    /// # Errors
    /// As [`Tape::reclaim_tape`].
    pub fn retire_tape(&self, vid: Vid, reason: &str) -> Result<(), ArchiveError> {
        let record = self.tape(vid)?;
        if record.state == TapeState::Retired {
            return Ok(());
        }
        if self.is_in_a_drive(vid) {
            return wrong(
                vid,
                "in a drive",
                "in its slot, or away, to be retired: wait until it is unmounted",
            );
        }
        need_identified(vid, &record)?;
        self.empty_tape(vid, Command::RetireTape { vid })?;
        tracing::info!(%vid, reason = truncated(reason, 512), "the tape was retired");
        Ok(())
    }
}

/// What waits for a tape that no library holds.
#[derive(Debug, Default)]
struct WaitingFor {
    files: u64,
    requests: BTreeSet<RequestId>,
    /// Not all rows were looked at.
    at_least: bool,
}

impl WaitingFor {
    fn told(&self, vid: Vid, record: &TapeRecord) -> Option<String> {
        if self.files == 0 {
            return None;
        }
        let count = |count: u64, what: &str| match count {
            1 => format!("1 {what}"),
            count => format!("{} {what}s", Count(count)),
        };
        let (files, requests) = (count(self.files, "file"), count(self.requests.len() as u64, "request"));
        let at_least = if self.at_least { "at least " } else { "" };
        let place = match &record.away {
            Some(away) => format!("{vid} is {away}"),
            None => format!("no library holds {vid}"),
        };
        let wait = if (self.files, self.at_least) == (1, false) { "waits" } else { "wait" };
        Some(format!(
            "{place}, {at_least}{files} of {requests} {wait} for it: bring it back, and say kist tape \
             import-slot"
        ))
    }
}

/// The files that wait for a tape and that no tape in a library can give.
fn waiting_for(room: &Tape, view: &View<'_>, vid: Vid) -> Result<WaitingFor, ReadError> {
    let mut waiting = WaitingFor::default();
    let rows = view.recall_set(vid, None, ASKED_FOR_ROWS_MAX)?;
    waiting.at_least = rows.len() == ASKED_FOR_ROWS_MAX;
    for (key, _) in rows {
        if no_tape_gives(&room.upkeep, view, key.file)? {
            waiting.files += 1;
            waiting.requests.extend(view.wants(key.file)?.into_iter().map(|want| want.request));
        }
    }
    Ok(waiting)
}

impl crate::inventory::Inventory {
    /// Tapes that a library failed to bring out.
    fn export_failures(&self) -> threads::MutexGuard<'_, BTreeMap<Vid, ExportFailure>> {
        self.export_failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tapes that are to be exported as soon as no drive has them.
    pub(crate) fn leaving(&self) -> threads::MutexGuard<'_, BTreeSet<Vid>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
