//! The state of an endpoint's faults, and what they come to for one call.

use super::plan::{BlockFault, Fault, FaultPlan, FaultRule, Loss};
use crate::chain::{DroppedTxs, Reorg, Rng};
use crate::error::RpcError;

/// Rules at one endpoint, at most.
const RULES_MAX: usize = 1_000;

/// The faults of one call, applied in this order.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct CallFaults {
    /// The delay before everything else.
    pub delay_ms: u64,
    /// The answer that replaces the execution.
    pub instead: Option<Fault>,
    /// The call is executed, but its answer is lost.
    pub loss: Option<Loss>,
    /// If it sends a transaction, the pool forgets it at once.
    pub forgets: bool,
    /// The call is neither executed nor answered.
    pub is_silent: bool,
}

/// The faults of one endpoint.
#[derive(Clone, PartialEq, Debug)]
pub struct Faults {
    rules: Vec<FaultRule>,
    plan: FaultPlan,
    call_rng: Rng,
    block_rng: Rng,
    rate: Option<u32>,
    /// The second that is running, and how many calls it has had.
    window: (u64, u32),
}

impl Default for Faults {
    fn default() -> Self {
        Self::new(FaultPlan::default())
    }
}

impl Faults {
    /// Those of a plan.
    pub fn new(plan: FaultPlan) -> Self {
        Self {
            rules: Vec::new(),
            call_rng: Rng::new(plan.seed),
            // Apart from the calls, so that their number does not move the blocks' draws.
            block_rng: Rng::new(plan.seed ^ 0x626c_6f63_6b73),
            plan,
            rate: None,
            window: (0, 0),
        }
    }

    /// Adds a rule; false if there are too many.
    pub fn add(&mut self, rule: FaultRule) -> bool {
        let has_room = self.rules.len() < RULES_MAX;
        if has_room {
            self.rules.push(rule);
        }
        has_room
    }

    /// Takes out the rules about a method that `is_gone` says so of.
    pub fn remove(&mut self, method: &str, is_gone: impl Fn(&Fault) -> bool) {
        self.rules.retain(|rule| rule.method != method || !is_gone(&rule.fault));
    }

    /// Starts a plan anew.
    pub fn set_plan(&mut self, plan: FaultPlan) {
        *self = Self { rules: std::mem::take(&mut self.rules), rate: self.rate, ..Self::new(plan) };
    }

    /// Calls a second, at most.
    pub fn set_rate(&mut self, per_second: Option<u32>) {
        self.rate = per_second;
        self.window = (0, 0);
    }

    /// Draws an event of this probability from the seeded sequence.
    pub fn draws(&mut self, probability: f64) -> bool {
        self.call_rng.chance(probability)
    }

    /// The rules that are left.
    pub fn rules(&self) -> &[FaultRule] {
        &self.rules
    }

    /// The plan.
    pub fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    /// The faults of a call of `method` at `now_ms`.
    pub fn decide(&mut self, method: &str, now_ms: u64) -> CallFaults {
        let mut verdict = CallFaults::default();
        if self.is_over_rate(now_ms) {
            verdict.instead = Some(Fault::Http { status: 429, retry_after_s: Some(1) });
            return verdict;
        }
        let Self { rules, plan, call_rng, .. } = self;
        for rule in rules.iter_mut().chain(&mut plan.calls) {
            if !rule.is_about(method) || rule.times == Some(0) {
                continue;
            }
            if rule.probability < 1.0 && !call_rng.chance(rule.probability) {
                continue;
            }
            rule.times = rule.times.map(|times| times - 1);
            verdict.take(&rule.fault);
        }
        rules.retain(|rule| rule.times != Some(0));
        verdict
    }

    fn is_over_rate(&mut self, now_ms: u64) -> bool {
        let Some(rate) = self.rate else { return false };
        let second = now_ms / 1_000;
        if self.window.0 != second {
            self.window = (second, 0);
        }
        self.window.1 = self.window.1.saturating_add(1);
        self.window.1 > rate
    }

    /// The faults after a block: a reorg, and the share of the pool that is dropped.
    pub fn after_block(&mut self) -> (Option<Reorg>, Option<f64>) {
        let (mut reorg, mut evict) = (None, None);
        for BlockFault { probability, reorg: wanted, evict: share } in &self.plan.blocks {
            if !self.block_rng.chance(*probability) {
                continue;
            }
            if let Some(wanted) = wanted {
                let depth = 1 + self.block_rng.below(wanted.max_depth);
                let choices = [DroppedTxs::Kept, DroppedTxs::Moved, DroppedTxs::Returned];
                let dropped_txs = choices[self.block_rng.below(choices.len() as u64) as usize];
                reorg = Some(Reorg { replacements: depth + 1, ..Reorg::new(depth, dropped_txs) });
            }
            evict = share.or(evict);
        }
        (reorg, evict)
    }
}

impl CallFaults {
    /// The first fault that stands instead of the answer wins; delays add up.
    fn take(&mut self, fault: &Fault) {
        match fault {
            Fault::Delay { ms } => self.delay_ms = self.delay_ms.saturating_add(*ms),
            Fault::LoseAnswer { how } => self.loss = self.loss.or(Some(*how)),
            Fault::Forget => self.forgets = true,
            Fault::Close | Fault::Http { .. } | Fault::Rpc { .. } => {
                self.instead = self.instead.take().or(Some(fault.clone()));
            }
        }
    }

    /// The JSON-RPC error that stands instead of the answer, if it is one.
    pub fn rpc_error(&self) -> Option<RpcError> {
        match &self.instead {
            Some(Fault::Rpc { code, message }) => Some(RpcError::new(*code, message.clone())),
            _ => None,
        }
    }
}
