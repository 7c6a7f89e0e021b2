//! `PROPPATCH`: properties that clients keep, all of a request or none.

use archive::Which;
use authority::{Namespace, Objects};
use base::ArchivePath;
use bytes::Bytes;
use entrance::Refusal;
use http::StatusCode;
use transfer::RequestBody;

use crate::address::href;
use crate::answer::{Answer, with_body};
use crate::context::Asked;
use crate::properties::{XATTR_NAME_MAX, dead_value, is_live, write_property, xattr_of};
use crate::tree::{refuse_unsupported, small_body};
use crate::xml::{QName, XML_TYPE, parse};

/// What is to be done with one property: its value, or nothing if it goes.
type Change = (QName, Option<Vec<u8>>);

pub(crate) async fn proppatch(asked: &Asked, body: RequestBody) -> Answer {
    refuse_unsupported(asked)?;
    let body = small_body(asked, body).await?;
    let changes = changes(&body, asked.context.settings.limits.properties)?;
    let text = asked
        .run(move |asked: &Asked| {
            let stat = asked.engine.stat(&asked.target.path)?;
            let is_directory = matches!(stat, archive::Stat::Directory(_));
            let kept = |(name, _): &&Change| is_live(name) || xattr_of(name).len() > XATTR_NAME_MAX;
            let refused: Vec<&QName> = changes.iter().filter(kept).map(|(name, _)| name).collect();
            if refused.is_empty() {
                let xattrs: Vec<_> =
                    changes.iter().map(|(name, value)| (xattr_of(name), value.clone())).collect();
                asked.engine.set_xattrs(&asked.target.path, Which::Current, &xattrs)?;
            }
            Ok::<_, crate::answer::Failure>(outcome(&asked.target.path, is_directory, &changes, &refused))
        })
        .await?;
    Ok(with_body(StatusCode::MULTI_STATUS, XML_TYPE, text))
}

/// The changes of a body in their order; of several of one property the last counts.
pub(crate) fn changes(body: &Bytes, limit: usize) -> Result<Vec<Change>, Refusal> {
    let root =
        parse(body).map_err(|error| Refusal::bad(format!("the body cannot be read as XML: {error}")))?;
    if !root.name.is_dav("propertyupdate") {
        return Err(Refusal::bad("the body is no propertyupdate of the namespace DAV:"));
    }
    let mut changes: Vec<Change> = Vec::new();
    for instruction in root.elements() {
        let sets = instruction.name.is_dav("set");
        if !sets && !instruction.name.is_dav("remove") {
            continue;
        }
        for property in
            instruction.elements().filter(|prop| prop.name.is_dav("prop")).flat_map(|p| p.elements())
        {
            let value = sets.then(|| dead_value(property.language.as_deref(), &property.inner()));
            changes.retain(|(name, _)| *name != property.name);
            changes.push((property.name.clone(), value));
        }
    }
    match changes.len() {
        0 => Err(Refusal::bad("the propertyupdate names no property")),
        count if count > limit => {
            Err(Refusal::bad(format!("{count} properties are named; the limit is {limit}")))
        }
        _ => Ok(changes),
    }
}

/// What became of each property.
fn outcome(path: &ArchivePath, is_directory: bool, changes: &[Change], refused: &[&QName]) -> String {
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:multistatus xmlns:D=\"DAV:\" xmlns:K=\"urn:kist\">\n\
         <D:response><D:href>{}</D:href>",
        href(path, is_directory)
    );
    let mut stat = |names: &[&QName], status: &str, error: &str| {
        if names.is_empty() {
            return;
        }
        out.push_str("<D:propstat><D:prop>");
        names.iter().for_each(|name| write_property(&mut out, name, None, ""));
        out.push_str("</D:prop><D:status>HTTP/1.1 ");
        out.push_str(status);
        out.push_str("</D:status>");
        out.push_str(error);
        out.push_str("</D:propstat>");
    };
    let others: Vec<&QName> =
        changes.iter().map(|(name, _)| name).filter(|name| !refused.contains(name)).collect();
    if refused.is_empty() {
        stat(&others, "200 OK", "");
    } else {
        let error = "<D:error><D:cannot-modify-protected-property/></D:error>";
        stat(refused, "403 Forbidden", error);
        stat(&others, "424 Failed Dependency", "");
    }
    out.push_str("</D:response>\n</D:multistatus>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_a_property_counts() {
        let body = "<D:propertyupdate xmlns:D='DAV:'><D:set><D:prop><a>1</a><b>2</b></D:prop></D:set>\
                    <D:remove>\
                    <D:prop><a/></D:prop></D:remove><D:set><D:prop><c xml:lang='en'>3</c></D:prop></D:set>\
                    </D:propertyupdate>";
        let read = changes(&Bytes::from_static(body.as_bytes()), 3).unwrap();
        let read: Vec<_> = read.iter().map(|(name, value)| (name.name.as_str(), value.as_deref())).collect();
        assert_eq!(read, [("b", Some(&b"\x002"[..])), ("a", None), ("c", Some(&b"en\x003"[..]))]);
        assert!(changes(&Bytes::from_static(body.as_bytes()), 2).is_err());
        assert!(changes(&Bytes::from_static(b"<propertyupdate xmlns='DAV:'/>"), 2).is_err());
    }
}
