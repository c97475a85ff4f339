-- A row if the lease's time and the skew (?3) are over. BEGIN IMMEDIATE holds it still.
select 1 from submitter_lease
 where chain_id = ?1 and submitter = ?2 and expires_at + ?3 <= db_now()
