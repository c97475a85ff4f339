-- The genesis hash under which a chain is known.
select genesis from chain where chain_id = $1
