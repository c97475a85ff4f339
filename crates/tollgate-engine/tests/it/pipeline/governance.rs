//! Governance with nothing pretended: what people, policies and rules do to what is under way, and
//! what becomes of it on the chain.

mod bumps;
mod cancels;
mod diagnoses;
mod funds;
mod outsiders;
mod stuck;
mod taken;

use std::time::Duration;

use tollgate_engine::{Acted, Action, Engine, EngineOptions};
use tollgate_model::port::TxRecord;
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{Submitter, TxHash, TxId};

use super::support::{Pipeline, Sent, is_pending, options};
use crate::govern::act;

const MINUTE: Duration = Duration::from_secs(60);
/// Above everything that was offered at the market's first price, and below what is offered now.
const DEAR_BASE_FEE: u64 = 50_000_000_000;

/// Nothing is sent again by itself.
fn patient() -> EngineOptions {
    let resubmit = ResubmitRules { interval: Duration::from_secs(3_600), ..options().resubmit };
    EngineOptions { resubmit, ..options() }
}

impl Pipeline {
    /// Transfers in the order of their values, each with a node.
    async fn pending(
        &self,
        engine: &Engine,
        from: Submitter,
        values: impl IntoIterator<Item = u64>,
    ) -> Vec<Sent> {
        let mut sent = Vec::new();
        for value in values {
            sent.extend(self.send(engine, from, [value]).await);
        }
        for sent in &sent {
            self.until(sent.id, "with a node", is_pending).await;
        }
        sent
    }

    /// Has a further attempt signed, and waits until a pool has it.
    async fn sign(&self, engine: &Engine, tx: TxId, action: Action) -> TxHash {
        let acted = act(engine, tx, action).await;
        let Ok(Acted::Signed(hash)) = acted else { panic!("not signed: {acted:?}") };
        self.until_pooled(hash).await;
        hash
    }

    /// Mines while the market stays high, until all of these are final.
    async fn mine_dear_until_final(&self, sent: &[Sent]) {
        let is_final = |record: &TxRecord| record.row.state.is_final();
        for sent in sent {
            let mine = async || {
                self.chain.set_base_fee(DEAR_BASE_FEE).await;
                self.mine_one().await;
            };
            self.until_meanwhile(sent.id, "final", is_final, mine).await;
        }
    }
}
