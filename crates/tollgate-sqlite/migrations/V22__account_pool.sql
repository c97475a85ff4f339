-- Named sets of accounts, as in tollgate-postgres.
create table account_pool (
  chain_id integer not null,
  name text not null check (length(name) between 1 and 64),
  changed_at integer not null,
  primary key (chain_id, name)
) strict, without rowid;
create table account_pool_member (
  chain_id integer not null,
  name text not null,
  submitter blob not null check (length(submitter) = 20),
  primary key (chain_id, name, submitter),
  foreign key (chain_id, name) references account_pool on delete cascade,
  foreign key (chain_id, submitter) references submitter_cursor
) strict, without rowid;
create table pool_request (
  chain_id integer not null,
  pool text not null check (length(pool) between 1 and 64),
  request_id text not null check (length(request_id) between 1 and 256),
  submitter blob not null check (length(submitter) = 20),
  assigned_at integer not null,
  primary key (chain_id, pool, request_id)
) strict, without rowid;
