-- Deletes a lock if it still has the owner's token.
-- KEYS[1]: the lock; ARGV[1]: the token. 1: deleted, 0: not the owner's.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
