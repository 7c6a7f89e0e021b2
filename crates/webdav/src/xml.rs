//! XML, narrowly: bodies of requests as trees within limits, text for answers.

use std::borrow::Cow;

use quick_xml::NsReader;
use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};
use quick_xml::name::ResolveResult;

/// The type of XML in answers.
pub(crate) const XML_TYPE: &str = "application/xml; charset=utf-8";
/// What WebDAV's own names stand in.
pub(crate) const DAV: &str = "DAV:";
/// The namespace of the attribute `xml:lang`.
const XML: &str = "http://www.w3.org/XML/1998/namespace";
/// The namespace of declarations of namespaces.
const DECLARATIONS: &str = "http://www.w3.org/2000/xmlns/";

/// The deepest nesting that is read.
const DEPTH_MAX: usize = 32;
/// Elements of one body.
const ELEMENTS_MAX: usize = 4096;
/// Attributes of one element, declarations of namespaces among them. Each is compared with all before it.
const ATTRIBUTES_MAX: usize = 64;
/// Bytes of a name, and of a namespace or a language. One that is declared once is kept with each element for
/// which it holds: without a limit of its own a short body would be gigabytes.
const NAME_BYTES_MAX: usize = 1024;

/// Why a body is no XML that can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum XmlError {
    #[error("it is not UTF-8")]
    Encoding,
    #[error("it is not well-formed")]
    Syntax,
    #[error("it has a document type: entities are not read")]
    DocumentType,
    #[error("it refers to an entity that is none of the five of XML")]
    Entity,
    #[error("it nests deeper than {DEPTH_MAX} elements")]
    Depth,
    #[error("it has more than {ELEMENTS_MAX} elements")]
    Elements,
    #[error("an element has more than {ATTRIBUTES_MAX} attributes")]
    Attributes,
    #[error("a name, namespace or language has more than {NAME_BYTES_MAX} bytes")]
    Name,
    #[error("a prefix is not declared, or stands for no namespace")]
    Prefix,
    #[error("there is something behind its end, or nothing in it")]
    Root,
}

/// A name in its namespace; the empty one is none.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct QName {
    pub namespace: String,
    pub name: String,
}

impl QName {
    #[cfg(test)]
    pub(crate) fn dav(name: &str) -> QName {
        QName { namespace: DAV.to_owned(), name: name.to_owned() }
    }

    /// Whether an element may have it without a prefix, where its namespace is declared as the one of names
    /// that have none.
    pub(crate) fn can_be_written(&self) -> bool {
        is_name(&self.name) && self.namespace != XML && self.namespace != DECLARATIONS
    }

    /// Whether it is this name of WebDAV's own.
    pub(crate) fn is_dav(&self, name: &str) -> bool {
        self.namespace == DAV && self.name == name
    }
}

/// An element with what is in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Element {
    pub name: QName,
    /// `xml:lang`, also of an element around it.
    pub language: Option<String>,
    pub children: Vec<Node>,
}

/// What stands in an element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Node {
    Element(Element),
    Text(String),
}

impl Element {
    /// The elements in it.
    pub(crate) fn elements(&self) -> impl Iterator<Item = &Element> {
        self.children.iter().filter_map(|node| match node {
            Node::Element(element) => Some(element),
            Node::Text(_) => None,
        })
    }

    /// The first element of WebDAV's own name in it.
    pub(crate) fn dav(&self, name: &str) -> Option<&Element> {
        self.elements().find(|element| element.name.is_dav(name))
    }

    /// What stands in it, as XML that means the same wherever it is put.
    pub(crate) fn inner(&self) -> String {
        let mut out = String::new();
        self.children.iter().for_each(|node| write_node(&mut out, node));
        out
    }
}

fn write_node(out: &mut String, node: &Node) {
    match node {
        Node::Text(text) => escape(out, text),
        Node::Element(element) => {
            let QName { namespace, name } = &element.name;
            out.push('<');
            out.push_str(name);
            out.push_str(" xmlns=\"");
            escape(out, namespace);
            out.push('"');
            if element.children.is_empty() {
                out.push_str("/>");
                return;
            }
            out.push('>');
            element.children.iter().for_each(|node| write_node(out, node));
            out.push_str("</");
            out.push_str(name);
            out.push('>');
        }
    }
}

/// Text as it stands in XML, in attributes too. What XML cannot say is left out.
pub(crate) fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\r' => out.push_str("&#13;"),
            '\t' | '\n' => out.push(c),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => {}
            c => out.push(c),
        }
    }
}

/// The same as a text of its own.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    escape(&mut out, text);
    out
}

/// The one element that a body is.
///
/// # Errors
/// If it is no such XML.
pub(crate) fn parse(bytes: &[u8]) -> Result<Element, XmlError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|_| XmlError::Encoding)?;
    let mut reader = NsReader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    reader.config_mut().check_end_names = true;
    let (mut open, mut root, mut elements) = (Vec::<Element>::new(), None, 0usize);
    loop {
        let (namespace, event) = reader.read_resolved_event().map_err(|_| XmlError::Syntax)?;
        match event {
            Event::Start(start) => {
                elements += 1;
                if elements > ELEMENTS_MAX {
                    return Err(XmlError::Elements);
                }
                if open.len() >= DEPTH_MAX {
                    return Err(XmlError::Depth);
                }
                if root.is_some() {
                    return Err(XmlError::Root);
                }
                let namespace = named(&namespace)?;
                let name = QName { namespace, name: kept(start.local_name().as_ref())? };
                if !name.can_be_written() {
                    return Err(XmlError::Syntax);
                }
                let outer = open.last().and_then(|outer| outer.language.clone());
                let language = language(&start, &reader)?.or(outer);
                open.push(Element { name, language, children: Vec::new() });
            }
            Event::End(_) => {
                let element = open.pop().ok_or(XmlError::Syntax)?;
                match open.last_mut() {
                    Some(outer) => outer.children.push(Node::Element(element)),
                    None => root = Some(element),
                }
            }
            Event::Text(part) => add_text(&mut open, &part.xml10_content())?,
            Event::CData(part) => add_text(&mut open, &part.xml10_content())?,
            Event::GeneralRef(reference) => {
                let c = match reference.resolve_char_ref() {
                    Ok(Some(c)) => c.to_string(),
                    Ok(None) => predefined(&reference)?.to_string(),
                    Err(_) => return Err(XmlError::Entity),
                };
                add_text(&mut open, &c)?;
            }
            Event::Decl(declaration) => {
                let encoding = declaration.encoding().transpose().map_err(|_| XmlError::Encoding)?;
                if encoding.is_some_and(|name| !name.eq_ignore_ascii_case("utf-8")) {
                    return Err(XmlError::Encoding);
                }
            }
            Event::DocType(_) => return Err(XmlError::DocumentType),
            Event::Comment(_) | Event::PI(_) | Event::Empty(_) => {}
            Event::Eof => return root.filter(|_| open.is_empty()).ok_or(XmlError::Root),
        }
    }
}

fn predefined(name: &str) -> Result<char, XmlError> {
    Ok(match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "apos" => '\'',
        "quot" => '"',
        _ => return Err(XmlError::Entity),
    })
}

/// Text between elements; outside of the one of the document there is white space alone.
fn add_text(open: &mut [Element], text: &str) -> Result<(), XmlError> {
    let Some(element) = open.last_mut() else {
        return if text.trim().is_empty() { Ok(()) } else { Err(XmlError::Root) };
    };
    match element.children.last_mut() {
        Some(Node::Text(before)) => before.push_str(text),
        _ => element.children.push(Node::Text(text.to_owned())),
    }
    Ok(())
}

fn named(namespace: &ResolveResult<'_>) -> Result<String, XmlError> {
    match namespace {
        ResolveResult::Unbound => Ok(String::new()),
        ResolveResult::Bound(namespace) => kept(&of_attribute(namespace.0)?),
        ResolveResult::Unknown(_) => Err(XmlError::Prefix),
    }
}

/// Whether a text may stand as the name of an element, without a prefix. The reader takes any letters, and
/// what is written again would be no XML.
fn is_name(text: &str) -> bool {
    let begins = |c: char| {
        matches!(c, 'A'..='Z' | '_' | 'a'..='z' | '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}'
            | '\u{f8}'..='\u{2ff}' | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}' | '\u{200c}'..='\u{200d}'
            | '\u{2070}'..='\u{218f}' | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}'
            | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}' | '\u{10000}'..='\u{effff}')
    };
    let goes_on = |c: char| {
        begins(c)
            || matches!(c, '-' | '.' | '0'..='9' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}'..='\u{2040}')
    };
    let mut letters = text.chars();
    letters.next().is_some_and(begins) && letters.all(goes_on)
}

/// XML that stands in an attribute, as it may stand in an answer. Other doors set attributes too: what is no
/// XML is text.
pub(crate) fn inner_of(text: &str) -> String {
    match parse(format!("<r>{text}</r>").as_bytes()) {
        Ok(root) => root.inner(),
        Err(_) => escaped(text),
    }
}

/// What an attribute says, without the signs that XML wants in one.
fn of_attribute(written: &str) -> Result<Cow<'_, str>, XmlError> {
    let text = unescape(written).map_err(|_| XmlError::Syntax)?;
    let is_none =
        |c: char| matches!(c, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\u{fffe}' | '\u{ffff}');
    if text.contains(is_none) { Err(XmlError::Syntax) } else { Ok(text) }
}

/// What is kept of an element, within its limit.
fn kept(text: &str) -> Result<String, XmlError> {
    if text.len() <= NAME_BYTES_MAX { Ok(text.to_owned()) } else { Err(XmlError::Name) }
}

/// The language that an element says its text is in. A prefix that is declared to stand for nothing is no
/// XML.
fn language(start: &BytesStart<'_>, reader: &NsReader<&[u8]>) -> Result<Option<String>, XmlError> {
    let mut found = None;
    for (at, attribute) in start.attributes().enumerate() {
        if at >= ATTRIBUTES_MAX {
            return Err(XmlError::Attributes);
        }
        let attribute = attribute.map_err(|_| XmlError::Syntax)?;
        let key = attribute.key;
        if key.as_ref().starts_with("xmlns:") && attribute.value.is_empty() {
            return Err(XmlError::Prefix);
        }
        let (namespace, name) = reader.resolver().resolve_attribute(key);
        let is_language =
            matches!(namespace, ResolveResult::Bound(bound) if bound.0 == XML) && name.as_ref() == "lang";
        if matches!(namespace, ResolveResult::Unknown(_)) {
            return Err(XmlError::Prefix);
        }
        if is_language {
            found = Some(kept(&of_attribute(&attribute.value)?)?);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_resolved_and_what_is_in_them_comes_back() {
        let root = parse(
            b"<?xml version='1.0' encoding='UTF-8'?><a:x xmlns:a='DAV:' xml:lang='de'><y xmlns='urn:1'>1 \
              &lt; 2&#33;<z/></y>\
              <plain/></a:x>\n",
        )
        .unwrap();
        assert!(root.name.is_dav("x"));
        let y = root.elements().next().unwrap();
        assert_eq!((y.name.namespace.as_str(), y.language.as_deref()), ("urn:1", Some("de")));
        assert_eq!(y.inner(), "1 &lt; 2!<z xmlns=\"urn:1\"/>");
        assert_eq!(root.elements().nth(1).unwrap().name.namespace, "");
        let again = parse(format!("<r>{}</r>", y.inner()).as_bytes()).unwrap();
        assert_eq!(again.inner(), y.inner());
    }

    /// Story: a namespace with an ampersand got one more `amp;` each time that it was told.
    #[test]
    fn namespaces_and_languages_are_what_their_attributes_say() {
        let root = parse(b"<r><a xmlns='urn:x?a=1&amp;b=&#50;' xml:lang='d&#101;'/></r>").unwrap();
        let a = root.elements().next().unwrap();
        assert_eq!((a.name.namespace.as_str(), a.language.as_deref()), ("urn:x?a=1&b=2", Some("de")));
        assert_eq!(root.inner(), "<a xmlns=\"urn:x?a=1&amp;b=2\"/>");
        assert!(parse(b"<x xmlns='DA&#86;:'/>").unwrap().name.is_dav("x"));
        for wrong in ["&#1;", "&none;", "&#xfffe;", "&#0;"] {
            assert_eq!(
                parse(format!("<a xmlns='{wrong}'/>").as_bytes()).err(),
                Some(XmlError::Syntax),
                "{wrong}"
            );
        }
    }

    #[test]
    fn names_that_are_none_are_refused_and_what_is_no_xml_is_text() {
        for good in ["a", "_", "é-1.b", "\u{10000}x"] {
            assert!(is_name(good) && parse(format!("<{good}/>").as_bytes()).is_ok(), "{good}");
        }
        for bad in ["a&b", "1a", "-a", "a\"b", "a<b", "a'b", "a=b", "a;", "é&#1;"] {
            assert!(!is_name(bad) && parse(format!("<r><{bad}/></r>").as_bytes()).is_err(), "{bad}");
        }
        assert!(parse(b"<r><xml:a/></r>").is_err(), "no namespace of names without a prefix");
        assert!(!is_name("") && !is_name("a b") && !is_name("a:b"));
        assert_eq!(inner_of("a &lt; <b/>"), "a &lt; <b xmlns=\"\"/>");
        assert_eq!(inner_of("</r><D:response>"), "&lt;/r&gt;&lt;D:response&gt;");
        assert_eq!(inner_of("</r><r>"), "&lt;/r&gt;&lt;r&gt;");
        assert_eq!(inner_of("<!DOCTYPE a>&b;"), "&lt;!DOCTYPE a&gt;&amp;b;");
        assert_eq!(inner_of("x\0y"), "xy");
    }

    #[test]
    fn what_is_no_xml_or_too_much_is_refused() {
        let deep = "<a>".repeat(DEPTH_MAX + 1);
        let wide = format!("<a>{}</a>", "<b/>".repeat(ELEMENTS_MAX));
        let long = "u".repeat(NAME_BYTES_MAX + 1);
        let [namespace, language] = ["xmlns", "xml:lang"].map(|name| format!("<a {name}='{long}'><b/></a>"));
        let name = format!("<{long}/>");
        let attributes: String = (0..=ATTRIBUTES_MAX).map(|n| format!(" a{n}=''")).collect();
        let attributes = format!("<a{attributes}/>");
        for (text, error) in [
            ("", XmlError::Root),
            ("<a>", XmlError::Root),
            ("<a/><b/>", XmlError::Root),
            ("<a/>x", XmlError::Root),
            ("<a></b>", XmlError::Syntax),
            ("<p:a/>", XmlError::Prefix),
            ("<a xmlns:b=''/>", XmlError::Prefix),
            ("<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", XmlError::DocumentType),
            ("<a>&b;</a>", XmlError::Entity),
            ("<?xml version='1.0' encoding='latin-1'?><a/>", XmlError::Encoding),
            (deep.as_str(), XmlError::Depth),
            (wide.as_str(), XmlError::Elements),
            (namespace.as_str(), XmlError::Name),
            (language.as_str(), XmlError::Name),
            (name.as_str(), XmlError::Name),
            (attributes.as_str(), XmlError::Attributes),
        ] {
            assert_eq!(parse(text.as_bytes()), Err(error), "{}", text.chars().take(40).collect::<String>());
        }
        assert_eq!(parse(b"<a>\xff</a>"), Err(XmlError::Encoding));
    }

    proptest! {
        #[test]
        fn any_text_is_escaped(text in "\\PC{0,40}") {
            let read = parse(format!("<a>{}</a>", escaped(&text)).as_bytes()).unwrap();
            let text_of = |node: &Node| match node {
                Node::Text(text) => text.clone(),
                Node::Element(_) => String::new(),
            };
            let inner: String = read.children.iter().map(text_of).collect();
            prop_assert_eq!(inner, text);
        }

        #[test]
        fn any_bytes_are_xml_or_not(text in "(<a|</a>|/>|>|xmlns:b=\"c\"| |&lt;|b:|\\PC){0,30}") {
            let _ = parse(text.as_bytes());
        }
    }
}
