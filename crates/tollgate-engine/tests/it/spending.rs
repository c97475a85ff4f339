//! An account's spending rules bound creates, signed transactions, simulations and replacements.

use tollgate_engine::{ActError, Action, CreateError, Engine};
use tollgate_model::account::AccountSettings;
use tollgate_model::port::policy::{NewCall, Replacement};
use tollgate_model::refusal::{RefusalKind, RefusedField};
use tollgate_model::spending::{AllowedCalls, SpendingRules};
use tollgate_model::{Address, Bytes, Intent, Nonce, U256, Wei};

use crate::signed::signed;
use crate::support::{
    Cluster, PENDING, account, act, create_signed, id, options, patient, transfer,
};

/// Receiver of the transfers of these tests.
const PAYEE: Address = Address::repeat_byte(0xee);

async fn restrict(engine: &Engine, max_value: u64, allowed: &str) {
    let spending = SpendingRules {
        max_value: Some(Wei(U256::from(max_value))),
        allowed_calls: Some(allowed.parse::<AllowedCalls>().unwrap()),
    };
    let changed = |own| AccountSettings { spending: spending.clone(), ..own };
    engine.accounts().change(account(1), changed).await.unwrap();
}

fn kind(refused: &CreateError) -> (RefusalKind, Option<RefusedField>) {
    match refused {
        CreateError::Refused(why) => (why.kind, why.field),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn create_outside_the_rules_is_refused_and_uses_no_nonce() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    restrict(&engine, 10, &format!("{PAYEE}:value")).await;
    let call = |data: &'static [u8]| Intent { data: Bytes::from_static(data), ..transfer(1) };
    let elsewhere = Intent { to: Some(Address::repeat_byte(1)), ..transfer(1) };
    for (intent, why, field) in [
        (transfer(11), RefusalKind::ValueAboveCap, RefusedField::Value),
        (call(&[1, 2, 3, 4]), RefusalKind::CallNotAllowed, RefusedField::To),
        (elsewhere, RefusalKind::CallNotAllowed, RefusedField::To),
    ] {
        let created = engine.create(account(1), None, intent.clone()).await.unwrap_err();
        assert_eq!(kind(&created), (why, Some(field)));
        let simulated = engine.simulate(account(1), None, intent).await.unwrap_err();
        assert_eq!(kind(&simulated), (why, Some(field)), "a simulation tells the same");
    }
    assert_eq!(cluster.submitter(account(1)).await.next_nonce, Nonce::MIN);
    let made = id(engine.create(account(1), None, transfer(10)).await.unwrap());
    cluster.mine_until_final(&[made]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn signed_transaction_outside_the_rules_is_refused() {
    let (cluster, engine) = Cluster::with_node(options()).await;
    restrict(&engine, 10, "create").await;
    for (value, why) in [(11, RefusalKind::ValueAboveCap), (10, RefusalKind::CallNotAllowed)] {
        let refused = create_signed(&engine, account(1), None, signed(0, value).await).await;
        let (found, field) = kind(&refused.unwrap_err());
        assert_eq!((found, field), (why, Some(RefusedField::RawTx)));
    }
    assert_eq!(cluster.submitter(account(1)).await.next_nonce, Nonce::MIN);
}

#[tokio::test(flavor = "multi_thread")]
async fn replacement_outside_the_rules_is_refused_and_a_cancel_is_not() {
    let (cluster, engine) = Cluster::with_node(patient()).await;
    let free = Intent { replaceable: true, ..transfer(10) };
    let tx = id(engine.create(account(1), None, free).await.unwrap());
    cluster.until(tx, "was with a node", |tx| tx.row.state == PENDING).await;
    restrict(&engine, 10, &format!("{PAYEE}:value")).await;
    let replace = |to, value: u64| {
        let call =
            NewCall { to: Some(to), value: U256::from(value), data: Bytes::new(), gas: None };
        Action::Replace(Replacement { call: Some(call), ..Replacement::default() })
    };
    for (action, why) in [
        (replace(PAYEE, 11), RefusalKind::ValueAboveCap),
        (replace(Address::repeat_byte(1), 1), RefusalKind::CallNotAllowed),
    ] {
        match act(&engine, tx, action).await {
            Err(ActError::Refused(refusal)) => assert_eq!(refusal.kind, why),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(cluster.attempts(tx).await.len(), 1, "nothing is signed");
    act(&engine, tx, Action::Cancel).await.unwrap();
}
