//! The metrics of one chain at one node. All of them have the label `chain_id`.

use tollgate_model::StuckReason;
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::AlertKind;

use crate::accounts::{AccountLoads, HeadMark};
use crate::dictionary::metrics;
use crate::instrument::{
    Counter, CounterBy, Family, Gauge, Histogram, HistogramBy, Latency, Lifetime, Samples, Sizes,
};
use crate::labels::{
    CommitResult, CreateResult, FencedOp, ForwardResult, GreyZoneResult, LeaseResult, OfCall,
    OfEndpoint, OfRpcError, OfSubmitter, ReceiptResult, ReconcileResult, RenewResult,
    ResubmitResult, TxEnd,
};

metrics! {
    /// The metrics of one chain.
    ChainMetrics, prefix = "tollgate_" {
        /// Attempts to take the lease of an account.
        lease_acquire_total: CounterBy<LeaseResult>,
        /// Renewals of leases, one for each lease.
        lease_renew_total: CounterBy<RenewResult>,
        /// Leases that were found lost: another node took the account over while this one was at work. Nothing
        /// was written under them.
        lease_fenced_total: CounterBy<FencedOp>,
        /// Accounts that this node owns now.
        leases_held: Gauge,
        /// Creates, by result.
        tx_create_total: CounterBy<CreateResult>,
        /// Answers of nodes to sent transactions, by class.
        tx_submit_total: CounterBy<AnswerClass>,
        /// Time from the arrival of a create to its commit.
        tx_accepted_seconds: Histogram<Lifetime>,
        /// Time from the commit of a create to the first answer of a node that has it.
        tx_sent_seconds: Histogram<Lifetime>,
        /// Time from the commit of a create to the record of its first receipt.
        tx_mined_seconds: Histogram<Lifetime>,
        /// Time from the commit of a create to its end.
        tx_final_seconds: HistogramBy<TxEnd, Lifetime>,
        /// Sections of batches (one account's part of a database transaction), by result.
        commit_total: CounterBy<CommitResult>,
        /// Time of the database transaction of a batch.
        commit_seconds: Histogram<Latency>,
        /// Sections that wait for the writer or are being written.
        writer_queue_depth: Gauge,
        /// Rows that one database transaction creates or changes.
        writer_batch_size: Histogram<Sizes>,
        /// Accounts in one database transaction.
        writer_batch_submitters: Histogram<Sizes>,
        /// Transactions that wait for a nonce, of the accounts that this node owns.
        queued_depth: Gauge,
        /// Transactions with a nonce that are not final, of the accounts that this node owns.
        pending_depth: Gauge,
        /// Age of the oldest transaction without a receipt, of the accounts that this node owns; 0 if there is none.
        pending_oldest_age_seconds: Gauge,
        /// Transactions that are STUCK now, of the accounts that this node owns.
        stuck_depth: Gauge,
        /// Nonces that callers hold, of the accounts that this node owns.
        reservations_outstanding: Gauge,
        /// Accounts in PROTECT, of those that this node owns.
        protected_submitters: Gauge,
        /// Reads of receipts of transactions that are in a block, by result.
        receipt_check_total: CounterBy<ReceiptResult>,
        /// Heads of the line (the lowest open nonce of an account) that were found to make no progress.
        head_stuck_total: Counter,
        /// Transactions that no block picked up in time, by what was done.
        resubmit_total: CounterBy<ResubmitResult>,
        /// Transactions that were marked STUCK, by reason.
        stuck_total: CounterBy<StuckReason>,
        /// Transactions that entered the grey zone (sent, outcome unknown), and how they left it.
        grey_zone_total: CounterBy<GreyZoneResult>,
        /// Reorganisations: blocks of this node's view were replaced.
        reorg_total: Counter,
        /// Receipts whose block left the canonical chain.
        confirmations_new_fork_total: Counter,
        /// Comparisons of an account's count on the chain with its open slots, by result.
        reconcile_total: CounterBy<ReconcileResult>,
        /// New alerts about the chain, its endpoints and accounts that this node raised, by kind. Repeated reports of an
        /// open alert don't count.
        alerts_total: CounterBy<AlertKind>,
        /// Requests about an account, by the place where they were carried out.
        forward_total: CounterBy<ForwardResult>,
        /// Workers that read their account again from the database, after trouble with the database or the chain.
        worker_restarts_total: Counter,
        /// Actors that panicked and were started again. Any is a defect.
        actor_panics_total: Counter,
        /// Number of the newest block of this node's view.
        head_block: Gauge,
        /// Time since the newest block of this node's view arrived.
        head_age_seconds: Gauge,
        /// Time of a JSON-RPC request or batch that was sent, with or without an answer.
        rpc_request_seconds: Family<OfCall, Histogram<Latency>>,
        /// JSON-RPC requests without a result, by class: `node_error` (an error of the node), `not_rpc`,
        /// `unreachable`, `no_answer`, `unreadable`, `busy` (not sent: no free place or quota).
        rpc_errors_total: Family<OfRpcError, Counter>,
        /// 1 while an endpoint is on the chain and gets calls, 0 while it rests after failures or a rate limit, has
        /// not answered yet or is on another chain.
        endpoint_up: Samples<OfEndpoint>,
        /// Blocks that an endpoint's head is behind the highest head of all endpoints.
        endpoint_head_lag_blocks: Samples<OfEndpoint>,
        /// Lowest balance of the accounts that this node serves, in the chain's coin.
        balance_lowest_ether: Gauge,
        /// Accounts whose balance is below their floor (`alerts.balance_floor`, `topup`). Only at the node that looks
        /// after the alerts of all.
        accounts_below_floor: Gauge,
        /// Time until the first balance is used up, at the burn rate of the last 24 hours. Absent while nothing is
        /// spent.
        balance_left_seconds: Gauge,
        /// `metrics.per_submitter`: transactions that wait for a nonce.
        submitter_queued_depth: Samples<OfSubmitter>,
        /// `metrics.per_submitter`: transactions with a nonce that are not final.
        submitter_pending_depth: Samples<OfSubmitter>,
        /// `metrics.per_submitter`: age of the oldest transaction without a receipt.
        submitter_pending_oldest_age_seconds: Samples<OfSubmitter>,
        /// `metrics.per_submitter`: balance in the chain's coin.
        submitter_balance_ether: Samples<OfSubmitter>,
        /// `metrics.per_submitter`: time until the balance is used up, at the burn rate of the last 24 hours.
        submitter_balance_left_seconds: Samples<OfSubmitter>,
    }
    and {
        /// The load of each account.
        accounts: AccountLoads,
        /// The newest block of the view.
        head: HeadMark,
    }
}
