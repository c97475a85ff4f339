//! Who decides where there is a choice, put together from the settings.

use std::sync::Arc;

use tollgate_engine::Policies;
use tollgate_hook::HttpHook;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::policy::StuckPolicy;
use tollgate_model::stuck::rules::RulesFirst;

use crate::config::PolicySettings;

/// The rules, and where none fits the hook, if there is one.
pub(super) fn policies(settings: PolicySettings, clock: Arc<dyn Clock>) -> Policies {
    let PolicySettings { rules, hook, bump } = settings;
    let stuck: Arc<dyn StuckPolicy> = match hook {
        Some(hook) => {
            let otherwise = Arc::new(HttpHook::new(hook, clock));
            Arc::new(RulesFirst { rules, otherwise })
        }
        None => Arc::new(rules),
    };
    Policies { stuck, bump: Arc::new(bump) }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tollgate_hook::{HookOptions, HookSecret};
    use tollgate_model::bump::{BumpRules, Ceiling, Demand, Raise};
    use tollgate_model::port::chain::FeeQuote;
    use tollgate_model::port::policy::{StuckAction, StuckContext, StuckDecision};
    use tollgate_model::port::{Fees, Seen, TxRecord};
    use tollgate_model::stuck::Trigger;
    use tollgate_model::stuck::rules::{RuleSpec, StuckRules};
    use tollgate_model::{
        Address, B256, Bytes, ChainId, FencingToken, GasPrice, StuckReason, Submitter, Timestamp,
        TxId, TxState,
    };
    use uuid::Uuid;

    use super::*;
    use crate::compose::SystemClock;

    fn stuck(reason: StuckReason) -> StuckContext {
        let at = Timestamp::EPOCH;
        let tx = TxRecord {
            tx_id: TxId::from_uuid(Uuid::nil()),
            submitter: Submitter::new(ChainId::new(1).unwrap(), Address::ZERO),
            request_id: None,
            nonce: None,
            payload: Bytes::new(),
            payload_digest: B256::ZERO,
            seen: Seen { state: TxState::Stuck(reason), version: 1 },
            fencing_token: FencingToken::new(1).unwrap(),
            attempts: 1,
            newest_hash: None,
            next_resubmit_at: None,
            resubmits: 0,
            diagnosis: None,
            last_error: None,
            mined: None,
            valid_until: None,
            created_at: at,
            updated_at: at,
            finished_at: None,
        };
        StuckContext {
            question: 1,
            trigger: Trigger::HeadStuck,
            tx,
            attempts: Vec::new(),
            last_answer: None,
            diagnosis: None,
            age: Duration::ZERO,
            depth: 0,
        }
    }

    fn settings(hook: Option<HookOptions>) -> PolicySettings {
        let rule = RuleSpec {
            reason: Some("expired".to_owned()),
            action: "cancel".to_owned(),
            ..RuleSpec::default()
        };
        let rules = StuckRules::parse(&[rule]).unwrap();
        let bump = BumpRules { multiplier_permille: 2_000, ..BumpRules::default() };
        PolicySettings { rules, hook, bump }
    }

    fn made(hook: Option<HookOptions>) -> Policies {
        policies(settings(hook), Arc::new(SystemClock))
    }

    #[tokio::test]
    async fn without_a_hook_the_rules_decide() {
        let policy = made(None).stuck;
        let ruled = policy.decide(&stuck(StuckReason::Expired)).await;
        assert_eq!(ruled, StuckDecision::new(StuckAction::Cancel, "stuck.rules[0]"));
        let other = policy.decide(&stuck(StuckReason::TimedOut)).await;
        assert_eq!(other, StuckDecision::new(StuckAction::Noop, "no rule fits"));
    }

    #[tokio::test]
    async fn with_a_hook_it_is_asked_where_no_rule_fits() {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", free.local_addr().unwrap());
        drop(free);
        let secret = HookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let hook = HookOptions::new(&url, secret).unwrap();
        let policy = made(Some(hook.with_patience(Duration::from_secs(5), 0))).stuck;
        let ruled = policy.decide(&stuck(StuckReason::Expired)).await;
        assert_eq!(ruled.action, StuckAction::Cancel);
        // Nobody is there: a noop that says so, and no rule in its place.
        let asked = policy.decide(&stuck(StuckReason::TimedOut)).await;
        assert!(asked.failed && asked.action == StuckAction::Noop);
        assert!(asked.reason.as_str().contains("can't be reached"), "{}", asked.reason);
    }

    #[test]
    fn the_bump_rules_are_those_of_the_settings() {
        let price = |wei| GasPrice::from_wei(wei).unwrap();
        let last = Fees { gas_limit: 21_000, max_fee: price(100), max_priority_fee: None };
        let quote = FeeQuote { base_fee: None, max_fee: price(1), max_priority_fee: None };
        let raised = made(None).bump.raise(&last, &quote, &Ceiling::default(), &Demand::default());
        assert_eq!(raised, Raise::To(Fees { max_fee: price(200), ..last }));
    }
}
