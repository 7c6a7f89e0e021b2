//! `PROPFIND`: properties of a file, a directory and what is in it, or a whole tree.

use archive::{ArchiveError, Stat};
use authority::Namespace;
use base::ArchivePath;
use bytes::Bytes;
use entrance::Refusal;
use http::header::{CONTENT_TYPE, HeaderName};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use transfer::RequestBody;

use crate::address::href;
use crate::answer::{Answer, Failure, with_body};
use crate::context::Asked;
use crate::pages::{Gone, Out, written};
use crate::properties::{self, Resource, Wanted, needs_room};
use crate::tree::small_body;
use crate::xml::{Element, QName, XML_TYPE, escape, parse};

/// Lines of a directory that are read at once.
const PAGE: usize = 500;
/// Bytes of the paths of directories that wait to be listed.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// What stands around the lines of an answer.
const BEGIN: &str =
    "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\" xmlns:K=\"urn:kist\">\n";
const END: &str = "</D:multistatus>\n";

/// How deep a method goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Depth {
    Zero,
    One,
    Infinity,
}

impl Depth {
    /// Of the header; `None` if there is none.
    ///
    /// # Errors
    /// If it is something else.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Depth>, Refusal> {
        let Some(value) = entrance::headers::single(headers, &HeaderName::from_static("depth"))? else {
            return Ok(None);
        };
        match value.as_bytes().trim_ascii() {
            b"0" => Ok(Some(Depth::Zero)),
            b"1" => Ok(Some(Depth::One)),
            other if other.eq_ignore_ascii_case(b"infinity") => Ok(Some(Depth::Infinity)),
            _ => Err(Refusal::bad("the header Depth is neither 0 nor 1 nor infinity")),
        }
    }
}

pub(crate) async fn propfind(asked: &Asked, body: RequestBody) -> Answer {
    let depth = Depth::of(&asked.parts.headers)?.unwrap_or(Depth::Infinity);
    let body = small_body(asked, body).await?;
    let wanted = wanted(&body, asked.context.settings.limits.properties)?;
    if depth == Depth::Zero {
        // Who asks about one name does not wait for those who list trees.
        let told = asked.run(move |asked: &Asked| -> Result<String, Failure> {
            let first = Resource::of_stat(asked.engine.stat(&asked.target.path)?);
            let line = Walk { asked, wanted, written: 0 }.line(first);
            Ok(format!("{BEGIN}{line}{END}"))
        });
        return Ok(with_body(StatusCode::MULTI_STATUS, XML_TYPE, told.await?));
    }
    let prepare = move |asked: &Asked| Ok(asked.engine.stat(&asked.target.path)?);
    let write =
        move |asked: &Asked, stat, out: &mut Out| Walk { asked, wanted, written: 0 }.run(stat, depth, out);
    let body = written(asked, asked.place_for_long().await?, prepare, write).await?;
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::MULTI_STATUS;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(XML_TYPE));
    Ok(response)
}

/// What a body asks for; none asks for all.
pub(crate) fn wanted(body: &Bytes, limit: usize) -> Result<Wanted, Refusal> {
    if body.is_empty() {
        return Ok(Wanted::All(Vec::new()));
    }
    let root =
        parse(body).map_err(|error| Refusal::bad(format!("the body cannot be read as XML: {error}")))?;
    if !root.name.is_dav("propfind") {
        return Err(Refusal::bad("the body is no propfind of the namespace DAV:"));
    }
    let names = |element: &Element| -> Result<Vec<QName>, Refusal> {
        let count = element.elements().count();
        if count > limit {
            return Err(Refusal::bad(format!("{count} properties are named; the limit is {limit}")));
        }
        Ok(element.elements().map(|name| name.name.clone()).collect())
    };
    match (root.dav("prop"), root.dav("propname"), root.dav("allprop")) {
        (Some(prop), None, None) => Ok(Wanted::These(names(prop)?)),
        (None, Some(_), None) => Ok(Wanted::Names),
        (None, None, Some(_)) => {
            Ok(Wanted::All(root.dav("include").map(names).transpose()?.unwrap_or_default()))
        }
        _ => Err(Refusal::bad("a propfind has one of prop, propname and allprop")),
    }
}

/// Directories that are to be listed yet.
#[derive(Default)]
struct Waiting {
    paths: Vec<ArchivePath>,
    bytes: usize,
}

impl Waiting {
    fn push(&mut self, path: ArchivePath) {
        self.bytes += path.as_str().len() + size_of::<ArchivePath>();
        self.paths.push(path);
    }

    fn pop(&mut self) -> Option<ArchivePath> {
        let path = self.paths.pop()?;
        self.bytes -= path.as_str().len() + size_of::<ArchivePath>();
        Some(path)
    }

    fn is_full(&self) -> bool {
        self.bytes > WAITING_BYTES_MAX
    }
}

/// One answer in the making.
struct Walk<'a> {
    asked: &'a Asked,
    wanted: Wanted,
    written: usize,
}

impl Walk<'_> {
    fn run(mut self, stat: Stat, depth: Depth, out: &mut Out) -> Result<(), Gone> {
        out.push(BEGIN)?;
        let first = Resource::of_stat(stat);
        let mut waiting = Waiting::default();
        if first.is_directory {
            waiting.push(first.path.clone());
        }
        self.write(first, out)?;
        while let Some(directory) = waiting.pop() {
            if let Err(failure) = self.list(&directory, depth, &mut waiting, out)? {
                // Listings of what has gone meanwhile, or may not be listed, do not end those of others.
                status_line(out, &href(&directory, true), failure.status(), "")?;
            }
            if self.written > self.asked.context.settings.limits.entries || waiting.is_full() {
                let why = "the tree has more in it than one answer tells: ask for its directories one by one";
                status_line(
                    out,
                    &href(&self.asked.target.path, true),
                    StatusCode::INSUFFICIENT_STORAGE,
                    why,
                )?;
                break;
            }
        }
        out.push(END)
    }

    /// Writes what is in a directory.
    fn list(
        &mut self,
        directory: &ArchivePath,
        depth: Depth,
        waiting: &mut Waiting,
        out: &mut Out,
    ) -> Result<Result<(), Failure>, Gone> {
        let mut after = None;
        loop {
            let (lines, more) = match self.asked.engine.list(directory, after.as_ref(), PAGE) {
                Ok(page) => page,
                Err(error) => return Ok(Err(error.into())),
            };
            after = lines.last().map(|line| line.name.clone());
            for line in lines {
                let Ok(path) = directory.join(&line.name) else { continue };
                let resource = Resource::of_line(path, line);
                if resource.is_directory && depth == Depth::Infinity {
                    waiting.push(resource.path.clone());
                }
                self.write(resource, out)?;
            }
            if !more || self.written > self.asked.context.settings.limits.entries || waiting.is_full() {
                return Ok(Ok(()));
            }
        }
    }

    fn write(&mut self, resource: Resource, out: &mut Out) -> Result<(), Gone> {
        self.written += 1;
        out.push(&self.line(resource))
    }

    /// The line about one file or directory.
    fn line(&self, mut resource: Resource) -> String {
        resource.locks = self.asked.engine.locks_on(&resource.path).unwrap_or_default();
        if let Wanted::These(names) | Wanted::All(names) = &self.wanted
            && names.iter().any(needs_room)
        {
            resource.room = room(self.asked, &resource.path).ok();
        }
        let mut text = String::from("<D:response><D:href>");
        text.push_str(&resource.href());
        text.push_str("</D:href>");
        properties::write(&mut text, &resource, &self.wanted);
        text.push_str("</D:response>\n");
        text
    }
}

/// Bytes that are used and may still be used at a path.
fn room(asked: &Asked, path: &ArchivePath) -> Result<(Option<u64>, u64), ArchiveError> {
    let left = asked.engine.space_left(path, "")?;
    Ok((left.used.map(|used| used.0), left.available.0))
}

/// A line about something that has a status alone.
fn status_line(out: &mut Out, href: &str, status: StatusCode, why: &str) -> Result<(), Gone> {
    let mut text = format!("<D:response><D:href>{href}</D:href><D:status>HTTP/1.1 {status}</D:status>");
    if !why.is_empty() {
        text.push_str("<D:responsedescription>");
        escape(&mut text, why);
        text.push_str("</D:responsedescription>");
    }
    text.push_str("</D:response>\n");
    out.push(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_say_what_is_wanted() {
        let read = |text: &'static str| wanted(&Bytes::from_static(text.as_bytes()), 2);
        assert_eq!(read("").unwrap(), Wanted::All(Vec::new()));
        assert_eq!(read("<D:propfind xmlns:D='DAV:'><D:propname/></D:propfind>").unwrap(), Wanted::Names);
        let these = read("<propfind xmlns='DAV:'><prop><getetag/></prop></propfind>").unwrap();
        assert_eq!(these, Wanted::These(vec![QName::dav("getetag")]));
        for bad in [
            "<propfind xmlns='DAV:'/>",
            "<propfind/>",
            "<propfind xmlns='DAV:'><prop/><allprop/></propfind>",
            "<propfind xmlns='DAV:'><prop><a/><b/><c/></prop></propfind>",
            "<propfind",
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
