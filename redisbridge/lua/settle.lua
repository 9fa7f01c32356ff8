-- Forgets messages that the broker has confirmed, wherever they are by now:
-- another bridge may have taken the shard over meanwhile. A message whose due
-- time is no longer the confirmed one is another message by now, and stays.
--
-- KEYS: 1 schedule, 2 claimed, 3 base key of the envelopes
-- ARGV: ID, due, promote at, part of the schedule; for each message
-- Returns the number of messages forgotten. O(log N) per message.
local settled = 0
for i = 1, #ARGV, 4 do
  local id = ARGV[i]
  local key = envelopes_key(KEYS[3], id)
  local stored = redis.call('HGET', key, id)
  if stored and struct.unpack('>I6', stored) == tonumber(ARGV[i + 1]) then
    redis.call('HDEL', key, id)
    if redis.call('ZREM', KEYS[2], id) == 0 then
      schedule_remove(KEYS[1], ARGV[i + 3], tonumber(ARGV[i + 2]), id)
    end
    settled = settled + 1
  end
end
return settled
