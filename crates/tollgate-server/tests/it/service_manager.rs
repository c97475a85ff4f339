//! The messages to a service manager (systemd's sd_notify), and `tollgate health`.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

use crate::program::{Ran, command, free_port, http_get};
use crate::start::{Ground, chain};

/// The longest wait for a message.
const PATIENCE: Duration = Duration::from_secs(60);
/// The interval in which the watchdog wants signs of life.
const WATCHDOG: Duration = Duration::from_secs(4);

fn next(socket: &UnixDatagram) -> String {
    let mut bytes = [0; 500];
    let length = socket.recv(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn service_manager_hears_ready_signs_of_life_and_stopping() {
    let (ground, chain, folder) = (Ground::new(), chain().await, tempfile::tempdir().unwrap());
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut serve = ground.serve(&chain.url(), &[]);
    serve.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
    let node = crate::program::Program::start(&mut serve);
    let ready = next(&socket);
    assert_eq!(ready, format!("READY=1\nSTATUS=serving on 127.0.0.1:{}", ground.port));
    let answer = http_get(ground.port, "/livez").await.unwrap_or_default();
    assert!(answer.starts_with("HTTP/1.1 200"), "READY before it listens: {answer:?}");
    assert_eq!(next(&socket), "WATCHDOG=1");
    let first = Instant::now();
    assert_eq!(next(&socket), "WATCHDOG=1");
    let pause = first.elapsed();
    assert!(pause > WATCHDOG / 4 && pause < WATCHDOG, "{pause:?}, meant are {:?}", WATCHDOG / 2);
    node.signal("TERM");
    let stopping = loop {
        match next(&socket).as_str() {
            "WATCHDOG=1" => {}
            other => break other.to_owned(),
        }
    };
    assert_eq!(stopping, "STOPPING=1\nSTATUS=draining");
    assert_eq!(node.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn abstract_socket_is_reached_and_a_missing_one_stops_nothing() {
    let (ground, chain) = (Ground::new(), chain().await);
    let name = format!("tollgate-notify-{}", ground.port);
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let socket = UnixDatagram::bind_addr(&address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let node = ground
        .started(ground.serve(&chain.url(), &[]).env("NOTIFY_SOCKET", format!("@{name}")))
        .await;
    assert!(next(&socket).starts_with("READY=1"));
    drop((node, socket));
    let node = ground
        .started(ground.serve(&chain.url(), &[]).env("NOTIFY_SOCKET", "/no/such/socket"))
        .await;
    let url = format!("http://127.0.0.1:{}", ground.port);
    for (args, answer) in [(&["health"][..], "ready\n"), (&["health", "--live"], "alive\n")] {
        let ran = Ran::of(command().args(args).args(["--url", &url]));
        assert_eq!((ran.code, ran.out.as_str()), (Some(0), answer), "{ran:?}");
    }
    node.signal("TERM");
    assert_eq!(node.end().code, Some(0));
    let nobody = format!("http://127.0.0.1:{}", free_port());
    let ran = Ran::of(command().args(["health", "--url", &nobody]));
    assert_eq!(ran.code, Some(1), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_without_tls_changes_nothing_and_ends_nothing() {
    let (ground, chain) = (Ground::new(), chain().await);
    let node = ground.started(ground.serve(&chain.url(), &[]).env("RUST_LOG", "info")).await;
    for _ in 0..2 {
        node.signal("HUP");
        node.line_with("SIGHUP: changed TLS files are read again").await;
    }
    let answer = http_get(ground.port, "/livez").await.unwrap_or_default();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    node.signal("TERM");
    assert_eq!(node.end().code, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn reload_before_the_node_listens_does_not_end_its_start() {
    let ground = Ground::new();
    let nowhere = format!("http://127.0.0.1:{}", free_port());
    let mut serve = ground.serve(&nowhere, &[]);
    serve.env("RUST_LOG", "info").env("TOLLGATE_STARTUP_WAIT", "60s");
    let node = crate::program::Program::start(&mut serve);
    node.line_with("database opened").await;
    node.signal("HUP");
    node.line_with("SIGHUP: changed TLS files are read again").await;
    node.signal("KILL");
    node.end();
}
