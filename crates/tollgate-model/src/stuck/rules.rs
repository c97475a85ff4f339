//! The built-in stuck policy: an ordered list of rules from the configuration; the first that matches
//! decides. If none matches, only an alert is raised.
//!
//! Only matches. [`super::plan`] decides whether the action is possible for the transaction, as for every
//! other policy.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Trigger;
use crate::answer::AnswerClass;
use crate::diagnose::Diagnosis;
use crate::port::policy::{StuckAction, StuckContext, StuckDecision, StuckPolicy};
use crate::state::{StuckReason, TxState};

/// One rule as written (`[[stuck.rules]]`): every condition that is given must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleSpec {
    /// The trigger ([`Trigger::name`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger: Option<String>,
    /// The reason why it is STUCK ([`StuckReason::name`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The class of the nodes' last answer ([`AnswerClass::name`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_answer: Option<String>,
    /// The mempool diagnosis ([`Diagnosis::name`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<String>,
    /// The minimum time it has been open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_at_least_seconds: Option<u64>,
    /// The minimum number of transactions that wait behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_at_least: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_at_least: Option<u16>,
    /// The action ([`StuckAction::name`]).
    pub action: String,
}

/// A rule that can't be used.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("stuck.rules[{index}].{field}: {problem}")]
pub struct BadRule {
    /// The rule's index, from 0.
    pub index: usize,
    pub field: &'static str,
    pub problem: String,
}

/// The facts that rules are matched against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StuckCase {
    pub trigger: Trigger,
    /// The reason, if it is STUCK.
    pub reason: Option<StuckReason>,
    pub last_answer: Option<AnswerClass>,
    pub diagnosis: Option<Diagnosis>,
    /// The time for which it has been open.
    pub age: Duration,
    /// The number of transactions behind it.
    pub depth: u64,
    pub attempts: u16,
}

impl From<&StuckContext> for StuckCase {
    fn from(context: &StuckContext) -> Self {
        let reason = match context.tx.row.state {
            TxState::Stuck(reason) => Some(reason),
            TxState::Queued(_)
            | TxState::Allocated(_)
            | TxState::Tracking(_)
            | TxState::Confirmed
            | TxState::Failed(_) => None,
        };
        Self {
            trigger: context.trigger,
            reason,
            last_answer: context.last_answer,
            diagnosis: context.diagnosis,
            age: context.age,
            depth: context.depth,
            attempts: context.tx.attempts,
        }
    }
}

/// A parsed rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rule {
    trigger: Option<Trigger>,
    reason: Option<StuckReason>,
    last_answer: Option<AnswerClass>,
    diagnosis: Option<&'static str>,
    age: Duration,
    depth: u64,
    attempts: u16,
    action: StuckAction,
}

impl Rule {
    fn fits(&self, case: &StuckCase) -> bool {
        self.trigger.is_none_or(|wanted| case.trigger == wanted)
            && self.reason.is_none_or(|wanted| case.reason == Some(wanted))
            && self.last_answer.is_none_or(|wanted| case.last_answer == Some(wanted))
            && self
                .diagnosis
                .is_none_or(|wanted| case.diagnosis.is_some_and(|d| d.name() == wanted))
            && case.age >= self.age
            && case.depth >= self.depth
            && case.attempts >= self.attempts
    }
}

/// The rules' result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ruling {
    pub action: StuckAction,
    /// The index of the matching rule, from 0; `None` if none matches.
    pub rule: Option<usize>,
}

impl Ruling {
    fn decision(self) -> StuckDecision {
        match self.rule {
            Some(index) => StuckDecision::new(self.action, &format!("stuck.rules[{index}]")),
            None => StuckDecision::new(self.action, "no rule fits"),
        }
    }
}

/// The rule list. An empty one only raises alerts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct StuckRules(Vec<Rule>);

impl StuckRules {
    /// The maximum number of rules (I13).
    pub const MAX: usize = 100;

    /// Parses a list of rules, or says which one is invalid and why.
    pub fn parse(specs: &[RuleSpec]) -> Result<Self, BadRule> {
        if specs.len() > Self::MAX {
            let problem = format!("{} rules are more than {}", specs.len(), Self::MAX);
            return Err(BadRule { index: Self::MAX, field: "action", problem });
        }
        let rules = specs.iter().enumerate().map(|(index, spec)| parse(index, spec));
        rules.collect::<Result<_, _>>().map(Self)
    }

    /// The first matching rule decides.
    pub fn rule_on(&self, case: &StuckCase) -> Ruling {
        let first = self.0.iter().enumerate().find(|(_, rule)| rule.fits(case));
        match first {
            Some((index, rule)) => Ruling { action: rule.action, rule: Some(index) },
            None => Ruling { action: StuckAction::Noop, rule: None },
        }
    }
}

#[async_trait]
impl StuckPolicy for StuckRules {
    async fn decide(&self, context: &StuckContext) -> StuckDecision {
        self.rule_on(&StuckCase::from(context)).decision()
    }
}

/// Rules decide if one matches; otherwise another policy is asked.
pub struct RulesFirst {
    pub rules: StuckRules,
    /// The policy that is asked if no rule matches.
    pub otherwise: Arc<dyn StuckPolicy>,
}

#[async_trait]
impl StuckPolicy for RulesFirst {
    async fn decide(&self, context: &StuckContext) -> StuckDecision {
        let ruling = self.rules.rule_on(&StuckCase::from(context));
        match ruling.rule {
            Some(_) => ruling.decision(),
            None => self.otherwise.decide(context).await,
        }
    }
}

fn parse(index: usize, spec: &RuleSpec) -> Result<Rule, BadRule> {
    let bad = |field, problem| BadRule { index, field, problem };
    let rule = Rule {
        trigger: word(spec.trigger.as_deref(), Trigger::ALL, Trigger::name)
            .map_err(|problem| bad("trigger", problem))?,
        reason: word(spec.reason.as_deref(), StuckReason::ALL, StuckReason::name)
            .map_err(|problem| bad("reason", problem))?,
        last_answer: word(spec.last_answer.as_deref(), AnswerClass::ALL, AnswerClass::name)
            .map_err(|problem| bad("last_answer", problem))?,
        diagnosis: word(spec.diagnosis.as_deref(), Diagnosis::NAMES, |name| name)
            .map_err(|problem| bad("diagnosis", problem))?,
        age: Duration::from_secs(spec.age_at_least_seconds.unwrap_or(0)),
        depth: spec.depth_at_least.unwrap_or(0),
        attempts: spec.attempts_at_least.unwrap_or(0),
        action: word(Some(spec.action.as_str()), StuckAction::ALL, StuckAction::name)
            .map_err(|problem| bad("action", problem))?
            .unwrap_or_default(),
    };
    let unconditional = RuleSpec { action: spec.action.clone(), ..RuleSpec::default() } == *spec;
    match rule.action {
        StuckAction::Replace | StuckAction::Cancel | StuckAction::Placeholder if unconditional => {
            // A forgotten condition would cancel every transaction that is ever asked about.
            Err(bad("action", format!("{} needs a condition", spec.action)))
        }
        StuckAction::Noop
        | StuckAction::Resubmit
        | StuckAction::Replace
        | StuckAction::Cancel
        | StuckAction::Placeholder => Ok(rule),
    }
}

/// The value with this name; `None` without a name.
fn word<T: Copy, const N: usize>(
    name: Option<&str>,
    all: [T; N],
    name_of: fn(T) -> &'static str,
) -> Result<Option<T>, String> {
    let Some(name) = name else { return Ok(None) };
    match all.into_iter().find(|value| name_of(*value) == name) {
        Some(value) => Ok(Some(value)),
        None => {
            let known = all.map(name_of).join(", ");
            Err(format!("{name:?} is none of {known}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> StuckCase {
        StuckCase {
            trigger: Trigger::HeadStuck,
            reason: Some(StuckReason::Expired),
            last_answer: Some(AnswerClass::Underpriced),
            diagnosis: Some(Diagnosis::InPool),
            age: Duration::from_secs(600),
            depth: 10,
            attempts: 3,
        }
    }

    fn spec(action: StuckAction) -> RuleSpec {
        RuleSpec { action: action.name().to_owned(), ..RuleSpec::default() }
    }

    fn words(json: &str) -> Vec<RuleSpec> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn the_first_rule_that_fits_decides_and_none_means_an_alert() {
        let rules = words(
            r#"[{"reason": "rejected", "action": "placeholder"},
                {"reason": "expired", "age_at_least_seconds": 601, "action": "noop"},
                {"reason": "expired", "action": "cancel"},
                {"action": "resubmit"}]"#,
        );
        let rules = StuckRules::parse(&rules).unwrap();
        let ruled = |action, rule| Ruling { action, rule };
        assert_eq!(rules.rule_on(&case()), ruled(StuckAction::Cancel, Some(2)));
        let other = StuckCase { reason: None, ..case() };
        assert_eq!(rules.rule_on(&other), ruled(StuckAction::Resubmit, Some(3)));
        let none = StuckRules::default();
        assert_eq!(none.rule_on(&case()), ruled(StuckAction::Noop, None));
    }

    #[test]
    fn every_condition_that_is_given_must_hold() {
        let fitting = RuleSpec {
            trigger: Some("head_stuck".into()),
            reason: Some("expired".into()),
            last_answer: Some("underpriced".into()),
            diagnosis: Some("in_pool".into()),
            age_at_least_seconds: Some(600),
            depth_at_least: Some(10),
            attempts_at_least: Some(3),
            action: "cancel".into(),
        };
        let fits =
            |spec: RuleSpec| StuckRules::parse(&[spec]).unwrap().rule_on(&case()).rule.is_some();
        assert!(fits(fitting.clone()));
        for off in [
            RuleSpec { trigger: Some("backlog_old".into()), ..fitting.clone() },
            RuleSpec { reason: Some("fee_cap".into()), ..fitting.clone() },
            RuleSpec { last_answer: Some("accepted".into()), ..fitting.clone() },
            RuleSpec { diagnosis: Some("unknown".into()), ..fitting.clone() },
            RuleSpec { age_at_least_seconds: Some(601), ..fitting.clone() },
            RuleSpec { depth_at_least: Some(11), ..fitting.clone() },
            RuleSpec { attempts_at_least: Some(4), ..fitting.clone() },
        ] {
            assert!(!fits(off.clone()), "{off:?}");
        }
    }

    #[test]
    fn invalid_rule_is_refused_with_its_field() {
        let refused = |spec: RuleSpec| StuckRules::parse(&[spec]).unwrap_err().field;
        let noop = || spec(StuckAction::Noop);
        assert_eq!(refused(RuleSpec { reason: Some("dead".into()), ..noop() }), "reason");
        assert_eq!(refused(RuleSpec { trigger: Some("dead".into()), ..noop() }), "trigger");
        assert_eq!(refused(RuleSpec { last_answer: Some("dead".into()), ..noop() }), "last_answer");
        assert_eq!(refused(RuleSpec { diagnosis: Some("dead".into()), ..noop() }), "diagnosis");
        assert_eq!(refused(RuleSpec { action: "abandon".into(), ..noop() }), "action");
        assert_eq!(refused(spec(StuckAction::Cancel)), "action", "everything would be cancelled");
        assert!(StuckRules::parse(&vec![noop(); StuckRules::MAX + 1]).is_err());
        let unknown = serde_json::from_str::<RuleSpec>(r#"{"action": "noop", "age": 3}"#);
        assert!(unknown.is_err());
    }
}
