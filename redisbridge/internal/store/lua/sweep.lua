-- Takes out of their groups messages that do not wait any more. Those that still do, such as one that
-- was rescheduled, or that is late, are looked at again when they are due, or soon.
--
-- KEYS: 1 groups, 2 base key of the envelopes (lib.lua), 3 kept
-- ARGV: 1 how many to look at
-- Returns how many it has looked at. O(log N) in the messages of groups, per message.
local again_ms = 60000
local now = clock()
local entries = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1])
for _, entry in ipairs(entries) do
  local length = struct.unpack('>I2', entry)
  local group, key = string.sub(entry, 3, 2 + length), string.sub(entry, 3 + length)
  local stored = redis.call('HGET', envelopes_key(KEYS[2], key), key)
  local r = stored and read(stored)
  local waits = r and r.state == waiting and (r.due > now or not redis.call('ZSCORE', KEYS[3], key))
  if waits and r.digest == redis.call('HGET', group_key(KEYS[2], group), key) then
    redis.call('ZADD', KEYS[1], math.min(math.max(r.due, now + again_ms), now + look_ms), entry)
  else
    redis.call('HDEL', group_key(KEYS[2], group), key)
    redis.call('ZREM', KEYS[1], entry) -- the last: what is in it is found again
  end
end
return #entries
