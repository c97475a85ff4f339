-- A transaction as it is read: its row, the hash of its newest attempt, the last diagnosis, and what the
-- receipt of its block says. Subqueries rather than joins: the view stays flat inside of any query.
create view tx_record as
select managed_tx.*,
       (select a.tx_hash from tx_attempt a
         where a.tx_id = managed_tx.tx_id and a.number = managed_tx.attempts) as newest_hash,
       (select d.diagnosis from tx_diagnosis d where d.tx_id = managed_tx.tx_id) as diagnosis,
       (select r.transaction_index from tx_receipt r
         where r.tx_id = managed_tx.tx_id and r.block_hash = managed_tx.block_hash) as transaction_index,
       (select r.effective_gas_price from tx_receipt r
         where r.tx_id = managed_tx.tx_id and r.block_hash = managed_tx.block_hash)
         as effective_gas_price,
       (select r.l1_fee from tx_receipt r
         where r.tx_id = managed_tx.tx_id and r.block_hash = managed_tx.block_hash) as l1_fee,
       (select r.contract_address from tx_receipt r
         where r.tx_id = managed_tx.tx_id and r.block_hash = managed_tx.block_hash)
         as contract_address
  from managed_tx;
