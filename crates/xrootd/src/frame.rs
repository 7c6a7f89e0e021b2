//! Frames of the socket: docs/reference/xrootd-socket.md describes them to the byte. Pure.

use identity::XrootdEntity;

use crate::wire::{Fields, FrameError};

/// The version of the protocol.
pub const VERSION: u16 = 1;
/// What a connection begins with.
pub const MAGIC: u64 = u64::from_le_bytes(*b"kist-xrd");
/// Bytes of a header: length, tag, zero, id.
pub const HEADER_BYTES: usize = 16;
/// The most bytes that one frame reads or writes of a file: the largest buffer of an XRootD server.
pub const IO_BYTES_MAX: u32 = 2 << 20;
/// The longest body of a frame.
pub const FRAME_BYTES_MAX: u32 = IO_BYTES_MAX + (64 << 10);
/// The longest path.
pub const PATH_BYTES_MAX: usize = 4_096;
/// The longest token.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;
/// The longest list of groups, roles or organisations, and the longest subject.
pub const ENTITY_BYTES_MAX: usize = 8 << 10;
/// The longest name of somebody, by the protocol that authenticated them.
pub const ENTITY_NAME_BYTES_MAX: usize = 1 << 10;
/// The longest name of such a protocol.
pub const PROTOCOL_BYTES_MAX: usize = 16;
/// The longest address of a client.
pub const ADDRESS_BYTES_MAX: usize = 128;
/// The longest number of a request.
pub const REQUEST_BYTES_MAX: usize = 64;
/// Pieces of a vector read.
pub const SEGMENTS_MAX: u16 = 1_024;
/// Lines of a page of a listing.
pub const LIST_ENTRIES_MAX: u32 = 1_000;
/// Paths that one request stages, evicts or asks for.
pub const PATHS_MAX: u16 = 10_000;

/// Which frame it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Bytes of the body.
    pub length: u32,
    /// What is asked, or answered.
    pub tag: u16,
    /// The number that the answer repeats.
    pub id: u64,
}

impl Header {
    /// Reads one of a request.
    pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Self, FrameError> {
        let mut fields = Fields::of(bytes);
        let length = fields.up_to(FRAME_BYTES_MAX, "length")?;
        let tag = fields.u16("tag")?;
        match fields.u16("reserved field")? {
            0 => Ok(Header { length, tag, id: fields.u64("id")? }),
            other => Err(FrameError::Unknown("reserved field", other.into())),
        }
    }

    /// Its bytes.
    pub fn bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let (length, rest) = bytes.split_at_mut(4);
        length.copy_from_slice(&self.length.to_le_bytes());
        let (tag, rest) = rest.split_at_mut(2);
        tag.copy_from_slice(&self.tag.to_le_bytes());
        if let Some((_, id)) = rest.split_at_mut_checked(2) {
            id.copy_from_slice(&self.id.to_le_bytes());
        }
        bytes
    }
}

/// Tags of requests.
pub mod tag {
    pub const HELLO: u16 = 1;
    pub const STAT: u16 = 2;
    pub const LIST: u16 = 3;
    pub const OPEN: u16 = 4;
    pub const READ: u16 = 5;
    pub const READ_VECTOR: u16 = 6;
    pub const CREATE: u16 = 7;
    pub const WRITE: u16 = 8;
    pub const FINISH: u16 = 9;
    pub const CLOSE: u16 = 10;
    pub const MAKE_DIRECTORY: u16 = 11;
    pub const REMOVE_DIRECTORY: u16 = 12;
    pub const REMOVE: u16 = 13;
    pub const RENAME: u16 = 14;
    pub const STAGE: u16 = 15;
    pub const CANCEL: u16 = 16;
    pub const QUERY: u16 = 17;
    pub const EVICT: u16 = 18;
    pub const SPACE: u16 = 19;
    /// Set in the tag of an answer.
    pub const ANSWER: u16 = 0x4000;
    /// The tag of an answer that refuses.
    pub const REFUSED: u16 = 0x7fff;
}

/// Who asks, by the word of XRootD.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Asker {
    /// As XRootD has authenticated them.
    pub entity: XrootdEntity,
    /// Address and port of the client, if they are known.
    pub address: String,
    /// A token that the client has shown; empty: none.
    pub token: String,
}

/// A piece of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Where it begins.
    pub offset: u64,
    /// Its bytes.
    pub length: u32,
}

/// What is asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request<'a> {
    /// The first frame of a connection.
    Hello { magic: u64, version: u16 },
    /// What a path stands for.
    Stat { asker: Asker, path: String },
    /// A page of a directory, behind a name.
    List { asker: Asker, path: String, after: String, limit: u32 },
    /// Opens a file for reading, in this connection.
    Open { asker: Asker, path: String },
    /// Reads of the open file.
    Read(Segment),
    /// Reads pieces of the open file.
    ReadVector(Vec<Segment>),
    /// Begins a new file, in this connection. `size`: that of the client, if it has said one.
    Create { asker: Asker, path: String, exclusive: bool, parents: bool, mode: u32, size: Option<u64> },
    /// Bytes of the new file. There is no answer but a refusal.
    Write { offset: u64, bytes: &'a [u8] },
    /// The new file is complete.
    Finish,
    /// The open file is not needed any more; a new one that is not finished is not kept.
    Close,
    /// Makes a directory.
    MakeDirectory { asker: Asker, path: String, mode: u32, parents: bool },
    /// Removes an empty directory.
    RemoveDirectory { asker: Asker, path: String },
    /// Removes a file.
    Remove { asker: Asker, path: String },
    /// Gives another name.
    Rename { asker: Asker, from: String, to: String },
    /// Has files brought back from tape.
    Stage { asker: Asker, priority: u32, paths: Vec<String> },
    /// Cancels a request.
    Cancel { asker: Asker, request: String },
    /// How a request stands.
    Query { asker: Asker, request: String, paths: Vec<String> },
    /// Files are not needed in the pool any more.
    Evict { asker: Asker, paths: Vec<String> },
    /// The room of the pool.
    Space { asker: Asker },
}

impl<'a> Request<'a> {
    /// Reads the body of a frame with this tag.
    pub fn parse(tag: u16, body: &'a [u8]) -> Result<Self, FrameError> {
        let mut fields = Fields::of(body);
        let f = &mut fields;
        let request = match tag {
            tag::HELLO => {
                let (magic, version) = (f.u64("magic")?, f.u16("version")?);
                // Later versions may say more behind it.
                let _ = f.rest();
                Request::Hello { magic, version }
            }
            tag::STAT => Request::Stat { asker: asker(f)?, path: path(f)? },
            tag::LIST => Request::List {
                asker: asker(f)?,
                path: path(f)?,
                after: f.text(PATH_BYTES_MAX, "name")?,
                limit: f.up_to(LIST_ENTRIES_MAX, "limit of lines")?.max(1),
            },
            tag::OPEN => Request::Open { asker: asker(f)?, path: path(f)? },
            tag::READ => Request::Read(segment(f)?),
            tag::READ_VECTOR => Request::ReadVector(segments(f)?),
            tag::CREATE => Request::Create {
                asker: asker(f)?,
                path: path(f)?,
                exclusive: flag(f, "exclusive flag")?,
                parents: flag(f, "parents flag")?,
                mode: f.up_to(0o7777, "mode")?,
                size: Some(f.u64("size")?).filter(|&size| size != u64::MAX),
            },
            tag::WRITE => {
                let offset = f.u64("offset")?;
                let bytes = f.rest();
                if bytes.len() as u64 > u64::from(IO_BYTES_MAX) {
                    return Err(FrameError::Limit("bytes", IO_BYTES_MAX.into()));
                }
                Request::Write { offset, bytes }
            }
            tag::FINISH => Request::Finish,
            tag::CLOSE => Request::Close,
            tag::MAKE_DIRECTORY => Request::MakeDirectory {
                asker: asker(f)?,
                path: path(f)?,
                mode: f.up_to(0o7777, "mode")?,
                parents: flag(f, "parents flag")?,
            },
            tag::REMOVE_DIRECTORY => Request::RemoveDirectory { asker: asker(f)?, path: path(f)? },
            tag::REMOVE => Request::Remove { asker: asker(f)?, path: path(f)? },
            tag::RENAME => Request::Rename { asker: asker(f)?, from: path(f)?, to: path(f)? },
            tag::STAGE => {
                Request::Stage { asker: asker(f)?, priority: f.up_to(3, "priority")?, paths: paths(f)? }
            }
            tag::CANCEL => Request::Cancel { asker: asker(f)?, request: request_number(f)? },
            tag::QUERY => Request::Query { asker: asker(f)?, request: request_number(f)?, paths: paths(f)? },
            tag::EVICT => Request::Evict { asker: asker(f)?, paths: paths(f)? },
            tag::SPACE => Request::Space { asker: asker(f)? },
            other => return Err(FrameError::Unknown("tag", other.into())),
        };
        fields.end()?;
        Ok(request)
    }
}

fn asker(fields: &mut Fields<'_>) -> Result<Asker, FrameError> {
    Ok(Asker {
        entity: XrootdEntity {
            protocol: fields.text(PROTOCOL_BYTES_MAX, "protocol")?,
            name: fields.text(ENTITY_NAME_BYTES_MAX, "name of the client")?,
            organisations: fields.text(ENTITY_BYTES_MAX, "list of organisations")?,
            roles: fields.text(ENTITY_BYTES_MAX, "list of roles")?,
            groups: fields.text(ENTITY_BYTES_MAX, "list of groups")?,
            subject: fields.text(ENTITY_BYTES_MAX, "subject")?,
        },
        address: fields.text(ADDRESS_BYTES_MAX, "address")?,
        token: fields.text(TOKEN_BYTES_MAX, "token")?,
    })
}

fn path(fields: &mut Fields<'_>) -> Result<String, FrameError> {
    fields.text(PATH_BYTES_MAX, "path")
}

fn request_number(fields: &mut Fields<'_>) -> Result<String, FrameError> {
    fields.text(REQUEST_BYTES_MAX, "number of the request")
}

fn flag(fields: &mut Fields<'_>, what: &'static str) -> Result<bool, FrameError> {
    match fields.u16(what)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(FrameError::Unknown(what, other.into())),
    }
}

fn segment(fields: &mut Fields<'_>) -> Result<Segment, FrameError> {
    let (offset, length) = (fields.u64("offset")?, fields.up_to(IO_BYTES_MAX, "length of the read")?);
    Ok(Segment { offset, length })
}

fn segments(fields: &mut Fields<'_>) -> Result<Vec<Segment>, FrameError> {
    let count = fields.u16("number of pieces")?;
    if count > SEGMENTS_MAX {
        return Err(FrameError::Limit("number of pieces", SEGMENTS_MAX.into()));
    }
    let all = (0..count).map(|_| segment(fields)).collect::<Result<Vec<_>, _>>()?;
    let bytes: u64 = all.iter().map(|segment| u64::from(segment.length)).sum();
    if bytes > u64::from(IO_BYTES_MAX) {
        return Err(FrameError::Limit("sum of the pieces", IO_BYTES_MAX.into()));
    }
    Ok(all)
}

fn paths(fields: &mut Fields<'_>) -> Result<Vec<String>, FrameError> {
    let count = fields.u16("number of paths")?;
    if count > PATHS_MAX {
        return Err(FrameError::Limit("number of paths", PATHS_MAX.into()));
    }
    (0..count).map(|_| path(fields)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Body;

    fn asked() -> Body {
        ["sss", "anna", "", "", "cms", "", "[::1]:1", ""]
            .iter()
            .fold(Body::default(), |body, text| body.text(text))
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = Header { length: 5, tag: tag::READ, id: 77 };
        assert_eq!(header.bytes()[..8], [5, 0, 0, 0, 5, 0, 0, 0]);
        assert_eq!(Header::parse(&header.bytes()), Ok(header));
        let long = Header { length: FRAME_BYTES_MAX + 1, ..header };
        assert_eq!(Header::parse(&long.bytes()), Err(FrameError::Limit("length", FRAME_BYTES_MAX.into())));
        assert!(Header::parse(&Header { length: FRAME_BYTES_MAX, ..header }.bytes()).is_ok());
        let mut reserved = header.bytes();
        reserved[6] = 1;
        assert_eq!(Header::parse(&reserved), Err(FrameError::Unknown("reserved field", 1)));
    }

    #[test]
    fn requests_are_read_to_their_last_byte() {
        let body = asked().text("/a").0;
        let Ok(Request::Stat { asker, path }) = Request::parse(tag::STAT, &body) else { panic!("a stat") };
        assert_eq!((asker.entity.name.as_str(), asker.entity.groups.as_str()), ("anna", "cms"));
        assert_eq!((path.as_str(), asker.address.as_str()), ("/a", "[::1]:1"));
        for cut in 0..body.len() {
            assert!(Request::parse(tag::STAT, &body[..cut]).is_err(), "{cut}");
        }
        let long = [body, vec![0]].concat();
        assert_eq!(Request::parse(tag::STAT, &long), Err(FrameError::Long(1)));
        for unknown in [0, 20, tag::STAT | tag::ANSWER, tag::REFUSED] {
            assert_eq!(Request::parse(unknown, &[]), Err(FrameError::Unknown("tag", unknown.into())));
        }
    }

    #[test]
    fn every_field_has_a_limit() {
        let texts = |at: usize, length: usize| {
            let texts = (0..8).map(|n| if n == at { "x".repeat(length) } else { String::new() });
            texts.fold(Body::default(), |body, text| body.text(&text)).text("/a").0
        };
        let limits = [
            PROTOCOL_BYTES_MAX,
            ENTITY_NAME_BYTES_MAX,
            ENTITY_BYTES_MAX,
            ENTITY_BYTES_MAX,
            ENTITY_BYTES_MAX,
            ENTITY_BYTES_MAX,
            ADDRESS_BYTES_MAX,
            TOKEN_BYTES_MAX,
        ];
        for (at, limit) in limits.into_iter().enumerate() {
            assert!(Request::parse(tag::STAT, &texts(at, limit)).is_ok(), "{at}");
            let longer = texts(at, limit + 1);
            assert!(matches!(Request::parse(tag::STAT, &longer), Err(FrameError::Limit(..))), "{at}");
        }
        let read = |length: u32| Body::default().u64(0).u32(length).0;
        assert!(Request::parse(tag::READ, &read(IO_BYTES_MAX)).is_ok());
        assert!(Request::parse(tag::READ, &read(IO_BYTES_MAX + 1)).is_err());
        let write = |length: usize| vec![0; 8 + length];
        let most = IO_BYTES_MAX as usize;
        assert!(Request::parse(tag::WRITE, &write(most)).is_ok());
        assert!(Request::parse(tag::WRITE, &write(most + 1)).is_err());
        let vector = |count: u16, length: u32| {
            (0..count).fold(Body::default().u16(count), |body, _| body.u64(0).u32(length)).0
        };
        assert!(Request::parse(tag::READ_VECTOR, &vector(SEGMENTS_MAX, 2_048)).is_ok());
        assert!(Request::parse(tag::READ_VECTOR, &vector(SEGMENTS_MAX, 2_049)).is_err());
        assert!(Request::parse(tag::READ_VECTOR, &vector(SEGMENTS_MAX + 1, 1)).is_err());
        let evict = |count: u16| (0..count).fold(asked().u16(count), |body, _| body.text("/a")).0;
        assert!(Request::parse(tag::EVICT, &evict(PATHS_MAX)).is_ok());
        assert!(Request::parse(tag::EVICT, &evict(PATHS_MAX + 1)).is_err());
    }

    #[test]
    fn what_is_no_text_and_no_flag_is_refused() {
        let body = [asked().0, vec![2, 0, 0xff, 0xfe]].concat();
        assert_eq!(Request::parse(tag::STAT, &body), Err(FrameError::NotText("path")));
        let body = asked().text("/a\0b").0;
        assert_eq!(Request::parse(tag::STAT, &body), Err(FrameError::NotText("path")));
        let create =
            |exclusive: u16, mode: u32| asked().text("/a").u16(exclusive).u16(0).u32(mode).u64(u64::MAX).0;
        let Ok(Request::Create { size, .. }) = Request::parse(tag::CREATE, &create(1, 0o644)) else {
            panic!("a create")
        };
        assert_eq!(size, None);
        assert!(Request::parse(tag::CREATE, &create(2, 0o644)).is_err());
        assert!(Request::parse(tag::CREATE, &create(0, 0o10000)).is_err());
    }
}
