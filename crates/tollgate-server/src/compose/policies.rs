//! The stuck and bump policies of a node, made from the settings.

use std::sync::Arc;

use tollgate_engine::Policies;
use tollgate_hook::{BadHook, HttpHook};
use tollgate_model::port::clock::Clock;
use tollgate_model::port::policy::StuckPolicy;
use tollgate_model::stuck::rules::RulesFirst;

use crate::config::Settings;

/// The rules decide first; the hook, if there is one, decides when no rule matches.
pub(super) fn policies(settings: &Settings, clock: Arc<dyn Clock>) -> Result<Policies, BadHook> {
    let rules = settings.stuck.rules.clone();
    let stuck: Arc<dyn StuckPolicy> = match settings.hook_options()? {
        Some(hook) => {
            Arc::new(RulesFirst { rules, otherwise: Arc::new(HttpHook::new(hook, clock)) })
        }
        None => Arc::new(rules),
    };
    Ok(Policies { stuck, bump: Arc::new(settings.bump_rules()) })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::TcpListener;
    use tollgate_hook::HookSecret;
    use tollgate_model::bump::{Ceiling, Raise, RequestedPrice};
    use tollgate_model::port::chain::FeeQuote;
    use tollgate_model::port::policy::{StuckAction, StuckContext, StuckDecision};
    use tollgate_model::port::{Fees, RowVersion, TxRecord};
    use tollgate_model::stuck::Trigger;
    use tollgate_model::stuck::rules::{RuleSpec, StuckRules};
    use tollgate_model::{
        Address, B256, Bytes, ChainId, FencingToken, GasPrice, StuckReason, Submitter, Timestamp,
        TxId, TxState,
    };
    use uuid::Uuid;

    use super::*;
    use crate::clock::SystemClock;
    use crate::config::{HookUrl, Permille, defaults};

    fn stuck(reason: StuckReason) -> StuckContext {
        let at = Timestamp::EPOCH;
        let tx = TxRecord {
            tx_id: TxId::from_uuid(Uuid::nil()),
            submitter: Submitter::new(ChainId::new(1).unwrap(), Address::ZERO),
            request_id: None,
            nonce: None,
            payload: Bytes::new(),
            payload_digest: B256::ZERO,
            row: RowVersion { state: TxState::Stuck(reason), version: 1 },
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
            trace: None,
        }
    }

    fn policies_with(hook: Option<(String, HookSecret)>) -> Policies {
        let mut settings = defaults().unwrap();
        let rule = RuleSpec {
            reason: Some("expired".to_owned()),
            action: "cancel".to_owned(),
            ..RuleSpec::default()
        };
        settings.stuck.rules = StuckRules::parse(&[rule]).unwrap();
        settings.gasbump.multiplier = Permille(2_000);
        settings.hook.retries = 0;
        if let Some((url, secret)) = hook {
            settings.hook.url = Some(HookUrl(url));
            settings.hook.secret = Some(secret);
        }
        policies(&settings, Arc::new(SystemClock)).unwrap()
    }

    #[tokio::test]
    async fn rules_decide_alone_without_a_hook() {
        let policy = policies_with(None).stuck;
        let ruled = policy.decide(&stuck(StuckReason::Expired)).await;
        assert_eq!(ruled, StuckDecision::new(StuckAction::Cancel, "stuck.rules[0]"));
        let other = policy.decide(&stuck(StuckReason::TimedOut)).await;
        assert_eq!(other, StuckDecision::new(StuckAction::Noop, "no rule fits"));
    }

    #[tokio::test]
    async fn hook_is_asked_only_when_no_rule_matches() {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", free.local_addr().unwrap());
        drop(free);
        let secret = HookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let policy = policies_with(Some((url, secret))).stuck;
        let ruled = policy.decide(&stuck(StuckReason::Expired)).await;
        assert_eq!(ruled.action, StuckAction::Cancel);
        // Nothing listens there: the decision is a failed noop, and no rule takes its place.
        let asked = policy.decide(&stuck(StuckReason::TimedOut)).await;
        assert!(asked.failed && asked.action == StuckAction::Noop);
        assert!(asked.reason.as_str().contains("can't be reached"), "{}", asked.reason);
    }

    #[test]
    fn bump_rules_follow_the_settings() {
        let price = |wei| GasPrice::from_wei(wei).unwrap();
        let last = Fees { gas_limit: 21_000, max_fee: price(100), max_priority_fee: None };
        let quote = FeeQuote { base_fee: None, max_fee: price(1), max_priority_fee: None };
        let raised = policies_with(None).bump.raise(
            &last,
            &quote,
            &Ceiling::default(),
            &RequestedPrice::default(),
        );
        assert_eq!(raised, Raise::To(Fees { max_fee: price(200), ..last }));
    }
}
