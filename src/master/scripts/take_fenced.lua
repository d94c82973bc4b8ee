-- Takes a lock that is free, and counts that.
-- KEYS[1]: the lock; KEYS[2]: its counter; ARGV[1]: the token; ARGV[2]: the
-- lock's milliseconds; ARGV[3]: the counter's.
-- The count, or nothing: it is taken.
-- The lock is set last: where anything fails, nothing was taken.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return false
end
local count = redis.call('INCR', KEYS[2])
if count < 1000000000000000 then
  -- A counter that was lost goes on above where it can have been: at the time in
  -- microseconds, which has been that much since 2001.
  local now = redis.call('TIME')
  count = now[1] * 1000000 + now[2]
  redis.call('SET', KEYS[2], string.format('%.0f', count))
end
redis.call('PEXPIRE', KEYS[2], ARGV[3])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return count
