//! Measures the transactions per second of an endpoint, and the cost of receipts:
//! `cargo run --release -p tollgate-devchain --example send_rate [transactions] [connections]`.
//!
//! Signs first, then sends over kept-alive connections on the same two threads as the server, so
//! the figures hold for client and server together.

use std::time::{Duration, Instant};

use alloy_primitives::U256;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tollgate_devchain::chain::{BaseFee, GWEI};
use tollgate_devchain::{DevChain, DevChainOptions, dev_accounts, sign};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let mut numbers = std::env::args().skip(1).filter_map(|text| text.parse::<usize>().ok());
    let count = numbers.next().unwrap_or(20_000);
    let connections = numbers.next().unwrap_or(8).clamp(1, 16);
    let mut options = DevChainOptions::default();
    options.chain.base_fee = BaseFee::Fixed(GWEI);
    options.chain.block_gas_limit = 200_000_000;
    let devchain = DevChain::start(options).await?;
    let host = devchain.url().replace("http://", "");

    let each = (count / connections).max(1);
    let bodies = (0..connections).map(|account| sign_all(account, each));
    let bodies: Vec<Vec<String>> = bodies.collect::<Result<_, _>>()?;
    for (what, per_request) in [("single sends", 1), ("batches of 100", 100)] {
        let half = each / 2;
        let started = Instant::now();
        let mut tasks = Vec::new();
        for bodies in &bodies {
            let part = if per_request == 1 { &bodies[..half] } else { &bodies[half..] };
            let requests: Vec<String> = part.chunks(per_request).map(request).collect();
            tasks.push(tokio::spawn(send_all(host.clone(), requests)));
        }
        for task in tasks {
            task.await??;
        }
        report(what, half * connections, started.elapsed());
    }

    let started = Instant::now();
    let mut mined = 0;
    while mined < each * connections {
        let block = devchain.mine(1);
        if block.txs.is_empty() {
            return Err(format!("{mined} of {} mined", each * connections).into());
        }
        mined += block.txs.len();
    }
    report("mined", mined, started.elapsed());
    let started = Instant::now();
    let receipts = devchain.view().call("eth_getBlockReceipts", &json!(["0x1"]));
    let receipts = receipts.map_err(|error| error.message)?;
    let receipts = (receipts.to_string().len(), receipts.as_array().map_or(0, Vec::len));
    report(&format!("receipts of one block ({} bytes)", receipts.0), receipts.1, started.elapsed());
    Ok(())
}

fn report(what: &str, count: usize, took: Duration) {
    println!("{what}: {count} in {took:.2?}, {:.0}/s", count as f64 / took.as_secs_f64());
}

fn sign_all(account: usize, count: usize) -> Result<Vec<String>, sign::BadKey> {
    let account = dev_accounts()[account];
    let raw = |nonce: u64| {
        let to = (account.address, U256::ZERO);
        let tx = sign::transfer(31_337, nonce, to, Some(GWEI), u128::from(GWEI));
        let raw = sign::sign(tx, &account.private_key)?.to_string();
        let call = json!({
            "jsonrpc": "2.0", "id": nonce, "method": "eth_sendRawTransaction", "params": [raw],
        });
        Ok(call.to_string())
    };
    (0..count as u64).map(raw).collect()
}

fn request(calls: &[String]) -> String {
    let body = match calls {
        [one] => one.clone(),
        many => format!("[{}]", many.join(",")),
    };
    format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

async fn send_all(host: String, requests: Vec<String>) -> Result<(), Failure> {
    let mut stream = BufReader::new(TcpStream::connect(host).await?);
    for request in requests {
        stream.write_all(request.as_bytes()).await?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse()?;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        if body.windows(8).any(|window| window == b"\"error\":") {
            return Err(String::from_utf8_lossy(&body).into_owned().into());
        }
    }
    Ok(())
}
