-- Makes submitters known; one that is known stays as it is: its cursor (I4), and its mode, which changes under the fence alone.
insert into submitter_cursor (chain_id, submitter, next_nonce, mode)
select u.chain_id, u.submitter, u.next_nonce, u.mode
  from unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::smallint[])
       as u (chain_id, submitter, next_nonce, mode)
 order by u.chain_id, u.submitter
on conflict (chain_id, submitter) do nothing
