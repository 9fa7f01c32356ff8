-- Takes back what plain commands have stored that should have been left to
-- lua/park.lua: messages whose ID was parked before, and those for which this
-- clock had been taken for another.
--
-- KEYS: 1 schedule, 2 claimed, 3 base key of the envelopes, 4 kept
-- ARGV: 1 number of lanes, then their TTLs in ms, longest first, and then for each
--       message its ID, the slot of its envelope, its due time and when it was
--       parked, 6 bytes of Unix ms each, its instant of promotion, its part of the
--       schedule, and whether its envelope was stored: 1 or 0
-- Returns for each message 1 if its envelope was stored and cannot be taken back, since
-- it is on its way already, or has been changed, and otherwise 0. O(log N) per message.
local first_message = 2 + ARGV[1]
local too_late = {}
for i = first_message, #ARGV, 6 do
  local id, key, instants = ARGV[i], KEYS[3] .. ':' .. ARGV[i + 1], ARGV[i + 2]
  local at, part = tonumber(ARGV[i + 3]), ARGV[i + 4]
  local stored = redis.call('HGET', key, id)
  local promoted = redis.call('ZSCORE', KEYS[2], id) or redis.call('ZSCORE', KEYS[4], id)
  local superfluous, late = true, 0
  if ARGV[i + 5] == '1' then
    if promoted or not stored or string.sub(stored, 1, 12) ~= instants then
      superfluous, late = false, 1
    else
      redis.call('HDEL', key, id)
    end
  elseif stored and not promoted and is_waiting(stored) then
    local r = read(stored)
    local its_at, its_part = place(r.due, r.parked_at, r.direct, ARGV, 2, first_message - 1)
    superfluous = its_part ~= part or math.floor(its_at / bucket_ms) ~= math.floor(at / bucket_ms)
  end
  if superfluous then schedule_remove(KEYS[1], part, at, id) end
  too_late[#too_late + 1] = late
end
return too_late
