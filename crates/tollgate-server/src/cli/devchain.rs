//! `tollgate devchain`: the chain that can be broken, alone.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tollgate_devchain::chain::ChainConfig;
use tollgate_devchain::{DevChain, DevChainOptions, dev_accounts};

use super::node::told_to_stop;
use super::runtime;
use crate::config::duration;
use crate::failure::Failure;

#[derive(Args)]
pub(super) struct DevchainArgs {
    /// On 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 8545)]
    port: u16,
    /// How often a block comes.
    #[arg(long, default_value = "1s", value_parser = duration)]
    block_interval: Duration,
    /// The chain's id: another one for each chain that is to share a database.
    #[arg(long, default_value_t = ChainConfig::default().chain_id)]
    chain_id: u64,
}

pub(super) fn run(args: &DevchainArgs) -> Result<ExitCode, Failure> {
    if args.block_interval.is_zero() {
        return Err("--block-interval: 0s is not a time between blocks".into());
    }
    let mut options = DevChainOptions {
        port: args.port,
        block_interval: Some(args.block_interval),
        ..Default::default()
    };
    options.chain.chain_id = args.chain_id;
    runtime()?.block_on(async {
        // Heard from here on, so that whoever has read the lines below can stop it.
        let told = told_to_stop();
        let chain = DevChain::start(options).await?;
        println!("JSON-RPC  {}  {}", chain.url(), chain.ws_url());
        println!("Funded accounts (their keys are public: never use them elsewhere):");
        for account in dev_accounts() {
            println!("  {}  {}", account.address, account.private_key);
        }
        told.await;
        Ok(ExitCode::SUCCESS)
    })
}
