-- Alerts of all nodes. One of a kind is open for a subject at a time; a report of an open one is a change of its
-- row. Nodes of the version before write their alerts to the log alone.
create table alert (
  alert_id uuid primary key,
  kind text not null check (length(kind) between 1 and 50),
  -- The subject as one text: what is compared.
  subject text not null check (length(subject) <= 300),
  chain_id bigint,
  submitter bytea check (length(submitter) = 20),
  part text check (length(part) <= 200),
  level smallint not null check (level between 1 and 3),
  detail text not null check (length(detail) <= 500),
  node text not null,
  raised_at timestamptz not null default clock_timestamp(),
  seen_at timestamptz not null default clock_timestamp(),
  resolved_at timestamptz,
  times bigint not null default 1
) with (fillfactor = 50);
create unique index alert_open on alert (kind, subject) where resolved_at is null;
create index alert_newest on alert (raised_at desc, alert_id desc);
create index alert_newest_open on alert (raised_at desc, alert_id desc) where resolved_at is null;
create index alert_resolved on alert (resolved_at) where resolved_at is not null;

-- What a sink is told about an alert: phase 1, it was raised; phase 2, it was resolved.
create table alert_notice (
  sink text not null check (length(sink) between 1 and 100),
  alert_id uuid not null references alert on delete cascade,
  phase smallint not null check (phase in (1, 2)),
  due_at timestamptz not null default clock_timestamp(),
  -- The node that sends it at present.
  holder text,
  tries int not null default 0,
  -- Delivered, or given up.
  ended_at timestamptz,
  is_delivered boolean not null default false,
  last_error text check (length(last_error) <= 300),
  primary key (alert_id, sink, phase)
) with (fillfactor = 50);
create index alert_notice_due on alert_notice (sink, due_at) where ended_at is null;

-- One row for each sink: what was sent in the present minute, by all nodes. Its lock orders the claims.
create table alert_sink (
  sink text primary key check (length(sink) between 1 and 100),
  minute_from timestamptz not null,
  sent int not null
) with (fillfactor = 50);

-- One row: the node that looks after the alerts of all.
create table alert_watch (
  only_row boolean primary key default true check (only_row),
  holder text,
  held_until timestamptz
) with (fillfactor = 10);
insert into alert_watch default values;
