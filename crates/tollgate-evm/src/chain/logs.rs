//! Reads the log entries of a mined transaction, by two endpoints where there are several. Callers read payments from
//! them, so one endpoint's entries are marked as such.
//!
//! Owns no state.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use tollgate_model::port::TxReceipt;
use tollgate_model::port::chain::{ChainUnavailable, LogEntry, Logs};

use super::pool_member::PoolMember;
use super::router::{Needs, Router, unavailable};
use super::votes::{further_patience, gather, most_given};
use crate::endpoint::json::{LogJson, ReceiptLogsJson};

/// Endpoints that are asked at first. The others are asked if these don't agree.
const ASKED_FIRST: usize = 2;
/// The least time of further endpoints after the first one that has the entries.
const FURTHER_LOGS_PATIENCE: Duration = Duration::from_millis(500);
const METHOD: &str = "eth_getTransactionReceipt";

/// The reason why an endpoint shows no entries.
enum NoLogs {
    /// The endpoint does not have the receipt in that block.
    Absent,
    Failed(String),
}

/// The log entries of a mined transaction; `None` if no endpoint that answers has its receipt in that block.
///
/// # Errors
/// No endpoint answers, or they show different entries and no two agree.
pub(super) async fn logs(
    router: &Router,
    of: &TxReceipt,
) -> Result<Option<Logs>, ChainUnavailable> {
    let readers = router.readers(Needs::Block(of.block_number), Instant::now());
    let deadline = router.read_deadline_for(&readers);
    let enough = router.readers_configured().min(2);
    let (mut found, mut absent, mut refusals) = (Vec::<Vec<LogEntry>>::new(), false, Vec::new());
    let (first, others) = readers.split_at(readers.len().min(ASKED_FIRST));
    for members in [first, others] {
        let asked = members.iter().map(|member| entries(member, of, deadline));
        let patience = further_patience(members, FURTHER_LOGS_PATIENCE);
        let (entries, errors) = gather(asked, deadline, patience).await;
        found.extend(entries);
        for error in errors {
            match error {
                NoLogs::Absent => absent = true,
                NoLogs::Failed(why) => refusals.push(why),
            }
        }
        if most_given(&found).is_some_and(|(_, number)| number >= enough) {
            break;
        }
    }
    let Some((entries, number)) = most_given(&found) else {
        return if absent { Ok(None) } else { Err(unavailable(METHOD, &refusals)) };
    };
    if number < enough && found.len() > 1 {
        let why = "endpoints contradict each other about the log entries".to_owned();
        return Err(ChainUnavailable(why));
    }
    Ok(Some(Logs { entries: entries.clone(), is_confirmed: number >= enough }))
}

async fn entries(
    member: &Arc<PoolMember>,
    of: &TxReceipt,
    deadline: Instant,
) -> Result<Vec<LogEntry>, NoLogs> {
    let params = json!([of.tx_hash.to_string()]);
    let call = member.endpoint.call_until::<Option<ReceiptLogsJson>>(METHOD, params, deadline);
    let receipt = call
        .await
        .map_err(|error| NoLogs::Failed(format!("{}: {error}", member.endpoint.name())))?;
    let is_it =
        |receipt: &ReceiptLogsJson| receipt.block_hash.map(|hash| hash.0) == Some(of.block_hash);
    let receipt = receipt.filter(is_it).ok_or(NoLogs::Absent)?;
    Ok(receipt.logs.into_iter().map(log_entry).collect())
}

pub(super) fn log_entry(wire: LogJson) -> LogEntry {
    LogEntry {
        address: wire.address.0,
        topics: wire.topics.into_iter().map(|topic| topic.0).collect(),
        data: wire.data.0,
        index: wire.log_index.map(|index| index.0),
    }
}
