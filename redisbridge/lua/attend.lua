-- Enters a bridge into the register, or renews its entry, and lists the bridges
-- alive. With a lifetime of 0 the bridge leaves. When the register changes, the
-- bridges are woken, to divide the shards anew.
--
-- KEYS: 1 bridges
-- ARGV: 1 bridge ID, 2 lifetime of an entry in ms, 3 wake channel
-- Returns the IDs, in no particular order. O(B) in the number of bridges.
local now = clock()
local changed = redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if ARGV[2] == '0' then
  changed = changed + redis.call('ZREM', KEYS[1], ARGV[1])
else
  changed = changed + redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
end
if changed > 0 then redis.call('PUBLISH', ARGV[3], 'bridges') end
return redis.call('ZRANGE', KEYS[1], 0, -1)
