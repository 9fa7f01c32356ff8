-- Stores messages to be promoted in time, each unless its ID is parked already.
--
-- KEYS: 1 schedule, 2 state, 3 base key of the envelopes
-- ARGV: 1 wake channel, 2 shard, 3 number of lanes, then their TTLs in ms, longest
--       first, and then for each message its ID, a packed request, and its
--       envelope. The request is a byte (1 for a delay, 0 for Unix time), 6 bytes
--       with its milliseconds, 6 bytes with an instant in Unix ms that this clock
--       had not passed when the delay began to run, or 0 for now, and 2 bytes
--       with the slot of the envelope.
-- Returns this clock in Unix microseconds, and a string with a byte (1 parked,
-- 2 parked before, 3 overdue, 4 there is no room) and the due time, 6 bytes of
-- Unix ms, for each message.
-- O(log N) in the messages of the shard, per message.
local now, us = clock()
local now_up = math.ceil(us / 1000)
local last_lane = 3 + ARGV[3]
local most_wait = 500
local answers, n, earliest = {}, 0, nil
for i = last_lane + 1, #ARGV, 3 do
  local id = ARGV[i]
  local relative, due, began, slot = struct.unpack('>BI6I6I2', ARGV[i + 1])
  if relative == 1 then
    -- A call that waited for its turn is late by no more than it may be: the
    -- clock may have been set meanwhile.
    local from = now_up
    if began > 0 then from = math.max(math.min(from, began), from - most_wait) end
    due = due + from
  end
  local key, stored, status = KEYS[3] .. ':' .. slot, nil, 1
  if due <= now then
    stored = redis.call('HGET', key, id)
    status = 3
  else
    local new = redis.pcall('HSETNX', key, id, struct.pack('>I6I6', due, now) .. ARGV[i + 2])
    if new == 1 then
      local at, part = place(due, now, ARGV, 4, last_lane)
      schedule_add(KEYS[1], part, at, id)
      if not earliest or at < earliest then earliest = at end
    elseif new == 0 then
      stored = redis.call('HGET', key, id)
    elseif string.find(new.err, 'OOM', 1, true) then
      -- The first write meets this, or none. What is parked already needs none.
      stored = redis.call('HGET', key, id)
      status = 4
    else
      return new
    end
  end
  if stored then
    due = struct.unpack('>I6', stored)
    status = 2
  end
  n = n + 1
  answers[n] = struct.pack('>BI6', status, due)
end
if earliest then wake(KEYS[2], earliest, ARGV[1], ARGV[2]) end
return {us, table.concat(answers)}
