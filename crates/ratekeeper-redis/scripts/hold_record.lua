-- Reads the record of a hold.
--
-- KEYS[1]  the holds
-- ARGV[1]  the field of its id
-- Returns the record, or nothing.

return redis.call('HGET', KEYS[1], ARGV[1])
