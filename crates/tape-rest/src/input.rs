//! What clients send: JSON with lists of paths.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use archive::SubmittedPath;
use base::PATH_BYTES_MAX;
use catalogue::{PRIORITY_USUAL, REQUEST_PATHS_MAX};
use entrance::{Kind, Object, Refusal};
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::hints::{Hints, lifetime};
use crate::settings::TapeRestSettings;
use entrance::iso_duration::parse;

/// What is to be brought.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stage {
    /// The paths, each with its pin.
    pub paths: Vec<SubmittedPath>,
    /// How urgent the most urgent of them is.
    pub priority: u8,
}

/// Reads `{"files": [{"path": ..., "diskLifetime": ..., "targetedMetadata": ...}]}`.
///
/// # Errors
/// 400 for what is no such thing, 413 for more files than a request takes.
pub(crate) fn stage(body: &[u8], settings: &TapeRestSettings) -> Result<Stage, Refusal> {
    let Object(input): Object<StageInput<'_>> = read(body, settings)?;
    if input.files.count == 0 {
        return Err(Refusal::bad("the list 'files' is empty: name at least one file"));
    }
    if input.files.count > REQUEST_PATHS_MAX as usize {
        let detail = format!(
            "{} files in one request: the limit is {REQUEST_PATHS_MAX}; send several requests",
            input.files.count
        );
        return Err(Refusal::new(Kind::Limit, detail));
    }
    let mut priority = None;
    let mut paths = Vec::with_capacity(input.files.items.len());
    for Object(file) in input.files.items {
        let pin = match file.disk_lifetime {
            None => None,
            Some(text) => Some(parse(&text).ok_or_else(|| {
                Refusal::bad(format!("diskLifetime '{}' is no duration such as PT1H", shortened(&text)))
            })?),
        };
        if let Some(metadata) = file.targeted_metadata.filter(|metadata| metadata.get() != "null") {
            let hints = Hints::read(metadata, &settings.sitename)
                .ok_or_else(|| Refusal::bad("targetedMetadata is no object, or says something twice"))?;
            priority = priority.max(hints.priority(settings));
        }
        paths.push(SubmittedPath::new(path(file.path)?, lifetime(pin, settings)));
    }
    Ok(Stage { paths, priority: priority.unwrap_or(PRIORITY_USUAL) })
}

/// Reads `{"paths": [...]}`; of more than a request takes, only so many, and how many there are.
///
/// # Errors
/// 400 for what is no such thing.
pub(crate) fn paths(
    body: &[u8],
    settings: &TapeRestSettings,
) -> Result<(Vec<SubmittedPath>, usize), Refusal> {
    let Object(input): Object<PathsInput<'_>> = read(body, settings)?;
    let count = input.paths.count;
    let paths = input.paths.items.into_iter().take(REQUEST_PATHS_MAX as usize);
    let paths = paths.map(|Text(text)| Ok(SubmittedPath::new(path(text)?, None)));
    Ok((paths.collect::<Result<_, Refusal>>()?, count))
}

fn read<'de, T: Deserialize<'de>>(body: &'de [u8], settings: &TapeRestSettings) -> Result<T, Refusal> {
    let most = settings.limits.nesting;
    if nesting(body) > most {
        return Err(Refusal::bad(format!("the JSON body is nested more than {most} deep")));
    }
    serde_json::from_slice(body).map_err(|error| Refusal::bad(format!("the JSON body: {error}")))
}

fn path(text: Cow<'_, str>) -> Result<String, Refusal> {
    if text.len() > PATH_BYTES_MAX {
        return Err(Refusal::bad(format!("a path has {} bytes: the limit is {PATH_BYTES_MAX}", text.len())));
    }
    Ok(text.into_owned())
}

/// The first characters of a text, for an error.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// How deep the brackets of a body stand in each other, outside of texts. Of what is no JSON it is some
/// number not below that.
pub(crate) fn nesting(body: &[u8]) -> usize {
    let (mut depth, mut most, mut in_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in body {
        match (in_text, *byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b'[' | b'{') => {
                depth += 1;
                most = depth.max(most);
            }
            (false, b']' | b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[derive(Deserialize)]
struct StageInput<'a> {
    #[serde(borrow)]
    files: List<Object<FileInput<'a>>>,
}

#[derive(Deserialize)]
struct FileInput<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
    #[serde(borrow, default, rename = "diskLifetime")]
    disk_lifetime: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "targetedMetadata")]
    targeted_metadata: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct PathsInput<'a> {
    #[serde(borrow)]
    paths: List<Text<'a>>,
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A list of which no more is kept than a request takes, and one: the memory for it is bounded by the bytes
/// that came.
struct List<T> {
    items: Vec<T>,
    count: usize,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Items<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Items<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<List<T>, A::Error> {
                let mut out = List { items: Vec::new(), count: 0 };
                loop {
                    if out.count > REQUEST_PATHS_MAX as usize {
                        if list.next_element::<IgnoredAny>()?.is_none() {
                            return Ok(out);
                        }
                    } else {
                        let Some(item) = list.next_element()? else { return Ok(out) };
                        out.items.push(item);
                    }
                    out.count += 1;
                }
            }
        }

        deserializer.deserialize_seq(Items(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Duration;
    use proptest::prelude::*;

    fn read_stage(body: &str) -> Result<Stage, Refusal> {
        stage(body.as_bytes(), &TapeRestSettings::default())
    }

    #[test]
    fn a_submission_is_read() {
        let read = read_stage(
            r#"{"files":[
                {"path":"//a//b","diskLifetime":"PT1H","targetedMetadata":{"default":{"priority":"80"}}},
                {"path":"/c","targetedMetadata":{"elsewhere":{"x":[1,2]}},"unknown":{"a":null},
                    "diskLifetime":null},
                {"path":"d","targetedMetadata":null,"diskLifetime":"P99Y"}
            ],"more":1}"#,
        )
        .unwrap();
        let pins: Vec<_> = read.paths.iter().map(|path| path.pin.map(|pin| pin.as_secs())).collect();
        assert_eq!((read.priority, pins), (7, vec![Some(3_600), None, Some(30 * 86_400)]));
        let keys: Vec<_> = read.paths.iter().map(|path| (path.text.as_str(), path.key())).collect();
        assert_eq!(keys, [("//a//b", "/a/b"), ("/c", "/c"), ("d", "d")]);
        assert!(read.paths[2].path.is_err());
        assert_eq!(read.paths[0].pin, Some(Duration::from_secs(3_600)));
    }

    #[test]
    fn what_is_no_submission_is_refused() {
        for body in [
            "",
            "{}",
            "null",
            "[]",
            "7",
            r#"{"files":[]}"#,
            r#"{"files":null}"#,
            r#"{"files":{}}"#,
            r#"{"files":"/a"}"#,
            r#"{"files":["/a"]}"#,
            r#"{"files":[null]}"#,
            r#"{"files":[{}]}"#,
            r#"{"files":[["/a",null,null]]}"#,
            r#"[[{"path":"/a"}]]"#,
            r#"{"files":[{"path":7}]}"#,
            r#"{"files":[{"path":null}]}"#,
            r#"{"files":[{"path":["/a"]}]}"#,
            r#"{"files":[{"path":"/a","path":"/b"}]}"#,
            r#"{"files":[{"path":"/a"}],"files":[{"path":"/b"}]}"#,
            r#"{"files":[{"path":"/a","diskLifetime":3600}]}"#,
            r#"{"files":[{"path":"/a","diskLifetime":"3600"}]}"#,
            r#"{"files":[{"path":"/a","diskLifetime":"-PT1H"}]}"#,
            r#"{"files":[{"path":"/a","targetedMetadata":7}]}"#,
            r#"{"files":[{"path":"/a","targetedMetadata":{"default":{},"default":{}}}]}"#,
            r#"{"files":[{"path":"/a"}]} trailing"#,
            r#"{"files":[{"path":"/a"}]"#,
            "{\"files\":[{\"path\":\"/a\u{1}\"}]}",
        ] {
            let refusal = read_stage(body).expect_err(body);
            assert_eq!(refusal.kind(), Kind::BadRequest, "{body}: {}", refusal.detail());
        }
        let invalid = stage(b"{\"files\":[{\"path\":\"/\xff\"}]}", &TapeRestSettings::default());
        assert_eq!(invalid.expect_err("no UTF-8").kind(), Kind::BadRequest);
    }

    #[test]
    fn as_many_files_as_a_request_takes_and_one_more() {
        let body = |count: u32| {
            let files: Vec<_> = (0..count).map(|n| format!(r#"{{"path":"/{n}"}}"#)).collect();
            format!(r#"{{"files":[{}]}}"#, files.join(","))
        };
        assert_eq!(read_stage(&body(REQUEST_PATHS_MAX)).unwrap().paths.len(), REQUEST_PATHS_MAX as usize);
        assert_eq!(read_stage(&body(REQUEST_PATHS_MAX + 1)).expect_err("too many").kind(), Kind::Limit);
        let list = |count: u32| {
            let paths: Vec<_> = (0..count).map(|n| format!(r#""/{n}""#)).collect();
            format!(r#"{{"paths":[{}]}}"#, paths.join(","))
        };
        for count in [REQUEST_PATHS_MAX, REQUEST_PATHS_MAX + 1, REQUEST_PATHS_MAX + 500] {
            let (read, counted) = paths(list(count).as_bytes(), &TapeRestSettings::default()).unwrap();
            assert_eq!((read.len(), counted), (REQUEST_PATHS_MAX as usize, count as usize));
        }
    }

    #[test]
    fn paths_are_as_long_as_they_may_be_and_no_longer() {
        let body = |bytes: usize| format!(r#"{{"files":[{{"path":"/{}"}}]}}"#, "a".repeat(bytes - 1));
        assert_eq!(read_stage(&body(PATH_BYTES_MAX)).unwrap().paths.len(), 1);
        assert_eq!(read_stage(&body(PATH_BYTES_MAX + 1)).expect_err("too long").kind(), Kind::BadRequest);
    }

    #[test]
    fn bodies_are_nested_as_deep_as_they_may_be_and_no_deeper() {
        let most = TapeRestSettings::default().limits.nesting;
        // Three levels stand around it.
        let body = |depth: usize| {
            let (open, close) = ("[".repeat(depth), "]".repeat(depth));
            format!(r#"{{"files":[{{"path":"/a","x":{open}{close}}}]}}"#)
        };
        assert!(read_stage(&body(most - 3)).is_ok());
        assert!(read_stage(&body(most - 2)).expect_err("too deep").detail().contains("nested"));
        assert!(read_stage(&body(1_000_000)).expect_err("too deep").detail().contains("nested"));
        assert!(read_stage(r#"{"files":[{"path":"/[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"[["}]}"#).is_ok());
    }

    proptest! {
        #[test]
        fn any_body_is_read_or_refused(text in "[\\[\\]{}\",:/a.0-9 pathsfile]{0,80}") {
            let _ = read_stage(&text);
            let _ = paths(text.as_bytes(), &TapeRestSettings::default());
        }
    }
}
