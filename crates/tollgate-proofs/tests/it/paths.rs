//! Single paths: step sequences that the model allows or forbids.

use stateright::Path;
use tollgate_proofs::Action::{
    Adopt, BumpToken, Commit, Crash, Draft, Expire, Guard, Load, LockLease, Mine, Renew, Send,
    Write,
};
use tollgate_proofs::{
    Action, Attempt, AttemptSet, Bounds, LeaseModel, Nonce, Protocol, Step, Token, TxId, World,
};

const FIRST: TxId = TxId(0);
const SECOND: TxId = TxId(1);

/// The state after a path, if each of its steps is possible.
fn state_after(protocol: Protocol, path: &[&[Action]]) -> Option<World> {
    let bounds = Bounds { tokens: 3, txs: 2, crashes: 1, lost_answers: 0, mining: true };
    let model = LeaseModel { protocol, second_line: true, bounds };
    Path::from_actions(&model, World::default(), &path.concat()).map(|path| *path.last_state())
}

const fn takes_over(node: usize) -> [Action; 4] {
    [LockLease(node), BumpToken(node), Commit(node), Load(node)]
}

const fn stores(node: usize, tx: TxId) -> [Action; 4] {
    [Draft(node, tx), Guard(node), Write(node), Commit(node)]
}

#[test]
fn paused_owner_is_fenced_and_the_next_owner_finishes_its_work() {
    let by_former_owner = Attempt { nonce: Nonce(0), tx: FIRST, signed_under: Token(1) };
    let by_new_owner = Attempt { nonce: Nonce(1), tx: SECOND, signed_under: Token(2) };
    let path: &[&[Action]] = &[
        &takes_over(0),
        &stores(0, FIRST),
        &[Send(0), Draft(0, SECOND), Expire],
        &takes_over(1),
        &[Send(1), Guard(0)],
        &stores(1, SECOND),
        &[Send(1), Mine(by_former_owner), Mine(by_new_owner)],
    ];
    let world = state_after(Protocol::AsBuilt, path).expect("the path is possible");

    assert_eq!(world.nodes[0].step, Step::Fenced);
    let mut both = AttemptSet::default();
    both.insert(by_former_owner);
    both.insert(by_new_owner);
    assert_eq!((world.rows, world.wire, world.mined), (both, both, both));
}

#[test]
fn takeover_waits_for_a_writer_that_holds_the_lease() {
    let path: &[&[Action]] =
        &[&takes_over(0), &[Draft(0, FIRST), Guard(0), Expire], &takes_over(1)];
    assert_eq!(state_after(Protocol::AsBuilt, path), None);
    assert!(state_after(Protocol::ExistsGuard, path).is_some());
}

#[test]
fn renewal_does_not_wait_for_a_writer() {
    let path: &[&[Action]] = &[&takes_over(0), &[Draft(0, FIRST), Guard(0), Expire, Renew(0)]];
    assert!(state_after(Protocol::AsBuilt, path).is_some());
}

#[test]
fn writer_waits_for_a_takeover_that_holds_the_lease() {
    let path: &[&[Action]] = &[&takes_over(0), &[Draft(0, FIRST), Expire, LockLease(1), Guard(0)]];
    assert_eq!(state_after(Protocol::AsBuilt, path), None);
}

#[test]
fn valid_lease_is_not_taken_over() {
    assert_eq!(state_after(Protocol::AsBuilt, &[&takes_over(0), &[LockLease(1)]]), None);
}

#[test]
fn restarted_node_does_not_adopt_its_former_lease() {
    let path: &[&[Action]] = &[&takes_over(0), &[Crash(0), Adopt(0)]];
    assert_eq!(state_after(Protocol::AsBuilt, path), None);
    assert!(state_after(Protocol::NoBootId, path).is_some());
}

#[test]
fn uncommitted_rows_are_invisible() {
    let path: &[&[Action]] = &[&takes_over(0), &[Draft(0, FIRST), Guard(0), Write(0)]];
    let world = state_after(Protocol::AsBuilt, path).expect("the path is possible");
    assert_eq!((world.rows, world.cursor), (AttemptSet::default(), Nonce(0)));
}

#[test]
fn chain_mines_each_slot_once_and_in_order() {
    let first = Attempt { nonce: Nonce(0), tx: FIRST, signed_under: Token(1) };
    let second = Attempt { nonce: Nonce(1), tx: SECOND, signed_under: Token(1) };
    let sent: &[Action] =
        &[&takes_over(0)[..], &stores(0, FIRST), &stores(0, SECOND), &[Send(0), Send(0)]].concat();
    assert!(state_after(Protocol::AsBuilt, &[sent, &[Mine(first), Mine(second)]]).is_some());
    assert_eq!(state_after(Protocol::AsBuilt, &[sent, &[Mine(second)]]), None);
    assert_eq!(state_after(Protocol::AsBuilt, &[sent, &[Mine(first), Mine(first)]]), None);
}
