-- The genesis hash that a chain was registered with.
select genesis from chain where chain_id = ?1
