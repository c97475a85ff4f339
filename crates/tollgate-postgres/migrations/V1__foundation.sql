-- Chains that the nodes of this database work on. The genesis hash tells a chain from one that was
-- reset under the same id.
create table chain (
  chain_id bigint primary key check (chain_id > 0),
  genesis bytea not null check (length(genesis) = 32),
  registered_at timestamptz not null default clock_timestamp()
);

-- The words for the state codes, for people who look at rows. The code is the authority.
create table tx_state (
  code smallint primary key,
  state text not null,
  sub_state text
);
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

-- I1, I2. The token is part of a unique key, so that a takeover (which changes a key column)
-- conflicts with the writers' FOR KEY SHARE and a renewal (which changes none) does not. The index
-- must stay plain: partial, INCLUDE or non-unique ones don't make it a key. expires_at is never
-- indexed, so renewals stay HOT.
create table submitter_lease (
  chain_id bigint not null,
  submitter bytea not null check (length(submitter) = 20),
  owner_node text not null,
  fencing_token bigint not null check (fencing_token > 0),
  expires_at timestamptz not null,
  updated_at timestamptz not null default clock_timestamp(),
  primary key (chain_id, submitter),
  constraint submitter_lease_token_is_a_key unique (chain_id, submitter, fencing_token)
) with (fillfactor = 50);

-- The submitter's own row: the cursor, and whether it takes work.
create table submitter_cursor (
  chain_id bigint not null references chain,
  submitter bytea not null check (length(submitter) = 20),
  next_nonce bigint not null check (next_nonce >= 0),
  mode smallint not null check (mode in (1, 2)),
  status smallint not null default 1 check (status in (1, 2, 3)),
  status_reason text,
  updated_at timestamptz not null default clock_timestamp(),
  primary key (chain_id, submitter)
) with (fillfactor = 50);

-- Half-filled pages and no index on anything that changes on the way (state, version, schedule,
-- receipt): state changes stay HOT. finished_at changes once, and takes the row out of the index
-- of open work, so that finished rows cost nothing there.
create table managed_tx (
  tx_id uuid primary key,
  chain_id bigint not null,
  submitter bytea not null check (length(submitter) = 20),
  request_id text check (length(request_id) between 1 and 256),
  nonce bigint check (nonce >= 0),
  payload bytea not null,
  payload_digest bytea not null check (length(payload_digest) = 32),
  state smallint not null,
  version integer not null check (version > 0),
  fencing_token bigint not null,
  attempts smallint not null check (attempts >= 0),
  next_resubmit_at timestamptz,
  resubmits integer not null default 0,
  last_error text,
  mined_hash bytea,
  block_number bigint,
  block_hash bytea,
  gas_used bigint,
  succeeded boolean,
  revert_reason text,
  valid_until timestamptz,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz,
  constraint a_final_state_is_finished check ((state between 40 and 59) = (finished_at is not null)),
  constraint a_slot_until_failed check (nonce is not null or state < 20 or state between 50 and 59),
  constraint no_slot_while_queued check (nonce is null or state >= 20),
  constraint mined_has_a_receipt check (state <> 32 or block_hash is not null),
  constraint a_receipt_is_whole check (
    num_nulls(mined_hash, block_number, block_hash, gas_used, succeeded) in (0, 5))
) with (fillfactor = 50);
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
  tx_id uuid not null,
  number smallint not null check (number > 0),
  chain_id bigint not null,
  tx_hash bytea not null check (length(tx_hash) = 32),
  raw bytea not null,
  kind smallint not null check (kind between 1 and 5),
  gas_limit bigint not null,
  max_fee bigint not null,
  max_priority_fee bigint,
  created_at timestamptz not null default clock_timestamp(),
  primary key (tx_id, number)
);
create unique index tx_attempt_hash on tx_attempt (tx_hash, chain_id);

-- The audit trail: exactly one entry for each version of a row.
create table tx_history (
  tx_id uuid not null,
  version integer not null,
  at timestamptz not null default clock_timestamp(),
  node text not null,
  fencing_token bigint not null,
  event text not null,
  from_state smallint,
  to_state smallint not null,
  detail text,
  primary key (tx_id, version)
);

-- I10. Numbered from the counter, which is locked last in a batch: the order of seq is the order
-- of commits.
create table tx_completion (
  seq bigint primary key,
  tx_id uuid not null unique,
  chain_id bigint not null,
  submitter bytea not null,
  request_id text,
  state smallint not null check (state between 40 and 59),
  tx_hash bytea,
  at timestamptz not null default clock_timestamp()
);
create index tx_completion_failed on tx_completion (tx_id) where state >= 50;
create table completion_counter (
  only_row boolean primary key default true check (only_row),
  last_seq bigint not null
) with (fillfactor = 10);
insert into completion_counter (last_seq) values (0);

create table outbox (
  id bigint generated always as identity primary key,
  kind text not null,
  key text not null,
  tx_id uuid not null,
  body bytea not null,
  created_at timestamptz not null default clock_timestamp()
);

-- The confirmation list of a receipt, replaced as a whole: hashes from first_block on, 32 bytes
-- each.
create table confirmation (
  tx_id uuid primary key,
  first_block bigint not null,
  hashes bytea not null check (length(hashes) % 32 = 0),
  new_fork boolean not null,
  updated_at timestamptz not null default clock_timestamp()
);

-- Nonces in the hands of callers, and the pool of those that came back.
create table nonce_reservation (
  chain_id bigint not null,
  submitter bytea not null,
  nonce bigint not null check (nonce >= 0),
  state smallint not null check (state in (1, 2, 3)),
  owner_token uuid not null,
  deadline timestamptz not null,
  tx_hash bytea,
  reason text,
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  primary key (chain_id, submitter, nonce)
);
create index nonce_reservation_live on nonce_reservation (chain_id, submitter, nonce)
  where state <> 2;

create table node (
  node_id text primary key,
  advertise_url text not null,
  draining boolean not null,
  started_at timestamptz not null default clock_timestamp(),
  heartbeat_at timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

create table api_key (
  id uuid primary key,
  name text not null,
  key_hash bytea not null unique check (length(key_hash) = 32),
  roles text not null,
  submitters text,
  created_at timestamptz not null default clock_timestamp(),
  revoked_at timestamptz
);
