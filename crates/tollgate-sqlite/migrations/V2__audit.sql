-- What was last found out about a transaction's place in the nodes' pools. A table of its own, as
-- in tollgate-postgres, where a new column of managed_tx would break what nodes have prepared.
create table tx_diagnosis (
  tx_id blob not null primary key check (length(tx_id) = 16),
  diagnosis text not null,
  updated_at integer not null
) strict, without rowid;

-- The audit trail of submitters: changes of status, and moves of the cursor that open no slot.
create table submitter_history (
  number integer primary key autoincrement,
  chain_id integer not null,
  submitter blob not null check (length(submitter) = 20),
  at integer not null,
  node text not null,
  fencing_token integer not null,
  event text not null,
  detail text
) strict;
create index submitter_history_of on submitter_history (chain_id, submitter, number);
