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

/// How long callers have to get their answers once the node is told to stop, and the node to let
/// its leases go.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Accounts that `dev` names.
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
    /// How often the dev chain makes a block.
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
        run_until_told(node, listener).await
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
        let done = run_until_told(node, listener).await;
        drop(made);
        done
    })
}

/// A dev chain for this process, and a database that lives as long, unless another one was named.
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

/// Serves until it is told to stop, then lets every lease go. Told twice, it stops at once.
pub(super) async fn run_until_told(node: Node, listener: TcpListener) -> Result<ExitCode, Failure> {
    let told = told_to_stop();
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = async {
        let _ = stopped.await;
    };
    let routes = router(node.api.clone());
    let mut serving = tokio::spawn(serve_http(listener, routes, node.connections, stopped));
    tokio::select! {
        () = told => {}
        ended = &mut serving => ended?,
    }
    info!("stopping");
    tokio::spawn(async {
        told_to_stop().await;
        std::process::exit(130);
    });
    if tokio::time::timeout(STOP_PATIENCE + node.drain_wait(), node.drain()).await.is_err() {
        warn!("not all leases were let go: they run out by themselves");
    }
    let _ = stop.send(());
    if tokio::time::timeout(STOP_PATIENCE, &mut serving).await.is_err() {
        warn!("callers that still waited were cut off");
        serving.abort();
    }
    if tokio::time::timeout(STOP_PATIENCE, node.stop()).await.is_err() {
        warn!("not taken off the list of nodes: the entry grows old by itself");
    }
    Ok(ExitCode::SUCCESS)
}

/// An interrupt from the keyboard, or the system's wish that it ends. Heard from the moment on that
/// this is called, not only once it is waited for.
pub(super) fn told_to_stop() -> impl Future<Output = ()> + Send {
    use tokio::signal::unix::{SignalKind, signal};
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    async move {
        let mut heard: FuturesUnordered<_> = signals
            .into_iter()
            .flatten()
            .map(|mut signal| async move { signal.recv().await })
            .collect();
        if heard.next().await.is_none() {
            // No signal can be heard here: only the outright kind ends it.
            std::future::pending().await
        }
    }
}
