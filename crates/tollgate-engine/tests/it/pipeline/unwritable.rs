//! A change that the database refuses stops no line, on either store (I14).

use std::time::Duration;

use tollgate_engine::{ActError, Acted, Action, Unserved};
use tollgate_model::port::AlertKind;
use tollgate_model::{StuckReason, Text, TxId, TxState};

use super::chains::ChainKind;
use super::support::{Pipeline, Sent, StoreKind, account, is_mined, is_pending, options};

/// Longer than a refused change is left alone.
const RETRY: Duration = Duration::from_secs(61);

on_both_stores! {
    finality_that_cannot_be_written_stops_neither_creates_nor_a_takeover,
    change_that_cannot_be_written_marks_its_transaction_stuck,
    waiting_transactions_that_the_store_refuses_are_passed_by_the_others,
}

impl Pipeline {
    /// From now on the database refuses the next change of a transaction, whichever it is.
    async fn refuse_next_change(&self, of: TxId) {
        let (id, version) = (self.fixture.id(of), self.record(of).await.row.version);
        let next = version + 1;
        let sql = format!(
            "insert into tx_history (tx_id, version, at, node, fencing_token, event, to_state)
             select tx_id, {next}, at, node, fencing_token, 'planted', to_state
               from tx_history where tx_id = {id} and version = {version}"
        );
        assert_eq!(self.fixture.execute(&sql).await, Ok(1));
    }

    /// From now on the database refuses a transaction's signed form of this number.
    async fn refuse_attempt(&self, of: TxId, number: u32, like: TxId) {
        let (id, like) = (self.fixture.id(of), self.fixture.id(like));
        let hash = self.fixture.blob(&[0xbd; 32]);
        let sql = format!(
            "insert into tx_attempt
               (tx_id, number, chain_id, tx_hash, raw, kind, gas_limit, max_fee, created_at)
             select {id}, {number}, chain_id, {hash}, raw, kind, gas_limit, max_fee, created_at
               from tx_attempt where tx_id = {like} and number = 1"
        );
        assert_eq!(self.fixture.execute(&sql).await, Ok(1));
    }

    /// Ends what was planted.
    async fn repair(&self) {
        let hash = self.fixture.blob(&[0xbd; 32]);
        let planted = format!("delete from tx_attempt where tx_hash = {hash}");
        self.fixture.execute(&planted).await.unwrap();
        self.fixture.execute("delete from tx_history where event = 'planted'").await.unwrap();
        self.clock.advance(RETRY);
    }

    fn alerts_about(&self, tx_id: TxId) -> usize {
        let alerts = self.alerts.of(AlertKind::Stuck);
        alerts.iter().filter(|alert| alert.tx_id == Some(tx_id)).count()
    }
}

async fn finality_that_cannot_be_written_stops_neither_creates_nor_a_takeover(store: StoreKind) {
    let pipeline = Pipeline::on(store, ChainKind::Devchain).await;
    let engine = pipeline.node("a", options()).await;
    let mut sent = pipeline.send(&engine, account(0), [1]).await;
    pipeline.mine_until(sent[0].id, "mined", is_mined).await;
    pipeline.refuse_next_change(sent[0].id).await;
    sent.extend(pipeline.send(&engine, account(0), [2, 3]).await);
    pipeline.mine_until_final(&sent[1..]).await;
    let told = async || pipeline.alerts_about(sent[0].id) > 0;
    pipeline.eventually("people are told", told).await;
    // Another owner finds the same change to write before it takes any work.
    engine.stop().await;
    drop(engine);
    let heir = pipeline.node("b", options()).await;
    sent.extend(pipeline.send(&heir, account(0), [4, 5]).await);
    pipeline.mine_until_final(&sent[1..]).await;
    assert!(is_mined(&pipeline.record(sent[0].id).await), "I8: nothing else became of it");
    assert_eq!(pipeline.alerts_about(sent[0].id), 2, "each owner tells it once");
    pipeline.repair().await;
    pipeline.finish(account(0), &sent).await;
}

async fn change_that_cannot_be_written_marks_its_transaction_stuck(store: StoreKind) {
    let pipeline = Pipeline::on(store, ChainKind::Devchain).await;
    let engine = pipeline.node("a", options()).await;
    let sent = pipeline.send(&engine, account(0), [1, 2]).await;
    for sent in &sent {
        pipeline.until(sent.id, "pending", is_pending).await;
    }
    pipeline.refuse_attempt(sent[0].id, 2, sent[0].id).await;
    let speed_up =
        engine.operator().act(sent[0].id, Action::SpeedUp, Text::lossy("a test wants it")).await;
    assert!(matches!(speed_up, Err(ActError::Unserved(Unserved::Unavailable(_)))), "{speed_up:?}");
    let record = pipeline.record(sent[0].id).await;
    assert_eq!(record.row.state, TxState::Stuck(StuckReason::Unwritable));
    assert!(record.last_error.is_some());
    assert_eq!(pipeline.alerts_about(sent[0].id), 1);
    pipeline.repair().await;
    let resubmit =
        engine.operator().act(sent[0].id, Action::Resubmit, Text::lossy("repaired")).await;
    assert_eq!(resubmit, Ok(Acted::Resent));
    pipeline.finish(account(0), &sent).await;
}

async fn waiting_transactions_that_the_store_refuses_are_passed_by_the_others(store: StoreKind) {
    let pipeline = Pipeline::on(store, ChainKind::Devchain).await;
    let engine = pipeline.node("a", options()).await;
    let first = pipeline.send(&engine, account(0), [1]).await;
    engine.operator().pause(account(0), Text::lossy("they wait")).await.unwrap();
    let mut waiting = Vec::new();
    for value in [2, 3, 4] {
        waiting.extend(pipeline.send(&engine, account(0), [value]).await);
    }
    // One may not leave HELD, and one may not get a slot.
    pipeline.refuse_next_change(waiting[0].id).await;
    pipeline.refuse_attempt(waiting[1].id, 1, first[0].id).await;
    engine.operator().resume(account(0), Text::lossy("go on")).await.unwrap();
    let mut passing: Vec<Sent> = first.iter().chain(&waiting[2..]).copied().collect();
    passing.extend(pipeline.send(&engine, account(0), [5, 6]).await);
    pipeline.mine_until_final(&passing).await;
    for refused in &waiting[..2] {
        assert_eq!(pipeline.alerts_about(refused.id), 1);
        assert!(matches!(pipeline.record(refused.id).await.row.state, TxState::Queued(_)));
    }
    let why = pipeline.record(waiting[1].id).await.last_error.unwrap();
    assert!(why.as_str().contains("refuses it a slot"), "{why}");
    pipeline.repair().await;
    pipeline.mine_until_final(&waiting).await;
    passing.extend(&waiting[..2]);
    pipeline.verify(account(0), &passing).await;
}
