//! `tollgate dev`: a node on loopback, with a chain, accounts and a database where none are given.
//!
//! Prints what is needed for the first call, and says when a transaction waits for a block that does not come.

mod standstill;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tollgate_api::format_duration;
use tollgate_devchain::{DevChain, RunningDevChain, dev_account, dev_accounts};
use tollgate_evm::endpoint::EndpointConfig;
use tollgate_model::Address;
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::signer::Signer;
use tollgate_server::Chains;
use tollgate_signer::{Key, LocalSigner};

use super::devchain::new_chain;
use super::node::{begin_log, log_start, page_url, run_until_stopped};
use super::runtime;
use crate::cli::output::outln;
use crate::compose::{Access, Keyring, Sockets, start};
use crate::config::{DatabaseUrl, NodeFlags, Purpose, Refused, Settings, duration, load};
use crate::failure::Failure;
use standstill::{Notice, Standstill};

/// The number of accounts that are printed.
const ACCOUNTS_SHOWN: usize = 3;
/// The finality on a chain that this process makes, unless one is given: a payment is final after two seconds.
const FINALITY: FinalityRule = FinalityRule::Confirmations(2);
/// The shortest time without a block, on a chain that this process makes, that is worth a note.
const STANDSTILL_MIN: Duration = Duration::from_secs(5);
/// The same in blocks.
const STANDSTILL_BLOCKS: u32 = 5;
/// The time without a block, on a chain that is given, that is worth a note: longer than public chains take.
const STANDSTILL_OF_OTHERS: Duration = Duration::from_secs(30);
/// The interval in which the heads are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The defaults of this command where they differ from those of a node.
const OWN_DEFAULTS: &str = "Without --rpc-url this command has defaults of its own: --finality confirmations:2 and a \
    temporary database.";

#[derive(Args)]
#[command(before_help = OWN_DEFAULTS)]
pub(super) struct DevArgs {
    #[command(flatten)]
    flags: NodeFlags,
    /// Time between two blocks of the dev chain.
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "DURATION")]
    block_interval: Duration,
}

pub(super) fn run(args: DevArgs) -> Result<ExitCode, Failure> {
    let loaded = load(args.flags.into_flags(), Purpose::Dev)?;
    begin_log(&loaded, "warn,tollgate=info");
    let (database_is_given, finality_is_given) =
        (loaded.is_given("database.url"), loaded.is_given("finality"));
    let events_are_given = loaded.is_given("events.enabled");
    let mut settings = loaded.settings;
    // Whoever tries Tollgate can follow events at once.
    settings.events.enabled |= !events_are_given;
    let listens = [Some(settings.node.listen), settings.operators.listen];
    if listens.into_iter().flatten().any(|address| !address.ip().is_loopback()) {
        return Err("listen: dev needs no key, so it listens on loopback only".into());
    }
    let mut signer = Keyring::open(&settings.keys).map_err(Refused::from)?;
    let makes_chain = settings.chain.rpc_urls.is_empty() && settings.node.chains.is_empty();
    if makes_chain && args.block_interval.is_zero() {
        return Err("--block-interval: 0s is not a time between blocks".into());
    }
    if signer.accounts().is_empty() || makes_chain {
        signer = signer.and(dev_signer()?);
    }
    if makes_chain && !finality_is_given {
        settings.node.finality = FINALITY;
    }
    runtime()?.block_on(async {
        let sockets = Sockets::bind(&settings).await?;
        let mut made = None;
        if makes_chain {
            let interval = args.block_interval;
            made = Some(make_chain(&mut settings, database_is_given, interval).await?);
        }
        let address = sockets.api.local_addr()?;
        let accounts = sorted_accounts(&signer);
        let node = start(&settings, address, signer, Access::Open).await?;
        let tls = node.tls.api.is_some();
        let page = page_url(address, tls);
        log_start(&settings, Access::Open, (address, tls), &page);
        print_places(&node.chains, address, tls, &page);
        print_accounts(&accounts);
        print_first_call(&page, &accounts, makes_chain);
        let patience = match makes_chain {
            true => STANDSTILL_MIN.max(args.block_interval * STANDSTILL_BLOCKS),
            false => STANDSTILL_OF_OTHERS,
        };
        let looking = tokio::spawn(keep_looking(node.chains.clone(), patience, makes_chain));
        let done = run_until_stopped(node, sockets).await;
        looking.abort();
        drop(made);
        done
    })
}

/// Starts a dev chain for this process, and makes a temporary database unless one is given.
async fn make_chain(
    settings: &mut Settings,
    database_is_given: bool,
    block_interval: Duration,
) -> Result<(RunningDevChain, Option<tempfile::TempDir>), Failure> {
    let chain = DevChain::start(new_chain(block_interval)).await?;
    settings.chain.rpc_urls.push(EndpointConfig::new(chain.url()));
    outln!("dev chain  {}", chain.url());
    if database_is_given {
        return Ok((chain, None));
    }
    let folder = tempfile::tempdir()?;
    settings.database.url = DatabaseUrl::sqlite(&folder.path().join("tollgate.db"));
    Ok((chain, Some(folder)))
}

fn dev_signer() -> Result<LocalSigner, Failure> {
    let keys: Result<Vec<Key>, _> =
        dev_accounts().iter().map(|account| Key::from_bytes(&account.private_key)).collect();
    Ok(LocalSigner::new(keys?))
}

/// The accounts of the dev chain come first, in their well-known order.
fn sorted_accounts(signer: &LocalSigner) -> Vec<Address> {
    let mut accounts = signer.accounts();
    let known = |account: &Address| dev_accounts().iter().position(|a| a.address == *account);
    accounts.sort_by_key(|account| known(account).unwrap_or(usize::MAX));
    accounts
}

fn print_places(chains: &Chains, address: SocketAddr, tls: bool, page: &str) {
    let scheme = if tls { "https" } else { "http" };
    for engine in chains.engines() {
        outln!("chain id   {}, {}", engine.chain_id(), finality_words(engine.finality()));
    }
    outln!("page       {page}");
    outln!("docs       {page}docs");
    outln!("API        {scheme}://{address}");
}

fn finality_words(rule: FinalityRule) -> String {
    match rule {
        FinalityRule::Confirmations(1) => "final in the first block".to_owned(),
        FinalityRule::Confirmations(needed) => format!("final after {needed} blocks"),
        FinalityRule::Safe => "final when the chain calls the block safe".to_owned(),
        FinalityRule::Finalized => "final when the chain calls the block finalized".to_owned(),
    }
}

/// Only the keys of the dev accounts are shown, which are public anyway.
fn print_accounts(accounts: &[Address]) {
    for account in accounts.iter().take(ACCOUNTS_SHOWN) {
        outln!("account    {account}");
        if let Some(known) = dev_account(*account) {
            outln!("  key      {}", known.private_key);
        }
    }
    if accounts.iter().any(|account| dev_account(*account).is_some()) {
        outln!("These keys are public: never use them on another chain.");
    }
}

/// A call to paste: a payment on a chain that this process makes, a read on any other.
fn print_first_call(page: &str, accounts: &[Address], makes_chain: bool) {
    let (true, [from, to, ..]) = (makes_chain, accounts) else {
        outln!("\nThe accounts, with their balances:\n\ncurl -s {page}api/v1/submitters\n");
        return;
    };
    outln!("\nPay 1 ether. The answer comes when the payment is final:\n");
    outln!("curl -s {page}api/v1/tx -H 'content-type: application/json' -H 'Prefer: wait=30' \\");
    outln!("  -d '{{\"submitter\": \"{from}\", \"requestId\": \"first\",");
    outln!("    \"payload\": {{\"to\": \"{to}\", \"value\": \"1000000000000000000\"}}}}'\n");
}

/// Says when a chain makes no further block while a transaction waits for one, and when it goes on.
async fn keep_looking(chains: Chains, patience: Duration, is_own: bool) {
    let hint = match is_own {
        true => "is mining paused? devchain_resumeMining lets it go on",
        false => "does it make blocks only for new transactions? anvil needs --block-time 1",
    };
    let mut looks = interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut stands: Vec<(u64, Standstill)> = Vec::new();
    loop {
        looks.tick().await;
        for engine in chains.engines() {
            let id = engine.chain_id().get();
            let place = stands.iter().position(|(known, _)| *known == id).unwrap_or_else(|| {
                stands.push((id, Standstill::new(patience)));
                stands.len() - 1
            });
            let head = engine.view().head().map(|head| head.number);
            match stands[place].1.look(Instant::now(), head, engine.waits_for_blocks()) {
                Some(Notice::Stands) => outln!(
                    "note       chain {id} has made no block for {}, and a transaction waits for one: {hint}",
                    format_duration(patience)
                ),
                Some(Notice::GoesOn) => outln!("note       chain {id} makes blocks again"),
                None => {}
            }
        }
    }
}
