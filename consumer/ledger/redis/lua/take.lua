-- Takes an effect, unless it has happened or another process is at it.
--
-- KEYS[1]  the mark
-- ARGV[1]  what the mark says once the effect has happened
-- ARGV[2]  who takes it
-- ARGV[3]  for how long, in ms
--
-- Returns -1 where it has happened, 0 where it is taken now, and otherwise the ms
-- for which another process has it. O(1).
local mark = redis.call('GET', KEYS[1])
if mark == ARGV[1] then
  return -1
end
if mark then
  return math.max(1, redis.call('PTTL', KEYS[1]))
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 0
