//! The trace of a request, beside its transaction.

use tollgate_model::event::{EventKind, NumberedEvent};
use tollgate_model::port::{CreateAnswer, Lease};
use tollgate_model::transition::FinalOutcome;
use tollgate_model::{TraceParent, TxEvent, TxId};

use crate::builders::{IntentExt, SectionExt, full_page, intent, moved, section, seq, submitter};
use crate::node::TestNode;
use crate::store_fixture::StoreFixture;

const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const OTHER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// The trace of an open transaction as a new owner reads it.
async fn trace_of(node: &TestNode, tx_id: TxId) -> Option<TraceParent> {
    let open = node.all_open_work(submitter(1), 10).await;
    open.into_iter().find(|open| open.record.tx_id == tx_id).expect("it is open").trace
}

fn trace(header: &str) -> Option<TraceParent> {
    Some(header.parse().unwrap())
}

pub async fn trace_of_a_request_is_read_by_the_next_owner(fixture: &dyn StoreFixture) {
    let ((a, lease), b) = (fixture.owner().await, fixture.node("b").await);
    let queued = a.created(lease, intent().traced(TRACE)).await;
    let sent = intent().at(0).traced(OTHER);
    a.write_whole(section(lease).cursor(0, 1).create(sent.clone())).await;
    a.mine(lease, sent.tx_id, 7).await;
    fixture.expire_in_flight(submitter(1)).await;
    b.take_over(submitter(1)).await;
    assert_eq!(trace_of(&b, queued.tx_id).await, trace(TRACE));
    assert_eq!(trace_of(&b, sent.tx_id).await, trace(OTHER), "whatever became of it since");
}

/// I7: the trace is no part of what is asked for.
pub async fn repeat_under_another_trace_keeps_the_first_one(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let first = a.created(lease, intent().named("order").paying("10").traced(TRACE)).await;
    let again =
        [intent().named("order").paying("10").traced(OTHER), intent().named("order").paying("10")];
    let outcome = a.write(section(lease).creates(again)).await;
    let (answers, _) = outcome.answers().unwrap();
    let is_first = |answer: &CreateAnswer| match answer {
        CreateAnswer::Duplicate(known) => known.tx_id == first.tx_id,
        CreateAnswer::Created | CreateAnswer::Conflict(_) => false,
    };
    assert!(answers.iter().all(is_first), "I7: {answers:?}");
    assert_eq!(trace_of(&a, first.tx_id).await, trace(TRACE));
}

pub async fn events_carry_the_trace_of_their_transaction(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    let traced = intent().at(0).traced(TRACE);
    let plain = intent().at(1);
    let txs = [traced.clone(), plain.clone()];
    a.write_whole(section(lease).cursor(0, 2).creates(txs)).await;
    for tx_id in [traced.tx_id, plain.tx_id] {
        a.mine(lease, tx_id, 7).await;
    }
    finish(&a, lease, traced.tx_id, trace(TRACE)).await;
    finish(&a, lease, plain.tx_id, None).await;

    while a.number_events(full_page()).await.unwrap() > 0 {}
    let events = a.events(seq(0), full_page()).await.unwrap().items;
    let traces = |tx_id: TxId, kind: EventKind| -> Vec<Option<TraceParent>> {
        let is_asked = |it: &&NumberedEvent| it.event.kind == kind;
        let txs = events.iter().filter(is_asked).filter_map(|it| it.event.tx.as_ref());
        txs.filter(|tx| tx.tx_id == tx_id).map(|tx| tx.trace).collect()
    };
    for kind in [EventKind::TxAccepted, EventKind::TxConfirmed] {
        assert_eq!(traces(traced.tx_id, kind), [trace(TRACE)], "{kind}");
        assert_eq!(traces(plain.tx_id, kind), [None], "{kind}");
    }
}

/// The last change of a transaction, by a writer that knows its trace.
async fn finish(node: &TestNode, lease: Lease, tx_id: TxId, trace: Option<TraceParent>) {
    let row = node.record(tx_id).await.row;
    let mut last = moved(tx_id, row, TxEvent::Finalised(FinalOutcome::Executed));
    last.trace = trace;
    node.write_whole(section(lease).change(last)).await;
}

pub async fn create_without_a_trace_writes_no_row_for_one(fixture: &dyn StoreFixture) {
    let (a, lease) = fixture.owner().await;
    a.created(lease, intent()).await;
    assert_eq!(fixture.count("tx_trace").await, 0);
    a.created(lease, intent().traced(TRACE)).await;
    assert_eq!(fixture.count("tx_trace").await, 1);
}
