-- Says how much a shard has, and what is next. Writes nothing.
--
-- KEYS: 1 schedule, 2 state, 3 claimed, 4 base key of the envelopes (lib.lua), 5 kept
-- ARGV: 1 the instant that it is judged by in Unix ms, without which it is this clock's
-- Returns that instant, the owner or '', the number of claimed messages, when the
-- next message is due and since when the oldest one is overdue that the shard has, in Unix
-- ms or -1, and then part and number of messages of each part. O(log N) per part.
local now = tonumber(ARGV[1]) or clock()
local next_due, late

-- Returns whether it is one that is not overdue.
local function see(id)
  local stored = redis.call('HGET', envelopes_key(KEYS[4], id), id)
  if not stored or not is_waiting(stored) then return false end
  local due = struct.unpack('>I6', stored)
  if due > now then
    next_due = math.min(due, next_due or due)
    return true
  end
  late = math.min(due, late or due)
  return false
end

-- The first of a part that is not overdue may come behind others that are: so a few are
-- looked at.
local function see_part(key)
  for _, bucket in ipairs(redis.call('ZRANGE', key, 0, 1)) do
    for _, id in ipairs(redis.call('ZRANGE', bucket_key(key, bucket), 0, 7)) do
      if see(id) then return end -- and all others are due later
    end
  end
end

local counts = redis.call('HGETALL', counts_key(KEYS[1]))
for _, part in ipairs(redis.call('SMEMBERS', KEYS[1])) do see_part(part_key(KEYS[1], part)) end
for _, id in ipairs(redis.call('ZRANGE', KEYS[3], 0, 7)) do see(id) end
-- In a lane: kept until it is due, unless its ID is remembered for longer.
local late_parked = late
for _, id in ipairs(redis.call('ZRANGEBYSCORE', KEYS[5], now, '+inf', 'LIMIT', 0, 8)) do see(id) end
late = late_parked
local owner = redis.call('HGET', KEYS[2], 'owner')
return {now, owner or '', redis.call('ZCARD', KEYS[3]), next_due or -1, late or -1, unpack(counts)}
