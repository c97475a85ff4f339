-- Receivers of events: how far each has got, and the node that delivers to it at present.
create table event_sink (
  name text primary key check (length(name) between 1 and 100),
  acknowledged integer not null,
  token integer not null,
  holder text not null,
  held_until integer not null
) strict, without rowid;

-- Events that a receiver did not take. They outlive the log, so each holds its event.
create table event_dead_letter (
  sink text not null,
  seq integer not null,
  body blob not null,
  at integer not null,
  attempts integer not null,
  last_error text not null,
  is_due integer not null default 0,
  buried_at integer not null,
  primary key (sink, seq)
) strict;
create index event_dead_letter_due on event_dead_letter (sink, seq) where is_due;
