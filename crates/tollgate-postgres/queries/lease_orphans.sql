-- Submitters that have open work and no owner.
select c.chain_id, c.submitter
  from submitter_cursor c
  left join submitter_lease l on l.chain_id = c.chain_id and l.submitter = c.submitter
 where (l.expires_at is null or l.expires_at <= clock_timestamp())
   and exists (select 1 from managed_tx m
                where m.chain_id = c.chain_id and m.submitter = c.submitter
                  and m.finished_at is null)
 order by c.chain_id, c.submitter
 limit $1
