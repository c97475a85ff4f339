-- Named sets of accounts. Nodes of the version before know none of them.
create table account_pool (
  chain_id bigint not null,
  name text collate "C" not null check (length(name) between 1 and 64),
  changed_at timestamptz not null default clock_timestamp(),
  primary key (chain_id, name)
);
create table account_pool_member (
  chain_id bigint not null,
  name text collate "C" not null,
  submitter bytea not null check (length(submitter) = 20),
  primary key (chain_id, name, submitter),
  foreign key (chain_id, name) references account_pool on delete cascade,
  foreign key (chain_id, submitter) references submitter_cursor
);
-- I7: the member that a request of a pool was assigned to, for ever: also when the pool has changed or is
-- gone. Written before the create is given to that member.
create table pool_request (
  chain_id bigint not null,
  pool text collate "C" not null check (length(pool) between 1 and 64),
  request_id text not null check (length(request_id) between 1 and 256),
  submitter bytea not null check (length(submitter) = 20),
  assigned_at timestamptz not null default clock_timestamp(),
  primary key (chain_id, pool, request_id)
);
