//! The speed limit: rows of the same shape, with none of the safety.

use std::time::{Duration, Instant};

use tokio_postgres::NoTls;
use uuid::Uuid;

use super::jobs::Line;

const ROWS: usize = 500;

/// One insert statement of 500 rows per transaction into `managed_tx` alone.
pub(crate) async fn bare_inserts(url: &str, span: Duration) -> Line {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let insert = client
        .prepare(
            "insert into managed_tx (tx_id, chain_id, submitter, request_id, nonce, payload,
               payload_digest, state, version, fencing_token, attempts)
             select u.id, 1, decode(repeat('ee', 20), 'hex'), u.request, u.nonce,
               decode(repeat('ab', 300), 'hex'), sha256('x'), 20, 1, 1, 1
               from unnest($1::uuid[], $2::text[], $3::bigint[]) as u (id, request, nonce)",
        )
        .await
        .unwrap();
    let (start, mut batches, mut nonce) = (Instant::now(), 0u32, 0i64);
    while start.elapsed() < span {
        let ids: Vec<Uuid> = (0..ROWS).map(|_| Uuid::now_v7()).collect();
        let requests: Vec<String> = ids.iter().map(|id| id.simple().to_string()).collect();
        let nonces: Vec<i64> = (nonce..).take(ROWS).collect();
        client.execute(&insert, &[&ids, &requests, &nonces]).await.unwrap();
        nonce += ROWS as i64;
        batches += 1;
    }
    client.batch_execute("truncate managed_tx").await.unwrap();
    Line::new("ceiling: bare insert of 500".to_owned(), batches, ROWS, start.elapsed())
}
