-- The confirmation list of one transaction.
select first_block, hashes, new_fork from confirmation where tx_id = $1
