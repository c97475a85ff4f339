-- Accounts that are opened or changed while nodes run. The key is a reference, never a key. A removed
-- account stays as a row, so that every node sees the removal.
create table account (
  chain_id bigint not null,
  submitter bytea not null check (length(submitter) = 20),
  key_ref text check (length(key_ref) <= 200),
  label text check (length(label) <= 100),
  "window" bigint check ("window" > 0),
  max_fee_per_gas bigint,
  max_tx_fee text,
  disabled boolean not null,
  removed boolean not null,
  revision bigint not null unique,
  changed_at timestamptz not null default clock_timestamp(),
  primary key (chain_id, submitter)
);

-- The number of the last change of any account. Its row lock puts the changes in the order of their
-- numbers: a reader that has seen one has seen all below it.
create table account_revision (value bigint not null);
insert into account_revision (value) values (0);
