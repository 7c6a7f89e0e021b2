//! Metadata for this site: how urgent a file is. All else that clients write there is passed over.

use std::fmt;

use base::Duration;
use catalogue::PRIORITY_MAX;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::settings::TapeRestSettings;

/// The key under which metadata is for whatever site reads it (Rucio writes no other).
const ANY_SITE: &str = "default";
/// Longest text that is kept of a value.
const TEXT_BYTES_MAX: usize = 256;
/// The most urgent priority as clients count.
const CLIENTS_PRIORITY_MAX: u64 = 100;

/// What is read of metadata: that for this site counts before that for any.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Hints {
    site: Named,
    any: Named,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Named {
    /// From 0 to 100.
    priority: Option<u64>,
    activity: Option<String>,
}

impl Hints {
    /// What metadata says to this site; `None`: it is no object, or names something twice.
    pub(crate) fn read(metadata: &RawValue, sitename: &str) -> Option<Hints> {
        let mut input = serde_json::Deserializer::from_str(metadata.get());
        Sites { sitename }.deserialize(&mut input).ok()
    }

    /// How urgent the file is, from 0 to [`PRIORITY_MAX`]; `None`: nothing is said.
    pub(crate) fn priority(&self, settings: &TapeRestSettings) -> Option<u8> {
        let of = |named: &Named| {
            let said = named.priority.map(scaled);
            said.or_else(|| settings.activities.get(named.activity.as_deref()?).copied())
        };
        of(&self.site).or_else(|| of(&self.any)).map(|priority| priority.min(PRIORITY_MAX))
    }
}

/// From 0 to 100 as clients count, to 0 to 9; the middle is the usual one.
fn scaled(priority: u64) -> u8 {
    let most = u64::from(PRIORITY_MAX);
    let scaled =
        (priority.min(CLIENTS_PRIORITY_MAX) * most + CLIENTS_PRIORITY_MAX / 2) / CLIENTS_PRIORITY_MAX;
    u8::try_from(scaled).unwrap_or(PRIORITY_MAX)
}

/// For how long a file is pinned, of what was asked for.
pub(crate) fn lifetime(asked: Option<Duration>, settings: &TapeRestSettings) -> Option<Duration> {
    asked.map(|asked| asked.min(settings.lifetime_max))
}

/// The object of metadata: one member for each site that it is for.
struct Sites<'s> {
    sitename: &'s str,
}

impl<'de> DeserializeSeed<'de> for Sites<'_> {
    type Value = Hints;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Hints, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Sites<'_> {
    type Value = Hints;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a member for each site")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Hints, A::Error> {
        let (mut site, mut any) = (None, None);
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            let place = match &*key {
                key if key == self.sitename => &mut site,
                ANY_SITE => &mut any,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if place.replace(map.next_value::<Site>()?.0).is_some() {
                return Err(A::Error::custom("it names a site twice"));
            }
        }
        Ok(Hints { site: site.unwrap_or_default(), any: any.unwrap_or_default() })
    }
}

/// What one site is told; whatever is no object says nothing.
struct Site(Named);

impl<'de> Deserialize<'de> for Site {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Known {
            #[serde(default)]
            priority: Text,
            #[serde(default)]
            activity: Text,
        }
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if !raw.get().starts_with('{') {
            return Ok(Site(Named::default()));
        }
        let known: Known = serde_json::from_str(raw.get()).map_err(D::Error::custom)?;
        let priority = known.priority.0.and_then(|text| text.trim().parse().ok());
        Ok(Site(Named { priority, activity: known.activity.0 }))
    }
}

/// A short text, or a number as a text; `None`: something else.
#[derive(Default)]
struct Text(Option<String>);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
                Ok(Text((text.len() <= TEXT_BYTES_MAX).then(|| text.to_owned())))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Text, E> {
                Ok(Text(Some(number.to_string())))
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Text, E> {
                Ok(Text(None))
            }

            fn visit_f64<E: Error>(self, _: f64) -> Result<Text, E> {
                Ok(Text(None))
            }

            fn visit_bool<E: Error>(self, _: bool) -> Result<Text, E> {
                Ok(Text(None))
            }

            fn visit_unit<E: Error>(self) -> Result<Text, E> {
                Ok(Text(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Text, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Text(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Text(None))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn priority(metadata: &str) -> Option<Option<u8>> {
        let settings = TapeRestSettings {
            sitename: "KIST-SITE".into(),
            activities: [("Production Input".to_owned(), 7), ("Debug".to_owned(), 200)].into(),
            ..TapeRestSettings::default()
        };
        let metadata = RawValue::from_string(metadata.to_owned()).unwrap();
        Hints::read(&metadata, "KIST-SITE").map(|hints| hints.priority(&settings))
    }

    #[test]
    fn the_site_counts_before_any_and_others_for_nothing() {
        for (metadata, found) in [
            (r"{}", None),
            (r#"{"default":{"priority":"100"}}"#, Some(9)),
            (r#"{"default":{"priority":0},"elsewhere":{"priority":100}}"#, Some(0)),
            (r#"{"default":{"priority":"100"},"KIST-SITE":{"priority":"50"}}"#, Some(5)),
            (r#"{"default":{"priority":"100"},"KIST-SITE":{"unknown":[1,{"a":2}]}}"#, Some(9)),
            (r#"{"default":{"activity":"Production Input"}}"#, Some(7)),
            (r#"{"default":{"activity":"Production Input","priority":"10"}}"#, Some(1)),
            (r#"{"default":{"activity":"Debug"}}"#, Some(9)),
            (r#"{"default":{"activity":"unheard of"}}"#, None),
            (r#"{"elsewhere":{"priority":100}}"#, None),
        ] {
            assert_eq!(priority(metadata), Some(found), "{metadata}");
        }
    }

    /// Metadata that cannot be understood says nothing: it must not keep a file from coming.
    #[test]
    fn values_of_other_types_say_nothing() {
        let odd =
            ["null", "true", "[]", "[[1]]", "{}", r#"{"a":{"b":1}}"#, "-3", "1.5", r#""urgent""#, r#""""#];
        for value in odd {
            assert_eq!(priority(&format!(r#"{{"default":{{"priority":{value}}}}}"#)), Some(None), "{value}");
            assert_eq!(priority(&format!(r#"{{"default":{{"activity":{value}}}}}"#)), Some(None), "{value}");
            assert_eq!(priority(&format!(r#"{{"default":{value}}}"#)), Some(None), "{value}");
        }
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        assert_eq!(priority(&format!(r#"{{"default":{{"activity":"{long}"}}}}"#)), Some(None));
    }

    #[test]
    fn what_is_said_twice_is_refused() {
        for metadata in [
            r#"{"default":{"priority":1},"default":{"priority":2}}"#,
            r#"{"KIST-SITE":{"priority":1},"KIST-SITE":{}}"#,
            r#"{"default":{"priority":1,"priority":2}}"#,
            r"[]",
            r#""default""#,
            r"7",
        ] {
            assert_eq!(priority(metadata), None, "{metadata}");
        }
    }

    #[test]
    fn the_middle_of_the_clients_priorities_is_the_usual_one() {
        assert_eq!([0, 49, 50, 100, u64::MAX].map(scaled), [0, 4, 5, 9, 9]);
        assert_eq!(scaled(50), catalogue::PRIORITY_USUAL);
    }
}
