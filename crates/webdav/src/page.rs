//! Pages for browsers: what is in a directory, and refusals. No script, nothing from elsewhere.

use archive::{Listed, ListedKind, Stat};
use authority::Namespace;
use base::{ArchivePath, ByteCount, Name};
use http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use crate::address::href;
use crate::answer::{Answer, Failure, PAGE_POLICY, empty, with_body};
use crate::context::Asked;
use crate::xml::{escape, escaped};

const HTML: &str = "text/html; charset=utf-8";

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}\
     table{border-collapse:collapse;width:100%}td,th{padding:.2rem .6rem;text-align:left}\
     th{border-bottom:1px solid}.n{text-align:right;font-variant-numeric:tabular-nums}\
     tr:hover td{background:rgba(128,128,128,.15)}:root{color-scheme:light dark}";

/// What `HEAD` of a directory says.
pub(crate) fn head(_asked: &Asked) -> Answer {
    let mut response = empty(StatusCode::OK);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(HTML));
    response.headers_mut().remove(http::header::CONTENT_LENGTH);
    Ok(response)
}

/// The page of a directory: as many names as one page has, and a link to those behind them.
pub(crate) async fn get(asked: &Asked) -> Answer {
    let after = after(asked.parts.uri.query().unwrap_or_default());
    let text = asked
        .run(move |asked: &Asked| {
            let path = &asked.target.path;
            if let Stat::File(_) = asked.engine.stat(path)? {
                return Err(archive::ArchiveError::TreeChanges.into());
            }
            let limit = asked.context.settings.limits.page_names;
            let (lines, more) = asked.engine.list(path, after.as_ref(), limit)?;
            Ok::<_, Failure>(page(path, &lines, more))
        })
        .await?;
    let mut response: Response<_> = with_body(StatusCode::OK, HTML, text);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, PAGE_POLICY);
    Ok(response)
}

/// Behind which name the page begins.
fn after(query: &str) -> Option<Name> {
    let value = query.split('&').find_map(|field| field.strip_prefix("after="))?;
    Name::new(std::str::from_utf8(&entrance::percent::decode(value.as_bytes())?).ok()?).ok()
}

fn page(path: &ArchivePath, lines: &[Listed], more: bool) -> String {
    let mut out = begin(path.as_str());
    out.push_str("<h1>");
    trail(&mut out, path);
    out.push_str("</h1>\n<table>\n<tr><th>Name<th class=n>Size<th>Modified<th>Where\n");
    for line in lines {
        let Ok(child) = path.join(&line.name) else { continue };
        let is_directory = matches!(line.what, ListedKind::Directory);
        out.push_str("<tr><td><a href=\"");
        out.push_str(&href(&child, is_directory));
        out.push_str("\">");
        escape(&mut out, line.name.as_str());
        out.push_str(if is_directory { "/</a>" } else { "</a>" });
        let place = match &line.what {
            ListedKind::Directory => "",
            ListedKind::File { locality, .. } => locality.word(),
        };
        let size = if is_directory { String::new() } else { size(line.size) };
        let modified = line.attributes.mtime.to_string();
        out.push_str(&format!("<td class=n>{size}<td>{modified}<td>{place}\n"));
    }
    out.push_str("</table>\n");
    if lines.is_empty() {
        out.push_str("<p>Nothing is in it.\n");
    }
    if let (Some(last), true) = (lines.last(), more) {
        let mut name = String::new();
        entrance::percent::encode_path(&mut name, last.name.as_str());
        out.push_str(&format!("<p><a href=\"?after={name}\">More</a>\n"));
    }
    out
}

/// The directories on the way, each a link.
fn trail(out: &mut String, path: &ArchivePath) {
    out.push_str("<a href=\"/\">/</a>");
    let mut at = ArchivePath::root();
    for component in path.components() {
        let Some(next) = Name::new(component).ok().and_then(|name| at.join(&name).ok()) else { return };
        out.push_str(&format!(" <a href=\"{}\">{}</a>", href(&next, true), escaped(component)));
        at = next;
    }
}

fn size(bytes: ByteCount) -> String {
    bytes.to_string()
}

fn begin(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=en><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width\">\
         <title>{}</title><style>{STYLE}</style>\n",
        escaped(title)
    )
}

/// A refusal as a page. `body` is what programs are told, as JSON.
pub(crate) fn refusal_page(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> String {
    let told: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let detail = told.get("detail").and_then(|detail| detail.as_str()).unwrap_or_default();
    let mut out = begin(&status.to_string());
    out.push_str(&format!("<h1>{}</h1>\n<p>{}\n", escaped(&status.to_string()), escaped(detail)));
    if let Some(seconds) = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()) {
        out.push_str(&format!("<p>Try again in {} seconds.\n", escaped(seconds)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_and_never_run() {
        let line = |name: &str| Listed {
            name: Name::new(name).unwrap(),
            what: ListedKind::Directory,
            size: ByteCount(0),
            attributes: catalogue::Attributes::default(),
        };
        let path = ArchivePath::new("/a\"><script>x</script>").unwrap();
        let text = page(&path, &[line("<img src=x onerror=y>"), line("b&c")], true);
        assert!(!text.contains("<script") && !text.contains("<img"), "{text}");
        assert!(text.contains("b&amp;c/</a>") && text.contains("?after=b%26c"), "{text}");
        assert_eq!(after("x=1&after=b%26c").unwrap().as_str(), "b&c");
        assert_eq!(after("after=%2F"), None);
    }
}
