//! The same over the system's own network: names, addresses and sockets.

use base::ByteCount;
use bytes::Bytes;
use http::HeaderMap;
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tpc::{Client, Error, How, Settings};

use crate::world::{PLAIN, drain, file};

#[tokio::test]
async fn files_go_over_sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = listener.local_addr().unwrap();
    let content = file(3 << 20);
    let (sent, taken) = (content.clone(), tokio::sync::mpsc::unbounded_channel());
    let (took, mut taken) = taken;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            if head.starts_with(b"PUT") {
                stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
                let mut body = vec![0; sent.len()];
                stream.read_exact(&mut body).await.unwrap();
                took.send(body).unwrap();
                stream.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n").await.unwrap();
            } else {
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", sent.len());
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.write_all(&sent).await.unwrap();
            }
        }
    });
    let mut settings = Settings::default();
    settings.addresses.http = true;
    settings.addresses.ports = vec!["1-65535".parse().unwrap()];
    let client = Client::new(settings.clone()).unwrap();
    for host in ["127.0.0.1", "localhost"] {
        let url = format!("http://{host}:{}/f", at.port());
        let refused = client.pull(&url, HeaderMap::new(), PLAIN).await.err();
        assert_eq!(refused, Some(Error::Refused), "{host} is this machine");
    }
    settings.addresses.allow = vec!["127.0.0.0/8".parse().unwrap(), "::1".parse().unwrap()];
    client.reload(settings).unwrap();
    let url = format!("http://127.0.0.1:{}/f", at.port());
    let mut pull = client.pull(&url, HeaderMap::new(), PLAIN).await.unwrap();
    assert_eq!(pull.length, Some(ByteCount(content.len() as u64)));
    assert!(drain(&mut pull).await.unwrap() == content);
    let body = Full::new(Bytes::from(content.clone()));
    let push = client
        .push(&url, HeaderMap::new(), ByteCount(content.len() as u64), How::Replace, body)
        .await
        .unwrap();
    assert_eq!(push.status, 201);
    assert!(taken.recv().await.unwrap() == content);
}
