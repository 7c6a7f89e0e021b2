//! Protocol data units as values and as bytes (RFC 7143, section 11). Pure.
//!
//! A PDU is a basic header of 48 bytes, additional headers, a checksum of both if agreed, data padded to a
//! multiple of four bytes, and a checksum of those if agreed:
//!
//! ```text
//! | basic header 48 | additional 4·n | [CRC-32C 4] | data | padding 0..3 | [CRC-32C 4] |
//! ```

mod decode;
mod encode;
mod frame;
mod number;

pub use frame::{Digests, Shape, Whole, data_digest, header_digest, padding, split};
pub use number::{Isid, Lun, Serial, Tag};

/// Bytes of the basic header.
pub const HEADER: usize = 48;
/// The most bytes of data that the length field of a header can say.
pub const DATA_LENGTH_MAX: usize = 0x00ff_ffff;
/// The most bytes of additional headers that a header can say.
pub const ADDITIONAL_MAX: usize = 255 * 4;
/// Bytes of a checksum.
pub const DIGEST: usize = 4;
/// The version of the protocol, the only one there is.
pub const VERSION: u8 = 0;

/// Why bytes are no PDU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PduError {
    /// The operation code is none of RFC 7143.
    #[error("operation code {0:02X}h is not known")]
    Opcode(u8),
    /// A login names a stage that does not exist.
    #[error("stage 2 of a login does not exist")]
    Stage,
    /// The data is longer than what the receiver has declared.
    #[error("{length} bytes of data in one PDU, at most {most} were declared")]
    TooLong {
        /// Bytes of data.
        length: usize,
        /// MaxRecvDataSegmentLength.
        most: usize,
    },
    /// The header does not have the checksum that follows it.
    #[error("the header's CRC-32C is wrong")]
    HeaderDigest,
    /// The data does not have the checksum that follows it.
    #[error("the data's CRC-32C is wrong")]
    DataDigest,
    /// There are fewer bytes than the header says.
    #[error("cut off")]
    Short,
}

/// Numbers that each PDU from an initiator carries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sent {
    /// CmdSN: the number of the command, or for an immediate one that of the next.
    pub command: Serial,
    /// ExpStatSN: the next answer that the initiator expects; it has all before it.
    pub expected_answer: Serial,
}

/// Numbers that each PDU from a target carries.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Answered {
    /// StatSN: the number of the answer, or that of the next where the PDU is none.
    pub answer: Serial,
    /// ExpCmdSN: the next command that the target expects.
    pub expected_command: Serial,
    /// MaxCmdSN: the last command that the target takes.
    pub last_command: Serial,
}

/// What is left over of the length that a command expected.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Residual {
    /// Nothing: exactly the expected bytes were transferred.
    #[default]
    None,
    /// So many bytes fewer were transferred.
    Underflow(u32),
    /// So many bytes more would have been transferred, had they been expected.
    Overflow(u32),
}

/// A stage of the login.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// 0: who the two are.
    Security,
    /// 1: how they go on.
    Operational,
    /// 3: the login is over.
    FullFeature,
}

/// NOP-Out: a ping, or the answer to one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NopOut {
    /// Does not count in the sequence of commands.
    pub immediate: bool,
    /// The unit named in the ping that is answered.
    pub lun: Lun,
    /// The ping's own tag, [`Tag::NONE`] if no answer is wanted.
    pub tag: Tag,
    /// The tag of the ping that is answered, [`Tag::NONE`] if none is.
    pub target_tag: Tag,
    /// Sequence numbers.
    pub numbers: Sent,
}

/// SCSI Command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// Does not count in the sequence of commands.
    pub immediate: bool,
    /// No unsolicited data follows in PDUs of its own.
    pub last: bool,
    /// Data from the device is expected.
    pub read: bool,
    /// Data to the device is expected.
    pub write: bool,
    /// The task attribute, three bits: 0 untagged, 1 simple, 2 ordered, 3 head of queue, 4 ACA.
    pub attribute: u8,
    /// The unit.
    pub lun: Lun,
    /// The task.
    pub tag: Tag,
    /// Bytes of data that are expected.
    pub expected_length: u32,
    /// Sequence numbers.
    pub numbers: Sent,
    /// The command descriptor block, padded with zeros.
    pub cdb: [u8; 16],
}

/// Task Management Function Request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskRequest {
    /// Does not count in the sequence of commands.
    pub immediate: bool,
    /// What is to be done, seven bits: [`TaskRequest::ABORT_TASK`] and others.
    pub function: u8,
    /// The unit.
    pub lun: Lun,
    /// Its own tag.
    pub tag: Tag,
    /// The task that is meant.
    pub referenced: Tag,
    /// Sequence numbers.
    pub numbers: Sent,
    /// CmdSN of the task that is meant.
    pub referenced_command: Serial,
    /// ExpDataSN, for a reassigned task only.
    pub expected_data: Serial,
}

impl TaskRequest {
    /// Ends one task.
    pub const ABORT_TASK: u8 = 1;
    /// Ends all tasks of this session in a unit.
    pub const ABORT_TASK_SET: u8 = 2;
    /// Sets a unit back.
    pub const LUN_RESET: u8 = 5;
    /// Sets all units of the target back.
    pub const TARGET_WARM_RESET: u8 = 6;
    /// Gives a task to another connection.
    pub const TASK_REASSIGN: u8 = 8;
}

/// Login Request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoginRequest {
    /// The stage to go to, if this one is over.
    pub transit: Option<Stage>,
    /// The text goes on in the next request.
    pub goes_on: bool,
    /// The stage.
    pub stage: Stage,
    /// The highest version of the protocol.
    pub version_max: u8,
    /// The lowest version of the protocol.
    pub version_min: u8,
    /// The initiator's part of the session's name.
    pub isid: Isid,
    /// The target's part, 0 for a new session.
    pub session: u16,
    /// Its tag, the same for all requests of a login.
    pub tag: Tag,
    /// The connection within the session.
    pub connection: u16,
    /// Sequence numbers.
    pub numbers: Sent,
}

/// Text Request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextRequest {
    /// Does not count in the sequence of commands.
    pub immediate: bool,
    /// The initiator has no more to say.
    pub last: bool,
    /// The text goes on in the next request.
    pub goes_on: bool,
    /// The unit, copied from the answer.
    pub lun: Lun,
    /// Its tag.
    pub tag: Tag,
    /// The tag of the answer that this goes on from, [`Tag::NONE`] in a first request.
    pub target_tag: Tag,
    /// Sequence numbers.
    pub numbers: Sent,
}

/// SCSI Data-Out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataOut {
    /// The last one of the sequence.
    pub last: bool,
    /// The unit, copied from the request.
    pub lun: Lun,
    /// The task.
    pub tag: Tag,
    /// The tag of the request for this data, [`Tag::NONE`] for unsolicited data.
    pub target_tag: Tag,
    /// The next answer that the initiator expects.
    pub expected_answer: Serial,
    /// Its number within the sequence.
    pub number: Serial,
    /// Where the data belongs in the command's buffer.
    pub offset: u32,
}

/// Logout Request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogoutRequest {
    /// Does not count in the sequence of commands.
    pub immediate: bool,
    /// Why, seven bits: 0 ends the session, 1 the connection.
    pub reason: u8,
    /// Its tag.
    pub tag: Tag,
    /// The connection that ends.
    pub connection: u16,
    /// Sequence numbers.
    pub numbers: Sent,
}

/// SNACK Request, which error recovery level 0 never sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Snack {
    /// What is asked for again, four bits.
    pub kind: u8,
    /// The unit.
    pub lun: Lun,
    /// The task.
    pub tag: Tag,
    /// The target's tag.
    pub target_tag: Tag,
    /// The next answer that the initiator expects.
    pub expected_answer: Serial,
    /// The first number asked for.
    pub first: Serial,
    /// How many.
    pub count: u32,
}

/// NOP-In: a ping, or the answer to one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NopIn {
    /// The unit.
    pub lun: Lun,
    /// The tag of the ping that is answered, [`Tag::NONE`] if none is.
    pub tag: Tag,
    /// The ping's own tag, [`Tag::NONE`] if no answer is wanted.
    pub target_tag: Tag,
    /// Sequence numbers.
    pub numbers: Answered,
}

/// SCSI Response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Response {
    /// 0: the command came to an end in the target. Else the status says nothing.
    pub response: u8,
    /// The status byte.
    pub status: u8,
    /// The task.
    pub tag: Tag,
    /// Sequence numbers.
    pub numbers: Answered,
    /// ExpDataSN: how many R2Ts and Data-Ins there were.
    pub data_count: Serial,
    /// What is left over.
    pub residual: Residual,
}

/// Task Management Function Response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskResponse {
    /// How it went: [`TaskResponse::COMPLETE`] and others.
    pub response: u8,
    /// The tag of the request.
    pub tag: Tag,
    /// Sequence numbers.
    pub numbers: Answered,
}

impl TaskResponse {
    /// Done.
    pub const COMPLETE: u8 = 0;
    /// There is no such task.
    pub const NO_TASK: u8 = 1;
    /// There is no such unit.
    pub const NO_LUN: u8 = 2;
    /// Tasks cannot be given to another connection.
    pub const NO_REASSIGN: u8 = 4;
    /// The target does not have this function.
    pub const NOT_SUPPORTED: u8 = 5;
    /// Refused.
    pub const REJECTED: u8 = 255;
}

/// Login Response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoginResponse {
    /// The stage to go to, if this one is over.
    pub transit: Option<Stage>,
    /// The text goes on in the next response.
    pub goes_on: bool,
    /// The stage.
    pub stage: Stage,
    /// The highest version of the protocol.
    pub version_max: u8,
    /// The version that is used.
    pub version: u8,
    /// The initiator's part of the session's name.
    pub isid: Isid,
    /// The target's part: set by the last response.
    pub session: u16,
    /// The tag of the request.
    pub tag: Tag,
    /// Sequence numbers.
    pub numbers: Answered,
    /// Status class and detail: 0000h if all is well.
    pub status: u16,
}

/// Text Response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TextResponse {
    /// The target has no more to say.
    pub last: bool,
    /// The text goes on in the next response.
    pub goes_on: bool,
    /// The unit.
    pub lun: Lun,
    /// The tag of the request.
    pub tag: Tag,
    /// What the next request names, [`Tag::NONE`] if there is none.
    pub target_tag: Tag,
    /// Sequence numbers.
    pub numbers: Answered,
}

/// SCSI Data-In.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataIn {
    /// The last one of the sequence.
    pub last: bool,
    /// An acknowledgement is wanted (error recovery level above 0).
    pub acknowledge: bool,
    /// The status, if the command ends with this PDU, and what is left over.
    pub end: Option<(u8, Residual)>,
    /// The unit.
    pub lun: Lun,
    /// The task.
    pub tag: Tag,
    /// The target's tag.
    pub target_tag: Tag,
    /// Sequence numbers; that of the answer counts only if there is a status.
    pub numbers: Answered,
    /// Its number within the command.
    pub number: Serial,
    /// Where the data belongs in the command's buffer.
    pub offset: u32,
}

/// Logout Response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogoutResponse {
    /// 0: closed.
    pub response: u8,
    /// The tag of the request.
    pub tag: Tag,
    /// Sequence numbers.
    pub numbers: Answered,
    /// Seconds to wait before a new login.
    pub wait_s: u16,
    /// Seconds after which tasks are given up.
    pub retain_s: u16,
}

/// Ready To Transfer: the target asks for data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadyToTransfer {
    /// The unit.
    pub lun: Lun,
    /// The task.
    pub tag: Tag,
    /// What the data must name.
    pub target_tag: Tag,
    /// Sequence numbers; that of the answer is the next one's.
    pub numbers: Answered,
    /// Its number within the command.
    pub number: Serial,
    /// Where in the command's buffer the data begins.
    pub offset: u32,
    /// How many bytes.
    pub length: u32,
}

/// Asynchronous Message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsyncMessage {
    /// The unit.
    pub lun: Lun,
    /// Sequence numbers.
    pub numbers: Answered,
    /// What has happened: [`AsyncMessage::SCSI`] and others.
    pub event: u8,
    /// A vendor's code.
    pub vendor: u8,
    /// What goes with the event.
    pub parameters: [u16; 3],
}

impl AsyncMessage {
    /// A unit reports sense data.
    pub const SCSI: u8 = 0;
    /// The target wants a logout.
    pub const LOGOUT: u8 = 1;
    /// The target drops the connection.
    pub const DROP_CONNECTION: u8 = 2;
    /// The target drops all connections of the session.
    pub const DROP_SESSION: u8 = 3;
    /// The target wants to negotiate anew.
    pub const NEGOTIATE: u8 = 4;
}

/// Reject: a PDU was not understood. Its header is the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reject {
    /// Why: [`Reject::PROTOCOL`] and others.
    pub reason: u8,
    /// Sequence numbers.
    pub numbers: Answered,
    /// DataSN or R2TSN, for a rejected SNACK only.
    pub number: Serial,
}

impl Reject {
    /// The data's checksum is wrong.
    pub const DATA_DIGEST: u8 = 2;
    /// Breaks the protocol.
    pub const PROTOCOL: u8 = 4;
    /// Not supported.
    pub const NOT_SUPPORTED: u8 = 5;
    /// Too many immediate commands.
    pub const IMMEDIATE: u8 = 6;
}

/// Any PDU, without its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each is named like what it holds")]
pub enum Pdu {
    NopOut(NopOut),
    Command(Command),
    TaskRequest(TaskRequest),
    LoginRequest(LoginRequest),
    TextRequest(TextRequest),
    DataOut(DataOut),
    LogoutRequest(LogoutRequest),
    Snack(Snack),
    NopIn(NopIn),
    Response(Response),
    TaskResponse(TaskResponse),
    LoginResponse(LoginResponse),
    TextResponse(TextResponse),
    DataIn(DataIn),
    LogoutResponse(LogoutResponse),
    ReadyToTransfer(ReadyToTransfer),
    AsyncMessage(AsyncMessage),
    Reject(Reject),
}

/// Operation codes, six bits.
mod opcode {
    pub const NOP_OUT: u8 = 0x00;
    pub const COMMAND: u8 = 0x01;
    pub const TASK_REQUEST: u8 = 0x02;
    pub const LOGIN_REQUEST: u8 = 0x03;
    pub const TEXT_REQUEST: u8 = 0x04;
    pub const DATA_OUT: u8 = 0x05;
    pub const LOGOUT_REQUEST: u8 = 0x06;
    pub const SNACK: u8 = 0x10;
    pub const NOP_IN: u8 = 0x20;
    pub const RESPONSE: u8 = 0x21;
    pub const TASK_RESPONSE: u8 = 0x22;
    pub const LOGIN_RESPONSE: u8 = 0x23;
    pub const TEXT_RESPONSE: u8 = 0x24;
    pub const DATA_IN: u8 = 0x25;
    pub const LOGOUT_RESPONSE: u8 = 0x26;
    pub const READY_TO_TRANSFER: u8 = 0x31;
    pub const ASYNC_MESSAGE: u8 = 0x32;
    pub const REJECT: u8 = 0x3f;
}

#[cfg(test)]
mod tests;
