//! Faults that follow from a seed.

use std::time::Duration;

use serde_json::json;
use tollgate_devchain::fault::{
    BlockFault, CallFaults, Fault, FaultPlan, FaultRule, Faults, Loss, ReorgFault,
};
use tollgate_devchain::{DevChain, DevChainOptions};

use crate::support::{assert_linked, post, result, start, until};

fn plan(seed: u64) -> FaultPlan {
    FaultPlan {
        seed,
        calls: vec![
            FaultRule::sometimes("eth_*", 0.2, Fault::Delay { ms: 3 }),
            FaultRule::sometimes(
                "eth_sendRawTransaction",
                0.3,
                Fault::LoseAnswer { how: Loss::Close },
            ),
            FaultRule::sometimes("*", 0.1, Fault::Http { status: 502, retry_after_s: None }),
        ],
        blocks: vec![BlockFault {
            probability: 0.5,
            reorg: Some(ReorgFault { max_depth: 3 }),
            evict: Some(0.5),
        }],
    }
}

fn verdicts(seed: u64) -> Vec<CallFaults> {
    let mut faults = Faults::new(plan(seed));
    let methods = ["eth_sendRawTransaction", "eth_blockNumber", "net_version"];
    (0..300).map(|call| faults.decide(methods[call % 3], 0)).collect()
}

#[test]
fn the_same_seed_and_calls_meet_the_same_faults() {
    assert_eq!(verdicts(1), verdicts(1));
    assert_ne!(verdicts(1), verdicts(2));
    let all = verdicts(1);
    let share = |is: &dyn Fn(&CallFaults) -> bool| all.iter().filter(|v| is(v)).count();
    assert!((20..60).contains(&share(&|v| v.delay_ms == 3)));
    assert!((15..45).contains(&share(&|v| v.loss == Some(Loss::Close))));
    assert!((15..50).contains(&share(&|v| v.instead.is_some())));
    // Rules about other methods leave the rest alone.
    assert!(all.iter().skip(1).step_by(3).all(|v| v.loss.is_none()));
}

#[test]
fn faults_of_blocks_do_not_depend_on_how_many_calls_there_were() {
    let mut quiet = Faults::new(plan(9));
    let mut busy = Faults::new(plan(9));
    for _ in 0..50 {
        busy.decide("eth_chainId", 0);
        assert_eq!(quiet.after_block(), busy.after_block());
    }
}

#[test]
fn delays_add_up_and_the_first_answer_in_place_of_the_real_one_wins() {
    let mut faults = Faults::default();
    for ms in [10, 20] {
        assert!(faults.add(FaultRule::always("eth_call", Fault::Delay { ms })));
    }
    faults.add(FaultRule::once("eth_call", Fault::Http { status: 500, retry_after_s: None }));
    faults.add(FaultRule::once("*", Fault::Close));
    let first = faults.decide("eth_call", 0);
    assert_eq!(first.delay_ms, 30);
    assert_eq!(first.instead, Some(Fault::Http { status: 500, retry_after_s: None }));
    assert_eq!(faults.decide("eth_call", 0).instead, None);
    assert_eq!(faults.rules().len(), 2);
}

#[test]
fn a_rate_limit_counts_within_a_second() {
    let mut faults = Faults::default();
    faults.set_rate(Some(2));
    let is_limited = |verdict: CallFaults| verdict.instead.is_some();
    let calls = [0, 10, 999, 1_000, 1_001, 1_002].map(|ms| is_limited(faults.decide("x", ms)));
    assert_eq!(calls, [false, false, true, false, false, true]);
}

#[tokio::test]
async fn a_plan_strikes_at_a_running_endpoint_until_it_is_cleared() {
    let (_devchain, url) = start().await;
    let plan = json!({
        "seed": 4,
        "calls": [{ "method": "eth_chainId", "probability": 0.5, "fault": { "kind": "close" } }],
    });
    result(&url, "devchain_setFaultPlan", json!([plan])).await;
    let body = r#"{"id":1,"method":"eth_chainId"}"#;
    let mut lost = 0;
    for _ in 0..40 {
        lost += usize::from(post(&url, body).await.is_err());
    }
    assert!((8..32).contains(&lost), "{lost}");
    result(&url, "devchain_clearFaults", json!([])).await;
    for _ in 0..10 {
        assert_eq!(post(&url, body).await.unwrap().status, 200);
    }
}

#[tokio::test]
async fn planned_reorgs_happen_while_blocks_come_and_leave_the_chain_linked() {
    let blocks = vec![BlockFault {
        probability: 0.5,
        reorg: Some(ReorgFault { max_depth: 3 }),
        evict: None,
    }];
    let options = DevChainOptions {
        block_interval: Some(Duration::from_millis(2)),
        fault_plan: FaultPlan { seed: 3, blocks, ..FaultPlan::default() },
        ..DevChainOptions::default()
    };
    let devchain = DevChain::start(options).await.unwrap();
    let chain = until("some blocks", || async {
        Some(devchain.snapshot()).filter(|chain| chain.head().number() >= 30)
    })
    .await;
    assert_linked(&chain);
    assert!(chain.reorgs() > 3, "{}", chain.reorgs());
}
