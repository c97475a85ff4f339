-- The transaction that a request made, if it made one (I7).
select tx_id, payload_digest from managed_tx
 where chain_id = ?1 and submitter = ?2 and request_id = ?3
