-- Since when a submitter waits for something that is no transaction's own (a hole, a count that nothing
-- explains, a reserved nonce that nobody sends), so that a new owner is as patient as the one before it.
create table submitter_wait (
  chain_id integer not null,
  submitter blob not null check (length(submitter) = 20),
  kind integer not null,
  nonce integer not null check (nonce >= 0),
  since integer not null,
  primary key (chain_id, submitter, kind, nonce)
) strict, without rowid;
