//! JSON bodies: bounded in size, time, memory and number of paths.

use std::fmt;

use archive::Selection;
use axum::body::Body;
use base::{ArchivePath, NameError};
use hyper::body::Body as _;
use serde::de::{DeserializeOwned, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use transfer::Place;

use crate::shared::Shared;
use entrance::percent::bad_path;
use entrance::{Call, Object};
use entrance::{Kind, Refusal};

/// A JSON body not yet parsed, with its share of the memory for large ones.
pub(crate) struct JsonBody {
    bytes: Vec<u8>,
    permit: Option<Place>,
    /// Whether what it is made into takes so much memory that its share is kept.
    is_list: bool,
}

impl JsonBody {
    /// Reads a whole body.
    pub(crate) async fn read(shared: &Shared, call: &Call, body: Body) -> Result<Self, Refusal> {
        let announced = body.size_hint().exact();
        let limit = shared.limits.json_bytes;
        if announced.is_some_and(|bytes| bytes > limit as u64) {
            return Err(too_long(limit));
        }
        let small = announced.is_some_and(|bytes| bytes <= shared.limits.json_small_bytes as u64);
        let permit = if small {
            None
        } else {
            Some(shared.admit(&shared.json_large, &call.holder().unpaced()).await?)
        };
        Self::whole(shared, call, body, limit, permit).await
    }

    /// Reads a whole body with a list of paths, which may be longer than others if it says how long it is.
    pub(crate) async fn read_list(shared: &Shared, call: &Call, body: Body) -> Result<Self, Refusal> {
        let announced = body.size_hint().exact();
        if announced.is_none_or(|bytes| bytes <= shared.limits.json_bytes as u64) {
            return Self::read(shared, call, body).await;
        }
        let limit = shared.limits.json_list_bytes;
        if announced.is_some_and(|bytes| bytes > limit as u64) {
            return Err(too_long(limit));
        }
        let permit = shared.admit(&shared.json_lists, &call.holder().unpaced()).await?;
        let body = Self::whole(shared, call, body, limit, Some(permit)).await?;
        Ok(JsonBody { is_list: true, ..body })
    }

    async fn whole(
        shared: &Shared,
        call: &Call,
        body: Body,
        limit: usize,
        permit: Option<Place>,
    ) -> Result<Self, Refusal> {
        let reading = tokio::time::timeout(
            shared.limits.json_deadline,
            entrance::whole(body, limit, call, || too_long(limit)),
        );
        let bytes = reading.await.map_err(|_| {
            let seconds = shared.limits.json_deadline.as_secs_f64();
            Refusal::new(Kind::Timeout, format!("the body was not there after {seconds} s"))
        })??;
        Ok(JsonBody { bytes, permit, is_list: false })
    }

    /// Gives the memory of the body back, and with it its share of the memory for large ones: but for a very
    /// long list, whose paths take as much.
    pub(crate) fn spent(self) -> Option<Place> {
        self.permit.filter(|_| self.is_list)
    }

    /// The value; an empty body is `{}`.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        let bytes = if self.bytes.is_empty() { b"{}" } else { self.bytes.as_slice() };
        let Object(value) =
            serde_json::from_slice(bytes).map_err(|error| Refusal::bad(format!("the JSON body: {error}")))?;
        Ok(value)
    }
}

fn too_long(limit: usize) -> Refusal {
    Refusal::new(
        Kind::Limit,
        format!("the JSON body is too long: the limit is {limit} bytes; send fewer paths"),
    )
}

/// Most paths that any list keeps while it is parsed, so that a body of empty strings cannot grow in memory.
/// The limit of the settings is checked afterwards.
const PATHS_PARSED_MAX: usize = 200_000;

/// A list of paths, checked as it is parsed.
#[derive(Debug, Default)]
pub(crate) struct PathList {
    paths: Vec<ArchivePath>,
    count: usize,
    refused: Option<NameError>,
}

impl PathList {
    /// The paths, if all are well-formed and not more than `limit`.
    pub(crate) fn checked(self, limit: usize) -> Result<Vec<ArchivePath>, Refusal> {
        let limit = limit.min(PATHS_PARSED_MAX);
        if self.count > limit {
            let detail =
                format!("{} paths in one request: the limit is {limit}; send several requests", self.count);
            return Err(Refusal::new(Kind::Limit, detail));
        }
        match self.refused {
            Some(error) => Err(bad_path(error)),
            None => Ok(self.paths),
        }
    }
}

impl<'de> Deserialize<'de> for PathList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;

        impl<'de> Visitor<'de> for List {
            type Value = PathList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of paths")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<PathList, A::Error> {
                let mut out = PathList::default();
                loop {
                    if out.count > PATHS_PARSED_MAX || out.refused.is_some() {
                        if list.next_element::<IgnoredAny>()?.is_none() {
                            return Ok(out);
                        }
                    } else {
                        let Some(text) = list.next_element::<String>()? else { return Ok(out) };
                        match ArchivePath::new(&text) {
                            Ok(path) => out.paths.push(path),
                            Err(error) => out.refused = Some(error),
                        }
                    }
                    out.count += 1;
                }
            }
        }

        deserializer.deserialize_seq(List)
    }
}

/// `wire::SelectionBody` as the door reads it.
#[derive(Debug, Deserialize)]
pub(crate) struct SelectionInput {
    paths: PathList,
    #[serde(default)]
    recursive: bool,
    /// For how long to pin.
    #[serde(default)]
    pub pin_seconds: Option<u64>,
    /// How urgent it is.
    #[serde(default)]
    pub priority: Option<u8>,
}

impl SelectionInput {
    /// The selection, if there is at least one path and not more than `limit`.
    pub(crate) fn selection(self, limit: usize) -> Result<Selection, Refusal> {
        let paths = self.paths.checked(limit)?;
        if paths.is_empty() {
            return Err(Refusal::bad("the list of paths is empty: name at least one"));
        }
        Ok(Selection { paths, recursive: self.recursive })
    }
}

/// `wire::ReleaseBody` as the door reads it.
#[derive(Debug, Deserialize)]
pub(crate) struct ReleaseInput {
    /// Which files; `None`: all.
    #[serde(default)]
    pub paths: Option<PathList>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_the_client_writes_is_what_the_door_reads() {
        let body = wire::SelectionBody {
            paths: vec!["/a".into(), "/b c\n".into()],
            recursive: true,
            pin_seconds: Some(7),
            priority: Some(9),
        };
        let input: SelectionInput = serde_json::from_str(&serde_json::to_string(&body).unwrap()).unwrap();
        assert_eq!((input.pin_seconds, input.priority), (Some(7), Some(9)));
        let selection = input.selection(2).unwrap();
        assert!(selection.recursive);
        assert_eq!(selection.paths.iter().map(ArchivePath::as_str).collect::<Vec<_>>(), ["/a", "/b c\n"]);
        let body = wire::ReleaseBody { paths: Some(vec!["/a".into()]) };
        let input: ReleaseInput = serde_json::from_str(&serde_json::to_string(&body).unwrap()).unwrap();
        assert_eq!(input.paths.unwrap().checked(1).unwrap().len(), 1);
    }

    #[test]
    fn lists_are_limited_and_checked() {
        let read = |text: &str, limit| serde_json::from_str::<PathList>(text).unwrap().checked(limit);
        assert_eq!(read(r#"["/a","/b"]"#, 2).unwrap().len(), 2);
        assert_eq!(read(r#"["/a","/b","/c"]"#, 2).unwrap_err().kind(), Kind::Limit);
        assert_eq!(read(r#"["/a","/b/../c"]"#, 2).unwrap_err().kind(), Kind::BadPath);
        // Both wrong: the limit comes first, since the rest is not parsed.
        assert_eq!(read(r#"["a",1,{}]"#, 2).unwrap_err().kind(), Kind::Limit);
    }

    proptest! {
        #[test]
        fn any_body_is_read_or_refused(text in "[\\[\\]{}\",:/a.0-9 pths]{0,60}") {
            let _ = serde_json::from_str::<SelectionInput>(&text).map(|input| input.selection(3));
        }
    }
}
