//! The workload and the faults of a run: blocks, callers, outsiders, and what goes wrong.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tollgate_devchain::chain::{Beyond, DroppedTxs, GWEI, Rng};
use tollgate_engine::{CreateError, PoolError, Unserved};
use tollgate_model::{GasPrice, Intent, PrivateRoute, RequestId, Submitter, Timestamp, U256};

use crate::chain::{BLOCK_GAS, PAID, REVERTS, accounts};
use crate::checker::NO_NODE_TAKES_IT;
use crate::network::Peer;
use crate::node::Node;
use crate::plan::Lie;
use crate::planted;
use crate::world::{World, pool_name};

/// The time limit of a create.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// The interval at which faults are drawn.
const FAULT_INTERVAL: Duration = Duration::from_millis(500);

/// The time after which half of the private transactions are public.
const FALLBACK: Duration = Duration::from_secs(10);
/// The most by which a clock is wrong.
pub(crate) const CLOCK_JUMP_MAX: Duration = Duration::from_secs(30);

/// The difference between a seed and that of its accounts' past.
const PAST: u64 = 0x7061_7374;
/// Accounts have fewer transactions than this in their past.
const PAST_NONCES: u64 = 8;

/// Every so many intents have a `notBefore`. Numbers decide and nothing is drawn, so that all else of a seed stays.
const SCHEDULED_EACH: u64 = 9;

/// Every so many intents are for the pool of all accounts, in the same way.
const POOLED_EACH: u64 = 11;

/// Mines for ever.
pub(crate) async fn mine(world: Arc<World>) {
    loop {
        sleep(Duration::from_millis(world.plan.block_millis)).await;
        let (number, count) = world.chain.mine(world.millis());
        world.note(format_args!("block {number} with {count}"));
        world.check_chain();
    }
}

/// An intent that differs from all others by its value.
#[derive(Clone)]
struct PlannedCreate {
    submitter: Submitter,
    request: String,
    value: u64,
    intent: Intent,
    /// For the pool of all accounts: `submitter` means nothing.
    for_pool: bool,
}

fn draw_create(world: &World, number: u64) -> PlannedCreate {
    let submitter = world.any_submitter();
    // The values of two chains differ, so that one's request is never the other's.
    let value = 1_000 + number + 500_000 * (world.chain_id().get() % 2);
    let mut intent = Intent::transfer(PAID, U256::from(value));
    let takes_small_ones = world.plan.steady.lie == Some(Lie::TakesSmallOnesOnly);
    match world.below(13) {
        0 => (intent.to, intent.gas) = (Some(REVERTS), Some(60_000)),
        1 if world.plan.unwanted => {
            world.note_spoiler(submitter, value, NO_NODE_TAKES_IT);
            intent.gas = Some(BLOCK_GAS + 1);
        }
        // It waits until the market comes down.
        2 if world.plan.unwanted => {
            world.note_spoiler(submitter, value, "an offer below the market");
            intent.max_fee_per_gas = GasPrice::from_wei(u128::from(GWEI / 2)).ok();
        }
        3 => {
            let until = world.now().after(world.between(2_000, 40_000));
            intent.valid_until = Some(Timestamp::unix_micros(until));
        }
        4..=6 => intent.gas = Some(21_000),
        // More than an endpoint for small ones takes.
        7..=10 if takes_small_ones => intent.data = vec![1; 400].into(),
        7 => intent.data = vec![1; 400].into(),
        _ => {}
    }
    // Without a draw, which would change every seed.
    if world.plan.private && number.is_multiple_of(3) {
        let after = number.is_multiple_of(2).then_some(FALLBACK);
        intent.private = Some(PrivateRoute::with_fallback(after));
    }
    let for_pool = number % POOLED_EACH == 6;
    if for_pool {
        intent = Intent::transfer(PAID, U256::from(value));
    } else if number % SCHEDULED_EACH == 4 && intent.valid_until.is_none() {
        let start = world.now().after(Duration::from_millis(3_000 + number * 7_919 % 50_000));
        intent.not_before = Some(start.unix_micros());
        world.checker.note_scheduled(submitter, value, start);
    }
    PlannedCreate { submitter, request: format!("r{number}"), value, intent, for_pool }
}

/// All callers of a run; done when each has its answer.
pub(crate) async fn create_all(world: Arc<World>) {
    let mut callers = JoinSet::new();
    let storm = u64::try_from(world.plan.storm.as_millis()).unwrap_or(u64::MAX);
    for number in 0..world.plan.intents as u64 {
        let planned = draw_create(&world, number);
        let starts = world.between(0, storm * 3 / 4);
        let doubles =
            if world.strikes(|faults| faults.duplicates) { 1 + world.below(3) } else { 0 };
        for _ in 0..=doubles {
            let starts = starts + world.between(0, 20);
            callers.spawn(create_until_answered(world.clone(), planned.clone(), starts));
        }
        if world.chance(0.15) {
            // The same again, when the chain has moved on and the first has ended, or not.
            let later = starts + world.between(5_000, storm + 20_000);
            callers.spawn(create_until_answered(world.clone(), planned.clone(), later));
        }
        if world.chance(0.03) && !planned.for_pool {
            // The same name for another payment: one of them is refused.
            let value = planned.value + 100_000;
            world.note_as_spoiling(planned.submitter, planned.value, value);
            if let Some(start) = planned.intent.starts_at() {
                world.checker.note_scheduled(planned.submitter, value, start);
            }
            let intent = Intent { value: U256::from(value), ..planned.intent.clone() };
            let other = PlannedCreate { value, intent, ..planned };
            callers.spawn(create_until_answered(world.clone(), other, starts));
        }
    }
    while callers.join_next().await.is_some() {}
}

/// Repeats a create until there is an answer to it.
async fn create_until_answered(world: Arc<World>, planned: PlannedCreate, starts: Duration) {
    let PlannedCreate { mut submitter, request, value, intent, for_pool } = planned;
    let Ok(request_id) = RequestId::new(request.clone()) else { return };
    sleep(starts).await;
    loop {
        let Some(node) = world.any_node() else {
            sleep(world.between(100, 600)).await;
            continue;
        };
        if for_pool {
            match assign(&world, &node, &request_id, &intent).await {
                Some(Ok(member)) => submitter = member,
                // All members are paused or in PROTECT: the caller pays in another way.
                Some(Err(PoolError::NoMember { .. })) => return,
                Some(Err(_)) | None => {
                    sleep(world.between(100, 1_500)).await;
                    continue;
                }
            }
        }
        let was_answered = world.was_answered(submitter, &request, value);
        let (node, receiver) = planted::dispatched(&world, node, submitter);
        let asked = node.engine.create(receiver, Some(request_id.clone()), intent.clone());
        let answer = timeout(ANSWER_LIMIT, asked).await;
        if let Ok(Err(error)) = &answer {
            world.note(format_args!("{} refuses {request}: {error}", node.network.name));
        }
        // A crashed node gives no answers.
        match answer.ok().filter(|_| !node.network.is_dead()) {
            Some(Ok(created)) => {
                return world.create_answered(submitter, &request, value, created.tx_id()).await;
            }
            Some(Err(CreateError::RequestIdConflict(_))) => {
                return world.answered_conflict(submitter, &request, value);
            }
            Some(Err(error @ (CreateError::Expired | CreateError::Refused(_)))) if was_answered => {
                return world.refused_after_acceptance(submitter, &request, &error.to_string());
            }
            Some(Err(CreateError::Expired)) => return,
            // The chain would never take it, and the client knows.
            Some(Err(CreateError::Refused(_))) if intent.gas > Some(BLOCK_GAS) => return,
            Some(Err(CreateError::Unserved(Unserved::UnknownSubmitter)))
                if world.plan.keys_missing => {}
            Some(Err(
                CreateError::Unserved(
                    Unserved::NotOwner(_) | Unserved::Busy | Unserved::Unavailable(_),
                )
                | CreateError::Refused(_),
            ))
            | None => {}
            Some(Err(
                error @ (CreateError::Disabled
                | CreateError::NoPrivateEndpoint
                | CreateError::Invalid(_)
                | CreateError::BadSchedule(_)
                | CreateError::Authorization { .. }
                | CreateError::Unserved(Unserved::UnknownSubmitter)
                | CreateError::NonceMismatch { .. }),
            )) => return world.checker.fail(&world, "sim", error.to_string()),
        }
        sleep(world.between(100, 1_500)).await;
    }
}

/// The member of the pool that a node assigns to a request; `None` if there is no answer.
async fn assign(
    world: &World,
    node: &Node,
    request: &RequestId,
    intent: &Intent,
) -> Option<Result<Submitter, PoolError>> {
    let pool = pool_name().ok()?;
    let asked = node.engine.assign_member(&pool, Some(request), intent);
    let answer = timeout(ANSWER_LIMIT, asked).await.ok().filter(|_| !node.network.is_dead())?;
    match &answer {
        Ok(member) => world.note_assigned(request.shown(), *member),
        Err(error) => world.note(format_args!("{} not assigned: {error}", request.shown())),
    }
    Some(answer)
}

/// An outsider with the same key sends a transaction.
pub(crate) fn outsider(world: &World, of: Submitter, nonce: u64, mines: bool) {
    let Some(account) = accounts().into_iter().find(|it| it.address == of.address) else { return };
    let Some(tx) = world.chain.outsiders_tx(&account, nonce, world.below(1_000_000)) else {
        return;
    };
    world.checker.note_outsider(tx.hash);
    // What is mined at once leaves no hole, and pipelined submitters go on.
    if !mines || world.is_strict() {
        world.excuse(of, "an outsider");
    }
    world.note(format_args!("outsider {of} nonce {nonce} {}", tx.hash));
    if mines {
        world.chain.mine_exactly(tx, world.millis());
    } else {
        world.chain.submit(&tx.raw, 0);
    }
}

/// Outsiders have used pipelined submitters' accounts before the run, in half of the seeds and beside every
/// endpoint that lies about counts: only the endpoints tell where their nonces begin. A strict
/// submitter's nonces begin where its operator says.
pub(crate) fn use_accounts_before(world: &World, seed: u64) {
    // Numbers of its own: whoever draws from the world's sees the same with and without a past.
    let mut rng = Rng::new(seed ^ PAST);
    let lies_about_counts = matches!(world.plan.steady.lie, Some(Lie::Counts(_) | Lie::Together));
    if world.is_strict() || !lies_about_counts && rng.below(2) == 0 {
        return;
    }
    let mut txs = Vec::new();
    for account in accounts().into_iter().take(world.plan.submitters) {
        for nonce in 0..rng.below(PAST_NONCES) {
            txs.extend(world.chain.outsiders_tx(&account, nonce, rng.below(1_000_000)));
        }
    }
    txs.iter().for_each(|tx| world.checker.note_outsider(tx.hash));
    world.note(format_args!("{} transactions of outsiders before the run", txs.len()));
    world.chain.mine_past(txs);
}

/// Injects faults until the calm.
pub(crate) async fn inject_faults(world: Arc<World>) {
    let mut breaks_at = world.plan.faults.breaks_finality.then(|| 10 + world.below(30));
    while !world.is_calm() {
        sleep(FAULT_INTERVAL).await;
        if world.is_calm() {
            return;
        }
        inject_node_faults(&world);
        inject_chain_faults(&world);
        if let Some(left) = &mut breaks_at {
            *left = left.saturating_sub(1);
            if *left == 0 {
                breaks_at = None;
                let depth = world.plan.confirmations + 1 + world.below(3);
                world.note(format_args!("reorg of {depth}, beyond finality"));
                world.checker.note_broken_finality();
                world.chain.reorg(depth, fate(&world), 0, Beyond::Finalized);
            }
        }
    }
}

/// Draws an event with a rate per second for one interval.
fn happens(world: &World, rate: f64) -> bool {
    rate > 0.0 && world.chance(rate * FAULT_INTERVAL.as_secs_f64())
}

fn inject_node_faults(world: &World) {
    let faults = world.plan.faults;
    if happens(world, faults.blackout) {
        let length = world.between(3_000, 20_000);
        world.note(format_args!("nobody reaches the chain for {length:?}"));
        world.alive().iter().for_each(|node| node.network.cut(Peer::Chain, length));
    }
    let Some(node) = world.any_node() else { return };
    let name = &node.network.name;
    if happens(world, faults.pause) {
        let length = world.between(200, 12_000);
        world.note(format_args!("{name} is paused for {length:?}"));
        node.network.pause(length);
    }
    for (peer, rate) in [(Peer::Store, faults.cut_store), (Peer::Chain, faults.cut_chain)] {
        if happens(world, rate) {
            let length = world.between(500, 8_000);
            world.note(format_args!("{name} is cut off the {peer:?} for {length:?}"));
            node.network.cut(peer, length);
        }
    }
    if happens(world, faults.clock_jump) {
        let ahead = i64::try_from(world.below(60_000_000)).unwrap_or(0) - 30_000_000;
        world.note(format_args!("{name} clock {ahead}us ahead"));
        node.network.set_clock_ahead(ahead);
    }
    if happens(world, faults.restart) {
        world.note(format_args!("{name} is killed"));
        node.network.kill();
    }
}

fn fate(world: &World) -> DroppedTxs {
    match world.below(4) {
        0 => DroppedTxs::Kept,
        1 => DroppedTxs::Moved,
        2 => DroppedTxs::Returned,
        _ => DroppedTxs::Dropped,
    }
}

fn inject_chain_faults(world: &World) {
    let faults = world.plan.faults;
    if happens(world, faults.lag) {
        world.chain.set_lag(world.below(4));
    }
    if happens(world, faults.evict) {
        let gone = world.chain.evict(0.5);
        world.note(format_args!("evicted {gone:?}"));
    }
    if happens(world, faults.reorg) {
        let depth = 1 + world.below(world.plan.confirmations);
        let (fate, shorter) = (fate(world), world.below(2));
        let done = world.chain.reorg(depth, fate, shorter, Beyond::Nothing);
        world.note(format_args!("reorg of {depth} {fate:?} {done}"));
        world.check_chain();
    }
    if happens(world, faults.foreign) {
        let of = world.any_submitter();
        let nonce = world.chain.lock().count(of.address) + world.below(2);
        outsider(world, of, nonce, world.below(3) == 0);
    }
}
