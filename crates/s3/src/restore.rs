//! Bringing back from tape.

use archive::{RestoreState, StageOptions};
use base::Duration;
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue, StatusCode};
use s3s::dto::{RestoreObjectInput, RestoreObjectOutput, RestoreRequest, Tier};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::answers::absent;
use crate::context::{Context, Said};
use crate::glacier::{is_archived, storage_class};
use crate::keys;

/// The longest restore: a hundred years.
const DAYS_MAX: i32 = 36_500;
/// Most bytes of who asks that the engine keeps with a request.
const OWNER_BYTES_MAX: usize = 64;

/// Has an object brought back: 202 for a new restore, 200 if it is back already and is kept longer.
pub(crate) async fn restore_object(
    cx: &Context,
    req: S3Request<RestoreObjectInput>,
) -> S3Result<S3Response<RestoreObjectOutput>> {
    let place = keys::place(&req.input.bucket, &req.input.key)?;
    let version = req.input.version_id.clone();
    let which = keys::which(version.as_deref())?;
    let Some(request) = &req.input.restore_request else {
        return Err(s3_error!(MalformedXML, "the request has no body: say for how many days"));
    };
    let (days, priority) = asked(request)?;
    let pin = cx.settings.day.checked_mul(days).unwrap_or(Duration::MAX);
    let settings = cx.settings.clone();
    let takes_202_for_an_error = takes_202_for_an_error(&req.headers);
    let again = cx
        .call(&req.extensions, move |guest| {
            let object = guest.engine.object(&place.path, which);
            let object = object.map_err(|error| absent(guest, &place, version.as_deref(), error))?;
            let name = storage_class(&settings, &object.file.class, object.file.locality);
            let was = object.restore;
            match was {
                RestoreState::Ongoing => {
                    let text = "the object is being restored already: wait until it is back";
                    return Err(s3_error!(RestoreAlreadyInProgress, "{text}").into());
                }
                RestoreState::No if !is_archived(name) => {
                    let text = format!("the object is in class {name}, which needs no restore");
                    return Err(s3_error!(InvalidObjectState, "{text}").into());
                }
                RestoreState::No | RestoreState::Until(_) => {}
            }
            // The file that was looked at, whatever has its name by now.
            let which = archive::Which::Version(object.file.file);
            let owner = &guest.caller.name;
            let owner = owner.get(..owner.floor_char_boundary(OWNER_BYTES_MAX)).unwrap_or_default();
            let options = StageOptions { owner: owner.to_owned(), pin, priority };
            let is_there = guest.engine.restore_object(&place.path, which, options)?;
            Ok(is_there && was != RestoreState::No)
        })
        .await?;
    let mut response = S3Response::new(RestoreObjectOutput::default());
    response.extensions.insert(Said(if again { StatusCode::OK } else { StatusCode::ACCEPTED }));
    if takes_202_for_an_error && !again {
        let code = HeaderValue::from_static("RestoreAlreadyInProgress");
        response.headers.insert("x-minio-error-code", code);
    }
    Ok(response)
}

/// minio-go took 202 for an error until July 2026 (its issue 2223), and with it restic up to 0.18.1 ended
/// with "202 Accepted". The code of such an "error" may stand in a header of its own: with this one restic
/// knows that the object is on its way. Libraries that take 202 for what it is do not look at it.
fn takes_202_for_an_error(headers: &HeaderMap) -> bool {
    headers.get(USER_AGENT).is_some_and(|agent| agent.to_str().is_ok_and(|agent| agent.contains("minio-go/")))
}

/// For how many days, and how urgently.
fn asked(request: &RestoreRequest) -> S3Result<(u32, u8)> {
    if request.type_.is_some() || request.select_parameters.is_some() || request.output_location.is_some() {
        return Err(s3_error!(NotImplemented, "a restore brings back whole objects, to where they are"));
    }
    let Some(days) = request.days else {
        return Err(s3_error!(MalformedXML, "say for how many days the object is to be restored"));
    };
    let is_possible = (1..=DAYS_MAX).contains(&days);
    let Some(days) = u32::try_from(days).ok().filter(|_| is_possible) else {
        return Err(s3_error!(InvalidArgument, "an object is restored for 1 to {DAYS_MAX} days"));
    };
    let tier = request.glacier_job_parameters.as_ref().map(|job| &job.tier).or(request.tier.as_ref());
    let priority = match tier.map(Tier::as_str) {
        None | Some(Tier::STANDARD) => 5,
        Some(Tier::EXPEDITED) => 9,
        Some(Tier::BULK) => 1,
        Some(other) => return Err(s3_error!(InvalidArgument, "there is no tier '{other}'")),
    };
    Ok((days, priority))
}

#[cfg(test)]
mod tests {
    use super::*;
    use s3s::dto::{GlacierJobParameters, OutputLocation};

    #[test]
    fn days_and_tiers_are_checked() {
        let days = |days| RestoreRequest { days, ..RestoreRequest::default() };
        let tier = |tier: &'static str| RestoreRequest {
            glacier_job_parameters: Some(GlacierJobParameters { tier: Tier::from_static(tier) }),
            ..days(Some(3))
        };
        let ok = |request: RestoreRequest| asked(&request).expect("a restore");
        assert_eq!(ok(days(Some(1))), (1, 5));
        assert_eq!(ok(tier("Expedited")), (3, 9));
        assert_eq!(ok(tier("Standard")), (3, 5));
        assert_eq!(ok(tier("Bulk")), (3, 1));
        let code = |request: RestoreRequest| asked(&request).expect_err("refused").code().as_str().to_owned();
        assert_eq!(code(days(None)), "MalformedXML");
        for wrong in [0, -1, DAYS_MAX + 1] {
            assert_eq!(code(days(Some(wrong))), "InvalidArgument", "{wrong}");
        }
        assert_eq!(code(tier("Now")), "InvalidArgument");
        let elsewhere = Some(OutputLocation::default());
        assert_eq!(code(RestoreRequest { output_location: elsewhere, ..days(Some(1)) }), "NotImplemented");
    }
}
