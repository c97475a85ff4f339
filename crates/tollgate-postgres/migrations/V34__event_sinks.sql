-- Receivers of events: how far each has got, and the node that delivers to it at present.
create table event_sink (
  name text primary key check (length(name) between 1 and 100),
  acknowledged bigint not null,
  token bigint not null,
  holder text not null,
  held_until timestamptz not null
);

-- Events that a receiver did not take. They outlive the log, so each holds its event.
create table event_dead_letter (
  sink text not null,
  seq bigint not null,
  body bytea not null,
  at timestamptz not null,
  attempts integer not null,
  last_error text not null,
  is_due boolean not null default false,
  buried_at timestamptz not null default clock_timestamp(),
  primary key (sink, seq)
);
create index event_dead_letter_due on event_dead_letter (sink, seq) where is_due;
