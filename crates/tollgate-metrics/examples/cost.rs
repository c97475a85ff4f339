//! Measures what metrics cost a transaction: every counter that one touches from its create to its end, on as many
//! threads as are given.
//!
//! `cargo run --profile dist -p tollgate-metrics --example cost -- 2`

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tollgate_metrics::{
    ChainMetrics, CommitResult, CreateResult, ForwardResult, NodeMetrics, ReceiptResult, TxEnd,
};
use tollgate_model::answer::AnswerClass;

const TRANSACTIONS: u32 = 1_000_000;
/// Transactions in one batch: what is counted once for each batch counts by this part.
const BATCH: u32 = 50;

fn main() {
    let threads = std::env::args().nth(1).and_then(|threads| threads.parse().ok()).unwrap_or(1);
    let (chain, node) = (Arc::new(ChainMetrics::default()), Arc::new(NodeMetrics::default()));
    let begun = Instant::now();
    let running: Vec<_> = (0..threads)
        .map(|_| {
            let (chain, node) = (chain.clone(), node.clone());
            thread::spawn(move || (0..TRANSACTIONS).for_each(|n| one(&chain, &node, n)))
        })
        .collect();
    for thread in running {
        thread.join().expect("a thread that only counts does not panic");
    }
    let each = begun.elapsed() / TRANSACTIONS;
    println!("{} ns per transaction on each of {threads} threads", each.as_nanos());
}

/// Counts one transaction.
fn one(chain: &ChainMetrics, node: &NodeMetrics, n: u32) {
    let time = Duration::from_micros(u64::from(n % 10_000));
    // The request, with the look-up of its labels.
    node.tollgate.http_in_flight.add(1.0);
    node.tollgate.http_requests_total.with(&["POST", "/api/v1/tx", "202"]).inc();
    node.tollgate.http_request_seconds.with(&["/api/v1/tx"]).observe(time);
    node.tollgate.http_in_flight.add(-1.0);
    chain.forward_total.inc(ForwardResult::Here);
    chain.tx_accepted_seconds.observe(time);
    chain.tx_create_total.inc(CreateResult::Created);
    chain.tx_submit_total.inc(AnswerClass::Accepted);
    chain.tx_sent_seconds.observe(time);
    chain.receipt_check_total.add(ReceiptResult::Found, 1);
    chain.tx_mined_seconds.observe(time);
    chain.tx_final_seconds.of(TxEnd::Confirmed).into_iter().for_each(|of| of.observe(time));
    if n.is_multiple_of(BATCH) {
        // Its create, its answer, its receipt and its end are each in a batch.
        for _ in 0..4 {
            chain.writer_queue_depth.add(1.0);
            chain.writer_batch_size.observe_count(50);
            chain.writer_batch_submitters.observe_count(1);
            chain.commit_seconds.observe(time);
            chain.commit_total.inc(CommitResult::Committed);
            node.tollgate.store_batch_statements.observe_count(10);
            chain.writer_queue_depth.add(-1.0);
        }
    }
}
