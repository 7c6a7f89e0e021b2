//! `kist tape export`, `import-slot`, `add`, `retire`, and what is off-site; `kist library inventory`.

use std::time::Duration;

use terminal::{Exit, Failure, Outcome, Progress, Table, output, text};
use wire::{
    CleaningCartridgeReply, InventoryBody, InventoryReply, ReasonBody, TapeBody, TapeContentReply,
    TapeExportReply, TapeImportBody, TapeImportReply, WorkReply,
};

use crate::cli::Common;

/// Between two questions whether a tape was exported.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// Which import/export elements are meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Elements {
    /// All of them.
    All,
    /// This one.
    One(u32),
}

/// `all`, or the number of an element.
pub fn element(text: &str) -> Result<Elements, String> {
    match text {
        "all" => Ok(Elements::All),
        number => number.parse().map(Elements::One).map_err(|_| "it is a number, or all".to_owned()),
    }
}

fn target(vid: &str, what: &str) -> String {
    format!("/api/v1/tapes/{}/{what}", text::encode(vid))
}

/// Brings a tape to where it is taken out.
pub fn export(vid: &str, no_wait: bool, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    let mut told = None;
    loop {
        let reply: TapeExportReply = client.post_for(&target(vid, "export"), &serde_json::json!({}))?;
        if let Some(element) = reply.element {
            let library = reply.library.as_deref().filter(|library| !library.is_empty());
            let library = library.map_or_else(String::new, |library| format!(" of library {library}"));
            let said =
                format!("tape {vid} is exported: take it out of import/export element {element}{library}");
            return output::done(common, &reply, &said);
        }
        let reason = reply.reason.clone().unwrap_or_default();
        if no_wait {
            return output::done(common, &reply, &format!("tape {vid} goes out by itself: {reason}"));
        }
        if told.is_none() {
            output::note(&waits_text(vid, &reason));
        } else if told.as_ref() != Some(&reason) {
            output::note(&format!("kist: tape {vid} is not out yet: {reason}"));
        }
        told = Some(reason);
        std::thread::sleep(ASK_EVERY);
    }
}

/// What is said once of an export that waits.
fn waits_text(vid: &str, reason: &str) -> String {
    // The reason may say already how to call it off.
    let call_off = format!("kist tape set {vid} active");
    let ends =
        if reason.contains(&call_off) { String::new() } else { format!("; to call it off: {call_off}") };
    format!(
        "kist: tape {vid} is not out yet: {reason}; it goes out by itself, and Ctrl-C ends only this wait, \
         not the export{ends}"
    )
}

/// Brings cartridges in.
pub fn import(elements: Elements, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    let element = match elements {
        Elements::All => None,
        Elements::One(element) => Some(element),
    };
    let body = TapeImportBody { element };
    let imports: Vec<TapeImportReply> = client.post_for("/api/v1/library/import", &body)?;
    if common.json {
        output::json(&imports)?;
    } else if imports.is_empty() && element.is_none() {
        // A heading over nothing says nothing.
        output::line("no cartridge with a VID stands in an import/export element")?;
    } else if !imports.is_empty() {
        let mut table = Table::new(&["tape", "library", ">element", ">slot", "not moved"]);
        for import in &imports {
            table.row(vec![
                import.vid.clone(),
                import.library.clone(),
                import.element.to_string(),
                import.slot.map_or_else(|| "-".to_owned(), |slot| slot.to_string()),
                import.error.clone().unwrap_or_else(|| "-".to_owned()),
            ]);
        }
        output::write(&table.render())?;
    }
    if let Some(element) = element.filter(|_| imports.is_empty()) {
        let what = format!(
            "no cartridge with a VID stands in import/export element {element}, or there is no such element: \
             kist tape import-slot all takes what stands in any"
        );
        return Err(Failure::new(Exit::NotFound, what));
    }
    match imports.iter().filter(|import| import.error.is_some()).count() {
        0 => Ok(()),
        1 => Err(Failure::new(Exit::SomeFailed, "1 cartridge was not moved")),
        count => Err(Failure::new(Exit::SomeFailed, format!("{count} cartridges were not moved"))),
    }
}

/// Takes a tape into use.
pub fn add(vid: &str, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    client.post(&target(vid, "add"), &serde_json::json!({}))?;
    let page: TapeContentReply = client.get(&format!("/api/v1/tapes/{}?limit=1", text::encode(vid)))?;
    let state = page.tape.state;
    let said = serde_json::json!({ "vid": vid, "state": state });
    output::done(common, &said, &format!("tape {vid} is in use: it is {state}"))
}

/// Takes a tape out of use for ever.
pub fn retire(vid: &str, reason: &str, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    client.post(&target(vid, "retire"), &ReasonBody { reason: reason.to_owned() })?;
    let text = format!(
        "tape {vid} is retired: it is not written, not read and not taken for a scratch tape any more. Kist \
         moves and erases nothing: to take it out of its library, kist tape export {vid}; what was written \
         to it stands on the medium until that is destroyed. kist tape add {vid} would make it scratch again"
    );
    output::done(common, &serde_json::json!({ "vid": vid, "state": "retired" }), &text)
}

/// Says where a tape is kept.
pub fn off_site(vid: &str, place: &str, common: &Common) -> Outcome {
    let body = TapeBody { state: "off-site".to_owned(), reason: String::new(), place: place.to_owned() };
    common.connection.client()?.post(&format!("/api/v1/tapes/{}", text::encode(vid)), &body)?;
    let said = serde_json::json!({ "vid": vid, "away_as": "off-site", "place": place });
    let at = if place.is_empty() { String::new() } else { format!(" ({place})") };
    output::done(common, &said, &format!("tape {vid} is off-site{at} from now on"))
}

/// Has libraries say now what they hold.
pub fn inventory(scan: bool, common: &Common) -> Outcome {
    let client = common.connection.client()?;
    let progress = Progress::start_of("inventory", "slot", 0, 0, common.quiet);
    let mut watch = |work: &WorkReply| {
        let span = Duration::try_from_secs_f64(work.seconds).unwrap_or_default();
        progress.note(&format!("the libraries have been asked for {}", text::span(span)));
    };
    let asked = client.post_long_for("/api/v1/library/inventory", &InventoryBody { scan }, &mut watch);
    drop(progress);
    let reply: InventoryReply = asked?;
    let said = match reply.changed.len() {
        0 => "nothing has changed".to_owned(),
        count => format!("{} changed: {}", text::plural(count as u64, "tape"), reply.changed.join(", ")),
    };
    let lines: Vec<String> = [said].into_iter().chain(reply.cleaning.iter().map(cleaner_text)).collect();
    output::done(common, &reply, &lines.join("\n"))
}

/// A cleaning cartridge in one line.
fn cleaner_text(cleaner: &CleaningCartridgeReply) -> String {
    let CleaningCartridgeReply { vid, library, drive, slot, uses, uses_max, unfit } = cleaner;
    let place = match (drive, slot) {
        (Some(drive), _) => format!("in drive {drive}"),
        (None, Some(slot)) => format!("in slot {slot}"),
        (None, None) => "on its way".to_owned(),
    };
    let of = uses_max.map_or_else(String::new, |max| format!(" of {max}"));
    let unfit = unfit.as_ref().map_or_else(String::new, |why| format!(", used no more: {why}"));
    format!("cleaning cartridge {vid} of {library}, {place}: {uses}{of} uses{unfit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: nobody knew whether Ctrl-C leaves the export ordered.
    #[test]
    fn an_export_that_waits_says_how_it_ends() {
        let off = "kist tape set KS0001 active";
        for reason in ["drive d1 has it (migrating)".to_owned(), format!("no door; to call it off: {off}")] {
            let text = waits_text("KS0001", &reason);
            assert!(text.contains(&reason) && text.contains("Ctrl-C ends only this wait"), "{text}");
            assert_eq!(text.matches(off).count(), 1, "{text}");
        }
    }

    #[test]
    fn elements_are_numbers_or_all() {
        assert_eq!(element("all"), Ok(Elements::All));
        assert_eq!(element("16"), Ok(Elements::One(16)));
        assert!(element("door").is_err() && element("-1").is_err());
    }
}
