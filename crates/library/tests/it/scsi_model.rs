//! A SCSI tape drive in memory, with the quirks of real ones and faults on demand. It keeps a tape as a drive
//! does: objects in a buffer, which a reset may lose, and on the medium.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use library::Waiter;
use scsi::attribute::{Attribute, Attributes};
use scsi::command::{
    AttributeService, Command, CommandSet, Destination, PersistentIn, PersistentOut, PositionForm, Primary,
    SpaceCode, Stream,
};
use scsi::density::{Density, DensityReport};
use scsi::lbp::BlockProtection;
use scsi::log::{LogPage, TapeAlerts};
use scsi::mode::{
    BlockDescriptor, ControlDataProtection, DataCompression, DeviceConfigurationExtension, MediumPartition,
    ModeContent, ModeDirection, ModeForm, ModePage, ModeParameters,
};
use scsi::opcodes::SupportedOpcodes;
use scsi::position::{BlockLimits, PositionLong, PositionShort, Wrap, WrapEnds};
use scsi::rao::{PlacedSegment, RaoLimits, RaoList, RaoRequest};
use scsi::reservation::{Holder, Reservation, ReservationType, ReserveOut};
use scsi::sense::SenseFormat;
use scsi::vpd::{Association, CodeSet, Designator, DesignatorType, Vpd, VpdPage};
use scsi::{
    Cdb, Completion, Data, DeviceType, Inquiry, Packed, Sense, SenseKey, Status, Text, Transport,
    TransportError, TransportFault,
};

use crate::scsi_model_keys::{KeyQuirks, Keys, Sealed};

/// What happens to a command.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It is not carried out and ends with this sense data.
    Says(Sense),
    /// It is carried out, and ends with this sense data.
    DoesAndSays(Sense),
    /// It ends with this status, not carried out.
    Status(Status),
    /// It is not carried out, and no answer comes.
    Lost,
    /// It is carried out, and no answer comes.
    LostAfter,
    /// It is half carried out (of several file marks, one), and no answer comes.
    LostHalfway,
    /// The drive is reset before it; what it had in its buffer is kept, or not.
    Reset { keeps_buffer: bool },
    /// The drive is reset before it and loses its buffer, but goes on saying that the tape stands where it
    /// stood. Only a flush tells.
    LosesBufferSilently,
    /// It is carried out, then the drive is reset, and no answer comes.
    LostAfterReset { keeps_buffer: bool },
    /// It is carried out; then the tape stands so many objects further on.
    Shifts(i64),
    /// It is carried out, and one byte less than was sent counts as transferred.
    TakesLess,
    /// Data from the device comes with a bit turned over.
    Damages,
    /// Another device answers from here on.
    Exchanged,
}

/// How the drive differs from what the standards say.
#[derive(Clone, Debug)]
pub struct Quirks {
    /// It does not know these operation codes.
    pub lacks: Vec<u8>,
    /// READ POSITION answers zeros.
    pub zero_positions: bool,
    /// The end of data has this sense key.
    pub end_key: SenseKey,
    /// SPACE says a wrong residual.
    pub wrong_residual: bool,
    /// Sense data has this format.
    pub format: SenseFormat,
    /// The cartridge has two partitions.
    pub partitions_made: bool,
    /// TEST UNIT READY stays GOOD after UNLOAD.
    pub always_ready: bool,
    /// The longest transfer of the way to it.
    pub transfer_max: usize,
    /// Objects that a partition takes before it is full.
    pub objects_max: usize,
    /// Objects from which it warns.
    pub warns_from: usize,
    /// It warns once, as a programmable early warning.
    pub warns_once: bool,
    /// A reset rewinds the tape to the begin of the first partition.
    pub rewinds: bool,
    /// Polls before it is ready after a load.
    pub becomes_ready_after: u32,
    /// How it encrypts.
    pub keys: KeyQuirks,
}

impl Default for Quirks {
    fn default() -> Self {
        Quirks {
            lacks: Vec::new(),
            zero_positions: false,
            end_key: SenseKey::BlankCheck,
            wrong_residual: false,
            format: SenseFormat::Fixed,
            partitions_made: true,
            always_ready: false,
            transfer_max: 1 << 20,
            objects_max: 1_000_000,
            warns_from: 1_000_000,
            warns_once: false,
            rewinds: false,
            becomes_ready_after: 0,
            keys: KeyQuirks::default(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Object {
    Mark,
    /// Its bytes, with the checksum if it was written with one.
    Record(Vec<u8>),
    Encrypted(Sealed),
}

struct Rule {
    operation: u8,
    skip: u32,
    fault: Fault,
}

pub struct Model {
    pub quirks: Quirks,
    pub serial: String,
    pub partitions: Vec<Vec<Object>>,
    /// Objects of each partition that are on the medium.
    pub durable: Vec<usize>,
    pub at: (usize, usize),
    pub loaded: bool,
    pub write_protected: bool,
    pub memory: BTreeMap<(u8, u16), Vec<u8>>,
    pub attentions: Vec<Sense>,
    pub protection: ControlDataProtection,
    pub block_length: u32,
    /// PEWS.
    pub early_warning: u16,
    pub compresses: bool,
    pub prevented: bool,
    pub keys: Vec<u64>,
    pub holder: Option<u64>,
    pub alerts: TapeAlerts,
    /// What it raises when these were told.
    pub alerts_after: TapeAlerts,
    /// Log pages that it has beside those of alerts and capacities.
    pub pages: BTreeMap<u8, LogPage>,
    pub tape_keys: Keys,
    /// Every command that was sent, by operation code.
    pub log: Vec<Cdb>,
    /// Faults that happened.
    pub fired: usize,
    /// Records and marks that were written over: places that had something, on which something else stands.
    pub written_over: Vec<(usize, usize)>,
    rules: Vec<Rule>,
    wanted_partitions: u8,
    /// Where it says that the tape stands after it has lost its buffer.
    pretends: Option<usize>,
    warned: bool,
    polls: u32,
    order: Vec<PlacedSegment>,
}

type Answer = Result<Vec<u8>, Box<Sense>>;

fn says(key: SenseKey, asc: u8, ascq: u8) -> Box<Sense> {
    Box::new(Sense::new(key, asc, ascq))
}

fn unknown() -> Box<Sense> {
    says(SenseKey::IllegalRequest, 0x20, 0)
}

fn wrong_field() -> Box<Sense> {
    says(SenseKey::IllegalRequest, 0x24, 0)
}

impl Model {
    fn new(quirks: Quirks) -> Model {
        let count = if quirks.partitions_made { 2 } else { 1 };
        Model {
            quirks,
            serial: "KISTDRIVE1".to_owned(),
            partitions: vec![Vec::new(); count],
            durable: vec![0; count],
            at: (0, 0),
            loaded: true,
            write_protected: false,
            memory: BTreeMap::new(),
            attentions: vec![Sense::new(SenseKey::UnitAttention, 0x29, 0)],
            protection: ControlDataProtection::default(),
            block_length: 0,
            early_warning: 0,
            compresses: true,
            prevented: false,
            keys: Vec::new(),
            holder: None,
            alerts: TapeAlerts(0),
            alerts_after: TapeAlerts(0),
            pages: BTreeMap::new(),
            tape_keys: Keys::default(),
            log: Vec::new(),
            fired: 0,
            written_over: Vec::new(),
            rules: Vec::new(),
            wanted_partitions: 0,
            pretends: None,
            warned: false,
            polls: 0,
            order: Vec::new(),
        }
    }

    /// The next command with this operation code meets a fault.
    pub fn plan(&mut self, operation: u8, fault: Fault) {
        self.plan_after(operation, 0, fault);
    }

    /// One after `skip` others does.
    pub fn plan_after(&mut self, operation: u8, skip: u32, fault: Fault) {
        self.rules.push(Rule { operation, skip, fault });
    }

    /// How often a command was sent.
    pub fn count(&self, operation: u8) -> usize {
        self.log.iter().filter(|cdb| cdb.operation_code() == operation).count()
    }

    /// Records of a partition without their checksums; `None` for a file mark.
    pub fn content(&self, partition: usize) -> Vec<Option<Vec<u8>>> {
        let strip = |object: &Object| match object {
            Object::Mark => None,
            Object::Record(bytes) => Some(bytes.clone()),
            Object::Encrypted(sealed) => Some(sealed.data.clone()),
        };
        self.partitions[partition].iter().map(strip).collect()
    }

    fn fault_of(&mut self, operation: u8) -> Option<Fault> {
        let index = self.rules.iter().position(|rule| rule.operation == operation)?;
        if self.rules[index].skip > 0 {
            self.rules[index].skip -= 1;
            return None;
        }
        self.fired += 1;
        Some(self.rules.remove(index).fault)
    }

    pub fn reset(&mut self, keeps_buffer: bool) {
        if !keeps_buffer {
            for (objects, durable) in self.partitions.iter_mut().zip(&self.durable) {
                objects.truncate(*durable);
            }
            self.at.1 = self.at.1.min(self.partitions[self.at.0].len());
        }
        self.protection = ControlDataProtection::default();
        self.prevented = false;
        self.early_warning = 0;
        self.compresses = true;
        self.tape_keys.reset(&self.quirks.keys);
        if self.quirks.rewinds {
            self.at = (0, 0);
        }
        self.attentions.push(Sense::new(SenseKey::UnitAttention, 0x29, 0));
    }

    fn objects(&mut self) -> &mut Vec<Object> {
        &mut self.partitions[self.at.0]
    }

    fn need_medium(&self) -> Result<(), Box<Sense>> {
        if self.loaded { Ok(()) } else { Err(says(SenseKey::NotReady, 0x3a, 0)) }
    }

    fn protected(&self, on: bool) -> Option<BlockProtection> {
        BlockProtection::of(self.protection.method).filter(|_| on)
    }

    fn end_of_data(&self) -> Box<Sense> {
        says(self.quirks.end_key, 0x00, 0x05)
    }

    fn append(&mut self, object: Object) {
        let (partition, at) = self.at;
        if at < self.partitions[partition].len() {
            self.written_over.extend((at..self.partitions[partition].len()).map(|block| (partition, block)));
            self.partitions[partition].truncate(at);
            self.durable[partition] = self.durable[partition].min(at);
        }
        self.objects().push(object);
        self.at.1 += 1;
    }

    fn may_write(&self, count: usize) -> Result<(), Box<Sense>> {
        self.need_medium()?;
        if self.write_protected {
            return Err(says(SenseKey::DataProtect, 0x27, 0));
        }
        if self.at.1 + count > self.quirks.objects_max {
            return Err(Box::new(Sense {
                end_of_medium: true,
                ..Sense::new(SenseKey::VolumeOverflow, 0, 2)
            }));
        }
        Ok(())
    }

    /// GOOD, or what an early warning says.
    fn written(&mut self) -> Answer {
        let near = self.at.1 > self.quirks.warns_from;
        if !near || self.quirks.warns_once && self.warned {
            return Ok(Vec::new());
        }
        self.warned = true;
        let ascq = if self.quirks.warns_once { 7 } else { 2 };
        Err(Box::new(Sense { end_of_medium: true, ..Sense::new(SenseKey::NoSense, 0, ascq) }))
    }

    fn write(&mut self, bytes: &[u8]) -> Answer {
        self.may_write(1)?;
        if let Some(method) = self.protected(self.protection.on_write)
            && method.verify(bytes).is_err()
        {
            return Err(says(SenseKey::AbortedCommand, 0x10, 0x01));
        }
        let data = match self.protected(self.protection.on_write) {
            Some(method) => method.verify(bytes).unwrap().to_vec(),
            None => bytes.to_vec(),
        };
        let sealed = self.tape_keys.seal(&data)?;
        self.append(sealed.map_or(Object::Record(data), Object::Encrypted));
        self.written()
    }

    fn read(&mut self, want: usize) -> Answer {
        self.need_medium()?;
        let at = self.at.1;
        let Some(object) = self.objects().get(at).cloned() else { return Err(self.end_of_data()) };
        let mut bytes = match object {
            Object::Mark => {
                self.at.1 += 1;
                return Err(Box::new(Sense { filemark: true, ..Sense::new(SenseKey::NoSense, 0, 1) }));
            }
            Object::Record(bytes) => self.tape_keys.open(None).map(|()| bytes)?,
            Object::Encrypted(sealed) => self.tape_keys.open(Some(&sealed)).map(|()| sealed.data)?,
        };
        self.at.1 += 1;
        if let Some(method) = self.protected(self.protection.on_read) {
            method.append(&mut bytes);
        }
        Ok(bytes)
            .and_then(|bytes| if bytes.len() == want { Ok(bytes) } else { Err(self.short(&bytes, want)) })
    }

    /// The condition of another length.
    fn short(&self, bytes: &[u8], want: usize) -> Box<Sense> {
        let residual = want as i64 - bytes.len() as i64;
        let sense = Sense { incorrect_length: true, format: self.quirks.format, ..Sense::default() };
        Box::new(sense.with_residual(residual))
    }

    fn space(&mut self, code: SpaceCode, count: i64) -> Answer {
        self.need_medium()?;
        if code == SpaceCode::EndOfData {
            self.at.1 = self.objects().len();
            return Ok(Vec::new());
        }
        for done in 0..count {
            let at = self.at.1;
            let wrong = i64::from(self.quirks.wrong_residual) * 3;
            match self.objects().get(at) {
                None => return Err(Box::new(self.end_of_data().with_residual(count - done + wrong))),
                Some(Object::Record(_) | Object::Encrypted(_)) => self.at.1 += 1,
                Some(Object::Mark) => {
                    self.at.1 += 1;
                    // tgt passes them like records.
                    if !self.quirks.zero_positions {
                        let mark = Sense { filemark: true, ..Sense::new(SenseKey::NoSense, 0, 1) };
                        return Err(Box::new(mark.with_residual(count - done + wrong)));
                    }
                }
            }
        }
        Ok(Vec::new())
    }

    fn locate(&mut self, change: bool, partition: u8, to: Option<u64>) -> Answer {
        self.need_medium()?;
        let partition = if change { usize::from(partition) } else { self.at.0 };
        if partition >= self.partitions.len() {
            return Err(wrong_field());
        }
        let end = self.partitions[partition].len();
        let to = to.map_or(end, |to| to as usize);
        self.at = (partition, to.min(end));
        if to > end { Err(says(SenseKey::BlankCheck, 0, 5)) } else { Ok(Vec::new()) }
    }

    fn position(&self, form: PositionForm) -> Answer {
        self.need_medium()?;
        if self.quirks.zero_positions {
            let mut zeros = vec![0; if form == PositionForm::Long { 32 } else { 20 }];
            zeros[0] = if form == PositionForm::Long { 0x20 } else { 0x14 };
            return Ok(zeros);
        }
        let (partition, at) = (self.at.0, self.pretends.unwrap_or(self.at.1));
        let end = at > self.quirks.warns_from;
        match form {
            PositionForm::Long => Ok(PositionLong {
                begin: at == 0,
                end,
                partition: partition as u32,
                object: at as u64,
                ..Default::default()
            }
            .encode()),
            PositionForm::Short => Ok(PositionShort {
                begin: at == 0,
                end,
                partition: partition as u8,
                first: at as u32,
                last: at as u32,
                ..Default::default()
            }
            .encode()),
            _ => Err(wrong_field()),
        }
    }

    fn inquiry(&self, vital: bool, page: u8) -> Answer {
        if !vital {
            let inquiry = Inquiry {
                device_type: DeviceType::Tape,
                removable: true,
                vendor: Text::new("KIST").unwrap(),
                product: Text::new("MODEL").unwrap(),
                revision: Text::new("1").unwrap(),
                ..Inquiry::default()
            };
            return Ok(inquiry.encode());
        }
        let page = match page {
            0x80 => VpdPage::SerialNumber(self.serial.clone().into_bytes()),
            0x83 => VpdPage::Identification(vec![Designator {
                protocol: None,
                code_set: CodeSet::Ascii,
                association: Association::Unit,
                kind: DesignatorType::T10,
                value: format!("KIST    {}", self.serial).into_bytes(),
            }]),
            _ => return Err(wrong_field()),
        };
        Ok(Vpd { qualifier: 0, device_type: DeviceType::Tape, page }.encode())
    }

    fn mode_sense(&self, page: u8, subpage: u8) -> Answer {
        let content = match (page, subpage) {
            (0x0a, 0xf0) => ModeContent::ControlDataProtection(self.protection.clone()),
            (0x11, 0) => ModeContent::MediumPartition(MediumPartition {
                additional_max: 1,
                additional: self.partitions.len() as u8 - 1,
                only_on_format: true,
                format_recognition: 3,
                size_unit: 3,
                unit_exponent: 9,
                sizes: vec![0xffff; self.partitions.len()],
                ..Default::default()
            }),
            (0x10, 0) => ModeContent::DeviceConfiguration(Default::default()),
            (0x10, 1) => ModeContent::DeviceConfigurationExtension(DeviceConfigurationExtension {
                early_warning_size: self.early_warning,
                ..Default::default()
            }),
            (0x0f, 0) => ModeContent::DataCompression(DataCompression {
                enabled: self.compresses,
                capable: true,
                ..Default::default()
            }),
            _ => return Err(wrong_field()),
        };
        let parameters = ModeParameters {
            medium_type: 0x98,
            write_protected: self.write_protected,
            buffered: 1,
            descriptors: vec![BlockDescriptor { density: 0x60, blocks: 0, block_length: self.block_length }],
            pages: vec![ModePage::from(content)],
            ..Default::default()
        };
        Ok(parameters.encode(ModeForm::Six, ModeDirection::Sense))
    }

    fn mode_select(&mut self, bytes: &[u8]) -> Answer {
        let parameters = ModeParameters::decode(bytes, ModeForm::Six, ModeDirection::Select).unwrap();
        if let Some(descriptor) = parameters.descriptors.first() {
            self.block_length = descriptor.block_length;
        }
        for page in parameters.pages {
            match page.content {
                ModeContent::ControlDataProtection(page) => self.protection = page,
                ModeContent::MediumPartition(page) => self.wanted_partitions = page.additional,
                ModeContent::DeviceConfigurationExtension(page) => {
                    self.early_warning = page.early_warning_size;
                }
                ModeContent::DataCompression(page) => self.compresses = page.enabled,
                _ => return Err(says(SenseKey::IllegalRequest, 0x26, 0)),
            }
        }
        Ok(Vec::new())
    }

    fn reserve_out(&mut self, service: PersistentOut, bytes: &[u8]) -> Result<Vec<u8>, Status> {
        let list = ReserveOut::decode(bytes).unwrap();
        match service {
            PersistentOut::RegisterAndIgnoreKey => self.keys.push(list.action_key.0),
            PersistentOut::Register => self.keys.retain(|key| *key != list.key.0),
            PersistentOut::Reserve if self.holder.is_some_and(|holder| holder != list.key.0) => {
                return Err(Status::ReservationConflict);
            }
            PersistentOut::Reserve => self.holder = Some(list.key.0),
            PersistentOut::Release => self.holder = self.holder.filter(|holder| *holder != list.key.0),
            PersistentOut::PreemptAndAbort => self.holder = Some(list.key.0),
            other => panic!("{other:?}"),
        }
        Ok(Vec::new())
    }

    fn attributes(&self, partition: u8, first: u16) -> Answer {
        let own = self.memory.range((partition, first)..=(partition, u16::MAX));
        let all: Vec<_> = own.map(|((_, id), value)| Attribute::new(*id, value.clone())).collect();
        if all.is_empty() { Err(wrong_field()) } else { Ok(Attributes(all).encode()) }
    }

    fn format(&mut self) -> Answer {
        if self.at != (0, 0) {
            return Err(says(SenseKey::IllegalRequest, 0x3b, 0x0c));
        }
        let count = 1 + usize::from(self.wanted_partitions);
        self.partitions = vec![Vec::new(); count];
        self.durable = vec![0; count];
        Ok(Vec::new())
    }

    fn stream(&mut self, command: Stream, out: &[u8]) -> Answer {
        match command {
            Stream::Rewind { .. } => {
                self.need_medium()?;
                self.at.1 = 0;
                Ok(Vec::new())
            }
            Stream::ReadBlockLimits { .. } => {
                Ok(BlockLimits { granularity: 0, longest: 8 << 20, shortest: 1 }.encode())
            }
            Stream::Read6 { length, .. } => self.read(length as usize),
            Stream::Write6 { .. } => self.write(out),
            Stream::WriteFilemarks6 { .. } if self.pretends.take().is_some() => {
                Err(Box::new(Sense { deferred: true, ..Sense::new(SenseKey::MediumError, 0x0c, 0) }))
            }
            Stream::WriteFilemarks6 { count, .. } => {
                self.may_write(count as usize)?;
                (0..count).for_each(|_| self.append(Object::Mark));
                for (durable, objects) in self.durable.iter_mut().zip(&self.partitions) {
                    *durable = objects.len();
                }
                if count == 0 { Ok(Vec::new()) } else { self.written() }
            }
            Stream::Space6 { code, count } => self.space(code, count),
            Stream::Locate16 { destination, change_partition, partition, object, .. } => {
                let to = (destination == Destination::Object).then_some(object);
                self.locate(change_partition, partition, to)
            }
            Stream::Locate10 { change_partition, partition, object, .. } => {
                self.locate(change_partition, partition, Some(u64::from(object)))
            }
            Stream::ReadPosition { form, .. } => self.position(form),
            Stream::LoadUnload { load, .. } => {
                self.at = (0, 0);
                if load {
                    return self.need_medium().map(|()| Vec::new());
                }
                self.loaded = self.quirks.always_ready && self.loaded;
                if self.tape_keys.set.clear_on_demount {
                    self.tape_keys.reset(&KeyQuirks::default());
                }
                Ok(Vec::new())
            }
            Stream::FormatMedium { .. } => self.format(),
            Stream::ReportDensitySupport { .. } => {
                let lto9 = Density { primary: 0x60, secondary: 0x60, writable: true, ..Density::default() };
                Ok(DensityReport(vec![lto9]).encode())
            }
            Stream::ReadEndOfWrapPosition { .. } => {
                let end = self.partitions.get(1).map_or(0, Vec::len) as u64;
                let wrap = |wrap, object| Wrap { wrap, partition: 1, object };
                Ok(WrapEnds(vec![wrap(0, end / 2), wrap(1, end), wrap(2, end)]).encode())
            }
            Stream::GenerateRao { .. } => {
                let request = RaoRequest::decode(out).unwrap();
                let mut all: Vec<_> = request.0;
                all.sort_by_key(|segment| segment.begin);
                self.order =
                    all.into_iter().map(|segment| PlacedSegment { segment, more: vec![0; 4] }).collect();
                Ok(Vec::new())
            }
            Stream::ReceiveRao { limits: true, .. } => {
                Ok(RaoLimits { segments: 4, descriptor_bytes: 40 }.encode())
            }
            Stream::ReceiveRao { .. } => Ok(RaoList::of(2, self.order.clone()).encode()),
            other => panic!("{other:?}"),
        }
    }

    fn primary(&mut self, command: Primary, out: &[u8]) -> Result<Answer, Status> {
        Ok(match command {
            Primary::TestUnitReady if self.quirks.always_ready => Ok(Vec::new()),
            Primary::TestUnitReady => {
                self.polls += 1;
                if self.polls <= self.quirks.becomes_ready_after {
                    Err(says(SenseKey::NotReady, 0x04, 0x01))
                } else {
                    self.need_medium().map(|()| Vec::new())
                }
            }
            Primary::Inquiry { vital, page, .. } => self.inquiry(vital, page),
            Primary::ModeSense6 { page, subpage, .. } => self.mode_sense(page, subpage),
            Primary::ModeSelect6 { .. } => self.mode_select(out),
            // They are gone once they are told.
            Primary::LogSense { page: 0x2e, .. } => {
                let next = std::mem::take(&mut self.alerts_after);
                Ok(std::mem::replace(&mut self.alerts, next).to_log().encode())
            }
            Primary::LogSense { page: 0x31, .. } => {
                let parameter = |code, value| scsi::log::LogParameter::of_number(code, 3, 4, value);
                let parameters = vec![parameter(2, 700), parameter(4, 1000)];
                Ok(LogPage { code: 0x31, parameters, ..LogPage::default() }.encode())
            }
            Primary::LogSense { page, .. } if self.pages.contains_key(&page) => {
                Ok(self.pages[&page].encode())
            }
            Primary::PreventAllowMediumRemoval { prevention } => {
                self.prevented = prevention != scsi::command::Prevention::Allow;
                Ok(Vec::new())
            }
            Primary::ReportSupportedOperationCodes { .. } => {
                let mut known = Command::known(CommandSet::Stream);
                known.retain(|known| !self.quirks.lacks.contains(&known.operation));
                Ok(SupportedOpcodes::of(&known).encode())
            }
            Primary::ReadAttribute { service: AttributeService::Values, partition, first, .. } => {
                self.attributes(partition, first)
            }
            Primary::WriteAttribute { partition, .. } => {
                for one in Attributes::decode(out).unwrap().0 {
                    self.memory.insert((partition, one.id), one.value);
                }
                Ok(Vec::new())
            }
            Primary::PersistentReserveIn { service: PersistentIn::Reservation, .. } => {
                let kind = ReservationType::ExclusiveAccess;
                let holder = self.holder.map(|key| Holder { key: key.into(), scope: 0, kind });
                Ok(Reservation { generation: 1, holder }.encode())
            }
            Primary::PersistentReserveOut { service, .. } => Ok(self.reserve_out(service, out)?),
            Primary::Reserve6 | Primary::Release6 => Ok(Vec::new()),
            Primary::LogSense { .. } | Primary::ReadAttribute { .. } => Err(wrong_field()),
            Primary::SecurityProtocolIn { .. } | Primary::SecurityProtocolOut { .. } => {
                let next = self.partitions[self.at.0].get(self.at.1).and_then(|object| match object {
                    Object::Mark => None,
                    Object::Record(_) => Some(None),
                    Object::Encrypted(sealed) => Some(Some(sealed)),
                });
                self.tape_keys.security(&self.quirks.keys, command, out, (self.at.1 as u64, next))
            }
            other => panic!("{other:?}"),
        })
    }

    fn carry_out(&mut self, cdb: &Cdb, out: &[u8], into: &mut [u8]) -> Completion {
        let answer = match Command::decode(cdb, CommandSet::Stream).unwrap() {
            Command::Primary(command) => match self.primary(command, out) {
                Ok(answer) => answer,
                Err(status) => return Completion { status, sense: Vec::new(), transferred: 0 },
            },
            Command::Stream(command) => self.stream(command, out),
            Command::Changer(command) => panic!("{command:?}"),
        };
        match answer {
            Ok(bytes) => {
                let given = bytes.len().min(into.len());
                into[..given].copy_from_slice(&bytes[..given]);
                let transferred = if into.is_empty() { out.len() } else { given };
                Completion { status: Status::Good, sense: Vec::new(), transferred }
            }
            Err(sense) => {
                // A record of another length comes over as far as there is room.
                let mut transferred = out.len();
                if sense.incorrect_length {
                    let (partition, at) = self.at;
                    let mut bytes = match self.partitions[partition][at - 1].clone() {
                        Object::Record(bytes) => bytes,
                        Object::Encrypted(sealed) => sealed.data,
                        Object::Mark => panic!(),
                    };
                    if let Some(method) = self.protected(self.protection.on_read) {
                        method.append(&mut bytes);
                    }
                    transferred = bytes.len().min(into.len());
                    into[..transferred].copy_from_slice(&bytes[..transferred]);
                } else if out.is_empty() {
                    transferred = 0;
                }
                let sense = Sense { format: self.quirks.format, ..*sense };
                Completion { status: Status::CheckCondition, sense: sense.encode(), transferred }
            }
        }
    }

    fn condition(&self, sense: Sense) -> Completion {
        let sense = Sense { format: self.quirks.format, ..sense };
        Completion { status: Status::CheckCondition, sense: sense.encode(), transferred: 0 }
    }

    /// `None`: no answer comes.
    fn execute(&mut self, cdb: &Cdb, out: &[u8], into: &mut [u8]) -> Option<Completion> {
        self.log.push(*cdb);
        let operation = cdb.operation_code();
        let fault = self.fault_of(operation);
        match &fault {
            Some(Fault::Says(sense)) => return Some(self.condition(sense.clone())),
            Some(Fault::Status(status)) => {
                return Some(Completion { status: *status, sense: Vec::new(), transferred: 0 });
            }
            Some(Fault::Lost) => return None,
            Some(Fault::LostHalfway) => {
                if cdb.bytes()[4] > 1 {
                    self.append(Object::Mark);
                }
                return None;
            }
            Some(Fault::Reset { keeps_buffer }) => self.reset(*keeps_buffer),
            Some(Fault::LosesBufferSilently) => {
                let before = self.at.1;
                self.reset(false);
                self.pretends = Some(before).filter(|before| *before != self.at.1);
            }
            Some(Fault::Exchanged) => {
                self.serial = "OTHERDRIVE".to_owned();
                return None;
            }
            _ => {}
        }
        // INQUIRY is answered whatever waits.
        if operation != 0x12 && !self.attentions.is_empty() {
            let attention = self.attentions.remove(0);
            return Some(self.condition(attention));
        }
        if self.quirks.lacks.contains(&operation) {
            return Some(self.condition(*unknown()));
        }
        let answer = self.carry_out(cdb, out, into);
        match fault {
            Some(Fault::DoesAndSays(sense)) => Some(self.condition(sense)),
            Some(Fault::LostAfter) => None,
            Some(Fault::LostAfterReset { keeps_buffer }) => {
                self.reset(keeps_buffer);
                None
            }
            Some(Fault::Shifts(by)) => {
                let length = self.objects().len() as i64;
                self.at.1 = (self.at.1 as i64 + by).clamp(0, length) as usize;
                Some(answer)
            }
            Some(Fault::TakesLess) => {
                Some(Completion { transferred: answer.transferred.saturating_sub(1), ..answer })
            }
            Some(Fault::Damages) => {
                into[0] ^= 1;
                Some(answer)
            }
            _ => Some(answer),
        }
    }
}

/// The model behind a transport; clones reach the same one.
#[derive(Clone)]
pub struct Shared(Arc<Mutex<Model>>);

impl Shared {
    pub fn new(quirks: Quirks) -> Shared {
        Shared(Arc::new(Mutex::new(Model::new(quirks))))
    }

    pub fn lock(&self) -> MutexGuard<'_, Model> {
        self.0.lock().unwrap()
    }
}

impl Transport for Shared {
    fn execute(&mut self, cdb: &Cdb, data: Data<'_>, _: Duration) -> Result<Completion, TransportError> {
        let what = "no answer".to_owned();
        let lost = TransportError { fault: TransportFault::TimeOut, may_be_done: true, what };
        let execute = |out: &[u8], into: &mut [u8]| self.lock().execute(cdb, out, into);
        data.in_one_piece(&mut Vec::new(), execute).ok_or(lost)
    }

    fn transfer_max(&self) -> usize {
        self.lock().quirks.transfer_max
    }

    fn address(&self) -> &'static str {
        "model"
    }
}

/// Time that goes by at once.
#[derive(Debug, Default)]
pub struct Hurry(Mutex<u64>);

impl Waiter for Hurry {
    fn now_us(&self) -> u64 {
        *self.0.lock().unwrap()
    }

    fn wait_until(&self, until_us: u64) {
        let mut now = self.0.lock().unwrap();
        *now = until_us.max(*now);
    }
}
