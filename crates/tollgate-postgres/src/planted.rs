//! Deliberate defects: each is a mistake that others made, and the suite must catch it.

use tollgate_model::port::StoreError;

use crate::PgStore;
use crate::db::Pools;
use crate::error::failed;
use crate::queries;

/// Which line to break.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PlantedBug {
    /// The check reads the statement's snapshot and holds nothing until the commit.
    ExistsGuard,
    /// There is no check.
    SkippedGuard,
    /// The takeover runs at REPEATABLE READ and reads the submitter's state in its own snapshot.
    RepeatableReadTakeover,
    /// The feed is numbered by a sequence, in the order of statements rather than of commits.
    PlainSequenceFeed,
}

impl PlantedBug {
    /// What a defect needs in the database.
    pub(crate) async fn prepare(self, pools: &Pools) -> Result<(), StoreError> {
        if self == Self::PlainSequenceFeed {
            let create = "select pg_advisory_lock(1); \
                          create sequence if not exists planted_feed; \
                          select pg_advisory_unlock(1)";
            pools.work().await?.batch_execute(create).await.map_err(failed)?;
        }
        Ok(())
    }
}

impl PgStore {
    pub(crate) const fn guard_sql(&self) -> &'static str {
        match self.planted {
            Some(PlantedBug::ExistsGuard) => EXISTS_GUARD,
            Some(PlantedBug::SkippedGuard) => SKIPPED_GUARD,
            Some(PlantedBug::RepeatableReadTakeover | PlantedBug::PlainSequenceFeed) | None => {
                queries::LEASE_GUARD
            }
        }
    }

    pub(crate) const fn completion_sql(&self) -> &'static str {
        match self.planted {
            Some(PlantedBug::PlainSequenceFeed) => PLAIN_SEQUENCE,
            Some(
                PlantedBug::ExistsGuard
                | PlantedBug::SkippedGuard
                | PlantedBug::RepeatableReadTakeover,
            )
            | None => queries::COMPLETION_INSERT,
        }
    }

    pub(crate) fn takes_over_in_one_snapshot(&self) -> bool {
        self.planted == Some(PlantedBug::RepeatableReadTakeover)
    }
}

const EXISTS_GUARD: &str = "
select u.place, clock_timestamp() as at
  from unnest($1::bigint[], $2::bytea[], $3::bigint[])
       with ordinality as u (chain_id, submitter, token, place)
 where exists (select 1 from submitter_lease l
                where l.chain_id = u.chain_id and l.submitter = u.submitter
                  and l.owner_node = $4 and l.fencing_token = u.token
                  and l.expires_at > clock_timestamp())";

const SKIPPED_GUARD: &str = "
select u.place, clock_timestamp() as at
  from unnest($1::bigint[], $2::bytea[], $3::bigint[])
       with ordinality as u (chain_id, submitter, token, place)
 where $4::text is not null";

const PLAIN_SEQUENCE: &str = "
insert into tx_completion (seq, tx_id, chain_id, submitter, request_id, state, tx_hash)
select nextval('planted_feed'), u.tx_id, u.chain_id, u.submitter, u.request_id, u.state, u.tx_hash
  from unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::text[], $5::smallint[], $6::bytea[])
       as u (tx_id, chain_id, submitter, request_id, state, tx_hash)";
