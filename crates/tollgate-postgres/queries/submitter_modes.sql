-- The modes of submitters, by the place in the input.
select u.place, c.mode
  from unnest($1::bigint[], $2::bytea[]) with ordinality as u (chain_id, submitter, place)
  join submitter_cursor c on c.chain_id = u.chain_id and c.submitter = u.submitter
