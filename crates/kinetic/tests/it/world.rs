//! A client and a device with a drive in memory, and the bytes between them.

use base::{Duration, Timestamp};
use bytes::{Bytes, BytesMut};
use kinetic::client::{BatchOutcome, BatchTicket, Client, ClientSettings, EndReason, Event, Options, Ticket};
use kinetic::model::{Drive, Peers};
use kinetic::server::{Action, Connection, Device, DeviceSettings, DeviceState, Outcome, Work};
use kinetic::{
    Algorithm, Change, Configuration, ConnectionId, Delete, Frame, FrameHeader, FrameLimits, FrameReader,
    HEADER_BYTES, Identity, KeyRange, Limits, Metadata, OutFrame, PinOperation, Progress, Put, Request,
    Response, Secret, StatusCode, Synchronization, crc32c_tag,
};

pub const KEY: &[u8] = b"asdfasdf";

/// How both ends are made.
pub struct Making {
    pub limits: Limits,
    pub state: DeviceState,
    pub is_tls: bool,
    pub client: ClientSettings,
}

impl Default for Making {
    fn default() -> Self {
        Making {
            limits: Limits::stated(),
            state: DeviceState::factory(),
            is_tls: false,
            client: ClientSettings::new(Identity(1), KEY),
        }
    }
}

/// Both ends, and what is between them.
pub struct World {
    pub client: Client,
    pub device: Device,
    pub connection: Connection,
    pub drive: Drive,
    pub peers: Peers,
    pub now: Timestamp,
    /// Work that is not done at once while this is set.
    pub is_slow: bool,
    pub works: Vec<Work>,
    /// Outcomes of the next works, instead of those of the drive.
    pub outcomes: Vec<Outcome>,
    /// Bytes that still pass, in both directions together.
    pub budget: usize,
    /// Bytes that passed.
    pub passed: usize,
    pub events: Vec<Event>,
    to_device: Direction,
    to_client: Direction,
}

struct Direction {
    on_the_way: Vec<u8>,
    buffer: BytesMut,
    reader: FrameReader,
}

impl Direction {
    fn new(limits: FrameLimits) -> Self {
        Direction { on_the_way: Vec::new(), buffer: BytesMut::new(), reader: FrameReader::new(limits) }
    }

    /// Lets bytes pass, and gives the frames that are whole.
    fn pass(&mut self, budget: &mut usize, passed: &mut usize) -> Vec<Frame> {
        let count = self.on_the_way.len().min(*budget);
        (*budget, *passed) = (*budget - count, *passed + count);
        self.buffer.extend_from_slice(&self.on_the_way[..count]);
        self.on_the_way.drain(..count);
        let mut frames = Vec::new();
        while let Progress::Frame(frame) = self.reader.next(&mut self.buffer).expect("frames") {
            frames.push(frame);
        }
        frames
    }
}

pub fn settings(limits: Limits) -> DeviceSettings {
    let configuration = Configuration {
        vendor: "Kist".to_owned(),
        world_wide_name: Bytes::from_static(b"wwn"),
        serial_number: Bytes::from_static(b"serial"),
        protocol_version: kinetic::PROTOCOL_VERSION.to_owned(),
        port: Some(kinetic::PORT),
        ..Configuration::default()
    };
    let connection_first = ConnectionId(1000);
    DeviceSettings { configuration, limits, is_security_over_tls: true, connection_first }
}

impl World {
    pub fn new() -> Self {
        World::make(Making::default())
    }

    pub fn tls() -> Self {
        let mut client = ClientSettings::new(Identity(1), KEY);
        client.is_tls = true;
        World::make(Making { is_tls: true, client, ..Making::default() })
    }

    pub fn limited(limits: Limits) -> Self {
        World::make(Making { limits, ..Making::default() })
    }

    pub fn make(making: Making) -> Self {
        let mut world = World::connect(making, None);
        assert!(matches!(world.events.as_slice(), [Event::Greeted(_)]), "{:?}", world.events);
        world.events.clear();
        world
    }

    /// Both ends; the device and the drive may have had a life before.
    pub fn connect(making: Making, before: Option<(Device, Drive)>) -> Self {
        World::connect_within(making, before, usize::MAX)
    }

    /// The same over a connection that passes so many bytes.
    pub fn connect_within(making: Making, before: Option<(Device, Drive)>, budget: usize) -> Self {
        let now = Timestamp(1_000_000_000_000);
        let new = || (Device::new(settings(making.limits), making.state.clone()), Drive::default());
        let (mut device, drive) = before.unwrap_or_else(new);
        let mut client = making.client;
        client.is_tls = making.is_tls;
        let (connection, greeting) = device.accept(making.is_tls).expect("room for a connection");
        let mut world = World {
            client: Client::new(client, now),
            to_device: Direction::new(device.frame_limits()),
            device,
            connection,
            drive,
            peers: Peers::new(),
            now,
            is_slow: false,
            works: Vec::new(),
            outcomes: Vec::new(),
            budget,
            passed: 0,
            events: Vec::new(),
            to_client: Direction::new(FrameLimits::default()),
        };
        world.to_client.on_the_way.extend(greeting.to_vec());
        world.settle();
        world
    }

    /// Everything that can happen without time happens.
    pub fn settle(&mut self) {
        loop {
            while let Some(frame) = self.client.transmit(self.now) {
                self.to_device.on_the_way.extend(frame.to_vec());
            }
            let mut is_quiet = true;
            for frame in self.to_device.pass(&mut self.budget, &mut self.passed) {
                is_quiet = false;
                self.deliver(frame);
            }
            if !self.is_slow {
                is_quiet &= self.works.is_empty();
                self.work();
            }
            for frame in self.to_client.pass(&mut self.budget, &mut self.passed) {
                is_quiet = false;
                self.client.received(self.now, frame);
            }
            while let Some(event) = self.client.event() {
                self.events.push(event);
            }
            if is_quiet {
                return;
            }
        }
    }

    /// A frame reaches the device.
    pub fn deliver(&mut self, frame: Frame) {
        let mut actions = Vec::new();
        self.connection.received(&mut self.device, self.now, frame, &mut actions);
        self.act(actions);
    }

    /// All work that was handed out is done.
    pub fn work(&mut self) {
        while !self.works.is_empty() {
            self.work_at(0);
        }
    }

    /// One piece of it is.
    pub fn work_at(&mut self, place: usize) {
        let work = self.works.remove(place);
        let outcome = match self.outcomes.is_empty() {
            true => self.drive.execute(work.operation, &mut self.peers),
            false => self.outcomes.remove(0),
        };
        let mut actions = Vec::new();
        self.connection.done(&mut self.device, self.now, work.job, outcome, &mut actions);
        self.act(actions);
    }

    fn act(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Send(frame) => self.to_client.on_the_way.extend(frame.to_vec()),
                Action::Execute(work) => self.works.push(work),
                Action::Close => assert!(self.connection.is_closed()),
            }
        }
    }

    /// Time passes.
    pub fn pass(&mut self, span: Duration) {
        self.now = self.now.plus(span);
        self.client.tick(self.now);
        self.settle();
    }

    /// The connection breaks for both. What the device had taken is done.
    pub fn cut(mut self) -> (Vec<Event>, (Device, Drive)) {
        self.client.lost();
        while let Some(event) = self.client.event() {
            self.events.push(event);
        }
        self.connection.closed(&mut self.device);
        self.work();
        (self.events, (self.device, self.drive))
    }

    pub fn submit(&mut self, request: Request) -> Ticket {
        self.client.submit(self.now, request, Options::default()).expect("a request that is taken")
    }

    /// A request and its answer.
    pub fn call(&mut self, request: Request) -> Response {
        let ticket = self.submit(request);
        self.settle();
        self.answer(ticket)
    }

    /// How a request ends.
    pub fn status(&mut self, request: Request) -> StatusCode {
        self.call(request).status.code
    }

    pub fn pin(&mut self, operation: PinOperation, pin: &'static str) -> StatusCode {
        let pin = Secret::new(pin);
        let ticket = self.client.submit_pin(self.now, operation, pin, Options::default()).expect("TLS");
        self.settle();
        self.answer(ticket).status.code
    }

    pub fn answer(&mut self, wanted: Ticket) -> Response {
        let is_it = |event: &Event| matches!(event, Event::Answered { ticket, .. } if *ticket == wanted);
        let place = self.events.iter().position(is_it);
        let place = place.unwrap_or_else(|| panic!("no answer among {:?}", self.events));
        let Event::Answered { response, .. } = self.events.remove(place) else { unreachable!() };
        response
    }

    pub fn begin(&mut self) -> BatchTicket {
        self.client.begin_batch(self.now, Options::default()).expect("room for a batch")
    }

    pub fn batch_outcome(&mut self, wanted: BatchTicket) -> Option<BatchOutcome> {
        self.events.iter().rev().find_map(|event| match event {
            Event::Batch { batch, outcome } if *batch == wanted => Some(outcome.clone()),
            _ => None,
        })
    }

    /// Why the connection ended.
    pub fn ended(&self) -> Option<&EndReason> {
        self.events.iter().find_map(|event| match event {
            Event::Ended(reason) => Some(reason),
            _ => None,
        })
    }

    /// What is on the way to the device gets lost; what comes after passes.
    pub fn lose_requests(&mut self) {
        self.to_device.on_the_way.clear();
        self.budget = usize::MAX;
    }

    /// Bytes for the client that no device of ours sent.
    pub fn inject(&mut self, frame: &OutFrame) {
        self.to_client.on_the_way.extend(frame.to_vec());
        self.settle();
    }
}

pub fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// A frame as it arrives.
pub fn arrived(frame: &OutFrame) -> Frame {
    let bytes = frame.to_vec();
    let header = FrameHeader::decode(*bytes.first_chunk().unwrap()).unwrap();
    let (message, value) = bytes[HEADER_BYTES..].split_at(header.message as usize);
    Frame::new(Bytes::copy_from_slice(message), Bytes::copy_from_slice(value))
}

pub fn a_put(key: &str, from: &str, to: &str, value: &str) -> Put {
    let value = bytes(value);
    let (tag, algorithm) = (crc32c_tag(&value), Some(Algorithm::CRC32C));
    Put {
        key: bytes(key),
        metadata: Metadata { version: bytes(to), tag, algorithm },
        db_version: bytes(from),
        force: false,
        synchronization: Synchronization::WriteThrough,
        value,
    }
}

pub fn put(key: &str, from: &str, to: &str, value: &str) -> Request {
    Request::Change(Change::Put(a_put(key, from, to, value)))
}

pub fn a_delete(key: &str, from: &str) -> Delete {
    let synchronization = Synchronization::WriteThrough;
    Delete { key: bytes(key), db_version: bytes(from), force: false, synchronization }
}

pub fn delete(key: &str, from: &str) -> Request {
    Request::Change(Change::Delete(a_delete(key, from)))
}

pub fn get(key: &str) -> Request {
    Request::Get { which: kinetic::Which::Exact, key: bytes(key), metadata_only: false }
}

pub fn range(start: &str, end: &str, max_returned: u32) -> KeyRange {
    KeyRange {
        start: bytes(start),
        start_inclusive: true,
        end: bytes(end),
        end_inclusive: true,
        max_returned,
        reverse: false,
    }
}
