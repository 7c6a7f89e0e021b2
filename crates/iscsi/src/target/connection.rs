//! One connection of a client, from its login to its end: the thread that receives.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Instant;

use scsi::{Completion, Status};

use crate::login::{Name, Opened, SEGMENT_DEFAULT};
use crate::pdu::{
    Command, DataOut, LogoutRequest, LogoutResponse, Lun, NopIn, NopOut, Pdu, ReadyToTransfer, Reject,
    Serial, Tag, TaskRequest, TaskResponse, TextRequest, TextResponse,
};
use crate::text::{Keys, TEXT_MAX};
use crate::wire::{Incoming, Receiver, WireError, halves};

use super::absent::{absent, cdb_of, is_report_luns, report_luns};
use super::answer::{Asked, Counts, Link};
use super::assembly::Assembly;
use super::login::{LoggedIn, Login};
use super::registry::Place;
use super::server::Shared;
use super::tasks::{Aborted, Admission, NoTask, TaskId, Tasks};
use super::worker::{Worker, check_condition};
use super::{LUNS_MAX, Nexus};

/// The most data of a ping that is sent back.
const PING_MAX: usize = 64 * 1024;
/// The most data of what the target answers by itself.
const OWN_DATA_MAX: usize = 8 + 8 * LUNS_MAX;

/// Serves a client to its end.
pub(super) fn run(stream: &TcpStream, shared: &Arc<Shared>, place: &Place) {
    let limits = &shared.config.limits;
    let until = Instant::now() + limits.login;
    let Ok((mut receiver, mut sender)) = halves(stream, SEGMENT_DEFAULT, limits.pdu) else { return };
    let login = Login { shared, place, receiver: &mut receiver, sender: &mut sender, until };
    let Some(LoggedIn { opened: Opened { initiator, target, agreed }, place, request, answer }) = login.run()
    else {
        return;
    };
    receiver.agree(agreed.digests, shared.config.parameters.segment_max as usize);
    sender.agree(agreed.digests);
    let (Ok(copy), Ok(address)) = (stream.try_clone(), stream.local_addr()) else { return };
    let tasks = Tasks::new(request.numbers.command, limits.commands);
    let link = Arc::new(Link::new((sender, copy), answer, tasks, agreed, limits));
    let nexus = place
        .as_ref()
        .zip(target)
        .map(|(place, target)| Arc::new(Nexus { id: place.nexus, initiator, isid: request.isid, target }));
    // Ends it with whatever ends this: only then, since what is dropped later, another session of this name
    // may begin.
    let _session = nexus.clone().map(|nexus| Session::begin(shared, nexus));
    let luns = nexus.as_ref().map_or(Vec::new(), |nexus| shared.units.luns(&nexus.target));
    let connection = Connection {
        shared,
        receiver,
        link,
        nexus: nexus.clone(),
        luns,
        waiting: BTreeMap::new(),
        workers: BTreeMap::new(),
        next_target_tag: 0,
        address: shared.config.address.clone().unwrap_or_else(|| address.to_string()),
        text: None,
    };
    connection.serve(stream);
}

/// A session that units know of: its end is told them, also if a unit panics.
struct Session<'a> {
    shared: &'a Shared,
    nexus: Arc<Nexus>,
}

impl<'a> Session<'a> {
    fn begin(shared: &'a Shared, nexus: Arc<Nexus>) -> Self {
        shared.units.begun(&nexus);
        Session { shared, nexus }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.shared.units.ended(&self.nexus);
    }
}

struct Connection<'a> {
    shared: &'a Shared,
    receiver: Receiver,
    link: Arc<Link>,
    /// None: a discovery.
    nexus: Option<Arc<Nexus>>,
    /// Units that are known to be there.
    luns: Vec<Lun>,
    /// Commands whose data is on its way, and those behind them, for a unit gets them in order.
    waiting: BTreeMap<Lun, VecDeque<Assembly>>,
    workers: BTreeMap<Lun, Worker>,
    next_target_tag: u32,
    address: String,
    /// What is left to say of a long text, and the tag under which the client asks for it.
    text: Option<(Tag, Vec<u8>)>,
}

/// Why a connection ends.
enum End {
    /// The client logged out, or is gone, or cannot be reached; or there is no thread for a unit of its.
    Gone,
    /// The client broke the protocol.
    Protocol,
}

impl From<WireError> for End {
    fn from(error: WireError) -> End {
        if error.is_protocol() { End::Protocol } else { End::Gone }
    }
}

impl Connection<'_> {
    fn serve(mut self, stream: &TcpStream) {
        let end = self.receive_all();
        let gently = self.shared.registry.is_stopping() && matches!(end, End::Gone);
        if !gently {
            // Who is in the middle of an answer must not wait for a client that nobody serves.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let mut tasks = self.link.tasks();
        let aborted = tasks.close(gently);
        self.tell_units(&aborted);
        drop(tasks);
        self.waiting.clear();
        // Waits for what units carry out.
        self.workers.clear();
    }

    fn receive_all(&mut self) -> End {
        let idle = self.shared.config.limits.idle;
        let mut is_pinged = false;
        loop {
            let incoming = match self.receiver.next(Some(Instant::now() + idle)) {
                Ok(Some(incoming)) => incoming,
                Ok(None) if is_pinged => return End::Gone,
                Ok(None) => {
                    is_pinged = true;
                    let target_tag = self.target_tag();
                    let lun = Lun::default();
                    let ping = |numbers| Pdu::NopIn(NopIn { lun, tag: Tag::NONE, target_tag, numbers });
                    match self.link.send(Counts::No, ping, &[]) {
                        Ok(()) => continue,
                        Err(error) => return error.into(),
                    }
                }
                Err(error) => return error.into(),
            };
            is_pinged = false;
            if let Err(end) = self.take(incoming) {
                if matches!(end, End::Protocol) {
                    // It says what was wrong; that it may not arrive changes nothing.
                    let _ = self.reject(Reject::PROTOCOL, &incoming);
                }
                return end;
            }
        }
    }

    fn take(&mut self, incoming: Incoming) -> Result<(), End> {
        let data = incoming.data;
        match incoming.pdu {
            Pdu::Command(pdu) => self.command(&pdu, &incoming),
            Pdu::DataOut(pdu) => self.data_out(&pdu, data),
            Pdu::NopOut(pdu) => self.ping(&pdu, data),
            Pdu::TaskRequest(pdu) => self.function(&pdu, data),
            Pdu::TextRequest(pdu) => self.text_request(&pdu, &incoming),
            Pdu::LogoutRequest(pdu) => self.log_out(&pdu, data),
            // No recovery is agreed, a login is over, and what a target sends no initiator does.
            _ => Err(End::Protocol),
        }
    }

    fn target_tag(&mut self) -> Tag {
        let tag = Tag(self.next_target_tag);
        // The last one stands for no task.
        self.next_target_tag = if tag.0 == u32::MAX - 1 { 0 } else { tag.0 + 1 };
        tag
    }

    fn reject(&self, reason: u8, incoming: &Incoming) -> Result<(), End> {
        let pdu = |numbers| Pdu::Reject(Reject { reason, numbers, number: Serial(0) });
        Ok(self.link.send(Counts::Yes, pdu, &incoming.header)?)
    }

    /// Whether a PDU that counts among commands is to be looked at. If not, its data was skipped.
    fn admits(&mut self, immediate: bool, number: Serial, data: usize) -> Result<bool, End> {
        let admission = self.link.tasks().admit(immediate, number);
        match admission {
            Admission::Take => Ok(true),
            Admission::Gap => Err(End::Protocol),
            Admission::Ignore => {
                self.receiver.skip(data)?;
                Ok(false)
            }
        }
    }

    fn command(&mut self, pdu: &Command, incoming: &Incoming) -> Result<(), End> {
        let immediate = incoming.data;
        if self.nexus.is_none() {
            return Err(End::Protocol);
        }
        if !self.admits(pdu.immediate, pdu.numbers.command, immediate)? {
            return Ok(());
        }
        let agreed = self.link.agreed;
        let expected = pdu.expected_length as usize;
        let first = if pdu.write { expected.min(agreed.first_burst_max) } else { 0 };
        let immediate_fits = immediate == 0 || (agreed.immediate_data && immediate <= first);
        let unasked_fits = pdu.last || (!agreed.initial_r2t && immediate < first);
        if !immediate_fits || !unasked_fits {
            return Err(End::Protocol);
        }
        let begun = self.link.tasks().begin(pdu.tag, pdu.lun);
        let id = match begun {
            Ok(id) => id,
            Err(NoTask::SameTag) => return Err(End::Protocol),
            Err(NoTask::TooMany) => {
                self.receiver.skip(immediate)?;
                return self.reject(Reject::IMMEDIATE, incoming);
            }
        };
        let asked = Asked { tag: pdu.tag, expected, requests: 0 };
        let mut own = vec![0; expected.min(if pdu.read { OWN_DATA_MAX } else { 0 })];
        let completion = self.own_answer(pdu, &mut own);
        if let Some(completion) = completion.or_else(|| self.answer_at_once(pdu, &mut own)) {
            self.receiver.skip(immediate)?;
            return self.answer(id, asked, &completion, &own);
        }
        let Some(reserved) = self.link.reserve(self.shared.registry.memory(), expected) else {
            self.receiver.skip(immediate)?;
            let full = Completion { status: Status::TaskSetFull, sense: Vec::new(), transferred: 0 };
            return self.answer(id, asked, &full, &[]);
        };
        let mut data = self.link.buffer(if pdu.write { expected } else { 0 });
        // It fits, as was looked at.
        self.receiver.data(&mut data[..immediate])?;
        let unasked = (!pdu.last).then_some(first);
        let cdb = cdb_of(pdu.cdb);
        let assembly = Assembly::new((id, asked), (cdb, pdu.read), (data, reserved), (immediate, unasked));
        self.waiting.entry(pdu.lun).or_default().push_back(assembly);
        self.go_on(pdu.lun)
    }

    /// What the target answers without a unit.
    fn own_answer(&mut self, pdu: &Command, into: &mut [u8]) -> Option<Completion> {
        let nexus = self.nexus.as_ref()?;
        let cdb = cdb_of(pdu.cdb);
        if !self.luns.contains(&pdu.lun) || is_report_luns(&cdb, pdu.lun, &self.luns) {
            self.luns = self.shared.units.luns(&nexus.target);
            assert!(self.luns.len() <= LUNS_MAX, "a target has at most {LUNS_MAX} units");
        }
        if is_report_luns(&cdb, pdu.lun, &self.luns) {
            Some(report_luns(&cdb, &self.luns, into))
        } else if !self.luns.contains(&pdu.lun) {
            Some(absent(&cdb, into))
        } else if (pdu.read && pdu.write)
            || pdu.expected_length as usize > self.shared.config.limits.transfer_max
        {
            // Invalid field in CDB: that is where the length comes from.
            Some(check_condition(0x5, 0x24, 0x00))
        } else {
            None
        }
    }

    /// What a unit answers at once. It gets commands in their order, so only if it has none.
    fn answer_at_once(&self, pdu: &Command, into: &mut [u8]) -> Option<Completion> {
        let is_small = !pdu.write && pdu.expected_length as usize <= into.len();
        let nexus = self.nexus.as_ref().filter(|_| is_small && self.link.tasks().is_only(pdu.lun))?;
        self.shared.units.execute_at_once(nexus, pdu.lun, &cdb_of(pdu.cdb), into)
    }

    fn answer(&self, id: TaskId, asked: Asked, completion: &Completion, data: &[u8]) -> Result<(), End> {
        let mut tasks = self.link.tasks();
        tasks.queue(id);
        let answers = tasks.run(id) && tasks.answer(id);
        drop(tasks);
        let sent = if answers { self.link.complete(asked, completion, data, None) } else { Ok(()) };
        let functions = self.link.tasks().end(id);
        assert!(functions.is_empty(), "no function came between, for this thread takes them");
        Ok(sent?)
    }

    /// Asks for data that is missing, and hands over what is whole, in order.
    fn go_on(&mut self, lun: Lun) -> Result<(), End> {
        let Some(queue) = self.waiting.get_mut(&lun) else { return Ok(()) };
        for assembly in queue.iter_mut() {
            let target_tag = Tag(self.next_target_tag);
            let Some((number, offset, length)) = assembly.ask(self.link.agreed.burst_max, target_tag) else {
                continue;
            };
            // The last one stands for no task.
            self.next_target_tag = if target_tag.0 == u32::MAX - 1 { 0 } else { target_tag.0 + 1 };
            let tag = assembly.asked.tag;
            let request = |numbers| {
                Pdu::ReadyToTransfer(ReadyToTransfer {
                    lun,
                    tag,
                    target_tag,
                    numbers,
                    number,
                    offset,
                    length,
                })
            };
            self.link.send(Counts::No, request, &[])?;
        }
        while let Some(assembly) = queue.pop_front_if(|first| first.is_whole()) {
            let worker = match self.workers.entry(lun) {
                std::collections::btree_map::Entry::Occupied(worker) => worker.into_mut(),
                std::collections::btree_map::Entry::Vacant(place) => {
                    let Some(nexus) = &self.nexus else { return Err(End::Protocol) };
                    let started = Worker::start(lun, &self.link, &self.shared.units, nexus);
                    place.insert(started.map_err(|_| End::Gone)?)
                }
            };
            self.link.tasks().queue(assembly.id);
            if !worker.give(assembly.work()) {
                return Err(End::Gone);
            }
        }
        Ok(())
    }

    fn data_out(&mut self, pdu: &DataOut, length: usize) -> Result<(), End> {
        let found = self.waiting.iter_mut().find_map(|(lun, queue)| {
            queue.iter_mut().find(|assembly| assembly.asked.tag == pdu.tag).map(|assembly| (*lun, assembly))
        });
        let Some((lun, assembly)) = found else {
            // Of a task that was refused or aborted while this was on its way.
            return Ok(self.receiver.skip(length)?);
        };
        let room = assembly.room(pdu, length).map_err(|_| End::Protocol)?;
        self.receiver.data(assembly.bytes(room))?;
        assembly.taken(pdu, length);
        self.go_on(lun)
    }

    fn ping(&mut self, pdu: &NopOut, length: usize) -> Result<(), End> {
        if pdu.tag == Tag::NONE {
            // The answer to a ping of ours: that it came is all it says.
            return Ok(self.receiver.skip(length)?);
        }
        if length > PING_MAX {
            return Err(End::Protocol);
        }
        if !self.admits(pdu.immediate, pdu.numbers.command, length)? {
            return Ok(());
        }
        let mut data = self.receiver.data_owned(length, PING_MAX)?;
        data.truncate(self.link.agreed.send_segment_max);
        let (lun, tag, target_tag) = (pdu.lun, pdu.tag, Tag::NONE);
        let pong = |numbers| Pdu::NopIn(NopIn { lun, tag, target_tag, numbers });
        Ok(self.link.send(Counts::Yes, pong, &data)?)
    }

    fn function(&mut self, pdu: &TaskRequest, length: usize) -> Result<(), End> {
        self.receiver.skip(length)?;
        let Some(nexus) = self.nexus.clone() else { return Err(End::Protocol) };
        if !self.admits(pdu.immediate, pdu.numbers.command, 0)? {
            return Ok(());
        }
        if pdu.function == TaskRequest::LUN_RESET && !self.luns.contains(&pdu.lun) {
            return Ok(self.link.function_response(pdu.tag, TaskResponse::NO_LUN)?);
        }
        let mut tasks = self.link.tasks();
        let aborted = match tasks.function(pdu) {
            Ok(aborted) => aborted,
            Err(response) => {
                drop(tasks);
                return Ok(self.link.function_response(pdu.tag, response)?);
            }
        };
        self.tell_units(&aborted);
        drop(tasks);
        for queue in self.waiting.values_mut() {
            queue.retain(|assembly| !aborted.arriving.contains(&assembly.id));
        }
        // What stood behind a task that is gone may be whole.
        let luns: Vec<Lun> = self.waiting.keys().copied().collect();
        luns.into_iter().try_for_each(|lun| self.go_on(lun))?;
        let done = aborted.done.into_iter().collect();
        Ok(self.link.functions_done(done, &*self.shared.units, &nexus)?)
    }

    /// While tasks are locked no unit goes on to its next command, so that this reaches the one that is
    /// meant.
    fn tell_units(&self, aborted: &Aborted) {
        if let Some(nexus) = &self.nexus {
            aborted.running.iter().for_each(|lun| self.shared.units.abort(nexus, *lun));
        }
    }

    fn log_out(&mut self, pdu: &LogoutRequest, length: usize) -> Result<(), End> {
        /// Connection recovery, which needs an error recovery level that is not agreed.
        const RECOVERY: u8 = 2;
        self.receiver.skip(length)?;
        if !self.admits(pdu.immediate, pdu.numbers.command, 0)? {
            return Ok(());
        }
        let response = if pdu.reason == RECOVERY { 2 } else { 0 };
        let tag = pdu.tag;
        let answer =
            |numbers| Pdu::LogoutResponse(LogoutResponse { response, tag, numbers, wait_s: 0, retain_s: 0 });
        self.link.send(Counts::Yes, answer, &[])?;
        if response == 0 { Err(End::Gone) } else { Ok(()) }
    }

    fn text_request(&mut self, pdu: &TextRequest, incoming: &Incoming) -> Result<(), End> {
        let data = self.receiver.data_owned(incoming.data, SEGMENT_DEFAULT)?;
        if !self.admits(pdu.immediate, pdu.numbers.command, 0)? {
            return Ok(());
        }
        if pdu.goes_on {
            // All that can be asked here fits one PDU.
            return self.reject(Reject::NOT_SUPPORTED, incoming);
        }
        let mut text = match self.text.take() {
            Some((tag, rest)) if tag == pdu.target_tag => rest,
            _ if pdu.target_tag != Tag::NONE => return Err(End::Protocol),
            _ => {
                let keys = Keys::parse_once(&data).map_err(|_| End::Protocol)?;
                self.answer_keys(&keys).bytes()
            }
        };
        let rest = text.split_off(text.len().min(self.link.agreed.send_segment_max).min(SEGMENT_DEFAULT));
        let is_last = rest.is_empty();
        let target_tag = if is_last { Tag::NONE } else { self.target_tag() };
        if !is_last {
            self.text = Some((target_tag, rest));
        }
        let (lun, tag) = (pdu.lun, pdu.tag);
        let (last, goes_on) = (is_last, !is_last);
        let answer =
            |numbers| Pdu::TextResponse(TextResponse { last, goes_on, lun, tag, target_tag, numbers });
        Ok(self.link.send(Counts::Yes, answer, &text)?)
    }

    fn answer_keys(&self, keys: &Keys) -> Keys {
        let mut answers = Keys::new();
        for (key, value) in keys.iter() {
            if key != "SendTargets" {
                answers.push(key, "NotUnderstood");
                continue;
            }
            let targets = self.shared.units.targets();
            // In a session with a target, nothing stands for that one (RFC 7143, appendix C).
            let meant = |target: &&Name| match (value, &self.nexus) {
                ("All", _) => true,
                ("", Some(nexus)) => **target == nexus.target,
                (name, _) => Name::new(name).is_ok_and(|name| **target == name),
            };
            let mut length = 0;
            for target in targets.iter().filter(meant) {
                let address = format!("{},1", self.address);
                length += target.as_str().len() + address.len() + "TargetName=\0TargetAddress=\0".len();
                if length > TEXT_MAX {
                    break;
                }
                answers.push("TargetName", target);
                answers.push("TargetAddress", address);
            }
        }
        answers
    }
}
