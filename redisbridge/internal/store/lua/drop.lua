-- Forgets what was taken out of an old shard (take.lua), once it has arrived.
--
-- KEYS: 1 what is between the shards
-- ARGV: 1 its range
-- Returns 1, or 0 if that is gone, or another range by now. O(N) in its messages.
if redis.call('HGET', KEYS[1], 'range') ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
