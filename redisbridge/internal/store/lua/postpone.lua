-- Puts claimed messages back into the schedule, each at a given instant. Does
-- nothing once the shard has another owner, who has put them back already, nor for
-- a message that is no longer the claimed one.
--
-- KEYS: 1 schedule, 2 state, 3 claimed, 4 base key of the envelopes (lib.lua)
-- ARGV: 1 bridge ID, 2... ID, version, promote at, part of the schedule; for each message
-- Returns the number of messages put back. O(log N) per message.
if redis.call('HGET', KEYS[2], 'owner') ~= ARGV[1] then return 0 end
local back, notes = {}, {}
for i = 2, #ARGV, 4 do
  local claimed = redis.call('ZSCORE', KEYS[3], ARGV[i])
  if claimed and claimed % 1 == ARGV[i + 1] / 1024 then
    schedule_note(notes, ARGV[i + 3], tonumber(ARGV[i + 2]), ARGV[i])
    back[#back + 1] = ARGV[i]
  end
end
schedule_add(KEYS[1], notes) -- before it is taken out: see lib.lua
for _, id in ipairs(back) do redis.call('ZREM', KEYS[3], id) end
if #back > 0 then redis.call('HINCRBY', KEYS[2], 'left', -#back) end
return #back
