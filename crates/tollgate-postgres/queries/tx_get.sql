-- One transaction.
select m.*, a.tx_hash as newest_hash, d.diagnosis
  from managed_tx m
  left join lateral (select t.tx_hash from tx_attempt t where t.tx_id = m.tx_id
                      order by t.number desc limit 1) as a on true
  left join tx_diagnosis d on d.tx_id = m.tx_id
 where m.tx_id = $1
