-- Shared by the scripts that go over a set page by page, and write nothing; prepended to
-- each, after lib.lua. A page goes on after a score and an ID, whether that is still there
-- or not, and takes as long in a set of millions.

-- Whether a comes before b in a set, where their scores are the same. Lua's own order
-- is that of the server's locale.
local function is_before(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- How many members come before a score or, with an ID, up to that.
local function rank_after(key, score, id)
  if id == '' then return redis.call('ZCOUNT', key, '-inf', '(' .. score) end
  if redis.call('ZSCORE', key, id) == score then return redis.call('ZRANK', key, id) + 1 end
  local low = redis.call('ZCOUNT', key, '-inf', '(' .. score)
  local high = redis.call('ZCOUNT', key, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_before(id, redis.call('ZRANGE', key, middle, middle)[1]) then
      high = middle
    else
      low = middle + 1
    end
  end
  return low
end

-- The next members with their scores, at most this many.
local function page(key, score, id, most)
  local first = rank_after(key, score, id)
  return redis.call('ZRANGE', key, first, first + most - 1, 'WITHSCORES')
end
