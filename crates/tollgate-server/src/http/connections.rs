//! Accepts connections and serves HTTP on them, within limits (I13).
//!
//! A TLS handshake counts as a part of the first request's head. No address can have all connections.
//!
//! A connection that does nothing is closed after a while, and there are never more of them than
//! the limits allow. When all are taken, a few more are still accepted and answered about the
//! node's health only, so that a flood of callers does not look like a dead node.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::{debug, warn};

use tollgate_api::ErrorCode;

use super::parse_errors::WithParseErrors;
use super::problem::Problem;
use super::tls::ServerTls;

/// The time for a connection of the reserve to send its request; others wait for its place.
const RESERVE_HEADER_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest time for which data may stay unacknowledged before a connection is closed.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause after a failed accept, when the system has no files or memory left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The shortest time between two log lines about the same failure.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// The longest head of a request, in bytes (I13). A line of it that is longer is never read to its end.
pub(super) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// The paths that are served over a connection of the reserve.
const HEALTH_PATHS: [&str; 2] = ["/livez", "/readyz"];

/// Tells browsers to use TLS for this host for a year.
const HSTS: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// The number of connections, and their longest time without a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionLimits {
    /// Connections at once, besides a small reserve for health checks.
    pub max: usize,
    /// Connections at once from one address, or one /64 network of IPv6; `None` for three quarters of `max`.
    pub max_per_address: Option<usize>,
    /// From the acceptance of a connection to the end of its first request's head, a TLS handshake
    /// included.
    pub header_timeout: Duration,
    /// From the end of a request's head to the end of its body.
    pub body_timeout: Duration,
    /// From the end of an answer to the end of the next request's head.
    pub idle_timeout: Duration,
}

impl ConnectionLimits {
    /// Connections beyond the maximum, for health checks.
    pub const RESERVE: usize = 32;
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        let ten = Duration::from_secs(10);
        let idle_timeout = Duration::from_secs(75);
        let (header_timeout, body_timeout) = (ten, ten);
        Self { max: 4_096, max_per_address: None, header_timeout, body_timeout, idle_timeout }
    }
}

/// The requests that a listener is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ListenerKind {
    /// All requests.
    #[default]
    All,
    /// Requests of callers; those of operators have a listener of their own.
    Callers,
    /// Requests of operators, and all others.
    Operators,
}

/// A socket that accepts connections.
pub struct Listener {
    /// The socket.
    pub socket: TcpListener,
    /// Its requests.
    pub kind: ListenerKind,
    /// TLS, if it is on.
    pub tls: Option<ServerTls>,
}

/// Marks a request that came over TLS.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct OverTls;

/// The address at the other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RemoteAddress(pub(crate) IpAddr);

/// The longest time for the body of a request, as the listener's limits have it.
#[derive(Clone, Copy)]
pub(super) struct BodyTimeout(pub(super) Duration);

/// Marks a request that came over a connection of the reserve.
#[derive(Clone, Copy)]
struct FromReserve;

/// Serves plain HTTP until `stop` is over, then until every request that has begun is answered.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()>,
) {
    let listener = Listener { socket: listener, kind: ListenerKind::All, tls: None };
    serve_listener(listener, router, limits, stop).await;
}

/// The same for any listener. Each has limits of its own, so that callers can't take the connections of
/// operators.
pub async fn serve_listener(
    listener: Listener,
    router: Router,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()>,
) {
    let Listener { socket, kind, tls } = listener;
    let max = limits.max.clamp(1, Semaphore::MAX_PERMITS);
    let (ordinary, reserve) =
        (Arc::new(Semaphore::new(max)), Arc::new(Semaphore::new(ConnectionLimits::RESERVE)));
    let per_address = PerAddress::new(limits.max_per_address.unwrap_or(max - max / 4));
    let (stopping, stopped) = watch::channel(false);
    let (mut full, mut failing) = (RateLimitedLog::default(), RateLimitedLog::default());
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = socket.accept() => accepted,
        };
        let (stream, from) = match accepted {
            Ok((stream, from)) => (stream, from.ip()),
            // The caller went away before it was accepted.
            Err(error) if is_callers(&error) => continue,
            Err(error) => {
                if let Some(times) = failing.due() {
                    warn!(%error, times, "accept failed; retrying");
                }
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let place = per_address.take(from);
        let of_address = place.is_some();
        let (permit, is_reserve) = match (&place, ordinary.clone().try_acquire_owned()) {
            (Some(_), Ok(permit)) => (Some(permit), false),
            (Some(_), Err(_)) | (None, _) => (reserve.clone().try_acquire_owned().ok(), true),
        };
        if is_reserve && let Some(times) = full.due() {
            let limit = if of_address { "max_connections" } else { "max_connections_per_address" };
            warn!(max, limit, times, "connection limit reached; only health checks are answered");
        }
        if let Some(permit) = permit {
            let place = place.filter(|_| !is_reserve);
            let served = Served { limits, kind, is_reserve, from, _permit: permit, _place: place };
            tokio::spawn(served.accept(stream, tls.clone(), router.clone(), stopped.clone()));
        }
    }
    drop(socket);
    stopping.send_replace(true);
    for (semaphore, count) in [(ordinary, max), (reserve, ConnectionLimits::RESERVE)] {
        let _ = semaphore.acquire_many(u32::try_from(count).unwrap_or(u32::MAX)).await;
    }
}

/// Counts the connections of each address. Has as many entries as there are connections at most.
struct PerAddress {
    max: usize,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

/// A connection's place among those of its address.
struct AddressPlace {
    address: IpAddr,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl PerAddress {
    fn new(max: usize) -> Self {
        Self { max, open: Arc::default() }
    }

    /// Counts a connection. `None`: its address has as many as it may have.
    fn take(&self, from: IpAddr) -> Option<AddressPlace> {
        let address = network_of(from);
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let count = open.entry(address).or_default();
        if *count >= self.max {
            return None;
        }
        *count += 1;
        Some(AddressPlace { address, open: self.open.clone() })
    }
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
    }
}

/// One host has a whole /64 network of IPv6 addresses.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(four) => IpAddr::V4(four),
        IpAddr::V6(six) => {
            let network = u128::from(six) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}

/// The limits and marks of one connection, and its places among the others.
struct Served {
    limits: ConnectionLimits,
    kind: ListenerKind,
    is_reserve: bool,
    from: IpAddr,
    _permit: OwnedSemaphorePermit,
    _place: Option<AddressPlace>,
}

impl Served {
    /// Completes the TLS handshake, if there is one, and serves. Both are within the time for the first
    /// request's head.
    async fn accept(
        self,
        stream: TcpStream,
        tls: Option<ServerTls>,
        router: Router,
        mut stopped: watch::Receiver<bool>,
    ) {
        // Both make it better, neither is needed.
        let _ = stream.set_nodelay(true);
        let unread = u32::try_from(UNREAD_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, unread);
        let header_timeout = match self.is_reserve {
            true => self.limits.header_timeout.min(RESERVE_HEADER_TIMEOUT),
            false => self.limits.header_timeout,
        };
        let until = Instant::now() + header_timeout;
        let Some(tls) = tls else {
            return self.serve(stream, false, until, router, stopped).await;
        };
        let accepted = tokio::select! {
            accepted = tls.accept(stream) => accepted,
            () = sleep_until(until) => {
                debug!(?header_timeout, "connection closed: no TLS handshake in time");
                None
            }
            _ = stopped.wait_for(|stopped| *stopped) => None,
        };
        if let Some(stream) = accepted {
            self.serve(stream, true, until, router, stopped).await;
        }
    }

    async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        is_tls: bool,
        until: Instant,
        router: Router,
        mut stopped: watch::Receiver<bool>,
    ) {
        let Self { limits, kind, is_reserve, from, .. } = self;
        let (routes, first_request) = (TowerToHyperService::new(router), Notify::new());
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            first_request.notify_one();
            let marks = request.extensions_mut();
            marks.insert(kind);
            marks.insert(RemoteAddress(from));
            marks.insert(BodyTimeout(limits.body_timeout));
            if is_reserve {
                marks.insert(FromReserve);
            }
            if is_tls {
                marks.insert(OverTls);
            }
            let is_too_large = head_bytes(&request) > HEAD_BYTES_MAX;
            let answered = (!is_too_large).then(|| routes.call(request));
            async move {
                let mut response = match answered {
                    Some(answered) => answered.await?,
                    None => head_too_large(),
                };
                if is_tls {
                    response.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, HSTS);
                }
                Ok::<_, std::convert::Infallible>(response)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(!is_reserve)
            .max_buf_size(HEAD_BYTES_MAX)
            .header_read_timeout(limits.idle_timeout.max(limits.header_timeout))
            .serve_connection(TokioIo::new(WithParseErrors::new(stream)), service);
        let mut connection = std::pin::pin!(connection);
        let mut too_late = std::pin::pin!(sleep_until(until));
        let (mut has_begun, mut is_stopping) = (false, false);
        loop {
            tokio::select! {
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        debug!(%error, "connection ended");
                    }
                    return;
                }
                () = first_request.notified(), if !has_begun => has_begun = true,
                () = &mut too_late, if !has_begun => {
                    debug!("connection closed: no request in time");
                    return;
                }
                _ = stopped.wait_for(|stopped| *stopped), if !is_stopping => {
                    is_stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

/// The bytes of a request's head, without what its lines have between names and values.
fn head_bytes<B>(request: &hyper::Request<B>) -> usize {
    let uri = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    let lines = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
    uri + lines.sum::<usize>()
}

/// The answer that hyper gives by itself to a head that does not fit its buffer. One that came in few reads fits,
/// although it is longer. The problem is put in its place on the way to the socket (`parse_errors.rs`).
fn head_too_large() -> Response {
    let close = [(header::CONNECTION, HeaderValue::from_static("close"))];
    (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, close).into_response()
}

/// Refuses everything but health checks over a connection of the reserve.
pub(crate) async fn refuse_beyond_health(request: Request, next: Next) -> Response {
    let is_reserve = request.extensions().get::<FromReserve>().is_some();
    if is_reserve && !HEALTH_PATHS.contains(&request.uri().path()) {
        let detail = "all connections of this node are taken (http.max_connections), or all that one \
                      address may have (http.max_connections_per_address)";
        return Problem::new(ErrorCode::TooManyConnections, detail).into_response();
    }
    next.run(request).await
}

/// An error of accept is about one caller rather than this process.
fn is_callers(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

/// Counts a frequent event and limits its log lines.
#[derive(Default)]
pub(super) struct RateLimitedLog {
    last: Option<Instant>,
    times: u64,
}

impl RateLimitedLog {
    /// The number of times since the last log line, if it is to be logged now.
    pub(super) fn due(&mut self) -> Option<u64> {
        self.times += 1;
        if self.last.is_some_and(|last| last.elapsed() < WARN_EVERY) {
            return None;
        }
        self.last = Some(Instant::now());
        Some(std::mem::take(&mut self.times))
    }
}
