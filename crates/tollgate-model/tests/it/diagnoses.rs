//! Properties of diagnoses, for any answers of any number of endpoints.

use crate::{any_counts, nonce};
use proptest::prelude::*;
use tollgate_model::diagnose::{Diagnosis, DiagnosisView, EndpointReport, PoolContent, diagnose};
use tollgate_model::{Nonce, TxHash};

const SLOT: u64 = 3;
const OURS: [TxHash; 2] = [TxHash::repeat_byte(1), TxHash::repeat_byte(2)];

fn any_pool() -> impl Strategy<Value = PoolContent> {
    let part = || prop::collection::btree_map((0u64..6).prop_map(nonce), any_hash(), 0..3);
    (part(), part()).prop_map(|(pending, queued)| PoolContent { pending, queued })
}

fn any_hash() -> impl Strategy<Value = TxHash> {
    (1u8..5).prop_map(TxHash::repeat_byte)
}

fn any_report() -> impl Strategy<Value = EndpointReport> {
    (proptest::option::of(any_pool()), proptest::option::of(any::<bool>()))
        .prop_map(|(pool, knows_it)| EndpointReport { pool, knows_it })
}

fn holds_ours(report: &EndpointReport) -> bool {
    let at_slot = |part: &std::collections::BTreeMap<Nonce, TxHash>| {
        part.get(&nonce(SLOT)).is_some_and(|hash| OURS.contains(hash))
    };
    let in_pool =
        report.pool.as_ref().is_some_and(|pool| at_slot(&pool.pending) || at_slot(&pool.queued));
    in_pool || report.knows_it == Some(true)
}

proptest! {
    #[test]
    fn transaction_that_a_node_holds_is_neither_lost_nor_replaced(
        endpoints in prop::collection::vec(any_report(), 0..5), counts in any_counts(),
    ) {
        let view = DiagnosisView { nonce: nonce(SLOT), attempts: &OURS, endpoints: &endpoints, counts };
        let diagnosis = diagnose(&view);
        let held = endpoints.iter().any(holds_ours);
        match diagnosis {
            Diagnosis::ProbablyLost => {
                prop_assert!(!held);
                let answered = |report: &&EndpointReport| report.pool.is_some() || report.knows_it.is_some();
                let witnesses = endpoints.iter().filter(answered).count();
                prop_assert!(witnesses >= endpoints.len().clamp(1, 2), "{endpoints:?}");
            }
            Diagnosis::ReplacedByAnother { hash } => {
                prop_assert!(!OURS.contains(&hash) && !held);
            }
            Diagnosis::BlockedByLowerNonce { nonce: lower } => prop_assert!(lower < nonce(SLOT)),
            Diagnosis::InPool => prop_assert!(held),
            Diagnosis::Unknown => {}
        }
    }
}
