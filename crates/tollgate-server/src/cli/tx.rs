//! `tollgate tx`: create transactions, read them, follow them, step in.

mod follow;
mod send;
pub(super) mod show;

use std::process::ExitCode;

use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Map, Value, json};
use tollgate_model::U256;

use super::amount::wei;
use super::remote::{self, Remote, RemoteArgs, Trouble, escaped, say, with_query};
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
    /// Makes a transaction; with --wait, follows it to its end.
    Send(send::SendArgs),
    /// Shows a transaction.
    Get(GetArgs),
    /// Lists transactions, newest first.
    List(ListArgs),
    /// Follows a transaction until it is final, with a line for each change.
    Watch(WatchArgs),
    /// Ends a transaction: at once if it has no nonce, else by a transfer to self in its slot.
    Cancel(ActArgs),
    /// Offers more for a transaction.
    SpeedUp(ActArgs),
    /// Sends a transaction's newest bytes again now.
    Resubmit(ActArgs),
    /// Puts another price, or another call, in a transaction's place.
    Replace(ReplaceArgs),
    /// Asks the stuck policy about a transaction now.
    Resolve(ActArgs),
}

#[derive(Args)]
struct GetArgs {
    /// The transaction's id.
    #[arg(required_unless_present = "request_id", conflicts_with = "request_id")]
    tx_id: Option<String>,
    /// By its request instead, together with --from.
    #[arg(long, requires = "from")]
    request_id: Option<String>,
    /// The account that sends, for --request-id.
    #[arg(long, requires = "request_id")]
    from: Option<String>,
    /// With nonce, fencing token, attempts and schedule.
    #[arg(long)]
    operator: bool,
}

#[derive(Args)]
struct ListArgs {
    /// Only of this account.
    #[arg(long)]
    submitter: Option<String>,
    /// Only in these states, like STUCK or QUEUED,TRACKING.
    #[arg(long)]
    state: Option<String>,
    /// Only those accepted at this time or later (RFC 3339).
    #[arg(long)]
    since: Option<String>,
    /// Only those accepted before this time (RFC 3339).
    #[arg(long)]
    until: Option<String>,
    /// How many at most.
    #[arg(long, default_value_t = 20)]
    limit: u32,
    /// Where the list before this one ended.
    #[arg(long)]
    cursor: Option<String>,
}

#[derive(Args)]
struct WatchArgs {
    /// The transaction's id.
    tx_id: String,
}

#[derive(Args)]
struct ActArgs {
    /// The transaction's id.
    tx_id: String,
    /// Why, for the audit trail.
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Args)]
#[command(group(ArgGroup::new("what").multiple(true).required(true)))]
#[command(group(ArgGroup::new("call").multiple(true)))]
struct ReplaceArgs {
    /// The transaction's id.
    tx_id: String,
    /// Why, for the audit trail.
    #[arg(long)]
    reason: Option<String>,
    /// The price for a unit of gas, like 30gwei.
    #[arg(long, value_parser = wei, group = "what")]
    max_fee_per_gas: Option<U256>,
    /// The tip for a unit of gas, like 2gwei.
    #[arg(long, value_parser = wei, group = "what")]
    max_priority_fee_per_gas: Option<U256>,
    /// What is called instead, where the create said replaceable.
    #[arg(long, groups = ["what", "call"])]
    to: Option<String>,
    /// What is paid instead, like 1.5eth; 0 if left out.
    #[arg(long, value_parser = wei, requires = "call")]
    value: Option<U256>,
    /// The data of the call instead, as 0x-hex.
    #[arg(long, groups = ["what", "call"])]
    data: Option<String>,
    /// The most gas that the call may use instead; estimated if left out.
    #[arg(long, requires = "call")]
    gas: Option<u64>,
}

pub(super) fn run(args: TxArgs) -> Result<ExitCode, Failure> {
    remote::run(args.remote, async |remote| match args.command {
        TxCommand::Send(args) => send::run(remote, args).await,
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

async fn get(remote: &mut Remote, args: GetArgs) -> Result<(), Trouble> {
    let view = args.operator.then(|| "operator".to_owned());
    let path = match args.tx_id {
        Some(tx_id) => with_query(&path_of(&tx_id), &[("view", view)]),
        None => with_query(
            "/api/v1/tx/by-request",
            &[("submitter", args.from), ("requestId", args.request_id), ("view", view)],
        ),
    };
    let said = remote.get(&path).await?;
    if remote.json { say(&said.text) } else { show::tx(&said.json) }
}

async fn list(remote: &mut Remote, args: ListArgs) -> Result<(), Trouble> {
    let words = [
        ("submitter", args.submitter),
        ("state", args.state),
        ("from", args.since),
        ("to", args.until),
        ("cursor", args.cursor),
        ("limit", Some(args.limit.to_string())),
    ];
    let said = remote.get(&with_query("/api/v1/tx", &words)).await?;
    if remote.json { say(&said.text) } else { show::list(&said.json) }
}

async fn act(remote: &mut Remote, word: &str, args: ActArgs) -> Result<(), Trouble> {
    let body = args.reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
    carry_out(remote, &args.tx_id, word, &body).await
}

async fn replace(remote: &mut Remote, args: ReplaceArgs) -> Result<(), Trouble> {
    let text = |wei: U256| Value::from(wei.to_string());
    let call = given([
        ("to", args.to.map(Value::from)),
        ("value", args.value.map(text)),
        ("data", args.data.map(Value::from)),
        ("gas", args.gas.map(Value::from)),
    ]);
    let body = given([
        ("maxFeePerGas", args.max_fee_per_gas.map(text)),
        ("maxPriorityFeePerGas", args.max_priority_fee_per_gas.map(text)),
        ("payload", (!call.is_empty()).then_some(Value::Object(call))),
        ("reason", args.reason.map(Value::from)),
    ]);
    carry_out(remote, &args.tx_id, "replace", &Value::Object(body)).await
}

async fn carry_out(
    remote: &mut Remote,
    tx_id: &str,
    word: &str,
    body: &Value,
) -> Result<(), Trouble> {
    let said = remote.post(&format!("{}/{word}", path_of(tx_id)), body).await?;
    if remote.json { say(&said.text) } else { show::acted(&said.json) }
}

fn path_of(tx_id: &str) -> String {
    format!("/api/v1/tx/{}", escaped(tx_id))
}

/// An object of what is there.
fn given<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}
