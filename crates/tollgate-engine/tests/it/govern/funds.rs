//! An account that can't pay: held, told, and by itself mined after somebody has paid in.

use tollgate_model::answer::AnswerClass;
use tollgate_model::port::AlertKind;
use tollgate_model::{TxState, U256};
use tollgate_testkit::fake_chain::Which;

use super::transfers;
use crate::rig::{Rig, account, options};

const ETHER: u64 = 1_000_000_000_000_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_poor_account_is_held_with_an_alert_and_mined_in_order_after_funding() {
    let rig = Rig::new().await;
    let address = account(1).address;
    let engine = rig.node("a", options());
    let values: Vec<u64> = (0..5).map(|n| ETHER + n).collect();
    // After they are taken, most of the money goes elsewhere.
    rig.chain.answer(Which::Any, AnswerClass::InsufficientFunds, 5);
    let ids = transfers(&engine, values.clone()).await;
    rig.chain.set_balance(address, U256::from(2 * ETHER + ETHER / 2));
    rig.eventually("an alert", async || {
        rig.chain.mine();
        !rig.alerts.of(AlertKind::InsufficientFunds).is_empty()
    })
    .await;
    let unfinished = rig.record(ids[4]).await;
    assert!(!unfinished.seen.state.is_final(), "{unfinished:?}");
    rig.chain.set_balance(address, U256::from(ETHER) * U256::from(100));
    rig.mine_until_final(&ids).await;
    assert_eq!(rig.paid(account(1)), values, "in order");
    for id in ids {
        assert_eq!(rig.record(id).await.seen.state, TxState::Confirmed);
    }
}
