//! `tollgate submitter`: lists the submitters of a node and changes them.

mod nonces;
mod show;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tollgate_api::{
    AccountChange, CursorMoved, ErrorCode, FillNonces, Filled, ModeChanged, NewAccount, NewCursor,
    NewMode, Number, Reason, Reconciled, RequiredReason, StatusChanged, Submitter, SubmitterPage,
    parse_amount, path,
};
use tollgate_model::U256;
use tollgate_model::fill::{FILL_MAX, FillWith};
use tollgate_model::nonce::Mode;

use super::remote::{self, Answer, Failed, Remote, RemoteArgs, print_line};
use crate::cli::output::{errln, outln};
use crate::failure::Failure;
use show::{fields, table};

/// The pause between two reads of how far a fill is.
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
    /// List the submitters.
    List(ListArgs),
    /// Show a submitter, with its count and balance on the chain.
    Show(ShowArgs),
    /// Open an account whose key a reference names, on the node that is asked and on all that find the key.
    Add(AddArgs),
    /// Change an account's own settings.
    Set(SetArgs),
    /// Remove an account of which nothing is open.
    Remove(ShowArgs),
    /// Pause a submitter: new transactions wait, those with a nonce continue.
    Pause(ReasonArgs),
    /// Resume a submitter that is paused or in PROTECT.
    Resume(ReasonArgs),
    /// Change a submitter's mode, while none of its transactions is open and no nonce reserved.
    Mode(ModeArgs),
    /// Compare the next nonce, and the open slots, with the chain.
    Reconcile(ShowArgs),
    /// Fill nonces that the chain waits for and nobody has.
    Fill(FillArgs),
    /// Move the next nonce forward to a count that only one endpoint reports.
    Advance(AdvanceArgs),
    /// Reserve nonces for a program that sends by itself, and report what became of them.
    Nonces(nonces::NoncesArgs),
}

#[derive(Args)]
struct AddArgs {
    /// The reference to its key: env:TOLLGATE_KEY_…, file:NAME, keystore:ADDRESS or hd:N; or caller.
    key: String,
    /// The account; needed with `caller`.
    #[arg(long)]
    address: Option<String>,
    /// `pipelined` or `strict`; the node's default if left out.
    #[arg(long)]
    mode: Option<String>,
    #[command(flatten)]
    settings: OwnSettings,
}

#[derive(Args)]
struct SetArgs {
    /// The account.
    address: String,
    #[command(flatten)]
    settings: OwnSettings,
    /// Accept new transactions again.
    #[arg(long, conflicts_with = "disable")]
    enable: bool,
    /// Refuse new transactions; open ones continue.
    #[arg(long)]
    disable: bool,
    /// Settings to take back to those of the chain.
    #[arg(long, value_parser = [
        "label", "window", "max-fee-per-gas", "max-tx-fee", "max-value", "allowed-calls",
    ])]
    unset: Vec<String>,
}

#[derive(Args)]
struct OwnSettings {
    /// A name for people.
    #[arg(long)]
    label: Option<String>,
    /// Slots that may be in flight at once.
    #[arg(long)]
    window: Option<u64>,
    /// The highest price for a unit of gas, in wei.
    #[arg(long)]
    max_fee_per_gas: Option<String>,
    /// The highest fee of one transaction, in wei.
    #[arg(long)]
    max_tx_fee: Option<String>,
    /// The highest value of one transaction, like 10eth.
    #[arg(long, value_parser = parse_amount, value_name = "AMOUNT")]
    max_value: Option<U256>,
    /// A call that the account may make: ADDRESS, ADDRESS:0xSELECTOR, ADDRESS:value, create or set-code.
    /// Repeat it for several; together they replace the list.
    #[arg(long = "allow-call", value_name = "CALL")]
    allowed_calls: Vec<String>,
}

#[derive(Args)]
struct ListArgs {
    /// Maximum number of rows.
    #[arg(long, default_value_t = 100)]
    limit: u32,
    /// Cursor of the next page, as the previous page gave it.
    #[arg(long)]
    cursor: Option<String>,
}

#[derive(Args)]
struct ShowArgs {
    /// Address of the account.
    address: String,
}

/// An account and the reason of an action on it.
#[derive(Args)]
struct ReasonArgs {
    /// Address of the account.
    address: String,
    /// Reason, shown with the submitter and kept in its audit trail.
    #[arg(long)]
    reason: String,
}

#[derive(Args)]
struct ModeArgs {
    #[command(flatten)]
    of: ReasonArgs,
    /// The new mode.
    #[arg(value_parser = Mode::ALL.map(Mode::name))]
    mode: String,
}

#[derive(Args)]
struct FillArgs {
    #[command(flatten)]
    of: ReasonArgs,
    /// The lowest nonce; by default the chain's count.
    #[arg(long)]
    first: Option<u64>,
    /// The highest nonce.
    #[arg(long)]
    last: u64,
    /// Fill them with the next transactions, or with zero-value self-transfers, which cost gas.
    #[arg(long, value_parser = FillWith::ALL.map(FillWith::name))]
    with: String,
    /// Include nonces that callers reported as used and will certainly not send any more.
    #[arg(long)]
    used: bool,
    /// Don't wait until the chain has passed the last nonce.
    #[arg(long)]
    no_wait: bool,
}

#[derive(Args)]
struct AdvanceArgs {
    #[command(flatten)]
    of: ReasonArgs,
    /// The new next nonce.
    next_nonce: u64,
}

pub(super) fn run(args: SubmitterArgs) -> Result<ExitCode, Failure> {
    remote::run(args.remote, async |remote| match args.command {
        SubmitterCommand::List(args) => list(remote, args).await,
        SubmitterCommand::Show(args) => {
            let shown: Answer<Submitter> = remote.get(&path::submitter(&args.address)).await?;
            remote.print(&shown, |shown| fields(shown).print())
        }
        SubmitterCommand::Add(args) => add(remote, args).await,
        SubmitterCommand::Set(args) => set(remote, args).await,
        SubmitterCommand::Remove(args) => {
            remote.delete(&path::submitter(&args.address)).await?;
            outln!("removed {}", args.address);
            Ok(())
        }
        SubmitterCommand::Pause(args) => change_status(remote, "pause", args).await,
        SubmitterCommand::Resume(args) => change_status(remote, "resume", args).await,
        SubmitterCommand::Mode(args) => {
            let body = NewMode { mode: Some(args.mode), reason: Some(args.of.reason) };
            let changed = act(remote, &args.of.address, "mode", &body).await?;
            remote.print(&changed, |ModeChanged { submitter, was_mode }| {
                fields(submitter).with("was mode", was_mode).print()
            })
        }
        SubmitterCommand::Reconcile(args) => reconcile(remote, &args.address).await,
        SubmitterCommand::Fill(args) => fill(remote, args).await,
        SubmitterCommand::Nonces(args) => nonces::run(remote, args).await,
        SubmitterCommand::Advance(args) => {
            let next_nonce = Some(args.next_nonce.into());
            let body = NewCursor { next_nonce, reason: Some(args.of.reason) };
            let moved = act(remote, &args.of.address, "advance", &body).await?;
            remote.print(&moved, |CursorMoved { submitter, was_next_nonce }| {
                fields(submitter).with("was next", was_next_nonce).print()
            })
        }
    })
}

async fn add(remote: &mut Remote, args: AddArgs) -> Result<(), Failed> {
    let OwnSettings { label, window, max_fee_per_gas, max_tx_fee, max_value, allowed_calls } =
        args.settings;
    let max_value = max_value.map(Number::from);
    let allowed_calls = (!allowed_calls.is_empty()).then_some(allowed_calls);
    let body = NewAccount {
        chain_id: None,
        key: Some(args.key),
        address: args.address,
        mode: args.mode,
        label,
        window: window.map(Into::into),
        max_fee_per_gas: max_fee_per_gas.map(Number::new),
        max_tx_fee: max_tx_fee.map(Number::new),
        max_value,
        allowed_calls,
        reason: None,
    };
    let opened: Answer<Submitter> = remote.post(path::SUBMITTERS, &body).await?;
    remote.print(&opened, |opened| fields(opened).print())
}

async fn set(remote: &mut Remote, args: SetArgs) -> Result<(), Failed> {
    let OwnSettings { label, window, max_fee_per_gas, max_tx_fee, max_value, allowed_calls } =
        args.settings;
    let max_value = max_value.map(Number::from);
    let allowed_calls = (!allowed_calls.is_empty()).then_some(allowed_calls);
    let unset = |name: &str| args.unset.iter().any(|unset| unset == name).then_some(None);
    let body = AccountChange {
        label: label.map(Some).or(args.unset.iter().any(|it| it == "label").then_some(None)),
        window: window.map(|window| Some(window.into())).or(unset("window")),
        max_fee_per_gas: max_fee_per_gas
            .map(|it| Some(Number::new(it)))
            .or(unset("max-fee-per-gas")),
        max_tx_fee: max_tx_fee.map(|it| Some(Number::new(it))).or(unset("max-tx-fee")),
        max_value: max_value.map(Some).or(unset("max-value")),
        allowed_calls: allowed_calls.map(Some).or(args
            .unset
            .iter()
            .any(|it| it == "allowed-calls")
            .then_some(None)),
        enabled: (args.enable || args.disable).then_some(args.enable),
        reason: None,
    };
    let changed: Answer<Submitter> = remote.patch(&path::submitter(&args.address), &body).await?;
    remote.print(&changed, |changed| fields(changed).print())
}

/// Posts to a route of a submitter.
async fn act<T: DeserializeOwned>(
    remote: &mut Remote,
    address: &str,
    action: &str,
    body: &impl Serialize,
) -> Result<Answer<T>, Failed> {
    remote.post(&format!("{}/{action}", path::submitter(address)), body).await
}

async fn list(remote: &mut Remote, args: ListArgs) -> Result<(), Failed> {
    let params = [("limit", Some(args.limit.to_string())), ("cursor", args.cursor)];
    let page = remote.get(&path::with_query(path::SUBMITTERS, &params)).await?;
    remote.print(&page, |page: &SubmitterPage| {
        table(&page.items).wide(remote.wide).print_page(page.next.as_deref())
    })
}

async fn change_status(remote: &mut Remote, action: &str, args: ReasonArgs) -> Result<(), Failed> {
    let body = RequiredReason { reason: Some(args.reason) };
    let changed = act(remote, &args.address, action, &body).await?;
    remote.print(&changed, |StatusChanged { submitter, was }| {
        fields(submitter).with("was", was).print()
    })
}

async fn reconcile(remote: &mut Remote, address: &str) -> Result<(), Failed> {
    let found = act(remote, address, "reconcile", &Reason::default()).await?;
    remote.print(&found, |found: &Reconciled| {
        let mut shown = fields(&found.submitter);
        shown.add("pending nonce", found.pending_nonce);
        for step in &found.steps {
            shown.add("step", step);
        }
        if found.steps.is_empty() {
            shown.add("step", "none: everything agrees");
        }
        shown.print()
    })
}

/// Hands a range back in steps that the node takes, and waits until the chain has passed it.
async fn fill(remote: &mut Remote, args: FillArgs) -> Result<(), Failed> {
    let path = path::submitter(&args.of.address);
    let before: Submitter = remote.get(&path).await?.value;
    let first = args.first.or(before.chain_nonce).unwrap_or_default();
    let count = args.last.saturating_sub(first).saturating_add(1);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} nonces {elapsed}");
    let bar =
        ProgressBar::new(count).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let (mut next, mut steps) = (first, Vec::new());
    loop {
        let last = next.saturating_add(FILL_MAX - 1).min(args.last);
        let body = FillNonces {
            first: Some(next.into()),
            last: Some(last.into()),
            with: Some(args.with.clone()),
            used: Some(args.used),
            reason: Some(args.of.reason.clone()),
        };
        match act::<Filled>(remote, &args.of.address, "fill", &body).await {
            Err(Failed::Refused(refusal)) if refusal.has_code(ErrorCode::Busy) => {
                // As many nonces are free as may be: they are filled first.
                bar.set_position(passed(remote, &path, first).await?.min(count));
                tokio::time::sleep(FILL_PAUSE).await;
                continue;
            }
            filled => steps.push(filled?.value),
        }
        if last >= args.last {
            break;
        }
        next = last + 1;
    }
    let handed_back: u64 = steps.iter().map(|step| step.handed_back).sum();
    // Filled by the next transactions, it takes as long as they do.
    let mut waits = !args.no_wait && handed_back > 0 && args.with == FillWith::Placeholder.name();
    while waits {
        let passed = passed(remote, &path, first).await?.min(count);
        bar.set_position(passed);
        waits = passed < count;
        tokio::time::sleep(FILL_PAUSE).await;
    }
    bar.finish_and_clear();
    let filled = Filled {
        submitter: remote.get(&path).await?.value,
        handed_back,
        taken: steps.iter().map(|step| step.taken).sum(),
        counted: steps.iter().map(|step| step.counted).sum(),
        free: steps.last().map_or(0, |step| step.free),
    };
    if remote.json {
        print_line(&serde_json::to_string(&filled).unwrap_or_default())?;
    } else {
        let shown = fields(&filled.submitter).with("handed back", filled.handed_back);
        shown.with("taken", filled.taken).with("counted", filled.counted).print()?;
    }
    match nothing_filled(&filled, count) {
        Some(why) if filled.taken > 0 => Err(Failed::NotAchieved(why)),
        Some(why) => {
            errln!("tollgate: {why}");
            Ok(())
        }
        None => Ok(()),
    }
}

/// The reason why no nonce was handed back, if none was.
fn nothing_filled(filled: &Filled, count: u64) -> Option<String> {
    let Filled { handed_back, taken, counted, .. } = filled;
    match (handed_back, taken) {
        (0, 0) => Some(format!("nothing to fill: the chain or a pool counts all {count} nonces")),
        (0, _) => Some(format!(
            "nothing was handed back: a transaction or a caller has {taken} of the {count} nonces, and \
             the chain or a pool counts {counted}"
        )),
        _ => None,
    }
}

/// The number of nonces from the first on that the chain counts; 0 while it can't be asked.
async fn passed(remote: &mut Remote, path: &str, first: u64) -> Result<u64, Failed> {
    let shown: Submitter = remote.get_patiently(path).await?.value;
    Ok(shown.chain_nonce.unwrap_or_default().saturating_sub(first))
}
