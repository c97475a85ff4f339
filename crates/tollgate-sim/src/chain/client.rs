//! The chain through the real client: its router, its votes and its patience, over the dev chain's
//! own endpoints. Only sockets are left out: a request travels as every call of a node does.
//!
//! A client lives as long as its node. Its answers reach the node only while the node runs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::{OnceCell, oneshot};
use tokio::time::sleep;
use tollgate_devchain::chain::MAIN_POOL;
use tollgate_devchain::fault::{Fault, FaultRule};
use tollgate_devchain::{LocalAnswer, LocalChain, LocalView};
use tollgate_evm::chain::{ChainConfig, EvmChain};
use tollgate_evm::endpoint::{Carried, Carrier, EndpointConfig, Role, RpcError, RpcErrorKind};
use tollgate_model::answer::AnswerClass;
use tollgate_model::diagnose::EndpointReport;
use tollgate_model::port::TxReceipt;
use tollgate_model::port::chain::{
    AccountCounts, Block, BlockReceipts, BlockRef, BlockTag, Call, CallEstimate, Chain,
    ChainLimits, ChainUnavailable, FeeQuote, Funds, OccupantSearch, PastCount, SendAnswer,
    SlotSearch, Speed, TxLocation,
};
use tollgate_model::receipt_support::ReceiptSupport;
use tollgate_model::{Address, Bytes, ChainId, Nonce, Route, Text, TxHash, Wei};

use super::SECOND;
use crate::network::{Network, Peer};
use crate::plan::{Lie, Plan, TOO_DEAR};
use crate::planted::Bug;
use crate::world::World;

/// The pause between two tries to connect.
const CONNECT_PAUSE: Duration = Duration::from_secs(1);
/// The lies of an endpoint that is wrong about everything: blocks ahead and transactions too many.
const AHEAD: u64 = 500;
const TOO_MANY: u64 = 100_000;
/// The time limit of calls under [`Bug::SilenceAwaited`].
const FOR_EVER: Duration = Duration::from_secs(3_600);
/// Short enough that a wait for a second endpoint ends before a standstill counts as one.
const LONE_VOICE_AFTER: Duration = Duration::from_secs(30);
/// The number of wasted calls for each call under [`Bug::WastedCalls`].
const WASTED: usize = 25;

/// The endpoints of a plan, each with what is wrong with it.
pub(super) fn views(local: &LocalChain, seed: u64, plan: &Plan) -> Vec<LocalView> {
    let steady = plan.steady;
    let view = |at: usize| {
        let view = local.view(at, seed ^ at as u64);
        let set = |method: &str, value: Value| {
            let set = view.call(&format!("devchain_{method}"), &json!([value]));
            debug_assert!(set.is_ok(), "{method}: {set:?}");
        };
        if steady.errors > 0.0 {
            let fault = Fault::Http { status: 503, retry_after_s: None };
            view.fail(FaultRule::sometimes("*", steady.errors, fault));
        }
        set("rateLimit", json!(steady.quota));
        set("setReceipts", json!(steady.receipts_kept));
        match steady.lie.filter(|_| at == SECOND) {
            Some(Lie::Lags(blocks)) => set("setLag", json!(blocks)),
            Some(Lie::PrunesReceipts(blocks)) => set("setReceipts", json!(blocks)),
            Some(Lie::LacksReceipts(one_in)) => set("lackReceipts", json!(one_in)),
            Some(Lie::FlipsReceipts(one_in)) => set("flipReceipts", json!(one_in)),
            Some(Lie::LacksBlocks(one_in)) => set("lackBlocks", json!(one_in)),
            Some(Lie::Estimates(gas)) => set("setEstimate", json!(gas)),
            Some(Lie::HeadAhead(blocks)) => set("setHeadAhead", json!(blocks)),
            Some(Lie::PendingCounts(offset)) => set("setPendingOffset", json!(offset)),
            Some(Lie::Counts(offset)) => set("setNonceOffset", json!(offset)),
            Some(Lie::Fees(factor)) => set("setFeeFactor", json!(factor)),
            Some(Lie::TagsAtHead) => set("setTagsAtHead", json!(true)),
            Some(Lie::Together) => {
                set("setHeadAhead", json!(AHEAD));
                set("setTagsAtHead", json!(true));
                set("setNonceOffset", json!(TOO_MANY));
                set("setFeeFactor", json!(TOO_DEAR));
            }
            Some(Lie::IsSilent) => set("goSilent", json!(true)),
            Some(Lie::Balancer(lag)) => set("setBalancer", json!(lag)),
            // These two are in the endpoint's pool.
            Some(Lie::Swallows | Lie::TakesSmallOnesOnly) | None => {}
        }
        view
    };
    (0..plan.endpoints).map(view).collect()
}

/// A node's way to one endpoint.
struct Wire {
    world: Arc<World>,
    network: Arc<Network>,
    endpoint: usize,
}

fn failed(kind: RpcErrorKind, message: &str) -> RpcError {
    let message = message.to_owned();
    RpcError { kind, code: None, status: None, message, data: None, retry_after: None }
}

/// The hashes of what a request sends.
fn sent_in(body: &[u8]) -> Vec<TxHash> {
    const SEND: &str = "eth_sendRawTransaction";
    if !body.windows(SEND.len()).any(|word| word == SEND.as_bytes()) {
        return Vec::new();
    }
    let calls = match serde_json::from_slice(body) {
        Ok(Value::Array(calls)) => calls,
        Ok(call) => vec![call],
        Err(_) => Vec::new(),
    };
    let raw = |call: &Value| call["params"][0].as_str()?.parse::<Bytes>().ok();
    calls.iter().filter_map(raw).map(|raw| tollgate_model::keccak256(&raw)).collect()
}

#[async_trait]
impl Carrier for Wire {
    async fn carry(&self, body: Vec<u8>) -> Result<Carried, RpcError> {
        let travels = self.network.depart(Peer::Chain, "post").await;
        let travels = travels.map_err(|_| failed(RpcErrorKind::NoAnswer, "the network"))?;
        let (reply, replied) = oneshot::channel();
        let (world, endpoint, name) =
            (self.world.clone(), self.endpoint, self.network.name.clone());
        let sends = sent_in(&body);
        let untold = !sends.is_empty() && self.world.strikes(|faults| faults.lose_send);
        // The request arrives even if the node dies.
        tokio::spawn(async move {
            sleep(travels).await;
            let answer = world.chain.views[endpoint].post(&body).await;
            for hash in &sends {
                world.reached(&name, *hash, endpoint);
            }
            let _ = reply.send(answer);
        });
        let answer = replied.await.unwrap_or(LocalAnswer::Closed);
        if untold {
            self.network.arrive_lost("post").await;
            return Err(failed(RpcErrorKind::NoAnswer, "the answer was lost"));
        }
        match answer {
            LocalAnswer::Said { status, retry_after_s, body } => {
                self.network.arrive("post").await;
                let retry_after = retry_after_s.map(Duration::from_secs);
                Ok(Carried { status, retry_after, body: body.into_bytes() })
            }
            LocalAnswer::Closed => Err(failed(RpcErrorKind::NoAnswer, "closed")),
            LocalAnswer::Silence => std::future::pending().await,
        }
    }
}

/// A node's client.
pub(crate) struct ClientChain {
    world: Arc<World>,
    network: Arc<Network>,
    client: OnceCell<EvmChain>,
    /// A client of the second endpoint alone, for planted bugs.
    one_voice: OnceCell<EvmChain>,
}

impl ClientChain {
    pub(crate) fn new(world: Arc<World>, network: Arc<Network>) -> Self {
        Self { world, network, client: OnceCell::new(), one_voice: OnceCell::new() }
    }

    async fn connect(&self, endpoints: &[usize]) -> EvmChain {
        let waits = self.world.has(Bug::SilenceAwaited);
        let limit = |usual: u64| if waits { FOR_EVER } else { Duration::from_secs(usual) };
        loop {
            let endpoint = |(at, role): (usize, Role)| EndpointConfig {
                timeout: limit(3),
                role,
                carrier: Some(Arc::new(Wire {
                    world: self.world.clone(),
                    network: self.network.clone(),
                    endpoint: at,
                })),
                ..EndpointConfig::new(format!("http://e{at}"))
            };
            let private = self.world.plan.private.then_some((MAIN_POOL, Role::Private));
            let roles = endpoints.iter().map(|at| (*at, Role::Full)).chain(private);
            let config = ChainConfig {
                chain_id: Some(self.world.chain_id()),
                read_deadline: limit(6),
                send_deadline: limit(6),
                single_source_after: LONE_VOICE_AFTER,
                ..ChainConfig::new(roles.map(endpoint).collect())
            };
            match EvmChain::connect(config).await {
                Ok(client) => {
                    // One waits for the first head and the others for that one: several that wait
                    // for one channel wake up in an order that no seed decides.
                    while client.head_after(None).await.is_err() {
                        sleep(CONNECT_PAUSE).await;
                    }
                    return client;
                }
                Err(error) => {
                    self.world.note(format_args!("{} connects: {error}", self.network.name));
                }
            }
            sleep(CONNECT_PAUSE).await;
        }
    }

    /// The client, or one that believes a single endpoint if one of these bugs is planted.
    async fn client_unless(&self, bugs: &[Bug]) -> &EvmChain {
        if bugs.iter().any(|bug| self.world.has(*bug)) {
            return self.one_voice.get_or_init(|| self.connect(&[SECOND])).await;
        }
        self.client().await
    }

    async fn client(&self) -> &EvmChain {
        let all: Vec<usize> = match self.world.has(Bug::OneVoiceInAll) {
            true => vec![SECOND],
            false => (0..self.world.plan.endpoints).collect(),
        };
        let client = self.client.get_or_init(|| self.connect(&all)).await;
        if self.world.has(Bug::WastedCalls) {
            for _ in 0..WASTED {
                let _ = client.block(BlockTag::Latest).await;
            }
        }
        client
    }

    /// Delivers an answer once the node runs.
    async fn heard<T>(&self, what: &'static str, answer: T) -> T {
        self.network.until_running().await;
        self.world.note(format_args!("{} {what}", self.network.name));
        answer
    }
}

/// Implements the chain port: the listed methods call the client, or the one that believes a single
/// endpoint if the bug is planted; the written ones follow.
macro_rules! through_client {
    (
        $($name:ident($($arg:ident: $type:ty),*) -> $answer:ty $(, unless $bug:ident)?;)*
        ---
        $($written:tt)*
    ) => {
        #[async_trait]
        impl Chain for ClientChain {
            $(async fn $name(&self, $($arg: $type),*) -> $answer {
                let client = self.client_unless(&[$(Bug::$bug)?]).await;
                let answer = client.$name($($arg),*).await;
                self.heard(stringify!($name), answer).await
            })*

            $($written)*
        }
    };
}

through_client! {
    receipts(block: &BlockRef, of: &[TxHash]) -> BlockReceipts, unless OneVoiceReceipts;
    receipt_support(receipts: &[TxReceipt]) -> Vec<ReceiptSupport>;
    revert_reason(of: &TxReceipt) -> Option<Text<2000>>;
    receipt(of: TxHash, route: Route) -> Result<Option<TxReceipt>, ChainUnavailable>, unless OneVoiceReceipts;
    sighting(of: TxHash, route: Route) -> Result<Option<TxLocation>, ChainUnavailable>;
    counts(of: Address) -> Result<AccountCounts, ChainUnavailable>, unless OneVoiceCounts;
    count_at(of: Address, block: u64) -> Result<PastCount, ChainUnavailable>;
    pools(of: Address, attempts: &[TxHash]) -> Vec<EndpointReport>;
    balance(of: Address) -> Result<Wei, ChainUnavailable>;
    funds(of: Address) -> Result<Vec<Funds>, ChainUnavailable>;
    fee_quote(speed: Speed) -> Result<FeeQuote, ChainUnavailable>, unless OneVoiceFees;
    ---
    fn chain_id(&self) -> ChainId {
        self.world.chain_id()
    }

    fn has_private_endpoints(&self) -> bool {
        self.world.plan.private
    }

    fn has_several_endpoints(&self) -> bool {
        !self.world.has(Bug::ReceiptsUnsupported) && self.world.plan.endpoints > 1
    }

    fn prove_count(&self, of: Address, lookback: u64) {
        if let Some(client) = self.client.get() {
            client.prove_count(of, lookback);
        }
    }

    async fn head_after(&self, known: Option<BlockRef>) -> Result<BlockRef, ChainUnavailable> {
        let head = self.client_unless(&[Bug::OneVoiceHeads]).await.head_after(known).await;
        let number = head.as_ref().ok().map(|head| head.number);
        self.world.note(format_args!("{} hears of head {number:?}", self.network.name));
        self.heard("head", head).await
    }

    async fn block(&self, tag: BlockTag) -> Result<Option<Block>, ChainUnavailable> {
        let client = match tag {
            BlockTag::Safe | BlockTag::Finalized => self.client_unless(&[Bug::OneVoiceTags]).await,
            BlockTag::Latest | BlockTag::Number(_) => self.client_unless(&[Bug::OneVoiceBlocks]).await,
        };
        let block = client.block(tag).await;
        let read = block.as_ref().map(|block| block.as_ref().map(|block| block.at.number));
        self.world.note(format_args!("{} reads block {tag:?}: {read:?}", self.network.name));
        self.heard("block", block).await
    }

    async fn search(&self, of: Address, slot: Nonce, attempts: &[TxHash]) -> SlotSearch {
        let client = self.client_unless(&[Bug::BalancerTrusted, Bug::OneVoiceReceipts]).await;
        let found = client.search(of, slot, attempts).await;
        self.world.note(format_args!("{} search {slot}: {:?}", self.network.name, found.looked));
        self.heard("search", found).await
    }

    async fn occupants(&self, of: Address, slots: &[Nonce], lookback: u64) -> OccupantSearch {
        let mut seen = self.client().await.occupants(of, slots, lookback).await;
        if self.world.has(Bug::BalancerTrusted) {
            seen.seen.clear();
            crate::planted::made_up(&self.world, slots, &mut seen.seen);
        }
        self.world.note(format_args!("{} occupants of {slots:?}: {seen:?}", self.network.name));
        self.heard("occupants", seen).await
    }

    fn limits(&self) -> ChainLimits {
        self.client.get().map(Chain::limits).unwrap_or_default()
    }

    async fn estimate_call(
        &self,
        call: &Call,
        route: Route,
    ) -> Result<CallEstimate, ChainUnavailable> {
        let client = self.client_unless(&[Bug::OneVoiceEstimates]).await;
        let trial = client.estimate_call(call, route).await;
        let trial = trial.map(|trial| crate::planted::guessed_gas(&self.world).unwrap_or(trial));
        self.heard("try", trial).await
    }

    async fn send(&self, raw: &Bytes, route: Route) -> SendAnswer {
        let mut answers = self.send_in_order(std::slice::from_ref(raw), route).await;
        let silent = || tollgate_testkit::chain_answers::answer(AnswerClass::Unknown);
        answers.pop().unwrap_or_else(silent)
    }

    async fn send_in_order(&self, raws: &[Bytes], route: Route) -> Vec<SendAnswer> {
        self.network.until_running().await;
        for raw in raws {
            self.world.leaves(&self.network.name, raw, route).await;
        }
        let client = self.client_unless(&[Bug::OneVoiceSends]).await;
        let answers = client.send_in_order(raws, route).await;
        let answers = self.heard("send", answers).await;
        for (at, raw) in raws.iter().enumerate() {
            let class = answers.get(at).map_or(AnswerClass::Unknown, |answer| answer.class);
            self.world.answered(&self.network.name, raw, class);
        }
        answers
    }
}
