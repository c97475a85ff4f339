//! A chain, a reorg, and a second backend that sees what it is told to see:
//! `cargo run -p tollgate-devchain --example reorg`.

use std::error::Error;

use tollgate_devchain::chain::{DroppedTxs, Reorg};
use tollgate_devchain::{DevChain, DevChainOptions, ViewOptions};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let devchain = DevChain::start(DevChainOptions::default()).await?;
    println!("{} {}", devchain.url(), devchain.ws_url());
    devchain.mine(3);
    let replaced =
        devchain.reorg(Reorg::new(2, DroppedTxs::Returned)).expect("three blocks are there");
    println!("{replaced:?}");
    let other_backend = devchain.second_view(ViewOptions::default()).await?;
    println!("{}", other_backend.url());
    Ok(())
}
