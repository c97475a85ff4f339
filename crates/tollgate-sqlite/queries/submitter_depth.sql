-- A submitter's open transactions by state, and when the oldest of each was accepted.
select state, count(*), min(created_at)
  from managed_tx indexed by managed_tx_open
 where chain_id = ?1 and submitter = ?2 and finished_at is null
 group by state order by state
