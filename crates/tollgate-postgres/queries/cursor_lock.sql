-- Holds the cursors of a batch: slots of a submitter are opened by one transaction at a time (I3).
select u.place, c.next_nonce, c.status, c.mode
  from unnest($1::bigint[], $2::bytea[]) with ordinality as u (chain_id, submitter, place)
  join submitter_cursor c on c.chain_id = u.chain_id and c.submitter = u.submitter
 order by c.chain_id, c.submitter
   for no key update of c
