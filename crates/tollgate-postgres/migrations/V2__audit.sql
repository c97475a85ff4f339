-- What was last found out about a transaction's place in the nodes' pools. Not a column of
-- managed_tx: nodes of the version before have `select m.*` prepared, and a table that changes its
-- columns breaks what is prepared on it.
create table tx_diagnosis (
  tx_id uuid primary key,
  diagnosis text not null,
  updated_at timestamptz not null default clock_timestamp()
);

-- The audit trail of submitters: changes of status, and moves of the cursor that open no slot.
-- Numbered under the cursor's lock, so the numbers of one submitter ascend with its commits.
create table submitter_history (
  chain_id bigint not null,
  submitter bytea not null check (length(submitter) = 20),
  number bigint generated always as identity,
  at timestamptz not null default clock_timestamp(),
  node text not null,
  fencing_token bigint not null,
  event text not null,
  detail text,
  primary key (chain_id, submitter, number)
);
