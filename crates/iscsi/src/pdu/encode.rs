//! PDUs into bytes.

use super::{
    Answered, AsyncMessage, Command, DATA_LENGTH_MAX, DataIn, DataOut, HEADER, LoginRequest, LoginResponse,
    LogoutRequest, LogoutResponse, Lun, NopIn, NopOut, Pdu, ReadyToTransfer, Reject, Residual, Response,
    Sent, Snack, Stage, Tag, TaskRequest, TaskResponse, TextRequest, TextResponse, opcode,
};

impl Pdu {
    /// The basic header, for a PDU without additional headers and with `data` bytes of data.
    ///
    /// # Panics
    /// If the data is longer than [`DATA_LENGTH_MAX`].
    #[must_use]
    pub fn encode(&self, data: usize) -> [u8; HEADER] {
        assert!(data <= DATA_LENGTH_MAX, "{data} bytes of data fit no PDU");
        let mut to = match self {
            Pdu::NopOut(pdu) => nop_out(pdu),
            Pdu::Command(pdu) => command(pdu),
            Pdu::TaskRequest(pdu) => task_request(pdu),
            Pdu::LoginRequest(pdu) => login_request(pdu),
            Pdu::TextRequest(pdu) => text_request(pdu),
            Pdu::DataOut(pdu) => data_out(pdu),
            Pdu::LogoutRequest(pdu) => logout_request(pdu),
            Pdu::Snack(pdu) => snack(pdu),
            Pdu::NopIn(pdu) => nop_in(pdu),
            Pdu::Response(pdu) => response(pdu),
            Pdu::TaskResponse(pdu) => task_response(pdu),
            Pdu::LoginResponse(pdu) => login_response(pdu),
            Pdu::TextResponse(pdu) => text_response(pdu),
            Pdu::DataIn(pdu) => data_in(pdu),
            Pdu::LogoutResponse(pdu) => logout_response(pdu),
            Pdu::ReadyToTransfer(pdu) => ready_to_transfer(pdu),
            Pdu::AsyncMessage(pdu) => async_message(pdu),
            Pdu::Reject(pdu) => reject(pdu),
        };
        // At most 24 bits, as asserted.
        let [_, length @ ..] = (data as u32).to_be_bytes();
        to.put(5, length);
        to.0
    }
}

/// The bit that says that a command is immediate.
const IMMEDIATE: u8 = 0x40;
/// The bit that says that a sequence ends (F), or that a stage does (T).
const LAST: u8 = 0x80;
/// The bit that says that a text goes on (C).
const GOES_ON: u8 = 0x40;

struct Bytes([u8; HEADER]);

impl Bytes {
    fn new(opcode: u8, immediate: bool, flags: u8) -> Bytes {
        let mut bytes = [0; HEADER];
        bytes[0] = opcode | if immediate { IMMEDIATE } else { 0 };
        bytes[1] = flags;
        Bytes(bytes)
    }

    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        self.0[at..at + N].copy_from_slice(&bytes);
    }

    fn number(&mut self, at: usize, number: u32) {
        self.put(at, number.to_be_bytes());
    }

    fn lun_and_tag(&mut self, lun: Lun, tag: Tag) {
        self.put(8, lun.0);
        self.number(16, tag.0);
    }

    fn sent(&mut self, numbers: Sent) {
        self.number(24, numbers.command.0);
        self.number(28, numbers.expected_answer.0);
    }

    fn answered(&mut self, numbers: Answered) {
        self.number(24, numbers.answer.0);
        self.number(28, numbers.expected_command.0);
        self.number(32, numbers.last_command.0);
    }
}

fn flag(is: bool, bit: u8) -> u8 {
    if is { bit } else { 0 }
}

fn nop_out(pdu: &NopOut) -> Bytes {
    let mut to = Bytes::new(opcode::NOP_OUT, pdu.immediate, LAST);
    to.lun_and_tag(pdu.lun, pdu.tag);
    to.number(20, pdu.target_tag.0);
    to.sent(pdu.numbers);
    to
}

fn command(pdu: &Command) -> Bytes {
    let flags = flag(pdu.last, LAST) | flag(pdu.read, 0x40) | flag(pdu.write, 0x20) | pdu.attribute & 7;
    let mut to = Bytes::new(opcode::COMMAND, pdu.immediate, flags);
    to.lun_and_tag(pdu.lun, pdu.tag);
    to.number(20, pdu.expected_length);
    to.sent(pdu.numbers);
    to.put(32, pdu.cdb);
    to
}

fn task_request(pdu: &TaskRequest) -> Bytes {
    let mut to = Bytes::new(opcode::TASK_REQUEST, pdu.immediate, LAST | pdu.function & 0x7f);
    to.lun_and_tag(pdu.lun, pdu.tag);
    to.number(20, pdu.referenced.0);
    to.sent(pdu.numbers);
    to.number(32, pdu.referenced_command.0);
    to.number(36, pdu.expected_data.0);
    to
}

fn stages(transit: Option<Stage>, goes_on: bool, stage: Stage) -> u8 {
    let code = |stage| match stage {
        Stage::Security => 0,
        Stage::Operational => 1,
        Stage::FullFeature => 3,
    };
    transit.map_or(0, |next| LAST | code(next)) | flag(goes_on, GOES_ON) | code(stage) << 2
}

fn login_request(pdu: &LoginRequest) -> Bytes {
    // A login is immediate always.
    let mut to = Bytes::new(opcode::LOGIN_REQUEST, true, stages(pdu.transit, pdu.goes_on, pdu.stage));
    to.put(2, [pdu.version_max, pdu.version_min]);
    to.put(8, pdu.isid.0);
    to.put(14, pdu.session.to_be_bytes());
    to.number(16, pdu.tag.0);
    to.put(20, pdu.connection.to_be_bytes());
    to.sent(pdu.numbers);
    to
}

fn text_request(pdu: &TextRequest) -> Bytes {
    let flags = flag(pdu.last, LAST) | flag(pdu.goes_on, GOES_ON);
    let mut to = Bytes::new(opcode::TEXT_REQUEST, pdu.immediate, flags);
    to.lun_and_tag(pdu.lun, pdu.tag);
    to.number(20, pdu.target_tag.0);
    to.sent(pdu.numbers);
    to
}

fn data_out(pdu: &DataOut) -> Bytes {
    let mut to = Bytes::new(opcode::DATA_OUT, false, flag(pdu.last, LAST));
    to.lun_and_tag(pdu.lun, pdu.tag);
    to.number(20, pdu.target_tag.0);
    to.number(28, pdu.expected_answer.0);
    to.number(36, pdu.number.0);
    to.number(40, pdu.offset);
    to
}

fn logout_request(pdu: &LogoutRequest) -> Bytes {
    let mut to = Bytes::new(opcode::LOGOUT_REQUEST, pdu.immediate, LAST | pdu.reason & 0x7f);
    to.number(16, pdu.tag.0);
    to.put(20, pdu.connection.to_be_bytes());
    to.sent(pdu.numbers);
    to
}

fn snack(pdu: &Snack) -> Bytes {
    let mut to = Bytes::new(opcode::SNACK, false, LAST | pdu.kind & 0x0f);
    to.lun_and_tag(pdu.lun, pdu.tag);
    to.number(20, pdu.target_tag.0);
    to.number(28, pdu.expected_answer.0);
    to.number(40, pdu.first.0);
    to.number(44, pdu.count);
    to
}

fn nop_in(pdu: &NopIn) -> Bytes {
    let mut to = Bytes::new(opcode::NOP_IN, false, LAST);
    to.lun_and_tag(pdu.lun, pdu.tag);
    to.number(20, pdu.target_tag.0);
    to.answered(pdu.numbers);
    to
}

/// The flags O and U with the count that goes with them.
fn residual(of: Residual) -> (u8, u32) {
    match of {
        Residual::None => (0, 0),
        Residual::Underflow(count) => (0x02, count),
        Residual::Overflow(count) => (0x04, count),
    }
}

fn response(pdu: &Response) -> Bytes {
    let (flags, count) = residual(pdu.residual);
    let mut to = Bytes::new(opcode::RESPONSE, false, LAST | flags);
    to.put(2, [pdu.response, pdu.status]);
    to.number(16, pdu.tag.0);
    to.answered(pdu.numbers);
    to.number(36, pdu.data_count.0);
    to.number(44, count);
    to
}

fn task_response(pdu: &TaskResponse) -> Bytes {
    let mut to = Bytes::new(opcode::TASK_RESPONSE, false, LAST);
    to.put(2, [pdu.response]);
    to.number(16, pdu.tag.0);
    to.answered(pdu.numbers);
    to
}

fn login_response(pdu: &LoginResponse) -> Bytes {
    let mut to = Bytes::new(opcode::LOGIN_RESPONSE, false, stages(pdu.transit, pdu.goes_on, pdu.stage));
    to.put(2, [pdu.version_max, pdu.version]);
    to.put(8, pdu.isid.0);
    to.put(14, pdu.session.to_be_bytes());
    to.number(16, pdu.tag.0);
    to.answered(pdu.numbers);
    to.put(36, pdu.status.to_be_bytes());
    to
}

fn text_response(pdu: &TextResponse) -> Bytes {
    let flags = flag(pdu.last, LAST) | flag(pdu.goes_on, GOES_ON);
    let mut to = Bytes::new(opcode::TEXT_RESPONSE, false, flags);
    to.lun_and_tag(pdu.lun, pdu.tag);
    to.number(20, pdu.target_tag.0);
    to.answered(pdu.numbers);
    to
}

fn data_in(pdu: &DataIn) -> Bytes {
    let (end, count) = pdu.end.map_or((0, 0), |(_, left)| {
        let (flags, count) = residual(left);
        (0x01 | flags, count)
    });
    let flags = flag(pdu.last, LAST) | flag(pdu.acknowledge, 0x40) | end;
    let mut to = Bytes::new(opcode::DATA_IN, false, flags);
    to.put(3, [pdu.end.map_or(0, |(status, _)| status)]);
    to.lun_and_tag(pdu.lun, pdu.tag);
    to.number(20, pdu.target_tag.0);
    to.answered(pdu.numbers);
    to.number(36, pdu.number.0);
    to.number(40, pdu.offset);
    to.number(44, count);
    to
}

fn logout_response(pdu: &LogoutResponse) -> Bytes {
    let mut to = Bytes::new(opcode::LOGOUT_RESPONSE, false, LAST);
    to.put(2, [pdu.response]);
    to.number(16, pdu.tag.0);
    to.answered(pdu.numbers);
    to.put(40, pdu.wait_s.to_be_bytes());
    to.put(42, pdu.retain_s.to_be_bytes());
    to
}

fn ready_to_transfer(pdu: &ReadyToTransfer) -> Bytes {
    let mut to = Bytes::new(opcode::READY_TO_TRANSFER, false, LAST);
    to.lun_and_tag(pdu.lun, pdu.tag);
    to.number(20, pdu.target_tag.0);
    to.answered(pdu.numbers);
    to.number(36, pdu.number.0);
    to.number(40, pdu.offset);
    to.number(44, pdu.length);
    to
}

fn async_message(pdu: &AsyncMessage) -> Bytes {
    let mut to = Bytes::new(opcode::ASYNC_MESSAGE, false, LAST);
    to.lun_and_tag(pdu.lun, Tag::NONE);
    to.answered(pdu.numbers);
    to.put(36, [pdu.event, pdu.vendor]);
    let [first, second, third] = pdu.parameters;
    to.put(38, first.to_be_bytes());
    to.put(40, second.to_be_bytes());
    to.put(42, third.to_be_bytes());
    to
}

fn reject(pdu: &Reject) -> Bytes {
    let mut to = Bytes::new(opcode::REJECT, false, LAST);
    to.put(2, [pdu.reason]);
    to.number(16, Tag::NONE.0);
    to.answered(pdu.numbers);
    to.number(36, pdu.number.0);
    to
}
