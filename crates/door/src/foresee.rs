//! Why things wait, and for how long.

use archive::{About, ArchiveError, Cause, Expected, Reason, RequestOutlook, TailFile};
use axum::Json;
use axum::extract::RawQuery;
use base::{RequestId, Vid};

use crate::Engine;
use crate::admin::{Door, Reply};
use crate::parameters::Parameters;
use crate::problem::Refusal;

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
            (None, None, Some(name)) => about_machine(engine, &name)?,
            _ => return Err(Refusal::bad("name one of path=, request= and name= (a VID or a drive)")),
        };
        let reasons = causes.iter().map(|cause| cause.text.clone()).collect();
        Ok(Json(wire::WhyReply { subject, reasons, causes: causes.iter().map(cause_reply).collect() }))
    };
    shared.call(why).await
}

/// A tape of this VID, else a drive of this name.
fn about_machine(engine: &dyn Engine, name: &str) -> Result<(String, Vec<Cause>), Refusal> {
    if let Ok(vid) = Vid::new(name) {
        match engine.explain(&About::Tape(vid)) {
            Err(ArchiveError::NoSuchTape(_)) => {}
            causes => return Ok((format!("tape {vid}"), causes?)),
        }
    }
    Ok((format!("drive {name}"), engine.explain(&About::Drive(name.to_owned()))?))
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
