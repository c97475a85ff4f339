//! `tollgate submitter`: the accounts that send, and whether they do.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use tollgate_model::fill::{FILL_MAX, FillWith};
use tollgate_model::nonce::Mode;

use super::amount::in_eth;
use super::remote::{self, Remote, RemoteArgs, Trouble, escaped, say, with_query};
use super::table::{Fields, Table};
use super::tx::show::{blocked_by, cell, text};
use crate::failure::Failure;

/// The pause between two looks at how far a fill is.
const FILL_PAUSE: Duration = Duration::from_millis(500);

#[derive(Args)]
pub(super) struct SubmitterArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(subcommand)]
    command: SubmitterCommand,
}

#[derive(Subcommand)]
enum SubmitterCommand {
    /// Lists the submitters.
    List(ListArgs),
    /// Shows a submitter, with what the chain says of it.
    Show(ShowArgs),
    /// Stops opening slots; new work waits, what has a slot goes on.
    Pause(StandArgs),
    /// Lets a submitter that was paused, or is in PROTECT, go on.
    Resume(StandArgs),
    /// Makes a submitter pipelined or strict, while nothing of it is open or reserved.
    Mode(ModeArgs),
    /// Compares cursor and open slots with the chain now.
    Reconcile(ShowArgs),
    /// Fills nonces that the chain waits for and nobody has, in steps, with progress.
    Fill(FillArgs),
    /// Moves the next nonce forward to a count that only one endpoint tells.
    Advance(AdvanceArgs),
}

#[derive(Args)]
struct ListArgs {
    /// How many at most.
    #[arg(long, default_value_t = 100)]
    limit: u32,
    /// Where the list before this one ended.
    #[arg(long)]
    cursor: Option<String>,
}

#[derive(Args)]
struct ShowArgs {
    /// The account.
    address: String,
}

#[derive(Args)]
struct StandArgs {
    /// The account.
    address: String,
    /// Why: shown with the submitter.
    #[arg(long)]
    reason: String,
}

#[derive(Args)]
struct ModeArgs {
    /// The account.
    address: String,
    /// Which mode it is to have.
    #[arg(value_parser = Mode::ALL.map(Mode::name))]
    mode: String,
    /// Why: kept in the submitter's audit trail.
    #[arg(long)]
    reason: String,
}

#[derive(Args)]
struct FillArgs {
    /// The account.
    address: String,
    /// The lowest nonce; what the chain counts if left out.
    #[arg(long)]
    first: Option<u64>,
    /// The highest nonce.
    #[arg(long)]
    last: u64,
    /// What fills them: the next transactions, or zero-value transfers to self, which cost gas.
    #[arg(long, value_parser = FillWith::ALL.map(FillWith::name))]
    with: String,
    /// Also nonces that callers reserved and said to use, and will certainly not send any more.
    #[arg(long)]
    used: bool,
    /// Don't wait until the chain has passed the last one.
    #[arg(long)]
    no_wait: bool,
    /// Why: kept in the submitter's audit trail.
    #[arg(long)]
    reason: String,
}

#[derive(Args)]
struct AdvanceArgs {
    /// The account.
    address: String,
    /// The next nonce that it is to have.
    next_nonce: u64,
    /// Why: kept in the submitter's audit trail.
    #[arg(long)]
    reason: String,
}

pub(super) fn run(args: SubmitterArgs) -> Result<ExitCode, Failure> {
    remote::run(args.remote, async |remote| match args.command {
        SubmitterCommand::List(args) => list(remote, args).await,
        SubmitterCommand::Show(args) => show(remote, &args.address).await,
        SubmitterCommand::Pause(args) => operate(remote, "pause", args).await,
        SubmitterCommand::Resume(args) => operate(remote, "resume", args).await,
        SubmitterCommand::Mode(args) => mode(remote, args).await,
        SubmitterCommand::Reconcile(args) => reconcile(remote, &args.address).await,
        SubmitterCommand::Fill(args) => fill(remote, args).await,
        SubmitterCommand::Advance(args) => advance(remote, args).await,
    })
}

async fn list(remote: &mut Remote, args: ListArgs) -> Result<(), Trouble> {
    let words = [("limit", Some(args.limit.to_string())), ("cursor", args.cursor)];
    let said = remote.get(&with_query("/api/v1/submitters", &words)).await?;
    if remote.json {
        return say(&said.text);
    }
    let head = ["ADDRESS", "STATUS", "MODE", "NEXT", "OPEN", "OLDEST", "OWNER"];
    let mut table = Table::new(head);
    for one in said.json["items"].as_array().into_iter().flatten() {
        table.row([
            cell(&one["address"]),
            cell(&one["status"]),
            cell(&one["mode"]),
            cell(&one["nextNonce"]),
            open(one).to_string(),
            age(&one["oldestPendingSeconds"]).unwrap_or_else(|| "-".to_owned()),
            cell(&one["owner"]),
        ]);
    }
    table.print()?;
    if let Some(next) = said.json["next"].as_str() {
        eprintln!("more with --cursor {next}");
    }
    Ok(())
}

async fn show(remote: &mut Remote, address: &str) -> Result<(), Trouble> {
    let said = remote.get(&path_of(address)).await?;
    if remote.json { say(&said.text) } else { fields(&said.json).print() }
}

async fn operate(remote: &mut Remote, word: &str, args: StandArgs) -> Result<(), Trouble> {
    let path = format!("{}/{word}", path_of(&args.address));
    let said = remote.post(&path, &json!({ "reason": args.reason })).await?;
    if remote.json { say(&said.text) } else { fields(&said.json).print() }
}

async fn mode(remote: &mut Remote, args: ModeArgs) -> Result<(), Trouble> {
    let path = format!("{}/mode", path_of(&args.address));
    let body = json!({ "mode": args.mode, "reason": args.reason });
    let said = remote.post(&path, &body).await?;
    if remote.json { say(&said.text) } else { fields(&said.json).print() }
}

async fn reconcile(remote: &mut Remote, address: &str) -> Result<(), Trouble> {
    let said = remote.post(&format!("{}/reconcile", path_of(address)), &json!({})).await?;
    if remote.json {
        return say(&said.text);
    }
    let mut shown = fields(&said.json);
    shown.add("pending nonce", text(&said.json["pendingNonce"]));
    let steps = said.json["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    for step in steps {
        shown.add("step", text(step));
    }
    if steps.is_empty() {
        shown.add("step", Some("none: everything agrees".to_owned()));
    }
    shown.print()
}

/// Hands a range back in steps that the node takes, and waits until the chain has passed it.
async fn fill(remote: &mut Remote, args: FillArgs) -> Result<(), Trouble> {
    let path = path_of(&args.address);
    let shown = remote.get(&path).await?;
    let first = args.first.or(shown.json["chainNonce"].as_u64()).unwrap_or_default();
    let count = args.last.saturating_sub(first).saturating_add(1);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} nonces {elapsed}");
    let bar =
        ProgressBar::new(count).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let (mut next, mut handed_back) = (first, 0);
    loop {
        let last = next.saturating_add(FILL_MAX - 1).min(args.last);
        let body = json!({
            "first": next, "last": last, "with": args.with, "used": args.used, "reason": args.reason
        });
        let said = match remote.post(&format!("{path}/fill"), &body).await {
            Err(Trouble::Refused(said)) if said.json["code"] == "busy" => {
                // As many are free as may be: they are filled first.
                bar.set_position(passed(remote, &path).await?.saturating_sub(first).min(count));
                tokio::time::sleep(FILL_PAUSE).await;
                continue;
            }
            said => said?,
        };
        handed_back += said.json["handedBack"].as_u64().unwrap_or_default();
        if last >= args.last {
            break;
        }
        next = last + 1;
    }
    // What the next transactions fill takes as long as they do.
    let mut waits = !args.no_wait && handed_back > 0 && args.with == FillWith::Placeholder.name();
    while waits {
        let passed = passed(remote, &path).await?.saturating_sub(first).min(count);
        bar.set_position(passed);
        waits = passed < count;
        tokio::time::sleep(FILL_PAUSE).await;
    }
    bar.finish_and_clear();
    let said = remote.get(&path).await?;
    if remote.json {
        return say(&said.text);
    }
    let mut shown = fields(&said.json);
    shown.add("handed back", Some(handed_back.to_string()));
    shown.print()
}

/// What the chain counts; 0 while it can't be asked.
async fn passed(remote: &mut Remote, path: &str) -> Result<u64, Trouble> {
    let said = remote.get_patiently(path).await?;
    Ok(said.json["chainNonce"].as_u64().unwrap_or_default())
}

async fn advance(remote: &mut Remote, args: AdvanceArgs) -> Result<(), Trouble> {
    let body = json!({ "nextNonce": args.next_nonce, "reason": args.reason });
    let said = remote.post(&format!("{}/advance", path_of(&args.address)), &body).await?;
    if remote.json {
        return say(&said.text);
    }
    let mut shown = fields(&said.json);
    shown.add("was next", text(&said.json["wasNextNonce"]));
    shown.print()
}

fn path_of(address: &str) -> String {
    format!("/api/v1/submitters/{}", escaped(address))
}

fn fields(one: &Value) -> Fields {
    let mut fields = Fields::default();
    fields.add("submitter", text(&one["address"]));
    fields.add("chain", text(&one["chainId"]));
    fields.add("status", text(&one["status"]));
    fields.add("was", text(&one["was"]));
    fields.add("reason", text(&one["statusReason"]));
    fields.add("blocked by", blocked_by(one));
    fields.add("mode", text(&one["mode"]));
    fields.add("was mode", text(&one["wasMode"]));
    fields.add("window", text(&one["window"]));
    fields.add("owner", text(&one["owner"]));
    fields.add("token", text(&one["fencingToken"]));
    fields.add("next nonce", text(&one["nextNonce"]));
    fields.add("chain nonce", text(&one["chainNonce"]));
    for state in ["QUEUED", "ALLOCATED", "TRACKING", "STUCK"] {
        fields.add(&state.to_lowercase(), text(&one["depth"][state]));
    }
    fields.add("oldest", age(&one["oldestPendingSeconds"]));
    let holes = one["holes"].as_array().filter(|holes| !holes.is_empty());
    let holes = holes.map(|holes| holes.iter().map(cell).collect::<Vec<_>>().join(", "));
    fields.add("holes", holes);
    fields.add("balance", one["balance"].as_str().map(in_eth));
    fields
}

/// How many open transactions it has.
fn open(one: &Value) -> u64 {
    one["depth"].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum()
}

fn age(seconds: &Value) -> Option<String> {
    seconds.as_u64().map(|seconds| format!("{seconds}s"))
}
