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

use super::table::{Table, WIDTH, cell, clean, without_middle, wrapped};
use super::units::age;
use super::{log, runtime};
use crate::cli::output::outln;
use crate::clock::SystemClock;
use crate::config::{DatabaseFlags, LogFormat, Purpose, load};
use crate::database::Database;
use crate::failure::Failure;

/// Alerts in a list.
const LIST_MAX: u32 = 50;
/// Before the detail of an alert.
const INDENT: &str = "    ";

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
    /// Print the table in full, also where it is wider than 80 columns.
    #[arg(long, conflicts_with = "json")]
    wide: bool,
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
        alerts.iter().for_each(|alert| outln!("{}", as_json(alert)));
        return Ok(ExitCode::SUCCESS);
    }
    for line in lines(&alerts, args.wide) {
        outln!("{line}");
    }
    Ok(ExitCode::SUCCESS)
}

/// A row for each alert, and below it what happened.
fn lines(alerts: &[StoredAlert], is_wide: bool) -> Vec<String> {
    let head = ["LEVEL", "ALERT", "AGE", "ENDED", "TIMES", "SUBJECT"];
    let mut table = Table::new(head).cuts(&["SUBJECT"]).wide(is_wide);
    let since = |at| age(&format_time(at));
    for alert in alerts {
        let subject = alert.subject.to_string();
        table.row([
            alert.level.to_string(),
            alert.kind.to_string(),
            since(alert.raised_at),
            cell(alert.resolved_at.map(since).as_ref()),
            alert.times.to_string(),
            if is_wide { subject } else { with_short_address(&subject) },
        ]);
    }
    let mut rows = table.lines().into_iter();
    let mut lines: Vec<String> = rows.next().into_iter().collect();
    for (row, alert) in rows.zip(alerts) {
        lines.push(row);
        let room = if is_wide { usize::MAX } else { WIDTH - INDENT.len() };
        let detail = wrapped(&clean(alert.detail.as_str()), room);
        lines.extend(detail.into_iter().map(|line| format!("{INDENT}{line}")));
    }
    lines
}

fn with_short_address(subject: &str) -> String {
    let short = |word: &str| match word.starts_with("0x") {
        true => without_middle(word),
        false => word.to_owned(),
    };
    subject.split(' ').map(short).collect::<Vec<_>>().join(" ")
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
            outln!("{name}: the message that the test alert is {phase} was taken");
        }
        Ok(ExitCode::SUCCESS)
    })
}

#[cfg(test)]
mod tests {
    use tollgate_model::alert::{AlertLevel, AlertSubject};
    use tollgate_model::port::AlertKind;
    use tollgate_model::{Address, ChainId, Submitter, Text};
    use unicode_width::UnicodeWidthStr;

    use super::*;

    #[test]
    fn alerts_with_long_details_fit() {
        let now = SystemClock.now();
        let of = Submitter::new(ChainId::new(421_614).unwrap(), Address::repeat_byte(0xaa));
        let alert = StoredAlert {
            alert_id: Uuid::now_v7(),
            kind: AlertKind::ReservationsPilingUp,
            subject: AlertSubject::account(of),
            level: AlertLevel::Warning,
            detail: Text::lossy(&"账户余额不足，需要充值 ".repeat(10)),
            node: "one".to_owned(),
            raised_at: now,
            seen_at: now,
            resolved_at: Some(now),
            times: 1_234,
            unseen: std::time::Duration::ZERO,
        };
        let narrow = lines(std::slice::from_ref(&alert), false);
        assert!(narrow.iter().all(|line| line.width() <= WIDTH), "{narrow:#?}");
        assert!(narrow[1].contains("chain 421614 0x") && narrow[1].contains('…'), "{narrow:#?}");
        assert!(narrow.len() > 3 && narrow[2].starts_with("    账户余额不足"), "{narrow:#?}");
        assert_eq!(lines(&[alert], true).len(), 3, "everything in two lines below the head");
    }
}
