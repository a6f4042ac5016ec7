-- The leaky bucket as a meter. State: `level`, a double, and the instant it was read at, `last`.
-- Numbers: as the token bucket's.

--# view
if @found then
  if not (@level > 0) then
    -- An empty bucket is a fresh key's, whenever it was read.
    @level = 0
    $last = 0
  end
  if $last < 0 then
    $since = 0 - $last
    @level = @level - double($since) * @rate / 1e9
    if not (@level > 0) then @level = 0 end
    $last = 0
  elseif $last > 0 and double($last) + @level * 1e9 / @rate > @reach then --own
    $last = 0 --own
    @repaired = true --own
  end
  if @level > @capacity + @capacity then --own
    @level = @capacity + @capacity --own
    @repaired = true --own
    if $last > 0 and double($last) + @level * 1e9 / @rate > @reach then --own
      $last = 0 --own
    end --own
  end --own
else
  @level = 0
  $last = 0
end

--# passes
if @level - (@capacity - @need) > 1e-9 then passes = false end

--# most
local level = @level < @capacity and @level or @capacity
local room = @capacity - (level - level % 1)
if room > 0 and @level - (@capacity - room) > 1e-9 then room = room - 1 end
$most = pair(room)

--# need
@need = double($COST)

--# charge
@level = @level + @need
if @level > @capacity then @level = @capacity end
-- As of the token bucket. --own
if $last > 0 and double($last) + @level * 1e9 / @rate > @reach then --own
  $last = 0 --own
end --own

--# debit
-- One capacity above the brim. What several quotas share may be fuller already.
local most = @capacity + @capacity
if @level > most then most = @level end
@level = @level + @need
if @level > most then @level = most end
if $last > 0 and double($last) + @level * 1e9 / @rate > @reach then --own
  $last = 0 --own
end --own

--# refund
local left = @need - double($AGE) * @rate / 1e9
if left > 0 then @level = @level - left end
if not (@level > 0) then @level = 0 end
if $last > 0 and double($last) + @level * 1e9 / @rate > @reach then --own
  $last = 0 --own
end --own

--# state
if @level > 0 then
  local time = (double($last) + @level * 1e9 / @rate) * (1 + 1e-12) / 1e6
  if time > MOST_MILLIS then time = MOST_MILLIS elseif not (time > 1) then time = 1 end
  @ttl = time + -time % 1
else
  @ttl = false
end
