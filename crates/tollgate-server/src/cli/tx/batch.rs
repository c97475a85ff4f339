//! `tollgate tx batch`: creates transactions of JSON lines, with an answer to each.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use clap::Args;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tollgate_api::limit::BATCH_ITEMS_MAX;
use tollgate_api::{BatchItem, path};

use crate::cli::remote::{Answer, Failed, Remote, print_line};
use crate::cli::table::{cell, clean};

/// The most text in one call: below what a node takes, with room for what stands around the items (I13).
const CALL_BYTES_MAX: usize = 1_900_000;

#[derive(Args)]
pub(super) struct BatchArgs {
    /// File of JSON lines, each a create like the body of `POST /api/v1/tx`. Without it, stdin is read.
    file: Option<PathBuf>,
}

/// The fields of a line that name the request.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Named {
    request_id: Option<IgnoredAny>,
    raw_tx: Option<IgnoredAny>,
}

/// A line, and its number.
struct Line {
    number: u64,
    text: Box<RawValue>,
}

#[derive(Serialize)]
struct Body<'a> {
    items: Vec<&'a RawValue>,
}

/// The answers as they came.
#[derive(Deserialize)]
struct Answers {
    items: Vec<Box<RawValue>>,
}

pub(super) async fn run(remote: &mut Remote, args: BatchArgs) -> Result<(), Failed> {
    let input: Box<dyn BufRead> = match &args.file {
        Some(file) => {
            let unreadable = |error| Failed::NotAchieved(format!("{}: {error}", file.display()));
            Box::new(BufReader::new(std::fs::File::open(file).map_err(unreadable)?))
        }
        None => Box::new(BufReader::new(std::io::stdin())),
    };
    let (mut call, mut bytes, mut refused) = (Vec::new(), 0, 0);
    for (number, text) in (1..).zip(input.lines()) {
        let text = text.map_err(|error| Failed::NotAchieved(format!("line {number}: {error}")))?;
        if text.trim().is_empty() {
            continue;
        }
        let line = read(number, &text)?;
        let length = line.text.get().len() + 1;
        if !call.is_empty() && (call.len() == BATCH_ITEMS_MAX || bytes + length > CALL_BYTES_MAX) {
            refused += send(remote, &std::mem::take(&mut call)).await?;
            bytes = 0;
        }
        bytes += length;
        call.push(line);
    }
    if !call.is_empty() {
        refused += send(remote, &call).await?;
    }
    match refused {
        0 => Ok(()),
        1 => Err(Failed::NotAchieved("one line was refused".to_owned())),
        more => Err(Failed::NotAchieved(format!("{more} lines were refused"))),
    }
}

/// A line without a name of its own is not sent: repeated after a lost answer it would pay twice.
fn read(number: u64, text: &str) -> Result<Line, Failed> {
    let bad = |why: String| Failed::NotAchieved(format!("line {number}: {why}"));
    let named: Named =
        serde_json::from_str(text).map_err(|error| bad(format!("no create: {error}")))?;
    if named.request_id.is_none() && named.raw_tx.is_none() {
        let why = "requestId is missing: without it, a repeat of the command would pay twice";
        return Err(bad(why.to_owned()));
    }
    let text = RawValue::from_string(text.trim().to_owned());
    Ok(Line { number, text: text.map_err(|error| bad(error.to_string()))? })
}

/// Sends lines in one call and prints the answers; returns how many were refused.
async fn send(remote: &mut Remote, lines: &[Line]) -> Result<u64, Failed> {
    let body = Body { items: lines.iter().map(|line| &*line.text).collect() };
    let answered: Answer<Answers> =
        remote.post(path::BATCH, &body).await.map_err(|failed| match failed {
            Failed::Unreachable(why) => Failed::Unreachable(format!(
                "{why}; the lines from {} on may have been accepted: repeat the command, nothing is paid twice",
                lines[0].number
            )),
            other => other,
        })?;
    let mut refused = 0;
    for (line, answer) in lines.iter().zip(&answered.value.items) {
        let item: Option<BatchItem> = serde_json::from_str(answer.get()).ok();
        refused += u64::from(item.as_ref().is_none_or(|item| item.tx.is_none()));
        match (remote.json, item) {
            (false, Some(item)) => print_line(&shown(line.number, &item))?,
            (true, _) | (false, None) => print_line(answer.get())?,
        }
    }
    Ok(refused)
}

fn shown(number: u64, item: &BatchItem) -> String {
    let about = match (&item.tx, &item.error) {
        (Some(tx), _) => format!("{}  {}", tx.tx_id, cell(tx.request_id.as_ref())),
        (None, Some(problem)) => format!("{}: {}", problem.code, problem.detail),
        (None, None) => "no answer".to_owned(),
    };
    clean(&format!("{number:<6}  {}  {about}", item.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_needs_a_request_id_or_a_signed_transaction() {
        let why = |text: &str| match read(7, text) {
            Err(Failed::NotAchieved(why)) => why,
            _ => "taken".to_owned(),
        };
        assert_eq!(why(r#"{"requestId": "a", "payload": {}}"#), "taken");
        assert_eq!(why(r#" {"rawTx": "0x02"} "#), "taken");
        assert!(why(r#"{"payload": {}}"#).starts_with("line 7: requestId is missing"));
        assert!(why("[]").starts_with("line 7: no create"));
        assert!(why(r#"{"requestId": "a"} {}"#).starts_with("line 7: no create"));
    }
}
