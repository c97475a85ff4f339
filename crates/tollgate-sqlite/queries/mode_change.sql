-- I12: a submitter's mode from ?3 to ?4, by comparison, while nothing of it is open and callers hold none of its nonces.
update submitter_cursor
   set mode = ?4, updated_at = db_now()
 where chain_id = ?1 and submitter = ?2 and mode = ?3
   and not exists (select 1 from managed_tx t indexed by managed_tx_open
                    where t.chain_id = ?1 and t.submitter = ?2 and t.finished_at is null)
   and not exists (select 1 from nonce_reservation r indexed by nonce_reservation_live
                    where r.chain_id = ?1 and r.submitter = ?2 and r.state = 1 and r.state <> 2)
