-- Takes or keeps the lease on a shard, and claims the messages whose instant of
-- promotion has come, earliest first. A claimed message leaves the schedule for
-- the claimed set and keeps its envelope until it is settled.
--
-- Each answer carries a turn, which the next call passes back. A call with
-- another turn says that the caller has not heard the answer before, or wants
-- to begin anew: then all that is claimed returns to the schedule first, as it
-- does when the shard changes hands. So nothing stays claimed by nobody.
--
-- Messages are claimed in the order of their promotion, which is not that of
-- their due times where they were meant for lanes of different lengths. So one
-- that is overdue already returns to the schedule at its due time first, and a
-- backlog leaves in due order.
--
-- KEYS: 1 schedule, 2 state, 3 claimed, 4 base key of the envelopes
-- ARGV: 1 bridge ID, 2 'preferred' or 'standby', 3 lease in ms, 4 standby's
--       grace in ms, 5 turn, 6 most messages, 7 most bytes
-- Returns, with now in Unix microseconds, other instants in ms, and -1 for never:
--   {1 claimed, now, next promotion, turn, whether another bridge asks for the
--    shard, number claimed in all, ID, promote at, stored envelope, ...}
--   {2 held by another, now, end of its lease}
--   {3 idle: nothing for a standby to take over, now, next promotion}
-- O(log N) per message claimed.
local me, preferred = ARGV[1], ARGV[2] == 'preferred'
local lease, grace, turn = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local room, bytes = tonumber(ARGV[6]), tonumber(ARGV[7])
local now, us = clock()
local never = 9007199254740991

local function set_alarm(at)
  redis.call('HSET', KEYS[2], 'alarm', string.format('%.0f', at or never))
end

local function return_claimed()
  local all = redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES')
  for i = 1, #all, 2 do
    schedule_add(KEYS[1], tonumber(all[i + 1]), all[i])
  end
  redis.call('DEL', KEYS[3])
end

local state = redis.call('HMGET', KEYS[2], 'owner', 'lease', 'turn', 'asker')
local owner, ends = state[1], tonumber(state[2] or 0)
if owner ~= me then
  if owner and ends > now then
    if preferred then redis.call('HSET', KEYS[2], 'asker', me) end
    return {2, us, ends}
  end
  if not preferred then
    local head = schedule_head(KEYS[1])
    if redis.call('EXISTS', KEYS[3]) == 1 then
      head = math.min(head or never, now - grace) -- the last owner died at work
    end
    if not head or head > now - grace then
      set_alarm(head)
      return {3, us, head or -1}
    end
  end
  redis.call('HDEL', KEYS[2], 'asker')
  state[4] = false
  return_claimed()
elseif state[3] ~= turn then
  return_claimed()
end
turn = string.format('%.0f', (tonumber(state[3]) or 0) + 1)

local found = {}
local moves = 1000 -- most messages to return to the schedule, to keep the call short
while room > 0 and bytes > 0 and moves > 0 do
  local bucket = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
  if not bucket or bucket * bucket_ms > now then break end
  local key, start = bucket_key(KEYS[1], bucket), bucket * bucket_ms
  local due = redis.call('ZRANGEBYSCORE', key, '-inf', now - start, 'WITHSCORES', 'LIMIT', 0, room)
  local taken, overdue, earliest = 0, {}, never
  for i = 1, #due, 2 do
    local at = start + due[i + 1]
    if bytes <= 0 or moves <= 0 or at > earliest then break end
    local stored = redis.call('HGET', envelopes_key(KEYS[4], due[i]), due[i])
    taken = taken + 1
    if stored then
      local due_at = struct.unpack('>I6', stored)
      bytes = bytes - #stored
      if at < due_at and due_at <= now then
        overdue[#overdue + 1] = {due_at, due[i]}
        earliest = math.min(earliest, due_at)
        moves = moves - 1
      else
        redis.call('ZADD', KEYS[3], at, due[i])
        found[#found + 1] = due[i]
        found[#found + 1] = at
        found[#found + 1] = stored
        room = room - 1
      end
    end
  end
  if taken > 0 then redis.call('ZREMRANGEBYRANK', key, 0, taken - 1) end
  if redis.call('EXISTS', key) == 0 then
    redis.call('ZREM', KEYS[1], bucket)
  elseif #due == 0 then
    room = 0
  end
  for _, m in ipairs(overdue) do
    schedule_add(KEYS[1], m[1], m[2])
  end
end

local head = schedule_head(KEYS[1])
set_alarm(head)
redis.call('HSET', KEYS[2], 'owner', me, 'lease', string.format('%.0f', now + lease), 'turn', turn)
local asked = (state[4] and state[4] ~= me) and 1 or 0
local answer = {1, us, head or -1, tonumber(turn), asked, redis.call('ZCARD', KEYS[3])}
for i = 1, #found do
  answer[#answer + 1] = found[i]
end
return answer
