-- Who asked for a change, as in tollgate-postgres.
create table audit_log (
  number integer primary key autoincrement,
  at integer not null,
  key_id text check (length(key_id) = 12),
  author text not null check (length(author) <= 100),
  address text check (length(address) <= 60),
  action text not null check (length(action) between 1 and 50),
  subject text not null check (length(subject) <= 300),
  reason text check (length(reason) <= 500)
) strict;
create index audit_log_at on audit_log (at);
