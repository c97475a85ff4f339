//! The receiver of the settings: a test event, dead letters, and deliveries that are repeated. Works with the
//! database, not with a node.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use hyper::body::Bytes;
use tollgate_api::{Event, format_time};
use tollgate_hook::WebhookAnswer;
use tollgate_model::audit::{AuditAuthor, AuditEntry, AuditedAction};
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{DeadLetter, NoCheckpoints, Page, Store};
use tollgate_model::{Seq, Text};
use uuid::Uuid;

use super::super::table::clean;
use super::super::{log, runtime};
use crate::cli::output::outln;
use crate::clock::SystemClock;
use crate::config::{DatabaseFlags, EventMode, LogFormat, Purpose, Settings, load};
use crate::database::Database;
use crate::events::{NATS, WEBHOOK, receiver};
use crate::failure::Failure;

/// The name of a test event's kind.
const TEST_KIND: &str = "TollgateTest";

#[derive(Args)]
pub(super) struct TestArgs {
    #[command(flatten)]
    flags: DatabaseFlags,
}

#[derive(Args)]
pub(super) struct DeadLettersArgs {
    #[command(subcommand)]
    command: LettersCommand,
}

#[derive(Subcommand)]
enum LettersCommand {
    /// List events that the receiver did not take, oldest first.
    List(ListArgs),
    /// Have the node that delivers send them again, once. What is not taken stays a dead letter.
    Replay(ReplayLettersArgs),
}

#[derive(Args)]
struct ListArgs {
    #[command(flatten)]
    flags: DatabaseFlags,
    /// The last number of the page before.
    #[arg(long, default_value_t = 0)]
    after: u64,
    /// Print JSON lines instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct ReplayLettersArgs {
    #[command(flatten)]
    flags: DatabaseFlags,
    /// Number of the event; all dead letters if it is left out.
    seq: Option<u64>,
}

#[derive(Args)]
pub(super) struct ReplayArgs {
    #[command(flatten)]
    flags: DatabaseFlags,
    /// Number of the first event to deliver again.
    #[arg(long, value_name = "SEQ")]
    from: u64,
}

pub(super) fn test(args: TestArgs) -> Result<ExitCode, Failure> {
    let settings = load(args.flags.into_flags(), Purpose::Database)?.settings;
    let Some(receiver) = receiver(&settings.webhook)? else {
        return Err("events.webhook.url and events.webhook.secret are not set".into());
    };
    let id = format!("{}.{TEST_KIND}", Uuid::now_v7());
    let body = serde_json::json!({
        "specversion": "1.0",
        "id": id,
        "source": "/api/v1",
        "type": TEST_KIND,
        "time": format_time(SystemClock.now()),
        "datacontenttype": "application/json",
        "data": {},
    });
    runtime()?.block_on(async {
        match receiver.post(&id, Bytes::from(body.to_string())).await {
            WebhookAnswer::Taken => {
                outln!("taken: {id}");
                Ok(ExitCode::SUCCESS)
            }
            WebhookAnswer::NotTaken { why, .. } => Err(format!("not taken: {why}").into()),
        }
    })
}

pub(super) fn dead_letters(args: DeadLettersArgs) -> Result<ExitCode, Failure> {
    match args.command {
        LettersCommand::List(ListArgs { flags, after, json }) => {
            with_store(flags, async |store, sink| {
                let after = Seq::new(after)?;
                let page = Page::new(Page::MAX)?;
                for letter in store.dead_letters(sink, after, false, page).await? {
                    outln!("{}", if json { as_json(&letter) } else { as_row(&letter) });
                }
                Ok(())
            })
        }
        LettersCommand::Replay(ReplayLettersArgs { flags, seq }) => {
            with_store(flags, async |store, sink| {
                let (from, through) = match seq {
                    Some(seq) => (Seq::new(seq)?, Seq::new(seq)?),
                    None => (Seq::MIN, Seq::MAX),
                };
                let subject = seq.map_or("all".to_owned(), |seq| seq.to_string());
                record(&*store, AuditedAction::ReplayDeadLetters, &subject).await?;
                match store.retry_dead_letters(sink, from, through).await? {
                    0 => Err("there is no such dead letter".into()),
                    count => {
                        outln!("{count} will be sent again");
                        Ok(())
                    }
                }
            })
        }
    }
}

pub(super) fn replay(args: ReplayArgs) -> Result<ExitCode, Failure> {
    with_store(args.flags, async |store, sink| {
        let bounds = store.event_bounds().await?;
        let before = Seq::new(args.from.saturating_sub(1))?;
        if before < bounds.removed_through {
            let oldest = bounds.removed_through.get() + 1;
            return Err(
                format!("the oldest event is {oldest}; those before it were removed").into()
            );
        }
        if before > bounds.end {
            return Err(format!("the last event is {}", bounds.end).into());
        }
        let subject = format!("from {}", args.from.max(1));
        record(&*store, AuditedAction::ReplayEvents, &subject).await?;
        if !store.rewind_sink(sink, before).await? {
            let why = format!("no node has delivered to {sink} yet: there is nothing to repeat");
            return Err(why.into());
        }
        outln!("events from {} on are delivered again", args.from.max(1));
        Ok(())
    })
}

/// Records a change right before it is made.
async fn record(store: &dyn Store, action: AuditedAction, subject: &str) -> Result<(), Failure> {
    let (author, subject) = (AuditAuthor::command_line(), Text::lossy(subject));
    Ok(store.record_audit(&AuditEntry { author, action, subject, reason: None }).await?)
}

fn as_json(letter: &DeadLetter) -> String {
    serde_json::json!({
        "event": Event::from(&letter.event),
        "attempts": letter.attempts,
        "lastError": letter.last_error,
        "due": letter.is_due,
    })
    .to_string()
}

fn as_row(letter: &DeadLetter) -> String {
    let event = &letter.event;
    let due = if letter.is_due { "due" } else { "" };
    clean(&format!(
        "{:<8}  {:<18}  {:>3} tries  {due:<3}  {}  {}",
        event.seq,
        event.event.kind.name(),
        letter.attempts,
        event.id(),
        letter.last_error
    ))
}

/// Runs a command on the database of the settings, about the sink that they name.
fn with_store(
    flags: DatabaseFlags,
    command: impl AsyncFnOnce(Arc<dyn Store>, &str) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let settings: Settings = load(flags.into_flags(), Purpose::Database)?.settings;
    let sink = match settings.events.mode {
        EventMode::Nats => NATS,
        EventMode::Poll | EventMode::Log | EventMode::Webhook => WEBHOOK,
    };
    log(LogFormat::Pretty, "warn");
    runtime()?.block_on(async {
        let (database, wait) = (Database::new(&settings.database), settings.startup.wait);
        database.must_exist()?;
        let store = database.retry(wait, || database.try_open(Arc::new(NoCheckpoints))).await?;
        command(store, sink).await?;
        Ok(ExitCode::SUCCESS)
    })
}
