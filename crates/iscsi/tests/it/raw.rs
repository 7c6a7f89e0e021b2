//! A peer that says what a test wants it to say: PDUs without the rules that go with them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use iscsi::login::{Access, Challenge, InitiatorLogin, Message, Name, Outcome, Parameters, TargetLogin};
use iscsi::pdu::{
    Answered, Command, DIGEST, DataOut, Digests, HEADER, Isid, LoginRequest, LoginResponse, Lun, Pdu, Sent,
    Serial, Shape, Tag, padding, split,
};
use iscsi::text::Keys;

use crate::unit::TARGET;

/// One end of a connection.
pub struct Raw {
    pub stream: TcpStream,
    pub digests: Digests,
    /// What the next PDUs of a target say, and which command an initiator sends next.
    pub answer: Serial,
    pub command: Serial,
}

impl Raw {
    pub fn new(stream: TcpStream) -> Raw {
        // No test waits for this; a peer that is silent for ever fails it.
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.set_nodelay(true).unwrap();
        Raw { stream, digests: Digests::default(), answer: Serial(1), command: Serial(1) }
    }

    pub fn connect(address: SocketAddr) -> Raw {
        Raw::new(TcpStream::connect(address).unwrap())
    }

    /// The next PDU and its data; `None` when the other side has closed.
    pub fn read(&mut self) -> Option<(Pdu, Vec<u8>)> {
        let mut bytes = vec![0; HEADER];
        self.stream.read_exact(&mut bytes).ok()?;
        let shape = Shape::of(bytes.first_chunk().unwrap());
        let sum = |is: bool| if is { DIGEST } else { 0 };
        let data = match shape.data {
            0 => 0,
            length => length + padding(length) + sum(self.digests.data),
        };
        bytes.resize(HEADER + shape.additional + sum(self.digests.header) + data, 0);
        self.stream.read_exact(&mut bytes[HEADER..]).ok()?;
        let whole = split(&bytes, self.digests, 1 << 24).unwrap();
        Some((whole.pdu, whole.data.to_vec()))
    }

    /// Sends bytes; a peer that has closed already is one.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    pub fn send(&mut self, pdu: Pdu, data: &[u8]) {
        let bytes = pdu.whole(data, self.digests);
        self.bytes(&bytes);
    }

    /// Whether the other side closes the connection, whatever it says before.
    pub fn is_closed_by_peer(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    }

    // As a target.

    /// Numbers of an answer; the next one has the next number.
    pub fn count(&mut self) -> Answered {
        let numbers = self.numbers();
        self.answer = self.answer.plus(1);
        numbers
    }

    /// Numbers of what is no answer.
    pub fn numbers(&self) -> Answered {
        let (answer, expected_command) = (self.answer, self.command);
        Answered { answer, expected_command, last_command: expected_command.plus(31) }
    }

    /// Lets an initiator in, as a target should.
    pub fn welcome(&mut self, parameters: &Parameters) -> Option<()> {
        let mut machine = TargetLogin::new(&Access::Open, parameters, Challenge::random([1; 17]));
        loop {
            let (pdu, data) = self.read()?;
            let Pdu::LoginRequest(request) = pdu else { panic!("{pdu:?} in a login") };
            let keys = Keys::parse(&data).unwrap();
            let reply = machine.request(request.stage, request.transit, &keys, &|_| true).unwrap();
            self.command = request.numbers.command;
            let numbers = self.count();
            let opened = machine.opened();
            let response = LoginResponse {
                transit: reply.transit,
                goes_on: false,
                stage: request.stage,
                version_max: 0,
                version: 0,
                isid: request.isid,
                session: u16::from(opened.is_some()),
                tag: request.tag,
                numbers,
                status: 0,
            };
            self.send(Pdu::LoginResponse(response), &reply.keys.bytes());
            if let Some(opened) = opened {
                self.digests = opened.agreed.digests;
                return Some(());
            }
        }
    }

    /// The next command and what came with it.
    pub fn command(&mut self) -> Option<(Command, Vec<u8>)> {
        match self.read()? {
            (Pdu::Command(command), data) => {
                self.command = command.numbers.command.plus(1);
                Some((command, data))
            }
            (Pdu::LogoutRequest(_), _) => None,
            (other, _) => panic!("{other:?}, not a command"),
        }
    }

    // As an initiator.

    pub fn sent(&self) -> Sent {
        Sent { command: self.command, expected_answer: Serial(0) }
    }

    /// A request of a login.
    pub fn login_request(message: &Message) -> LoginRequest {
        LoginRequest {
            transit: message.transit,
            goes_on: false,
            stage: message.stage,
            version_max: 0,
            version_min: 0,
            isid: Isid([0x80, 9, 9, 9, 9, 9]),
            session: 0,
            tag: Tag(0),
            connection: 0,
            numbers: Sent { command: Serial(1), expected_answer: Serial(0) },
        }
    }

    /// Logs in, as an initiator should.
    pub fn log_in(&mut self, parameters: &Parameters, discovery: bool) {
        let (us, target) = (Name::new("iqn.a:hostile").unwrap(), Name::new(TARGET).unwrap());
        let named = (&us, (!discovery).then_some(&target));
        let mut machine =
            InitiatorLogin::new(named, (None, None), &[], parameters, Challenge::random([2; 17]));
        let mut message = machine.begin();
        loop {
            self.send(Pdu::LoginRequest(Raw::login_request(&message)), &message.keys.bytes());
            let Some((Pdu::LoginResponse(response), data)) = self.read() else { panic!("no login response") };
            assert_eq!(response.status, 0);
            let keys = Keys::parse(&data).unwrap();
            match machine.answered(response.stage, response.transit, &keys).unwrap() {
                Outcome::Say(next) => message = next,
                Outcome::Done(agreed) => {
                    self.digests = agreed.digests;
                    return;
                }
            }
        }
    }

    /// A command, with the next number.
    pub fn next_command(&mut self, cdb: &[u8], tag: u32) -> Command {
        let mut bytes = [0; 16];
        bytes[..cdb.len()].copy_from_slice(cdb);
        let command = Command {
            immediate: false,
            last: true,
            read: false,
            write: false,
            attribute: 1,
            lun: Lun::default(),
            tag: Tag(tag),
            expected_length: 0,
            numbers: self.sent(),
            cdb: bytes,
        };
        self.command = self.command.plus(1);
        command
    }

    /// Data of a command.
    pub fn data_out(tag: u32, target_tag: Tag, number: u32, offset: u32, last: bool) -> DataOut {
        DataOut {
            last,
            lun: Lun::default(),
            tag: Tag(tag),
            target_tag,
            expected_answer: Serial(0),
            number: Serial(number),
            offset,
        }
    }
}

/// A target that does with each connection what `script` says; each is told how many came before.
pub fn target(script: impl Fn(&mut Raw, usize) + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let script = Arc::new(script);
    // The thread ends with the program of the tests.
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (mut raw, script) = (Raw::new(stream.unwrap()), Arc::clone(&script));
            std::thread::spawn(move || script(&mut raw, number));
        }
    });
    address
}
