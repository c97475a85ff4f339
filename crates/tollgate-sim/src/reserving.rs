//! Callers that take nonces and send by themselves: some give theirs back, some say nothing, some
//! send what they promised and keep sending it, and a few never do.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tollgate_engine::ReserveError;
use tollgate_model::port::Reservation;
use tollgate_model::rejected::RejectedSlot;
use tollgate_model::{Submitter, Text, TxHash};

use crate::chain::accounts;
use crate::world::World;

/// How long a caller waits for a node.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a caller asks until it is certain.
const TRIES_MAX: u32 = 30;
/// How often a caller sends what it promised.
const SEND_EVERY: Duration = Duration::from_secs(2);

/// Takes nonces while the storm lasts.
pub(crate) async fn reserve(world: Arc<World>) {
    while !world.is_calm() {
        sleep(Duration::from_millis(500)).await;
        let is_time = world.chance(world.plan.faults.reserve / 2.0);
        let Some(node) = world.any_node().filter(|_| is_time && !world.is_strict()) else {
            continue;
        };
        let submitters = world.submitters();
        let of = submitters[world.below(submitters.len() as u64) as usize];
        let hold = world.between(1_000, 8_000);
        let asked = timeout(PATIENCE, node.engine.reserve(of, Some(hold))).await;
        if let (Ok(Ok(reservation)), false) = (asked, node.line.is_dead()) {
            world.note(format_args!("reserved {of} {}", reservation.nonce));
            world.note_reserved(of, reservation.nonce);
            if world.plan.rejected_slot == RejectedSlot::Hold {
                world.excuse(of, "a nonce that comes back, and that nobody may fill");
            }
            tokio::spawn(keep(world.clone(), of, reservation));
        }
    }
}

/// What a caller does with its nonce.
async fn keep(world: Arc<World>, of: Submitter, held: Reservation) {
    sleep(world.between(10, 4_000)).await;
    match world.below(12) {
        // It comes back by itself.
        0..=2 => {}
        3..=5 => give_back(&world, of, &held).await,
        // It is used, and the caller dies before it sends.
        6 => {
            world.excuse(of, "a caller uses a nonce and never sends");
            sign_and_tell(&world, of, &held).await;
        }
        _ => {
            let Some((hash, raw)) = sign_and_tell(&world, of, &held).await else { return };
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
        let given = node.engine.reservation_recyclable(of, held.nonce, held.owner_token, reason);
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
        let used = node.engine.reservation_used(of, held.nonce, held.owner_token, tx.hash);
        let answer = timeout(PATIENCE, used).await;
        if node.line.is_dead() {
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
