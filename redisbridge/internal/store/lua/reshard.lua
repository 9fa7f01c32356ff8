-- Begins or ends the move to another number of shards, in the layout.
--
-- KEYS: 1 layout
-- ARGV: 1 generation that there is, 2 number of shards of the next one, 3 'begin' or 'end', 4 version of a layout
--       that knows generations
-- Returns 1 once it is so, and 0 where there is another generation, or another move. O(1).
local is = redis.call('HMGET', KEYS[1], 'generation', 'next_shards')
if (is[1] or '0') ~= ARGV[1] or is[2] and is[2] ~= ARGV[2] then return 0 end
if ARGV[3] == 'begin' then
  redis.call('HSET', KEYS[1], 'version', ARGV[4], 'next_shards', ARGV[2])
elseif is[2] then
  redis.call('HSET', KEYS[1], 'generation', string.format('%.0f', ARGV[1] + 1), 'shards', ARGV[2])
  redis.call('HDEL', KEYS[1], 'next_shards')
else
  return 0
end
return 1
