-- Removes what is left of an old shard whose messages have all gone, in steps, and then closes
-- it: what a process of an earlier release writes there, as it does not know the frontier, fails
-- from then on.
--
-- KEYS: 1 schedule, 2 state, 3 claimed, 4 base key of the envelopes (lib.lua), 5 kept, 6 groups
-- ARGV: 1 most keys, or members of sets, to remove
-- Returns 1 once it is closed, and 0 if there is more to do. O(log N) for each of these.
if redis.call('HGET', KEYS[2], 'closed') then return 1 end
if tonumber(redis.call('HGET', KEYS[2], 'frontier') or 0) < all_slots then return 0 end
local most = tonumber(ARGV[1])

for _, part in ipairs(redis.call('SMEMBERS', KEYS[1])) do
  local key = part_key(KEYS[1], part)
  for _, bucket in ipairs(redis.call('ZRANGE', key, 0, most - 1)) do
    local ids = bucket_key(key, bucket)
    local some = redis.call('ZRANGE', ids, 0, most - 1)
    if #some > 0 then redis.call('ZREM', ids, unpack(some)) end
    most = most - #some - 1
    if redis.call('EXISTS', ids) == 0 then redis.call('ZREM', key, bucket) end
    if most <= 0 then return 0 end
  end
  redis.call('SREM', KEYS[1], part)
end
for _, set in ipairs({KEYS[3], KEYS[5]}) do
  local some = redis.call('ZRANGE', set, 0, most - 1)
  if #some > 0 then redis.call('ZREM', set, unpack(some)) end
  most = most - #some
  if most <= 0 then return 0 end
end
for _, entry in ipairs(redis.call('ZRANGE', KEYS[6], 0, most - 1)) do
  local length = struct.unpack('>I2', entry)
  redis.call('HDEL', group_key(KEYS[4], string.sub(entry, 3, 2 + length)), string.sub(entry, 3 + length))
  redis.call('ZREM', KEYS[6], entry)
  most = most - 1
end
if most <= 0 then return 0 end
redis.call('HSET', KEYS[2], 'closed', '1') -- before this would be called again with keys of another type
redis.call('DEL', counts_key(KEYS[1]), usage_key(KEYS[4]), KEYS[1], KEYS[3], KEYS[5])
for _, key in ipairs({KEYS[1], KEYS[3], KEYS[5]}) do redis.call('SET', key, 'moved to the next generation') end
return 1
