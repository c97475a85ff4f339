-- A page of one transaction's audit trail, oldest first, after version ?2.
select version, at, node, fencing_token, event, from_state, to_state, detail
  from tx_history where tx_id = ?1 and version > ?2 order by version limit ?3
