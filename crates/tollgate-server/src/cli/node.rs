//! `tollgate serve` and `tollgate dev`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tollgate_devchain::{DevChain, DevChainOptions, dev_accounts};
use tollgate_engine::EngineOptions;
use tollgate_evm::signer::{Key, LocalSigner};
use tollgate_model::Nonce;
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::{Mode, StrictAdvance};
use tollgate_model::port::LeaseTerms;
use tollgate_server::{Api, router};
use tracing::info;

use super::{LogFormat, duration, log, runtime};
use crate::compose::{Database, Failure, NodeConfig, start, unix_seconds};

/// The database where nobody names one.
const DEFAULT_DATABASE: &str = "sqlite:tollgate.db";

/// What `serve` and `dev` have in common.
#[derive(Args)]
struct NodeArgs {
    /// postgres://… or sqlite:PATH
    #[arg(long, env = "TOLLGATE_DATABASE_URL", default_value = DEFAULT_DATABASE)]
    database_url: String,
    /// Where the API listens.
    #[arg(long, env = "TOLLGATE_LISTEN", default_value = "127.0.0.1:8550")]
    listen: SocketAddr,
    /// The node's name; a boot id is added to it.
    #[arg(long, env = "TOLLGATE_NODE_NAME", default_value = "tollgate")]
    node_name: String,
    /// pipelined or strict
    #[arg(long, env = "TOLLGATE_MODE", default_value = "pipelined", value_parser = mode)]
    mode: Mode,
    /// How many slots of a submitter may be open at once.
    #[arg(long, env = "TOLLGATE_WINDOW", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    window: u32,
    /// The first nonce of a submitter that is new here.
    #[arg(long, env = "TOLLGATE_NONCE_START_FROM", default_value_t = 0)]
    nonce_start_from: u64,
    /// When strict mode opens the next slot: final or mined
    #[arg(long, env = "TOLLGATE_STRICT_ADVANCE", default_value = "final", value_parser = advance)]
    strict_advance: StrictAdvance,
    /// confirmations:N, safe or finalized
    #[arg(long, env = "TOLLGATE_FINALITY", default_value = "confirmations:20", value_parser = finality)]
    finality: FinalityRule,
    #[arg(long, env = "TOLLGATE_LEASE_DURATION", default_value = "10s", value_parser = duration)]
    lease_duration: Duration,
    #[arg(long, env = "TOLLGATE_LEASE_RENEW_INTERVAL", default_value = "3s", value_parser = duration)]
    lease_renew_interval: Duration,
    /// How often what no block has picked up is sent again.
    #[arg(long, env = "TOLLGATE_RESUBMIT_INTERVAL", default_value = "30s", value_parser = duration)]
    resubmit_interval: Duration,
    /// pretty or json; the level is RUST_LOG's
    #[arg(long, env = "TOLLGATE_LOG", value_enum, default_value = "pretty")]
    log: LogFormat,
}

#[derive(Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// http(s):// or ws(s)://; may be given more than once
    #[arg(long, env = "TOLLGATE_RPC_URL", value_delimiter = ',', required = true)]
    rpc_url: Vec<String>,
    /// A file with one hex key per line; may be given more than once
    #[arg(long, env = "TOLLGATE_PRIVATE_KEY_FILE", value_delimiter = ',')]
    private_key_file: Vec<PathBuf>,
    /// A folder with encrypted keys.
    #[arg(long, env = "TOLLGATE_KEYSTORE", requires = "keystore_password_file")]
    keystore: Option<PathBuf>,
    #[arg(long, env = "TOLLGATE_KEYSTORE_PASSWORD_FILE")]
    keystore_password_file: Option<PathBuf>,
    /// Serve without API keys: for tests and private networks.
    #[arg(long, env = "TOLLGATE_NO_AUTH")]
    no_auth: bool,
}

#[derive(Args)]
pub(super) struct DevArgs {
    #[command(flatten)]
    node: NodeArgs,
    /// A chain of yours instead of the dev chain; may be given more than once
    #[arg(long, env = "TOLLGATE_RPC_URL", value_delimiter = ',')]
    rpc_url: Vec<String>,
    /// How often the dev chain makes a block.
    #[arg(long, default_value = "1s", value_parser = duration)]
    block_interval: Duration,
}

pub(super) fn serve(args: ServeArgs) -> Result<ExitCode, Failure> {
    log(args.node.log, "info");
    if !args.no_auth {
        return Err(
            "there are no API keys: start with --no-auth on a network that you trust".into()
        );
    }
    let signer = signer(&args)?;
    let config = args.node.config(args.rpc_url)?;
    runtime()?.block_on(async {
        let api = start(config, signer).await?;
        listen(api, args.node.listen).await
    })
}

pub(super) fn dev(mut args: DevArgs) -> Result<ExitCode, Failure> {
    log(args.node.log, "warn,tollgate=info");
    if !args.node.listen.ip().is_loopback() {
        return Err("dev needs no key, so it listens on loopback only".into());
    }
    runtime()?.block_on(async {
        let mut urls = args.rpc_url;
        let (mut chain, mut folder) = (None, None);
        if urls.is_empty() {
            let block_interval = Some(args.block_interval);
            let mut options = DevChainOptions { block_interval, ..Default::default() };
            // Each start is another chain, and a database that belongs to an earlier one is refused
            // instead of being worked on with the wrong nonces.
            options.chain.genesis_timestamp = unix_seconds();
            let started = DevChain::start(options).await?;
            urls.push(started.url());
            println!("dev chain  {}", started.url());
            chain = Some(started);
            if args.node.database_url == DEFAULT_DATABASE {
                // The chain lives as long as this process, so by default the database does too.
                let temporary = tempfile::tempdir()?;
                let file = temporary.path().join("tollgate.db");
                args.node.database_url = format!("sqlite:{}", file.display());
                folder = Some(temporary);
            }
        }
        let keys: Result<Vec<Key>, _> =
            dev_accounts().iter().map(|account| Key::from_bytes(&account.private_key)).collect();
        let api = start(args.node.config(urls)?, LocalSigner::new(keys?)).await?;
        println!("API        http://{}", args.node.listen);
        for account in dev_accounts().iter().take(3) {
            println!("account    {}", account.address);
        }
        let done = listen(api, args.node.listen).await;
        drop((chain, folder));
        done
    })
}

/// Serves until it is told to stop, then lets every lease go.
async fn listen(api: Api, address: SocketAddr) -> Result<ExitCode, Failure> {
    let listener = tokio::net::TcpListener::bind(address).await?;
    info!(%address, "listening");
    let engine = api.engine.clone();
    axum::serve(listener, router(api)).with_graceful_shutdown(told_to_stop()).await?;
    engine.stop().await;
    Ok(ExitCode::SUCCESS)
}

async fn told_to_stop() {
    let interrupted = tokio::signal::ctrl_c();
    let Ok(mut terminated) =
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
    else {
        let _ = interrupted.await;
        return;
    };
    tokio::select! {
        _ = interrupted => {}
        _ = terminated.recv() => {}
    }
}

fn signer(args: &ServeArgs) -> Result<LocalSigner, Failure> {
    let mut signer = LocalSigner::new([]);
    for file in &args.private_key_file {
        signer = signer.and(LocalSigner::from_key_file(file)?);
    }
    if let Ok(list) = std::env::var("TOLLGATE_PRIVATE_KEYS") {
        signer = signer.and(LocalSigner::from_key_list(&list)?);
    }
    if let (Some(folder), Some(password)) = (&args.keystore, &args.keystore_password_file) {
        let password = std::fs::read_to_string(password)?;
        signer = signer.and(LocalSigner::from_keystore_dir(folder, password.trim_end())?);
    }
    Ok(signer)
}

impl NodeArgs {
    fn config(&self, rpc_urls: Vec<String>) -> Result<NodeConfig, Failure> {
        let mut engine = EngineOptions {
            lease: LeaseTerms::new(
                self.lease_duration,
                self.lease_renew_interval,
                LeaseTerms::default().clock_skew_allowance().min(self.lease_duration / 2),
            )?,
            finality: self.finality,
            resubmit_interval: self.resubmit_interval,
            ..EngineOptions::default()
        };
        engine.nonces.mode = self.mode;
        engine.nonces.window = self.window;
        engine.nonces.strict_advance = self.strict_advance;
        Ok(NodeConfig {
            name: self.node_name.clone(),
            database: Database::parse(&self.database_url)?,
            rpc_urls,
            start_from: Nonce::new(self.nonce_start_from)?,
            engine,
        })
    }
}

fn mode(text: &str) -> Result<Mode, String> {
    match text {
        "pipelined" => Ok(Mode::Pipelined),
        "strict" => Ok(Mode::Strict),
        _ => Err("must be pipelined or strict".to_owned()),
    }
}

fn advance(text: &str) -> Result<StrictAdvance, String> {
    match text {
        "final" => Ok(StrictAdvance::Final),
        "mined" => Ok(StrictAdvance::Mined),
        _ => Err("must be final or mined".to_owned()),
    }
}

fn finality(text: &str) -> Result<FinalityRule, String> {
    match text {
        "safe" => Ok(FinalityRule::Safe),
        "finalized" => Ok(FinalityRule::Finalized),
        other => match other.strip_prefix("confirmations:").map(str::parse) {
            Some(Ok(count)) if count > 0 => Ok(FinalityRule::Confirmations(count)),
            _ => Err("must be confirmations:N (N above 0), safe or finalized".to_owned()),
        },
    }
}
