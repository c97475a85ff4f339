//! `tollgate tx`: creates transactions, shows and follows them, and acts on them.

mod batch;
mod follow;
mod history;
mod send;
pub(super) mod show;

use std::process::ExitCode;

use clap::{ArgGroup, Args, Subcommand};
use serde::Serialize;
use tollgate_api::{
    ActionAnswer, NewPayload, OperatorTx, Reason, Replacement, Tx, TxPage, parse_amount, path,
};
use tollgate_model::U256;

use super::remote::{self, Answer, Failed, Remote, RemoteArgs, print_text};
use crate::cli::output::errln;
use crate::failure::Failure;

#[derive(Args)]
pub(super) struct TxArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: TxCommand,
}

#[derive(Subcommand)]
enum TxCommand {
    /// Create a transaction; with --wait, follow it until it is final.
    Send(send::SendArgs),
    /// Create transactions of JSON lines, with an answer to each.
    Batch(batch::BatchArgs),
    /// Create a transaction of signed bytes.
    Raw(send::RawArgs),
    /// Try a transaction on the chain and show its cost; nothing is stored and no nonce is used.
    Simulate(send::SimulateArgs),
    /// Show a transaction.
    Get(GetArgs),
    /// List transactions, newest first.
    List(ListArgs),
    /// Show the audit trail of a transaction: who did what, on which node, and why.
    History(history::HistoryArgs),
    /// Follow a transaction until it is final, with a line for each change.
    Watch(WatchArgs),
    /// Cancel a transaction. A queued one is dropped; otherwise its nonce is consumed by a zero-value
    /// self-transfer.
    Cancel(ActionArgs),
    /// Send a transaction again at a higher price.
    SpeedUp(ActionArgs),
    /// Send a transaction's newest attempt again now, unchanged.
    Resubmit(ActionArgs),
    /// Replace a transaction by one at another price, or by another call.
    Replace(ReplaceArgs),
    /// Ask the stuck policy about a transaction now.
    Resolve(ActionArgs),
}

#[derive(Args)]
struct GetArgs {
    /// Id of the transaction.
    #[arg(required_unless_present = "request_id", conflicts_with = "request_id")]
    tx_id: Option<String>,
    /// Find it by its request id instead, together with --from.
    #[arg(long, requires = "from")]
    request_id: Option<String>,
    /// Address of the account that sends, for --request-id.
    #[arg(long, requires = "request_id")]
    from: Option<String>,
    /// Show nonce, fencing token, attempts and schedule as well.
    #[arg(long)]
    operator: bool,
    /// Wait up to this many seconds for the transaction to be final; at most 60.
    #[arg(long, value_name = "SECONDS")]
    wait: Option<u32>,
}

#[derive(Args)]
struct ListArgs {
    /// Only transactions of this account.
    #[arg(long)]
    submitter: Option<String>,
    /// Only transactions in these states, like STUCK or QUEUED,TRACKING.
    #[arg(long)]
    state: Option<String>,
    /// Only transactions accepted at this time or later (RFC 3339).
    #[arg(long)]
    since: Option<String>,
    /// Only transactions accepted before this time (RFC 3339).
    #[arg(long)]
    until: Option<String>,
    /// Maximum number of rows.
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Cursor of the next page, as the previous page gave it.
    #[arg(long)]
    cursor: Option<String>,
    /// Print CSV.
    #[arg(long, conflicts_with_all = ["json", "wide"])]
    csv: bool,
}

#[derive(Args)]
struct WatchArgs {
    /// Id of the transaction.
    tx_id: String,
}

#[derive(Args)]
struct ActionArgs {
    /// Id of the transaction.
    tx_id: String,
    /// Reason, for the audit trail.
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Args)]
#[command(group(ArgGroup::new("what").multiple(true).required(true)))]
#[command(group(ArgGroup::new("call").multiple(true)))]
struct ReplaceArgs {
    /// Id of the transaction.
    tx_id: String,
    /// Reason, for the audit trail.
    #[arg(long)]
    reason: Option<String>,
    /// Maximum price per unit of gas, like 30gwei.
    #[arg(long, value_parser = parse_amount, group = "what")]
    max_fee_per_gas: Option<U256>,
    /// Tip per unit of gas, like 2gwei.
    #[arg(long, value_parser = parse_amount, group = "what")]
    max_priority_fee_per_gas: Option<U256>,
    /// Address to call instead, if the transaction is replaceable.
    #[arg(long, groups = ["what", "call"])]
    to: Option<String>,
    /// Value to pay instead, like 1.5eth; 0 by default.
    #[arg(long, value_parser = parse_amount, requires = "call")]
    value: Option<U256>,
    /// Data of the call instead, as 0x-hex.
    #[arg(long, groups = ["what", "call"])]
    data: Option<String>,
    /// Gas limit of the call instead; estimated by default.
    #[arg(long, requires = "call")]
    gas: Option<u64>,
}

pub(super) fn run(args: TxArgs) -> Result<ExitCode, Failure> {
    remote::run(args.remote, async |remote| match args.command {
        TxCommand::Send(args) => send::run(remote, args).await,
        TxCommand::Batch(args) => batch::run(remote, args).await,
        TxCommand::Raw(args) => send::raw(remote, args).await,
        TxCommand::Simulate(args) => send::simulate(remote, args).await,
        TxCommand::History(args) => history::run(remote, args).await,
        TxCommand::Get(args) => get(remote, args).await,
        TxCommand::List(args) => list(remote, args).await,
        TxCommand::Watch(args) => follow::watch(remote, &args.tx_id).await,
        TxCommand::Cancel(args) => act(remote, "cancel", args).await,
        TxCommand::SpeedUp(args) => act(remote, "speed-up", args).await,
        TxCommand::Resubmit(args) => act(remote, "resubmit", args).await,
        TxCommand::Replace(args) => replace(remote, args).await,
        TxCommand::Resolve(args) => act(remote, "resolve", args).await,
    })
}

async fn get(remote: &mut Remote, args: GetArgs) -> Result<(), Failed> {
    let view = ("view", args.operator.then(|| "operator".to_owned()));
    let path = match args.tx_id {
        Some(tx_id) => path::with_query(&path::tx(&tx_id), &[view]),
        None => {
            let params = [("submitter", args.from), ("requestId", args.request_id), view];
            path::with_query(path::BY_REQUEST, &params)
        }
    };
    if let Some(seconds) = args.wait {
        remote.wait_for_finality(seconds);
    }
    if args.operator {
        let found: Answer<OperatorTx> = remote.get(&path).await?;
        let needed = needed(remote, &found.value.tx).await;
        return remote.print(&found, |tx| show::operator_tx(tx, needed));
    }
    let found: Answer<Tx> = remote.get(&path).await?;
    let needed = needed(remote, &found.value).await;
    remote.print(&found, |tx| show::tx(tx, needed))
}

/// The number of blocks that make a transaction final, if the table shows how many it has.
async fn needed(remote: &mut Remote, tx: &Tx) -> Option<u64> {
    if remote.json || show::progress(tx, None).is_none() {
        return None;
    }
    follow::blocks_needed(remote, tx.chain_id).await
}

async fn list(remote: &mut Remote, args: ListArgs) -> Result<(), Failed> {
    let params = [
        ("submitter", args.submitter),
        ("state", args.state),
        ("from", args.since),
        ("to", args.until),
        ("cursor", args.cursor),
        ("limit", Some(args.limit.to_string())),
    ];
    let path = path::with_query(path::TX, &params);
    if args.csv {
        let (text, next) = remote.get_csv(&path).await?;
        print_text(&text)?;
        if let Some(next) = next {
            errln!("more with --cursor {next}");
        }
        return Ok(());
    }
    let page: Answer<TxPage> = remote.get(&path).await?;
    remote.print(&page, |page| show::list(page, remote.wide))
}

async fn act(remote: &mut Remote, action: &str, args: ActionArgs) -> Result<(), Failed> {
    post(remote, &args.tx_id, action, &Reason { reason: args.reason }).await
}

async fn replace(remote: &mut Remote, args: ReplaceArgs) -> Result<(), Failed> {
    let (value, gas) = (args.value.map(Into::into), args.gas.map(Into::into));
    let payload = NewPayload { to: args.to, value, data: args.data, gas };
    let body = Replacement {
        max_fee_per_gas: args.max_fee_per_gas.map(Into::into),
        max_priority_fee_per_gas: args.max_priority_fee_per_gas.map(Into::into),
        payload: Some(payload).filter(|payload| *payload != NewPayload::default()),
        reason: args.reason,
    };
    post(remote, &args.tx_id, "replace", &body).await
}

async fn post(
    remote: &mut Remote,
    tx_id: &str,
    action: &str,
    body: &impl Serialize,
) -> Result<(), Failed> {
    let path = format!("{}/{action}", path::tx(tx_id));
    let done: Answer<ActionAnswer> = remote.post(&path, body).await?;
    remote.print(&done, show::action)
}
