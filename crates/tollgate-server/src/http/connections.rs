//! Accepts connections and serves HTTP on them, within limits (I13).
//!
//! A connection that does nothing is closed after a while, and there are never more of them than
//! the limits allow. When all are taken, a few more are still accepted and answered about the
//! node's health only, so that a flood of callers does not look like a dead node.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use tollgate_api::ErrorCode;

use super::parse_errors::WithParseErrors;
use super::problem::Problem;

/// The time for a connection of the reserve to send its request; others wait for its place.
const RESERVE_HEADER_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest time for which data may stay unacknowledged before a connection is closed.
const UNREAD_TIMEOUT: Duration = Duration::from_secs(60);
/// The pause after a failed accept, when the system has no files or memory left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The shortest time between two log lines about the same failure.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// The paths that are served over a connection of the reserve.
const HEALTH_PATHS: [&str; 2] = ["/livez", "/readyz"];

/// The number of connections, and their longest time without a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionLimits {
    /// Connections at once, besides a small reserve for health checks.
    pub max: usize,
    /// From the acceptance of a connection to the end of its first request's head.
    pub header_timeout: Duration,
    /// From the end of an answer to the end of the next request's head.
    pub idle_timeout: Duration,
}

impl ConnectionLimits {
    /// Connections beyond the maximum, for health checks.
    pub const RESERVE: usize = 32;
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        let (header_timeout, idle_timeout) = (Duration::from_secs(10), Duration::from_secs(75));
        Self { max: 4_096, header_timeout, idle_timeout }
    }
}

/// Marks a request that came over a connection of the reserve.
#[derive(Clone, Copy)]
struct FromReserve;

/// Serves until `stop` is over, then until every request that has begun is answered.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    limits: ConnectionLimits,
    stop: impl Future<Output = ()>,
) {
    let max = limits.max.clamp(1, Semaphore::MAX_PERMITS);
    let (ordinary, reserve) =
        (Arc::new(Semaphore::new(max)), Arc::new(Semaphore::new(ConnectionLimits::RESERVE)));
    let (stopping, stopped) = watch::channel(false);
    let (mut full, mut failing) = (RateLimitedLog::default(), RateLimitedLog::default());
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
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
        let (permit, is_reserve) = match ordinary.clone().try_acquire_owned() {
            Ok(permit) => (Some(permit), false),
            Err(_) => (reserve.clone().try_acquire_owned().ok(), true),
        };
        if is_reserve && let Some(times) = full.due() {
            warn!(max, times, "connection limit reached; only health checks are answered");
        }
        if let Some(permit) = permit {
            let connection = Connection { stream, limits, is_reserve, _permit: permit };
            tokio::spawn(connection.serve(router.clone(), stopped.clone()));
        }
    }
    drop(listener);
    stopping.send_replace(true);
    for (semaphore, count) in [(ordinary, max), (reserve, ConnectionLimits::RESERVE)] {
        let _ = semaphore.acquire_many(u32::try_from(count).unwrap_or(u32::MAX)).await;
    }
}

struct Connection {
    stream: TcpStream,
    limits: ConnectionLimits,
    is_reserve: bool,
    _permit: OwnedSemaphorePermit,
}

impl Connection {
    async fn serve(self, router: Router, mut stopped: watch::Receiver<bool>) {
        let Self { stream, limits, is_reserve, _permit } = self;
        // Both make it better, neither is needed.
        let _ = stream.set_nodelay(true);
        let unread = u32::try_from(UNREAD_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, unread);
        let header_timeout = match is_reserve {
            true => limits.header_timeout.min(RESERVE_HEADER_TIMEOUT),
            false => limits.header_timeout,
        };
        let (routes, first_request) = (TowerToHyperService::new(router), Notify::new());
        let service = service_fn(|mut request: hyper::Request<Incoming>| {
            first_request.notify_one();
            if is_reserve {
                request.extensions_mut().insert(FromReserve);
            }
            routes.call(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .keep_alive(!is_reserve)
            .header_read_timeout(limits.idle_timeout.max(header_timeout))
            .serve_connection(TokioIo::new(WithParseErrors::new(stream)), service);
        let mut connection = std::pin::pin!(connection);
        let mut too_late = std::pin::pin!(sleep(header_timeout));
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
                    debug!(?header_timeout, "connection closed: no request in time");
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

/// Refuses everything but health checks over a connection of the reserve.
pub(crate) async fn refuse_beyond_health(request: Request, next: Next) -> Response {
    let is_reserve = request.extensions().get::<FromReserve>().is_some();
    if is_reserve && !HEALTH_PATHS.contains(&request.uri().path()) {
        let detail = "all connections of this node are taken (http.max_connections)";
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
struct RateLimitedLog {
    last: Option<Instant>,
    times: u64,
}

impl RateLimitedLog {
    /// The number of times since the last log line, if it is to be logged now.
    fn due(&mut self) -> Option<u64> {
        self.times += 1;
        if self.last.is_some_and(|last| last.elapsed() < WARN_EVERY) {
            return None;
        }
        self.last = Some(Instant::now());
        Some(std::mem::take(&mut self.times))
    }
}
