//! `tollgate devchain`: runs a dev chain alone.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tollgate_devchain::chain::ChainConfig;
use tollgate_devchain::{DevChain, DevChainOptions, dev_accounts};

use super::node::stop_signal;
use super::runtime;
use crate::cli::output::outln;
use crate::clock::unix_micros;
use crate::config::duration;
use crate::failure::Failure;

#[derive(Args)]
pub(super) struct DevchainArgs {
    /// Port on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 8545)]
    port: u16,
    /// Time between two blocks.
    #[arg(long, default_value = "1s", value_parser = duration)]
    block_interval: Duration,
    /// Chain id; chains that share a database need different ones.
    #[arg(long, default_value_t = ChainConfig::default().chain_id)]
    chain_id: u64,
}

/// Options of a chain whose block 0 differs at every start: nothing of it outlives the process, so a
/// database that belongs to an earlier chain must be refused, not worked on with the wrong nonces.
pub(super) fn new_chain(block_interval: Duration) -> DevChainOptions {
    let mut options =
        DevChainOptions { block_interval: Some(block_interval), ..Default::default() };
    let now = unix_micros();
    options.chain.genesis_timestamp = now / 1_000_000;
    // The seed is part of every block hash, so that two starts within one second differ as well.
    options.chain.seed = now;
    options
}

pub(super) fn run(args: &DevchainArgs) -> Result<ExitCode, Failure> {
    if args.block_interval.is_zero() {
        return Err("--block-interval: 0s is not a time between blocks".into());
    }
    let mut options = new_chain(args.block_interval);
    options.port = args.port;
    options.chain.chain_id = args.chain_id;
    runtime()?.block_on(async {
        // From here on, so that a reader of the lines below can stop it.
        let stop_requested = stop_signal();
        let chain = DevChain::start(options).await?;
        outln!("JSON-RPC  {}  {}", chain.url(), chain.ws_url());
        outln!("Funded accounts (their keys are public: never use them elsewhere):");
        for account in dev_accounts() {
            outln!("  {}  {}", account.address, account.private_key);
        }
        stop_requested.await;
        Ok(ExitCode::SUCCESS)
    })
}
