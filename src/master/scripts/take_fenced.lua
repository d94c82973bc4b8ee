-- Takes a lock that is free, and counts that.
-- KEYS[1]: the lock; KEYS[2]: its counter; ARGV[1]: the token; ARGV[2]: the
-- lock's milliseconds; ARGV[3]: the counter's; ARGV[4]: the generation of this
-- server, which is another after each restart.
-- The count, or nothing: it is taken. An error: the counter can't count any more.
-- The counter's value is `count:generation`. The lock is set last: where anything
-- fails, nothing was taken.
if redis.call('EXISTS', KEYS[1]) == 1 then
  return false
end
local old, writer = string.match(redis.call('GET', KEYS[2]) or '', '^(%d+):?(.*)$')
local count = (tonumber(old) or 0) + 1
if writer ~= ARGV[4] then
  -- A counter that was lost, or that may be older than it was, goes on above where
  -- it can have been: at the time in microseconds.
  local now = redis.call('TIME')
  count = math.max(count, now[1] * 1000000 + now[2])
end
local digits = string.format('%.0f', count)
if count >= 2 ^ 53 then
  return redis.error_reply('COUNTER of fencing tokens: ' .. digits .. ' is not below 2^53')
end
redis.call('SET', KEYS[2], digits .. ':' .. ARGV[4], 'PX', ARGV[3])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return count
