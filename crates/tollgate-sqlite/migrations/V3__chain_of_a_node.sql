-- The chain that a node works on. Null: a node of the version before, which does not say. Such a node
-- is nobody's peer, because it can't be known what it would do with another chain's work.
alter table node add column chain_id integer check (chain_id > 0);

-- One chain's completions in order, without a walk over those of the other chains.
create index tx_completion_chain on tx_completion (chain_id, seq);
