-- Adds things that a submitter waits for.
insert into submitter_wait (chain_id, submitter, kind, nonce, since)
select $1, $2, u.kind, u.nonce, u.since
  from unnest($3::smallint[], $4::bigint[], $5::timestamptz[]) as u (kind, nonce, since)
