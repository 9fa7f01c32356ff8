-- Says how many messages have left the schedule, and which ones consumers have said
-- lately that they have. Writes nothing.
--
-- KEYS: 1 state, 2 kept, 3 base key of the envelopes (lib.lua)
-- ARGV: 1 how long a delivery is remembered in ms, 2 since when, in Unix ms, 3 most
--       deliveries
-- Returns the number that have left, Redis' clock in Unix ms, and for each delivery, about
-- the last one first, when it was due and delivered in Unix ms, and its path or ''.
-- O(log N) per delivery.
local clocks_ms = 5000 -- so far apart may the clocks of a consumer and of this server be (handled.lua)
local now, remembered, since = clock(), tonumber(ARGV[1]), tonumber(ARGV[2])
local answer = {tonumber(redis.call('HGET', KEYS[1], 'left') or 0), now}
local from, to = '(' .. string.format('%.0f', since + remembered), string.format('%.0f', now + remembered + clocks_ms)
for _, id in ipairs(redis.call('ZREVRANGEBYSCORE', KEYS[2], to, from, 'LIMIT', 0, ARGV[3])) do
  local stored = redis.call('HGET', envelopes_key(KEYS[3], id), id)
  local r = stored and read(stored)
  if r and r.state == delivered and r.parked_at > since then
    answer[#answer + 1], answer[#answer + 2] = r.due, r.parked_at
    answer[#answer + 1] = string.match(string.sub(stored, r.body), '^\t([^\n]*)') or ''
  end
end
return answer
