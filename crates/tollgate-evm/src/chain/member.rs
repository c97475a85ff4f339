//! An endpoint as a member of a chain: whether it belongs there, and where its head is.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;
use tollgate_model::port::chain::BlockRef;
use tollgate_model::{B256, ChainId};

use super::config::ConnectError;
use crate::endpoint::wire::{BlockWire, Quantity, quantity};
use crate::endpoint::{Endpoint, Role, RpcError, RpcErrorKind};

/// How many times a call is made that is one of several for the same question.
const TRIES_MAX: u32 = 3;

/// The pause before an endpoint is asked again for a block that it announced and did not deliver; it
/// doubles.
const LEAD_CHECK_MIN: Duration = Duration::from_secs(1);
/// The longest such pause.
const LEAD_CHECK_MAX: Duration = Duration::from_secs(30);
/// How soon a warning about the same endpoint is repeated.
const WARNING_INTERVAL: Duration = Duration::from_secs(3600);

/// Whether an endpoint is known to be on the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Standing {
    /// It has not answered yet.
    Unchecked,
    /// It is.
    Good,
    /// It is on another one; never asked again.
    Refused(ConnectError),
}

/// What an endpoint last said of its head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct HeadSeen {
    pub(super) at: BlockRef,
    /// The highest number that it ever gave.
    pub(super) peak: u64,
    /// Whether its blocks have a base fee; `None` where that was not told.
    pub(super) has_base_fee: Option<bool>,
    pub(super) base_fee: Option<u128>,
    /// The gas of a block; `None` where that was not told.
    pub(super) gas_limit: Option<u64>,
    /// Its blocks have a hash of requests (EIP-7685), as those since the Prague fork do, which also
    /// brought the floor for call data.
    pub(super) has_requests: bool,
    pub(super) when: Instant,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) endpoint: Endpoint,
    /// Its place among the chain's endpoints.
    pub(super) place: usize,
    view: Mutex<View>,
}

#[derive(Debug)]
struct View {
    standing: Standing,
    head: Option<HeadSeen>,
    /// A height that no other endpoint has reached yet, and when this one first told it.
    lead: Option<Lead>,
    /// It leads the others by blocks that it does not deliver.
    is_doubted: bool,
    /// How often in a row it did not deliver the block by which it leads.
    undelivered_leads: u32,
    /// The block by which it leads is not asked for again before this time.
    lead_check_due: Option<Instant>,
    /// When a warning last named it.
    warned_at: Option<Instant>,
}

/// A height that one endpoint alone tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Lead {
    pub(super) number: u64,
    pub(super) since: Instant,
}

/// What makes a chain this chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    pub(super) chain_id: ChainId,
    pub(super) genesis: B256,
}

impl Member {
    pub(super) fn new(endpoint: Endpoint, place: usize) -> Arc<Self> {
        let view = View {
            standing: Standing::Unchecked,
            head: None,
            lead: None,
            is_doubted: false,
            undelivered_leads: 0,
            lead_check_due: None,
            warned_at: None,
        };
        Arc::new(Self { endpoint, place, view: Mutex::new(view) })
    }

    pub(super) fn reads(&self) -> bool {
        self.endpoint.role() != Role::SendOnly
    }

    pub(super) fn sends(&self) -> bool {
        self.endpoint.role() != Role::ReadOnly
    }

    fn with<T>(&self, look: impl FnOnce(&mut View) -> T) -> T {
        look(&mut self.view.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn standing(&self) -> Standing {
        self.with(|view| view.standing.clone())
    }

    pub(super) fn is_good(&self) -> bool {
        self.with(|view| view.standing == Standing::Good)
    }

    pub(super) fn set_standing(&self, standing: Standing) {
        self.with(|view| view.standing = standing);
    }

    pub(super) fn head(&self) -> Option<HeadSeen> {
        self.with(|view| view.head)
    }

    /// Keeps a head that it gave.
    pub(super) fn saw_head(&self, at: BlockRef, base_fee: Option<Option<u128>>, when: Instant) {
        self.with(|view| {
            let before = view.head;
            view.head = Some(HeadSeen {
                at,
                peak: before.map_or(at.number, |head| head.peak.max(at.number)),
                // An announcement without the fee does not make a chain one without fees.
                has_base_fee: base_fee
                    .map(|fee| fee.is_some())
                    .or_else(|| before.and_then(|head| head.has_base_fee)),
                base_fee: base_fee.flatten().or_else(|| before.and_then(|head| head.base_fee)),
                gas_limit: before.and_then(|head| head.gas_limit),
                has_requests: before.is_some_and(|head| head.has_requests),
                when,
            });
        });
    }

    /// Compares its head with the highest one of the other endpoints, and returns by what it leads. A
    /// height keeps the time at which it was first told until another endpoint has reached it.
    pub(super) fn compare_head(&self, others: u64, now: Instant) -> Option<Lead> {
        self.with(|view| {
            let number = view.head.map(|head| head.at.number).filter(|number| *number > others);
            let kept = view.lead.filter(|lead| lead.number > others);
            view.lead = number.map(|number| {
                kept.filter(|lead| lead.number <= number).unwrap_or(Lead { number, since: now })
            });
            if view.lead.is_none() {
                (view.is_doubted, view.undelivered_leads) = (false, 0);
            }
            view.lead
        })
    }

    /// Whether the block by which it leads may be asked for now.
    pub(super) fn is_lead_check_due(&self, now: Instant) -> bool {
        self.with(|view| view.lead_check_due.is_none_or(|due| due <= now))
    }

    /// Notes that it delivered the block by which it leads. The next lead begins with its present head.
    pub(super) fn lead_delivered(&self, now: Instant) {
        self.with(|view| {
            (view.is_doubted, view.undelivered_leads, view.lead_check_due) = (false, 0, None);
            view.lead = view.head.map(|head| Lead { number: head.at.number, since: now });
        });
    }

    /// Notes that it did not deliver the block by which it leads. Whether a warning is due: one for each
    /// endpoint and [`WARNING_INTERVAL`].
    pub(super) fn lead_not_delivered(&self, now: Instant) -> bool {
        self.with(|view| {
            let doublings = view.undelivered_leads.min(16);
            let pause = LEAD_CHECK_MIN.saturating_mul(1 << doublings).min(LEAD_CHECK_MAX);
            view.lead_check_due = Some(now + pause);
            view.undelivered_leads += 1;
            view.is_doubted = true;
            let is_due = view
                .warned_at
                .is_none_or(|at| now.saturating_duration_since(at) >= WARNING_INTERVAL);
            if is_due {
                view.warned_at = Some(now);
            }
            is_due
        })
    }

    /// Whether it leads the others by blocks that it does not deliver: what it tells comes from no
    /// chain that anybody has seen.
    pub(super) fn is_doubted(&self) -> bool {
        self.with(|view| view.is_doubted)
    }

    /// Asks, and asks again where no node answered. For questions that take many calls: where each of
    /// them fails now and then, they would hardly ever succeed all together (I15). An endpoint that
    /// hangs, limits or keeps failing rests, and is not asked again.
    pub(super) async fn insist<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: Value,
        deadline: Instant,
    ) -> Result<T, RpcError> {
        let mut tries = 1;
        loop {
            let answer = self.endpoint.call_until(method, params.clone(), deadline).await;
            let is_answered = answer.as_ref().err().is_none_or(|error| {
                matches!(error.kind, RpcErrorKind::Node | RpcErrorKind::Unreadable)
            });
            let rests = self.endpoint.health().is_resting(Instant::now());
            if is_answered || rests || tries >= TRIES_MAX {
                return answer;
            }
            tries += 1;
        }
    }

    /// Its block at a height; `None` if it has none.
    pub(super) async fn ask_block(&self, number: u64) -> Result<Option<BlockRef>, RpcError> {
        let params = json!([quantity(number), false]);
        let block: Option<BlockWire> = self.endpoint.call("eth_getBlockByNumber", params).await?;
        Ok(block.and_then(|block| block.at()).filter(|at| at.number == number))
    }

    /// Keeps what its head says of the rules of blocks.
    fn saw_rules(&self, block: &BlockWire) {
        self.with(|view| {
            if let Some(head) = &mut view.head {
                head.gas_limit = block.gas_limit().or(head.gas_limit);
                head.has_requests = block.has_requests();
            }
        });
    }

    /// Asks for its head.
    pub(super) async fn ask_head(&self) -> Result<(), RpcError> {
        let block: Option<BlockWire> =
            self.endpoint.call("eth_getBlockByNumber", json!(["latest", false])).await?;
        if let Some((at, block)) = block.and_then(|block| Some((block.at()?, block))) {
            self.saw_head(at, Some(block.base_fee()), Instant::now());
            self.saw_rules(&block);
        }
        Ok(())
    }

    /// Asks which chain it is on.
    pub(super) async fn ask_chain_id(&self) -> Result<u64, RpcError> {
        let answer: Quantity<u64> = self.endpoint.call("eth_chainId", json!([])).await?;
        Ok(answer.0)
    }

    /// Asks how its chain began.
    pub(super) async fn ask_genesis(&self) -> Result<Option<B256>, RpcError> {
        let params = json!(["0x0", false]);
        let block: Option<BlockWire> = self.endpoint.call("eth_getBlockByNumber", params).await?;
        Ok(block.and_then(|block| block.at()).map(|at| at.hash))
    }

    /// Finds out whether it is on the chain.
    pub(super) async fn check(&self, chain: Identity) -> Standing {
        let standing = match self.compare(chain).await {
            Ok(standing) => standing,
            // A relay that knows nothing but sends can't be on a wrong chain: what it is sent
            // names its own.
            Err(error) if !self.reads() && error.is_method_missing() => Standing::Good,
            Err(_) => Standing::Unchecked,
        };
        if let Standing::Refused(why) = &standing {
            tracing::error!(endpoint = self.endpoint.name(), %why, "endpoint refused");
        }
        self.set_standing(standing.clone());
        standing
    }

    async fn compare(&self, chain: Identity) -> Result<Standing, RpcError> {
        let endpoint = || self.endpoint.name().to_owned();
        let found = self.ask_chain_id().await?;
        if found != chain.chain_id.get() {
            let expected = chain.chain_id;
            let why = ConnectError::WrongChain { endpoint: endpoint(), expected, found };
            return Ok(Standing::Refused(why));
        }
        if !self.reads() {
            return Ok(Standing::Good);
        }
        Ok(match self.ask_genesis().await? {
            Some(found) if found != chain.genesis => {
                let expected = chain.genesis;
                let why = ConnectError::WrongGenesis { endpoint: endpoint(), expected, found };
                Standing::Refused(why)
            }
            // A pruned node has no first block: its chain id has to do.
            Some(_) | None => Standing::Good,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::EndpointConfig;

    #[tokio::test]
    async fn undelivered_lead_is_checked_with_growing_pauses_and_warned_about_once() {
        let endpoint = Endpoint::new(EndpointConfig::new("http://127.0.0.1:1"), None).unwrap();
        let member = Member::new(endpoint, 0);
        let mut now = Instant::now();
        let (mut pauses, mut warnings) = (Vec::new(), 0);
        for _ in 0..7 {
            warnings += usize::from(member.lead_not_delivered(now));
            let second = Duration::from_secs(1);
            let pause = (0..).find(|n| member.is_lead_check_due(now + second * *n)).unwrap();
            pauses.push(pause);
            now += second * pause;
        }
        assert_eq!((pauses, warnings), (vec![1, 2, 4, 8, 16, 30, 30], 1));
        assert!(member.is_doubted());
        member.lead_delivered(now);
        assert!(!member.is_doubted() && member.is_lead_check_due(now));
        assert!(!member.lead_not_delivered(now), "not each time that it comes and goes");
    }
}
