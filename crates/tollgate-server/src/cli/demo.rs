//! `tollgate demo`: sends payments through two nodes and kills one of them while it works.
//!
//! Two nodes share a SQLite file and a dev chain. One of them is killed while it works; the other
//! takes over. The verdict is read from the chain's own blocks, not from Tollgate's records. With
//! `--keep` the second node then goes on, with its API.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::time::Instant;
use tollgate_devchain::{DevChain, DevChainOptions, RunningDevChain, dev_accounts};
use tollgate_engine::{CreateError, Unserved};
use tollgate_evm::endpoint::EndpointConfig;
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::{FeedFilter, Page};
use tollgate_model::{Address, Intent, RequestId, Seq, Submitter, Text, TxState, U256};
use tollgate_server::Api;
use tollgate_signer::{Key, LocalSigner};

use super::node::{run_until_stopped, stop_signal};
use super::{log, runtime};
use crate::cli::output::{errln, outln};
use crate::compose::{Access, Node, Sockets, bind, start};
use crate::config::{DatabaseUrl, LogFormat, NodeName, Settings, defaults};
use crate::failure::Failure;

const SUBMITTERS: usize = 4;
/// The node that stays.
const SECOND: &str = "second";
/// The longest that a demo may take.
const PATIENCE: Duration = Duration::from_secs(55);

#[derive(Args)]
pub(super) struct DemoArgs {
    /// Number of payments.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(10..=5_000))]
    intents: u64,
    /// Keep the second node running after the check, with its API on loopback.
    #[arg(long)]
    keep: bool,
    /// Port of the API with --keep; a free one if it is taken.
    #[arg(long, default_value_t = 8550, requires = "keep")]
    port: u16,
}

/// The transactions in the blocks of the chain.
#[derive(Clone, Copy, Default)]
struct ChainTally {
    mined: usize,
    gaps: usize,
    duplicates: usize,
    missing: usize,
}

pub(super) fn run(args: &DemoArgs) -> Result<ExitCode, Failure> {
    log(LogFormat::Pretty, "error");
    let folder = tempfile::tempdir()?;
    let stage = runtime()?;
    let doomed = runtime()?;
    let interrupted = stage.spawn(clean_up_when_told(folder.path().to_owned()));
    let options =
        DevChainOptions { block_interval: Some(Duration::from_millis(200)), ..Default::default() };
    let chain = stage.block_on(DevChain::start(options))?;
    let listener = if args.keep { Some(stage.block_on(listener(args.port))?) } else { None };
    let address = listener.as_ref().map(TcpListener::local_addr).transpose()?;
    let start = async |name: &str| -> Result<Node, Failure> {
        let mut settings = demo_settings(name, folder.path())?;
        settings.chain.rpc_urls = vec![EndpointConfig::new(chain.url())];
        // The first node is never asked over HTTP.
        let address = address.filter(|_| name == SECOND);
        let url = address.map_or_else(|| format!("http://{name}.invalid"), url);
        settings.node.advertise_url = Some(Text::lossy(&url));
        start(&settings, settings.node.listen, signer()?, Access::Open).await
    };
    let first = doomed.block_on(start("first"))?;
    let second = stage.block_on(start(SECOND))?;
    outln!(
        "Two nodes, one SQLite file, one dev chain; {} intents from {SUBMITTERS} accounts.",
        args.intents
    );
    let confirmed = play(args.intents, &stage, doomed, first, &api_of(&second)?)?;
    let verdict = judge(&chain, args.intents)?;
    let code = tell(args.intents, &confirmed, &verdict);
    if let Some(listener) = listener {
        // From here on an interrupt is a wish to stop, not to break off.
        interrupted.abort();
        tell_where(listener.local_addr()?, &chain);
        let sockets = Sockets { api: listener, operators: None, metrics: None };
        stage.block_on(run_until_stopped(second, sockets))?;
    } else {
        stage.block_on(second.stop());
    }
    Ok(code)
}

/// An interrupted demo leaves nothing behind.
async fn clean_up_when_told(folder: PathBuf) {
    stop_signal().await;
    let _ = std::fs::remove_dir_all(folder);
    errln!("\ninterrupted");
    std::process::exit(130);
}

/// The API's place on loopback: the port that was asked for, or a free one.
async fn listener(port: u16) -> Result<TcpListener, Failure> {
    let at = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    match bind(at(port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => bind(at(0)).await,
    }
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

fn tell_where(address: SocketAddr, chain: &RunningDevChain) {
    outln!("\nThe second node stays up.");
    outln!("page        {}/", url(address));
    outln!("API         {}", url(address));
    outln!("docs        {}/docs", url(address));
    outln!("dev chain   {}", chain.url());
    for account in dev_accounts().iter().take(SUBMITTERS) {
        outln!("account     {}", account.address);
    }
    outln!("Stop it with Ctrl-C; it leaves nothing behind.");
}

fn demo_settings(name: &str, folder: &Path) -> Result<Settings, Failure> {
    let mut settings = defaults()?;
    settings.node.node_name = NodeName(name.to_owned());
    settings.node.finality = FinalityRule::Confirmations(3);
    settings.database.url = DatabaseUrl::sqlite(&folder.join("demo.db"));
    settings.lease.duration = Duration::from_secs(2);
    settings.lease.renew_interval = Duration::from_millis(500);
    settings.lease.clock_skew_allowance = Duration::from_millis(100);
    settings.resubmit.interval = Duration::from_secs(2);
    settings.startup.wait = Duration::ZERO;
    settings.drain.wait = Duration::ZERO;
    Ok(settings)
}

fn signer() -> Result<LocalSigner, Failure> {
    let keys: Result<Vec<Key>, _> = dev_accounts()
        .iter()
        .take(SUBMITTERS)
        .map(|account| Key::from_bytes(&account.private_key))
        .collect();
    Ok(LocalSigner::new(keys?))
}

/// The figures of a run.
struct Played {
    confirmed: usize,
    takeover: Option<Duration>,
    took: Duration,
}

/// Half of the intents go to the first node, which is then killed; the rest to whoever takes them.
fn play(
    intents: u64,
    stage: &Runtime,
    doomed: Runtime,
    first: Node,
    second: &Api,
) -> Result<Played, Failure> {
    let begun = Instant::now();
    let bar = ProgressBar::new(intents);
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} final  {msg}")?);
    let half = intents / 2;
    let doomed_api = api_of(&first)?;
    for n in 0..half {
        let (submitter, request, intent) = order(&doomed_api, n)?;
        let (again, same) = (Some(request.clone()), intent.clone());
        let taken = doomed.block_on(doomed_api.engine.create(submitter, Some(request), intent));
        if let Err(CreateError::Unserved(Unserved::NotOwner(_))) = taken {
            // The account has moved to where it should be.
            stage.block_on(second.engine.create(submitter, again, same))?;
        } else {
            taken?;
        }
    }
    bar.set_message("killing the first node");
    let killed = Instant::now();
    // The runtime first: a node that is killed says goodbye to nobody.
    doomed.shutdown_background();
    drop((first, doomed_api));

    let takeover = stage.block_on(async {
        let mut takeover = None;
        for n in half..intents {
            let (submitter, request, intent) = order(second, n)?;
            loop {
                let created =
                    second.engine.create(submitter, Some(request.clone()), intent.clone()).await;
                match created {
                    Ok(_) => break,
                    Err(error) if killed.elapsed() > PATIENCE => return Err(error.into()),
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
            takeover.get_or_insert_with(|| {
                bar.set_message("the second node took over");
                killed.elapsed()
            });
        }
        Ok::<_, Failure>(takeover)
    })?;
    let confirmed = stage.block_on(follow(second, intents, &bar, begun))?;
    bar.finish_and_clear();
    Ok(Played { confirmed, takeover, took: begun.elapsed() })
}

fn api_of(node: &Node) -> Result<Api, Failure> {
    node.chains.first_api().ok_or_else(|| "the node serves no chain".into())
}

fn order(api: &Api, n: u64) -> Result<(Submitter, RequestId, Intent), Failure> {
    let account = dev_accounts()[n as usize % SUBMITTERS].address;
    let submitter = Submitter::new(api.engine.chain_id(), account);
    let request = RequestId::new(format!("order-{n}"))?;
    // The value tells the payments apart on the chain.
    Ok((submitter, request, Intent::transfer(Address::repeat_byte(0xd3), U256::from(n + 1))))
}

/// Reads the feed to its end.
async fn follow(
    api: &Api,
    intents: u64,
    bar: &ProgressBar,
    begun: Instant,
) -> Result<usize, Failure> {
    let (mut after, mut confirmed, mut seen) = (Seq::MIN, 0, 0);
    while seen < intents && begun.elapsed() < PATIENCE {
        let asked = Page::new(Page::MAX)?;
        let page =
            api.store.completions(FeedFilter::finals(api.engine.chain_id()), after, asked).await?;
        after = page.next(after, asked);
        for entry in &page.items {
            seen += 1;
            confirmed += usize::from(entry.state == TxState::Confirmed);
        }
        bar.set_position(seen);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(confirmed)
}

/// Reads every block of the chain: each payment exactly once, each account's nonces without a gap.
fn judge(chain: &RunningDevChain, intents: u64) -> Result<ChainTally, Failure> {
    let ask = |method: &str, params: serde_json::Value| {
        chain.view().call(method, &params).map_err(|error| format!("{method}: {error:?}"))
    };
    let number = |value: &serde_json::Value| {
        let digits = value.as_str().unwrap_or_default().trim_start_matches("0x");
        u64::from_str_radix(digits, 16).map_err(|error| error.to_string())
    };
    let head = number(&ask("eth_blockNumber", json!([]))?)?;
    let mut payments: HashMap<u64, usize> = HashMap::new();
    let mut nonces: HashMap<String, Vec<u64>> = HashMap::new();
    for block in 0..=head {
        let block = ask("eth_getBlockByNumber", json!([format!("{block:#x}"), true]))?;
        for tx in block["transactions"].as_array().into_iter().flatten() {
            *payments.entry(number(&tx["value"])?).or_default() += 1;
            let from = tx["from"].as_str().unwrap_or_default().to_owned();
            nonces.entry(from).or_default().push(number(&tx["nonce"])?);
        }
    }
    let mut verdict = ChainTally { mined: payments.values().sum(), ..ChainTally::default() };
    verdict.duplicates = payments.values().map(|count| count - 1).sum();
    verdict.missing = (1..=intents).filter(|value| !payments.contains_key(value)).count();
    for mut used in nonces.into_values() {
        used.sort_unstable();
        verdict.gaps += used.iter().enumerate().filter(|(n, nonce)| **nonce != *n as u64).count();
    }
    Ok(verdict)
}

/// Every payment was made exactly once, by Tollgate's records and by the chain's.
fn is_good(intents: u64, confirmed: usize, verdict: &ChainTally) -> bool {
    confirmed as u64 == intents
        && verdict.mined as u64 == intents
        && verdict.gaps + verdict.duplicates + verdict.missing == 0
}

fn tell(intents: u64, played: &Played, verdict: &ChainTally) -> ExitCode {
    let good = is_good(intents, played.confirmed, verdict);
    match played.takeover {
        Some(takeover) => outln!("takeover    {:.1} s after the kill", takeover.as_secs_f64()),
        None => outln!("takeover    none was seen"),
    }
    outln!("confirmed   {} of {intents}, in {:.1} s", played.confirmed, played.took.as_secs_f64());
    outln!("on chain    {} mined, {} missing", verdict.mined, verdict.missing);
    outln!("gaps        {}", verdict.gaps);
    outln!("duplicates  {}", verdict.duplicates);
    outln!("{}", if good { "The chain agrees: each exactly once." } else { "FAILED" });
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_is_good_only_if_everything_is_there_exactly_once() {
        let good = ChainTally { mined: 10, gaps: 0, duplicates: 0, missing: 0 };
        assert!(is_good(10, 10, &good));
        assert!(!is_good(10, 9, &good), "not all were confirmed");
        assert!(!is_good(10, 10, &ChainTally { mined: 11, duplicates: 1, ..good }));
        assert!(!is_good(10, 10, &ChainTally { mined: 9, missing: 1, ..good }));
        assert!(!is_good(10, 10, &ChainTally { gaps: 1, ..good }));
    }
}
