-- Stores one message to be promoted in time, unless its ID is parked already.
--
-- KEYS: 1 schedule, 2 state, 3 the hash of the ID's envelope, 4 base key of the
--       envelopes (lib.lua)
-- ARGV: 1 ID, 2 'in' or 'at', 3 milliseconds (a delay, or Unix time), 4 envelope,
--       5 wake channel, 6 shard, 7 an instant in Unix ms that this clock had not
--       passed when the delay began to run, or 0 for now, 8... TTLs of the lanes
--       in ms, longest first
-- Returns {1 parked | 2 parked before | 3 overdue, due in Unix ms, this clock in
-- Unix microseconds}
-- O(log N) in the messages of the shard.
local now, us = clock()
local before = redis.call('HGET', KEYS[3], ARGV[1])
if before then
  return {2, (struct.unpack('>I6', before)), us}
end
local due = tonumber(ARGV[3])
if ARGV[2] == 'in' then
  -- A call that waited for its turn is late by no more than it may be: the clock
  -- may have been set meanwhile.
  local most_wait = 500
  local from = math.ceil(us / 1000)
  if ARGV[7] ~= '0' then
    from = math.max(math.min(from, tonumber(ARGV[7])), from - most_wait)
  end
  due = due + from
end
if due <= now then
  return {3, due, us}
end
local at, part = math.max(due - ahead_ms, now), '0'
for i = 8, #ARGV do
  if tonumber(ARGV[i]) <= due - now then
    at, part = due - ARGV[i], ARGV[i]
    break
  end
end
redis.call('HSET', KEYS[3], ARGV[1], struct.pack('>I6I6', due, now) .. ARGV[4])
schedule_add(KEYS[1], part, at, ARGV[1])
wake(KEYS[2], at, ARGV[5], ARGV[6])
return {1, due, us}
