-- The attempts of one transaction, first to last.
select tx_id, number, tx_hash, raw, kind, gas_limit, max_fee, max_priority_fee, created_at
  from tx_attempt where tx_id = ?1 order by number
