//! Bytes into PDUs. Bits that are reserved, or say nothing at this place, are not looked at.

use super::{
    Answered, AsyncMessage, Command, DataIn, DataOut, HEADER, Isid, LoginRequest, LoginResponse,
    LogoutRequest, LogoutResponse, Lun, NopIn, NopOut, Pdu, PduError, ReadyToTransfer, Reject, Residual,
    Response, Sent, Serial, Snack, Stage, Tag, TaskRequest, TaskResponse, TextRequest, TextResponse, opcode,
};

impl Pdu {
    /// The PDU that has this basic header.
    pub fn decode(header: &[u8; HEADER]) -> Result<Pdu, PduError> {
        let from = Bytes(header);
        let pdu = match header[0] & 0x3f {
            opcode::NOP_OUT => Pdu::NopOut(nop_out(&from)),
            opcode::COMMAND => Pdu::Command(command(&from)),
            opcode::TASK_REQUEST => Pdu::TaskRequest(task_request(&from)),
            opcode::LOGIN_REQUEST => Pdu::LoginRequest(login_request(&from)?),
            opcode::TEXT_REQUEST => Pdu::TextRequest(text_request(&from)),
            opcode::DATA_OUT => Pdu::DataOut(data_out(&from)),
            opcode::LOGOUT_REQUEST => Pdu::LogoutRequest(logout_request(&from)),
            opcode::SNACK => Pdu::Snack(snack(&from)),
            opcode::NOP_IN => Pdu::NopIn(nop_in(&from)),
            opcode::RESPONSE => Pdu::Response(response(&from)),
            opcode::TASK_RESPONSE => Pdu::TaskResponse(task_response(&from)),
            opcode::LOGIN_RESPONSE => Pdu::LoginResponse(login_response(&from)?),
            opcode::TEXT_RESPONSE => Pdu::TextResponse(text_response(&from)),
            opcode::DATA_IN => Pdu::DataIn(data_in(&from)),
            opcode::LOGOUT_RESPONSE => Pdu::LogoutResponse(logout_response(&from)),
            opcode::READY_TO_TRANSFER => Pdu::ReadyToTransfer(ready_to_transfer(&from)),
            opcode::ASYNC_MESSAGE => Pdu::AsyncMessage(async_message(&from)),
            opcode::REJECT => Pdu::Reject(reject(&from)),
            other => return Err(PduError::Opcode(other)),
        };
        Ok(pdu)
    }
}

struct Bytes<'a>(&'a [u8; HEADER]);

impl Bytes<'_> {
    fn flag(&self, bit: u8) -> bool {
        self.0[1] & bit != 0
    }

    fn immediate(&self) -> bool {
        self.0[0] & 0x40 != 0
    }

    /// Every caller names a place within the header.
    fn take<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&self.0[at..at + N]);
        bytes
    }

    fn number(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.take(at))
    }

    fn serial(&self, at: usize) -> Serial {
        Serial(self.number(at))
    }

    fn half(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.take(at))
    }

    fn lun(&self) -> Lun {
        Lun(self.take(8))
    }

    fn tag(&self) -> Tag {
        Tag(self.number(16))
    }

    fn target_tag(&self) -> Tag {
        Tag(self.number(20))
    }

    fn sent(&self) -> Sent {
        Sent { command: self.serial(24), expected_answer: self.serial(28) }
    }

    fn answered(&self) -> Answered {
        Answered { answer: self.serial(24), expected_command: self.serial(28), last_command: self.serial(32) }
    }

    /// Both flags at once are an error of the sender; then the smaller claim, that bytes are missing, holds.
    fn residual(&self) -> Residual {
        match (self.flag(0x02), self.flag(0x04)) {
            (true, _) => Residual::Underflow(self.number(44)),
            (false, true) => Residual::Overflow(self.number(44)),
            (false, false) => Residual::None,
        }
    }

    fn stages(&self) -> Result<(Stage, Option<Stage>), PduError> {
        let stage = |code| match code & 3 {
            0 => Ok(Stage::Security),
            1 => Ok(Stage::Operational),
            3 => Ok(Stage::FullFeature),
            _ => Err(PduError::Stage),
        };
        let flags = self.0[1];
        let next = if self.flag(0x80) { Some(stage(flags)?) } else { None };
        Ok((stage(flags >> 2)?, next))
    }
}

fn nop_out(from: &Bytes<'_>) -> NopOut {
    NopOut {
        immediate: from.immediate(),
        lun: from.lun(),
        tag: from.tag(),
        target_tag: from.target_tag(),
        numbers: from.sent(),
    }
}

fn command(from: &Bytes<'_>) -> Command {
    Command {
        immediate: from.immediate(),
        last: from.flag(0x80),
        read: from.flag(0x40),
        write: from.flag(0x20),
        attribute: from.0[1] & 7,
        lun: from.lun(),
        tag: from.tag(),
        expected_length: from.number(20),
        numbers: from.sent(),
        cdb: from.take(32),
    }
}

fn task_request(from: &Bytes<'_>) -> TaskRequest {
    TaskRequest {
        immediate: from.immediate(),
        function: from.0[1] & 0x7f,
        lun: from.lun(),
        tag: from.tag(),
        referenced: Tag(from.number(20)),
        numbers: from.sent(),
        referenced_command: from.serial(32),
        expected_data: from.serial(36),
    }
}

fn login_request(from: &Bytes<'_>) -> Result<LoginRequest, PduError> {
    let (stage, transit) = from.stages()?;
    Ok(LoginRequest {
        transit,
        goes_on: from.flag(0x40),
        stage,
        version_max: from.0[2],
        version_min: from.0[3],
        isid: Isid(from.take(8)),
        session: from.half(14),
        tag: from.tag(),
        connection: from.half(20),
        numbers: from.sent(),
    })
}

fn text_request(from: &Bytes<'_>) -> TextRequest {
    TextRequest {
        immediate: from.immediate(),
        last: from.flag(0x80),
        goes_on: from.flag(0x40),
        lun: from.lun(),
        tag: from.tag(),
        target_tag: from.target_tag(),
        numbers: from.sent(),
    }
}

fn data_out(from: &Bytes<'_>) -> DataOut {
    DataOut {
        last: from.flag(0x80),
        lun: from.lun(),
        tag: from.tag(),
        target_tag: from.target_tag(),
        expected_answer: from.serial(28),
        number: from.serial(36),
        offset: from.number(40),
    }
}

fn logout_request(from: &Bytes<'_>) -> LogoutRequest {
    LogoutRequest {
        immediate: from.immediate(),
        reason: from.0[1] & 0x7f,
        tag: from.tag(),
        connection: from.half(20),
        numbers: from.sent(),
    }
}

fn snack(from: &Bytes<'_>) -> Snack {
    Snack {
        kind: from.0[1] & 0x0f,
        lun: from.lun(),
        tag: from.tag(),
        target_tag: from.target_tag(),
        expected_answer: from.serial(28),
        first: from.serial(40),
        count: from.number(44),
    }
}

fn nop_in(from: &Bytes<'_>) -> NopIn {
    NopIn { lun: from.lun(), tag: from.tag(), target_tag: from.target_tag(), numbers: from.answered() }
}

fn response(from: &Bytes<'_>) -> Response {
    Response {
        response: from.0[2],
        status: from.0[3],
        tag: from.tag(),
        numbers: from.answered(),
        data_count: from.serial(36),
        residual: from.residual(),
    }
}

fn task_response(from: &Bytes<'_>) -> TaskResponse {
    TaskResponse { response: from.0[2], tag: from.tag(), numbers: from.answered() }
}

fn login_response(from: &Bytes<'_>) -> Result<LoginResponse, PduError> {
    let (stage, transit) = from.stages()?;
    Ok(LoginResponse {
        transit,
        goes_on: from.flag(0x40),
        stage,
        version_max: from.0[2],
        version: from.0[3],
        isid: Isid(from.take(8)),
        session: from.half(14),
        tag: from.tag(),
        numbers: from.answered(),
        status: from.half(36),
    })
}

fn text_response(from: &Bytes<'_>) -> TextResponse {
    TextResponse {
        last: from.flag(0x80),
        goes_on: from.flag(0x40),
        lun: from.lun(),
        tag: from.tag(),
        target_tag: from.target_tag(),
        numbers: from.answered(),
    }
}

fn data_in(from: &Bytes<'_>) -> DataIn {
    DataIn {
        last: from.flag(0x80),
        acknowledge: from.flag(0x40),
        end: from.flag(0x01).then(|| (from.0[3], from.residual())),
        lun: from.lun(),
        tag: from.tag(),
        target_tag: from.target_tag(),
        numbers: from.answered(),
        number: from.serial(36),
        offset: from.number(40),
    }
}

fn logout_response(from: &Bytes<'_>) -> LogoutResponse {
    LogoutResponse {
        response: from.0[2],
        tag: from.tag(),
        numbers: from.answered(),
        wait_s: from.half(40),
        retain_s: from.half(42),
    }
}

fn ready_to_transfer(from: &Bytes<'_>) -> ReadyToTransfer {
    ReadyToTransfer {
        lun: from.lun(),
        tag: from.tag(),
        target_tag: from.target_tag(),
        numbers: from.answered(),
        number: from.serial(36),
        offset: from.number(40),
        length: from.number(44),
    }
}

fn async_message(from: &Bytes<'_>) -> AsyncMessage {
    AsyncMessage {
        lun: from.lun(),
        numbers: from.answered(),
        event: from.0[36],
        vendor: from.0[37],
        parameters: [from.half(38), from.half(40), from.half(42)],
    }
}

fn reject(from: &Bytes<'_>) -> Reject {
    Reject { reason: from.0[2], numbers: from.answered(), number: from.serial(36) }
}
