//! What is reached, and what is told of what is not.

use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;
use tpc::{AddressRules, Error};

use crate::world::{PLAIN, World, fetch_from};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test(start_paused = true)]
async fn what_is_checked_is_what_is_connected_to() {
    // The first look gives a public address, every later one the inner network's.
    let world = World::new();
    world.name("rebinds", &["8.1.1.1"]).name("rebinds", &["10.0.0.1"]);
    world.says("8.1.1.1:80", OK).says("10.0.0.1:80", "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret");
    assert_eq!(fetch_from(&world, "http://rebinds/").await.unwrap(), b"ok");
    assert_eq!((world.dialled(), *world.resolved.lock().unwrap()), (vec!["8.1.1.1:80".to_owned()], 1));
    assert_eq!(fetch_from(&world, "http://rebinds/").await, Err(Error::Refused));
    assert_eq!(world.dialled().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_bad_address_is_enough() {
    let world = World::new();
    world.name("mixed", &["8.1.1.1", "127.0.0.1"]).says("8.1.1.1:80", OK).says("127.0.0.1:80", OK);
    assert_eq!(fetch_from(&world, "http://mixed/").await, Err(Error::Refused));
    assert!(world.dialled().is_empty());
    let many: Vec<String> = (0..17).map(|n| format!("8.1.1.{n}")).collect();
    world.name("many", &many.iter().map(String::as_str).collect::<Vec<_>>()).name("none", &[]);
    assert_eq!(fetch_from(&world, "http://many/").await, Err(Error::NoAnswer));
    assert_eq!(fetch_from(&world, "http://none/").await, Err(Error::NoAnswer));
    assert!(world.dialled().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dead_address_is_passed_over() {
    let world = World::new();
    world.name("two", &["8.9.9.9", "8.1.1.1"]).says("8.1.1.1:80", OK);
    assert_eq!(fetch_from(&world, "http://two/").await.unwrap(), b"ok");
    assert_eq!(world.dialled(), ["8.9.9.9:80", "8.1.1.1:80"]);
}

#[tokio::test(start_paused = true)]
async fn exceptions_hold_by_network_and_by_name() {
    let world = World::new();
    world.name("se.example.org", &["10.0.0.1"]).name("other.org", &["10.0.0.2"]);
    world.says("10.0.0.1:80", OK).says("10.0.0.2:80", OK).says("127.0.0.1:80", OK);
    let get = async |url: &str, allow: &[&str]| {
        let client = world.client(|settings| {
            settings.addresses.allow = allow.iter().map(|text| text.parse().unwrap()).collect();
        });
        client.pull(url, HeaderMap::new(), PLAIN).await.err()
    };
    assert_eq!(get("http://se.example.org/", &[]).await, Some(Error::Refused));
    assert_eq!(get("http://se.example.org/", &["*.example.org"]).await, None);
    assert_eq!(get("http://SE.example.org./", &["*.example.org"]).await, None);
    assert_eq!(get("http://other.org/", &["*.example.org"]).await, Some(Error::Refused));
    assert_eq!(
        get("http://10.0.0.1/", &["*.example.org"]).await,
        Some(Error::Refused),
        "by number it has no name"
    );
    assert_eq!(get("http://other.org/", &["10.0.0.0/24"]).await, None);
    assert_eq!(get("http://127.0.0.1/", &["127.0.0.1"]).await, None);
}

#[tokio::test(start_paused = true)]
async fn ports_cannot_be_told_apart_from_outside() {
    let world = World::new();
    world.says("8.1.1.1:8000", "SSH-2.0\r\n").says("8.1.1.1:8001", "").serve(
        "8.1.1.1:8002",
        |mut visit| async move {
            visit.hang().await;
        },
    );
    world.name("inner", &["10.0.0.1"]);
    let mut texts = Vec::new();
    for url in
        ["http://8.1.1.1:8000/", "http://8.1.1.1:8001/", "http://8.1.1.1:8002/", "http://8.1.1.1:8003/"]
    {
        texts.push(fetch_from(&world, url).await.unwrap_err().to_string());
    }
    texts.push(fetch_from(&world, "http://no-such-name/").await.unwrap_err().to_string());
    // TLS where there is none.
    texts.push(fetch_from(&world, "https://8.1.1.1:8000/").await.unwrap_err().to_string());
    assert!(texts.iter().all(|text| text == "the other server did not answer"), "{texts:?}");
    let mut refusals = Vec::new();
    for url in
        ["http://inner/", "http://inner:22/", "http://10.0.0.1:9999/", "http://8.1.1.1:22/", "http://[::]/"]
    {
        let began = Instant::now();
        refusals.push(fetch_from(&world, url).await.unwrap_err().to_string());
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
    let refused = "the other server is refused by this site's rules for third-party copies";
    assert!(refusals.iter().all(|text| text == refused), "{refusals:?}");
}

#[tokio::test(start_paused = true)]
async fn clear_text_is_an_exception() {
    let world = World::new();
    world.says("8.1.1.1:80", OK);
    let client = world.client(|settings| settings.addresses = AddressRules::default());
    assert_eq!(client.pull("http://8.1.1.1/", HeaderMap::new(), PLAIN).await.err(), Some(Error::Refused));
    assert!(world.dialled().is_empty());
    let mut settings = tpc::Settings::default();
    settings.addresses.http = true;
    client.reload(settings).unwrap();
    assert!(client.pull("http://8.1.1.1/", HeaderMap::new(), PLAIN).await.is_ok());
}
