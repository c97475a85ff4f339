-- The tables of tollgate-postgres, in SQLite's types: ids and hashes are BLOB, instants are INTEGER
-- microseconds since 1970, flags are 0 or 1. No default asks for the time: statements pass
-- db_now() themselves, so that the schema can be read by tools that don't know the function.

-- Chains that the nodes of this database work on. The genesis hash tells a chain from one that was
-- reset under the same id.
create table chain (
  chain_id integer primary key check (chain_id > 0),
  genesis blob not null check (length(genesis) = 32),
  registered_at integer not null
) strict;

-- The words for the state codes, for people who look at rows. The code is the authority.
create table tx_state (
  code integer primary key,
  state text not null,
  sub_state text
) strict;
insert into tx_state (code, state, sub_state) values
  (10, 'QUEUED', 'WAITING'), (11, 'QUEUED', 'HELD'),
  (20, 'ALLOCATED', 'UNSENT'), (21, 'ALLOCATED', 'UNKNOWN_SUBMIT_RESULT'),
  (30, 'TRACKING', 'PENDING'), (31, 'TRACKING', 'STALE'), (32, 'TRACKING', 'MINED'),
  (40, 'CONFIRMED', null),
  (50, 'FAILED_FINAL', 'REVERTED'), (51, 'FAILED_FINAL', 'CANCELLED'),
  (52, 'FAILED_FINAL', 'REJECTED'), (53, 'FAILED_FINAL', 'NONCE_TAKEN'),
  (60, 'STUCK', 'TIMED_OUT'), (61, 'STUCK', 'RESUBMITS_EXHAUSTED'), (62, 'STUCK', 'GREY_ZONE'),
  (63, 'STUCK', 'REJECTED'), (64, 'STUCK', 'EXPIRED'), (65, 'STUCK', 'INSUFFICIENT_FUNDS'),
  (66, 'STUCK', 'FEE_CAP');

-- I1, I2. PostgreSQL needs the token in a unique key, for its row locks; here BEGIN IMMEDIATE is
-- the lock and the primary key is enough.
create table submitter_lease (
  chain_id integer not null,
  submitter blob not null check (length(submitter) = 20),
  owner_node text not null,
  fencing_token integer not null check (fencing_token > 0),
  expires_at integer not null,
  updated_at integer not null,
  primary key (chain_id, submitter)
) strict, without rowid;

-- The submitter's own row: the cursor, and whether it takes work.
create table submitter_cursor (
  chain_id integer not null references chain,
  submitter blob not null check (length(submitter) = 20),
  next_nonce integer not null check (next_nonce >= 0),
  mode integer not null check (mode in (1, 2)),
  status integer not null default 1 check (status in (1, 2, 3)),
  status_reason text,
  updated_at integer not null,
  primary key (chain_id, submitter)
) strict, without rowid;

-- No index on anything that changes on the way (state, version, schedule, receipt). finished_at
-- changes once, and takes the row out of the index of open work, so that finished rows cost
-- nothing there. With a rowid: payloads are too large to live in a key's tree.
create table managed_tx (
  tx_id blob not null primary key check (length(tx_id) = 16),
  chain_id integer not null,
  submitter blob not null check (length(submitter) = 20),
  request_id text check (length(request_id) between 1 and 256),
  nonce integer check (nonce >= 0),
  payload blob not null,
  payload_digest blob not null check (length(payload_digest) = 32),
  state integer not null,
  version integer not null check (version between 1 and 2147483647),
  fencing_token integer not null,
  attempts integer not null check (attempts between 0 and 32767),
  next_resubmit_at integer,
  resubmits integer not null default 0 check (resubmits between 0 and 2147483647),
  last_error text,
  mined_hash blob,
  block_number integer,
  block_hash blob,
  gas_used integer,
  succeeded integer check (succeeded in (0, 1)),
  revert_reason text,
  valid_until integer,
  created_at integer not null,
  updated_at integer not null,
  finished_at integer,
  constraint a_final_state_is_finished check ((state between 40 and 59) = (finished_at is not null)),
  constraint a_slot_until_failed check (nonce is not null or state < 20 or state between 50 and 59),
  constraint no_slot_while_queued check (nonce is null or state >= 20),
  constraint mined_has_a_receipt check (state <> 32 or block_hash is not null),
  constraint a_receipt_is_whole check (
    (mined_hash is null) + (block_number is null) + (block_hash is null) + (gas_used is null)
      + (succeeded is null) in (0, 5))
) strict;
-- I3: the second line. The first is the cursor's comparison under the fence.
create unique index managed_tx_slot on managed_tx (chain_id, submitter, nonce)
  where nonce is not null;
-- I7
create unique index managed_tx_request on managed_tx (chain_id, submitter, request_id)
  where request_id is not null;
create index managed_tx_submitter on managed_tx (chain_id, submitter, tx_id);
create index managed_tx_open on managed_tx (chain_id, submitter, tx_id) where finished_at is null;

-- I5. Insert-only: every signed form is kept, so whichever is mined is recognised.
create table tx_attempt (
  tx_id blob not null,
  number integer not null check (number between 1 and 32767),
  chain_id integer not null,
  tx_hash blob not null check (length(tx_hash) = 32),
  raw blob not null,
  kind integer not null check (kind between 1 and 5),
  gas_limit integer not null,
  max_fee integer not null,
  max_priority_fee integer,
  created_at integer not null,
  primary key (tx_id, number)
) strict;
create unique index tx_attempt_hash on tx_attempt (tx_hash, chain_id);

-- The audit trail: exactly one entry for each version of a row.
create table tx_history (
  tx_id blob not null,
  version integer not null,
  at integer not null,
  node text not null,
  fencing_token integer not null,
  event text not null,
  from_state integer,
  to_state integer not null,
  detail text,
  primary key (tx_id, version)
) strict, without rowid;

-- I10. Numbered from the counter inside the one write transaction there can be: the order of seq
-- is the order of commits, and a number that was rolled back is given out again.
create table tx_completion (
  seq integer primary key,
  tx_id blob not null unique,
  chain_id integer not null,
  submitter blob not null,
  request_id text,
  state integer not null check (state between 40 and 59),
  tx_hash blob,
  at integer not null
) strict;
create index tx_completion_failed on tx_completion (tx_id) where state >= 50;
create table completion_counter (
  only_row integer primary key default 1 check (only_row = 1),
  last_seq integer not null
) strict;
insert into completion_counter (last_seq) values (0);

-- AUTOINCREMENT: the number of a forgotten event is never given to another.
create table outbox (
  id integer primary key autoincrement,
  kind text not null,
  key text not null,
  tx_id blob not null,
  body blob not null,
  created_at integer not null
) strict;

-- The confirmation list of a receipt, replaced as a whole: hashes from first_block on, 32 bytes
-- each.
create table confirmation (
  tx_id blob not null primary key,
  first_block integer not null,
  hashes blob not null check (length(hashes) % 32 = 0),
  new_fork integer not null check (new_fork in (0, 1)),
  updated_at integer not null
) strict;

-- Nonces in the hands of callers, and the pool of those that came back.
create table nonce_reservation (
  chain_id integer not null,
  submitter blob not null,
  nonce integer not null check (nonce >= 0),
  state integer not null check (state in (1, 2, 3)),
  owner_token blob not null check (length(owner_token) = 16),
  deadline integer not null,
  tx_hash blob,
  reason text,
  created_at integer not null,
  updated_at integer not null,
  primary key (chain_id, submitter, nonce)
) strict, without rowid;
create index nonce_reservation_live on nonce_reservation (chain_id, submitter, nonce)
  where state <> 2;

create table node (
  node_id text not null primary key,
  advertise_url text not null,
  draining integer not null check (draining in (0, 1)),
  started_at integer not null,
  heartbeat_at integer not null
) strict, without rowid;

create table api_key (
  id blob not null primary key check (length(id) = 16),
  name text not null,
  key_hash blob not null unique check (length(key_hash) = 32),
  roles text not null,
  submitters text,
  created_at integer not null,
  revoked_at integer
) strict;
