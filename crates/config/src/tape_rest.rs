//! `[tape_rest]`: what the Tape REST API says of the site.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tape_rest::TapeRestSettings;
use toml::Spanned;

use super::check::Finding;
use super::value::Span;

/// The highest priority of a request.
const PRIORITY_MAX: u8 = 9;

/// `[tape_rest]`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TapeRest {
    /// The name of the site, by which clients address metadata to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sitename: Option<Spanned<String>>,
    /// What the discovery says of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What stands before the path in addresses that clients are told; without it the host that they wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub public_url: Option<Spanned<String>>,
    /// For how long files are pinned once online, if the client says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Spanned<Span>>,
    /// The longest time for which files are pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_max: Option<Spanned<Span>>,
    /// The priority of each activity of the clients, from 0 to 9.
    #[serde(default)]
    pub activities: BTreeMap<String, Spanned<u8>>,
}

impl TapeRest {
    /// The settings of the door.
    #[must_use]
    pub fn settings(&self) -> TapeRestSettings {
        let TapeRest { sitename, description, public_url, lifetime, lifetime_max, activities } = self;
        let usual = TapeRestSettings::default();
        TapeRestSettings {
            sitename: sitename.as_ref().map_or(usual.sitename, |name| name.get_ref().clone()),
            description: description.clone(),
            public_url: public_url.as_ref().map(|url| url.get_ref().trim_end_matches('/').to_owned()),
            lifetime: lifetime.as_ref().map_or(usual.lifetime, |span| span.get_ref().0),
            lifetime_max: lifetime_max.as_ref().map_or(usual.lifetime_max, |span| span.get_ref().0),
            activities: activities
                .iter()
                .map(|(name, priority)| (name.clone(), *priority.get_ref()))
                .collect(),
            limits: usual.limits,
        }
    }
}

/// Checks what types cannot say.
pub(super) fn check(tape_rest: &TapeRest) -> Result<(), Finding> {
    let TapeRest { sitename, public_url, lifetime, lifetime_max, activities, description: _ } = tape_rest;
    if let Some(name) = sitename.as_ref().filter(|name| name.get_ref().is_empty()) {
        return Err((name.span(), "the name of the site is empty".to_owned()));
    }
    let is_url = |url: &str| {
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(['?', '#', ' ']))
    };
    if let Some(url) = public_url.as_ref().filter(|url| !is_url(url.get_ref())) {
        let message = format!("'{}' is no address such as https://tape.example.org:8443", url.get_ref());
        return Err((url.span(), message));
    }
    if let (Some(span), Some(most)) = (lifetime, lifetime_max)
        && span.get_ref().0 > most.get_ref().0
    {
        return Err((span.span(), "lifetime is longer than lifetime_max".to_owned()));
    }
    match activities.values().find(|priority| *priority.get_ref() > PRIORITY_MAX) {
        Some(priority) => Err((priority.span(), format!("a priority is a number from 0 to {PRIORITY_MAX}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use base::Duration;

    use super::*;

    #[test]
    fn settings_are_read_and_checked() {
        let text = "sitename = \"KIT\"\npublic_url = \"https://tape.example.org/\"\nlifetime = \"2h\"\n\
                    activities = { \"T0 Export\" = 7 }";
        let tape_rest: TapeRest = toml::from_str(text).unwrap();
        check(&tape_rest).unwrap();
        let settings = tape_rest.settings();
        assert_eq!(settings.sitename, "KIT");
        assert_eq!(settings.public_url.as_deref(), Some("https://tape.example.org"));
        assert_eq!(settings.lifetime, Duration::from_secs(7200));
        assert_eq!(settings.activities["T0 Export"], 7);
        for wrong in [
            "sitename = \"\"",
            "public_url = \"tape.example.org\"",
            "lifetime = \"2h\"\nlifetime_max = \"1h\"",
            "activities = { a = 10 }",
        ] {
            assert!(check(&toml::from_str(wrong).unwrap()).is_err(), "{wrong}");
        }
    }
}
