//! The speed limit of a service: the path of a transaction with none of the safety.
//!
//! HTTP, a nonce, a signature, a row that is durable behind a fence, the answer; then a send in batches, the state
//! after it, the receipts of each block and the final state. There is no look-up of repeated requests, no history, no
//! retry, no recovery and no handling of gaps: not a design, only a limit. It speaks as much of Tollgate's API as
//! `tollgate bench` needs, so that both are loaded by the same program.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes, U256};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use clap::Args;
use futures_util::join;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_postgres::Client;
use tollgate_api::{Completion, Feed};
use tollgate_devchain::sign::{address_of, sign, transfer};
use tollgate_testkit::postgres::connect;
use tollgate_testkit::rpc;
use uuid::Uuid;

use crate::rpc_connection::RpcConnection;
use crate::{CHAIN_ID, CONFIRMATIONS};

/// The most rows of a commit.
const BATCH_MAX: usize = 500;
/// The transactions of a JSON-RPC call.
const SEND_BATCH: usize = 100;
/// The token of all leases.
const TOKEN: i64 = 7;
/// The pause between two looks for a new block.
const POLL: Duration = Duration::from_millis(50);
const SENT: i16 = 2;
const FINAL: i16 = 3;

/// Settings of the ceiling.
#[derive(Args)]
pub(crate) struct Options {
    #[arg(long)]
    port: u16,
    #[arg(long)]
    database_url: String,
    /// Without a chain nothing is sent.
    #[arg(long)]
    rpc_url: Option<String>,
    /// File with one private key in hex per line.
    #[arg(long)]
    keys: PathBuf,
    /// The most transactions that are sent and not final.
    #[arg(long)]
    open_max: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Create {
    submitter: Address,
    request_id: String,
    payload: Payload,
}

#[derive(Deserialize)]
struct Payload {
    to: Address,
    value: u64,
}

struct Item {
    tx_id: Uuid,
    create: Create,
    body: Vec<u8>,
    nonce: i64,
    raw: Bytes,
    hash: B256,
    answer: Option<oneshot::Sender<i64>>,
}

/// Transactions that are sent and not final, by hash: id, request and account.
type Open = Arc<Mutex<HashMap<B256, (Uuid, String, Address)>>>;

#[derive(Clone)]
struct Service {
    creates: mpsc::Sender<Item>,
    feed: Arc<Mutex<Vec<Completion>>>,
    /// The number of entries.
    grown: watch::Receiver<u64>,
}

/// Serves until the process is ended.
pub(crate) async fn serve(options: Options) {
    let keys = std::fs::read_to_string(&options.keys).unwrap();
    let keys: HashMap<Address, B256> = keys
        .lines()
        .map(|line| line.parse().unwrap())
        .map(|key| (address_of(&key).unwrap(), key))
        .collect();
    prepare(&options.database_url, keys.keys()).await;
    let (creates, incoming) = mpsc::channel(4_096);
    let feed = Arc::new(Mutex::new(Vec::new()));
    let (grow, grown) = watch::channel(0);
    let mut next = None;
    if let Some(rpc_url) = &options.rpc_url {
        let host = rpc_url.strip_prefix("http://").unwrap().to_owned();
        let (to_send, accepted) = mpsc::channel(8);
        let (answered, sent) = mpsc::channel(64);
        let open = Open::default();
        let from = rpc::number(&rpc::call(rpc_url, "eth_blockNumber", json!([])).await);
        let (client, tracker) =
            (RpcConnection::open(&host).await, RpcConnection::open(&host).await);
        tokio::spawn(send(client, accepted, answered, open.clone(), options.open_max));
        tokio::spawn(record_sent(connect(&options.database_url).await.unwrap(), sent));
        let database = connect(&options.database_url).await.unwrap();
        tokio::spawn(finish(database, tracker, from, open, feed.clone(), grow));
        next = Some(to_send);
    }
    let database = connect(&options.database_url).await.unwrap();
    tokio::spawn(write(database, incoming, keys, next));
    let routes = Router::new()
        .route("/readyz", get(async || "{}"))
        .route("/api/v1/tx", post(create))
        .route("/api/v1/tx/completions", get(completions))
        .with_state(Service { creates, feed, grown });
    let listener =
        tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, options.port)).await.unwrap();
    axum::serve(listener, routes).await.unwrap();
}

async fn prepare(url: &str, accounts: impl Iterator<Item = &Address>) {
    let client = connect(url).await.unwrap();
    client.batch_execute(include_str!("ceiling.sql")).await.unwrap();
    let accounts: Vec<&[u8]> = accounts.map(|address| address.as_slice()).collect();
    let leases =
        "insert into lease select a, $2, now() + interval '1 day' from unnest($1::bytea[]) a";
    client.execute(leases, &[&accounts, &TOKEN]).await.unwrap();
    let cursors = "insert into cursor_of select a, 0 from unnest($1::bytea[]) a";
    client.execute(cursors, &[&accounts]).await.unwrap();
    client.batch_execute("analyze lease, cursor_of").await.unwrap();
}

async fn create(
    State(service): State<Service>,
    body: axum::body::Bytes,
) -> Result<(StatusCode, Json<Value>), StatusCode> {
    let create = serde_json::from_slice(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let (answer, answered) = oneshot::channel();
    let tx_id = Uuid::now_v7();
    let item = Item {
        tx_id,
        create,
        body: body.to_vec(),
        nonce: 0,
        raw: Bytes::new(),
        hash: B256::ZERO,
        answer: Some(answer),
    };
    let gone = |_| StatusCode::INTERNAL_SERVER_ERROR;
    service.creates.send(item).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let nonce = answered.await.map_err(gone)?;
    Ok((StatusCode::ACCEPTED, Json(json!({ "txId": tx_id.to_string(), "nonce": nonce }))))
}

/// Nonces, signatures and one durable commit for what has come meanwhile.
async fn write(
    database: Client,
    mut incoming: mpsc::Receiver<Item>,
    keys: HashMap<Address, B256>,
    next: Option<mpsc::Sender<Vec<Item>>>,
) {
    let fence = database.prepare("select assert_fence($1, $2)").await.unwrap();
    let cursor = "update cursor_of c set next_nonce = u.next from unnest($1::bytea[], $2::bigint[]) u (s, next)
                   where c.submitter = u.s";
    let cursor = database.prepare(cursor).await.unwrap();
    let insert =
        "insert into tx (tx_id, submitter, request_id, nonce, payload, tx_hash, state, fencing_token)
         select u.id, u.s, u.r, u.n, u.p, u.h, 1, $7
           from unnest($1::uuid[], $2::bytea[], $3::text[], $4::bigint[], $5::bytea[], $6::bytea[])
             u (id, s, r, n, p, h)";
    let insert = database.prepare(insert).await.unwrap();
    let mut nonces: HashMap<Address, i64> = HashMap::new();
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while incoming.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let mut touched: HashMap<Address, i64> = HashMap::new();
        for item in &mut batch {
            let Create { submitter, payload, .. } = &item.create;
            let nonce = nonces.entry(*submitter).or_default();
            item.nonce = *nonce;
            *nonce += 1;
            touched.insert(*submitter, *nonce);
            let to = (payload.to, U256::from(payload.value));
            let unsigned = transfer(
                CHAIN_ID,
                item.nonce.unsigned_abs(),
                to,
                Some(10_000_000_000),
                1_000_000_000,
            );
            item.raw = sign(unsigned, &keys[submitter]).unwrap();
            item.hash = alloy_primitives::keccak256(&item.raw);
        }
        let first = batch[0].create.submitter;
        let ids: Vec<Uuid> = batch.iter().map(|item| item.tx_id).collect();
        let from: Vec<&[u8]> = batch.iter().map(|item| item.create.submitter.as_slice()).collect();
        let requests: Vec<&str> = batch.iter().map(|item| &*item.create.request_id).collect();
        let numbers: Vec<i64> = batch.iter().map(|item| item.nonce).collect();
        let bodies: Vec<&[u8]> = batch.iter().map(|item| &*item.body).collect();
        let hashes: Vec<&[u8]> = batch.iter().map(|item| item.hash.as_slice()).collect();
        let accounts: Vec<&[u8]> = touched.keys().map(|address| address.as_slice()).collect();
        let ends: Vec<i64> = touched.values().copied().collect();
        // Sent together; a failed one fails the commit.
        let rows = [&ids as &(dyn tokio_postgres::types::ToSql + Sync), &from, &requests, &numbers];
        let rows = [&rows[..], &[&bodies, &hashes, &TOKEN]].concat();
        let fenced = first.as_slice();
        let done = join!(
            database.batch_execute("begin"),
            async { database.execute(&fence, &[&fenced, &TOKEN]).await },
            async { database.execute(&cursor, &[&accounts, &ends]).await },
            async { database.execute(&insert, &rows).await },
            database.batch_execute("commit"),
        );
        done.0.and(done.1.map(drop)).and(done.2.map(drop)).and(done.3.map(drop)).unwrap();
        done.4.unwrap();
        for item in &mut batch {
            if let Some(answer) = item.answer.take() {
                let _ = answer.send(item.nonce);
            }
        }
        match &next {
            Some(next) => next.send(std::mem::take(&mut batch)).await.unwrap(),
            None => batch.clear(),
        }
    }
}

/// Sends in batches, in order.
async fn send(
    mut chain: RpcConnection,
    mut accepted: mpsc::Receiver<Vec<Item>>,
    answered: mpsc::Sender<Vec<Uuid>>,
    open: Open,
    open_max: usize,
) {
    while let Some(batch) = accepted.recv().await {
        for part in batch.chunks(SEND_BATCH) {
            // Pushes back through the bounded channels, so that the rate of creates is that of whole lives.
            while open.lock().unwrap().len() >= open_max {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let mut calls = String::with_capacity(part.len() * 400);
            for (place, item) in part.iter().enumerate() {
                calls.push(if place == 0 { '[' } else { ',' });
                let call = r#"{"jsonrpc":"2.0","method":"eth_sendRawTransaction","id":"#;
                calls.push_str(&format!(r#"{call}{place},"params":["{}"]}}"#, item.raw));
                let Create { request_id, submitter, .. } = &item.create;
                let entry = (item.tx_id, request_id.clone(), *submitter);
                open.lock().unwrap().insert(item.hash, entry);
            }
            calls.push(']');
            let answer = chain.post(calls).await;
            assert!(
                !answer.windows(7).any(|part| part == b"\"error\""),
                "{}",
                String::from_utf8_lossy(&answer)
            );
            answered.send(part.iter().map(|item| item.tx_id).collect()).await.unwrap();
        }
    }
}

const UPDATE: &str = "update tx set state = $2, updated_at = now()
                       where tx_id = any($1) and state < $2 and fencing_token = $3";

/// Records in batches that a node has them.
async fn record_sent(database: Client, mut sent: mpsc::Receiver<Vec<Uuid>>) {
    let update = database.prepare(UPDATE).await.unwrap();
    let mut parts = Vec::new();
    while sent.recv_many(&mut parts, BATCH_MAX / SEND_BATCH).await > 0 {
        let ids: Vec<Uuid> = parts.drain(..).flatten().collect();
        database.execute(&update, &[&ids, &SENT, &TOKEN]).await.unwrap();
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Receipt {
    transaction_hash: String,
}

/// Reads the receipts of each block that is deep enough, and records the end of what is in it.
async fn finish(
    database: Client,
    mut chain: RpcConnection,
    mut done: u64,
    open: Open,
    feed: Arc<Mutex<Vec<Completion>>>,
    grow: watch::Sender<u64>,
) {
    let update = database.prepare(UPDATE).await.unwrap();
    loop {
        tokio::time::sleep(POLL).await;
        let head = rpc::number(&chain.call("eth_blockNumber", json!([])).await);
        // The block itself is the first confirmation.
        while done + CONFIRMATIONS <= head {
            done += 1;
            let block = format!("{done:#x}");
            let receipts: Vec<Receipt> = chain.call("eth_getBlockReceipts", json!([block])).await;
            let hashes = receipts.iter().map(|receipt| receipt.transaction_hash.parse().unwrap());
            let found: Vec<(B256, _)> = {
                let mut open = open.lock().unwrap();
                hashes.filter_map(|hash| Some((hash, open.remove(&hash)?))).collect()
            };
            for part in found.chunks(BATCH_MAX) {
                let ids: Vec<Uuid> = part.iter().map(|(_, (tx_id, ..))| *tx_id).collect();
                database.execute(&update, &[&ids, &FINAL, &TOKEN]).await.unwrap();
            }
            let mut feed = feed.lock().unwrap();
            for (hash, (tx_id, request_id, submitter)) in found {
                let seq = feed.len() as u64 + 1;
                feed.push(completion(seq, hash, tx_id, request_id, submitter));
            }
            grow.send_replace(feed.len() as u64);
        }
    }
}

fn completion(
    seq: u64,
    hash: B256,
    tx_id: Uuid,
    request_id: String,
    submitter: Address,
) -> Completion {
    Completion {
        seq,
        kind: "final".into(),
        tx_id: tx_id.to_string(),
        request_id: Some(request_id),
        tenant: None,
        chain_id: CHAIN_ID,
        submitter: submitter.to_string(),
        to: None,
        value: None,
        state: "CONFIRMED".into(),
        sub_state: None,
        tx_hash: Some(hash.to_string()),
        result: None,
        time: String::new(),
    }
}

#[derive(Deserialize)]
struct Page {
    after: u64,
    limit: usize,
    wait: Option<String>,
}

async fn completions(State(mut service): State<Service>, Query(page): Query<Page>) -> Json<Feed> {
    if page.wait.is_some() {
        let grown = service.grown.wait_for(|length| *length > page.after);
        let _ = tokio::time::timeout(Duration::from_secs(10), grown).await;
    }
    let feed = service.feed.lock().unwrap();
    let after = usize::try_from(page.after).unwrap().min(feed.len());
    let items = feed[after..].iter().take(page.limit).cloned().collect::<Vec<_>>();
    let next = items.last().map_or(page.after, |last| last.seq);
    Json(Feed { items, next })
}
