//! `tollgate serve` and `tollgate dev`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tollgate_devchain::{DevChain, RunningDevChain, dev_accounts};
use tollgate_evm::endpoint::EndpointConfig;
use tollgate_evm::signer::{Key, LocalSigner};
use tollgate_model::Address;
use tollgate_model::port::signer::Signer;
use tollgate_model::secret::masked;
use tollgate_server::{router, serve as serve_http};
use tracing::{info, warn};

use super::devchain::new_chain;
use super::{log, runtime};
use crate::compose::{Database, Failure, Keyring, Node, NodeConfig, bind, start};
use crate::config::{Loaded, NodeFlags, Purpose, Refused, Settings, duration, load};

/// The time for each step of a shutdown: answering callers, releasing leases, leaving the list of nodes.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Accounts that `dev` prints.
const ACCOUNTS_SHOWN: usize = 3;

#[derive(Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    flags: NodeFlags,
}

#[derive(Args)]
pub(super) struct DevArgs {
    #[command(flatten)]
    flags: NodeFlags,
    /// Time between two blocks of the dev chain.
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "DURATION")]
    block_interval: Duration,
}

pub(super) fn serve(args: ServeArgs) -> Result<ExitCode, Failure> {
    let loaded = load(args.flags.into_flags(), Purpose::Serve)?;
    begin_log(&loaded, "info");
    let settings = loaded.settings;
    let signer = Keyring::open(&settings.keys).map_err(Refused::from)?;
    runtime()?.block_on(async {
        let listener = bind(settings.listen).await?;
        let config = NodeConfig::new(&settings, listener.local_addr()?);
        let node = start(config, signer).await?;
        info!(address = %listener.local_addr()?, no_auth = settings.no_auth, "listening");
        run_until_stopped(node, listener).await
    })
}

pub(super) fn dev(args: DevArgs) -> Result<ExitCode, Failure> {
    let loaded = load(args.flags.into_flags(), Purpose::Dev)?;
    begin_log(&loaded, "warn,tollgate=info");
    let mut settings = loaded.settings;
    if !settings.listen.ip().is_loopback() {
        return Err("listen: dev needs no key, so it listens on loopback only".into());
    }
    let mut signer = Keyring::open(&settings.keys).map_err(Refused::from)?;
    if settings.keys.is_empty() || settings.chain.endpoints.is_empty() {
        signer = signer.and(dev_signer()?);
    }
    runtime()?.block_on(async {
        let listener = bind(settings.listen).await?;
        let mut made = None;
        if settings.chain.endpoints.is_empty() {
            made = Some(make_chain(&mut settings, args.block_interval).await?);
        }
        let address = listener.local_addr()?;
        let mut accounts = signer.accounts();
        // Those of the dev chain come first, in the order that everybody knows.
        let known = |account: &Address| dev_accounts().iter().position(|a| a.address == *account);
        accounts.sort_by_key(|account| known(account).unwrap_or(usize::MAX));
        let node = start(NodeConfig::new(&settings, address), signer).await?;
        println!("API        http://{address}");
        for account in accounts.iter().take(ACCOUNTS_SHOWN) {
            println!("account    {account}");
        }
        let done = run_until_stopped(node, listener).await;
        drop(made);
        done
    })
}

/// Starts a dev chain, and makes a database that is deleted with the process unless one is configured.
async fn make_chain(
    settings: &mut Settings,
    block_interval: Duration,
) -> Result<(RunningDevChain, Option<tempfile::TempDir>), Failure> {
    let chain = DevChain::start(new_chain(block_interval)).await?;
    settings.chain.endpoints.push(EndpointConfig::new(chain.url()));
    println!("dev chain  {}", chain.url());
    if settings.database_is_given {
        return Ok((chain, None));
    }
    let folder = tempfile::tempdir()?;
    settings.database = Database::file(folder.path().join("tollgate.db"));
    Ok((chain, Some(folder)))
}

fn dev_signer() -> Result<LocalSigner, Failure> {
    let keys: Result<Vec<Key>, _> =
        dev_accounts().iter().map(|account| Key::from_bytes(&account.private_key)).collect();
    Ok(LocalSigner::new(keys?))
}

fn begin_log(loaded: &Loaded, default_level: &str) {
    log(loaded.settings.log, default_level);
    for warning in loaded.warnings() {
        warn!("{}", masked(warning));
    }
}

/// Serves until a stop signal arrives, then releases every lease. A second signal ends the process at once.
pub(super) async fn run_until_stopped(
    node: Node,
    listener: TcpListener,
) -> Result<ExitCode, Failure> {
    let stop_requested = stop_signal();
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async {
        let _ = stopped.await;
    };
    let routes = router(node.api.clone());
    let mut serving = tokio::spawn(serve_http(listener, routes, node.connections, stopped));
    tokio::select! {
        () = stop_requested => {}
        ended = &mut serving => ended?,
    }
    info!("shutting down");
    tokio::spawn(async {
        stop_signal().await;
        std::process::exit(130);
    });
    if tokio::time::timeout(STOP_PATIENCE + node.drain_wait(), node.drain()).await.is_err() {
        warn!("not all leases were released; they will expire");
    }
    let _ = stop.send(());
    if tokio::time::timeout(STOP_PATIENCE, &mut serving).await.is_err() {
        warn!("open requests were aborted");
        serving.abort();
    }
    if tokio::time::timeout(STOP_PATIENCE, node.stop()).await.is_err() {
        warn!("node was not removed from the list of nodes; its entry will expire");
    }
    Ok(ExitCode::SUCCESS)
}

/// Waits for SIGINT or SIGTERM. Signals count from the call on, not only once the future is polled.
pub(super) fn stop_signal() -> impl Future<Output = ()> + Send {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    async move {
        let mut heard: FuturesUnordered<_> = signals
            .into_iter()
            .flatten()
            .map(|mut signal| async move { signal.recv().await })
            .collect();
        if heard.next().await.is_none() {
            // No signal handler could be installed: only SIGKILL ends the process.
            std::future::pending().await
        }
    }
}
