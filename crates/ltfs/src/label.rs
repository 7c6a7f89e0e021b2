//! The two labels at the start of each partition: the VOL1 label of ANSI X3.27 and the LTFS label.

use base::{Partition, Timestamp, Uuid, Vid};

use crate::xml::{Tag, XmlError, XmlReader, XmlWriter};

/// Length of a VOL1 label.
pub const VOL1_BYTES: usize = 80;
/// The longest LTFS label that is read.
pub const LABEL_BYTES_MAX: usize = 64 << 10;
/// The owner that Kist writes into VOL1.
pub const OWNER: &str = "Kist";

/// The size of a full tape block of a volume: 4,096 bytes to 8 MiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockSize(u32);

impl BlockSize {
    /// 512 KiB, what LTFS writers use.
    pub const DEFAULT: BlockSize = BlockSize(512 << 10);
    /// The smallest that LTFS allows.
    pub const MIN: BlockSize = BlockSize(4096);
    /// The largest that a SCSI tape's 24-bit transfer length leaves, rounded down to a power of two.
    pub const MAX: BlockSize = BlockSize(8 << 20);

    /// A block size of `bytes`. `None` if it is out of range.
    #[must_use]
    pub fn new(bytes: u32) -> Option<Self> {
        (Self::MIN.0..=Self::MAX.0).contains(&bytes).then_some(BlockSize(bytes))
    }

    /// In bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        self.0
    }
}

/// The first record of each partition, 80 bytes of ASCII:
///
/// ```text
///  0  4  "VOL1"
///  4  6  volume serial: the VID
/// 10  1  "L", volume accessibility: limited to LTFS
/// 11 13  blanks
/// 24 13  "LTFS" and blanks, the implementation
/// 37 14  owner
/// 51 28  blanks
/// 79  1  "4", the label standard's version
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Vol1Label {
    /// The cartridge.
    pub vid: Vid,
}

/// Why a record is no VOL1 label of an LTFS volume.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Vol1Error {
    /// Not a VOL1 label at all: the tape is blank or holds something else.
    #[error(
        "the first record is no VOL1 label: the tape was not labelled, or by a program without ANSI labels"
    )]
    NotVol1,
    /// An ANSI label of another kind of volume.
    #[error("the VOL1 label belongs to '{implementation}', not to LTFS: do not write to this tape")]
    NotLtfs {
        /// The implementation identifier, blanks trimmed.
        implementation: String,
    },
    /// The serial is not a VID.
    #[error(
        "the VOL1 label has the serial '{serial}', which is no VID: the tape was labelled by another program"
    )]
    Serial {
        /// The serial as it stands.
        serial: String,
    },
}

impl Vol1Label {
    /// The 80 bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; VOL1_BYTES] {
        let text = format!("VOL1{}L{:13}{:13}{OWNER:14}{:28}4", self.vid, "", "LTFS", "");
        let mut out = [b' '; VOL1_BYTES];
        out.copy_from_slice(text.as_bytes());
        out
    }

    /// Reads a record. The owner may be anything: any LTFS program's volume has such a label.
    ///
    /// # Errors
    /// Distinguishes what is no label from a label of something other than LTFS.
    pub fn parse(record: &[u8]) -> Result<Self, Vol1Error> {
        let record: &[u8; VOL1_BYTES] = record.try_into().map_err(|_| Vol1Error::NotVol1)?;
        let field = |from: usize, to: usize| -> String {
            let bytes = record.get(from..to).unwrap_or_default();
            bytes
                .iter()
                .map(|&b| if b.is_ascii_graphic() || b == b' ' { char::from(b) } else { '?' })
                .collect()
        };
        if !record.starts_with(b"VOL1") {
            return Err(Vol1Error::NotVol1);
        }
        let implementation = field(24, 37).trim_end().to_owned();
        if implementation != "LTFS" || field(10, 11) != "L" {
            return Err(Vol1Error::NotLtfs { implementation });
        }
        let serial = field(4, 10);
        Vid::new(&serial).map(|vid| Vol1Label { vid }).map_err(|_| Vol1Error::Serial { serial })
    }
}

/// The LTFS label, XML, third record of each partition. The two partitions' labels differ only in `location`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VolumeLabel {
    /// The program that formatted the volume.
    pub creator: String,
    /// When it was formatted.
    pub format_time: Timestamp,
    /// The volume.
    pub volume_uuid: Uuid,
    /// The partition that this label stands in.
    pub location: Partition,
    /// The size of a full block.
    pub block_size: BlockSize,
    /// Whether the drive compresses.
    pub compression: bool,
}

/// Why an LTFS label is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabelError {
    /// Longer than [`LABEL_BYTES_MAX`].
    #[error("the LTFS label has {0} bytes, more than 65536: it is no label")]
    TooLarge(usize),
    /// The XML or a value in it is wrong.
    #[error("LTFS label: {0}")]
    Xml(#[from] XmlError),
    /// The volume has its index partition elsewhere.
    #[error("the volume's partitions are not index 'a' and data 'b': only that layout can be used")]
    Partitions,
}

impl VolumeLabel {
    /// Whether Kist formatted the volume; if not, it is read but never written.
    #[must_use]
    pub fn is_kist(&self) -> bool {
        self.creator.starts_with("Kist ")
    }

    /// The XML document.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut xml = XmlWriter::open(Tag::LtfsLabel, 1024);
        xml.text(Tag::Creator, &self.creator);
        xml.time(Tag::FormatTime, self.format_time);
        xml.text(Tag::VolumeUuid, &self.volume_uuid.to_string());
        xml.start(Tag::Location);
        xml.partition(Tag::Partition, self.location);
        xml.end(Tag::Location);
        xml.start(Tag::Partitions);
        xml.partition(Tag::Index, Partition::Index);
        xml.partition(Tag::Data, Partition::Data);
        xml.end(Tag::Partitions);
        xml.number(Tag::BlockSize, u64::from(self.block_size.0));
        xml.boolean(Tag::Compression, self.compression);
        xml.finish(Tag::LtfsLabel)
    }

    /// Reads the XML document, of any LTFS program.
    ///
    /// # Errors
    /// If it is malformed, of an unknown version, or of a layout that Kist does not use.
    pub fn parse(bytes: &[u8]) -> Result<Self, LabelError> {
        if bytes.len() > LABEL_BYTES_MAX {
            return Err(LabelError::TooLarge(bytes.len()));
        }
        let mut xml = XmlReader::open(bytes, Tag::LtfsLabel)?;
        let (mut creator, mut format_time, mut volume_uuid) = (None, None, None);
        let (mut location, mut layout, mut block_size, mut compression) = (None, None, None, None);
        while let Some(element) = xml.child()? {
            match element.tag {
                Tag::Creator => creator = Some(xml.text()?),
                Tag::FormatTime => format_time = Some(xml.time(element)?),
                Tag::VolumeUuid => volume_uuid = Some(xml.value(element, Uuid::parse)?),
                Tag::Location => location = Some(parse_partition_of(&mut xml, Tag::Partition)?),
                Tag::Partitions => layout = Some(parse_layout(&mut xml)?),
                Tag::BlockSize => {
                    let bytes = xml.number(element)?;
                    let size = u32::try_from(bytes).ok().and_then(BlockSize::new);
                    block_size = Some(size.ok_or_else(|| xml.illegal(element.tag, &bytes.to_string()))?);
                }
                Tag::Compression => compression = Some(xml.boolean(element)?),
                _ => xml.skip()?,
            }
        }
        let label = VolumeLabel {
            creator: xml.need(creator, Tag::Creator)?,
            format_time: xml.need(format_time, Tag::FormatTime)?,
            volume_uuid: xml.need(volume_uuid, Tag::VolumeUuid)?,
            location: xml.need(location, Tag::Location)?,
            block_size: xml.need(block_size, Tag::BlockSize)?,
            compression: xml.need(compression, Tag::Compression)?,
        };
        if xml.need(layout, Tag::Partitions)? != (Partition::Index, Partition::Data) {
            return Err(LabelError::Partitions);
        }
        xml.finish()?;
        Ok(label)
    }
}

fn parse_partition_of(xml: &mut XmlReader<'_>, tag: Tag) -> Result<Partition, XmlError> {
    let mut found = None;
    while let Some(element) = xml.child()? {
        if element.tag == tag {
            found = Some(xml.partition(element)?);
        } else {
            xml.skip()?;
        }
    }
    xml.need(found, tag)
}

fn parse_layout(xml: &mut XmlReader<'_>) -> Result<(Partition, Partition), XmlError> {
    let (mut index, mut data) = (None, None);
    while let Some(element) = xml.child()? {
        match element.tag {
            Tag::Index => index = Some(xml.partition(element)?),
            Tag::Data => data = Some(xml.partition(element)?),
            _ => xml.skip()?,
        }
    }
    Ok((xml.need(index, Tag::Index)?, xml.need(data, Tag::Data)?))
}
