//! The real binary as callers and operators meet it: who may call, how many, what the log says.

use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tollgate_testkit::wait::until;

use crate::program::{http, http_get};
use crate::start::{Ground, chain};

#[tokio::test(flavor = "multi_thread")]
async fn no_auth_on_a_network_address_needs_a_second_flag() {
    let (ground, chain) = (Ground::new(), chain().await);
    for listen in ["0.0.0.0", "[::]"] {
        let listen = format!("{listen}:{}", ground.port);
        let said = ground.refusal(&chain.url(), &["--listen", &listen]);
        let why = format!(
            "tollgate: --no-auth: everybody who can reach {listen} could spend from the accounts, \
             without any key: listen on loopback, or add --allow-unauthenticated-network if that \
             network is trusted"
        );
        assert_eq!(said, [why]);
    }
    let listen = format!("0.0.0.0:{}", ground.port);
    let other = ["--listen", listen.as_str(), "--allow-unauthenticated-network"];
    let program = ground.started(&mut ground.serve(&chain.url(), &other)).await;
    drop(program);
}

#[tokio::test(flavor = "multi_thread")]
async fn long_poll_is_answered_empty_when_the_node_is_told_to_stop() {
    let (ground, chain) = (Ground::new(), chain().await);
    let program = ground.started(&mut ground.serve(&chain.url(), &[])).await;
    let mut poll = TcpStream::connect(("127.0.0.1", ground.port)).await.unwrap();
    let request = "GET /api/v1/tx/completions?after=0&wait=60s HTTP/1.1\r\nhost: localhost\r\n\r\n";
    poll.write_all(request.as_bytes()).await.unwrap();
    program.signal("TERM");
    let mut answer = String::new();
    poll.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("{\"items\":[],\"next\":0}"), "{answer}");
    let ended = program.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_without_a_file_for_it_is_logged_and_accepted_later() {
    let (ground, chain) = (Ground::new(), chain().await);
    let program = ground.started(ground.serve(&chain.url(), &[]).env("RUST_LOG", "warn")).await;
    let node = Pid::from_raw(i32::try_from(program.id()).unwrap());
    // Whatever the node has open stays open, and it gets nothing more.
    let few = Rlimit { current: Some(3), maximum: getrlimit(Resource::Nofile).maximum };
    let before = prlimit(node, Resource::Nofile, few).unwrap();
    let _caller = TcpStream::connect(("127.0.0.1", ground.port)).await.unwrap();
    program.line_with("accept failed").await;
    prlimit(node, Resource::Nofile, before).unwrap();
    until("the API", || http_get(ground.port, "/livez")).await;
}

/// The same command, started with a limit on open files.
fn with_file_limit(serve: &Command, limit: &str) -> Command {
    let mut limited = Command::new("sh");
    limited.args(["-c", &format!("ulimit {limit}; exec \"$0\" \"$@\"")]);
    limited.arg(serve.get_program()).args(serve.get_args());
    for (name, value) in serve.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    limited
}

#[tokio::test(flavor = "multi_thread")]
async fn soft_limit_on_open_files_is_raised_and_idle_connections_leave_health_alive() {
    let (ground, chain) = (Ground::new(), chain().await);
    let serve = ground.serve(&chain.url(), &[]);
    let program = ground.started(&mut with_file_limit(&serve, "-Sn 100")).await;
    let mut idle = Vec::new();
    for _ in 0..150 {
        idle.push(TcpStream::connect(("127.0.0.1", ground.port)).await.unwrap());
    }
    until("readiness", || async {
        http_get(ground.port, "/readyz").await.filter(|answer| answer.starts_with("HTTP/1.1 200"))
    })
    .await;
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", program.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words[3], words[4], "soft and hard: {line}");
}

#[tokio::test(flavor = "multi_thread")]
async fn low_file_limit_lowers_the_connections_and_health_is_told_when_they_are_free() {
    let (ground, chain) = (Ground::new(), chain().await);
    let mut serve = ground.serve(&chain.url(), &[]);
    serve.env("RUST_LOG", "warn").env("TOLLGATE_HTTP_HEADER_TIMEOUT", "1h");
    let program = ground.started(&mut with_file_limit(&serve, "-n 64")).await;
    program.line_with("http.max_connections is lowered").await;
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(TcpStream::connect(("127.0.0.1", ground.port)).await.unwrap());
    }
    program.line_with("connection limit reached").await;
    idle.clear();
    until("readiness", || async {
        http_get(ground.port, "/readyz").await.filter(|answer| answer.starts_with("HTTP/1.1 200"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_is_refused_is_in_the_log_with_its_trace_id() {
    let (ground, chain) = (Ground::new(), chain().await);
    let program = ground.started(ground.serve(&chain.url(), &[]).env("RUST_LOG", "info")).await;
    let head = "GET /api/v1/tx/nonsense HTTP/1.1\r\nhost: localhost\r\nx-request-id: call-17\r\n";
    let answer = http(ground.port, &format!("{head}connection: close\r\n\r\n")).unwrap();
    assert!(answer.contains("\"traceId\":\"call-17\""), "{answer}");
    let line = program.line_with("request refused").await;
    for part in ["call-17", "invalid_tx_id", "/api/v1/tx/nonsense", "422"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batch_item_that_is_refused_is_in_the_log_with_its_trace_id() {
    let (ground, chain) = (Ground::new(), chain().await);
    let program = ground.started(ground.serve(&chain.url(), &[]).env("RUST_LOG", "info")).await;
    let body = r#"{"items":[{"payload":{}}]}"#;
    let head = "POST /api/v1/tx/batch HTTP/1.1\r\nhost: localhost\r\nx-request-id: batch-17\r\n";
    let kind = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
    let request = format!("{head}{kind}connection: close\r\n\r\n{body}");
    let answer = http(ground.port, &request).unwrap();
    assert!(answer.contains("\"traceId\":\"batch-17\""), "{answer}");
    let line = program.line_with("batch item refused").await;
    for part in ["batch-17", "missing_field", "place=0", "422"] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn node_whose_log_can_not_be_written_serves_on() {
    let (ground, chain) = (Ground::new(), chain().await);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut serve = ground.serve(&chain.url(), &[]);
    let mut node = serve.env("RUST_LOG", "debug").stderr(full).spawn().unwrap();
    until("the API", || http_get(ground.port, "/livez")).await;
    let refused = "GET /nope HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = http(ground.port, refused).unwrap_or_default();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
    assert!(node.try_wait().unwrap().is_none());
    node.kill().unwrap();
    node.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn host_that_is_not_loopback_is_refused_on_loopback() {
    let (ground, chain) = (Ground::new(), chain().await);
    let other = ["--advertise-url", "http://node-1.internal:8550"];
    let _program = ground.started(&mut ground.serve(&chain.url(), &other)).await;
    let answer = |host: &str| {
        let head = format!("GET /api/v1/submitters HTTP/1.1\r\nhost: {host}\r\n");
        http(ground.port, &format!("{head}connection: close\r\n\r\n")).unwrap()
    };
    let rebound = answer("evil.example:8550");
    assert!(rebound.starts_with("HTTP/1.1 421"), "{rebound}");
    assert!(rebound.contains("host_not_allowed"), "{rebound}");
    for own in ["localhost:8550", "127.0.0.1", "[::1]:1", "node-1.internal:8550"] {
        assert!(answer(own).starts_with("HTTP/1.1 200"), "{own}");
    }
}
