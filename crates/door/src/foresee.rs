//! Why things wait, and for how long.

use std::collections::BTreeSet;

use archive::{About, ArchiveError, Cause, Expected, Reason, RequestOutlook, TailFile};
use axum::Json;
use axum::extract::RawQuery;
use base::{RequestId, Vid};

use crate::Engine;
use crate::admin::{Door, Reply};
use crate::parameters::Parameters;
use entrance::{Kind, Refusal};

/// Names that are named where one is not there.
const ALIKE_MAX: usize = 5;
/// So many differing characters are a slip.
const ALIKE_DIFFERENCES_MAX: usize = 2;
/// From so many characters on a part of a name is like it.
const ALIKE_PART_MIN: usize = 3;

pub(crate) async fn why(shared: Door, RawQuery(query): RawQuery) -> Reply<wire::WhyReply> {
    let parameters = Parameters::read(query.as_deref(), &["path", "request", "name"])?;
    let asked = (
        parameters.path("path")?,
        parameters.number("request")?.map(RequestId),
        parameters.text("name")?.map(str::to_owned),
    );
    let why = move |engine: &dyn Engine| {
        let (subject, causes) = match asked {
            (Some(path), None, None) => (path.to_string(), engine.explain(&About::Path(path))?),
            (None, Some(request), None) => {
                (format!("request {request}"), engine.explain(&About::Request(request))?)
            }
            (None, None, Some(name)) => about_name(engine, &name)?,
            _ => {
                return Err(Refusal::bad(
                    "name one of path=, request= and name= (a VID, a tape pool, a class or a tape drive)",
                ));
            }
        };
        let reasons = causes.iter().map(|cause| cause.text.clone()).collect();
        Ok(Json(wire::WhyReply { subject, reasons, causes: causes.iter().map(cause_reply).collect() }))
    };
    shared.call(why).await
}

/// A tape, a tape pool, a storage class or a tape drive of this name; of several that have it, each.
fn about_name(engine: &dyn Engine, name: &str) -> Result<(String, Vec<Cause>), Refusal> {
    let mut candidates = Vec::new();
    if let Ok(vid) = Vid::new(name) {
        candidates.push((format!("tape {vid}"), About::Tape(vid)));
    }
    candidates.push((format!("tape pool {name}"), About::TapePool(name.to_owned())));
    candidates.push((format!("class {name}"), About::Class(name.to_owned())));
    candidates.push((format!("drive {name}"), About::Drive(name.to_owned())));
    let (mut subjects, mut causes) = (Vec::new(), Vec::new());
    for (subject, about) in candidates {
        match engine.explain(&about) {
            Ok(found) => {
                subjects.push(subject);
                causes.extend(found);
            }
            Err(
                ArchiveError::NoSuchTape(_)
                | ArchiveError::NoSuchTapePool(_)
                | ArchiveError::NoSuchClass { .. }
                | ArchiveError::NoSuchDrive(_),
            ) => {}
            Err(error) => return Err(error.into()),
        }
    }
    if subjects.is_empty() {
        return Err(no_such_name(engine, name)?);
    }
    Ok((subjects.join(", "), causes))
}

/// What may be asked about, and the names that there are and that look like the one given.
fn no_such_name(engine: &dyn Engine, name: &str) -> Result<Refusal, Refusal> {
    let mut names: BTreeSet<String> = engine.tapes()?.iter().map(|tape| tape.vid.to_string()).collect();
    for class in engine.classes()? {
        names.extend(class.copies);
        names.insert(class.name);
    }
    names.extend(engine.tape_drives().into_iter().map(|drive| drive.name));
    let alike = alike(name, &names);
    let hint = match alike.is_empty() {
        true => "kist tape ls, kist class ls, kist drive ls and kist pool show list them".to_owned(),
        false => format!("there is {}", alike.join(", ")),
    };
    Ok(Refusal::new(
        Kind::NotFound,
        format!(
            "'{name}' is no tape (VID), tape pool, storage class or drive: {hint}; a path begins with /, a \
             request is a number"
        ),
    ))
}

/// The names that are like one that there is not, the likest first.
fn alike<'a>(name: &str, names: &'a BTreeSet<String>) -> Vec<&'a str> {
    let given = name.to_lowercase();
    let mut found: Vec<(usize, &str)> = Vec::new();
    for known in names {
        let lower = known.to_lowercase();
        let is_part = given.len() >= ALIKE_PART_MIN && (lower.contains(&given) || given.contains(&lower));
        let differences = differences(&given, &lower);
        if is_part || differences <= ALIKE_DIFFERENCES_MAX {
            found.push((differences, known));
        }
    }
    found.sort_unstable();
    // Another case of the letters is what was meant.
    if found.first().is_some_and(|(differences, _)| *differences == 0) {
        found.retain(|(differences, _)| *differences == 0);
    }
    found.into_iter().take(ALIKE_MAX).map(|(_, known)| known).collect()
}

/// How many characters have to be put in, left out or exchanged to make one word of the other (Levenshtein).
fn differences(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (at, one) in a.chars().enumerate() {
        let mut next = vec![at + 1];
        for (other, pair) in b.iter().zip(row.windows(2)) {
            let [diagonal, above] = pair else { continue };
            let before = next.last().copied().unwrap_or(at + 1);
            let exchanged = diagonal + usize::from(one != *other);
            next.push(exchanged.min(above + 1).min(before + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

pub(crate) fn cause_reply(cause: &Cause) -> wire::CauseReply {
    wire::CauseReply {
        text: cause.text.clone(),
        reason: cause.reason.as_ref().map(reason_reply),
        expected: cause.expected.as_ref().map(expected_reply),
    }
}

pub(crate) fn reason_reply(reason: &Reason) -> wire::ReasonReply {
    wire::ReasonReply {
        kind: reason.kind().to_owned(),
        text: reason.to_string(),
        tapes: reason.vids().iter().map(ToString::to_string).collect(),
        drives: reason.drives().into_iter().cloned().collect(),
        until: reason.until().map(|at| at.to_string()),
        needs_an_operator: reason.needs_an_operator(),
    }
}

pub(crate) fn expected_reply(expected: &Expected) -> wire::ExpectedReply {
    match expected {
        Expected::Within(range) => wire::ExpectedReply::Within {
            earliest: range.earliest.to_string(),
            likely: range.likely.to_string(),
            latest: range.latest.to_string(),
        },
        Expected::NotWithin(span) => wire::ExpectedReply::NotWithin { seconds: span.as_secs() },
        Expected::Never(reason) => wire::ExpectedReply::Never { reason: reason_reply(reason) },
    }
}

pub(crate) fn outlook_reply(outlook: &RequestOutlook) -> wire::OutlookReply {
    wire::OutlookReply {
        waiting: outlook.waiting,
        looked_at: outlook.looked_at,
        rate: outlook.rate,
        expected: outlook.expected.as_ref().map(expected_reply),
        tail: outlook.tail.iter().map(tail_reply).collect(),
    }
}

fn tail_reply(file: &TailFile) -> wire::TailFileReply {
    wire::TailFileReply {
        path: file.path.clone(),
        size: file.size.0,
        tapes: file.tapes.iter().map(ToString::to_string).collect(),
        reason: reason_reply(&file.reason),
        expected: file.expected.as_ref().map(expected_reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Story: any word that was not known was taken for a tape drive that there is not.
    #[test]
    fn names_that_are_meant_are_named() {
        let names = ["KS0001", "KS0002", "vault-a", "vault-b", "small", "vdrive0"];
        let names: BTreeSet<String> = names.into_iter().map(str::to_owned).collect();
        assert_eq!(alike("ks0002", &names), ["KS0002"]);
        assert_eq!(alike("vault", &names), ["vault-a", "vault-b"]);
        assert_eq!(alike("smal", &names), ["small"]);
        assert_eq!(alike("vdirve0", &names), ["vdrive0"]);
        assert!(alike("nothing-like-it", &names).is_empty());
        assert_eq!((differences("", "abc"), differences("abc", "abc"), differences("abc", "axc")), (3, 0, 1));
    }
}
