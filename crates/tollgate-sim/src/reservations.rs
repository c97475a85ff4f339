//! Callers that reserve nonces and send by themselves: some return theirs, some let it expire, most
//! send what they reported, and a few never do.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tollgate_engine::{ReserveError, Unserved};
use tollgate_model::port::Reservation;
use tollgate_model::rejected::RejectedSlot;
use tollgate_model::{Submitter, Text, TxHash};

use crate::chain::accounts;
use crate::world::World;

/// The time limit of a call.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause between two draws of a reservation.
const TURN: Duration = Duration::from_millis(500);
/// The most tries after the storm, if no nonce was reserved by then.
const LATE_TRIES_MAX: u32 = 40;
/// The most tries of a caller that has no clear answer.
const TRIES_MAX: u32 = 30;
/// The pause between two sends of a promised transaction.
const SEND_EVERY: Duration = Duration::from_secs(2);

/// Takes nonces while the storm lasts. If nobody was given one in its first half, a caller asks at
/// every turn until one is, also after the storm, and sends what it promises: no world in which
/// nonces may be reserved is without one.
pub(crate) async fn reserve(world: Arc<World>) {
    if !world.may_reserve() {
        return;
    }
    let due = Instant::now() + world.plan.storm / 2;
    let (mut has_reserved, mut late_tries) = (false, 0);
    while !world.is_calm() || (!has_reserved && late_tries < LATE_TRIES_MAX) {
        sleep(TURN).await;
        late_tries += u32::from(world.is_calm());
        let is_due = !has_reserved && Instant::now() >= due;
        let is_time = world.chance(world.plan.faults.reserve / 2.0) || is_due;
        let Some(node) = world.any_node().filter(|_| is_time) else { continue };
        let of = world.any_submitter();
        let hold = world.between(1_000, 8_000);
        let asked = timeout(PATIENCE, node.engine.reservations().reserve(of, Some(hold))).await;
        match asked.ok().filter(|_| !node.network.is_dead()) {
            Some(Ok(reservation)) => {
                has_reserved = true;
                world.checker.note_reservation();
                world.note(format_args!("reserved {of} {}", reservation.nonce));
                world.note_reserved(of, reservation.nonce);
                tokio::spawn(keep(world.clone(), of, reservation, is_due));
            }
            // A nonce may have been reserved without an answer: it comes back.
            Some(Err(ReserveError::Unserved(Unserved::Unavailable(_)))) | None => {
                comes_back(&world, of)
            }
            Some(Err(why)) => world.note(format_args!("no nonce of {of}: {why:?}")),
        }
    }
}

/// A nonce of this submitter is used by nobody, and comes back.
fn comes_back(world: &World, of: Submitter) {
    if world.plan.rejected_slot == RejectedSlot::Hold {
        world.excuse(of, "a nonce that comes back, and that nobody may fill");
    }
}

/// The caller's use of its nonce: give it back, let it expire, or send.
async fn keep(world: Arc<World>, of: Submitter, held: Reservation, sends: bool) {
    sleep(world.between(10, 4_000)).await;
    let fate = world.below(12);
    match fate {
        0..=5 if !sends => {
            comes_back(&world, of);
            // Half of them by themselves.
            if fate > 2 {
                give_back(&world, of, &held).await;
            }
        }
        // It is used, and the caller dies before it sends.
        6 if !sends => {
            world.excuse(of, "a caller uses a nonce and never sends");
            sign_and_tell(&world, of, &held).await;
        }
        _ => {
            let Some((hash, raw)) = sign_and_tell(&world, of, &held).await else {
                return comes_back(&world, of);
            };
            loop {
                let count = world.chain.lock().count(of.address);
                if count > held.nonce.get() && world.is_settled(&hash) {
                    return;
                }
                world.chain.submit(&raw, 0);
                sleep(SEND_EVERY).await;
            }
        }
    }
}

async fn give_back(world: &World, of: Submitter, held: &Reservation) {
    for _ in 0..TRIES_MAX {
        let Some(node) = world.any_node() else { continue };
        let reason = Text::lossy("not needed");
        let given = node.engine.reservations().recyclable(of, held.nonce, held.owner_token, reason);
        match timeout(PATIENCE, given).await {
            Ok(Ok(_) | Err(ReserveError::StaleToken)) => return,
            Ok(Err(_)) | Err(_) => sleep(world.between(100, 1_000)).await,
        }
    }
}

/// Signs, and says so before anything is sent. Nothing is sent without a yes.
async fn sign_and_tell(
    world: &World,
    of: Submitter,
    held: &Reservation,
) -> Option<(TxHash, tollgate_model::Bytes)> {
    let account = accounts().into_iter().find(|it| it.address == of.address)?;
    let tx = world.chain.outsiders_tx(&account, held.nonce.get(), world.below(1_000_000))?;
    for _ in 0..TRIES_MAX {
        let Some(node) = world.any_node() else {
            sleep(world.between(100, 600)).await;
            continue;
        };
        let used = node.engine.reservations().used(of, held.nonce, held.owner_token, tx.hash);
        let answer = timeout(PATIENCE, used).await;
        if node.network.is_dead() {
            continue;
        }
        match answer {
            Ok(Ok(_)) => {
                world.note(format_args!("used {of} {} {}", held.nonce, tx.hash));
                world.checker.note_outsider(tx.hash);
                world.note_used(of, held.nonce, tx.hash);
                return Some((tx.hash, tx.raw.clone()));
            }
            Ok(Err(ReserveError::StaleToken)) => return None,
            Ok(Err(_)) | Err(_) => sleep(world.between(100, 1_000)).await,
        }
    }
    world.excuse(of, "a caller does not know whether it has used its nonce");
    None
}
