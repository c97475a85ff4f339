//! `tollgate serve`, and how a node is served until it is stopped.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tollgate_model::secret::masked;
use tollgate_server::{
    ConnectionLimits, Listener, ListenerKind, metrics_router, router, serve_listener,
};
use tracing::{info, warn};

use super::logging::log;
use super::runtime;
use crate::compose::{Access, Keyring, Node, Sockets, start, survive_hangups};
use crate::config::{Loaded, NodeFlags, Purpose, Refused, Settings, load};
use crate::failure::Failure;
use crate::service_manager::ServiceManager;

/// The longest time for each step of a stop: releasing the leases, answering open requests, leaving
/// the list of nodes.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections of the operators' listener, besides those of the API's (I13).
const OPERATOR_CONNECTIONS_MAX: usize = 256;

#[derive(Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    flags: NodeFlags,
}

pub(super) fn serve(args: ServeArgs) -> Result<ExitCode, Failure> {
    crate::features::check_for_serving()?;
    let loaded = load(args.flags.into_flags(), Purpose::Serve)?;
    begin_log(&loaded, "info");
    let settings = loaded.settings;
    let signer = Keyring::open(&settings.keys).map_err(Refused::from)?;
    runtime()?.block_on(async {
        survive_hangups();
        let sockets = Sockets::bind(&settings).await?;
        let address = sockets.api.local_addr()?;
        let access = if settings.node.no_auth { Access::Open } else { Access::ApiKeys };
        let node = start(&settings, address, signer, access).await?;
        let tls = node.tls.api.is_some();
        // Operators have the pages on their own listener, if there is one.
        let operators = sockets.operators.as_ref().map(TcpListener::local_addr).transpose()?;
        let has_tls = if operators.is_some() { node.tls.operators.is_some() } else { tls };
        log_start(
            &settings,
            access,
            (address, tls),
            &page_url(operators.unwrap_or(address), has_tls),
        );
        run_until_stopped(node, sockets).await
    })
}

/// Says where the node listens, and what is switched off.
pub(super) fn log_start(
    settings: &Settings,
    access: Access,
    (listen, tls): (SocketAddr, bool),
    page: &str,
) {
    let no_auth = access == Access::Open;
    let metrics_listen = settings.metrics.listen.map(|address| address.to_string());
    let off = settings.switched_off().join(", ");
    info!(%listen, page, metrics_listen, tls, no_auth, off, "listening");
}

/// The address of the pages for operators.
pub(super) fn page_url(address: SocketAddr, tls: bool) -> String {
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{address}/")
}

pub(super) fn begin_log(loaded: &Loaded, default_level: &str) {
    log(loaded.settings.log.format, default_level);
    for warning in loaded.warnings() {
        warn!("{}", masked(warning));
    }
}

/// Serves until a signal, then releases every lease and stops. A second signal ends the process at
/// once.
pub(super) async fn run_until_stopped(node: Node, sockets: Sockets) -> Result<ExitCode, Failure> {
    let stop_requested = stop_signal();
    let reloading = tokio::spawn(node.tls.clone().keep_reloading());
    let (stop, stopped) = watch::channel(false);
    let manager = ServiceManager::from_env();
    let status = sockets.api.local_addr().map(|address| format!("serving on {address}"));
    let mut serving = tokio::spawn(serve_all(&node, sockets, &stopped));
    manager.ready(&status.unwrap_or_default());
    let keep_alive = manager.keep_alive();
    tokio::select! {
        () = stop_requested => {}
        ended = &mut serving => ended?,
    }
    info!("shutting down");
    manager.stopping();
    tokio::spawn(async {
        stop_signal().await;
        super::logging::flush();
        std::process::exit(130);
    });
    if tokio::time::timeout(STOP_TIMEOUT + node.drain_wait(), node.drain()).await.is_err() {
        warn!("not all leases were released; they expire");
    }
    stop.send_replace(true);
    reloading.abort();
    if tokio::time::timeout(STOP_TIMEOUT, &mut serving).await.is_err() {
        warn!("open requests were aborted");
        serving.abort();
    }
    if tokio::time::timeout(STOP_TIMEOUT, node.stop()).await.is_err() {
        warn!("the node was not removed from the list of nodes; its entry expires");
    }
    keep_alive.inspect(JoinHandle::abort);
    Ok(ExitCode::SUCCESS)
}

/// Serves all sockets of a node until it is told to stop.
fn serve_all(
    node: &Node,
    sockets: Sockets,
    stopped: &watch::Receiver<bool>,
) -> impl Future<Output = ()> + Send + use<> {
    let routes = router(node.chains.clone());
    let limits = node.connections;
    let kind = match &sockets.operators {
        Some(_) => ListenerKind::Callers,
        None => ListenerKind::All,
    };
    let api = Listener { socket: sockets.api, kind, tls: node.tls.api.clone() };
    let of_operators = sockets.operators.map(|socket| {
        let tls = node.tls.operators.clone();
        Listener { socket, kind: ListenerKind::Operators, tls }
    });
    let of_metrics =
        sockets.metrics.map(|socket| Listener { socket, kind: ListenerKind::All, tls: None });
    let few = ConnectionLimits { max: limits.max.min(OPERATOR_CONNECTIONS_MAX), ..limits };
    let metrics = metrics_router(node.chains.clone());
    let all = [
        (Some(api), routes.clone(), limits),
        (of_operators, routes, few),
        (of_metrics, metrics, few),
    ];
    let each = all.into_iter().filter_map(|(listener, routes, limits)| {
        let mut stopped = stopped.clone();
        let stop = async move {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        Some(serve_listener(listener?, routes, limits, stop))
    });
    let each: Vec<_> = each.collect();
    async move {
        join_all(each).await;
    }
}

/// Completes at SIGINT or SIGTERM. Listens from the call on, not only from the first poll.
pub(super) fn stop_signal() -> impl Future<Output = ()> + Send {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    async move {
        let mut received: FuturesUnordered<_> = signals
            .into_iter()
            .flatten()
            .map(|mut signal| async move { signal.recv().await })
            .collect();
        if received.next().await.is_none() {
            // No signal handler could be installed: only SIGKILL ends the process.
            std::future::pending().await
        }
    }
}
