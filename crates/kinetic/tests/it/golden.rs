//! Exchanges with Seagate's simulator 0.8.0.4, recorded: the client sends the same bytes to this day, and
//! understands what it was told then.
//!
//! `golden/simulator.txt` has a line for each frame, `>` to the simulator and `<` from it, and a heading for
//! each connection. The requests are those of this file, in its order; the assertions held while it was
//! recorded.

use bytes::Bytes;
use kinetic::client::{BatchOutcome, Client, ClientSettings, EndReason, Event, Options};
use kinetic::{
    Answer, Change, ClusterVersion, Frame, FrameHeader, HEADER_BYTES, Identity, LogType, Peer, Push,
    PushOperation, Request, Response, StatusCode,
};

use crate::world::{KEY, a_put, bytes, delete, get, put, range};

const RECORDED: &str = include_str!("golden/simulator.txt");

/// The frames of one connection, as they were recorded under a heading.
fn recorded(heading: &str) -> Vec<(bool, Vec<u8>)> {
    let lines = RECORDED.lines().skip_while(|line| *line != format!("# {heading}")).skip(1);
    lines
        .take_while(|line| !line.starts_with('#'))
        .map(|line| {
            let (direction, digits) = line.split_once(' ').expect("a direction and digits");
            let byte = |place: usize| u8::from_str_radix(&digits[place..place + 2], 16).expect("digits");
            (direction == ">", (0..digits.len()).step_by(2).map(byte).collect())
        })
        .collect()
}

/// A client that speaks with the recording.
struct Talk {
    client: Client,
    frames: std::collections::VecDeque<(bool, Vec<u8>)>,
    events: Vec<Event>,
}

const NOW: base::Timestamp = base::Timestamp(0);

impl Talk {
    fn new(heading: &str, identity: i64, key: &[u8]) -> Self {
        let client = Client::new(ClientSettings::new(Identity(identity), key), NOW);
        let mut talk = Talk { client, frames: recorded(heading).into(), events: Vec::new() };
        talk.go();
        assert!(matches!(talk.events.remove(0), Event::Greeted(_)));
        talk
    }

    /// What is sent has to be what was sent; then comes what came.
    fn go(&mut self) {
        loop {
            while let Some(frame) = self.client.transmit(NOW) {
                let (is_ours, bytes) = self.frames.pop_front().expect("more was recorded");
                assert!(is_ours, "the simulator had spoken here");
                assert_eq!(frame.to_vec(), bytes, "what is sent has changed");
            }
            if self.frames.front().is_none_or(|(is_ours, _)| *is_ours) {
                break;
            }
            let (_, bytes) = self.frames.pop_front().expect("a frame");
            let header = FrameHeader::decode(*bytes.first_chunk().unwrap()).unwrap();
            let (message, value) = bytes[HEADER_BYTES..].split_at(header.message as usize);
            assert_eq!(value.len(), header.value as usize);
            let (message, value) = (Bytes::copy_from_slice(message), Bytes::copy_from_slice(value));
            self.client.received(NOW, Frame::new(message, value));
        }
        self.events.extend(std::iter::from_fn(|| self.client.event()));
    }

    fn call(&mut self, request: Request) -> Response {
        self.client.submit(NOW, request, Options::default()).unwrap();
        self.go();
        let Event::Answered { response, .. } = self.events.remove(0) else { panic!("{:?}", self.events) };
        response
    }

    fn code(&mut self, request: Request) -> StatusCode {
        self.call(request).status.code
    }

    fn batch(&mut self, changes: Vec<Change>, is_commit: bool) -> BatchOutcome {
        let batch = self.client.begin_batch(NOW, Options::default()).unwrap();
        for change in changes {
            self.client.add(batch, change).unwrap();
        }
        match is_commit {
            true => self.client.commit(NOW, batch).unwrap(),
            false => self.client.abort(NOW, batch).unwrap(),
        }
        self.go();
        let opened = Event::Batch { batch, outcome: BatchOutcome::Open };
        assert_eq!(self.events.remove(0), opened);
        let Event::Batch { outcome, .. } = self.events.remove(0) else { panic!("{:?}", self.events) };
        outcome
    }
}

#[test]
fn with_the_right_key() {
    let mut talk = Talk::new("identity 1", 1, KEY);
    let greeting = talk.client.greeting().unwrap();
    let configuration = &greeting.configuration;
    assert_eq!((configuration.vendor.as_str(), configuration.model.as_str()), ("Seagate", "Simulator"));
    assert_eq!((configuration.protocol_version.as_str(), configuration.power_level), ("3.0.6", None));
    assert_eq!(greeting.cluster_version, Some(ClusterVersion(0)));
    let limits = greeting.limits;
    assert_eq!(
        (limits.key_bytes, limits.version_bytes, limits.range_keys),
        (Some(4096), Some(2048), Some(200))
    );
    assert_eq!(
        (limits.tag_bytes, limits.reads, limits.writes, limits.message_bytes),
        (None, None, None, None)
    );
    assert_eq!((limits.batch_operations, limits.batches, limits.batch_bytes), (Some(15), Some(5), None));

    use StatusCode::{
        InvalidBatch, NotFound, RemoteConnectionError, Success, VersionFailure, VersionMismatch,
    };
    assert_eq!(talk.code(Request::Noop), Success);
    assert_eq!(talk.code(put("golden-a", "", "1", "value of a")), Success);
    assert_eq!(talk.code(put("golden-a", "", "2", "other")), VersionMismatch);
    assert_eq!(talk.code(put("golden-b", "", "1", "value of b")), Success);
    let Answer::Entry(entry) = talk.call(get("golden-a")).answer else { panic!("an entry") };
    assert_eq!((&entry.metadata.version[..], &entry.value[..]), (&b"1"[..], &b"value of a"[..]));
    assert_eq!(kinetic::check_tag(&entry.metadata, &entry.value), kinetic::TagCheck::Agrees);
    let nothing = talk.call(get("golden-z"));
    assert_eq!((nothing.status.code, nothing.answer), (NotFound, Answer::Nothing));
    let version = talk.call(Request::GetVersion { key: bytes("golden-b") });
    assert_eq!(version.answer, Answer::Version(bytes("1")));
    let keys = talk.call(Request::GetKeyRange(range("golden-a", "golden-z", 200)));
    assert_eq!(keys.answer, Answer::Keys(vec![bytes("golden-a"), bytes("golden-b")]));
    let keys = talk.call(Request::GetKeyRange(range("golden-z", "golden-a", 200)));
    assert_eq!((keys.status.code, keys.answer), (Success, Answer::Keys(Vec::new())), "reversed bounds");
    assert_eq!(talk.code(Request::FlushAllData), Success);
    assert_eq!(talk.code(Request::MediaScan(range("golden-a", "golden-z", 200))), Success);

    let change = |from, to| Change::Put(a_put("golden-a", from, to, "of a batch"));
    assert_eq!(talk.batch(vec![change("1", "2")], true), BatchOutcome::Committed(vec![0]));
    let other = Change::Put(a_put("golden-b", "1", "2", "of a batch"));
    let BatchOutcome::Failed { operation, status } = talk.batch(vec![other, change("1", "3")], true) else {
        panic!()
    };
    assert_eq!((operation, status.code), (Some(1), InvalidBatch), "it does not say the cause as a code");
    assert_eq!(talk.batch(vec![change("2", "3")], false), BatchOutcome::Aborted);

    let Answer::Log { log, .. } =
        talk.call(Request::GetLog { types: vec![LogType::Limits], device: None }).answer
    else {
        panic!("a log")
    };
    assert_eq!(log.limits, Some(limits));
    let Answer::Log { log, .. } = talk
        .call(Request::GetLog { types: vec![LogType::Capacities, LogType::Temperatures], device: None })
        .answer
    else {
        panic!("a log")
    };
    assert!(log.capacity.is_some_and(|capacity| capacity.nominal_bytes > 0));
    assert_eq!(log.temperatures[0].name, "HDA");

    let push = |key| {
        let (key, new_key, version) = (bytes(key), Some(bytes("golden-pushed")), Bytes::new());
        let operation = PushOperation { key, new_key, version, force: true, status: None, then: None };
        let peer = |port| Peer { host: "127.0.0.1".to_owned(), port, is_tls: false };
        move |port| Request::Push(Push { peer: peer(port), operations: vec![operation.clone()] })
    };
    let pushed = talk.call(push("golden-a")(8125));
    let Answer::Push(outcomes) = &pushed.answer else { panic!("a push") };
    assert!(pushed.status.is_success() && outcomes[0].status.is_success());
    let pushed = talk.call(push("golden-z")(8125));
    let Answer::Push(outcomes) = &pushed.answer else { panic!("a push") };
    assert!(pushed.status.is_success(), "it should have been NESTED_OPERATION_ERRORS");
    assert_eq!(outcomes[0].status.code, NotFound);
    assert_eq!(talk.code(push("golden-a")(1)), RemoteConnectionError);

    assert_eq!(talk.code(delete("golden-a", "1")), VersionMismatch);
    assert_eq!(talk.code(delete("golden-a", "2")), Success);
    assert_eq!(talk.code(delete("golden-b", "1")), Success);
    assert_eq!(talk.code(delete("golden-b", "1")), NotFound);
    assert_eq!(talk.code(Request::SetClusterVersion(ClusterVersion(7))), Success);
    let fenced = talk.call(Request::Noop);
    assert_eq!((fenced.status.code, fenced.cluster_version), (VersionFailure, Some(ClusterVersion(7))));
    assert!(talk.frames.is_empty() && talk.events.is_empty());
}

#[test]
fn with_other_keys() {
    for (heading, identity) in [("a wrong key", 1), ("an unknown identity", 4711)] {
        let mut talk = Talk::new(heading, identity, b"wrong");
        talk.client.submit(NOW, Request::Noop, Options::default()).unwrap();
        talk.go();
        let [Event::Unanswered { .. }, Event::Ended(EndReason::KeyRefused(status))] = talk.events.as_slice()
        else {
            panic!("{heading}: {:?}", talk.events)
        };
        assert_eq!(status.code, StatusCode::HmacFailure, "{heading}");
    }
}
