-- Gives a lock a new time to live if it still has the owner's token.
-- KEYS[1]: the lock; ARGV[1]: the token; ARGV[2]: milliseconds.
-- 1: extended, 0: not the owner's.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  local extended = redis.call('PEXPIRE', KEYS[1], ARGV[2])
  -- Whoever has changed a key is told of its next change only if it reads it again.
  redis.call('GET', KEYS[1])
  return extended
end
return 0
