//! Single paths, told step by step: what the model allows and what it doesn't.

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

/// The world at the end of the story, if each of its steps can happen.
fn told(protocol: Protocol, story: &[&[Action]]) -> Option<World> {
    let bounds = Bounds { tokens: 3, txs: 2, crashes: 1, lost_answers: 0, mining: true };
    let model = LeaseModel { protocol, second_line: true, bounds };
    Path::from_actions(&model, World::new(), &story.concat()).map(|path| *path.last_state())
}

const fn takes_over(node: usize) -> [Action; 4] {
    [LockLease(node), BumpToken(node), Commit(node), Load(node)]
}

const fn stores(node: usize, tx: TxId) -> [Action; 4] {
    [Draft(node, tx), Guard(node), Write(node), Commit(node)]
}

#[test]
fn a_paused_owner_is_fenced_and_the_next_one_finishes_its_work() {
    let by_the_old = Attempt { nonce: Nonce(0), tx: FIRST, signed_under: Token(1) };
    let by_the_new = Attempt { nonce: Nonce(1), tx: SECOND, signed_under: Token(2) };
    let story: &[&[Action]] = &[
        &takes_over(0),
        &stores(0, FIRST),
        &[Send(0), Draft(0, SECOND), Expire],
        &takes_over(1),
        &[Send(1), Guard(0)],
        &stores(1, SECOND),
        &[Send(1), Mine(by_the_old), Mine(by_the_new)],
    ];
    let world = told(Protocol::AsBuilt, story).expect("a story the model can tell");

    assert_eq!(world.nodes[0].step, Step::Fenced);
    let mut both = AttemptSet::default();
    both.insert(by_the_old);
    both.insert(by_the_new);
    assert_eq!((world.rows, world.wire, world.mined), (both, both, both));
}

#[test]
fn a_takeover_waits_for_a_writer_that_holds_the_lease() {
    let story: &[&[Action]] =
        &[&takes_over(0), &[Draft(0, FIRST), Guard(0), Expire], &takes_over(1)];
    assert_eq!(told(Protocol::AsBuilt, story), None);
    assert!(told(Protocol::ExistsGuard, story).is_some());
}

#[test]
fn a_renewal_does_not_wait_for_a_writer() {
    let story: &[&[Action]] = &[&takes_over(0), &[Draft(0, FIRST), Guard(0), Expire, Renew(0)]];
    assert!(told(Protocol::AsBuilt, story).is_some());
}

#[test]
fn a_writer_waits_for_a_takeover_that_holds_the_lease() {
    let story: &[&[Action]] = &[&takes_over(0), &[Draft(0, FIRST), Expire, LockLease(1), Guard(0)]];
    assert_eq!(told(Protocol::AsBuilt, story), None);
}

#[test]
fn a_valid_lease_is_not_taken() {
    assert_eq!(told(Protocol::AsBuilt, &[&takes_over(0), &[LockLease(1)]]), None);
}

#[test]
fn a_restarted_node_is_a_stranger_to_its_own_lease() {
    let story: &[&[Action]] = &[&takes_over(0), &[Crash(0), Adopt(0)]];
    assert_eq!(told(Protocol::AsBuilt, story), None);
    assert!(told(Protocol::NoBootId, story).is_some());
}

#[test]
fn uncommitted_rows_are_seen_by_nobody() {
    let story: &[&[Action]] = &[&takes_over(0), &[Draft(0, FIRST), Guard(0), Write(0)]];
    let world = told(Protocol::AsBuilt, story).expect("a story the model can tell");
    assert_eq!((world.rows, world.cursor), (AttemptSet::default(), Nonce(0)));
}

#[test]
fn the_chain_mines_a_slot_once_and_in_order() {
    let first = Attempt { nonce: Nonce(0), tx: FIRST, signed_under: Token(1) };
    let second = Attempt { nonce: Nonce(1), tx: SECOND, signed_under: Token(1) };
    let sent: &[Action] =
        &[&takes_over(0)[..], &stores(0, FIRST), &stores(0, SECOND), &[Send(0), Send(0)]].concat();
    assert!(told(Protocol::AsBuilt, &[sent, &[Mine(first), Mine(second)]]).is_some());
    assert_eq!(told(Protocol::AsBuilt, &[sent, &[Mine(second)]]), None);
    assert_eq!(told(Protocol::AsBuilt, &[sent, &[Mine(first), Mine(first)]]), None);
}
