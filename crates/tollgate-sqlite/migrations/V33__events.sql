-- Events. One row holds the events of one batch and is written in its transaction, without a number. After the
-- commit what is committed is numbered, in the order of visibility and without a gap. Nodes of the version before
-- write no events. Nothing was ever written into the table of the first version.
drop table outbox;
create table outbox (
  id integer primary key autoincrement,
  events integer not null check (events > 0),
  body blob not null,
  at integer not null,
  first_seq integer
) strict;
create index outbox_due on outbox (id) where first_seq is null;
create unique index outbox_numbered on outbox (first_seq) where first_seq is not null;

-- One row: the last number, and the last one that was removed.
create table event_counter (
  only_row integer primary key default 1 check (only_row = 1),
  last_seq integer not null,
  removed_through integer not null
) strict;
insert into event_counter (last_seq, removed_through) values (0, 0);
