//! Events: what changed, for receivers outside. The envelope is that of CloudEvents 1.0.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tollgate_model::event::NumberedEvent;
use utoipa::ToSchema;

use crate::schema;
use crate::time::format_time;
use crate::tx::tenant_of;

/// A part of the log of events, in order.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
pub struct EventPage {
    /// The events.
    pub items: Vec<Event>,
    /// The `after` of the next call. It also moves past events that the filter leaves out.
    pub next: u64,
}

/// An event.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// The version of CloudEvents.
    #[schema(example = "1.0")]
    pub specversion: Cow<'static, str>,
    /// Receivers drop a second event with the same id.
    #[schema(example = "0198c5a4-7b1e-7c3a-9d52-5f6e7a8b9c0d.4.TxConfirmed")]
    pub id: String,
    /// The submitter's path in the API.
    pub source: String,
    /// The kind of event.
    #[serde(rename = "type")]
    #[schema(value_type = schema::EventKind)]
    pub kind: Cow<'static, str>,
    /// The transaction; null for an event about the submitter itself.
    #[schema(value_type = Option<schema::TxId>, required)]
    pub subject: Option<String>,
    /// When the change was written.
    #[schema(value_type = schema::Time)]
    pub time: String,
    /// The form of `data`.
    #[schema(example = "application/json")]
    pub datacontenttype: Cow<'static, str>,
    /// The event's place in the log.
    pub seq: u64,
    /// The trace of the request that made the transaction, if it had one (the extension of CloudEvents for traces).
    #[schema(example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The change.
    pub data: EventData,
}

/// The content of an event. It holds no nonce, no token and no signed bytes.
#[derive(Serialize, Deserialize, ToSchema, Clone, PartialEq, Eq, Debug)]
#[serde(rename_all = "camelCase")]
pub struct EventData {
    /// The chain of the submitter.
    pub chain_id: u64,
    /// The account that sends.
    #[schema(value_type = schema::Address)]
    pub submitter: String,
    /// The transaction.
    #[schema(value_type = Option<schema::TxId>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_id: Option<String>,
    /// The caller's own name for it.
    #[schema(value_type = Option<schema::RequestId>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// The tenant whose request it is; left out if it is none's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Grows with each change of the transaction: a lower one is older.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The state that the change led to.
    #[schema(value_type = Option<schema::State>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Cow<'static, str>>,
    /// More about it.
    #[schema(value_type = Option<schema::SubState>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_state: Option<Cow<'static, str>>,
    /// The hash of what was mined; before that, of the attempt that the event is about.
    #[schema(value_type = Option<schema::Hash>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tx_hash: Option<String>,
    /// The number of the receipt's block.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_number: Option<u64>,
    /// The hash of that block.
    #[schema(value_type = Option<schema::Hash>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_hash: Option<String>,
    /// In TxReceiptUpdated: the receipt is another one than before, or there is none any more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new_fork: Option<bool>,
    /// The reason why the status of the submitter changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl From<&NumberedEvent> for Event {
    fn from(numbered: &NumberedEvent) -> Self {
        use tollgate_model::event::EventKind;

        let NumberedEvent { seq, at, event } = numbered;
        let (chain_id, address) = (event.submitter.chain_id, event.submitter.address);
        let address = address.to_checksum(None);
        let tx = event.tx.as_ref();
        let is_receipt = event.kind == EventKind::TxReceiptUpdated;
        let block = tx.and_then(|tx| tx.block);
        Self {
            specversion: "1.0".into(),
            id: numbered.id(),
            source: format!("/api/v1/submitters/{address}?chainId={chain_id}"),
            kind: event.kind.name().into(),
            subject: tx.map(|tx| tx.tx_id.to_string()),
            time: format_time(*at),
            datacontenttype: "application/json".into(),
            seq: seq.get(),
            traceparent: tx.and_then(|tx| tx.trace).map(|trace| trace.to_string()),
            data: EventData {
                chain_id: chain_id.get(),
                submitter: address,
                tx_id: tx.map(|tx| tx.tx_id.to_string()),
                request_id: tx.and_then(|tx| tx.request_id.as_ref().map(ToString::to_string)),
                tenant: tx.and_then(|tx| tenant_of(tx.request_id.as_ref())),
                version: tx.map(|tx| tx.version),
                state: tx.map(|tx| tx.state.name().into()),
                sub_state: tx.and_then(|tx| tx.state.sub_name()).map(Into::into),
                tx_hash: tx.and_then(|tx| tx.tx_hash).map(|hash| hash.to_string()),
                block_number: block.map(|(number, _)| number),
                block_hash: block.map(|(_, hash)| hash.to_string()),
                new_fork: tx.filter(|_| is_receipt).map(|tx| tx.new_fork),
                reason: event.reason.as_ref().map(ToString::to_string),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_model::event::{Event as ModelEvent, EventKind, EventTx};
    use tollgate_model::state::{Failed, Queued, StuckReason, Tracking};
    use tollgate_model::{
        Address, B256, ChainId, RequestId, Seq, Submitter, Text, Timestamp, TxId, TxState,
    };

    use super::*;

    const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const TX_ID: &str = "019a8b7c-0000-7000-8000-000000000001";

    /// An event of a kind, as `docs/events.md` shows it.
    fn sample(kind: EventKind) -> NumberedEvent {
        let tx = |version, state, is_sent: bool, is_mined: bool| EventTx {
            tx_id: TxId::from_uuid(TX_ID.parse().unwrap()),
            version,
            request_id: Some(RequestId::new("order-17").unwrap()),
            state,
            tx_hash: is_sent.then_some(B256::repeat_byte(0x22)),
            block: is_mined.then_some((21_000_000, B256::repeat_byte(0x33))),
            new_fork: false,
            trace: Some(TRACEPARENT.parse().unwrap()).filter(|_| version == 1),
        };
        let pending = TxState::Tracking(Tracking::Pending);
        let tx = match kind {
            EventKind::TxAccepted => Some(tx(1, TxState::Queued(Queued::Waiting), false, false)),
            EventKind::TxSubmitted => Some(tx(3, pending, true, false)),
            EventKind::TxReceiptUpdated => {
                Some(tx(4, TxState::Tracking(Tracking::Mined), true, true))
            }
            EventKind::TxConfirmed => Some(tx(5, TxState::Confirmed, true, true)),
            EventKind::TxFailed => Some(tx(5, TxState::Failed(Failed::Reverted), true, true)),
            EventKind::TxStuck => Some(tx(5, TxState::Stuck(StuckReason::TimedOut), false, false)),
            EventKind::TxUnstuck => Some(tx(6, pending, false, false)),
            EventKind::SubmitterProtected
            | EventKind::SubmitterPaused
            | EventKind::SubmitterResumed => None,
        };
        let reason = tx.is_none().then(|| Text::lossy("maintenance"));
        let submitter = Submitter::new(ChainId::MIN, Address::repeat_byte(1));
        let seq = Seq::new(1_000 + u64::try_from(kind.code()).unwrap()).unwrap();
        let at = Timestamp::from_unix_micros(1_800_000_000_000_000);
        NumberedEvent { seq, at, event: ModelEvent { kind, submitter, tx, reason } }
    }

    #[test]
    fn every_kind_is_in_the_documents_with_its_body() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events.md");
        let page = std::fs::read_to_string(file).unwrap();
        let shown: Vec<Event> = page
            .split("<!-- event -->\n```json\n")
            .skip(1)
            .map(|rest| serde_json::from_str(rest.split("```").next().unwrap()).unwrap())
            .collect();
        let written = EventKind::ALL.map(|kind| Event::from(&sample(kind)));
        for (shown, written) in shown.iter().zip(&written) {
            let text = serde_json::to_string_pretty(written).unwrap();
            assert_eq!(shown, written, "docs/events.md should show\n{text}");
        }
        assert_eq!(shown.len(), written.len(), "each kind once, in order");
    }
}
