//! A medium changer: what it can do, what it says, what it is told. It decides nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use ::scsi::command::{Changer, PageControl, Primary, SupportedReport};
use ::scsi::element::{Element, ElementPage, ElementStatus};
use ::scsi::mode::{
    DeviceCapabilities, ElementAddressAssignment, ModeContent, ModeDirection, ModeForm, ModeParameters,
};
use ::scsi::opcodes::{OneOpcode, Support};
use ::scsi::sense::UnitAttention;
use ::scsi::vpd::Vpd;
use ::scsi::{
    Command, Data, DeviceType, ElementAddress, ElementType, Fault, Inquiry, Packed, SenseKey, Transport,
};

use super::elements::{Elements, SeenElement};
use crate::scsi::unit::{Failure, Unit};
use crate::{DeviceError, LibraryError, Waiter};

/// Elements that are asked for at once: a library of 10,000 slots is read in 20 pieces of some 30 KiB.
const PIECE: u16 = 512;
/// Bytes of an element descriptor with a volume tag and an identifier, as most changers have them. A longer
/// answer is asked for again with as much room as it needs.
const DESCRIPTOR: usize = 96;
/// READ ELEMENT STATUS can say so much.
const ALLOCATION_MAX: usize = 0xff_ffff;
/// A changer that refuses long answers is asked for no longer ones: a page of memory.
const ROOM_SMALL: usize = 4096;
/// A changer may leave out so much of the end of its answer (tgt forgets the header when it counts).
const LEFT_OUT_MAX: usize = 8;
/// A command that means the same whatever has changed is sent again after so many unit attentions: devices
/// queue one for each thing that happened.
const ATTENTIONS_MAX: u32 = 16;
/// For a changer that is becoming ready: large ones look at each cartridge after they were switched on.
pub(super) const READY_WAIT: Duration = Duration::from_secs(30 * 60);
/// Between two questions whether it is ready.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(2);
/// The types of elements, in the order in which they are asked for: one at a time, since some changers
/// (tgt) answer wrongly when all are asked for at once.
const KINDS: [ElementType; 4] =
    [ElementType::Storage, ElementType::DataTransfer, ElementType::ImportExport, ElementType::Transport];

/// Who a changer is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChangerIdentity {
    /// Its vendor.
    pub vendor: String,
    /// Its product.
    pub product: String,
    /// The revision of its firmware.
    pub revision: String,
    /// Its serial number; empty if it tells none.
    pub serial: String,
}

/// What a changer can do, as it said or as was found out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Abilities {
    /// Volume tags come with element status.
    pub volume_tags: bool,
    /// Identifiers of drives come with element status (DVCID).
    pub identifiers: bool,
    /// EXCHANGE MEDIUM between a slot and a drive.
    pub exchange: bool,
    /// INITIALIZE ELEMENT STATUS.
    pub initialize: bool,
    /// The same for some elements only.
    pub initialize_range: bool,
}

/// What kept a movement from being a success.
pub(super) enum MoveFailure {
    /// Not begun: what the robot was told was decided by what may have changed since.
    Attention,
    /// Not carried out, by the changer's word.
    Refused(Failure),
    /// Begun perhaps: only the elements can tell.
    Doubt(Failure),
}

impl MoveFailure {
    fn of(failure: Failure) -> MoveFailure {
        let key = failure.sense().map(|sense| sense.key);
        match key {
            Some(SenseKey::UnitAttention) => MoveFailure::Attention,
            Some(SenseKey::IllegalRequest | SenseKey::NotReady) => MoveFailure::Refused(failure),
            Some(_) => MoveFailure::Doubt(failure),
            None if failure.may_be_done() => MoveFailure::Doubt(failure),
            None => MoveFailure::Refused(failure),
        }
    }
}

/// A changer that was reached.
pub(super) struct Robot {
    unit: Unit,
    pub(super) identity: ChangerIdentity,
    pub(super) abilities: Abilities,
    /// Where its elements are; `None` if it has no page that says so.
    layout: Option<ElementAddressAssignment>,
    /// The longest answer that it gives, as far as is known.
    room_max: usize,
    /// Something may have changed since the elements were last read.
    pub(super) is_stale: bool,
    /// Log pages that it does not have, or does not come to an end with.
    pub(super) without_pages: BTreeSet<u8>,
}

impl Robot {
    /// Gets to know a changer.
    ///
    /// # Errors
    /// [`LibraryError::NotReady`] too: whoever needs it asks again.
    pub(super) fn open(way: Box<dyn Transport>, waiter: Arc<dyn Waiter>) -> Result<Robot, LibraryError> {
        let mut robot = Robot {
            unit: Unit::new(way, waiter),
            identity: ChangerIdentity::default(),
            abilities: Abilities { volume_tags: true, identifiers: true, ..Abilities::default() },
            layout: None,
            room_max: usize::MAX,
            is_stale: true,
            without_pages: BTreeSet::new(),
        };
        robot.identity = robot.identify().map_err(of("INQUIRY"))?;
        robot.ready(Duration::ZERO)?;
        robot.layout = robot.page(0x1d).map_err(of("MODE SENSE"))?.and_then(|content| match content {
            ModeContent::ElementAddressAssignment(page) => Some(page),
            _ => None,
        });
        robot.probe().map_err(of("REPORT SUPPORTED OPERATION CODES"))?;
        Ok(robot)
    }

    pub(super) fn address(&self) -> &str {
        self.unit.address()
    }

    pub(super) fn now_us(&self) -> u64 {
        self.unit.now_us()
    }

    pub(super) fn wait(&self, time: Duration) {
        self.unit.wait(time);
    }

    fn identify(&mut self) -> Result<ChangerIdentity, Failure> {
        let inquiry = Primary::Inquiry { vital: false, page: 0, allocation_length: 96 };
        let answer = self.ask(inquiry, 96)?;
        let inquiry = Inquiry::decode(&answer).map_err(Failure::Strange)?;
        if inquiry.device_type != DeviceType::Changer {
            return Err(wrong(self.address(), &format!("it is a {}", inquiry.device_type)));
        }
        Ok(ChangerIdentity {
            vendor: inquiry.vendor.trimmed(),
            product: inquiry.product.trimmed(),
            revision: inquiry.revision.trimmed(),
            serial: self.serial()?,
        })
    }

    fn serial(&mut self) -> Result<String, Failure> {
        let page = Primary::Inquiry { vital: true, page: 0x80, allocation_length: 255 };
        match self.ask(page, 255) {
            Ok(answer) => Ok(Vpd::decode(&answer).map(|vpd| vpd.page.serial()).unwrap_or_default()),
            Err(failure) if failure.is_refusal() => Ok(String::new()),
            Err(failure) => Err(failure),
        }
    }

    /// Whether it is still the changer that it was: after a reset another one may answer there.
    pub(super) fn is_the_same(&mut self) -> Result<bool, LibraryError> {
        let now = self.identify().map_err(of("INQUIRY"))?;
        Ok((&now.vendor, &now.product, &now.serial)
            == (&self.identity.vendor, &self.identity.product, &self.identity.serial))
    }

    /// Waits until it takes commands that move things.
    pub(super) fn ready(&mut self, most: Duration) -> Result<(), LibraryError> {
        let most = u64::try_from(most.as_micros()).unwrap_or(u64::MAX);
        let until = self.unit.now_us().saturating_add(most);
        loop {
            let failure = match self.tell(Primary::TestUnitReady) {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            let is_coming = failure.sense().is_some_and(::scsi::Sense::is_becoming_ready);
            if !is_coming || self.unit.now_us() >= until {
                return Err(of("TEST UNIT READY")(failure));
            }
            self.unit.wait(ASK_AGAIN);
        }
    }

    /// Sends a command that means the same whatever has changed.
    fn send(&mut self, command: &Command, data: &mut Data<'_>) -> Result<usize, Failure> {
        let mut attentions = 0;
        loop {
            match self.unit.send(command, data.again()) {
                Ok(done) => return Ok(done.transferred),
                Err(failure) => {
                    self.heed(&failure);
                    let is_attention = failure.sense().is_some_and(|sense| sense.unit_attention().is_some());
                    attentions += 1;
                    if !is_attention || attentions > ATTENTIONS_MAX {
                        return Err(failure);
                    }
                }
            }
        }
    }

    /// Takes note of a unit attention.
    fn heed(&mut self, failure: &Failure) {
        match failure.sense().and_then(::scsi::Sense::unit_attention) {
            None | Some(UnitAttention::ParametersChanged) => {}
            Some(_) => self.is_stale = true,
        }
        // Whoever has lost an answer knows nothing any more.
        self.is_stale |= failure.may_be_done();
    }

    fn tell(&mut self, command: impl Into<Command>) -> Result<(), Failure> {
        self.send(&command.into(), &mut Data::None).map(|_| ())
    }

    pub(super) fn ask(&mut self, command: impl Into<Command>, allocation: usize) -> Result<Vec<u8>, Failure> {
        let mut answer = vec![0; allocation.min(self.unit.transfer_max())];
        let length = self.send(&command.into(), &mut Data::In(&mut answer))?;
        answer.truncate(length);
        Ok(answer)
    }

    /// A mode page; `None` if it has none such.
    fn page(&mut self, page: u8) -> Result<Option<ModeContent>, Failure> {
        let (control, subpage) = (PageControl::Current, 0);
        let six =
            Primary::ModeSense6 { no_descriptors: true, control, page, subpage, allocation_length: 255 };
        let ten = Primary::ModeSense10 {
            long_lba: false,
            no_descriptors: true,
            control,
            page,
            subpage,
            allocation_length: 255,
        };
        for (command, form) in [(six, ModeForm::Six), (ten, ModeForm::Ten)] {
            match self.ask(command, 255) {
                // A page that cannot be read is one that is not there: the elements tell where they are.
                Ok(answer) => {
                    let parameters = ModeParameters::decode(&answer, form, ModeDirection::Sense).ok();
                    let pages = parameters.into_iter().flat_map(|parameters| parameters.pages);
                    let found = pages.map(|page| page.content).find(|content| content.code() == (page, None));
                    if found.is_some() {
                        return Ok(found);
                    }
                }
                Err(failure) if failure.is_refusal() => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(None)
    }

    /// Whether it knows a command; `None` if it does not say.
    fn knows(&mut self, operation: u8) -> Result<Option<bool>, Failure> {
        let question = Primary::ReportSupportedOperationCodes {
            timeouts: false,
            report: SupportedReport::Operation,
            operation,
            service_action: 0,
            allocation_length: 64,
        };
        match self.ask(question, 64) {
            Ok(answer) => Ok(OneOpcode::decode(&answer).ok().and_then(|one| match one.support {
                Support::Standard | Support::Vendor => Some(true),
                Support::No => Some(false),
                _ => None,
            })),
            Err(failure) if failure.is_refusal() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    fn probe(&mut self) -> Result<(), Failure> {
        let capabilities = match self.page(0x1f)? {
            Some(ModeContent::DeviceCapabilities(page)) => page,
            _ => DeviceCapabilities::default(),
        };
        let [_, from_slot, ..] = capabilities.exchanges;
        let exchanges = from_slot.has(ElementType::DataTransfer);
        // A changer is not tried out on somebody's cartridges: what moves them must be offered twice, since
        // the page alone may promise too much (tgt's does). To look at them again can be tried.
        self.abilities.exchange = exchanges && self.knows(0xa6)?.unwrap_or(false);
        self.abilities.initialize = self.knows(0x07)?.unwrap_or(true);
        self.abilities.initialize_range = self.knows(0x37)?.unwrap_or(true);
        Ok(())
    }

    /// The addresses of a type of elements.
    fn range(&self, kind: ElementType) -> Option<RangeInclusive<u16>> {
        let Some(layout) = &self.layout else { return Some(0..=u16::MAX) };
        let (first, count) = layout.range(kind);
        let last = count.checked_sub(1)?;
        Some(first.0..=first.0.saturating_add(last))
    }

    /// Reads the status of all elements.
    pub(super) fn read_all(&mut self) -> Result<Elements, LibraryError> {
        // Before: what changes meanwhile is told again.
        self.is_stale = false;
        let mut all = Elements::new();
        for kind in KINDS {
            let Some(range) = self.range(kind) else { continue };
            match self.read(kind, range) {
                Ok(found) => all.extend(found),
                // Without the page of addresses a type that is not there is refused.
                Err(failure) if failure.is_refusal() && self.layout.is_none() => {}
                Err(failure) => {
                    self.is_stale = true;
                    return Err(of("READ ELEMENT STATUS")(failure));
                }
            }
        }
        Ok(all)
    }

    /// Reads the status of some elements of one type.
    pub(super) fn look(
        &mut self,
        kind: ElementType,
        range: RangeInclusive<u16>,
    ) -> Result<Elements, LibraryError> {
        self.read(kind, range).map_err(of("READ ELEMENT STATUS"))
    }

    /// All pickers, and whether there is one that could hold something.
    pub(super) fn pickers(&mut self) -> Result<Elements, LibraryError> {
        let Some(range) = self.range(ElementType::Transport) else { return Ok(Elements::new()) };
        match self.read(ElementType::Transport, range) {
            Err(failure) if failure.is_refusal() => Ok(Elements::new()),
            other => other.map_err(of("READ ELEMENT STATUS")),
        }
    }

    fn read(&mut self, kind: ElementType, range: RangeInclusive<u16>) -> Result<Elements, Failure> {
        let (mut next, last) = (*range.start(), *range.end());
        let mut all = BTreeMap::new();
        loop {
            let count = (last - next).saturating_add(1).min(PIECE);
            match self.read_piece(kind, next, count) {
                Ok(found) => {
                    let mut newest = None;
                    for element in found {
                        // A changer may give more than was asked for; what came first counts.
                        if (next..=last).contains(&element.address.0) {
                            newest = newest.max(Some(element.address.0));
                            all.entry(element.address).or_insert_with(|| SeenElement::of(kind, &element));
                        }
                    }
                    match newest {
                        Some(newest) if newest < last => next = newest + 1,
                        _ => return Ok(all),
                    }
                }
                // None behind the last one that there is.
                Err(failure) if failure.is_refusal() && !all.is_empty() => return Ok(all),
                Err(failure) => return Err(failure),
            }
        }
    }

    /// One answer: as many elements as came whole.
    fn read_piece(&mut self, kind: ElementType, first: u16, count: u16) -> Result<Vec<Element>, Failure> {
        let mut room = 16 + usize::from(count) * DESCRIPTOR;
        loop {
            let (answer, asked) = self.element_status(kind, first, count, room)?;
            let error = match ElementStatus::decode(&answer) {
                Ok(status) => return Ok(of_kind(status, kind)),
                Err(error) => error,
            };
            let Fault::Short { needed, .. } = error.fault else { return Err(Failure::Strange(error)) };
            if needed > asked && needed <= self.room_max() {
                room = needed;
                continue;
            }
            let whole = whole_part(&answer).ok_or(Failure::Strange(error.clone()))?;
            let status = ElementStatus::decode(&whole).map_err(Failure::Strange)?;
            let mut elements = of_kind(status, kind);
            if elements.is_empty() && answer.len() < asked && needed - answer.len() <= LEFT_OUT_MAX {
                elements = without_its_end(&answer, needed, kind)?;
            }
            return Ok(elements);
        }
    }

    /// The most bytes that an answer may have.
    pub(super) fn room_max(&self) -> usize {
        self.unit.transfer_max().min(ALLOCATION_MAX).min(self.room_max)
    }

    /// READ ELEMENT STATUS in the form that the changer takes, which is found out once. Gives the answer and
    /// how long it could have been.
    fn element_status(
        &mut self,
        kind: ElementType,
        first: u16,
        count: u16,
        room: usize,
    ) -> Result<(Vec<u8>, usize), Failure> {
        let own = Form {
            tags: self.abilities.volume_tags,
            identifiers: self.abilities.identifiers && kind == ElementType::DataTransfer,
            room_max: self.room_max(),
        };
        let small = own.room_max.min(ROOM_SMALL);
        let forms = [
            own,
            Form { identifiers: false, ..own },
            Form { room_max: small, ..own },
            Form { identifiers: false, room_max: small, ..own },
            Form { tags: false, identifiers: false, ..own },
            Form { tags: false, identifiers: false, room_max: small },
        ];
        let mut refused = None;
        let mut tried: Vec<Form> = Vec::new();
        for form in forms {
            if tried.contains(&form) {
                continue;
            }
            tried.push(form);
            let room = room.min(form.room_max);
            let command = Changer::ReadElementStatus {
                volume_tags: form.tags,
                kind,
                first: ElementAddress(first),
                count,
                mixed: false,
                current: false,
                identifiers: form.identifiers,
                allocation_length: u32::try_from(room).unwrap_or(u32::MAX),
            };
            match self.ask(command, room) {
                Err(failure) if failure.is_refusal() || is_too_long(&failure) => {
                    // The first one says most about what was wanted.
                    refused.get_or_insert(failure);
                }
                Err(failure) => return Err(failure),
                Ok(answer) => {
                    self.abilities.volume_tags = form.tags;
                    self.abilities.identifiers &= form.identifiers || kind != ElementType::DataTransfer;
                    self.room_max =
                        self.room_max.min(if form.room_max < own.room_max { small } else { usize::MAX });
                    return Ok((answer, room));
                }
            }
        }
        Err(refused.unwrap_or_else(|| wrong(self.address(), "it gives no element status")))
    }

    /// Moves a cartridge, once.
    pub(super) fn carry(&mut self, from: ElementAddress, to: ElementAddress) -> Result<(), MoveFailure> {
        let transport = self.picker();
        let command = Changer::MoveMedium { transport, from, to, invert: false };
        self.unit.send(&command.into(), Data::None).map(|_| ()).map_err(|failure| {
            self.heed(&failure);
            MoveFailure::of(failure)
        })
    }

    /// The picker, if there is but one; else the changer chooses.
    fn picker(&self) -> ElementAddress {
        match self.layout.as_ref().map(|layout| layout.transport) {
            Some((address, 1)) => address,
            _ => ElementAddress(0),
        }
    }

    /// Has the robot look at elements again. With bounds, at those only, which not all changers can. Gives
    /// whether this one could.
    pub(super) fn initialize(&mut self, range: Option<RangeInclusive<u16>>) -> Result<bool, LibraryError> {
        let (command, can) = match range {
            Some(range) => {
                let count = (range.end() - range.start()).saturating_add(1);
                let first = ElementAddress(*range.start());
                let command =
                    Changer::InitializeElementStatusWithRange { fast: false, range: true, first, count };
                (command, &mut self.abilities.initialize_range)
            }
            None => (Changer::InitializeElementStatus, &mut self.abilities.initialize),
        };
        if !*can {
            return Ok(false);
        }
        self.is_stale = true;
        match self.tell(command) {
            Err(failure) if failure.is_refusal() => {
                match command {
                    Changer::InitializeElementStatus => self.abilities.initialize = false,
                    _ => self.abilities.initialize_range = false,
                }
                Ok(false)
            }
            other => other.map(|()| true).map_err(of("INITIALIZE ELEMENT STATUS")),
        }
    }
}

/// The code of a type in an answer.
fn kind_byte(kind: ElementType) -> u8 {
    match kind {
        ElementType::All => 0,
        ElementType::Transport => 1,
        ElementType::Storage => 2,
        ElementType::ImportExport => 3,
        ElementType::DataTransfer => 4,
    }
}

/// How element status is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Form {
    tags: bool,
    identifiers: bool,
    room_max: usize,
}

/// Whether a changer could not gather so long an answer (tgt: internal target failure beyond 4 KiB).
fn is_too_long(failure: &Failure) -> bool {
    failure.sense().is_some_and(|sense| {
        sense.key == SenseKey::HardwareError && (sense.additional.asc, sense.additional.ascq) == (0x44, 0x00)
    })
}

fn of_kind(status: ElementStatus, kind: ElementType) -> Vec<Element> {
    let ours = status.pages.into_iter().filter(|page: &ElementPage| page.kind.byte() == kind_byte(kind));
    ours.flat_map(|page| page.elements).collect()
}

/// What came whole of an answer with one page that was cut off: its lengths are made those of what is there.
fn whole_part(answer: &[u8]) -> Option<Vec<u8>> {
    let [header @ .., _, _, _] = answer.get(..8)? else { return None };
    let Some(page) = answer.get(8..16) else { return Some(header.iter().copied().chain([0; 3]).collect()) };
    let descriptor = usize::from(u16::from_be_bytes([*page.get(2)?, *page.get(3)?]));
    let came = answer.len().checked_sub(16)?.checked_div(descriptor)? * descriptor;
    let three = |number: usize| u32::try_from(number).ok().map(|number| number.to_be_bytes());
    let ([_, total @ ..], [_, in_page @ ..]) = (three(came + 8)?, three(came)?);
    let mut whole = header.to_vec();
    whole.extend(total);
    whole.extend(page.get(..5)?);
    whole.extend(in_page);
    whole.extend(answer.get(16..16 + came)?);
    Some(whole)
}

/// The last element of a changer that leaves out the end of its answer (tgt, 8 bytes). What should have been
/// there is unknown: the identifier is, and nothing else reaches so far.
fn without_its_end(answer: &[u8], needed: usize, kind: ElementType) -> Result<Vec<Element>, Failure> {
    let mut padded = answer.to_vec();
    padded.resize(needed, 0);
    let status = ElementStatus::decode(&padded).map_err(Failure::Strange)?;
    let mut elements = of_kind(status, kind);
    elements.iter_mut().for_each(|element| element.identifier = None);
    Ok(elements)
}

/// What came is of something else than was asked for.
fn wrong(address: &str, what: &str) -> Failure {
    let what = format!("{address} is no medium changer: {what}");
    let fault = ::scsi::TransportFault::Protocol;
    Failure::Lost(::scsi::TransportError { fault, may_be_done: false, what }, Duration::ZERO)
}

/// An error of the library.
pub(super) fn of(operation: &'static str) -> impl Fn(Failure) -> LibraryError {
    move |failure| match &failure {
        Failure::Conflict => LibraryError::Reserved,
        Failure::Sense(heard) if heard.sense.key == SenseKey::NotReady => {
            LibraryError::NotReady { sense: (&heard.sense).into() }
        }
        _ => LibraryError::Path { operation, source: failure.device_error() },
    }
}

/// What was heard of a movement.
pub(super) fn heard(failure: &Failure) -> DeviceError {
    failure.device_error()
}
