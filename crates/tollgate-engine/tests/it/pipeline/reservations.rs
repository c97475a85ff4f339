//! Callers that send by themselves beside the engine, on real stores and chains.

use tollgate_engine::{Engine, EngineOptions, ReservationLimits};
use tollgate_model::Text;
use tollgate_model::port::{Reservation, ReservationState};

use super::support::{MODEST, Pipeline, account, options, signed_by_outsider};

everywhere! {
    transactions_and_reservations_side_by_side_leave_no_double_and_no_hole,
    a_pool_that_changed_behind_the_worker_is_read_again,
}

fn open() -> EngineOptions {
    EngineOptions { reservations: Some(ReservationLimits::default()), ..options() }
}

/// As a caller does it: told first, sent then.
async fn use_up(pipeline: &Pipeline, engine: &Engine, mine: Reservation, value: u64) {
    let of = mine.submitter;
    let tx = signed_by_outsider(of, mine.nonce, value, MODEST).await;
    engine.reservations().used(of, mine.nonce, mine.owner_token, tx.tx_hash).await.unwrap();
    pipeline.chain.send(&tx.raw).await;
}

async fn transactions_and_reservations_side_by_side_leave_no_double_and_no_hole(
    pipeline: Pipeline,
) {
    let engine = pipeline.node("a", open()).await;
    let from = account(0);
    let creates = async {
        let mut sent = Vec::new();
        for value in 0..20 {
            sent.extend(pipeline.send(&engine, from, [value]).await);
        }
        sent
    };
    let callers = async {
        let (mut paid, mut given_back) = (Vec::new(), 0);
        for value in 100..120 {
            let mine = engine.reservations().reserve(from, None).await.unwrap();
            if value % 3 == 0 {
                let why = Text::lossy("changed my mind");
                let (nonce, token) = (mine.nonce, mine.owner_token);
                engine.reservations().recyclable(from, nonce, token, why).await.unwrap();
                given_back += 1;
            } else {
                use_up(&pipeline, &engine, mine, value).await;
                paid.push(value);
            }
        }
        assert!(given_back > 0);
        paid
    };
    let (mut sent, mut paid) = tokio::join!(creates, callers);
    // Whatever came back last is filled by what comes next.
    sent.extend(pipeline.send(&engine, from, 50..52).await);
    pipeline.mine_until_final(&sent).await;
    let mined = pipeline.chain.mined(from.address).await;
    paid.extend(sent.iter().map(|sent| sent.value));
    assert!(mined.iter().map(|tx| tx.nonce).eq(0..paid.len() as u64), "{mined:?}");
    let mut values: Vec<_> = mined.iter().map(|tx| tx.value).collect();
    values.sort_unstable();
    paid.sort_unstable();
    assert_eq!(values, paid, "I3: each once");
    assert_eq!(pipeline.cursor(from).await, paid.len() as u64);
}

async fn a_pool_that_changed_behind_the_worker_is_read_again(pipeline: Pipeline) {
    let engine = pipeline.node("a", open()).await;
    let from = account(0);
    let mine = engine.reservations().reserve(from, None).await.unwrap();
    let back = engine
        .reservations()
        .recyclable(from, mine.nonce, mine.owner_token, Text::lossy("not needed"))
        .await;
    assert_eq!(back.unwrap().state, ReservationState::Recyclable);
    let of = pipeline.fixture.of(from);
    let spent = format!("update nonce_reservation set state = 2 where {of}");
    assert_eq!(pipeline.fixture.execute(&spent).await, Ok(1));
    let sent = pipeline.send(&engine, from, [7]).await.remove(0);
    assert_eq!(pipeline.record(sent.id).await.nonce.unwrap().get(), 1, "I3: 0 is not free");
}
