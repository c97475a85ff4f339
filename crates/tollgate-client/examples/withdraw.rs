//! Pays one withdrawal exactly once, however often it is run with the same serial number, and waits for its
//! outcome: the Rust program of docs/integrating.md.
//!
//! `cargo run -p tollgate-client --example withdraw -- W-1 0xTo 1000`

use std::error::Error;
use std::time::Duration;

use hyper::Method;
use hyper::body::Bytes;
use serde_json::{Value, json};
use tollgate_client::{Client, ClientError, Node, TlsFiles, connect};
use tollgate_http::Limits;
use tollgate_model::Address;

const ACCOUNT: &str = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
const LIMITS: Limits = Limits {
    connect_timeout: Duration::from_secs(5),
    idle_max: 4,
    response_bytes_max: 4 * 1024 * 1024,
};

/// Posts until the outcome is known. The same serial number never makes a second payment.
async fn create(client: &Client, serial: &str, payload: &Value) -> Result<(), Box<dyn Error>> {
    let account: Address = ACCOUNT.parse()?;
    loop {
        match client.create(account, serial, payload).await {
            Ok(_) => return Ok(()),
            // It may have been accepted: ask again under the same serial number.
            Err(ClientError::NoAnswer(why)) => eprintln!("no answer, asking again: {why}"),
            Err(refused) => return Err(refused.into()),
        }
    }
}

/// Waits for the outcome of one withdrawal. In production: one reader for ever, from the stored place.
async fn outcome(node: &Node, serial: &str) -> Result<Value, Box<dyn Error>> {
    let mut next = 0;
    loop {
        let path = format!("/api/v1/tx/completions?after={next}&wait=30s");
        let page = match node.send(Method::GET, &path, Bytes::new(), Duration::from_secs(40)).await
        {
            Ok(page) if page.status == 200 => serde_json::from_slice::<Value>(&page.body)?,
            Ok(page) if page.status < 500 && page.status != 429 => {
                return Err(String::from_utf8_lossy(&page.body).into());
            }
            _ => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let ours = |item: &&Value| {
            let submitter = item["submitter"].as_str().unwrap_or_default();
            item["requestId"] == serial && submitter.eq_ignore_ascii_case(ACCOUNT)
        };
        if let Some(item) = page["items"].as_array().and_then(|items| items.iter().find(ours)) {
            return Ok(item.clone());
        }
        next = page["next"].as_u64().ok_or("no place in the feed")?;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [serial, to, wei] = args.as_slice() else {
        return Err("usage: withdraw SERIAL TO WEI".into());
    };
    let url = std::env::var("TOLLGATE_URL").unwrap_or("http://localhost:8550".to_owned());
    let mut client = Client::new([&url])?; // all nodes of the cluster, or its load balancer
    let mut node = Node::new(&url, connect(&LIMITS, &TlsFiles::default())?)?;
    if let Ok(key) = std::env::var("TOLLGATE_API_KEY") {
        (client, node) = (client.with_api_key(&key)?, node.with_api_key(&key)?);
    }
    create(&client, serial, &json!({ "to": to, "value": wei })).await?;
    let item = outcome(&node, serial).await?;
    let paid = item["to"].as_str().is_some_and(|paid| paid.eq_ignore_ascii_case(to));
    if item["state"] == "CONFIRMED" && !(paid && item["value"] == *wei) {
        return Err(format!("paid something else: {item}").into());
    }
    let text = |name: &str| item[name].as_str().unwrap_or("-").to_owned();
    println!("{serial} {} {}", text("state"), text("txHash"));
    Ok(())
}
