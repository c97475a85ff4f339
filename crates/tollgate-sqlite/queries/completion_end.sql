-- The number of the last outcome of chain ?1; 0 before the first.
select coalesce((select seq
                   from tx_completion indexed by tx_completion_chain
                  where chain_id = ?1 order by seq desc limit 1), 0) as last_seq
