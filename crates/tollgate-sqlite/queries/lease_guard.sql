-- A row if the writer still holds the lease: the first read of every critical transaction (I1, I2).
select 1 from submitter_lease
 where chain_id = ?1 and submitter = ?2 and owner_node = ?3 and fencing_token = ?4
   and expires_at > db_now()
