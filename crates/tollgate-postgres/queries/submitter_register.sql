-- Makes submitters known; of one that is known only the mode changes (I4: never the cursor).
insert into submitter_cursor (chain_id, submitter, next_nonce, mode)
select u.chain_id, u.submitter, u.next_nonce, u.mode
  from unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::smallint[])
       as u (chain_id, submitter, next_nonce, mode)
 order by u.chain_id, u.submitter
on conflict (chain_id, submitter) do update
   set mode = excluded.mode, updated_at = clock_timestamp()
 where submitter_cursor.mode <> excluded.mode
