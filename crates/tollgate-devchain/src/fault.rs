//! The faults of one endpoint: rules, a seeded plan, and the decision for each call.
//!
//! Pure: decides, the server carries it out. Time is an argument; chance follows from the seed and
//! the order of the calls. The values are the JSON of the `devchain_*` methods, too.

use serde::{Deserialize, Serialize};

use crate::chain::{DroppedTxs, Reorg, Rng};
use crate::error::RpcError;

/// Rules at one endpoint, at most.
const RULES_MAX: usize = 1_000;

/// The way in which an answer is lost after the call was executed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Loss {
    #[default]
    Close,
    /// `504 Gateway Timeout` with a page of HTML.
    GatewayTimeout,
    /// Silence, until the caller gives up.
    Hang,
}

/// One thing that goes wrong with one call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Fault {
    /// The call waits before it is carried out.
    Delay { ms: u64 },
    /// Not carried out: the connection closes.
    Close,
    /// Not carried out: an HTTP status instead (over a WebSocket: it closes).
    Http {
        status: u16,
        #[serde(default)]
        retry_after_s: Option<u64>,
    },
    /// Not carried out: this JSON-RPC error instead.
    Rpc { code: i64, message: String },
    /// Carried out, and the answer is lost.
    LoseAnswer {
        #[serde(default)]
        how: Loss,
    },
    /// A sent transaction is accepted, answered, and then forgotten by this node's pool.
    Forget,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FaultRule {
    /// The method; `*` at the end stands for any rest.
    #[serde(default = "any")]
    pub method: String,
    pub fault: Fault,
    /// The most times; `None`: no limit.
    #[serde(default)]
    pub times: Option<u32>,
    /// The probability at each call.
    #[serde(default = "certain")]
    pub probability: f64,
}

fn any() -> String {
    "*".to_owned()
}

fn certain() -> f64 {
    1.0
}

impl FaultRule {
    /// At every call of this method.
    pub fn always(method: &str, fault: Fault) -> Self {
        Self { method: method.to_owned(), fault, times: None, probability: 1.0 }
    }

    /// At the next call of this method.
    pub fn once(method: &str, fault: Fault) -> Self {
        Self { times: Some(1), ..Self::always(method, fault) }
    }

    /// At calls of this method with this probability.
    pub fn sometimes(method: &str, probability: f64, fault: Fault) -> Self {
        Self { probability, ..Self::always(method, fault) }
    }

    /// The rule applies to this method.
    pub fn is_about(&self, method: &str) -> bool {
        match self.method.strip_suffix('*') {
            Some(start) => method.starts_with(start),
            None => self.method == method,
        }
    }
}

/// A reorg after a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReorgFault {
    /// The deepest; each is drawn from 1 to here.
    pub max_depth: u64,
}

/// The chain's own faults after each block.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockFault {
    /// The probability after each block.
    pub probability: f64,
    /// A reorg with a drawn depth and handling of transactions, never beyond `safe`.
    #[serde(default)]
    pub reorg: Option<ReorgFault>,
    /// Each pooled transaction of the view goes with this probability.
    #[serde(default)]
    pub evict: Option<f64>,
}

/// A schedule of faults that follows from a seed.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FaultPlan {
    pub seed: u64,
    /// For each call, every rule is drawn in this order.
    pub calls: Vec<FaultRule>,
    /// For each block, every fault is drawn in this order.
    pub blocks: Vec<BlockFault>,
}

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

    pub fn rules(&self) -> &[FaultRule] {
        &self.rules
    }

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
