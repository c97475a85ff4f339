-- Finished transactions of ten accounts that no node has keys for, with all that goes with them.
set synchronous_commit = off;
insert into submitter_cursor (chain_id, submitter, next_nonce, mode)
select chain_id, decode(lpad(to_hex(i), 40, '0'), 'hex'), {count}, 1 from chain, generate_series(0, 9) i;
insert into submitter_lease (chain_id, submitter, owner_node, fencing_token, expires_at)
select chain_id, decode(lpad(to_hex(i), 40, '0'), 'hex'), '', 7, '-infinity' from chain, generate_series(0, 9) i;
create temporary table filled as
select chain_id, i, (lpad(to_hex(i), 12, '0') || '70008000000000000000')::uuid as id,
       decode(lpad(to_hex(i % 10), 40, '0'), 'hex') as account, sha256(i::text::bytea) as hash
  from chain, generate_series(1, {count}) i;
insert into managed_tx (tx_id, chain_id, submitter, request_id, nonce, payload, payload_digest, state, version,
                        fencing_token, attempts, mined_hash, block_number, block_hash, gas_used, succeeded,
                        finished_at)
select id, chain_id, account, 'filled-' || md5(i::text), i, decode(repeat('ab', 100), 'hex'), hash, 40, 4,
       7, 1, hash, 1, hash, 21000, true, clock_timestamp()
  from filled;
insert into tx_attempt (tx_id, number, chain_id, tx_hash, raw, kind, gas_limit, max_fee, max_priority_fee)
select id, 1, chain_id, hash, decode(repeat('ab', 110), 'hex'), 1, 21000, 1, 1 from filled;
insert into tx_history (tx_id, version, node, fencing_token, event, from_state, to_state)
select id, version, 'filled', 7, 'filled', null, 40 from filled, generate_series(1, 4) version;
insert into tx_completion (seq, tx_id, chain_id, submitter, request_id, state, tx_hash)
select i, id, chain_id, account, 'filled-' || md5(i::text), 40, hash from filled;
update completion_counter set last_seq = {count};
drop table filled;
reset synchronous_commit;
