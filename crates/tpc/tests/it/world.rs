//! A network in memory: names, addresses, and servers that do exactly what a test says.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};

use base::ByteCount;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tpc::{AddressRules, Client, Error, Net, Pull, Settings, Want, Wire};

/// Bytes that a connection holds under way.
const PIPE_BYTES: usize = 64 << 10;

pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type Serve = Arc<dyn Fn(Visit) -> Boxed<'static, ()> + Send + Sync>;

#[derive(Default)]
pub struct World {
    me: Weak<World>,
    names: Mutex<BTreeMap<String, Vec<Vec<IpAddr>>>>,
    servers: Mutex<BTreeMap<SocketAddr, Serve>>,
    /// Heads of all requests, in the order in which they came.
    pub heads: Mutex<Vec<String>>,
    pub dialled: Mutex<Vec<SocketAddr>>,
    pub resolved: Mutex<usize>,
}

/// One connection, as its server has it.
pub struct Visit {
    pub stream: DuplexStream,
    world: Arc<World>,
}

impl Visit {
    /// The head of the next request; what is behind it stays unread.
    pub async fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = self.stream.read_u8().await else { break };
            head.push(byte);
        }
        let head = String::from_utf8(head).unwrap();
        self.world.heads.lock().unwrap().push(head.clone());
        head
    }

    pub async fn say(&mut self, text: impl AsRef<[u8]>) {
        // The other side may be gone, which is what some tests are about.
        let _ = self.stream.write_all(text.as_ref()).await;
    }

    /// Never ends.
    pub async fn hang(&mut self) {
        std::future::pending::<()>().await;
    }
}

impl World {
    pub fn new() -> Arc<Self> {
        Arc::new_cyclic(|me| World { me: me.clone(), ..World::default() })
    }

    /// A name and its addresses; of several calls each look gets the next, the last one for good.
    pub fn name(self: &Arc<Self>, name: &str, addresses: &[&str]) -> &Arc<Self> {
        let addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        self.names.lock().unwrap().entry(name.to_owned()).or_default().push(addresses);
        self
    }

    /// A server at an address.
    pub fn serve<F>(
        self: &Arc<Self>,
        at: &str,
        serve: impl Fn(Visit) -> F + Send + Sync + 'static,
    ) -> &Arc<Self>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let serve: Serve = Arc::new(move |visit| Box::pin(serve(visit)));
        self.servers.lock().unwrap().insert(at.parse().unwrap(), serve);
        self
    }

    /// A server that answers each request of a connection with the same text, and closes.
    pub fn says(self: &Arc<Self>, at: &str, text: impl Into<Vec<u8>>) -> &Arc<Self> {
        let text: Vec<u8> = text.into();
        self.serve(at, move |mut visit| {
            let text = text.clone();
            async move {
                let head = visit.head().await;
                let text = if head.starts_with("HEAD") { head_of(&text) } else { text };
                visit.say(text).await;
            }
        })
    }

    pub fn client(self: &Arc<Self>, change: impl FnOnce(&mut Settings)) -> Client {
        let addresses = AddressRules { http: true, ..AddressRules::default() };
        let mut settings = Settings { addresses, ..Settings::default() };
        change(&mut settings);
        Client::with_net(settings, self.clone()).unwrap()
    }

    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    pub fn dialled(&self) -> Vec<String> {
        self.dialled.lock().unwrap().iter().map(ToString::to_string).collect()
    }
}

/// The answer without its body.
fn head_of(text: &[u8]) -> Vec<u8> {
    let end = text.windows(4).position(|window| window == b"\r\n\r\n").map_or(text.len(), |at| at + 4);
    text[..end].to_vec()
}

impl Net for World {
    fn resolve<'a>(&'a self, host: &'a str) -> Boxed<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            *self.resolved.lock().unwrap() += 1;
            let mut names = self.names.lock().unwrap();
            let known = names.get_mut(host).ok_or_else(|| io::Error::other("no such name"))?;
            Ok(if known.len() > 1 { known.remove(0) } else { known[0].clone() })
        })
    }

    fn connect(&self, to: SocketAddr) -> Boxed<'_, io::Result<Box<dyn Wire>>> {
        Box::pin(async move {
            self.dialled.lock().unwrap().push(to);
            let serve = self.servers.lock().unwrap().get(&to).cloned();
            let serve = serve.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionRefused))?;
            let (ours, theirs) = duplex(PIPE_BYTES);
            tokio::spawn(serve(Visit { stream: theirs, world: self.me.upgrade().unwrap() }));
            Ok(Box::new(ours) as Box<dyn Wire>)
        })
    }
}

pub const SERVER: &str = "8.1.1.1:80";
pub const URL: &str = "http://8.1.1.1/store/f?x=1";

/// One connection, and no checksum but with the file.
pub const PLAIN: Want = Want { streams: 1, checksums: false };

pub fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
    let line = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    };
    lines.iter().map(line).collect()
}

/// All bytes of a file.
pub async fn drain(pull: &mut Pull) -> Result<Vec<u8>, Error> {
    let mut all = Vec::new();
    while let Some(bytes) = pull.body.next().await? {
        all.extend_from_slice(&bytes);
    }
    assert_eq!(pull.body.came(), ByteCount(all.len() as u64));
    Ok(all)
}

/// All bytes that come from one server's answer.
pub async fn fetch(answer: impl Into<Vec<u8>>) -> Result<Vec<u8>, Error> {
    let world = World::new();
    world.says(SERVER, answer);
    fetch_from(&world, URL).await
}

pub async fn fetch_from(world: &Arc<World>, url: &str) -> Result<Vec<u8>, Error> {
    let client = world.client(|_| {});
    let mut pull = client.pull(url, HeaderMap::new(), PLAIN).await?;
    drain(&mut pull).await
}

/// A file with bytes that tell where they stand.
pub fn file(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 16) as u8).collect()
}

/// The first and the last byte that a request asks for.
pub fn range_of(head: &str) -> Option<(usize, usize)> {
    let line = head.lines().find_map(|line| line.strip_prefix("Range: bytes="))?;
    let (first, last) = line.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}
