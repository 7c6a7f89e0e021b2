//! Several ranges of a file in one answer (`multipart/byteranges`), as vector reads of ROOT and davix ask for
//! them.

use archive::{ArchiveError, FileStat};
use authority::{Bytes as _, Download};
use base::{FileId, Uuid};
use bytes::Bytes;
use entrance::headers::{Range, range};
use entrance::{Kind, Plan, Refusal, unsatisfied};
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE};
use http::{HeaderValue, Response, StatusCode};

use crate::answer::Answer;
use crate::context::Asked;
use crate::digests::Wanted;
use crate::get::headers;
use crate::pages::{Gone, Out, written};
use crate::properties::content_type;

/// Parts, in the order in which they were asked for.
pub(crate) type Several = Vec<(u64, u64)>;

/// The parts that a header with several ranges asks for. Those that touch no byte are left out.
///
/// # Errors
/// If there are more than `limit`, none touches the file, or they overlap so much that more than the file
/// would be sent.
pub(crate) fn several(value: &[u8], size: u64, limit: usize) -> Result<Option<Several>, Refusal> {
    let Some(text) = std::str::from_utf8(value).ok().and_then(|text| text.split_once('=')) else {
        return Ok(None);
    };
    let (unit, specs) = text;
    let (mut parts, mut total, mut count) = (Vec::new(), 0u64, 0usize);
    for spec in specs.split(',') {
        count += 1;
        if count > limit {
            let detail = format!("more than {limit} ranges are asked for at once");
            return Err(Refusal::new(Kind::Range, detail).with(CONTENT_RANGE, unsatisfied(size)));
        }
        match range(format!("{unit}={}", spec.trim()).as_bytes(), size) {
            // Malformed ones are passed over as a whole (RFC 9110, 14.2).
            Range::Whole => return Ok(None),
            Range::Unsatisfiable => {}
            Range::Part { offset, length } => {
                total = total.saturating_add(length);
                parts.push((offset, length));
            }
        }
    }
    if parts.is_empty() || total > size {
        let detail = if parts.is_empty() {
            format!("no range touches a byte of the file, which has {size} bytes")
        } else {
            "the ranges overlap: together they have more bytes than the file".to_owned()
        };
        return Err(Refusal::new(Kind::Range, detail).with(CONTENT_RANGE, unsatisfied(size)));
    }
    Ok(Some(parts))
}

/// Sends them. Each part is opened anew: the answer ends early if the name stands for another file by then.
pub(crate) async fn send(asked: &Asked, stat: FileStat, parts: Several) -> Answer {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(|_| ArchiveError::NoEntropy)?;
    let boundary = Uuid::from_random(random).to_string();
    let kind = content_type(&stat.attributes.xattrs).to_owned();
    let heads: Vec<String> = parts.iter().map(|part| head(&boundary, &kind, *part, stat.size.0)).collect();
    let end = format!("\r\n--{boundary}--\r\n");
    let length = heads.iter().map(|head| head.len() as u64).sum::<u64>()
        + parts.iter().map(|(_, length)| length).sum::<u64>()
        + end.len() as u64;
    let plan = Plan { status: StatusCode::PARTIAL_CONTENT, part: None, length };
    let mut headers = headers(&plan, &stat, &Wanted::of(&asked.parts.headers), None);
    if let Ok(kind) = HeaderValue::from_str(&format!("multipart/byteranges; boundary={boundary}")) {
        headers.insert(CONTENT_TYPE, kind);
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    let file = stat.file;
    let first = parts.first().copied();
    // What cannot be had at all is refused in words.
    let prepare = move |asked: &Asked| Ok(first.map(|part| open(asked, file, part)).transpose()?);
    let write = move |asked: &Asked, mut opened: Option<Box<dyn Download>>, out: &mut Out| {
        let failed = |error: ArchiveError| {
            tracing::info!(path = %asked.target.path, %error, "an answer with ranges was broken off");
            Gone
        };
        for (part, head) in parts.into_iter().zip(heads) {
            out.push(&head)?;
            let mut download = match opened.take() {
                Some(download) => download,
                None => open(asked, file, part).map_err(failed)?,
            };
            while let Some(bytes) = download.next().map_err(failed)? {
                out.push_bytes(Bytes::copy_from_slice(&bytes))?;
            }
        }
        out.push(&end)
    };
    // It takes as long as its client does, as every body: it is no reason for listings to wait.
    let place = asked.context.transfers.admit(&asked.holder()).await?;
    let body = written(asked, place, prepare, write).await?;
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    *response.headers_mut() = headers;
    Ok(response)
}

/// Opens a part of the file, if its name stands for that still.
fn open(
    asked: &Asked,
    file: FileId,
    (offset, length): (u64, u64),
) -> Result<Box<dyn Download>, ArchiveError> {
    let mut download = asked.engine.open_read_for(&asked.target.path, &asked.call.principal.name)?;
    if download.stat().file != file {
        return Err(ArchiveError::TreeChanges);
    }
    download.select(offset, length)?;
    Ok(download)
}

fn head(boundary: &str, kind: &str, (offset, length): (u64, u64), size: u64) -> String {
    let last = offset + length - 1;
    format!("\r\n--{boundary}\r\nContent-Type: {kind}\r\nContent-Range: bytes {offset}-{last}/{size}\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn several_ranges_are_read() {
        let read = |text: &str| several(text.as_bytes(), 100, 4);
        assert_eq!(read("bytes=0-1, 5-9").unwrap(), Some(vec![(0, 2), (5, 5)]));
        assert_eq!(read("bytes=-1,0-0,500-").unwrap(), Some(vec![(99, 1), (0, 1)]));
        assert_eq!(read("bytes=0-1,x").unwrap(), None);
        assert_eq!(read("rows=0-1,2-3").unwrap(), None);
        for bad in ["bytes=0-,0-", "bytes=100-,200-", "bytes=0-0,1-1,2-2,3-3,4-4"] {
            assert_eq!(read(bad).unwrap_err().kind(), Kind::Range, "{bad}");
        }
        assert!(read("bytes=0-0,1-1,2-2,3-3").unwrap().is_some());
    }

    proptest! {
        #[test]
        fn parts_lie_within_the_file(text in "(bytes=)?([0-9]{0,3}-[0-9]{0,3},? ?){0,6}", size in 0u64..200) {
            if let Ok(Some(parts)) = several(text.as_bytes(), size, 8) {
                prop_assert!(parts.iter().all(|(offset, length)| *length > 0 && offset + length <= size));
            }
        }
    }
}
