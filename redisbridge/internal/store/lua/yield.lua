-- Gives the lease on a shard up, and wakes those who wait for it. What is still
-- claimed returns to the schedule when the next owner takes the shard.
--
-- KEYS: 1 state
-- ARGV: 1 bridge ID, 2 wake channel, 3 shard
-- Returns 1, or 0 if the shard has another owner. O(1).
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], 'owner', 'lease', 'asker')
redis.call('PUBLISH', ARGV[2], ARGV[3])
return 1
