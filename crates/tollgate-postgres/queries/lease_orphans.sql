-- Submitters of a chain that have open work and no owner. LATERAL: one look into the open work of those without an owner, and none into that of the others.
select c.chain_id, c.submitter
  from submitter_cursor c
  left join submitter_lease l on l.chain_id = c.chain_id and l.submitter = c.submitter
 cross join lateral (
   select 1
     from managed_tx m
    where m.chain_id = c.chain_id and m.submitter = c.submitter and m.finished_at is null
    limit 1
 ) as open_work
 where c.chain_id = $1 and (l.expires_at is null or l.expires_at <= clock_timestamp())
 order by c.submitter
 limit $2
