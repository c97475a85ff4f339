//! Proves at every start, on the real table, that the fence would hold.

use tollgate_model::port::StoreError;
use uuid::Uuid;

use crate::db::{Pools, Tx};

/// Chain 0 does not exist, so the probe's row can't meet a real lease.
const PROBE_CHAIN: i64 = 0;

/// While one session holds a lease `FOR KEY SHARE`, a change of its token must wait and a renewal
/// must not. If either is otherwise, this database can't keep I2 (or I14), and nothing may start.
pub(crate) async fn run(pools: &Pools) -> Result<(), StoreError> {
    let mut probe = [0u8; 20];
    probe[..16].copy_from_slice(Uuid::new_v4().as_bytes());
    let probe: &[u8] = &probe;
    let insert = "insert into submitter_lease
                    (chain_id, submitter, owner_node, fencing_token, expires_at)
                  values ($1, $2, 'selftest', 1, clock_timestamp() + interval '1 minute')";
    pools.work().await?.send(insert, &[&PROBE_CHAIN, &probe]).await?;
    let verdict = examine(pools, probe).await;
    let delete = "delete from submitter_lease where chain_id = $1 and submitter = $2";
    pools.work().await?.send(delete, &[&PROBE_CHAIN, &probe]).await?;
    verdict
}

async fn examine(pools: &Pools, probe: &[u8]) -> Result<(), StoreError> {
    let writer = Tx::begin(pools.work().await?).await?;
    let guard =
        "select 1 from submitter_lease where chain_id = $1 and submitter = $2 for key share";
    writer.send(guard, &[&PROBE_CHAIN, &probe]).await?;

    let renewal = "update submitter_lease set expires_at = expires_at + interval '1 minute'
                    where chain_id = $1 and submitter = $2";
    let takeover = "update submitter_lease set fencing_token = fencing_token + 1
                     where chain_id = $1 and submitter = $2";
    let renewed = while_held(pools, renewal, probe).await?;
    let taken_over = while_held(pools, takeover, probe).await?;
    writer.rollback().await?;

    let problem = match (renewed, taken_over) {
        (true, false) => return Ok(()),
        (_, true) => {
            "a fencing token can change while a writer holds its lease: \
                      the unique key on (chain_id, submitter, fencing_token) is missing or not plain"
        }
        (false, false) => "a renewal waits for the writers of its lease",
    };
    Err(StoreError::Unsafe(format!("fence self-test failed: {problem}").into()))
}

/// True if a statement does not wait while another session holds the probe's lease.
async fn while_held(pools: &Pools, sql: &str, probe: &[u8]) -> Result<bool, StoreError> {
    let other = Tx::begin(pools.upkeep().await?).await?;
    other.batch_execute("set local lock_timeout = '100ms'").await?;
    let got_through = match other.send(sql, &[&PROBE_CHAIN, &probe]).await {
        Ok(_) => true,
        Err(error) if error.is_lock_timeout() => false,
        Err(error) => return Err(error.into()),
    };
    other.rollback().await?;
    Ok(got_through)
}
