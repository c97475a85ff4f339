-- A new owner for a lease that was found expired in the same transaction: token + 1 (I4).
update submitter_lease
   set owner_node = ?3, fencing_token = fencing_token + 1, expires_at = db_now() + ?4,
       updated_at = db_now()
 where chain_id = ?1 and submitter = ?2
returning fencing_token
