-- Moves cursors forward, never back (I4). Fewer rows than places: a cursor was not where it should be.
update submitter_cursor c
   set next_nonce = u.goes_to, updated_at = clock_timestamp()
  from unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[])
       as u (chain_id, submitter, comes_from, goes_to)
 where c.chain_id = u.chain_id and c.submitter = u.submitter
   and c.next_nonce = u.comes_from and u.goes_to >= u.comes_from
