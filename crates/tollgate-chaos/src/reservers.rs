//! Callers that reserve nonces: some sign and send by themselves, some give nonces back, some forget them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use alloy_primitives::{B256, Bytes, keccak256};
use serde::Serialize;
use serde_json::{Value, from_value, json};
use tokio::time::sleep;
use tollgate_api::{
    Reservation, ReservationPage, Reserve, ReservedNonce, ReturnedNonce, UsedNonce, path,
};
use tollgate_devchain::chain::Rng;
use tollgate_devchain::{dev_accounts, sign};
use tollgate_testkit::http::Response;
use tollgate_testkit::rpc;

use crate::cluster::{CHAIN_IDS, CONFIRMATIONS, Cluster, PAID};
use crate::event_log::{Accepted, EventLog, Used};
use crate::order::{Order, address, call, has_retry_after, note_refusal};
use crate::plan::below;

/// The longest pause between two reservations, in milliseconds.
const PAUSE_MILLIS: u64 = 6_000;

/// The seconds that a nonce is held, from and to: longer than a lease.
const HOLD_SECONDS: (u64, u64) = (3, 6);

/// Of a hundred reserved nonces so many are used, and so many of the others are given back.
const USED: u64 = 60;
const RETURNED: u64 = 50;

/// The pause before a report is repeated, and before what was sent is sent again.
const REPEAT: Duration = Duration::from_millis(700);

/// The fees of what callers sign: enough for every block of a run.
const NEXT_BASE_FEE: u64 = 50_000_000_000;
const TIP: u128 = 3_000_000_000;

/// Reserves nonces of one account.
pub(crate) struct Reserver {
    account: usize,
    ports: Vec<u16>,
    port_without_key: Option<u16>,
    chain_url: String,
    log: Arc<EventLog>,
    rng: Rng,
    /// The number of the next value.
    next: u64,
    /// Signed bytes and their hashes, sent until their blocks are final.
    sent: Vec<(Bytes, B256)>,
    done: Arc<AtomicBool>,
}

impl Reserver {
    pub(crate) fn new(
        cluster: &Cluster,
        log: &Arc<EventLog>,
        done: &Arc<AtomicBool>,
        (seed, account): (u64, usize),
    ) -> Self {
        Self {
            account,
            ports: cluster.ports(),
            port_without_key: cluster.port_without_key(account),
            chain_url: cluster.chains[0].url().to_owned(),
            log: log.clone(),
            rng: Rng::new(seed.wrapping_mul(0x2545_f491).wrapping_add(account as u64)),
            next: 0,
            sent: Vec::new(),
            done: done.clone(),
        }
    }

    /// Reserves until the run is over, and then until no nonce of the account is held or free.
    pub(crate) async fn reserve(mut self) {
        while !self.done.load(Ordering::Relaxed) {
            let pause = Duration::from_millis(self.rng.below(PAUSE_MILLIS));
            sleep(pause).await;
            self.send_again().await;
            let hold = HOLD_SECONDS.0 + self.rng.below(HOLD_SECONDS.1 - HOLD_SECONDS.0 + 1);
            if let Some(reserved) = self.ask_for_one(hold).await {
                self.settle(&reserved).await;
            }
        }
        loop {
            self.send_again().await;
            match self.outstanding().await {
                Some(nonces) if nonces.is_empty() && self.sent.is_empty() => return,
                // A free nonce is the next transaction's: what is above it waits for that.
                Some(nonces) if nonces.iter().any(|it| it.state == "RECYCLABLE") => {
                    self.create().await;
                }
                _ => {}
            }
            sleep(REPEAT).await;
        }
    }

    async fn ask_for_one(&mut self, hold: u64) -> Option<ReservedNonce> {
        let asked = Instant::now();
        let body = Reserve { hold_seconds: Some(hold.into()) };
        let (port, said) = self.post(&self.path(""), &body).await?;
        if said.status != 201 {
            self.refused("a reservation", port, said);
            return None;
        }
        let reserved: ReservedNonce = match from_value(said.body) {
            Ok(reserved) => reserved,
            Err(error) => {
                self.log.violation(format!("a reservation can't be read: {error}"));
                return None;
            }
        };
        self.log.answer("201 reserved".to_owned());
        let until = asked + Duration::from_secs(hold);
        self.log.reserved(self.account, reserved.reservation.nonce, until);
        Some(reserved)
    }

    async fn settle(&mut self, reserved: &ReservedNonce) {
        if self.rng.below(100) < USED {
            self.use_it(reserved).await;
        } else if self.rng.below(100) < RETURNED {
            self.log.returned(self.account, reserved.reservation.nonce);
            let owner_token = reserved.owner_token.clone();
            let body = ReturnedNonce { owner_token, reason: "no longer wanted".to_owned() };
            // If there is no answer, it comes back at its deadline.
            let _ = self.post(&self.path_of(reserved, "recyclable"), &body).await;
        }
    }

    /// Signs, reports the hash until that is certain, and only then sends.
    async fn use_it(&mut self, reserved: &ReservedNonce) {
        let nonce = reserved.reservation.nonce;
        let order = Order::own(self.account, self.next);
        self.next += 1;
        let accounts = dev_accounts();
        let paid = (accounts[PAID].address, order.value.try_into().unwrap());
        let transfer = sign::transfer(CHAIN_IDS[0], nonce, paid, Some(NEXT_BASE_FEE), TIP);
        let raw = sign::sign(transfer, &accounts[self.account].private_key).unwrap();
        let hash = keccak256(&raw);
        let owner_token = reserved.owner_token.clone();
        let body = UsedNonce { owner_token, tx_hash: hash.to_string() };
        let path = self.path_of(reserved, "used");
        loop {
            match self.post(&path, &body).await {
                Some((_, said)) if said.status == 200 => break,
                Some((_, said)) if said.body["code"] == "stale_owner_token" => {
                    self.log.answer("409 stale_owner_token".to_owned());
                    return;
                }
                Some((port, said)) => self.refused("used", port, said),
                None => {}
            }
            sleep(REPEAT).await;
        }
        self.log.answer("200 used".to_owned());
        self.log.used(Used { account: self.account, nonce, value: order.value });
        self.sent.push((raw, hash));
        self.send_again().await;
    }

    /// Sends what is not final: nobody else has the bytes, and pools and reorgs drop them.
    async fn send_again(&mut self) {
        let mut left = Vec::new();
        for (raw, hash) in std::mem::take(&mut self.sent) {
            if self.is_final(&hash).await {
                continue;
            }
            // Most refusals say that it is known or mined.
            let _ = self.ask_chain("eth_sendRawTransaction", json!([raw])).await;
            left.push((raw, hash));
        }
        self.sent = left;
    }

    async fn is_final(&self, hash: &B256) -> bool {
        let quantity = |value: &Value| value.is_string().then(|| rpc::number(value));
        let receipt = self.ask_chain("eth_getTransactionReceipt", json!([hash])).await;
        let head = self.ask_chain("eth_blockNumber", json!([])).await;
        let block = quantity(&receipt["blockNumber"]);
        block.zip(quantity(&head)).is_some_and(|(block, head)| block + CONFIRMATIONS <= head + 1)
    }

    /// The result of a call to the chain itself; null if there is none.
    async fn ask_chain(&self, method: &str, params: Value) -> Value {
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer = rpc::post(&self.chain_url, &body.to_string()).await.unwrap_or_default();
        let mut answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        answer["result"].take()
    }

    /// The nonces that callers hold or have returned; none if no node says.
    async fn outstanding(&mut self) -> Option<Vec<Reservation>> {
        let port = self.port();
        let path = self.path("");
        let said = call(&self.log, port, ("GET", &path), "").await?;
        let page: ReservationPage = from_value(said.body).ok()?;
        Some(page.items)
    }

    /// One more create, as any caller makes.
    async fn create(&mut self) {
        let order = Order::own(self.account, self.next);
        self.next += 1;
        loop {
            if let Some((port, said)) = self.post(path::TX, &order.create()).await {
                if [200, 202].contains(&said.status) {
                    let tx_id = said.body["txId"].as_str().unwrap_or_default().to_owned();
                    let accepted = Accepted { account: self.account, value: order.value, tx_id };
                    self.log.accept(&order.request(), accepted);
                    return;
                }
                self.refused("a create for a free nonce", port, said);
            }
            sleep(REPEAT).await;
        }
    }

    fn path_of(&self, reserved: &ReservedNonce, action: &str) -> String {
        self.path(&format!("/{}/{action}", reserved.reservation.nonce))
    }

    /// A path below the nonces of the account.
    fn path(&self, rest: &str) -> String {
        let nonces = path::nonces(&address(self.account));
        format!("{nonces}{rest}?chainId={}", CHAIN_IDS[0])
    }

    fn port(&mut self) -> u16 {
        self.ports[below(&mut self.rng, self.ports.len())]
    }

    /// Posts to any node; which one it was, and its answer.
    async fn post(&mut self, path: &str, body: &impl Serialize) -> Option<(u16, Response)> {
        let port = self.port();
        let body = serde_json::to_string(body).unwrap();
        Some((port, call(&self.log, port, ("POST", path), &body).await?))
    }

    fn refused(&self, what: &str, port: u16, said: Response) {
        let asked = (has_retry_after(&said), self.port_without_key != Some(port));
        note_refusal(&self.log, what, said.status, from_value(said.body).ok(), asked);
    }
}
