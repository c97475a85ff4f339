//! Mistakes that others made, as replacements of queries by name: the suite must notice each of them.

use tollgate_model::sql::Overrides;

/// PostgreSQL: the guard reads the statement's snapshot and locks nothing until the commit.
pub const EXISTS_GUARD: Overrides = &[(
    "lease_guard",
    "select u.place, clock_timestamp() as at
       from unnest($1::bigint[], $2::bytea[], $3::bigint[])
            with ordinality as u (chain_id, submitter, token, place)
      where exists (select 1 from submitter_lease l
                     where l.chain_id = u.chain_id and l.submitter = u.submitter
                       and l.owner_node = $4 and l.fencing_token = u.token
                       and l.expires_at > clock_timestamp())",
)];

/// PostgreSQL: the guard checks nothing.
pub const SKIPPED_GUARD: Overrides = &[(
    "lease_guard",
    "select u.place, clock_timestamp() as at
       from unnest($1::bigint[], $2::bytea[], $3::bigint[])
            with ordinality as u (chain_id, submitter, token, place)
      where $4::text is not null",
)];

/// PostgreSQL: a takeover reads the submitter in a snapshot from before it waited for the writers.
pub const REPEATABLE_READ: Overrides = &[("begin", "begin isolation level repeatable read")];

/// PostgreSQL: the feed is numbered by a sequence, in the order of statements rather than of commits. Needs
/// [`FEED_SEQUENCE`] in the database.
pub const PLAIN_SEQUENCE_FEED: Overrides = &[(
    "completion_insert",
    "insert into tx_completion (seq, tx_id, chain_id, submitter, request_id, state, tx_hash)
     select nextval('planted_feed'), u.tx_id, u.chain_id, u.submitter, u.request_id, u.state,
            u.tx_hash
       from unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::text[], $5::smallint[], $6::bytea[])
            as u (tx_id, chain_id, submitter, request_id, state, tx_hash)",
)];

/// The sequence of [`PLAIN_SEQUENCE_FEED`].
pub const FEED_SEQUENCE: &str = "create sequence planted_feed";

/// PostgreSQL: events are numbered by a sequence as they are written, one number for each batch. Needs
/// [`FEED_SEQUENCE`] in the database.
pub const PLAIN_SEQUENCE_EVENTS: Overrides = &[(
    "outbox_insert",
    "insert into outbox (events, body, first_seq) values ($1, $2, nextval('planted_feed'))",
)];

/// SQLite: the guard checks nothing.
pub const SQLITE_SKIPPED_GUARD: Overrides = &[("lease_guard", "select ?1, ?2, ?3, ?4")];

/// SQLite: transactions that write begin without the write lock.
pub const SQLITE_DEFERRED_BEGIN: Overrides = &[("begin", "begin deferred")];
