-- Leaves an effect that did not happen to others.
--
-- KEYS[1]  the mark
-- ARGV[1]  who has taken it
--
-- Returns 1, or 0 where it was no longer theirs. O(1).
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('DEL', KEYS[1])
