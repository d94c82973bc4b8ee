-- Raises the counter of a lock that still has the owner's token.
-- KEYS[1]: the lock; KEYS[2]: its counter; ARGV[1]: the token; ARGV[2]: the
-- count; ARGV[3]: the counter's milliseconds.
-- 1: it is just that now, 0: the lock is not the owner's, or it is higher: another
-- has been granted the lock here before this owner was.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local count = tonumber(redis.call('GET', KEYS[2]) or 0)
if count > tonumber(ARGV[2]) then
  return 0
end
if count < tonumber(ARGV[2]) then
  redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
end
return 1
