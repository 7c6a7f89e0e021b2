//! `[s3]`: what S3's names stand for here.

use std::collections::BTreeMap;

use ::s3::S3Settings;
use base::Duration;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::check::Finding;
use super::file::Class;
use super::value::Span;

/// `[s3]`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3 {
    /// The region that signatures are made for.
    #[serde(default = "region")]
    pub region: String,
    /// The domain below which the names of buckets stand; buckets are in the path without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// S3's storage classes and the classes here that they stand for.
    #[serde(default)]
    pub classes: BTreeMap<String, Spanned<String>>,
    /// The day that restores and rules of buckets count in.
    #[serde(default = "day")]
    pub day: Spanned<Span>,
    /// Whether large objects too get the MD5 as their ETag, whatever checksum the client sent.
    #[serde(default)]
    pub always_md5: bool,
}

impl Default for S3 {
    fn default() -> Self {
        S3 { region: region(), domain: None, classes: BTreeMap::new(), day: day(), always_md5: false }
    }
}

fn region() -> String {
    S3Settings::default().region
}

fn day() -> Spanned<Span> {
    Spanned::new(0..0, Span(S3Settings::default().day))
}

impl S3 {
    /// The settings of the S3 door.
    pub fn settings(&self) -> S3Settings {
        let S3 { region, domain, classes, day, always_md5 } = self;
        S3Settings {
            region: region.clone(),
            domain: domain.clone(),
            classes: classes.iter().map(|(name, class)| (name.clone(), class.get_ref().clone())).collect(),
            day: day.get_ref().0,
            always_md5: *always_md5,
            ..S3Settings::default()
        }
    }
}

/// Checks what types cannot say.
pub(super) fn check(s3: &S3, classes: &[Class]) -> Result<(), Finding> {
    if s3.day.get_ref().0 < Duration::from_secs(1) {
        return Err((s3.day.span(), "a day has at least 1s; usually it has 24h".to_owned()));
    }
    for class in s3.classes.values() {
        if !classes.iter().any(|one| one.name.get_ref() == class.get_ref()) {
            let known: Vec<&str> = classes.iter().map(|one| one.name.get_ref().as_str()).collect();
            let message = format!("there is no class '{}'; there are: {}", class.get_ref(), known.join(", "));
            return Err((class.span(), message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_classes_that_are_there() {
        let s3: S3 = toml::from_str("day = \"2s\"\nclasses = { GLACIER = \"tape\" }").unwrap();
        let settings = s3.settings();
        assert_eq!(settings.day, Duration::from_secs(2));
        assert_eq!(settings.classes, [("GLACIER".to_owned(), "tape".to_owned())]);
        let (_, message) = check(&s3, &[]).unwrap_err();
        assert!(message.contains("no class 'tape'"), "{message}");
        let short: S3 = toml::from_str("day = \"1ms\"").unwrap();
        assert!(check(&short, &[]).is_err());
        assert!(check(&S3::default(), &[]).is_ok());
        assert!(toml::from_str::<S3>("days = \"1s\"").is_err());
    }
}
