//! Connections over real sockets: idle ones are closed, and health is told when all are taken.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tollgate_server::{ConnectionLimits, serve};
use tollgate_testkit::wait;

use crate::site::Site;

const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(50);

const LIMITS: ConnectionLimits = ConnectionLimits {
    max: 8,
    max_per_address: None,
    header_timeout: LONG,
    body_timeout: LONG,
    idle_timeout: LONG,
};

/// A node that is served over sockets.
struct Served {
    _site: Site,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Served {
    async fn new(limits: ConnectionLimits) -> Self {
        let site = Site::new().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async {
            let _ = stopped.await;
        };
        let serving = tokio::spawn(serve(listener, site.0.clone(), limits, stopped));
        Self { _site: site, address, stop, serving }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Sends a request on a connection of its own and reads until the node closes it.
    async fn ask(&self, path: &str) -> String {
        let mut stream = self.connect().await;
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        rest_of(stream).await
    }
}

/// All that still comes, until the node closes the connection.
async fn rest_of(mut stream: TcpStream) -> String {
    let mut text = String::new();
    let read = stream.read_to_string(&mut text);
    tokio::time::timeout(Duration::from_secs(60), read).await.expect("closed").unwrap();
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_told_while_idle_connections_take_all_places() {
    let limits = ConnectionLimits { max: 3, header_timeout: LONG, idle_timeout: LONG, ..LIMITS };
    let served = Served::new(limits).await;
    let mut idle = Vec::new();
    for _ in 0..limits.max {
        idle.push(served.connect().await);
    }
    for path in ["/livez", "/readyz"] {
        wait::until(path, || async {
            served.ask(path).await.starts_with("HTTP/1.1 200").then_some(())
        })
        .await;
    }
    let refused = served.ask("/api/v1/submitters").await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.contains("too_many_connections"), "{refused}");
    assert!(refused.contains("retry-after: 1"), "{refused}");
    idle.clear();
    wait::until("places to be free again", || async {
        let answer = served.ask("/api/v1/submitters").await;
        answer.starts_with("HTTP/1.1 200").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_of_the_reserve_is_closed_after_one_answer() {
    let limits = ConnectionLimits { max: 1, header_timeout: LONG, idle_timeout: LONG, ..LIMITS };
    let served = Served::new(limits).await;
    let _idle = served.connect().await;
    let mut stream = served.connect().await;
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let answer = rest_of(stream).await;
    assert!(answer.contains("connection: close"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_without_a_whole_request_head_is_closed() {
    let limits = ConnectionLimits { max: 8, header_timeout: SHORT, idle_timeout: LONG, ..LIMITS };
    let served = Served::new(limits).await;
    assert_eq!(rest_of(served.connect().await).await, "");
    let mut slow = served.connect().await;
    slow.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await.unwrap();
    assert_eq!(rest_of(slow).await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_without_a_next_request_is_closed() {
    let limits = ConnectionLimits { max: 8, header_timeout: SHORT, idle_timeout: SHORT, ..LIMITS };
    let served = Served::new(limits).await;
    let mut stream = served.connect().await;
    stream.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let answer = rest_of(stream).await;
    assert!(answer.ends_with("{\"status\":\"alive\"}"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn request_longer_than_the_header_timeout_is_answered() {
    let limits = ConnectionLimits { max: 8, header_timeout: SHORT, idle_timeout: LONG, ..LIMITS };
    let served = Served::new(limits).await;
    let answer = served.ask("/api/v1/tx/completions?wait=300ms").await;
    assert!(answer.ends_with("{\"items\":[],\"next\":0}"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn body_that_says_to_be_too_large_is_refused_before_it_arrives() {
    let limits = ConnectionLimits { max: 8, header_timeout: LONG, idle_timeout: SHORT, ..LIMITS };
    let served = Served::new(limits).await;
    let mut stream = served.connect().await;
    let head = "POST /api/v1/tx HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Content-Length: 10000000\r\n\r\n";
    let asked = Instant::now();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 413");
    // Less than a body has to arrive.
    assert!(asked.elapsed() < Duration::from_secs(9), "{:?}", asked.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_can_not_be_parsed_is_answered_with_a_problem() {
    let limits = ConnectionLimits { max: 8, header_timeout: LONG, idle_timeout: SHORT, ..LIMITS };
    let served = Served::new(limits).await;
    let long = format!("GET /livez HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(2_000_000));
    let over = format!("GET /livez HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(64 * 1024));
    let in_lines =
        format!("GET /livez HTTP/1.1\r\n{}\r\n", format!("X: {}\r\n", "a".repeat(8_000)).repeat(9));
    let path = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(70_000));
    let many = format!("GET /livez HTTP/1.1\r\n{}\r\n", "X: a\r\n".repeat(150));
    let lengths = "POST /api/v1/tx HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n";
    for (request, status, code) in [
        ("nonsense\r\n\r\n", 400, "invalid_request"),
        ("GET / HTTP/9.9\r\n\r\n", 400, "invalid_request"),
        (lengths, 400, "invalid_request"),
        (&long, 431, "head_too_large"),
        (&over, 431, "head_too_large"),
        (&in_lines, 431, "head_too_large"),
        (&path, 431, "head_too_large"),
        (&many, 431, "head_too_large"),
    ] {
        let mut stream = served.connect().await;
        // The node may close the connection before it has read everything.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert!(head.contains("content-type: application/problem+json"), "{head}");
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!((&problem["code"], &problem["status"]), (&code.into(), &status.into()));
        assert!(head.contains(&format!("x-request-id: {}", problem["traceId"].as_str().unwrap())));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn head_just_below_the_limit_is_served() {
    let limits = ConnectionLimits { max: 8, header_timeout: LONG, idle_timeout: SHORT, ..LIMITS };
    let served = Served::new(limits).await;
    let mut stream = served.connect().await;
    let head = format!(
        "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: {}\r\n\r\n",
        "a".repeat(63 * 1024)
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = rest_of(stream).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// RFC 9112, 6.1: the chunks count, and the connection is closed, so that nothing behind them is taken for
/// a request. The HTTP library leaves no way to refuse it.
#[tokio::test(flavor = "multi_thread")]
async fn connection_with_both_a_length_and_chunks_is_closed_after_one_answer() {
    let limits = ConnectionLimits { max: 8, header_timeout: LONG, idle_timeout: LONG, ..LIMITS };
    let served = Served::new(limits).await;
    for lengths in [
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
    ] {
        let mut stream = served.connect().await;
        let head =
            "POST /api/v1/tx HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        let next = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let request = format!("{head}{lengths}\r\n2\r\n{{}}\r\n0\r\n\r\n{next}");
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = rest_of(stream).await;
        assert!(answer.starts_with("HTTP/1.1 422") && answer.contains("missing_field"), "{answer}");
        assert!(answer.contains("connection: close") && !answer.contains("alive"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stop_closes_idle_connections_and_answers_requests_that_have_begun() {
    let limits = ConnectionLimits { max: 8, header_timeout: LONG, idle_timeout: LONG, ..LIMITS };
    let served = Served::new(limits).await;
    let silent = served.connect().await;
    let mut begun = served.connect().await;
    begun.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    // Answered, and kept for more.
    let mut answer = [0; 12];
    begun.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    let Served { stop, serving, .. } = served;
    stop.send(()).unwrap();
    assert!(rest_of(begun).await.ends_with("{\"status\":\"alive\"}"));
    assert_eq!(rest_of(silent).await, "");
    serving.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn address_with_all_its_connections_gets_health_only_and_leaves_the_rest_to_others() {
    let served = Served::new(ConnectionLimits { max_per_address: Some(2), ..LIMITS }).await;
    let mut idle = vec![served.connect().await, served.connect().await];
    let refused = wait::until("the address to have no connection left", || async {
        let answer = served.ask("/api/v1/submitters").await;
        answer.starts_with("HTTP/1.1 503").then_some(answer)
    })
    .await;
    assert!(refused.contains("http.max_connections_per_address"), "{refused}");
    assert!(served.ask("/livez").await.starts_with("HTTP/1.1 200"));
    // All of 127.0.0.0/8 is this machine: another caller by its address.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = socket.connect(served.address).await.unwrap();
    let head = "GET /api/v1/submitters HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    other.write_all(head.as_bytes()).await.unwrap();
    let answer = rest_of(other).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    idle.pop();
    wait::until("the address to have a connection again", || async {
        let answer = served.ask("/api/v1/submitters").await;
        answer.starts_with("HTTP/1.1 200").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn body_that_trickles_is_refused_after_the_time_for_the_whole_of_it() {
    let limits = ConnectionLimits { body_timeout: Duration::from_millis(300), ..LIMITS };
    let served = Served::new(limits).await;
    let mut stream = served.connect().await;
    let head = "POST /api/v1/tx HTTP/1.1\r\nHost: localhost\r\ncontent-type: application/json\r\n\
                content-length: 100000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let (mut read, mut write) = stream.into_split();
    // Each byte comes in time; the body does not.
    let trickle = tokio::spawn(async move {
        while write.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    let mut answer = vec![0; 4096];
    let count = tokio::time::timeout(Duration::from_secs(60), read.read(&mut answer)).await;
    let answer = String::from_utf8_lossy(&answer[..count.expect("answered").unwrap()]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    assert!(answer.contains("request_timeout"), "{answer}");
    drop(read);
    trickle.abort();
}
