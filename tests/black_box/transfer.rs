//! Trees in and out.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use crate::harness::{Instance, bytes, make_tree, write};

/// Everything about a tree that has to come back: bytes or target, mode, modification time.
fn picture(root: &Path) -> BTreeMap<String, (Vec<u8>, u32, SystemTime)> {
    let mut picture = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = if metadata.is_symlink() {
                fs::read_link(&path).unwrap().to_str().unwrap().as_bytes().to_vec()
            } else if metadata.is_dir() {
                waiting.push(path.clone());
                b"directory".to_vec()
            } else {
                fs::read(&path).unwrap()
            };
            let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            picture.insert(name, (content, metadata.permissions().mode(), metadata.modified().unwrap()));
        }
    }
    picture
}

#[test]
fn a_tree_goes_in_and_comes_out_the_same() {
    let instance = Instance::serving();
    let (tree, copy) = (instance.beside("tree"), instance.beside("copy"));
    make_tree(&tree);
    fs::set_permissions(tree.join("one"), fs::Permissions::from_mode(0o640)).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::new(1_234_567_890, 123_456_789);
    fs::File::options().write(true).open(tree.join("one")).unwrap().set_modified(old).unwrap();
    let (local, copied) = (tree.to_str().unwrap(), copy.to_str().unwrap());

    instance.kist(&["put", local, "/t"]).exits(0).says(&["put 48 files"]);
    // The same command again finds everything there.
    instance.kist(&["put", local, "/t"]).exits(0).says(&["put 0 files", "48 files there already"]);
    instance.kist(&["compare", local, "/t"]).exits(0);
    instance.kist(&["get", "/t", copied]).exits(0).says(&["got 48 files"]);
    assert_eq!(picture(&copy), picture(&tree));
    instance.kist(&["get", "/t", copied]).exits(0).says(&["got 0 files", "48 files here already"]);

    // A damaged copy here is fetched again, and only it.
    fs::write(copy.join("a/b/medium"), bytes(3_000_001, 99)).unwrap();
    let compared =
        instance.kist(&["compare", "--json", copied, "/t"]).exits(7).says(&["differ at byte"]).json();
    assert_eq!(compared["differing"].as_array().unwrap().len(), 1);
    assert_eq!(compared["differing"][0]["path"], "/t/a/b/medium");
    // What a get that was killed left behind is taken up.
    let name = base::Blake3::of(b"medium").to_string();
    let part = copy.join(format!("a/b/.kist-part-{}", &name[..16]));
    fs::write(&part, bytes(5_000_000, 98)).unwrap();
    instance.kist(&["get", "/t", copied]).exits(0).says(&["got 1 file,"]);
    assert_eq!(fs::read(copy.join("a/b/medium")).unwrap(), bytes(3_000_001, 3));
    assert!(!part.exists());
    let counts = instance.kist(&["get", "--json", "/t", copied]).exits(0).json();
    assert_eq!((counts["files"].as_u64(), counts["skipped"].as_u64()), (Some(0), Some(48)));

    let list = instance.kist(&["ls", "-r", "--json", "/t"]).exits(0).json();
    let kinds = |kind: &str| list.as_array().unwrap().iter().filter(|entry| entry["kind"] == kind).count();
    assert_eq!((kinds("file"), kinds("link"), kinds("directory")), (46, 2, 5));
    let long = instance.kist(&["ls", "-l", "/t"]).exits(0);
    assert!(long.out.contains("0640") && long.out.contains("2009-02-13T23:31:30Z"), "{}", long.out);
    assert!(long.out.contains("dangling -> nowhere"), "{}", long.out);
}

#[test]
fn single_files_streams_and_names() {
    let instance = Instance::serving();
    let data = bytes(2_500_000, 7);
    let file = instance.beside("data.bin");
    write(&file, &data);
    let local = file.to_str().unwrap();

    instance.kist(&["put", local, "/x/renamed"]).exits(0);
    instance.kist(&["put", local, "/x/"]).exits(0);
    instance.kist_with_input(&["put", "-", "/x/streamed"], &data).exits(0);
    instance.kist_with_input(&["put", "-", "/x/small"], b"few").exits(0);
    assert_eq!(instance.kist(&["ls", "/x"]).exits(0).out, "data.bin\nrenamed\nsmall\nstreamed\n");
    for name in ["renamed", "data.bin", "streamed"] {
        let to = instance.beside("back.bin");
        instance.kist(&["get", "--again", &format!("/x/{name}"), to.to_str().unwrap()]).exits(0);
        assert!(fs::read(&to).unwrap() == data, "{name}");
    }
    assert_eq!(instance.kist(&["get", "/x/small", "-"]).exits(0).out, "few");

    let stat = instance.kist(&["stat", "--json", "/x/renamed"]).exits(0).json();
    assert_eq!((stat["size"].as_u64(), stat["locality"].as_str()), (Some(2_500_000), Some("ONLINE")));
    let (before, class) = (stat["file_id"].clone(), stat["class"].as_str().map(str::to_owned));
    assert_eq!(class.as_deref(), Some("medium"));

    // The same content again creates nothing; other content is a new version.
    instance.kist(&["put", "--again", local, "/x/renamed"]).exits(0);
    assert_eq!(instance.kist(&["stat", "--json", "/x/renamed"]).json()["file_id"], before);
    instance.kist_with_input(&["put", "-", "/x/renamed"], b"new").exits(0);
    assert_ne!(instance.kist(&["stat", "--json", "/x/renamed"]).json()["file_id"], before);
    assert_eq!(instance.kist(&["get", "/x/renamed", "-"]).exits(0).out, "new");

    instance.kist(&["mv", "/x/renamed", "/x/moved"]).exits(0);
    instance.kist(&["mkdir", "-p", "/y/z"]).exits(0);
    instance.kist(&["mv", "/x", "/y/z/x"]).exits(0);
    assert_eq!(instance.kist(&["get", "/y/z/x/moved", "-"]).exits(0).out, "new");
    instance.kist(&["rm", "-r", "/y"]).exits(0);
    assert_eq!(instance.kist(&["ls", "/"]).exits(0).out, "");
}

#[test]
fn what_was_acknowledged_survives_a_killed_server() {
    let mut instance = Instance::serving();
    let tree = instance.beside("tree");
    make_tree(&tree);
    instance.kist(&["put", tree.to_str().unwrap(), "/t"]).exits(0);
    instance.kill();
    instance.kist(&["ls", "/t"]).exits(5);
    instance.start();
    instance.kist(&["compare", tree.to_str().unwrap(), "/t"]).exits(0);
}

/// `kist get FILE /dev/null` put a plain file in the place of the device, and every program of the machine
/// wrote to that from then on.
#[test]
fn a_device_or_pipe_is_written_to_and_not_replaced() {
    use std::os::unix::fs::FileTypeExt;
    let instance = Instance::serving();
    let sent = bytes(3_000_000, 7);
    let file = instance.beside("file");
    write(&file, &sent);
    instance.kist(&["put", file.to_str().unwrap(), "/f"]).exits(0);
    let pipe = instance.beside("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let read = std::thread::scope(|scope| {
        let reader = scope.spawn(|| std::fs::read(&pipe).unwrap());
        instance.kist(&["get", "/f", pipe.to_str().unwrap()]).exits(0);
        reader.join().unwrap()
    });
    assert!(read == sent);
    assert!(std::fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
}

/// A large body was refused in its midst when too few drives take data; what the client said was that the
/// pipe had broken.
#[test]
fn a_large_put_is_refused_before_its_body() {
    let mut instance = Instance::init_with(&["--drives", "6"]);
    std::fs::rename(instance.dir().join("pool/d1"), instance.beside("d1")).unwrap();
    instance.start();
    let head = |length: u64| {
        format!(
            "PUT /data/f HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {}\r\nContent-Length: {length}\r\n\
             Expect: 100-continue\r\n\r\n",
            instance.key()
        )
    };
    let refused = instance.raw(head(200_000_000).as_bytes());
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains("5 drives take new data, 6 distinct ones are needed"), "{refused}");
    // What lies on three drives is taken all the same.
    let taken =
        instance.raw(format!("{}x", head(1).replace("Expect: 100-continue", "Connection: close")).as_bytes());
    assert!(taken.starts_with("HTTP/1.1 201"), "{taken}");
}

/// Story: `kist put a/x b/x DIR` put one file in the place of the other, and said nothing.
#[test]
fn two_sources_of_one_name_are_refused_before_the_first_byte() {
    let instance = Instance::serving();
    let (one, two) = (instance.beside("a/x"), instance.beside("b/x"));
    write(&one, b"one");
    write(&two, b"two");
    let [one, two] = [&one, &two].map(|path| path.to_str().unwrap());
    instance.kist(&["put", one, two, "/t/"]).exits(2).says(&[one, two, "/t/x"]);
    instance.kist(&["stat", "/t/x"]).exits(3);
    instance.kist(&["put", one, "/t/"]).exits(0);
}

/// Hands on what goes to and from a server, but for the first answer to a put: the connection ends before it.
fn server_that_loses_an_answer(server: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = server.strip_prefix("http://").unwrap().to_owned();
    std::thread::spawn(move || {
        let has_lost = Arc::new(AtomicBool::new(false));
        for client in listener.incoming() {
            let (mut client, mut server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
            let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
            let has_lost = Arc::clone(&has_lost);
            std::thread::spawn(move || {
                let mut buffer = [0; 65_536];
                while let Ok(count @ 1..) = server.read(&mut buffer) {
                    if buffer.starts_with(b"HTTP/1.1 201") && !has_lost.swap(true, Ordering::SeqCst) {
                        break;
                    }
                    if client.write_all(&buffer[..count]).is_err() {
                        break;
                    }
                }
                let _ = client.shutdown(Shutdown::Both);
            });
        }
    });
    format!("http://{address}")
}

/// Story: the answer to `kist put - --keep-existing` was lost. The client asked why, and was told that the
/// name is taken: by the file that it had just put.
#[test]
fn a_put_whose_answer_is_lost_finds_its_own_file() {
    let instance = Instance::serving();
    let put = |url: &str, input: &[u8]| {
        let arguments = ["put", "-", "/f", "--keep-existing", "--json", "--server", url];
        instance.kist_with_input(&arguments, input)
    };
    let reply = put(&server_that_loses_an_answer(&instance.url), b"what was sent").exits(0).json();
    let stat = instance.kist(&["stat", "--json", "/f"]).exits(0).json();
    assert_eq!((&reply["file_id"], &reply["created"]), (&stat["file_id"], &true.into()), "{reply}");
    // Other bytes are another one's.
    put(&instance.url, b"something else").exits(4).says(&["/f exists"]);
    put(&server_that_loses_an_answer(&instance.url), b"something else").exits(4).says(&["/f exists"]);
    assert_eq!(instance.kist(&["stat", "--json", "/f"]).exits(0).json()["file_id"], stat["file_id"]);
}
