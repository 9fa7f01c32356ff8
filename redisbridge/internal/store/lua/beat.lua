-- Counts one beat of the installation, unless the layout is another one's, or of another epoch. What
-- has no installation gets this one. It is no longer refused.
--
-- KEYS: 1 layout
-- ARGV: 1 installation, 2 epoch, 3 beat that RabbitMQ knows
-- Returns the installation, the epoch, the beat and its instant in ms. O(1).
if redis.call('HSETNX', KEYS[1], 'installation', ARGV[1]) == 1 then redis.call('HSET', KEYS[1], 'epoch', ARGV[2]) end
local is = redis.call('HMGET', KEYS[1], 'installation', 'epoch', 'beat', 'beat_at')
if is[1] == ARGV[1] and is[2] == ARGV[2] then
  is[3], is[4] = math.max(tonumber(is[3] or 0), tonumber(ARGV[3])) + 1, clock()
  redis.call('HSET', KEYS[1], 'beat', is[3], 'beat_at', string.format('%.0f', is[4]))
  redis.call('HDEL', KEYS[1], 'refused')
end
return {is[1], is[2] or '', tostring(is[3] or 0), string.format('%.0f', is[4] or 0)}
