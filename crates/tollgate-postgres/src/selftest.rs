//! Proves at every start that sessions belong to this node and, on the real table, that the fence would
//! hold.

use deadpool_postgres::Connect as _;
use tokio_postgres::{Client, Config, SimpleQueryMessage};
use tollgate_model::port::StoreError;
use uuid::Uuid;

use crate::db::{Pools, Tx};
use crate::error::SqlError;
use crate::hosts::HostByHost;

/// The number of comparisons of two connections. A pooler with other clients may give both of them their
/// last session by chance.
const COMPARISONS: usize = 5;

/// Refuses a pooler that gives every transaction another session, such as PgBouncer with
/// `pool_mode = transaction`. Behind one, a node would lose what it sets for its sessions: the limits
/// that end an abandoned transaction, the pinned `synchronous_commit`, the migration lock.
///
/// Two connections set a variable and read it back. With a session each they read what they set. Uses
/// no prepared statements, which fail behind such a pooler with an error that names no cause.
pub(crate) async fn sessions_are_kept(
    config: &Config,
    hosts: &HostByHost,
) -> Result<(), StoreError> {
    let (first, _) = hosts.connect(config).await.map_err(SqlError::from)?;
    let (second, _) = hosts.connect(config).await.map_err(SqlError::from)?;
    for _ in 0..COMPARISONS {
        set_marker(&first, "first").await?;
        set_marker(&second, "second").await?;
        if marker(&first).await? != "first" || marker(&second).await? != "second" {
            return Err(StoreError::Unsafe(
                "the connections share sessions: a pooler between this node and the database runs \
                 in transaction or statement mode. Use its session mode (PgBouncer: pool_mode = \
                 session), or connect to the database itself"
                    .into(),
            ));
        }
    }
    Ok(())
}

async fn set_marker(client: &Client, name: &str) -> Result<(), SqlError> {
    Ok(client.batch_execute(&format!("set tollgate.session = '{name}'")).await?)
}

async fn marker(client: &Client) -> Result<String, SqlError> {
    let messages = client.simple_query("select current_setting('tollgate.session', true)").await?;
    let row = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(row.unwrap_or_default().to_owned())
}

/// Chain 0 does not exist, so the probe's row can't meet a real lease.
const PROBE_CHAIN: i64 = 0;

/// While one session holds a lease `FOR KEY SHARE`, a change of its token must wait and a renewal
/// must not. If either is otherwise, this database can't keep I2 (or I14), and nothing may start.
pub(crate) async fn fence_holds(pools: &Pools) -> Result<(), StoreError> {
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
