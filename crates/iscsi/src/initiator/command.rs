//! One command from its first byte to its end, or to the point at which it is given up.

use std::ops::Range;
use std::time::Instant;

use scsi::{Cdb, Completion, Data, Status};

use crate::pdu::{
    Command, DataIn, DataOut, Lun, Pdu, ReadyToTransfer, Residual, Response, Serial, Tag, TaskRequest,
    TaskResponse,
};
use crate::wire::Incoming;

use super::session::{Session, SessionError};
use super::{Escalation, InitiatorConfig, Statistics, end_of};

/// How a command ended, with a session that goes on.
pub(super) enum Ended {
    /// The unit answered.
    Completed(Completion),
    /// No answer came in time, and the target has ended the command; how, in words.
    Aborted(&'static str),
}

/// A command that failed and took its session along.
pub(super) struct Failure {
    pub(super) error: SessionError,
    /// A byte of it left.
    pub(super) may_be_done: bool,
}

/// The task attribute SIMPLE.
const SIMPLE: u8 = 1;
/// The most data of a SCSI Response: the length of the sense data, sense data, and what a target adds.
const RESPONSE_DATA_MAX: usize = 8192;

/// A command under way.
struct Task<'a> {
    tag: Tag,
    command: Serial,
    lun: Lun,
    data: Data<'a>,
    /// Bytes that went out.
    sent: usize,
    /// Bytes that came in.
    received: usize,
    /// Requests for data that came.
    requests: u32,
    /// Data-Ins that came.
    parts: u32,
    /// The command is being given up: no more data goes out.
    is_given_up: bool,
}

/// A ping on its way while a command takes long.
struct Ping {
    tag: Tag,
    until: Instant,
}

impl Session {
    /// Carries a command out.
    pub(super) fn command(
        &mut self,
        config: &InitiatorConfig,
        cdb: &Cdb,
        data: Data<'_>,
        until: Instant,
        statistics: &mut Statistics,
    ) -> Result<Ended, Failure> {
        let sent_before = self.sender.sent();
        self.open_window(until, statistics).map_err(|error| Failure { error, may_be_done: false })?;
        let sent_window = self.sender.sent();
        // Answers to pings while the window was closed are no part of the command.
        debug_assert!(sent_window >= sent_before, "what left does not come back");
        let done = self.send_and_wait(config, cdb, data, until, statistics);
        done.map_err(|error| Failure { error, may_be_done: self.sender.sent() > sent_window })
    }

    /// Waits until the target takes another command. With one command at a time it always should.
    fn open_window(&mut self, until: Instant, statistics: &mut Statistics) -> Result<(), SessionError> {
        while !self.is_window_open() {
            if self.receive(until, statistics)?.is_some() {
                return Err(SessionError::Broken("it answered what nobody asked"));
            }
            if Instant::now() >= until {
                return Err(SessionError::Late);
            }
        }
        Ok(())
    }

    fn send_and_wait(
        &mut self,
        config: &InitiatorConfig,
        cdb: &Cdb,
        data: Data<'_>,
        until: Instant,
        statistics: &mut Statistics,
    ) -> Result<Ended, SessionError> {
        let mut task = self.begin(config.lun, cdb, data, until)?;
        let mut ping: Option<Ping> = None;
        loop {
            let wake = match &ping {
                Some(ping) => ping.until,
                None => end_of(config.limits.ping_after),
            };
            let Some(incoming) = self.receive(until.min(wake), statistics)? else {
                if Instant::now() >= until {
                    return self.give_up(&mut task, config, ping.as_ref(), statistics);
                }
                if ping.is_some() {
                    // A target that says nothing at all is gone, however long the command may take.
                    return Err(SessionError::Silent);
                }
                let answer_until = end_of(config.limits.ping);
                let tag = match self.late_pong.take() {
                    Some(tag) => tag,
                    None => self.send_ping(config.lun, answer_until)?,
                };
                ping = Some(Ping { tag, until: answer_until });
                continue;
            };
            match incoming.pdu {
                Pdu::NopIn(pong) if ping.as_ref().is_some_and(|ping| ping.tag == pong.tag) => {
                    self.receiver.skip(incoming.data)?;
                    statistics.pings_sent += 1;
                    ping = None;
                }
                _ => {
                    if let Some(completion) = self.progress(&mut task, incoming, until)? {
                        self.late_pong = ping.map(|ping| ping.tag);
                        return Ok(Ended::Completed(completion));
                    }
                }
            }
        }
    }

    /// Sends the command with all data that the target takes without asking.
    fn begin<'a>(
        &mut self,
        lun: Lun,
        cdb: &Cdb,
        data: Data<'a>,
        until: Instant,
    ) -> Result<Task<'a>, SessionError> {
        let length = data.length();
        let agreed = self.agreed;
        let first = if data.is_out() { length.min(agreed.first_burst_max) } else { 0 };
        let immediate = if agreed.immediate_data { first.min(agreed.send_segment_max) } else { 0 };
        let unasked = if agreed.initial_r2t { immediate } else { first };
        let mut bytes = [0; 16];
        bytes[..cdb.bytes().len()].copy_from_slice(cdb.bytes());
        let (tag, numbers) = (self.tag(), self.count_command());
        let command = Command {
            immediate: false,
            last: unasked == immediate,
            read: data.is_in(),
            write: data.is_out(),
            attribute: SIMPLE,
            lun,
            tag,
            // Transfers are shorter than 4 GiB, as the settings were checked for.
            expected_length: length as u32,
            numbers,
            cdb: bytes,
        };
        self.send_parts(&Pdu::Command(command), out_range(&data, 0..immediate)?, until)?;
        self.send_burst((lun, tag, Tag::NONE), &data, immediate..unasked, until)?;
        Ok(Task {
            tag,
            command: numbers.command,
            lun,
            data,
            sent: unasked,
            received: 0,
            requests: 0,
            parts: 0,
            is_given_up: false,
        })
    }

    /// Sends this range of the data as one sequence of Data-Outs.
    fn send_burst(
        &mut self,
        (lun, tag, target_tag): (Lun, Tag, Tag),
        data: &Data<'_>,
        range: Range<usize>,
        until: Instant,
    ) -> Result<(), SessionError> {
        let (mut offset, mut number) = (range.start, Serial(0));
        while offset < range.end {
            let end = range.end.min(offset + self.agreed.send_segment_max);
            let pdu = DataOut {
                last: end == range.end,
                lun,
                tag,
                target_tag,
                expected_answer: self.numbers().expected_answer,
                number,
                offset: offset as u32,
            };
            self.send_parts(&Pdu::DataOut(pdu), out_range(data, offset..end)?, until)?;
            (offset, number) = (end, number.plus(1));
        }
        Ok(())
    }

    /// Takes a PDU about the task; the completion, if it ends it.
    fn progress(
        &mut self,
        task: &mut Task<'_>,
        incoming: Incoming,
        until: Instant,
    ) -> Result<Option<Completion>, SessionError> {
        match incoming.pdu {
            Pdu::DataIn(pdu) if pdu.tag == task.tag => self.data_in(task, &pdu, incoming.data),
            Pdu::ReadyToTransfer(pdu) if pdu.tag == task.tag => {
                self.receiver.skip(incoming.data)?;
                self.data_out(task, &pdu, until)?;
                Ok(None)
            }
            Pdu::Response(pdu) if pdu.tag == task.tag => self.response(task, &pdu, incoming.data).map(Some),
            _ => Err(SessionError::Broken("it answered something else than the command")),
        }
    }

    fn data_in(
        &mut self,
        task: &mut Task<'_>,
        pdu: &DataIn,
        length: usize,
    ) -> Result<Option<Completion>, SessionError> {
        if !task.data.is_in() {
            return Err(SessionError::Broken("it sends data to a command that has none"));
        }
        if pdu.offset as usize != task.received || pdu.number != Serial(task.parts) {
            return Err(SessionError::Broken("data comes out of order"));
        }
        let end = task.received.checked_add(length);
        let Some(room) = end.and_then(|end| task.data.in_range(task.received..end)) else {
            return Err(SessionError::Broken("it sends more data than the command asks for"));
        };
        self.receiver.data_parts(room)?;
        task.received += length;
        task.parts += 1;
        match pdu.end {
            Some((status, residual)) => task.completion(Status::of(status), residual, Vec::new()).map(Some),
            None => Ok(None),
        }
    }

    fn data_out(
        &mut self,
        task: &mut Task<'_>,
        pdu: &ReadyToTransfer,
        until: Instant,
    ) -> Result<(), SessionError> {
        if !task.data.is_out() {
            return Err(SessionError::Broken("it asks for data of a command that has none"));
        }
        if task.is_given_up {
            // The target asked before it knew.
            return Ok(());
        }
        let (offset, length) = (pdu.offset as usize, pdu.length as usize);
        let in_order = offset == task.sent && pdu.number == Serial(task.requests);
        if !in_order || pdu.target_tag == Tag::NONE {
            return Err(SessionError::Broken("it asks for data out of order"));
        }
        let within = offset.checked_add(length).filter(|end| *end <= task.data.length());
        let fits = (1..=self.agreed.burst_max).contains(&length);
        let Some(end) = within.filter(|_| fits) else {
            return Err(SessionError::Broken("it asks for data that the command does not have"));
        };
        task.requests += 1;
        task.sent += length;
        self.send_burst((task.lun, task.tag, pdu.target_tag), &task.data, offset..end, until)
    }

    fn response(
        &mut self,
        task: &mut Task<'_>,
        pdu: &Response,
        length: usize,
    ) -> Result<Completion, SessionError> {
        let data = self.receiver.data_owned(length, RESPONSE_DATA_MAX)?;
        if pdu.response != 0 {
            return Err(SessionError::TargetFailure(pdu.response));
        }
        task.completion(Status::of(pdu.status), pdu.residual, sense_of(&data)?)
    }

    /// Ends a task that has no answer in time, step by step. An answer that comes meanwhile counts.
    fn give_up(
        &mut self,
        task: &mut Task<'_>,
        config: &InitiatorConfig,
        mut ping: Option<&Ping>,
        statistics: &mut Statistics,
    ) -> Result<Ended, SessionError> {
        const STEPS: [(Escalation, u8, &str); 3] = [
            (Escalation::Task, TaskRequest::ABORT_TASK, "the command was aborted"),
            (Escalation::Unit, TaskRequest::LUN_RESET, "the unit was reset"),
            (Escalation::Target, TaskRequest::TARGET_WARM_RESET, "the target was reset"),
        ];
        task.is_given_up = true;
        let mut completed = None;
        for (step, function, how) in STEPS {
            if step > config.escalation {
                break;
            }
            let until = end_of(config.limits.abort);
            let referenced = match step {
                Escalation::Task => (task.tag, task.command),
                _ => (Tag::NONE, Serial::default()),
            };
            let tag = self.send_function((function, task.lun), referenced, until)?;
            let response = loop {
                // Silence now means that the target is gone: another step would get none either.
                let incoming = self.receive(until, statistics)?.ok_or(SessionError::Late)?;
                match incoming.pdu {
                    Pdu::TaskResponse(done) if done.tag == tag => {
                        self.receiver.skip(incoming.data)?;
                        break done.response;
                    }
                    Pdu::NopIn(pong) if ping.is_some_and(|ping| ping.tag == pong.tag) => {
                        self.receiver.skip(incoming.data)?;
                        ping = None;
                    }
                    _ if completed.is_some() => {
                        return Err(SessionError::Broken("it answers a command twice"));
                    }
                    _ => completed = self.progress(task, incoming, until)?,
                }
            };
            let is_over = match response {
                TaskResponse::COMPLETE => true,
                // It had ended already: then its answer stands before this one.
                TaskResponse::NO_TASK => step == Escalation::Task,
                _ => false,
            };
            statistics.task_functions += u64::from(is_over);
            match (completed.take(), is_over) {
                (Some(completion), _) => {
                    self.late_pong = ping.map(|ping| ping.tag);
                    return Ok(Ended::Completed(completion));
                }
                (None, true) => {
                    self.late_pong = ping.map(|ping| ping.tag);
                    return Ok(Ended::Aborted(how));
                }
                (None, false) => {}
            }
        }
        Err(SessionError::Late)
    }
}

impl Task<'_> {
    /// The end of the command, if what the target says of the data agrees with the data.
    fn completion(
        &self,
        status: Status,
        residual: Residual,
        sense: Vec<u8>,
    ) -> Result<Completion, SessionError> {
        let expected = self.data.length();
        let moved = if self.data.is_out() { self.sent } else { self.received };
        let said = match residual {
            Residual::Underflow(missing) => expected.saturating_sub(missing as usize),
            Residual::None | Residual::Overflow(_) => expected,
        };
        // Of a command that went well nothing is missing but what is said to be missing. A block that was cut
        // short on the way must not look like a short block.
        if said > moved && status == Status::Good {
            return Err(SessionError::Broken("data of a command that ended well is missing"));
        }
        Ok(Completion { status, sense, transferred: said.min(moved) })
    }
}

/// What goes out of these bytes of a command's data, which has them.
fn out_range<'a>(data: &Data<'a>, range: Range<usize>) -> Result<[&'a [u8]; 2], SessionError> {
    data.out_range(range).ok_or(SessionError::Broken("it is sent more than the command has"))
}

/// The sense data in the data of a response: two bytes with its length stand before it.
fn sense_of(data: &[u8]) -> Result<Vec<u8>, SessionError> {
    let Some((length, rest)) = data.split_first_chunk() else { return Ok(Vec::new()) };
    let length = usize::from(u16::from_be_bytes(*length));
    let sense = rest.get(..length).ok_or(SessionError::Broken("sense data is cut off"))?;
    Ok(sense[..length.min(Completion::SENSE_MAX)].to_vec())
}
