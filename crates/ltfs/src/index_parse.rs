//! The reader of LTFS indexes. Directories in work stand on an explicit stack, so nesting costs no recursion.

use std::collections::{BTreeMap, BTreeSet};

use base::{BlockAddress, ByteCount, Generation, Timestamp, Uuid};
use unicode_normalization::{UnicodeNormalization, is_nfc};

use crate::index::{
    EXTENTS_MAX, ExtentFault, INDEX_BYTES_MAX, INDEX_ENTRIES_MAX, Index, IndexError, VolumeLock, XATTRS_MAX,
};
use crate::label::BlockSize;
use crate::seal;
use crate::tree::{Directory, Entry, Extent, File, FileUid, TREE_DEPTH_MAX, Times, Tree, is_tape_name};
use crate::xml::{Element, Tag, XmlError, XmlReader};

type Xattrs = Vec<(String, Vec<u8>)>;

/// Reads a whole index.
pub(crate) fn parse(bytes: &[u8], block_size: BlockSize) -> Result<Index, IndexError> {
    if bytes.len() > INDEX_BYTES_MAX {
        return Err(IndexError::TooLarge(bytes.len()));
    }
    seal::check(bytes)?;
    let mut xml = XmlReader::open(bytes, Tag::LtfsIndex)?;
    let mut head = Head::default();
    let mut build = Build { block_size, directories: BTreeMap::new(), uids: BTreeSet::new(), files: 0 };
    let mut roots = Vec::new();
    while let Some(element) = xml.child()? {
        if element.tag == Tag::Directory {
            roots.push(build.root(&mut xml)?);
        } else {
            head.field(&mut xml, element)?;
        }
    }
    let count = roots.len();
    let (Some(volume_name), 1) = (roots.pop(), count) else { return Err(IndexError::Roots(count)) };
    let highest = FileUid(xml.need(head.highest_uid, Tag::HighestFileUid)?);
    if let Some(&above) = build.uids.last().filter(|&&uid| uid > highest) {
        return Err(IndexError::Uid(above));
    }
    let index = Index {
        creator: xml.need(head.creator, Tag::Creator)?,
        volume_uuid: xml.need(head.volume_uuid, Tag::VolumeUuid)?,
        generation: xml.need(head.generation, Tag::Generation)?,
        update_time: xml.need(head.update_time, Tag::UpdateTime)?,
        location: xml.need(head.location, Tag::Location)?,
        previous: head.previous,
        allow_policy_update: xml.need(head.allow_policy_update, Tag::AllowPolicyUpdate)?,
        lock: head.lock,
        tree: Tree::from_parts(volume_name, build.directories, highest, build.files),
    };
    xml.finish()?;
    Ok(index)
}

#[derive(Default)]
struct Head {
    creator: Option<String>,
    volume_uuid: Option<Uuid>,
    generation: Option<Generation>,
    update_time: Option<Timestamp>,
    location: Option<base::TapePosition>,
    previous: Option<base::TapePosition>,
    allow_policy_update: Option<bool>,
    highest_uid: Option<u64>,
    lock: VolumeLock,
}

impl Head {
    fn field(&mut self, xml: &mut XmlReader<'_>, element: Element) -> Result<(), XmlError> {
        match element.tag {
            Tag::Creator => self.creator = Some(xml.text()?),
            Tag::VolumeUuid => self.volume_uuid = Some(xml.value(element, Uuid::parse)?),
            Tag::Generation => self.generation = Some(Generation(xml.number(element)?)),
            Tag::UpdateTime => self.update_time = Some(xml.time(element)?),
            Tag::Location => self.location = Some(xml.tape_position()?),
            Tag::Previous => self.previous = Some(xml.tape_position()?),
            Tag::AllowPolicyUpdate => self.allow_policy_update = Some(xml.boolean(element)?),
            Tag::HighestFileUid => self.highest_uid = Some(xml.number(element)?),
            Tag::VolumeLockState => self.lock = xml.value(element, VolumeLock::parse)?,
            _ => xml.skip()?,
        }
        Ok(())
    }
}

/// The fields that files and directories share.
#[derive(Default)]
struct Common {
    uid: Option<FileUid>,
    name: Option<String>,
    read_only: Option<bool>,
    times: [Option<Timestamp>; 5],
    xattrs: Xattrs,
}

impl Common {
    /// Takes the field if it is one of these; else gives it back.
    fn field(&mut self, xml: &mut XmlReader<'_>, element: Element) -> Result<Option<Element>, IndexError> {
        let [creation, change, modify, access, backup] = &mut self.times;
        match element.tag {
            Tag::FileUid => self.uid = Some(FileUid(xml.number(element)?)),
            Tag::Name => self.name = Some(nfc(xml.name(element)?)),
            Tag::ReadOnly => self.read_only = Some(xml.boolean(element)?),
            Tag::CreationTime => *creation = Some(xml.time(element)?),
            Tag::ChangeTime => *change = Some(xml.time(element)?),
            Tag::ModifyTime => *modify = Some(xml.time(element)?),
            Tag::AccessTime => *access = Some(xml.time(element)?),
            Tag::BackupTime => *backup = Some(xml.time(element)?),
            Tag::ExtendedAttributes => self.xattrs = parse_xattrs(xml)?,
            _ => return Ok(Some(element)),
        }
        Ok(None)
    }

    fn times(&self, xml: &XmlReader<'_>) -> Result<Times, XmlError> {
        let [creation, change, modify, access, backup] = self.times;
        Ok(Times {
            creation: xml.need(creation, Tag::CreationTime)?,
            change: xml.need(change, Tag::ChangeTime)?,
            modify: xml.need(modify, Tag::ModifyTime)?,
            access: xml.need(access, Tag::AccessTime)?,
            backup: xml.need(backup, Tag::BackupTime)?,
        })
    }
}

#[derive(Default)]
struct OpenDirectory {
    common: Common,
    entries: BTreeMap<String, Entry>,
    in_contents: bool,
}

impl OpenDirectory {
    fn add(&mut self, name: String, entry: Entry) -> Result<(), IndexError> {
        if self.entries.contains_key(&name) {
            return Err(IndexError::NameTwice(name));
        }
        self.entries.insert(name, entry);
        Ok(())
    }
}

struct Build {
    block_size: BlockSize,
    directories: BTreeMap<FileUid, Directory>,
    uids: BTreeSet<FileUid>,
    files: usize,
}

impl Build {
    /// Reads the root directory and all below it; gives its name.
    fn root(&mut self, xml: &mut XmlReader<'_>) -> Result<String, IndexError> {
        let mut stack: Vec<OpenDirectory> = Vec::new();
        let mut open = OpenDirectory::default();
        loop {
            let element = xml.child()?;
            match (open.in_contents, element) {
                (true, None) => open.in_contents = false,
                (true, Some(element)) => match element.tag {
                    Tag::Directory => {
                        // The stack holds the levels above this one; the new one is below it.
                        if stack.len() + 2 > TREE_DEPTH_MAX {
                            return Err(IndexError::TooDeep);
                        }
                        stack.push(std::mem::take(&mut open));
                    }
                    Tag::File => {
                        let (name, file) = self.file(xml)?;
                        open.add(name, Entry::File(Box::new(file)))?;
                    }
                    _ => xml.skip()?,
                },
                (false, Some(element)) if element.tag == Tag::Contents => open.in_contents = true,
                (false, Some(element)) => {
                    if open.common.field(xml, element)?.is_some() {
                        xml.skip()?;
                    }
                }
                (false, None) => {
                    let is_root = stack.is_empty();
                    let (name, uid) = self.close(xml, open, is_root)?;
                    let Some(parent) = stack.pop() else { return Ok(name) };
                    open = parent;
                    open.add(name, Entry::Directory(uid))?;
                }
            }
        }
    }

    fn close(
        &mut self,
        xml: &XmlReader<'_>,
        open: OpenDirectory,
        is_root: bool,
    ) -> Result<(String, FileUid), IndexError> {
        let times = open.common.times(xml)?;
        let uid = xml.need(open.common.uid, Tag::FileUid)?;
        let name = xml.need(open.common.name, Tag::Name)?;
        if is_root != (uid == FileUid::ROOT) {
            return Err(IndexError::Uid(uid));
        }
        // The root's name is the volume's, which may be empty.
        if !is_root && !is_tape_name(&name) {
            return Err(IndexError::Name(name));
        }
        self.count(uid)?;
        let directory = Directory {
            times,
            read_only: open.common.read_only.unwrap_or(false),
            xattrs: open.common.xattrs,
            entries: open.entries,
        };
        self.directories.insert(uid, directory);
        Ok((name, uid))
    }

    fn file(&mut self, xml: &mut XmlReader<'_>) -> Result<(String, File), IndexError> {
        let mut common = Common::default();
        let (mut length, mut symlink, mut extents) = (None, None, Vec::new());
        while let Some(element) = xml.child()? {
            let Some(element) = common.field(xml, element)? else { continue };
            match element.tag {
                Tag::Length => length = Some(ByteCount(xml.number(element)?)),
                Tag::Symlink => symlink = Some(xml.name(element)?),
                Tag::ExtentInfo => extents = self.extents(xml, common.uid)?,
                _ => xml.skip()?,
            }
        }
        let times = common.times(xml)?;
        let uid = xml.need(common.uid, Tag::FileUid)?;
        let name = xml.need(common.name, Tag::Name)?;
        let length = xml.need(length, Tag::Length)?;
        if !is_tape_name(&name) {
            return Err(IndexError::Name(name));
        }
        if symlink.is_some() && !extents.is_empty() {
            return Err(IndexError::SymlinkWithData(uid));
        }
        self.count(uid)?;
        self.files += 1;
        extents.sort_by_key(|extent| extent.file_offset);
        check_extents(&extents, length, self.block_size)
            .map_err(|fault| IndexError::Extent { uid, fault })?;
        let read_only = common.read_only.unwrap_or(false);
        Ok((name, File { uid, length, times, read_only, xattrs: common.xattrs, extents, symlink }))
    }

    fn extents(&self, xml: &mut XmlReader<'_>, uid: Option<FileUid>) -> Result<Vec<Extent>, IndexError> {
        let mut extents = Vec::new();
        while let Some(element) = xml.child()? {
            if element.tag != Tag::Extent {
                xml.skip()?;
                continue;
            }
            if extents.len() == EXTENTS_MAX {
                return Err(IndexError::TooManyExtents { uid: uid.unwrap_or(FileUid(0)) });
            }
            extents.push(parse_extent(xml)?);
        }
        Ok(extents)
    }

    /// Counts an entry and checks that its number is new.
    fn count(&mut self, uid: FileUid) -> Result<(), IndexError> {
        if self.uids.len() == INDEX_ENTRIES_MAX {
            return Err(IndexError::TooManyEntries);
        }
        if uid.0 == 0 || !self.uids.insert(uid) {
            return Err(IndexError::Uid(uid));
        }
        Ok(())
    }
}

fn parse_extent(xml: &mut XmlReader<'_>) -> Result<Extent, XmlError> {
    let (mut file_offset, mut partition, mut start_block) = (None, None, None);
    let (mut byte_offset, mut byte_count) = (None, None);
    while let Some(element) = xml.child()? {
        match element.tag {
            Tag::FileOffset => file_offset = Some(ByteCount(xml.number(element)?)),
            Tag::Partition => partition = Some(xml.partition(element)?),
            Tag::StartBlock => start_block = Some(BlockAddress(xml.number(element)?)),
            Tag::ByteOffset => byte_offset = Some(xml.number(element)?),
            Tag::ByteCount => byte_count = Some(ByteCount(xml.number(element)?)),
            _ => xml.skip()?,
        }
    }
    Ok(Extent {
        file_offset: xml.need(file_offset, Tag::FileOffset)?,
        partition: xml.need(partition, Tag::Partition)?,
        start_block: xml.need(start_block, Tag::StartBlock)?,
        // What does not fit is beyond every block size, and refused as such.
        byte_offset: u32::try_from(xml.need(byte_offset, Tag::ByteOffset)?).unwrap_or(u32::MAX),
        byte_count: xml.need(byte_count, Tag::ByteCount)?,
    })
}

/// Checks the extents of one file, which rise by file offset.
fn check_extents(extents: &[Extent], length: ByteCount, block_size: BlockSize) -> Result<(), ExtentFault> {
    let mut covered = 0u64;
    for extent in extents {
        if extent.byte_count.0 == 0 {
            return Err(ExtentFault::Empty);
        }
        if extent.byte_offset >= block_size.bytes() {
            return Err(ExtentFault::ByteOffset);
        }
        let end = extent.file_offset.0.checked_add(extent.byte_count.0).ok_or(ExtentFault::Overflow)?;
        if end > length.0 {
            return Err(ExtentFault::BeyondEnd);
        }
        if extent.file_offset.0 < covered {
            return Err(ExtentFault::Overlap);
        }
        covered = end;
        let on_tape =
            extent.byte_count.0.checked_add(u64::from(extent.byte_offset)).ok_or(ExtentFault::Overflow)?;
        let blocks = on_tape.div_ceil(u64::from(block_size.bytes()));
        extent.start_block.0.checked_add(blocks).ok_or(ExtentFault::Overflow)?;
    }
    Ok(())
}

fn parse_xattrs(xml: &mut XmlReader<'_>) -> Result<Xattrs, IndexError> {
    let mut xattrs = Xattrs::new();
    let mut keys = BTreeSet::new();
    while let Some(element) = xml.child()? {
        if element.tag != Tag::Xattr {
            xml.skip()?;
            continue;
        }
        if xattrs.len() == XATTRS_MAX {
            return Err(IndexError::TooManyXattrs);
        }
        let (mut key, mut value) = (None, None);
        while let Some(element) = xml.child()? {
            match element.tag {
                Tag::Key => key = Some(xml.name(element)?),
                Tag::Value => value = Some(xml.bytes(element)?),
                _ => xml.skip()?,
            }
        }
        let key = xml.need(key, Tag::Key)?;
        if !keys.insert(key.clone()) {
            return Err(IndexError::XattrTwice(key));
        }
        xattrs.push((key, xml.need(value, Tag::Value)?));
    }
    Ok(xattrs)
}

/// Foreign programs may not have normalised a name; comparing must not depend on that.
fn nfc(name: String) -> String {
    if is_nfc(&name) { name } else { name.nfc().collect() }
}
