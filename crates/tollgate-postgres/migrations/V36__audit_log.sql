-- Who asked for a change, from where, and why. Entries are added before the change, and removed by age. Nodes of the
-- version before add none.
create table audit_log (
  number bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  key_id text check (length(key_id) = 12),
  author text not null check (length(author) <= 100),
  address text check (length(address) <= 60),
  action text not null check (length(action) between 1 and 50),
  subject text not null check (length(subject) <= 300),
  reason text check (length(reason) <= 500)
);
create index audit_log_at on audit_log (at);
