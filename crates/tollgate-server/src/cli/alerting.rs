//! `tollgate alert`: tries a sink, and lists alerts. Works on the settings and the database, without a node.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use serde_json::json;
use tollgate_alert::{SinkSender, test_notice};
use tollgate_api::format_time;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{AlertPhase, NoCheckpoints, Page, StoredAlert};
use uuid::Uuid;

use super::table::{Table, cell};
use super::{log, runtime};
use crate::clock::SystemClock;
use crate::config::{DatabaseFlags, LogFormat, Purpose, load};
use crate::database::Database;
use crate::failure::Failure;

/// Alerts in a list.
const LIST_MAX: u32 = 50;

#[derive(Args)]
pub(super) struct AlertArgs {
    #[command(subcommand)]
    command: AlertCommand,
}

#[derive(Subcommand)]
enum AlertCommand {
    /// List alerts, the newest first: those that are open, or all.
    List(ListArgs),
    /// Send a test message to a sink of the settings, and one that it is over.
    Test(TestArgs),
}

#[derive(Args)]
struct ListArgs {
    #[command(flatten)]
    flags: DatabaseFlags,
    /// Also list resolved alerts.
    #[arg(long)]
    all: bool,
    /// The most alerts to list.
    #[arg(long, default_value_t = LIST_MAX, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    limit: u32,
    /// Print JSON, one alert in a line.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct TestArgs {
    /// Name of the sink.
    sink: String,
    #[command(flatten)]
    flags: DatabaseFlags,
}

pub(super) fn run(args: AlertArgs) -> Result<ExitCode, Failure> {
    match args.command {
        AlertCommand::List(args) => list(args),
        AlertCommand::Test(args) => test(args),
    }
}

fn list(args: ListArgs) -> Result<ExitCode, Failure> {
    let settings = load(args.flags.into_flags(), Purpose::Database)?.settings;
    log(LogFormat::Pretty, "warn");
    let alerts = runtime()?.block_on(async {
        let (database, wait) = (Database::new(&settings.database), settings.startup.wait);
        database.must_exist()?;
        let store = database.retry(wait, || database.try_open(Arc::new(NoCheckpoints))).await?;
        Ok::<_, Failure>(store.alerts(!args.all, Page::new(args.limit)?).await?)
    })?;
    if args.json {
        alerts.iter().for_each(|alert| println!("{}", as_json(alert)));
        return Ok(ExitCode::SUCCESS);
    }
    let mut table =
        Table::new(["LEVEL", "ALERT", "RAISED", "RESOLVED", "TIMES", "SUBJECT", "DETAIL"]);
    for alert in &alerts {
        table.row([
            alert.level.to_string(),
            alert.kind.to_string(),
            format_time(alert.raised_at),
            cell(alert.resolved_at.map(format_time).as_ref()),
            alert.times.to_string(),
            alert.subject.to_string(),
            alert.detail.to_string(),
        ]);
    }
    table.print().map_err(|_| "the output can't be written")?;
    Ok(ExitCode::SUCCESS)
}

fn as_json(alert: &StoredAlert) -> serde_json::Value {
    json!({
        "alertId": alert.alert_id.to_string(),
        "kind": alert.kind.name(),
        "level": alert.level.name(),
        "chainId": alert.subject.chain_id.map(|id| id.get()),
        "submitter": alert.subject.account.map(|account| account.to_string()),
        "part": alert.subject.part.as_ref().map(|part| part.as_str()),
        "detail": alert.detail.as_str(),
        "node": alert.node,
        "raisedAt": format_time(alert.raised_at),
        "seenAt": format_time(alert.seen_at),
        "resolvedAt": alert.resolved_at.map(format_time),
        "times": alert.times,
        "docs": alert.kind.docs_path(),
    })
}

fn test(args: TestArgs) -> Result<ExitCode, Failure> {
    let settings = load(args.flags.into_flags(), Purpose::Database)?.settings;
    log(LogFormat::Pretty, "warn");
    let sinks = settings.alerts.sinks()?;
    let Some(sink) = sinks.iter().find(|sink| sink.name() == args.sink).cloned() else {
        let names: Vec<&str> = sinks.iter().map(|sink| sink.name()).collect();
        let known = match names.is_empty() {
            true => "alerts.sinks is empty".to_owned(),
            false => format!("there are {}", names.join(", ")),
        };
        return Err(format!("no sink {:?}: {known}", args.sink).into());
    };
    let (name, node) = (sink.name().to_owned(), settings.node.node_name.0);
    let sender = SinkSender::new(sink);
    let alert_id = Uuid::now_v7();
    runtime()?.block_on(async {
        for phase in [AlertPhase::Raised, AlertPhase::Resolved] {
            let now = SystemClock.now();
            let notice = test_notice(&node, now, phase, alert_id);
            let sent = sender.send(&[notice], now).await;
            sent.map_err(|failed| format!("sink {name}: {failed}"))?;
            println!("{name}: the message that the test alert is {phase} was taken");
        }
        Ok(ExitCode::SUCCESS)
    })
}
