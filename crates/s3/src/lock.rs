//! Retention and legal hold. What is held is kept by the catalogue, below all doors; here is how S3 says it.

use std::sync::{Mutex, PoisonError};

use archive::{ArchiveError, Hold, ObjectStat, Retention, RetentionMode, Versioning};
use base::{Duration, Name};
use http::{HeaderMap, HeaderValue, StatusCode};
use s3s::dto::{
    self, DefaultRetention, GetObjectLegalHoldInput, GetObjectLegalHoldOutput,
    GetObjectLockConfigurationInput, GetObjectLockConfigurationOutput, GetObjectRetentionInput,
    GetObjectRetentionOutput, ObjectLockConfiguration, ObjectLockEnabled, ObjectLockLegalHold,
    ObjectLockLegalHoldStatus, ObjectLockRetention, ObjectLockRetentionMode, ObjectLockRule,
    PutObjectLegalHoldInput, PutObjectLegalHoldOutput, PutObjectLockConfigurationInput,
    PutObjectLockConfigurationOutput, PutObjectRetentionInput, PutObjectRetentionOutput, TimestampFormat,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::answers::{absent, bucket, of_s3s, timestamp};
use crate::context::{Context, Failure, Guest};
use crate::errors::custom;
use crate::keys::{self, Place};
use crate::metadata;
use crate::versions::change_bucket;

const MODE: &str = "x-amz-object-lock-mode";
const UNTIL: &str = "x-amz-object-lock-retain-until-date";
const LEGAL: &str = "x-amz-object-lock-legal-hold";

/// Days of a year in a default retention.
const YEAR_DAYS: u32 = 365;
/// Most days of a default retention: a hundred years.
const DAYS_MAX: u32 = 100 * YEAR_DAYS;

/// Changes of holds, of which S3 sets retention and legal hold apart, one after the other.
static CHANGES: Mutex<()> = Mutex::new(());

fn mode_of(text: &str) -> S3Result<RetentionMode> {
    match text {
        ObjectLockRetentionMode::GOVERNANCE => Ok(RetentionMode::Governance),
        ObjectLockRetentionMode::COMPLIANCE => Ok(RetentionMode::Compliance),
        _ => Err(s3_error!(InvalidArgument, "the mode of a retention is GOVERNANCE or COMPLIANCE")),
    }
}

fn mode_text(mode: RetentionMode) -> &'static str {
    match mode {
        RetentionMode::Governance => ObjectLockRetentionMode::GOVERNANCE,
        RetentionMode::Compliance => ObjectLockRetentionMode::COMPLIANCE,
    }
}

fn is_on(status: &str) -> S3Result<bool> {
    match status {
        ObjectLockLegalHoldStatus::ON => Ok(true),
        ObjectLockLegalHoldStatus::OFF => Ok(false),
        _ => Err(s3_error!(MalformedXML, "the status of a legal hold is ON or OFF")),
    }
}

/// A retention that ends in the future. One that ends later than a time can be represented is refused: it
/// would end earlier than was asked.
fn retention(cx: &Context, mode: &str, until: &dto::Timestamp) -> S3Result<Retention> {
    let until = of_s3s(until)
        .ok_or_else(|| s3_error!(InvalidArgument, "the retain until date must be before 2262-04-11"))?;
    if until <= cx.trusted.now() {
        return Err(s3_error!(InvalidArgument, "the retain until date must be in the future"));
    }
    Ok(Retention { mode: mode_of(mode)?, until })
}

/// What the headers `x-amz-object-lock-*` of a put, a copy or an upload in parts ask for. Whether the bucket
/// has object lock is to be asked with [`check_bucket`].
///
/// # Errors
/// `InvalidArgument` if mode and date do not come together, are none, or the date is past.
pub(crate) fn hold_of_put(cx: &Context, headers: &HeaderMap) -> S3Result<Option<Hold>> {
    let text = |name: &str| match headers.get(name).map(HeaderValue::to_str) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text)),
        Some(Err(_)) => Err(s3_error!(InvalidArgument, "the header {name} is not text")),
    };
    let (mode, until, legal) = (text(MODE)?, text(UNTIL)?, text(LEGAL)?);
    let retention = match (mode, until) {
        (Some(mode), Some(until)) => {
            let until = dto::Timestamp::parse(TimestampFormat::DateTime, until)
                .map_err(|_| s3_error!(InvalidArgument, "the header {UNTIL} is not a time of ISO 8601"))?;
            Some(retention(cx, mode, &until)?)
        }
        (None, None) => None,
        _ => {
            return Err(s3_error!(InvalidArgument, "the headers {MODE} and {UNTIL} come together"));
        }
    };
    let legal = legal.map(is_on).transpose()?;
    if retention.is_none() && legal.is_none() {
        return Ok(None);
    }
    Ok(Some(Hold { retention, legal: legal.unwrap_or(false) }))
}

/// What a new version keeps if its headers say that its legal hold is off.
pub(crate) fn off_of_put(headers: &HeaderMap) -> Option<(String, Vec<u8>)> {
    let off = ObjectLockLegalHoldStatus::OFF;
    headers.get(LEGAL).filter(|status| status.as_bytes() == off.as_bytes()).map(|_| off_xattr())
}

fn off_xattr() -> (String, Vec<u8>) {
    (metadata::LEGAL_HOLD.to_owned(), ObjectLockLegalHoldStatus::OFF.as_bytes().to_vec())
}

/// The legal hold of a version; `None` if nobody ever said anything of it.
fn legal_status(object: &ObjectStat) -> Option<&'static str> {
    if object.hold.legal {
        return Some(ObjectLockLegalHoldStatus::ON);
    }
    let said = metadata::text(&object.file.attributes, metadata::LEGAL_HOLD);
    said.map(|_| ObjectLockLegalHoldStatus::OFF)
}

/// Refuses if the bucket has no object lock; to be asked before anything is held.
pub(crate) fn check_bucket(guest: &Guest, name: &Name) -> Result<(), Failure> {
    if bucket(guest, name)?.settings.object_lock {
        return Ok(());
    }
    Err(Failure(s3_error!(InvalidRequest, "the bucket '{name}' has no object lock configuration")))
}

/// The headers about what keeps a version, for GET and HEAD.
pub(crate) fn add_headers(headers: &mut HeaderMap, object: Option<&ObjectStat>) {
    let Some(object) = object else { return };
    if let Some(Retention { mode, until }) = object.hold.retention {
        headers.insert(MODE, HeaderValue::from_static(mode_text(mode)));
        let mut text = Vec::new();
        if timestamp(until).format(TimestampFormat::DateTime, &mut text).is_ok()
            && let Ok(value) = HeaderValue::from_bytes(&text)
        {
            headers.insert(UNTIL, value);
        }
    }
    if let Some(status) = legal_status(object) {
        headers.insert(LEGAL, HeaderValue::from_static(status));
    }
}

pub(crate) async fn get_object_lock_configuration(
    cx: &Context,
    req: S3Request<GetObjectLockConfigurationInput>,
) -> S3Result<S3Response<GetObjectLockConfigurationOutput>> {
    let name = keys::bucket(&req.input.bucket)?;
    let settings = cx.call(&req.extensions, move |guest| bucket(guest, &name)).await?.settings;
    if !settings.object_lock {
        let message = "the bucket has no object lock configuration".to_owned();
        return Err(custom("ObjectLockConfigurationNotFoundError", StatusCode::NOT_FOUND, message));
    }
    let day = cx.settings.day.as_secs().max(1);
    let rule = settings.default_retention.map(|(mode, kept)| ObjectLockRule {
        default_retention: Some(DefaultRetention {
            days: i32::try_from(kept.as_secs() / day).ok(),
            mode: Some(ObjectLockRetentionMode::from_static(mode_text(mode))),
            years: None,
        }),
    });
    let enabled = Some(ObjectLockEnabled::from_static(ObjectLockEnabled::ENABLED));
    let object_lock_configuration = Some(ObjectLockConfiguration { object_lock_enabled: enabled, rule });
    Ok(S3Response::new(GetObjectLockConfigurationOutput { object_lock_configuration }))
}

/// The default retention of a rule: mode and how long.
fn default_retention(cx: &Context, rule: ObjectLockRule) -> S3Result<(RetentionMode, Duration)> {
    let malformed = || s3_error!(MalformedXML, "a default retention has a mode and either days or years");
    let DefaultRetention { days, mode, years } = rule.default_retention.ok_or_else(malformed)?;
    let mode = mode_of(mode.ok_or_else(malformed)?.as_str())?;
    let count = |count: i32| u32::try_from(count).ok().filter(|count| *count > 0);
    let days = match (days, years) {
        (Some(days), None) => count(days),
        (None, Some(years)) => count(years).and_then(|years| years.checked_mul(YEAR_DAYS)),
        _ => return Err(malformed()),
    };
    match days.filter(|days| *days <= DAYS_MAX) {
        Some(days) => Ok((mode, cx.settings.day.saturating_mul(days))),
        None => Err(s3_error!(InvalidArgument, "a default retention is from 1 day to {DAYS_MAX} days long")),
    }
}

pub(crate) async fn put_object_lock_configuration(
    cx: &Context,
    req: S3Request<PutObjectLockConfigurationInput>,
) -> S3Result<S3Response<PutObjectLockConfigurationOutput>> {
    let name = keys::bucket(&req.input.bucket)?;
    let asked = req.input.object_lock_configuration;
    let asked = asked.ok_or_else(|| s3_error!(MalformedXML, "the body has no ObjectLockConfiguration"))?;
    if asked.object_lock_enabled.as_ref().map(ObjectLockEnabled::as_str) != Some(ObjectLockEnabled::ENABLED) {
        return Err(s3_error!(
            MalformedXML,
            "ObjectLockEnabled is Enabled: object lock cannot be taken back"
        ));
    }
    let default = asked.rule.map(|rule| default_retention(cx, rule)).transpose()?;
    cx.call(&req.extensions, move |guest| {
        change_bucket(guest, &name, |settings| {
            if settings.versioning != Versioning::Enabled {
                let message = "object lock needs versioning enabled".to_owned();
                return Err(Failure(custom("InvalidBucketState", StatusCode::CONFLICT, message)));
            }
            settings.object_lock = true;
            settings.default_retention = default;
            Ok(())
        })
    })
    .await?;
    Ok(S3Response::new(PutObjectLockConfigurationOutput::default()))
}

/// The version that a request about holds means.
fn object(guest: &Guest, place: &Place, version: Option<&str>) -> Result<ObjectStat, Failure> {
    check_bucket(guest, &place.bucket)?;
    let which = keys::which(version)?;
    if place.is_directory {
        return Err(Failure(s3_error!(
            InvalidRequest,
            "a key that ends with '/' is a directory, never held"
        )));
    }
    guest.engine.object(&place.path, which).map_err(|error| absent(guest, place, version, error))
}

/// Changes what keeps a version, and gives it as it is then; no other such change of S3 comes between the
/// reading and the writing.
fn change_hold(
    guest: &Guest,
    (place, version): (&Place, Option<&str>),
    bypass: bool,
    change: impl FnOnce(&mut Hold),
) -> Result<ObjectStat, Failure> {
    let _one = CHANGES.lock().unwrap_or_else(PoisonError::into_inner);
    let mut known = object(guest, place, version)?;
    change(&mut known.hold);
    let which = archive::Which::Version(known.file.file);
    guest.engine.set_hold(&place.path, which, known.hold, bypass)?;
    Ok(known)
}

fn no_hold() -> Failure {
    let message = "the object has no such hold".to_owned();
    Failure(custom("NoSuchObjectLockConfiguration", StatusCode::NOT_FOUND, message))
}

pub(crate) async fn get_object_legal_hold(
    cx: &Context,
    req: S3Request<GetObjectLegalHoldInput>,
) -> S3Result<S3Response<GetObjectLegalHoldOutput>> {
    let input = req.input;
    let place = keys::place(&input.bucket, &input.key)?;
    let version = input.version_id;
    let find =
        move |guest: &Guest| legal_status(&object(guest, &place, version.as_deref())?).ok_or_else(no_hold);
    let status = cx.call(&req.extensions, find).await?;
    let status = Some(ObjectLockLegalHoldStatus::from_static(status));
    let legal_hold = Some(ObjectLockLegalHold { status });
    Ok(S3Response::new(GetObjectLegalHoldOutput { legal_hold }))
}

pub(crate) async fn put_object_legal_hold(
    cx: &Context,
    req: S3Request<PutObjectLegalHoldInput>,
) -> S3Result<S3Response<PutObjectLegalHoldOutput>> {
    let input = req.input;
    let place = keys::place(&input.bucket, &input.key)?;
    let status = input.legal_hold.and_then(|hold| hold.status);
    let status = status.ok_or_else(|| s3_error!(MalformedXML, "the body has no status of a legal hold"))?;
    let (legal, version) = (is_on(status.as_str())?, input.version_id);
    cx.call(&req.extensions, move |guest| {
        let changed = change_hold(guest, (&place, version.as_deref()), false, |hold| hold.legal = legal)?;
        if legal || legal_status(&changed) == Some(ObjectLockLegalHoldStatus::OFF) {
            return Ok(());
        }
        let (name, value) = off_xattr();
        let which = archive::Which::Version(changed.file.file);
        match guest.engine.set_xattrs(&place.path, which, &[(name, Some(value))]) {
            // Whoever may change holds and nothing else has taken it off; that it was on is not remembered.
            Err(ArchiveError::Denied { .. }) => Ok(()),
            other => Ok(other?),
        }
    })
    .await?;
    Ok(S3Response::new(PutObjectLegalHoldOutput::default()))
}

pub(crate) async fn get_object_retention(
    cx: &Context,
    req: S3Request<GetObjectRetentionInput>,
) -> S3Result<S3Response<GetObjectRetentionOutput>> {
    let input = req.input;
    let place = keys::place(&input.bucket, &input.key)?;
    let version = input.version_id;
    let held = cx
        .call(&req.extensions, move |guest| {
            object(guest, &place, version.as_deref())?.hold.retention.ok_or_else(no_hold)
        })
        .await?;
    let retention = Some(ObjectLockRetention {
        mode: Some(ObjectLockRetentionMode::from_static(mode_text(held.mode))),
        retain_until_date: Some(timestamp(held.until)),
    });
    Ok(S3Response::new(GetObjectRetentionOutput { retention }))
}

pub(crate) async fn put_object_retention(
    cx: &Context,
    req: S3Request<PutObjectRetentionInput>,
) -> S3Result<S3Response<PutObjectRetentionOutput>> {
    let input = req.input;
    let place = keys::place(&input.bucket, &input.key)?;
    let new = match input.retention {
        Some(ObjectLockRetention { mode: Some(mode), retain_until_date: Some(until) }) => {
            Some(retention(cx, mode.as_str(), &until)?)
        }
        // An empty retention takes the old one off, if that may be.
        Some(ObjectLockRetention { mode: None, retain_until_date: None }) => None,
        _ => return Err(s3_error!(MalformedXML, "a retention has a mode and a date")),
    };
    let bypass = input.bypass_governance_retention.unwrap_or(false);
    let version = input.version_id;
    cx.call(&req.extensions, move |guest| {
        change_hold(guest, (&place, version.as_deref()), bypass, |hold| hold.retention = new).map(drop)
    })
    .await?;
    Ok(S3Response::new(PutObjectRetentionOutput::default()))
}
