//! `tollgate events`: follows the log of events, forwards it while a receiver is developed, and works with the
//! receiver of a node.

mod receiver;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use hyper::body::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use tollgate_api::{Event, path};
use tollgate_hook::{HookSecret, Webhook, WebhookAnswer, WebhookOptions};

use super::remote::{self, Failed, Remote, RemoteArgs, print_line};
use super::table::{cell, clean};
use super::units::to_the_second;
use crate::cli::output::errln;
use crate::clock::SystemClock;
use crate::failure::Failure;

/// Rows in a page.
const PAGE: usize = 500;
/// The wait of one poll.
const WAIT: &str = "30s";
/// The wait of the first poll, after which a note says why there may be no events.
const FIRST_WAIT: &str = "3s";
/// The longest time for one forwarded event.
const FORWARD_TIMEOUT: Duration = Duration::from_secs(30);
/// The secret that signs forwarded events if none is given. Known to everybody: for development alone.
const DEVELOPMENT_SECRET: &str = "whsec_dG9sbGdhdGUtZGV2ZWxvcG1lbnQtc2VjcmV0";

#[derive(Args)]
pub(super) struct EventsArgs {
    #[command(subcommand)]
    command: EventsCommand,
}

#[derive(Subcommand)]
enum EventsCommand {
    /// Print events, one line each, until interrupted.
    Follow(FollowArgs),
    /// Post events to a URL, signed as a node does it, while a receiver is developed.
    Listen(ListenArgs),
    /// Post a test event to the receiver that the settings name.
    Test(receiver::TestArgs),
    /// Show events that the receiver did not take, or have them sent again.
    DeadLetters(receiver::DeadLettersArgs),
    /// Deliver events again, from a number on.
    Replay(receiver::ReplayArgs),
}

#[derive(Args)]
struct FollowArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    filter: FilterArgs,
}

#[derive(Args)]
struct ListenArgs {
    #[command(flatten)]
    remote: RemoteArgs,
    #[command(flatten)]
    filter: FilterArgs,
    /// URL that events are posted to.
    #[arg(long, value_name = "URL")]
    forward_to: String,
    /// Secret that signs them: `whsec_` and base64. Without it a secret for development that is printed.
    #[arg(
        long,
        env = "TOLLGATE_EVENTS_WEBHOOK_SECRET",
        hide_env_values = true,
        value_name = "SECRET"
    )]
    secret: Option<String>,
}

#[derive(Args)]
struct FilterArgs {
    /// The last number that was seen; 0 is before the oldest. Without it, what happens from now on.
    #[arg(long)]
    after: Option<u64>,
    /// Events of these kinds only.
    #[arg(long, value_delimiter = ',', value_name = "KIND")]
    kind: Vec<String>,
    /// Events of this account only.
    #[arg(long, value_name = "ADDRESS")]
    submitter: Option<String>,
    /// Events of this transaction only.
    #[arg(long, value_name = "ID")]
    tx_id: Option<String>,
}

/// A page whose items are kept as they came.
#[derive(Deserialize)]
struct Page {
    items: Vec<Box<RawValue>>,
    next: u64,
}

pub(super) fn run(args: EventsArgs) -> Result<ExitCode, Failure> {
    match args.command {
        EventsCommand::Follow(FollowArgs { remote, filter }) => {
            remote::run(remote, async |remote| {
                let is_json = remote.json;
                follow(remote, &filter, async |item| match is_json {
                    true => print_line(item.get()),
                    false => print_line(&line(item)),
                })
                .await
            })
        }
        EventsCommand::Listen(args) => listen(args),
        EventsCommand::Test(args) => receiver::test(args),
        EventsCommand::DeadLetters(args) => receiver::dead_letters(args),
        EventsCommand::Replay(args) => receiver::replay(args),
    }
}

/// Gives each event to `take`, in order.
async fn follow(
    remote: &mut Remote,
    filter: &FilterArgs,
    mut take: impl AsyncFnMut(&RawValue) -> Result<(), Failed>,
) -> Result<(), Failed> {
    let kinds = (!filter.kind.is_empty()).then(|| filter.kind.join(","));
    let page_after = |after: Option<u64>, wait: Option<&str>| {
        path::with_query(
            path::EVENTS,
            &[
                ("after", after.map(|after| after.to_string())),
                ("limit", Some(PAGE.to_string())),
                ("wait", wait.map(str::to_owned)),
                ("kind", kinds.clone()),
                ("submitter", filter.submitter.clone()),
                ("txId", filter.tx_id.clone()),
            ],
        )
    };
    // The first page without retries: a node that is not there is reported at once.
    let mut after = match filter.after {
        Some(after) => after,
        // A page after the end is empty, and its `next` is the end.
        None => {
            remote
                .get::<End>(&path::with_query(path::EVENTS, &[("from", Some("end".to_owned()))]))
                .await?
                .value
                .next
        }
    };
    let mut page = match remote.get::<Page>(&page_after(Some(after), None)).await {
        Err(Failed::Refused(refusal)) if after == 0 && refusal.oldest().is_some() => {
            let oldest = refusal.oldest().unwrap_or(1);
            errln!("tollgate: the events before {oldest} were removed");
            after = oldest.saturating_sub(1);
            remote.get::<Page>(&page_after(Some(after), None)).await?.value
        }
        first => first?.value,
    };
    let mut is_silent = true;
    loop {
        is_silent &= page.items.is_empty();
        for item in &page.items {
            take(item).await?;
        }
        after = page.next;
        if is_silent {
            // The log may be off: nothing else says so.
            let path = page_after(Some(after), Some(FIRST_WAIT));
            page = remote.get_patiently(&path).await?.value;
            if page.items.is_empty() {
                errln!("tollgate: no events yet; a node writes them only with events.enabled");
            }
            is_silent = false;
            continue;
        }
        page = remote.get_patiently(&page_after(Some(after), Some(WAIT))).await?.value;
    }
}

/// The end of the log.
#[derive(Deserialize)]
struct End {
    next: u64,
}

fn line(item: &RawValue) -> String {
    let Ok(event) = serde_json::from_str::<Event>(item.get()) else {
        return clean(item.get());
    };
    let data = &event.data;
    let about = match (&data.sub_state, &data.reason) {
        (Some(sub_state), _) => sub_state.to_string(),
        (None, Some(reason)) => reason.clone(),
        (None, None) => String::new(),
    };
    clean(&format!(
        "{:<8}  {}  {:<18}  {}  {}  {about}",
        event.seq,
        to_the_second(&event.time),
        event.kind,
        data.tx_id.as_deref().unwrap_or(&data.submitter),
        cell(data.request_id.as_ref()),
    ))
}

fn listen(args: ListenArgs) -> Result<ExitCode, Failure> {
    let ListenArgs { remote, filter, forward_to, secret } = args;
    let (text, is_own) = match &secret {
        Some(secret) => (secret.as_str(), true),
        None => (DEVELOPMENT_SECRET, false),
    };
    let options = WebhookOptions {
        url: forward_to,
        secrets: vec![HookSecret::parse(text).map_err(|bad| format!("--secret {bad}"))?],
        timeout: FORWARD_TIMEOUT,
        connections: 1,
        allows_private: true,
    };
    let webhook = Webhook::new(options, Arc::new(SystemClock))
        .map_err(|bad| format!("--forward-to {bad}"))?;
    if !is_own {
        errln!("tollgate: events are signed with {DEVELOPMENT_SECRET}");
    }
    remote::run(remote, async |remote| {
        follow(remote, &filter, async |item| {
            let id = serde_json::from_str::<Event>(item.get()).map(|event| event.id);
            let id = id.unwrap_or_else(|_| "unknown".to_owned());
            let body = Bytes::copy_from_slice(item.get().as_bytes());
            let outcome = match webhook.post(&id, body).await {
                WebhookAnswer::Taken => "taken".to_owned(),
                WebhookAnswer::NotTaken { why, .. } => format!("not taken: {why}"),
            };
            print_line(&format!("{}  {}", line(item), clean(&outcome)))
        })
        .await
    })
}
