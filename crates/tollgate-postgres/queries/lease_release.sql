-- Lets leases go: nobody owns them, and the token has grown, so nothing in flight can commit (I2).
with held as (
  select l.chain_id, l.submitter
    from unnest($1::bigint[], $2::bytea[], $3::bigint[]) as u (chain_id, submitter, token)
    join submitter_lease l on l.chain_id = u.chain_id and l.submitter = u.submitter
   where l.owner_node = $4 and l.fencing_token = u.token
   order by l.chain_id, l.submitter
     for update of l
)
update submitter_lease l
   set owner_node = '', fencing_token = l.fencing_token + 1,
       expires_at = '-infinity', updated_at = clock_timestamp()
  from held
 where l.chain_id = held.chain_id and l.submitter = held.submitter
