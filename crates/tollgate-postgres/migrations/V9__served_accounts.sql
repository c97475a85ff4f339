-- Which accounts a node serves, as the digest of a set that is published once for all nodes that serve
-- the same ones. Null: a node of the version before, which does not say and counts as serving every
-- account.
alter table node add column serves bytea check (length(serves) = 32);

-- A set under its digest: 20 bytes for each account, in order. One row, because it is written and read
-- as a whole.
create table served_set (
  digest bytea primary key check (length(digest) = 32),
  accounts bytea not null check (length(accounts) % 20 = 0),
  published_at timestamptz not null default clock_timestamp()
);
