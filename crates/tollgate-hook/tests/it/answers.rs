//! Answers of a hook that works, and questions that are not asked.

use std::sync::Arc;

use tollgate_model::port::policy::{StuckAction, StuckDecision, StuckPolicy};
use tollgate_model::stuck::rules::{RuleSpec, RulesFirst, StuckRules};

use crate::receiver::{Receiver, ok, status};
use crate::support::{context, fails, patient};

#[tokio::test]
async fn the_hook_decides() {
    for action in StuckAction::ALL {
        let body = format!(r#"{{"action": "{}", "reason": "so be it"}}"#, action.name());
        let receiver = Receiver::start(vec![ok(&body)]).await;
        let decision = patient(&receiver.url).decide(&context()).await;
        assert_eq!(decision, StuckDecision::new(action, "so be it"));
        assert_eq!(receiver.heard().len(), 1);
    }
}

#[tokio::test]
async fn replacement_and_own_fields_of_an_answer_are_read() {
    let body = r#"{"action": "replace", "maxFeePerGas": "45000000000", "fields": {"ticket": 5}}"#;
    let receiver = Receiver::start(vec![ok(body)]).await;
    let decision = patient(&receiver.url).decide(&context()).await;
    assert_eq!(decision.action, StuckAction::Replace);
    let max_fee = decision.replacement.max_fee_per_gas.map(|fee| fee.wei());
    assert_eq!(max_fee, Some(45_000_000_000));
    assert_eq!(decision.fields.unwrap().as_str(), r#"{"ticket": 5}"#);
}

#[tokio::test]
async fn rules_that_fit_decide_first_and_the_hook_where_none_does() {
    let receiver = Receiver::start(vec![ok(r#"{"action": "cancel"}"#)]).await;
    let policy = |reason: &str| {
        let spec = RuleSpec {
            reason: Some(reason.to_owned()),
            action: "resubmit".to_owned(),
            ..RuleSpec::default()
        };
        let rules = StuckRules::parse(&[spec]).unwrap();
        RulesFirst { rules, otherwise: Arc::new(patient(&receiver.url)) }
    };
    let ruled = policy("timed_out").decide(&context()).await;
    assert_eq!(ruled, StuckDecision::new(StuckAction::Resubmit, "stuck.rules[0]"));
    assert_eq!(receiver.heard().len(), 0);
    let asked = policy("expired").decide(&context()).await;
    assert_eq!(asked.action, StuckAction::Cancel);
    assert_eq!(receiver.heard().len(), 1);
}

#[tokio::test]
async fn a_hook_that_fails_leaves_a_noop_also_where_there_are_rules() {
    let receiver = Receiver::start(vec![status("404 Not Found", "")]).await;
    let hook = patient(&receiver.url);
    fails(&hook).await;
    let rules = RulesFirst { rules: StuckRules::default(), otherwise: Arc::new(hook) };
    let decision = rules.decide(&context()).await;
    assert!(decision.failed && decision.action == StuckAction::Noop);
}
