//! The LTFS index: everything a volume holds, as XML.

use std::collections::btree_map;

use base::{Generation, TapePosition, Timestamp, Uuid};

use crate::index_parse;
use crate::label::BlockSize;
use crate::seal;
use crate::tree::{Directory, Entry, Extent, File, FileUid, TREE_DEPTH_MAX, Times, Tree};
use crate::xml::{Tag, XmlError, XmlWriter};

/// The longest index that is read, in bytes.
pub const INDEX_BYTES_MAX: usize = 2 << 30;
/// The most files and directories in an index.
pub const INDEX_ENTRIES_MAX: usize = 4_000_000;
/// The most extents of one file.
pub const EXTENTS_MAX: usize = 100_000;
/// The most extended attributes of one entry.
pub const XATTRS_MAX: usize = 1_000;

/// Whether other LTFS programs may change the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum VolumeLock {
    /// They may.
    #[default]
    Unlocked,
    /// Not until it is unlocked.
    Locked,
    /// Never again.
    PermanentlyLocked,
}

impl VolumeLock {
    pub(crate) fn text(self) -> &'static str {
        match self {
            VolumeLock::Unlocked => "unlocked",
            VolumeLock::Locked => "locked",
            VolumeLock::PermanentlyLocked => "permlocked",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [VolumeLock::Unlocked, VolumeLock::Locked, VolumeLock::PermanentlyLocked]
            .into_iter()
            .find(|lock| lock.text() == text)
    }
}

/// One generation of a volume's index. A mover keeps one for each mounted volume, adds files to its tree and
/// sets the head anew for each time that it is written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Index {
    /// The program that wrote it.
    pub creator: String,
    /// The volume. The caller compares it with the label's.
    pub volume_uuid: Uuid,
    /// Rises with each change of the content; 1 is the fresh volume's.
    pub generation: Generation,
    /// When it was written.
    pub update_time: Timestamp,
    /// Where it stands itself: its first block.
    pub location: TapePosition,
    /// Where the last index of the data partition before it stands; `None` on a fresh volume.
    pub previous: Option<TapePosition>,
    /// Whether another program may set a data placement policy.
    pub allow_policy_update: bool,
    /// Whether other programs may change the volume.
    pub lock: VolumeLock,
    /// The files.
    pub tree: Tree,
}

/// Why an index is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// Longer than [`INDEX_BYTES_MAX`].
    #[error("the index has {0} bytes, more than {INDEX_BYTES_MAX}: it is refused")]
    TooLarge(usize),
    /// It is not what was written.
    #[error("the index does not have the hash that stands behind it: read an older generation")]
    Hash,
    /// The XML or a value in it is wrong.
    #[error("index: {0}")]
    Xml(#[from] XmlError),
    /// More entries than [`INDEX_ENTRIES_MAX`].
    #[error("the index has more than {INDEX_ENTRIES_MAX} entries: it is refused")]
    TooManyEntries,
    /// More than [`EXTENTS_MAX`] extents.
    #[error("file uid {uid} of the index has more than {EXTENTS_MAX} extents: it is refused", uid = .uid.0)]
    TooManyExtents {
        /// The file.
        uid: FileUid,
    },
    /// More than [`XATTRS_MAX`] extended attributes.
    #[error("an entry of the index has more than {XATTRS_MAX} extended attributes: it is refused")]
    TooManyXattrs,
    /// Directories nest deeper than a tree may.
    #[error("the index nests directories deeper than {TREE_DEPTH_MAX}: it is refused")]
    TooDeep,
    /// No root directory, or two.
    #[error("the index has {0} root directories, not one: read an older generation")]
    Roots(usize),
    /// The root's number is not 1, another's number is 0, used twice, or above the highest.
    #[error("the index gives the number {uid} to an entry wrongly: read an older generation", uid = .0.0)]
    Uid(FileUid),
    /// A name that is empty, too long, or a path.
    #[error("the index holds the illegal name '{0}': read an older generation")]
    Name(String),
    /// A name twice in one directory.
    #[error("the index holds the name '{0}' twice in one directory: read an older generation")]
    NameTwice(String),
    /// A key twice in one entry.
    #[error("the index holds the extended attribute '{0}' twice in one entry: read an older generation")]
    XattrTwice(String),
    /// An extent that cannot be.
    #[error("file uid {uid} of the index has a wrong extent ({fault}): read an older one", uid = .uid.0)]
    Extent {
        /// The file.
        uid: FileUid,
        /// What is wrong.
        fault: ExtentFault,
    },
    /// A symbolic link that also has extents.
    #[error("file uid {uid} of the index is a symbolic link with data: read an older generation", uid = .0.0)]
    SymlinkWithData(FileUid),
}

/// What is wrong with an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExtentFault {
    /// No bytes.
    #[error("no bytes")]
    Empty,
    /// The offset is not within a block.
    #[error("its byte offset is not below the block size")]
    ByteOffset,
    /// Beyond the file's length.
    #[error("it ends behind the end of the file")]
    BeyondEnd,
    /// Blocks that have no number.
    #[error("its last block's number overflows")]
    Overflow,
    /// Two of one file cover the same bytes.
    #[error("it overlaps another")]
    Overlap,
}

impl Index {
    /// Reads an index of any LTFS program of format version 2.0 to 2.5; elements that Kist does not know are
    /// skipped. One that Kist wrote is compared with the hash behind it. Memory is a small multiple of the
    /// document; the stack stays flat.
    ///
    /// # Errors
    /// Anything that is not exactly right refuses the whole index: an older generation is better than a
    /// guess.
    pub fn parse(bytes: &[u8], block_size: BlockSize) -> Result<Self, IndexError> {
        index_parse::parse(bytes, block_size)
    }

    /// The XML document, version 2.4.0, and its hash: about 0.8 kB a file, in order of names.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let entries = self.tree.files_len() + self.tree.directories_len();
        let mut xml = XmlWriter::open(Tag::LtfsIndex, 1024 + 1024 * entries);
        xml.text(Tag::Creator, &self.creator);
        xml.text(Tag::VolumeUuid, &self.volume_uuid.to_string());
        xml.number(Tag::Generation, self.generation.0);
        xml.time(Tag::UpdateTime, self.update_time);
        xml.tape_position(Tag::Location, self.location);
        if let Some(previous) = self.previous {
            xml.tape_position(Tag::Previous, previous);
        }
        xml.boolean(Tag::AllowPolicyUpdate, self.allow_policy_update);
        xml.number(Tag::HighestFileUid, self.tree.highest_uid().0);
        xml.text(Tag::VolumeLockState, self.lock.text());
        encode_tree(&mut xml, &self.tree);
        let mut document = xml.finish(Tag::LtfsIndex);
        seal::seal(&mut document);
        document
    }
}

fn encode_tree(xml: &mut XmlWriter, tree: &Tree) {
    let mut levels: Vec<btree_map::Iter<'_, String, Entry>> = Vec::new();
    start_directory(xml, &tree.volume_name, FileUid::ROOT, tree.root());
    levels.push(tree.root().entries.iter());
    while let Some(level) = levels.last_mut() {
        match level.next() {
            Some((name, Entry::File(file))) => encode_file(xml, name, file),
            Some((name, Entry::Directory(uid))) => {
                let directory = tree.directory(*uid).expect("a directory's entry is in the tree");
                start_directory(xml, name, *uid, directory);
                levels.push(directory.entries.iter());
            }
            None => {
                xml.end(Tag::Contents);
                xml.end(Tag::Directory);
                levels.pop();
            }
        }
    }
}

fn start_directory(xml: &mut XmlWriter, name: &str, uid: FileUid, directory: &Directory) {
    xml.start(Tag::Directory);
    xml.number(Tag::FileUid, uid.0);
    xml.name(Tag::Name, name);
    encode_times(xml, &directory.times);
    xml.boolean(Tag::ReadOnly, directory.read_only);
    encode_xattrs(xml, &directory.xattrs);
    xml.start(Tag::Contents);
}

fn encode_file(xml: &mut XmlWriter, name: &str, file: &File) {
    xml.start(Tag::File);
    xml.number(Tag::FileUid, file.uid.0);
    xml.name(Tag::Name, name);
    xml.number(Tag::Length, file.length.0);
    encode_times(xml, &file.times);
    xml.boolean(Tag::ReadOnly, file.read_only);
    encode_xattrs(xml, &file.xattrs);
    if let Some(target) = &file.symlink {
        xml.target(Tag::Symlink, target);
    } else if !file.extents.is_empty() {
        xml.start(Tag::ExtentInfo);
        file.extents.iter().for_each(|extent| encode_extent(xml, extent));
        xml.end(Tag::ExtentInfo);
    }
    xml.end(Tag::File);
}

fn encode_times(xml: &mut XmlWriter, times: &Times) {
    xml.time(Tag::CreationTime, times.creation);
    xml.time(Tag::ChangeTime, times.change);
    xml.time(Tag::ModifyTime, times.modify);
    xml.time(Tag::AccessTime, times.access);
    xml.time(Tag::BackupTime, times.backup);
}

fn encode_xattrs(xml: &mut XmlWriter, xattrs: &[(String, Vec<u8>)]) {
    if xattrs.is_empty() {
        return;
    }
    xml.start(Tag::ExtendedAttributes);
    for (key, value) in xattrs {
        xml.start(Tag::Xattr);
        xml.name(Tag::Key, key);
        xml.bytes(Tag::Value, value);
        xml.end(Tag::Xattr);
    }
    xml.end(Tag::ExtendedAttributes);
}

fn encode_extent(xml: &mut XmlWriter, extent: &Extent) {
    xml.start(Tag::Extent);
    xml.number(Tag::FileOffset, extent.file_offset.0);
    xml.partition(Tag::Partition, extent.partition);
    xml.number(Tag::StartBlock, extent.start_block.0);
    xml.number(Tag::ByteOffset, u64::from(extent.byte_offset));
    xml.number(Tag::ByteCount, extent.byte_count.0);
    xml.end(Tag::Extent);
}
