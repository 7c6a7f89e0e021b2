//! What units and the receiving thread of a session share: the way back to the initiator.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use scsi::{Completion, Status};

use crate::login::Agreed;
use crate::pdu::{Answered, DataIn, Lun, Pdu, Residual, Response, Serial, Tag, TaskResponse};
use crate::wire::{Sender, WireError};

use super::registry::{Memory, Share};
use super::tasks::{FunctionDone, Scope, Tasks};
use super::{LogicalUnits, Nexus, TargetLimits};

/// The way back.
pub(super) struct Link {
    out: Mutex<Out>,
    tasks: Mutex<Tasks>,
    stream: TcpStream,
    pub(super) agreed: Agreed,
    pdu_limit: Duration,
    memory: Arc<Memory>,
    /// Buffers that were used, for the next commands.
    spare: Mutex<Vec<Vec<u8>>>,
}

struct Out {
    sender: Sender,
    /// StatSN of the next answer.
    answer: Serial,
}

/// Whether a PDU takes a number in the sequence of answers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Counts {
    Yes,
    No,
}

/// What a command was asked for, for its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub(super) tag: Tag,
    /// Bytes of data that the initiator expects.
    pub(super) expected: usize,
    /// R2Ts that were sent.
    pub(super) requests: u32,
}

/// Buffers that a session keeps, and the longest one that is kept: what it takes beside the server's limit.
const SPARE_MAX: usize = 2;
const SPARE_LENGTH_MAX: usize = 1024 * 1024 + 512;

impl Link {
    pub(super) fn new(
        (sender, stream): (Sender, TcpStream),
        answer: Serial,
        tasks: Tasks,
        agreed: Agreed,
        limits: &TargetLimits,
    ) -> Link {
        Link {
            out: Mutex::new(Out { sender, answer }),
            tasks: Mutex::new(tasks),
            stream,
            agreed,
            pdu_limit: limits.pdu,
            memory: Memory::new(limits.session_memory),
            spare: Mutex::default(),
        }
    }

    pub(super) fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a PDU with the numbers that it has at this moment. If that fails the connection is closed.
    pub(super) fn send(
        &self,
        counts: Counts,
        pdu: impl FnOnce(Answered) -> Pdu,
        data: &[u8],
    ) -> Result<(), WireError> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let (expected_command, last_command) = self.tasks().window();
        let pdu = pdu(Answered { answer: out.answer, expected_command, last_command });
        if counts == Counts::Yes {
            out.answer = out.answer.plus(1);
        }
        let sent = out.sender.send(&pdu, data, Instant::now() + self.pdu_limit);
        if sent.is_err() {
            self.close();
        }
        sent
    }

    /// Closes the connection, which wakes the receiving thread, which ends the session.
    pub(super) fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Answers a command: its data first, if it has some, then its status. Memory that was reserved for it is
    /// given back before its end is told, for the next command may come at once.
    pub(super) fn complete(
        &self,
        asked: Asked,
        completion: &Completion,
        data: &[u8],
        mut reserved: Option<Share>,
    ) -> Result<(), WireError> {
        let moved = completion.transferred.min(asked.expected);
        let data = data.get(..moved).unwrap_or(data);
        // The four bytes of a PDU: what is more is as good as the most that they say.
        let count = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
        let residual = match completion.transferred.checked_sub(asked.expected) {
            Some(0) => Residual::None,
            Some(more) => Residual::Overflow(count(more)),
            None => Residual::Underflow(count(asked.expected - completion.transferred)),
        };
        let mut parts = 0u32;
        // Status may go with the last data if there is nothing else to say.
        let collapses = completion.status == Status::Good && completion.sense.is_empty();
        for burst in data.chunks(self.agreed.burst_max) {
            let burst_at = burst.as_ptr().addr() - data.as_ptr().addr();
            for part in burst.chunks(self.agreed.send_segment_max) {
                let offset = part.as_ptr().addr() - data.as_ptr().addr();
                let end = offset + part.len();
                let is_end = collapses && end == data.len();
                let pdu = |numbers| {
                    Pdu::DataIn(DataIn {
                        last: end == burst_at + burst.len(),
                        acknowledge: false,
                        end: is_end.then_some((completion.status.byte(), residual)),
                        lun: Lun::default(),
                        tag: asked.tag,
                        target_tag: Tag::NONE,
                        numbers,
                        number: Serial(parts),
                        offset: offset as u32,
                    })
                };
                if is_end {
                    reserved = None;
                }
                self.send(if is_end { Counts::Yes } else { Counts::No }, pdu, part)?;
                parts += 1;
            }
        }
        if collapses && !data.is_empty() {
            return Ok(());
        }
        drop(reserved);
        let sense = &completion.sense[..completion.sense.len().min(Completion::SENSE_MAX)];
        let mut response = Vec::new();
        if !sense.is_empty() {
            response.extend((sense.len() as u16).to_be_bytes());
            response.extend(sense);
        }
        let pdu = |numbers| {
            Pdu::Response(Response {
                response: 0,
                status: completion.status.byte(),
                tag: asked.tag,
                numbers,
                data_count: Serial(parts + asked.requests),
                residual,
            })
        };
        self.send(Counts::Yes, pdu, &response)
    }

    /// Resets what is to be reset, and answers task management functions whose tasks have ended.
    pub(super) fn functions_done(
        &self,
        functions: Vec<FunctionDone>,
        units: &dyn LogicalUnits,
        nexus: &Nexus,
    ) -> Result<(), WireError> {
        let count = functions.len();
        let done = self.each_function_done(functions, units, nexus);
        if count > 0 {
            self.tasks().functions_over(count);
        }
        done
    }

    fn each_function_done(
        &self,
        functions: Vec<FunctionDone>,
        units: &dyn LogicalUnits,
        nexus: &Nexus,
    ) -> Result<(), WireError> {
        for FunctionDone { tag, reset } in functions {
            match reset {
                Some(Scope::Unit(lun)) => units.reset(nexus, lun),
                Some(Scope::Target) => {
                    units.luns(&nexus.target).into_iter().for_each(|lun| units.reset(nexus, lun));
                }
                None => {}
            }
            self.function_response(tag, TaskResponse::COMPLETE)?;
        }
        Ok(())
    }

    pub(super) fn function_response(&self, tag: Tag, response: u8) -> Result<(), WireError> {
        self.send(Counts::Yes, |numbers| Pdu::TaskResponse(TaskResponse { response, tag, numbers }), &[])
    }

    /// Memory for a command, of the session's share and the server's.
    pub(super) fn reserve(&self, server: &Arc<Memory>, bytes: usize) -> Option<Share> {
        Some(Share { _session: self.memory.reserve(bytes)?, _server: server.reserve(bytes)? })
    }

    /// A buffer of this length. What is in it is zero, or of an earlier command of this session.
    pub(super) fn buffer(&self, length: usize) -> Vec<u8> {
        if length == 0 {
            return Vec::new();
        }
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = spare.pop().unwrap_or_default();
        drop(spare);
        if buffer.capacity() < length {
            // Fresh pages are zero already; a longer buffer would be copied first.
            buffer = vec![0; length];
        }
        buffer.resize(length, 0);
        buffer
    }

    /// Gives a buffer back.
    pub(super) fn keep(&self, buffer: Vec<u8>) {
        if (1..=SPARE_LENGTH_MAX).contains(&buffer.capacity()) {
            let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.len() < SPARE_MAX {
                spare.push(buffer);
            }
        }
    }
}
