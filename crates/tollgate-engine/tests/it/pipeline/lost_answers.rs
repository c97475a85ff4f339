//! The node took it, and its answer never came: the hash is known from before (I5), so nothing is
//! made twice and nothing is given up.

use super::support::{Pipeline, account, options};

everywhere! {
    an_answer_that_is_lost_after_the_node_took_it_makes_no_second_transaction,
    send_without_an_answer_is_found_in_its_block_by_hash,
}

async fn an_answer_that_is_lost_after_the_node_took_it_makes_no_second_transaction(
    pipeline: Pipeline,
) {
    lose_answers(pipeline, 3).await;
}

async fn send_without_an_answer_is_found_in_its_block_by_hash(pipeline: Pipeline) {
    lose_answers(pipeline, u32::MAX).await;
}

async fn lose_answers(pipeline: Pipeline, times: u32) {
    let endpoint = pipeline.chain.breakable().await;
    endpoint.change(|faults| faults.lost_sends = times);
    let engine = pipeline.node_over("a", options(), &[endpoint.url()]).await;
    let sent = pipeline.send(&engine, account(0), 0..12).await;
    pipeline.mine_until_final(&sent).await;
    pipeline.verify(account(0), &sent).await;
    pipeline.verify_never_stuck(&sent).await;
}
