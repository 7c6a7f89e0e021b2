//! Properties: those that WebDAV and Kist name (live), and those that clients keep (dead), which are extended
//! attributes of the file or directory.

use archive::{Listed, ListedKind, Locality, Stat};
use authority::Lock;
use base::{Adler32, ArchivePath, Blake3, Duration, Timestamp};
use entrance::headers::http_date;

use crate::address::href;
use crate::xml::{DAV, QName, escape, escaped, inner_of};

/// The namespace of what Kist tells beside WebDAV's own.
pub(crate) const KIST: &str = "urn:kist";
/// Before the name of a dead property, in the name of the extended attribute.
const DEAD: &str = "user.dav.";
/// The longest name of an extended attribute.
pub(crate) const XATTR_NAME_MAX: usize = 255;
/// The attribute with the type of a file's content, which S3 writes too.
pub(crate) const TYPE: &str = "user.mime_type";
/// The type of a file of which nobody said one.
pub(crate) const TYPE_DEFAULT: &str = "application/octet-stream";

/// A file or directory as properties tell of it.
#[derive(Clone, Debug)]
pub(crate) struct Resource {
    pub path: ArchivePath,
    pub is_directory: bool,
    pub size: u64,
    pub modified: Timestamp,
    pub created: Option<Timestamp>,
    pub tag: Option<String>,
    pub class: Option<String>,
    pub locality: Option<Locality>,
    pub blake3: Option<Blake3>,
    /// Not known in listings.
    pub adler32: Option<Adler32>,
    pub xattrs: Vec<(String, Vec<u8>)>,
    pub locks: Vec<(Lock, Duration)>,
    /// Bytes that are used, if a quota counts them, and that may still be put there; asked only if a client
    /// does.
    pub room: Option<(Option<u64>, u64)>,
}

impl Resource {
    pub(crate) fn of_stat(stat: Stat) -> Resource {
        match stat {
            Stat::Directory(stat) => Resource {
                path: stat.path,
                is_directory: true,
                size: 0,
                modified: stat.attributes.mtime,
                created: Some(stat.created),
                tag: None,
                class: stat.class,
                locality: None,
                blake3: None,
                adler32: None,
                xattrs: stat.attributes.xattrs,
                locks: Vec::new(),
                room: None,
            },
            Stat::File(stat) => Resource {
                is_directory: false,
                size: stat.size.0,
                modified: stat.attributes.mtime,
                created: Some(stat.created),
                tag: Some(entrance::entity_tag(&stat)),
                locality: Some(stat.locality),
                blake3: Some(stat.checksums.blake3),
                adler32: Some(stat.checksums.stream.adler32),
                xattrs: stat.attributes.xattrs,
                locks: Vec::new(),
                room: None,
                class: Some(stat.class),
                path: stat.path,
            },
        }
    }

    pub(crate) fn of_line(path: ArchivePath, line: Listed) -> Resource {
        let mut resource = Resource {
            path,
            is_directory: true,
            size: line.size.0,
            modified: line.attributes.mtime,
            created: None,
            tag: None,
            class: None,
            locality: None,
            blake3: None,
            adler32: None,
            xattrs: line.attributes.xattrs,
            locks: Vec::new(),
            room: None,
        };
        if let ListedKind::File { file, class, locality, blake3, .. } = line.what {
            resource.is_directory = false;
            resource.tag = Some(format!("\"{file}\""));
            (resource.class, resource.locality, resource.blake3) =
                (Some(class), Some(locality), Some(blake3));
        }
        resource
    }

    /// The address, as it stands in an answer.
    pub(crate) fn href(&self) -> String {
        href(&self.path, self.is_directory)
    }
}

/// The type of a file's content.
pub(crate) fn content_type(xattrs: &[(String, Vec<u8>)]) -> &str {
    let kept = xattrs.iter().find(|(name, _)| name == TYPE);
    kept.and_then(|(_, value)| std::str::from_utf8(value).ok()).unwrap_or(TYPE_DEFAULT)
}

/// A live property: its namespace and name, whether `allprop` tells it, its value as XML.
type Live = (&'static str, &'static str, bool, fn(&Resource) -> Option<String>);

/// All live properties. None of them can be set.
const LIVE: [Live; 16] = [
    (DAV, "creationdate", true, |resource| Some(resource.created?.to_string())),
    (DAV, "displayname", true, |resource| {
        Some(escaped(resource.path.split().as_ref().map_or("", |(_, name)| name.as_str())))
    }),
    (DAV, "getcontentlength", true, |resource| (!resource.is_directory).then(|| resource.size.to_string())),
    (DAV, "getcontenttype", true, |resource| {
        (!resource.is_directory).then(|| escaped(content_type(&resource.xattrs)))
    }),
    (DAV, "getetag", true, |resource| resource.tag.as_deref().map(escaped)),
    (DAV, "getlastmodified", true, |resource| Some(http_date(resource.modified)?.to_str().ok()?.to_owned())),
    (DAV, "resourcetype", true, |resource| {
        Some(if resource.is_directory { "<D:collection/>".to_owned() } else { String::new() })
    }),
    (DAV, "supportedlock", true, |_| Some(SUPPORTED_LOCKS.to_owned())),
    (DAV, "lockdiscovery", true, |resource| Some(active_locks(&resource.locks))),
    (DAV, "quota-used-bytes", false, |resource| Some(resource.room?.0?.to_string())),
    (DAV, "quota-available-bytes", false, |resource| Some(resource.room?.1.to_string())),
    (KIST, "locality", true, |resource| resource.locality.map(|locality| locality.word().to_owned())),
    (KIST, "class", true, |resource| resource.class.as_deref().map(escaped)),
    (KIST, "blake3", true, |resource| resource.blake3.map(|sum| sum.to_string())),
    (KIST, "adler32", true, |resource| resource.adler32.map(|sum| sum.to_string())),
    (KIST, "file-id", true, |resource| Some(resource.tag.as_ref()?.trim_matches('"').to_owned())),
];

const SUPPORTED_LOCKS: &str = "<D:lockentry><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/>\
     </D:locktype></D:lockentry><D:lockentry><D:lockscope><D:shared/></D:lockscope><D:locktype><D:write/>\
     </D:locktype></D:lockentry>";

/// Locks as `lockdiscovery` tells them.
pub(crate) fn active_locks(locks: &[(Lock, Duration)]) -> String {
    let mut out = String::new();
    for (lock, left) in locks {
        let scope = if lock.is_exclusive { "exclusive" } else { "shared" };
        let depth = if lock.is_deep { "infinity" } else { "0" };
        out.push_str(&format!(
            "<D:activelock><D:locktype><D:write/></D:locktype><D:lockscope><D:{scope}/></D:lockscope>\
             <D:depth>{depth}</D:depth>"
        ));
        if !lock.note.is_empty() {
            // It is XML that was read and written by us.
            out.push_str(&format!("<D:owner>{}</D:owner>", lock.note));
        }
        out.push_str(&format!(
            "<D:timeout>Second-{}</D:timeout><D:locktoken><D:href>{}</D:href></D:locktoken><D:lockroot>\
             <D:href>\
             {}</D:href></D:lockroot></D:activelock>",
            left.as_secs().max(1),
            escaped(&lock.token),
            href(&lock.root, false)
        ));
    }
    out
}

/// Whether a property is one that nobody sets.
pub(crate) fn is_live(name: &QName) -> bool {
    LIVE.iter().any(|(namespace, local, ..)| *namespace == name.namespace && *local == name.name)
}

/// Whether what a client asks for needs to be looked up beside the listing.
pub(crate) fn needs_room(name: &QName) -> bool {
    name.is_dav("quota-used-bytes") || name.is_dav("quota-available-bytes")
}

/// The extended attribute of a dead property.
pub(crate) fn xattr_of(name: &QName) -> String {
    if name.namespace.is_empty() {
        return format!("{DEAD}{}", name.name);
    }
    format!("{DEAD}{{{}}}{}", name.namespace, name.name)
}

/// The dead property of an extended attribute, if it is one.
fn dead_of(xattr: &str) -> Option<QName> {
    let rest = xattr.strip_prefix(DEAD)?;
    let (namespace, name) = match rest.strip_prefix('{') {
        Some(rest) => rest.rsplit_once('}')?,
        None => ("", rest),
    };
    let name = QName { namespace: namespace.to_owned(), name: name.to_owned() };
    (name.can_be_written() && !is_live(&name)).then_some(name)
}

/// The value of a dead property as an attribute has it: the language, a NUL, XML.
pub(crate) fn dead_value(language: Option<&str>, inner: &str) -> Vec<u8> {
    format!("{}\0{inner}", language.unwrap_or_default()).into_bytes()
}

/// Which properties a client asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// All, and these that are not among them.
    All(Vec<QName>),
    /// The names of all.
    Names,
    /// These.
    These(Vec<QName>),
}

/// Writes a property as an element; its value is XML.
pub(crate) fn write_property(out: &mut String, name: &QName, language: Option<&str>, value: &str) {
    let (open, close) = match name.namespace.as_str() {
        DAV => (format!("D:{}", name.name), format!("D:{}", name.name)),
        KIST => (format!("K:{}", name.name), format!("K:{}", name.name)),
        other => (format!("{} xmlns=\"{}\"", name.name, escaped(other)), name.name.clone()),
    };
    out.push('<');
    out.push_str(&open);
    if let Some(language) = language.filter(|language| !language.is_empty()) {
        out.push_str(" xml:lang=\"");
        escape(out, language);
        out.push('"');
    }
    if value.is_empty() {
        out.push_str("/>");
    } else {
        out.push('>');
        out.push_str(value);
        out.push_str("</");
        out.push_str(&close);
        out.push('>');
    }
}

/// Writes what is asked of a resource: properties that it has, and then those that it has not.
pub(crate) fn write(out: &mut String, resource: &Resource, wanted: &Wanted) {
    let (mut found, mut missing) = (String::new(), String::new());
    match wanted {
        Wanted::Names => {
            for (namespace, name, _, value) in LIVE {
                if value(resource).is_some() {
                    write_property(&mut found, &qualified(namespace, name), None, "");
                }
            }
            for (name, _) in dead(resource) {
                write_property(&mut found, &name, None, "");
            }
        }
        Wanted::All(more) => {
            for (namespace, name, in_all, value) in LIVE {
                if let Some(value) = value(resource).filter(|_| in_all) {
                    write_property(&mut found, &qualified(namespace, name), None, &value);
                }
            }
            dead(resource).for_each(|(name, value)| write_dead(&mut found, &name, value));
            for name in more {
                write_one(&mut found, &mut missing, resource, name);
            }
        }
        Wanted::These(names) => {
            names.iter().for_each(|name| write_one(&mut found, &mut missing, resource, name));
        }
    }
    let mut stat = |props: &str, status: &str| {
        out.push_str("<D:propstat><D:prop>");
        out.push_str(props);
        out.push_str("</D:prop><D:status>HTTP/1.1 ");
        out.push_str(status);
        out.push_str("</D:status></D:propstat>");
    };
    if !found.is_empty() || missing.is_empty() {
        stat(&found, "200 OK");
    }
    if !missing.is_empty() {
        stat(&missing, "404 Not Found");
    }
}

fn write_one(found: &mut String, missing: &mut String, resource: &Resource, name: &QName) {
    if let Some((.., value)) =
        LIVE.iter().find(|(ns, local, ..)| *ns == name.namespace && *local == name.name)
    {
        return match value(resource) {
            Some(value) => write_property(found, name, None, &value),
            None => write_property(missing, name, None, ""),
        };
    }
    let xattr = xattr_of(name);
    match resource.xattrs.iter().find(|(known, _)| *known == xattr) {
        Some((_, value)) => write_dead(found, name, value),
        None => write_property(missing, name, None, ""),
    }
}

/// Dead properties, and their values as attributes have them.
fn dead(resource: &Resource) -> impl Iterator<Item = (QName, &[u8])> {
    resource.xattrs.iter().filter_map(|(name, value)| Some((dead_of(name)?, value.as_slice())))
}

fn write_dead(out: &mut String, name: &QName, value: &[u8]) {
    let value = String::from_utf8_lossy(value);
    let (language, inner) = value.split_once('\0').unwrap_or(("", &value));
    write_property(out, name, Some(language), &inner_of(inner));
}

fn qualified(namespace: &str, name: &str) -> QName {
    QName { namespace: namespace.to_owned(), name: name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_dead_properties_come_back() {
        for (namespace, name) in [("", "a"), ("urn:x", "b"), ("http://e.org/{y}", "c")] {
            let name = qualified(namespace, name);
            assert_eq!(dead_of(&xattr_of(&name)), Some(name));
        }
        for other in ["user.meta.x", "user.dav.a&b", "user.dav.", "user.dav.{DAV:}getetag", "user.dav.{x}"] {
            assert_eq!(dead_of(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_missing_stands_apart() {
        let resource = Resource::of_line(
            ArchivePath::new("/a&b").unwrap(),
            Listed {
                name: base::Name::new("a&b").unwrap(),
                what: ListedKind::Directory,
                size: base::ByteCount(0),
                attributes: catalogue::Attributes {
                    xattrs: vec![(
                        xattr_of(&qualified("urn:x", "p")),
                        dead_value(Some("en"), "<q xmlns=\"\"/>"),
                    )],
                    ..catalogue::Attributes::default()
                },
            },
        );
        let mut out = String::new();
        let wanted = [
            QName::dav("displayname"),
            QName::dav("getetag"),
            qualified("urn:x", "p"),
            qualified("urn:x", "o"),
        ];
        write(&mut out, &resource, &Wanted::These(wanted.to_vec()));
        assert_eq!(
            out,
            "<D:propstat><D:prop><D:displayname>a&amp;b</D:displayname><p xmlns=\"urn:x\" xml:lang=\"en\"><q \
             xmlns=\"\"/></p></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat><D:propstat><D:prop>\
             <D:getetag/><o xmlns=\"urn:x\"/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status>\
             </D:propstat>"
        );
    }
}
