//! `/api/v1/clock`: the trusted time and the system's clock.

use std::sync::Arc;

use archive::ClockInfo;
use axum::body::Body;
use axum::{Extension, Json};
use base::Timestamp;
use wire::{AcceptClockBody, ClockReply, TimeMoveReply};

use crate::json::JsonBody;
use crate::shared::Asked;
use entrance::Call;
use entrance::Refusal;
use entrance::headers::precise;

pub(crate) async fn clock(shared: Asked) -> Result<Json<ClockReply>, Refusal> {
    shared.call(|engine| Ok(Json(reply(&engine.clock_info()?)))).await
}

pub(crate) async fn accept(
    shared: Asked,
    Extension(call): Extension<Arc<Call>>,
    body: Body,
) -> Result<Json<ClockReply>, Refusal> {
    let body = JsonBody::read(&shared, &call, body).await?.parse::<AcceptClockBody>()?;
    call.about(format!("the system's clock on {}", body.today));
    let today = date(&body.today)
        .ok_or_else(|| Refusal::bad(format!("today is a date such as 2026-11-23; {}", Timestamp::RANGE)))?;
    shared.call(move |engine| Ok(Json(reply(&engine.accept_time(today, body.back)?)))).await
}

/// The beginning of a day in UTC.
fn date(text: &str) -> Option<Timestamp> {
    let digits = |part: &str, count: usize| {
        let is_right = part.len() == count && part.bytes().all(|byte| byte.is_ascii_digit());
        is_right.then(|| part.parse::<u32>().ok()).flatten()
    };
    let mut parts = text.splitn(3, '-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    Timestamp::from_civil(i64::from(digits(year, 4)?), digits(month, 2)?, digits(day, 2)?, 0, 0, 0, 0)
}

fn reply(info: &ClockInfo) -> ClockReply {
    let leap = |leap: &catalogue::TimeMove| TimeMoveReply {
        since: precise(leap.since),
        before: precise(leap.before),
        after: precise(leap.after),
    };
    ClockReply {
        trusted: precise(info.standing.trusted),
        system: precise(info.standing.system),
        ahead_seconds: info.standing.ahead() / 1_000_000_000,
        follows: !info.standing.is_apart(),
        synchronised: info.standing.synchronised,
        doubted_since: info.doubted.map(precise),
        planned_back: info.planned_back.map(precise),
        moves: info.moves.iter().map(leap).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_and_others_refused() {
        assert_eq!(date("2026-11-23"), Timestamp::from_civil(2026, 11, 23, 0, 0, 0, 0));
        for wrong in [
            "",
            "2026",
            "2026-11",
            "2026-13-01",
            "2026-02-29",
            "26-1-1",
            "2026-11-23T00:00:00Z",
            "+026-11-23",
        ] {
            assert_eq!(date(wrong), None, "{wrong}");
        }
    }
}
