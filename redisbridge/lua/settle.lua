-- Forgets messages that the broker has confirmed, wherever they are by now:
-- another bridge may have taken the shard over meanwhile. A message whose due
-- time is no longer the confirmed one is another message by now, and stays.
--
-- KEYS: 1 schedule, 2 claimed, 3 base key of the envelopes
-- ARGV: ID, slot of its envelope, due, promote at, part of the schedule; for each
--       message
-- Returns the number of messages forgotten. O(log N) per message.
local most = 500 -- arguments that one call can bear, and more
local settled = 0
for first = 1, #ARGV, 5 * most do
  local last = math.min(first + 5 * most - 1, #ARGV)
  local ids, ours = {}, {}
  for i = first, last, 5 do ids[#ids + 1] = ARGV[i] end
  local claimed = redis.call('ZMSCORE', KEYS[2], unpack(ids))
  for n, id in ipairs(ids) do
    local i = first + 5 * (n - 1)
    local key, due, at = KEYS[3] .. ':' .. ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
    if claimed[n] and tonumber(claimed[n]) == at then
      ours[#ours + 1] = id
      settled = settled + redis.call('HDEL', key, id)
    else
      local stored = redis.call('HGET', key, id)
      if stored and struct.unpack('>I6', stored) == due then
        redis.call('HDEL', key, id)
        ours[#ours + 1] = id
        schedule_remove(KEYS[1], ARGV[i + 4], at, id)
        settled = settled + 1
      end
    end
  end
  if #ours > 0 then redis.call('ZREM', KEYS[2], unpack(ours)) end
end
return settled
