-- Stores messages to be promoted in time, each unless its ID is parked already.
--
-- KEYS: 1 schedule, 2 state, 3 base key of the envelopes
-- ARGV: 1 wake channel, 2 shard, 3 number of lanes, then their TTLs in ms, longest
--       first, and then for each message its ID, a packed request, and its
--       envelope. The request is a byte (1 for a delay, 0 for Unix time), 6 bytes
--       with its milliseconds, 6 bytes with an instant in Unix ms that this clock
--       had not passed when the delay began to run, or 0 for now, and the slot of
--       the envelope.
-- Returns this clock in Unix microseconds, and a string with a byte (1 parked,
-- 2 parked before, 3 overdue, 4 there is no room) and the due time, 6 bytes of
-- Unix ms, for each message.
-- O(log N) in the messages of the shard, per message.
local pack, read, sub = struct.pack, struct.unpack, string.sub -- quicker to find, in a loop
local now, us = clock()
local now_up = math.ceil(us / 1000)
local parked_at = pack('>I6', now)
local first_message = 4 + ARGV[3]
local ttls = {}
for i = 4, first_message - 1 do ttls[i] = tonumber(ARGV[i]) end
local most_wait = 500
local base = KEYS[3] .. ':'
local answers, n, earliest, notes, new, full = {}, 0, nil, {}, {}, false
for i = first_message, #ARGV, 3 do
  local id, request = ARGV[i], ARGV[i + 1]
  local relative, due, began = read('>BI6I6', request)
  if relative == 1 then
    -- A call that waited for its turn is late by no more than it may be: the
    -- clock may have been set meanwhile.
    local from = now_up
    if began > 0 then from = math.max(math.min(from, began), from - most_wait) end
    due = due + from
  end
  local key, packed, status = base .. sub(request, 14), pack('>I6', due), '\1'
  local stored = new[id] or redis.call('HGET', key, id)
  if stored then
    status, packed = '\2', sub(stored, 1, 6)
    if new[id] then new[#new + 1] = {n + 1} end -- which has to be stored first
  elseif due <= now then
    status = '\3'
  else
    local at, part = place(due, now, ttls, 4, first_message - 1)
    schedule_note(notes, part, at, id)
    if not earliest or at < earliest then earliest = at end
    new[id] = packed .. parked_at .. ARGV[i + 2]
    new[#new + 1] = {n + 1, key, id}
  end
  answers[n + 1], answers[n + 2] = status, packed
  n = n + 2
end
-- The schedule first: Redis may lose the end of this if it is killed while it writes
-- its append-only file. An entry without an envelope does no harm.
local ok, err = pcall(schedule_add, KEYS[1], notes)
if not ok then
  err = type(err) == 'table' and err or {err = tostring(err)}
  -- The first write meets this, or none. What is parked already needs none.
  if not string.find(err.err, 'OOM', 1, true) then return err end
  full = true
end
for _, one in ipairs(new) do
  if full then
    answers[one[1]] = '\4'
  elseif one[2] then
    redis.call('HSETNX', one[2], one[3], new[one[3]])
  end
end
if earliest and not full then wake(KEYS[2], earliest, ARGV[1], ARGV[2]) end
return {us, table.concat(answers)}
