//! Signs and sends a transfer by itself, with a nonce reserved from Tollgate.
//!
//! In one terminal: `TOLLGATE_RESERVATIONS_ENABLED=true tollgate dev`, which prints the URL of its
//! chain. In another: `cargo run -p tollgate-client --example transfer -- http://127.0.0.1:8550
//! <URL of the chain>`. The account is the first one of the dev chain.

use std::error::Error;
use std::time::Duration;

use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use serde_json::{Value, json};
use tollgate_client::Client;
use tollgate_client::nonce::Tx;
use tollgate_devchain::dev_accounts;
use tollgate_http::{HttpClient, Limits};
use tollgate_model::{Address, Bytes, GasPrice, TxHash};
use tollgate_signer::{Key, LocalSigner};

type Failure = Box<dyn Error + Send + Sync>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [tollgate, chain] = arguments.as_slice() else {
        return Err("usage: transfer <URL of Tollgate> <URL of the chain>".into());
    };
    let hash = transfer(tollgate, chain, Address::repeat_byte(0xee), 7).await?;
    println!("sent {hash}");
    Ok(())
}

/// Sends a transfer; returns the hash once a node of the chain has accepted it.
pub async fn transfer(
    tollgate: &str,
    chain: &str,
    to: Address,
    wei: u64,
) -> Result<TxHash, Failure> {
    let accounts = dev_accounts();
    let account = accounts.first().ok_or("no dev accounts")?;
    let signer = LocalSigner::new([Key::from_bytes(&account.private_key)?]);
    let (max_fee, tip) = (GasPrice::from_wei(20_000_000_000)?, GasPrice::from_wei(1_000_000_000)?);
    let client = Client::new([tollgate])?;
    let sent = client.with_nonce(account.address, signer, |slot| async move {
        println!("nonce {}", slot.nonce());
        // Tollgate knows the hash when this returns; only now may the bytes be sent.
        let signed = slot.sign(Tx::transfer(to, wei, max_fee, tip)).await?;
        send(chain, &signed.raw).await?;
        Ok::<_, Failure>(signed.tx_hash)
    });
    Ok(sent.await?)
}

/// Sends signed bytes to a node.
async fn send(chain: &str, raw: &Bytes) -> Result<(), Failure> {
    let connect_timeout = Duration::from_secs(5);
    let limits = Limits { connect_timeout, idle_max: 1, response_bytes_max: 65_536 };
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction", "params": [raw.to_string()]
    });
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let answer =
        HttpClient::new(&limits).post(&chain.parse()?, headers, call.to_string().into()).await?;
    let answer: Value = serde_json::from_slice(&answer.body)?;
    match answer.get("error") {
        None => Ok(()),
        Some(error) => Err(error.to_string().into()),
    }
}
