-- More time (?5) for its owner, only while the lease is still valid.
update submitter_lease
   set expires_at = db_now() + ?5, updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and owner_node = ?3 and fencing_token = ?4
   and expires_at > db_now()
