//! What happens when the happy path does not: each promise of governance, at a moment of choice.

mod bumps;
mod cancels;
mod expiries;
mod funds;
mod holes;
mod outsiders;
mod patience;
mod policies;
mod rejections;
mod standstill;

use std::time::Duration;

use tollgate_engine::{ActError, Acted, Action, Engine, EngineOptions};
use tollgate_model::nonce::{Mode, NonceRules};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{Text, Tracking, TxHash, TxId, TxState};

use crate::support::{Cluster, account, id, options, transfer};

pub(crate) const PENDING: TxState = TxState::Tracking(Tracking::Pending);
pub(crate) const MINED: TxState = TxState::Tracking(Tracking::Mined);

/// Nothing is sent again unless a test wants it.
pub(crate) fn patient() -> EngineOptions {
    let resubmit = ResubmitRules { interval: Duration::from_secs(3_600), ..options().resubmit };
    EngineOptions { resubmit, ..options() }
}

pub(crate) fn strict() -> EngineOptions {
    let nonces = NonceRules { mode: Mode::Strict, ..options().nonces };
    EngineOptions { nonces, ..options() }
}

pub(crate) fn window(slots: u32) -> EngineOptions {
    let nonces = NonceRules { window: slots, ..options().nonces };
    EngineOptions { nonces, ..patient() }
}

pub(crate) fn reason(words: &str) -> Text<500> {
    Text::lossy(words)
}

/// As many transfers of the first account, by their values.
pub(crate) async fn transfers(engine: &Engine, values: impl IntoIterator<Item = u64>) -> Vec<TxId> {
    let mut ids = Vec::new();
    for value in values {
        ids.push(id(engine.create(account(1), None, transfer(value)).await.unwrap()));
    }
    ids
}

/// Has a further attempt signed, and waits until a node was handed it.
pub(crate) async fn sign(cluster: &Cluster, engine: &Engine, tx: TxId, action: Action) -> TxHash {
    let acted = act(engine, tx, action).await;
    let Ok(Acted::Signed(hash)) = acted else { panic!("not signed: {acted:?}") };
    cluster.eventually("it is handed over", async || cluster.chain.sends(hash) > 0).await;
    hash
}

pub(crate) async fn act(engine: &Engine, tx: TxId, action: Action) -> Result<Acted, ActError> {
    engine.act(tx, action, reason("a test wants it")).await
}
