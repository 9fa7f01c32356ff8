-- Enters a bridge into the register, or renews its entry, leaves its report there, and
-- lists the bridges alive. With a lifetime of 0 the bridge leaves. When the register
-- changes, the bridges are woken, to divide the shards anew. A report goes with its
-- bridge's entry, and all of them with the last bridge.
--
-- KEYS: 1 bridges, 2 reports, 3 layout, 4 the last loss
-- ARGV: 1 bridge ID, 2 lifetime of an entry in ms, 3 wake channel, 4 report
-- Returns whether the bridge's entry was there, whether the layout is, the last loss or
-- '', and the IDs, in no particular order. O(B) in the number of bridges.
local now = clock()
local was_there = redis.call('ZSCORE', KEYS[1], ARGV[1]) and '1' or '0'
local gone = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now)
if ARGV[2] == '0' then gone[#gone + 1] = ARGV[1] end
local changed = 0
if #gone > 0 then
  changed = redis.call('ZREM', KEYS[1], unpack(gone))
  redis.call('HDEL', KEYS[2], unpack(gone))
end
if ARGV[2] ~= '0' then
  changed = changed + redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
  redis.call('HSET', KEYS[2], ARGV[1], string.format('%.0f ', now) .. ARGV[4])
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
if changed > 0 then redis.call('PUBLISH', ARGV[3], 'bridges') end
return {was_there, tostring(redis.call('EXISTS', KEYS[3])), redis.call('GET', KEYS[4]) or '', unpack(redis.call('ZRANGE', KEYS[1], 0, -1))}
