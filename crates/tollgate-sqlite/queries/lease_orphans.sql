-- Submitters of chain ?1 with open work and no valid lease, at most ?2; finished rows are never looked at.
select c.chain_id, c.submitter
  from submitter_cursor c
 where c.chain_id = ?1
   and exists (
         select 1 from managed_tx t indexed by managed_tx_open
          where t.chain_id = c.chain_id and t.submitter = c.submitter and t.finished_at is null)
   and not exists (
         select 1 from submitter_lease l
          where l.chain_id = c.chain_id and l.submitter = c.submitter and l.expires_at > db_now())
 order by c.submitter
 limit ?2
