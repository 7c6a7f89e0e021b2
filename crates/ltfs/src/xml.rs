//! A narrow XML reader and writer: elements and text, five entities, no document type, bounded depth.

use std::fmt::Write as _;

use base::{BlockAddress, Partition, TapePosition, Timestamp};
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::reader::Reader;

use crate::{text, time};

/// The deepest nesting of elements that is read: two for each directory level, and the fields within.
pub const XML_DEPTH_MAX: usize = 2 * crate::tree::TREE_DEPTH_MAX + 16;

/// Why a document is refused. `position` counts bytes from its start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XmlError {
    /// The bytes are not UTF-8.
    #[error("the XML is not UTF-8 from byte {position}: read the other copy of it on this tape")]
    NotUtf8 {
        /// The first byte that is wrong.
        position: u64,
    },
    /// Not well-formed XML.
    #[error("the XML is malformed at byte {position}: {source}: read the other copy of it on this tape")]
    Syntax {
        /// Where.
        position: u64,
        /// What.
        source: quick_xml::Error,
    },
    /// The declaration names another encoding than UTF-8.
    #[error("the XML declares an encoding other than UTF-8: LTFS allows only UTF-8")]
    Encoding,
    /// A document type declaration.
    #[error("the XML holds a document type declaration at byte {position}: LTFS has none, it is refused")]
    DocumentType {
        /// Where.
        position: u64,
    },
    /// An entity other than the five of XML, or a reference to a character that XML forbids.
    #[error("the XML refers to '&{name};' at byte {position}: only the five entities of XML are read")]
    Entity {
        /// Where.
        position: u64,
        /// What was referred to.
        name: String,
    },
    /// A control character that XML forbids.
    #[error("the XML holds a forbidden character before byte {position}")]
    ForbiddenCharacter {
        /// Behind it.
        position: u64,
    },
    /// Nesting beyond `XML_DEPTH_MAX`.
    #[error("the XML nests deeper than {XML_DEPTH_MAX} at byte {position}: it is refused")]
    TooDeep {
        /// Where.
        position: u64,
    },
    /// Text where elements belong, or an element where text belongs, or something behind the end.
    #[error("the XML holds something unexpected before byte {position}")]
    Unexpected {
        /// Behind it.
        position: u64,
    },
    /// The document ends too early.
    #[error("the XML ends early at byte {position}: read the other copy of it on this tape")]
    EndsEarly {
        /// Where.
        position: u64,
    },
    /// The root element is another one.
    #[error("the XML is no {expected}")]
    Root {
        /// The root element that was expected.
        expected: &'static str,
    },
    /// A version that is not known.
    #[error("the {element} has version '{version}': versions 2.0 to 2.5 are known")]
    Version {
        /// The root element.
        element: &'static str,
        /// Its version.
        version: String,
    },
    /// A required element is missing.
    #[error("the element '{element}' is missing before byte {position}")]
    Missing {
        /// The element.
        element: &'static str,
        /// Behind the place.
        position: u64,
    },
    /// An element's text is no legal value.
    #[error("the element '{element}' has the illegal value '{value}' before byte {position}")]
    Value {
        /// The element.
        element: &'static str,
        /// Its text, at most 64 characters of it.
        value: String,
        /// Behind the place.
        position: u64,
    },
}

macro_rules! tags {
    ($($tag:ident $name:literal)*) => {
        /// The elements that are known.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Tag { $(#[doc = $name] $tag,)* #[doc = "Any other."] Unknown }

        impl Tag {
            fn of(name: &str) -> Tag {
                match name { $($name => Tag::$tag,)* _ => Tag::Unknown }
            }

            /// The element's name.
            pub(crate) fn name(self) -> &'static str {
                match self { $(Tag::$tag => $name,)* Tag::Unknown => "unknown" }
            }
        }
    };
}

tags! {
    LtfsLabel "ltfslabel" LtfsIndex "ltfsindex"
    Creator "creator" FormatTime "formattime" VolumeUuid "volumeuuid"
    Location "location" Partition "partition" Partitions "partitions" Index "index" Data "data"
    BlockSize "blocksize" Compression "compression" Generation "generationnumber" UpdateTime "updatetime"
    StartBlock "startblock" Previous "previousgenerationlocation" AllowPolicyUpdate "allowpolicyupdate"
    HighestFileUid "highestfileuid" VolumeLockState "volumelockstate" Directory "directory" File "file"
    Contents "contents" FileUid "fileuid" Name "name" Length "length" CreationTime "creationtime"
    ChangeTime "changetime" ModifyTime "modifytime" AccessTime "accesstime" BackupTime "backuptime"
    ReadOnly "readonly" ExtendedAttributes "extendedattributes" Xattr "xattr" Key "key" Value "value"
    ExtentInfo "extentinfo" Extent "extent" FileOffset "fileoffset"
    ByteOffset "byteoffset" ByteCount "bytecount"
    Symlink "symlink"
}

/// One element that has been opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Element {
    pub(crate) tag: Tag,
    percent_encoded: bool,
    base64: bool,
}

/// Reads one document from front to back. Never recurses.
pub(crate) struct XmlReader<'a> {
    inner: Reader<&'a [u8]>,
    depth: usize,
}

impl<'a> XmlReader<'a> {
    /// Starts with the root element, whose name must be `root` and whose version must be known.
    pub(crate) fn open(bytes: &'a [u8], root: Tag) -> Result<Self, XmlError> {
        let document =
            std::str::from_utf8(bytes).map_err(|e| XmlError::NotUtf8 { position: e.valid_up_to() as u64 })?;
        let mut inner = Reader::from_str(document);
        inner.config_mut().expand_empty_elements = true;
        let mut reader = XmlReader { inner, depth: 0 };
        loop {
            match reader.event()? {
                Event::Start(start) => {
                    reader.depth = 1;
                    if Tag::of(start.name().into_inner()) != root {
                        return Err(XmlError::Root { expected: root.name() });
                    }
                    reader.check_version(&start, root)?;
                    return Ok(reader);
                }
                Event::Decl(decl) => {
                    let encoding = decl.encoding().transpose().map_err(|_| XmlError::Encoding)?;
                    if encoding.is_some_and(|name| !name.eq_ignore_ascii_case("utf-8")) {
                        return Err(XmlError::Encoding);
                    }
                }
                Event::Eof => return Err(XmlError::Root { expected: root.name() }),
                other => reader.ignorable(&other)?,
            }
        }
    }

    fn check_version(&self, start: &BytesStart<'_>, root: Tag) -> Result<(), XmlError> {
        let version = start
            .try_get_attribute("version")
            .map_err(|e| XmlError::Syntax { position: self.position(), source: e.into() })?
            .map(|attribute| attribute.value.into_owned())
            .unwrap_or_default();
        let mut parts = version.split('.');
        let major = parts.next() == Some("2");
        let minor = parts.next().is_some_and(|minor| matches!(minor, "0" | "1" | "2" | "3" | "4" | "5"));
        if major && minor {
            return Ok(());
        }
        Err(XmlError::Version { element: root.name(), version: version.chars().take(64).collect() })
    }

    /// The next child of the open element, or `None` when that ends.
    pub(crate) fn child(&mut self) -> Result<Option<Element>, XmlError> {
        loop {
            match self.event()? {
                Event::Start(start) => {
                    self.depth += 1;
                    if self.depth > XML_DEPTH_MAX {
                        return Err(XmlError::TooDeep { position: self.position() });
                    }
                    return self.element(&start).map(Some);
                }
                Event::End(_) => {
                    self.depth -= 1;
                    return Ok(None);
                }
                Event::Eof => return Err(XmlError::EndsEarly { position: self.position() }),
                other => self.ignorable(&other)?,
            }
        }
    }

    /// The text of the element just opened, which must hold nothing else.
    pub(crate) fn text(&mut self) -> Result<String, XmlError> {
        let mut out = String::new();
        loop {
            match self.event()? {
                Event::Text(part) => out.push_str(&part.xml10_content()),
                Event::CData(part) => out.push_str(&part.xml10_content()),
                Event::GeneralRef(reference) => out.push(self.resolve(&reference)?),
                Event::Comment(_) | Event::PI(_) => {}
                Event::End(_) => {
                    self.depth -= 1;
                    break;
                }
                Event::DocType(_) => return Err(XmlError::DocumentType { position: self.position() }),
                Event::Eof => return Err(XmlError::EndsEarly { position: self.position() }),
                _ => return Err(XmlError::Unexpected { position: self.position() }),
            }
        }
        if out.chars().all(is_xml_char) {
            Ok(out)
        } else {
            Err(XmlError::ForbiddenCharacter { position: self.position() })
        }
    }

    /// Skips the rest of the element just opened and all within it.
    pub(crate) fn skip(&mut self) -> Result<(), XmlError> {
        let outer = self.depth - 1;
        while self.depth > outer {
            match self.event()? {
                Event::Start(_) => {
                    self.depth += 1;
                    if self.depth > XML_DEPTH_MAX {
                        return Err(XmlError::TooDeep { position: self.position() });
                    }
                }
                Event::End(_) => self.depth -= 1,
                Event::DocType(_) => return Err(XmlError::DocumentType { position: self.position() }),
                Event::Eof => return Err(XmlError::EndsEarly { position: self.position() }),
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks that nothing follows the root element.
    pub(crate) fn finish(mut self) -> Result<(), XmlError> {
        loop {
            match self.event()? {
                Event::Eof => return Ok(()),
                other => self.ignorable(&other)?,
            }
        }
    }

    /// A value of the element just opened.
    pub(crate) fn value<T>(
        &mut self,
        element: Element,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, XmlError> {
        let text = self.text()?;
        read(text.trim()).ok_or_else(|| self.illegal(element.tag, &text))
    }

    /// A whole number.
    pub(crate) fn number(&mut self, element: Element) -> Result<u64, XmlError> {
        let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        self.value(element, |text| if digits(text) { text.parse().ok() } else { None })
    }

    /// A boolean.
    pub(crate) fn boolean(&mut self, element: Element) -> Result<bool, XmlError> {
        self.value(element, |text| match text {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        })
    }

    /// A time.
    pub(crate) fn time(&mut self, element: Element) -> Result<Timestamp, XmlError> {
        self.value(element, time::parse)
    }

    /// A partition id.
    pub(crate) fn partition(&mut self, element: Element) -> Result<Partition, XmlError> {
        self.value(element, |text| match text {
            "a" => Some(Partition::Index),
            "b" => Some(Partition::Data),
            _ => None,
        })
    }

    /// A name or target of a link: percent-decoded where the element says so.
    pub(crate) fn name(&mut self, element: Element) -> Result<String, XmlError> {
        let text = self.text()?;
        if !element.percent_encoded {
            return Ok(text);
        }
        text::percent_decode(&text).ok_or_else(|| self.illegal(element.tag, &text))
    }

    /// The value of an extended attribute: base64 where the element says so.
    pub(crate) fn bytes(&mut self, element: Element) -> Result<Vec<u8>, XmlError> {
        let text = self.text()?;
        if !element.base64 {
            return Ok(text.into_bytes());
        }
        text::base64_decode(&text).ok_or_else(|| self.illegal(element.tag, &text))
    }

    /// A partition and a block within the element just opened.
    pub(crate) fn tape_position(&mut self) -> Result<TapePosition, XmlError> {
        let (mut partition, mut block) = (None, None);
        while let Some(element) = self.child()? {
            match element.tag {
                Tag::Partition => partition = Some(self.partition(element)?),
                Tag::StartBlock => block = Some(BlockAddress(self.number(element)?)),
                _ => self.skip()?,
            }
        }
        Ok(TapePosition {
            partition: self.need(partition, Tag::Partition)?,
            block: self.need(block, Tag::StartBlock)?,
        })
    }

    /// The value of a required element.
    pub(crate) fn need<T>(&self, value: Option<T>, tag: Tag) -> Result<T, XmlError> {
        value.ok_or(XmlError::Missing { element: tag.name(), position: self.position() })
    }

    /// Says that `value` is illegal here.
    pub(crate) fn illegal(&self, tag: Tag, value: &str) -> XmlError {
        XmlError::Value {
            element: tag.name(),
            value: value.chars().take(64).collect(),
            position: self.position(),
        }
    }

    /// Bytes read so far.
    pub(crate) fn position(&self) -> u64 {
        self.inner.buffer_position()
    }

    fn event(&mut self) -> Result<Event<'a>, XmlError> {
        self.inner
            .read_event()
            .map_err(|source| XmlError::Syntax { position: self.inner.error_position(), source })
    }

    fn element(&self, start: &BytesStart<'_>) -> Result<Element, XmlError> {
        let tag = Tag::of(start.name().into_inner());
        let mut element = Element { tag, percent_encoded: false, base64: false };
        for attribute in start.attributes() {
            let attribute =
                attribute.map_err(|e| XmlError::Syntax { position: self.position(), source: e.into() })?;
            match (attribute.key.into_inner(), &*attribute.value) {
                ("percentencoded", "true" | "1") => element.percent_encoded = true,
                ("type", "base64") => element.base64 = true,
                ("type", "text") | ("percentencoded", "false" | "0") => {}
                // An unknown encoding of a value must not be taken for plain text.
                ("type" | "percentencoded", value) => return Err(self.illegal(tag, value)),
                _ => {}
            }
        }
        Ok(element)
    }

    fn ignorable(&self, event: &Event<'_>) -> Result<(), XmlError> {
        match event {
            Event::Text(text) if text.bytes().all(|b| b.is_ascii_whitespace()) => Ok(()),
            Event::Comment(_) | Event::PI(_) => Ok(()),
            Event::DocType(_) => Err(XmlError::DocumentType { position: self.position() }),
            Event::GeneralRef(name) => {
                self.resolve(name).and(Err(XmlError::Unexpected { position: self.position() }))
            }
            _ => Err(XmlError::Unexpected { position: self.position() }),
        }
    }

    fn resolve(&self, reference: &BytesRef<'_>) -> Result<char, XmlError> {
        let unknown =
            || XmlError::Entity { position: self.position(), name: reference.chars().take(64).collect() };
        match &**reference {
            "lt" => Ok('<'),
            "gt" => Ok('>'),
            "amp" => Ok('&'),
            "quot" => Ok('"'),
            "apos" => Ok('\''),
            _ => reference.resolve_char_ref().ok().flatten().filter(|&c| is_xml_char(c)).ok_or_else(unknown),
        }
    }
}

/// Whether XML 1.0 can hold the character.
fn is_xml_char(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r') || (c >= ' ' && !matches!(c, '\u{fffe}' | '\u{ffff}'))
}

/// Whether a name with this character must be percent-encoded in an index.
fn needs_encoding(c: char) -> bool {
    c.is_control() || matches!(c, '/' | ':' | '\u{fffe}' | '\u{ffff}')
}

/// Writes one document, an element a line, without indentation: an index is large enough as it is.
pub(crate) struct XmlWriter {
    out: String,
}

impl XmlWriter {
    /// Starts a document with its root element.
    pub(crate) fn open(root: Tag, capacity: usize) -> Self {
        let mut out = String::with_capacity(capacity);
        out.push_str("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<");
        out.push_str(root.name());
        out.push_str(" version=\"2.4.0\">\n");
        XmlWriter { out }
    }

    /// Ends the root element and the document.
    pub(crate) fn finish(mut self, root: Tag) -> Vec<u8> {
        self.end(root);
        self.out.into_bytes()
    }

    pub(crate) fn start(&mut self, tag: Tag) {
        self.markup(&["<", tag.name(), ">\n"]);
    }

    pub(crate) fn end(&mut self, tag: Tag) {
        self.markup(&["</", tag.name(), ">\n"]);
    }

    pub(crate) fn text(&mut self, tag: Tag, text: &str) {
        self.markup(&["<", tag.name(), ">"]);
        self.escape(text);
        self.end(tag);
    }

    pub(crate) fn number(&mut self, tag: Tag, number: u64) {
        self.markup(&["<", tag.name(), ">"]);
        write!(self.out, "{number}").expect("writing to memory succeeds");
        self.end(tag);
    }

    pub(crate) fn boolean(&mut self, tag: Tag, value: bool) {
        self.text(tag, if value { "true" } else { "false" });
    }

    pub(crate) fn time(&mut self, tag: Tag, time: Timestamp) {
        self.text(tag, &time::format(time));
    }

    pub(crate) fn partition(&mut self, tag: Tag, partition: Partition) {
        self.text(tag, partition.ltfs_id().encode_utf8(&mut [0; 4]));
    }

    pub(crate) fn tape_position(&mut self, tag: Tag, position: TapePosition) {
        self.start(tag);
        self.partition(Tag::Partition, position.partition);
        self.number(Tag::StartBlock, position.block.0);
        self.end(tag);
    }

    /// A name: percent-encoded, with the attribute that says so, if it holds what an index may not hold.
    pub(crate) fn name(&mut self, tag: Tag, name: &str) {
        self.encoded(tag, name, needs_encoding);
    }

    /// The target of a link, which is a path: as a name, but slashes and colons stay.
    pub(crate) fn target(&mut self, tag: Tag, target: &str) {
        self.encoded(tag, target, |c| needs_encoding(c) && !matches!(c, '/' | ':'));
    }

    fn encoded(&mut self, tag: Tag, name: &str, needs: impl Fn(char) -> bool) {
        if !name.chars().any(&needs) {
            return self.text(tag, name);
        }
        self.markup(&["<", tag.name(), " percentencoded=\"true\">"]);
        self.escape(&text::percent_encode(name, |c| c == '%' || needs(c)));
        self.end(tag);
    }

    /// The value of an extended attribute: text if it is printable, else base64.
    pub(crate) fn bytes(&mut self, tag: Tag, bytes: &[u8]) {
        let printable = |c: char| !c.is_control() && is_xml_char(c);
        match std::str::from_utf8(bytes).ok().filter(|text| text.chars().all(printable)) {
            Some(text) => self.text(tag, text),
            None => {
                self.markup(&["<", tag.name(), " type=\"base64\">"]);
                text::base64_encode(bytes, &mut self.out);
                self.end(tag);
            }
        }
    }

    fn markup(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.out.push_str(part));
    }

    fn escape(&mut self, text: &str) {
        for c in text.chars() {
            match c {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                _ => self.out.push(c),
            }
        }
    }
}
