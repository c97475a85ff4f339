-- Accounts that are opened or changed while nodes run. The key is a reference, never a key. A removed
-- account stays as a row, so that every node sees the removal.
create table account (
  chain_id integer not null,
  submitter blob not null check (length(submitter) = 20),
  key_ref text check (length(key_ref) <= 200),
  label text check (length(label) <= 100),
  "window" integer check ("window" > 0),
  max_fee_per_gas integer,
  max_tx_fee text,
  disabled integer not null check (disabled in (0, 1)),
  removed integer not null check (removed in (0, 1)),
  revision integer not null unique,
  changed_at integer not null,
  primary key (chain_id, submitter)
) strict, without rowid;

-- The number of the last change of any account.
create table account_revision (value integer not null) strict;
insert into account_revision (value) values (0);
