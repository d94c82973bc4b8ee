-- Takes a lock that is free, and counts that.
-- KEYS[1]: the lock; KEYS[2]: its counter; ARGV[1]: the token; ARGV[2]: the
-- lock's milliseconds; ARGV[3]: the counter's.
-- The count, as text, since numbers of Lua are rounded; or nothing: it is taken.
-- The lock is set last: where anything fails, nothing was taken.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return false
end
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('INCR', KEYS[2])
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
else
  -- A counter that was lost goes on above where it can have been.
  local now = redis.call('TIME')
  redis.call('SET', KEYS[2], now[1] .. string.format('%06d', now[2]), 'PX', ARGV[3])
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return redis.call('GET', KEYS[2])
