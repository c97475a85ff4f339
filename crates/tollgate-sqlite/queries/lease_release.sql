-- Its owner lets go: nobody's, token + 1 so that nothing in flight can commit (I2), long expired.
update submitter_lease
   set owner_node = '', fencing_token = fencing_token + 1, expires_at = -4611686018427387904,
       updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and owner_node = ?3 and fencing_token = ?4
