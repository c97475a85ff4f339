-- The number of a chain's last outcome; 0 before the first.
select coalesce((select c.seq
                   from tx_completion c
                  where c.chain_id = $1
                  order by c.seq desc
                  limit 1), 0) as last_seq
