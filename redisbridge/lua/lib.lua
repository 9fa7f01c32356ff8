-- Shared by every script; prepended to each.
--
-- A shard's schedule has two levels, which costs about a third of the memory of
-- one large sorted set: schedule is a sorted set of bucket numbers, and each
-- bucket a small sorted set of message IDs, scored by the milliseconds since
-- the bucket's start. Envelopes live in many small hashes by ID. The keys of
-- buckets and of these hashes depend on the server's clock and on what is due,
-- so they are derived here from a key that was passed, and share its hash tag.
local bucket_ms = 4000
local slots = 32768

-- A message that no lane suits is claimed so long before it is due, and waits
-- for the rest with the bridge. Go has the same number (route.go).
local ahead_ms = 50

-- The server's clock in ms, rounded down, and in microseconds.
local function clock()
  local t = redis.call('TIME')
  local us = t[1] * 1000000 + t[2]
  return math.floor(us / 1000), us
end

local function bucket_key(schedule, bucket)
  return schedule .. ':' .. string.format('%.0f', bucket)
end

-- Where id's envelope is. Go computes the same (keys.go).
local function envelopes_key(base, id)
  return base .. ':' .. tonumber(string.sub(redis.sha1hex(id), 1, 4), 16) % slots
end

local function schedule_add(schedule, at, id)
  local bucket = math.floor(at / bucket_ms)
  if redis.call('ZADD', bucket_key(schedule, bucket), at - bucket * bucket_ms, id) == 1 then
    redis.call('ZADD', schedule, bucket, string.format('%.0f', bucket))
  end
end

local function schedule_remove(schedule, at, id)
  local bucket = math.floor(at / bucket_ms)
  local key = bucket_key(schedule, bucket)
  if redis.call('ZREM', key, id) == 1 and redis.call('EXISTS', key) == 0 then
    redis.call('ZREM', schedule, string.format('%.0f', bucket))
  end
end

-- The instant of the first message, or nil.
local function schedule_head(schedule)
  while true do
    local bucket = redis.call('ZRANGE', schedule, 0, 0)[1]
    if not bucket then return nil end
    local first = redis.call('ZRANGE', bucket_key(schedule, bucket), 0, 0, 'WITHSCORES')
    if first[1] then return bucket * bucket_ms + first[2] end
    redis.call('ZREM', schedule, bucket)
  end
end

-- Wakes the sleeping bridges if one must act at the given instant, earlier than
-- the earliest for which they have set their alarm.
local function wake(state, at, channel, shard)
  local alarm = redis.call('HGET', state, 'alarm')
  if alarm and at < tonumber(alarm) then
    redis.call('HSET', state, 'alarm', string.format('%.0f', at))
    redis.call('PUBLISH', channel, shard)
  end
end
