//! Sockets: accepts connections, refuses them on request, and can close one without an answer,
//! which a web framework alone would not.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, FromRequestParts, State, WebSocketUpgrade};
use axum::http::{Request, Response, StatusCode};
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use axum::routing::get;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tower::ServiceExt as _;

use super::endpoint::{Endpoint, PortState};
use super::{http, pages, ws};

/// Open connections, at most; further ones wait.
const CONNECTIONS_MAX: usize = 1_024;

const BODY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The pause before the port is tried again.
const REBIND_WAIT: Duration = Duration::from_millis(20);

/// Serves an endpoint until the task is dropped. While closed, connections are refused.
pub(crate) async fn serve(listener: TcpListener, endpoint: Arc<Endpoint>) -> io::Result<()> {
    let address = listener.local_addr()?;
    let app = router(endpoint.clone(), address.ip());
    let mut listener = Some(listener);
    loop {
        let Some(open) = listener.take() else {
            listener = bind_again(address).await;
            continue;
        };
        accept_until_hang_up(&open, &app, &endpoint).await;
        let mut port_state = endpoint.port_state.subscribe();
        if port_state.borrow().is_closed {
            drop(open);
            // The endpoint is alive as long as this runs: the wait can't fail.
            let _ = port_state.wait_for(|port_state| !port_state.is_closed).await;
        } else {
            listener = Some(open);
        }
    }
}

async fn bind_again(address: SocketAddr) -> Option<TcpListener> {
    let bound = TcpListener::bind(address).await.ok();
    if bound.is_none() {
        tokio::time::sleep(REBIND_WAIT).await;
    }
    bound
}

enum Event {
    Connection(io::Result<(TcpStream, SocketAddr)>),
    Ended,
    HangUp,
}

/// Accepts connections. Returns, with all of them closed, when the endpoint hangs up.
async fn accept_until_hang_up(listener: &TcpListener, app: &Router, endpoint: &Arc<Endpoint>) {
    let mut port_state = endpoint.port_state.subscribe();
    let PortState { epoch, .. } = *port_state.borrow_and_update();
    let mut connections = JoinSet::new();
    loop {
        let event = tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => {
                Event::Connection(accepted)
            }
            Some(_) = connections.join_next() => Event::Ended,
            _ = port_state.wait_for(|port_state| port_state.epoch != epoch) => Event::HangUp,
        };
        match event {
            Event::Connection(Ok((stream, _))) => {
                connections.spawn(connection(stream, app.clone(), endpoint.clone(), epoch));
            }
            // Out of file handles or the like: wait for some to come back.
            Event::Connection(Err(_)) => tokio::time::sleep(REBIND_WAIT).await,
            Event::Ended => {}
            Event::HangUp => return,
        }
    }
}

/// Serves one connection that was accepted in `epoch`.
async fn connection(stream: TcpStream, app: Router, endpoint: Arc<Endpoint>, epoch: u64) {
    // Small answers must not wait for more.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let (app, endpoint) = (app.clone(), endpoint.clone());
        async move {
            // The task that closes connections may run later than a request that was sent after the
            // hang-up: such a request is not answered either.
            if endpoint.port_state.borrow().epoch != epoch {
                return Err(io::Error::from(io::ErrorKind::ConnectionReset));
            }
            let response: Response<Body> = match app.oneshot(request.map(Body::new)).await {
                Ok(response) => response,
                Err(never) => match never {},
            };
            let closes = response.extensions().get::<http::CloseConnection>().is_some();
            // An error of the service closes the connection with nothing written.
            if closes { Err(io::Error::from(io::ErrorKind::ConnectionReset)) } else { Ok(response) }
        }
    });
    // A connection that breaks is the caller's business.
    let _ =
        http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades().await;
}

fn router(endpoint: Arc<Endpoint>, listens_on: IpAddr) -> Router {
    Router::new()
        .route("/", get(upgrade).post(post))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(listens_on, pages::refuse_foreign))
        .with_state(endpoint)
}

async fn post(State(endpoint): State<Arc<Endpoint>>, body: Bytes) -> Response<Body> {
    http::post(endpoint, body).await
}

async fn upgrade(
    State(endpoint): State<Arc<Endpoint>>,
    request: axum::extract::Request,
) -> Response<Body> {
    if !endpoint.settings().features.web_socket {
        return StatusCode::NOT_FOUND.into_response();
    }
    let (mut parts, _) = request.into_parts();
    match WebSocketUpgrade::from_request_parts(&mut parts, &endpoint).await {
        Ok(upgrade) => upgrade.on_upgrade(|socket| ws::serve(socket, endpoint)),
        Err(refused) => refused.into_response(),
    }
}
