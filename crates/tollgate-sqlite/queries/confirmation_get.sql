-- The confirmation list that was last stored for a transaction.
select first_block, hashes, new_fork from confirmation where tx_id = ?1
