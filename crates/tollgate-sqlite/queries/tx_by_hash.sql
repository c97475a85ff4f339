-- The transactions that an attempt belongs to: one on each chain that has it.
select tx_id from tx_attempt where tx_hash = ?1
