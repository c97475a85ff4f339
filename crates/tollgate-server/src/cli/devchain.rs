//! `tollgate devchain`: the chain that can be broken, alone.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tollgate_devchain::{DevChain, DevChainOptions, dev_accounts};

use super::node::told_to_stop;
use super::runtime;
use crate::compose::Failure;
use crate::config::duration;

#[derive(Args)]
pub(super) struct DevchainArgs {
    /// On 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 8545)]
    port: u16,
    /// How often a block comes.
    #[arg(long, default_value = "1s", value_parser = duration)]
    block_interval: Duration,
}

pub(super) fn run(args: &DevchainArgs) -> Result<ExitCode, Failure> {
    let block_interval = Some(args.block_interval);
    let options = DevChainOptions { port: args.port, block_interval, ..Default::default() };
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
