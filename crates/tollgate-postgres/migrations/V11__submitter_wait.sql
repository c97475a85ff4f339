-- Since when a submitter waits for something that is no transaction's own (a hole, a count that nothing
-- explains, a reserved nonce that nobody sends), so that a new owner is as patient as the one before it.
create table submitter_wait (
  chain_id bigint not null,
  submitter bytea not null check (length(submitter) = 20),
  kind smallint not null,
  nonce bigint not null check (nonce >= 0),
  since timestamptz not null,
  primary key (chain_id, submitter, kind, nonce)
);
