-- Alerts, as in tollgate-postgres.
create table alert (
  alert_id blob primary key check (length(alert_id) = 16),
  kind text not null check (length(kind) between 1 and 50),
  subject text not null check (length(subject) <= 300),
  chain_id integer,
  submitter blob check (length(submitter) = 20),
  part text check (length(part) <= 200),
  level integer not null check (level between 1 and 3),
  detail text not null check (length(detail) <= 500),
  node text not null,
  raised_at integer not null,
  seen_at integer not null,
  resolved_at integer,
  times integer not null default 1
) strict, without rowid;
create unique index alert_open on alert (kind, subject) where resolved_at is null;
create index alert_newest on alert (raised_at desc, alert_id desc);
create index alert_newest_open on alert (raised_at desc, alert_id desc) where resolved_at is null;
create index alert_resolved on alert (resolved_at) where resolved_at is not null;
create table alert_notice (
  sink text not null check (length(sink) between 1 and 100),
  alert_id blob not null references alert on delete cascade,
  phase integer not null check (phase in (1, 2)),
  due_at integer not null,
  holder text,
  tries integer not null default 0,
  ended_at integer,
  is_delivered integer not null default 0 check (is_delivered in (0, 1)),
  last_error text check (length(last_error) <= 300),
  primary key (alert_id, sink, phase)
) strict, without rowid;
create index alert_notice_due on alert_notice (sink, due_at) where ended_at is null;
create table alert_sink (
  sink text primary key check (length(sink) between 1 and 100),
  minute_from integer not null,
  sent integer not null
) strict, without rowid;
create table alert_watch (
  only_row integer primary key check (only_row = 1),
  holder text,
  held_until integer
) strict;
insert into alert_watch (only_row) values (1);
