-- Events. One row holds the events of one batch and is written in its transaction, without a number and without
-- a lock. After the commit one node at a time numbers what is committed, under the lock of event_counter, so the
-- numbers are in the order of visibility and have no gap. Nodes of the version before write no events.
-- Nothing was ever written into the table of the first version.
drop table outbox;
create table outbox (
  id bigint generated always as identity primary key,
  events bigint not null check (events > 0),
  body bytea not null,
  at timestamptz not null default clock_timestamp(),
  first_seq bigint
);
create index outbox_due on outbox (id) where first_seq is null;
create unique index outbox_numbered on outbox (first_seq) where first_seq is not null;

-- One row: the last number, and the last one that was removed.
create table event_counter (
  only_row boolean primary key default true check (only_row),
  last_seq bigint not null,
  removed_through bigint not null
) with (fillfactor = 10);
insert into event_counter (last_seq, removed_through) values (0, 0);
