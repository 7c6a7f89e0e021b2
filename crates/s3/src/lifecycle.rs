//! Rules that move objects to tape or delete them as they age.

use std::collections::BTreeSet;

use archive::LifecycleRule;
use base::Duration;
use s3s::dto::{
    AbortIncompleteMultipartUpload, DeleteBucketLifecycleInput, DeleteBucketLifecycleOutput,
    ExpirationStatus, GetBucketLifecycleConfigurationInput, GetBucketLifecycleConfigurationOutput,
    LifecycleExpiration, LifecycleRuleFilter, PutBucketLifecycleConfigurationInput,
    PutBucketLifecycleConfigurationOutput, Transition, TransitionStorageClass,
};
use s3s::{S3Request, S3Response, S3Result, s3_error};

use crate::answers;
use crate::context::Context;
use crate::keys;
use crate::settings::S3Settings;

/// Most rules of a bucket, as in S3.
const RULES_MAX: usize = 1_000;
/// Most bytes in the name of a rule, as in S3.
const ID_BYTES_MAX: usize = 255;
/// The oldest an object has to become for a rule: a hundred years.
const DAYS_MAX: i32 = 36_500;

pub(crate) async fn get_bucket_lifecycle_configuration(
    cx: &Context,
    req: S3Request<GetBucketLifecycleConfigurationInput>,
) -> S3Result<S3Response<GetBucketLifecycleConfigurationOutput>> {
    let bucket = keys::bucket(&req.input.bucket)?;
    let info = cx.call(&req.extensions, move |guest| answers::bucket(guest, &bucket)).await?;
    if info.settings.lifecycle.is_empty() {
        return Err(s3_error!(NoSuchLifecycleConfiguration, "the bucket has no lifecycle rules"));
    }
    let rules = info.settings.lifecycle.iter().map(|rule| shown(&cx.settings, rule)).collect();
    let output = GetBucketLifecycleConfigurationOutput { rules: Some(rules), ..Default::default() };
    Ok(S3Response::new(output))
}

pub(crate) async fn put_bucket_lifecycle_configuration(
    cx: &Context,
    req: S3Request<PutBucketLifecycleConfigurationInput>,
) -> S3Result<S3Response<PutBucketLifecycleConfigurationOutput>> {
    let bucket = keys::bucket(&req.input.bucket)?;
    let Some(configuration) = &req.input.lifecycle_configuration else {
        return Err(s3_error!(MalformedXML, "the request has no body: send the rules"));
    };
    let least = req.input.transition_default_minimum_object_size.as_ref().map(|size| size.as_str());
    if least.is_some_and(|least| least != "varies_by_storage_class") {
        return Err(s3_error!(NotImplemented, "rules apply to objects of any size"));
    }
    let rules = rules(&cx.settings, &configuration.rules)?;
    set_rules(cx, &req.extensions, bucket, rules).await?;
    Ok(S3Response::new(PutBucketLifecycleConfigurationOutput::default()))
}

pub(crate) async fn delete_bucket_lifecycle(
    cx: &Context,
    req: S3Request<DeleteBucketLifecycleInput>,
) -> S3Result<S3Response<DeleteBucketLifecycleOutput>> {
    let bucket = keys::bucket(&req.input.bucket)?;
    set_rules(cx, &req.extensions, bucket, Vec::new()).await?;
    Ok(S3Response::new(DeleteBucketLifecycleOutput::default()))
}

async fn set_rules(
    cx: &Context,
    extensions: &http::Extensions,
    bucket: base::Name,
    rules: Vec<LifecycleRule>,
) -> S3Result<()> {
    let work = move |guest: &crate::context::Guest| {
        crate::versions::change_bucket(guest, &bucket, |settings| {
            settings.lifecycle = rules;
            Ok(())
        })
    };
    cx.call(extensions, work).await
}

fn not_offered(what: &str) -> s3s::S3Error {
    s3_error!(NotImplemented, "lifecycle rules here have no {what}")
}

/// The rules of a request, each with a name of its own.
fn rules(settings: &S3Settings, given: &[s3s::dto::LifecycleRule]) -> S3Result<Vec<LifecycleRule>> {
    if given.is_empty() || given.len() > RULES_MAX {
        return Err(s3_error!(MalformedXML, "a bucket has 1 to {RULES_MAX} rules"));
    }
    let mut ids: BTreeSet<String> = given.iter().filter_map(|rule| rule.id.clone()).collect();
    if ids.len() != given.iter().filter(|rule| rule.id.is_some()).count() {
        return Err(s3_error!(InvalidArgument, "two rules have the same ID"));
    }
    let mut rules = Vec::with_capacity(given.len());
    for (number, rule) in given.iter().enumerate() {
        let id = match rule.id.as_deref().filter(|id| !id.is_empty()) {
            Some(id) if id.len() > ID_BYTES_MAX => {
                return Err(s3_error!(InvalidArgument, "the ID of a rule has at most {ID_BYTES_MAX} bytes"));
            }
            Some(id) => id.to_owned(),
            None => (number + 1..)
                .map(|number| format!("rule-{number}"))
                .find(|id| !ids.contains(id))
                .unwrap_or_default(),
        };
        ids.insert(id.clone());
        rules.push(rule_of(settings, id, rule)?);
    }
    Ok(rules)
}

fn rule_of(settings: &S3Settings, id: String, rule: &s3s::dto::LifecycleRule) -> S3Result<LifecycleRule> {
    if rule.noncurrent_version_expiration.is_some() || rule.noncurrent_version_transitions.is_some() {
        return Err(not_offered("actions on versions that are not current"));
    }
    let enabled = match rule.status.as_str() {
        ExpirationStatus::ENABLED => true,
        ExpirationStatus::DISABLED => false,
        other => return Err(s3_error!(MalformedXML, "'{other}' is not a status of a rule")),
    };
    let transition = match rule.transitions.as_deref().unwrap_or_default() {
        [] => None,
        [transition] => Some(transition_of(settings, transition)?),
        _ => return Err(not_offered("second transition: make two rules")),
    };
    let expiration = match &rule.expiration {
        None => None,
        Some(LifecycleExpiration { date: Some(_), .. }) => return Err(not_offered("dates: give days")),
        Some(LifecycleExpiration { expired_object_delete_marker: Some(true), .. }) => {
            return Err(not_offered("expiration of delete markers"));
        }
        Some(expiration) => Some(age(settings, expiration.days, 1)?),
    };
    let abort_uploads = match &rule.abort_incomplete_multipart_upload {
        None => None,
        Some(abort) => Some(age(settings, abort.days_after_initiation, 1)?),
    };
    if transition.is_none() && expiration.is_none() && abort_uploads.is_none() {
        return Err(s3_error!(InvalidRequest, "a rule needs something to do"));
    }
    Ok(LifecycleRule { id, enabled, prefix: prefix_of(rule)?, transition, expiration, abort_uploads })
}

fn transition_of(settings: &S3Settings, transition: &Transition) -> S3Result<(Duration, String)> {
    if transition.date.is_some() {
        return Err(not_offered("dates: give days"));
    }
    let name = transition.storage_class.as_ref().map_or("", TransitionStorageClass::as_str);
    let Some(Some(class)) = settings.class_of(name) else {
        let known: Vec<&str> = settings.classes.iter().map(|(s3, _)| s3.as_str()).collect();
        let known = known.join(", ");
        return Err(s3_error!(
            InvalidStorageClass,
            "there is no class '{name}' to go to; there are: {known}"
        ));
    };
    Ok((age(settings, transition.days, 0)?, class.to_owned()))
}

/// The prefix of the keys that a rule applies to; by nothing else can they be told apart.
fn prefix_of(rule: &s3s::dto::LifecycleRule) -> S3Result<String> {
    let Some(filter) = &rule.filter else {
        return Ok(rule.prefix.clone().unwrap_or_default());
    };
    if rule.prefix.is_some() {
        return Err(s3_error!(MalformedXML, "a rule has a Filter or a Prefix, not both"));
    }
    let by_size = |less: Option<i64>, greater: Option<i64>| less.is_some() || greater.is_some();
    if filter.tag.is_some() || by_size(filter.object_size_less_than, filter.object_size_greater_than) {
        return Err(not_offered("filter by tag or size"));
    }
    let Some(and) = &filter.and else { return Ok(filter.prefix.clone().unwrap_or_default()) };
    if filter.prefix.is_some() {
        return Err(s3_error!(MalformedXML, "a filter has And or Prefix, not both"));
    }
    let has_tags = and.tags.as_ref().is_some_and(|tags| !tags.is_empty());
    if has_tags || by_size(and.object_size_less_than, and.object_size_greater_than) {
        return Err(not_offered("filter by tag or size"));
    }
    Ok(and.prefix.clone().unwrap_or_default())
}

fn age(settings: &S3Settings, days: Option<i32>, least: i32) -> S3Result<Duration> {
    let days = days.filter(|days| (least..=DAYS_MAX).contains(days));
    let Some(days) = days.and_then(|days| u32::try_from(days).ok()) else {
        return Err(s3_error!(InvalidArgument, "a rule counts in days: {least} to {DAYS_MAX}"));
    };
    Ok(settings.day.checked_mul(days).unwrap_or(Duration::MAX))
}

fn days(settings: &S3Settings, age: Duration) -> i32 {
    let days = age.as_nanos().checked_div(settings.day.as_nanos()).unwrap_or_default();
    i32::try_from(days).unwrap_or(i32::MAX)
}

/// A rule as a client is shown it.
fn shown(settings: &S3Settings, rule: &LifecycleRule) -> s3s::dto::LifecycleRule {
    let status = if rule.enabled { ExpirationStatus::ENABLED } else { ExpirationStatus::DISABLED };
    let transition = rule.transition.as_ref().map(|(age, class)| Transition {
        days: Some(days(settings, *age)),
        storage_class: Some(settings.name_of(class).to_owned().into()),
        ..Transition::default()
    });
    let expiration = rule
        .expiration
        .map(|age| LifecycleExpiration { days: Some(days(settings, age)), ..LifecycleExpiration::default() });
    let abort = rule
        .abort_uploads
        .map(|age| AbortIncompleteMultipartUpload { days_after_initiation: Some(days(settings, age)) });
    let filter = LifecycleRuleFilter { prefix: Some(rule.prefix.clone()), ..LifecycleRuleFilter::default() };
    s3s::dto::LifecycleRule {
        abort_incomplete_multipart_upload: abort,
        expiration,
        filter: Some(filter),
        id: Some(rule.id.clone()),
        noncurrent_version_expiration: None,
        noncurrent_version_transitions: None,
        prefix: None,
        status: ExpirationStatus::from_static(status),
        transitions: transition.map(|transition| vec![transition]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use s3s::dto::{LifecycleRuleAndOperator, NoncurrentVersionExpiration, Tag};

    fn settings() -> S3Settings {
        S3Settings { classes: vec![("GLACIER".to_owned(), "tape".to_owned())], ..S3Settings::default() }
    }

    fn to(class: &str, days: i32) -> Transition {
        Transition { days: Some(days), storage_class: Some(class.to_owned().into()), date: None }
    }

    fn rule() -> s3s::dto::LifecycleRule {
        let mut rule = shown(
            &settings(),
            &LifecycleRule {
                id: "a".to_owned(),
                enabled: true,
                prefix: "data/".to_owned(),
                transition: None,
                expiration: None,
                abort_uploads: None,
            },
        );
        rule.transitions = Some(vec![to("GLACIER", 30)]);
        rule
    }

    fn code(rule: s3s::dto::LifecycleRule) -> String {
        rules(&settings(), &[rule]).expect_err("refused").code().as_str().to_owned()
    }

    #[test]
    fn a_rule_is_given_back_as_it_came() {
        let settings = settings();
        let mut given = rule();
        given.expiration = Some(LifecycleExpiration { days: Some(365), ..LifecycleExpiration::default() });
        let kept = rules(&settings, &[given.clone()]).expect("a rule");
        assert_eq!(kept[0].transition, Some((settings.day * 30, "tape".to_owned())));
        assert_eq!(kept[0].expiration, Some(settings.day * 365));
        assert_eq!(kept[0].prefix, "data/");
        assert_eq!(shown(&settings, &kept[0]), given);
    }

    #[test]
    fn rules_without_a_name_get_one_that_is_free() {
        let named = |id: Option<&str>| s3s::dto::LifecycleRule { id: id.map(str::to_owned), ..rule() };
        let kept = rules(&settings(), &[named(None), named(Some("rule-1")), named(None)]).expect("rules");
        let ids: BTreeSet<&str> = kept.iter().map(|rule| rule.id.as_str()).collect();
        assert_eq!(ids.len(), 3, "{ids:?}");
        let twice = [named(Some("x")), named(Some("x"))];
        assert_eq!(rules(&settings(), &twice).expect_err("twice").code().as_str(), "InvalidArgument");
    }

    #[test]
    fn what_is_not_done_is_refused() {
        let filter = |filter| s3s::dto::LifecycleRule { filter: Some(filter), ..rule() };
        let tag = Tag { key: Some("a".to_owned()), value: Some("b".to_owned()) };
        let none = LifecycleRuleFilter::default;
        assert_eq!(code(filter(LifecycleRuleFilter { tag: Some(tag.clone()), ..none() })), "NotImplemented");
        let sized = LifecycleRuleFilter { object_size_greater_than: Some(5), ..none() };
        assert_eq!(code(filter(sized)), "NotImplemented");
        let and = LifecycleRuleAndOperator { tags: Some(vec![tag]), ..Default::default() };
        assert_eq!(code(filter(LifecycleRuleFilter { and: Some(and), ..none() })), "NotImplemented");
        let old = Some(NoncurrentVersionExpiration { noncurrent_days: Some(3), ..Default::default() });
        let old = s3s::dto::LifecycleRule { noncurrent_version_expiration: old, ..rule() };
        assert_eq!(code(old), "NotImplemented");
        let marker = LifecycleExpiration { expired_object_delete_marker: Some(true), ..Default::default() };
        assert_eq!(code(s3s::dto::LifecycleRule { expiration: Some(marker), ..rule() }), "NotImplemented");
        let goes = |transitions| s3s::dto::LifecycleRule { transitions: Some(transitions), ..rule() };
        assert_eq!(code(goes(vec![to("GLACIER", 1), to("GLACIER", 2)])), "NotImplemented");
        assert_eq!(code(goes(vec![to("STANDARD_IA", 1)])), "InvalidStorageClass");
        assert_eq!(code(goes(vec![to("GLACIER", -1)])), "InvalidArgument");
        assert_eq!(code(s3s::dto::LifecycleRule { transitions: None, ..rule() }), "InvalidRequest");
        assert_eq!(rules(&settings(), &[]).expect_err("none").code().as_str(), "MalformedXML");
    }
}
