//! Transfers one wei exactly once, however often it is run with the same order number:
//!
//! `cargo run -p tollgate-client --example pay -- http://a:8550,http://b:8550 0xFrom 0xTo order-1`

use std::error::Error;

use serde_json::json;
use tollgate_client::Client;
use tollgate_model::Address;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [nodes, from, to, order] = args.as_slice() else {
        return Err("usage: pay URL,URL,… FROM TO ORDER".into());
    };
    let client = Client::new(nodes.split(','))?;
    let (from, to): (Address, Address) = (from.parse()?, to.parse()?);
    let payload = json!({ "to": to, "value": "1" });
    let answer = client.create(from, order, &payload).await?;
    let state = if answer.status == 202 { "accepted" } else { "accepted before" };
    println!("{state}: {}", answer.body["txId"]);
    Ok(())
}
