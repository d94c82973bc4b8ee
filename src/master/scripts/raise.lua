-- Raises the counter of a lock that still has the owner's token.
-- KEYS[1]: the lock; KEYS[2]: its counter; ARGV[1]: the token; ARGV[2]: the
-- count; ARGV[3]: the counter's milliseconds; ARGV[4]: this server's generation.
-- 1: it is just that now, 0: the lock is not the owner's, or the counter is higher
-- (another has been granted the lock here before this owner was), or is not of
-- this generation (it may be older than it was).
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local counter = redis.call('GET', KEYS[2])
if counter then
  local count, writer = string.match(counter, '^(%d+):?(.*)$')
  if writer ~= ARGV[4] or tonumber(count) > tonumber(ARGV[2]) then
    return 0
  end
end
redis.call('SET', KEYS[2], ARGV[2] .. ':' .. ARGV[4], 'PX', ARGV[3])
return 1
