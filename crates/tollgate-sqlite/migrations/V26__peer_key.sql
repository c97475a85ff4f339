-- The key with which a node signs its requests to other nodes: 32 random bytes of each start. A secret: whoever
-- has it can pose as that node. Null: a node of the version before, whose requests are not signed.
alter table node add column peer_key blob check (length(peer_key) = 32);
