-- Takes or keeps the lease on a shard, and claims the messages whose instant of
-- promotion has come, earliest first. A claimed message leaves the schedule for
-- the claimed set and keeps its envelope until it is settled.
--
-- Each answer carries a turn, which the next call passes back. A call with
-- another turn says that the caller has not heard the answer before, or wants
-- to begin anew: then all that is claimed returns to the schedule first, as it
-- does when the shard changes hands. So nothing stays claimed without an owner.
--
-- Of the messages whose instant has come, those that are due first are claimed
-- first, whatever lanes they are meant for: so a backlog leaves in due order.
-- What is late to be promoted, but not overdue, is claimed step by step, lane by
-- lane, so that the bridge can catch up at its pace while there is time.
--
-- It also forgets what needs no longer be kept, some of it with each call, and a new
-- owner has the parts of the schedule, and what is stored of each entry, counted anew.
--
-- KEYS: 1 schedule, 2 state, 3 claimed, 4 base key of the envelopes, 5 kept
-- ARGV: 1 bridge ID, 2 'preferred' or 'standby', 3 lease in ms, 4 standby's
--       grace in ms, 5 turn, 6 most messages, 7 most bytes, 8 step in ms, from
--       a lane's first that is late, 9... TTLs of the lanes in ms
-- Returns, with now in Unix microseconds, other instants in ms, and -1 for never:
--   {1 claimed, now, next promotion, turn, whether another bridge asks for the
--    shard, number claimed in all, whether something is held, whether the last
--    owner's lease ran out at work, ID, promote at, stored envelope, ...}
--   {2 held by another, now, end of its lease}
--   {3 idle: nothing for a standby to take over, now, next promotion}
--   {4 closed: all that it had is in the shards of the next generation, now}
-- O(log N) per message claimed, and O(1) per lane.
local me, preferred = ARGV[1], ARGV[2] == 'preferred'
local lease, grace, turn = tonumber(ARGV[3]), tonumber(ARGV[4]), ARGV[5]
local room, bytes = tonumber(ARGV[6]), tonumber(ARGV[7])
local now, us = clock()
local never = 9007199254740991
local late_ms = 1000 -- so late, a message is not merely waiting for its claim
local most_forgotten = 500
local forget_every = 5000
local most_recounted = 200 -- buckets
local most_weighed = 10000 -- records
local moves = moves_of(KEYS[4])
if moves.frontier >= all_slots and redis.call('HGET', KEYS[2], 'closed') then return {4, us} end

local function set_alarm(at)
  redis.call('HSET', KEYS[2], 'alarm', string.format('%.0f', at or never))
end

-- A message's record, if it is to be promoted, when it is due, and its version. One that is
-- cut off before that is due when its entry says so.
local function envelope(id)
  if absence(moves, id) then return nil end -- a beginning of a script has left its entry here
  local stored = redis.call('HGET', envelopes_key(KEYS[4], id), id)
  if not stored then return nil end
  if #stored < stamped_head then return stored, nil, 0 end
  local due, version, state, unsettled = glimpse(stored)
  if state == waiting or unsettled then return stored, due, version end
end

local returned = 0

local function return_claimed()
  local lanes = {}
  for i = 9, #ARGV do lanes[ARGV[i]] = true end
  local all, notes = redis.call('ZRANGE', KEYS[3], 0, -1, 'WITHSCORES'), {}
  for i = 1, #all, 2 do
    local id, at, part = all[i], math.floor(all[i + 1]), '0'
    local stored = envelope(id)
    if stored then
      local r = read(stored)
      local lead = string.format('%.0f', r.due - at)
      if lanes[lead] and not r.direct then part = lead end
      schedule_note(notes, part, at, id)
      returned = returned + 1
    end
  end
  schedule_add(KEYS[1], notes)
  redis.call('DEL', KEYS[3])
end

-- Counts anew what each part holds, where that is quickly done.
local function recount()
  for _, part in ipairs(redis.call('HKEYS', counts_key(KEYS[1]))) do
    if redis.call('SISMEMBER', KEYS[1], part) == 0 then redis.call('HDEL', counts_key(KEYS[1]), part) end
  end
  for _, part in ipairs(redis.call('SMEMBERS', KEYS[1])) do
    local key, n = part_key(KEYS[1], part), 0
    if redis.call('ZCARD', key) <= most_recounted then
      for _, bucket in ipairs(redis.call('ZRANGE', key, 0, -1)) do n = n + redis.call('ZCARD', bucket_key(key, bucket)) end
      redis.call('HSET', counts_key(KEYS[1]), part, n)
    end
  end
end

-- Weighs anew what is stored of each entry, where that is quickly done. Nothing is claimed.
local function reweigh()
  local all = redis.call('ZCARD', KEYS[5])
  for _, n in ipairs(redis.call('HVALS', counts_key(KEYS[1]))) do all = all + n end
  if all > most_weighed then return end
  local keys, seen = redis.call('ZRANGE', KEYS[5], 0, -1), {}
  for _, part in ipairs(redis.call('SMEMBERS', KEYS[1])) do
    local in_part = part_key(KEYS[1], part)
    for _, bucket in ipairs(redis.call('ZRANGE', in_part, 0, -1)) do
      for _, key in ipairs(redis.call('ZRANGE', bucket_key(in_part, bucket), 0, -1)) do keys[#keys + 1] = key end
    end
  end
  local bytes = 0
  for _, key in ipairs(keys) do bytes = bytes + redis.call('HSTRLEN', envelopes_key(KEYS[4], key), key) end
  if bytes > most_bytes then return end
  redis.call('DEL', usage_key(KEYS[4]))
  for _, key in ipairs(keys) do
    local stored = not seen[key] and redis.call('HGET', envelopes_key(KEYS[4], key), key)
    if stored then weigh(key, nil, stored) end
    seen[key] = true
  end
  write_weights(KEYS[4])
end

local state = redis.call('HMGET', KEYS[2], 'owner', 'lease', 'turn', 'asker', 'left')
local owner, ends = state[1], tonumber(state[2] or 0)
local expired = 0
if owner ~= me then
  if owner and ends > now then
    if preferred then redis.call('HSET', KEYS[2], 'asker', me) end
    return {2, us, ends}
  end
  if not preferred then
    local first = schedule_head(KEYS[1])
    if redis.call('EXISTS', KEYS[3]) == 1 or redis.call('EXISTS', moving_key(KEYS[4])) == 1 then
      first = math.min(first or never, now - grace) -- the last owner died at work
    end
    if not first or first > now - grace then
      set_alarm(first)
      return {3, us, first or -1}
    end
  end
  -- An idle owner lets its lease run out, and who is preferred may have its shard.
  if owner and (not preferred or redis.call('EXISTS', KEYS[3]) == 1) then expired = 1 end
  redis.call('HDEL', KEYS[2], 'asker')
  state[4] = false
  return_claimed()
  recount()
  reweigh()
elseif state[3] ~= turn then
  return_claimed()
end
turn = string.format('%.0f', (tonumber(state[3]) or 0) + 1)

-- The instant at which a bucket begins.
local function bucket_of(at) return math.floor(at / bucket_ms) * bucket_ms end

-- A cursor goes over those messages of one part whose instant has come.
local chunk = 64

local taken = {} -- instants and IDs that are not in the claimed set yet
local mine = {} -- the version of each ID that this call claims

local function forget_taken(c)
  if #c.gone > 0 then
    if #taken > 0 then -- of all cursors; before they leave the schedule: see lib.lua
      redis.call('ZADD', KEYS[3], unpack(taken))
      taken = {}
    end
    count(KEYS[1], c.part, -redis.call('ZREM', c.ids, unpack(c.gone)))
    c.gone = {}
  end
end

-- Whether the message that c has come to is on its way already: a crash of Redis in the
-- middle of a script may have left it two entries (lib.lua).
local function is_under_way(c, version)
  local claimed = c.claimed[c.taken + 1]
  return mine[c.id] == version or c.kept[c.taken + 1] or (claimed and version_in(claimed) == version)
end

-- Moves the cursor on; c.id is nil at the end.
local function advance(c)
  while not c.list or not c.list[2 * c.taken + 1] do
    if c.list then forget_taken(c) end
    c.taken = 0
    local bucket = redis.call('ZRANGE', c.key, 0, 0)[1]
    if not bucket or bucket * bucket_ms > now then
      c.id = nil
      return
    end
    c.start, c.ids = bucket * bucket_ms, bucket_key(c.key, bucket)
    c.list = redis.call('ZRANGEBYSCORE', c.ids, '-inf', now - c.start, 'WITHSCORES', 'LIMIT', 0, chunk)
    if #c.list == 0 then
      if redis.call('EXISTS', c.ids) == 1 then
        c.id = nil
        return
      end
      redis.call('ZREM', c.key, bucket)
    else
      local ids = {}
      for i = 1, #c.list, 2 do ids[#ids + 1] = c.list[i] end
      c.claimed = redis.call('ZMSCORE', KEYS[3], unpack(ids))
      c.kept = redis.call('ZMSCORE', KEYS[5], unpack(ids))
    end
  end
  c.id, c.at = c.list[2 * c.taken + 1], c.start + c.list[2 * c.taken + 2]
  c.due, c.stored = c.at + c.lead, nil
  if c.lead == 0 then
    c.stored, c.really, c.version = envelope(c.id)
    c.due = c.really or c.due
  end
end

local cursors = {}
for _, part in ipairs(room > 0 and redis.call('SMEMBERS', KEYS[1]) or {}) do
  local c = {part = part, key = part_key(KEYS[1], part), lead = tonumber(part), taken = 0, gone = {}}
  advance(c)
  cursors[#cursors + 1] = c
end

local found, held = {}, 0
local late, step = now - late_ms, tonumber(ARGV[8])
while room > 0 and bytes > 0 do
  local first
  for _, c in ipairs(cursors) do
    if c.id then
      c.late = c.at < late and c.due > now
      if c.late and not c.front then c.front = c.at + step end
      if not first or c.due < first.due then first = c end
    end
  end
  if not first then break end
  if first.late and first.at > first.front then
    first.id = nil
    held = 1
  else
    local stored, due, version = first.stored, first.really, first.version
    if not stored then stored, due, version = envelope(first.id) end
    due = due or first.due
    if stored and due ~= first.due and bucket_of(due - first.lead) == first.start then
      -- A crash of Redis in the middle of a script has left the entry another score (lib.lua).
      redis.call('ZADD', first.ids, due - first.lead - first.start, first.id)
    else
      first.gone[#first.gone + 1] = first.id -- also where the message has its entry elsewhere
    end
    if stored and due == first.due and not is_under_way(first, version) then
      mine[first.id] = version
      local n = #taken
      taken[n + 1], taken[n + 2] = score(first.at, version), first.id
      n = #found
      found[n + 1], found[n + 2], found[n + 3] = first.id, first.at, stored
      room = room - 1
      bytes = bytes - #stored
    end
    first.taken = first.taken + 1
    advance(first)
  end
end
for _, c in ipairs(cursors) do
  if c.list then forget_taken(c) end
end

-- Forgets what was kept for long enough, and returns when to do so again.
local function forget()
  local due, over, bytes = redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', now, 'LIMIT', 0, most_forgotten), {}, 0
  for _, id in ipairs(due) do
    if bytes > most_bytes then break end
    bytes = bytes + redis.call('HSTRLEN', envelopes_key(KEYS[4], id), id)
    over[#over + 1] = id
  end
  if #over > 0 then redis.call('ZREM', KEYS[5], unpack(over)) end
  for _, id in ipairs(over) do forget_record(KEYS[4], id) end
  write_weights(KEYS[4])
  if #over > 0 then forget_entries(KEYS[4]) end
  if #over == most_forgotten or #over < #due then return now end
  local oldest = redis.call('ZRANGE', KEYS[5], 0, 0, 'WITHSCORES')[2]
  return oldest and tonumber(oldest) + forget_every -- so that many go at once
end

local soonest = math.min(forget() or never, schedule_head(KEYS[1]) or never)
if soonest == never then soonest = nil end
set_alarm(soonest)
local left = (tonumber(state[5]) or 0) - returned + #found / 3 -- for those who watch (flow.lua)
redis.call('HSET', KEYS[2], 'owner', me, 'lease', string.format('%.0f', now + lease), 'turn', turn,
  'left', string.format('%.0f', left))
local asked = (state[4] and state[4] ~= me) and 1 or 0
local answer = {1, us, soonest or -1, tonumber(turn), asked, redis.call('ZCARD', KEYS[3]), held, expired}
for i = 1, #found do
  answer[#answer + 1] = found[i]
end
return answer
