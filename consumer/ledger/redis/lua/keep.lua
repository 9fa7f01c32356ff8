-- Keeps an effect for longer.
--
-- KEYS[1]  the mark
-- ARGV[1]  who has taken it
-- ARGV[2]  for how long from now, in ms
--
-- Returns 1, or 0 where it is no longer theirs. O(1).
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
