-- The token bucket. State: `tokens`, a double, and the instant they were counted at, `last`.
-- Numbers: `capacity`, `rate` in tokens per second; `reach`, in nanoseconds, how far from now it may be full again at the
-- latest; `need`, the cost. A cost within 1e-9 of what there is passes. The order of operations is the engine's: both get
-- the same bits.

--# view
if @found then
  if @tokens >= @capacity then
    -- A full bucket is a fresh key's, whenever it was counted.
    @tokens = @capacity
    @fresh = true
    $last = 0
  end
  if $last < 0 then
    $since = 0 - $last
    @tokens = @tokens + double($since) * @rate / 1e9
    if @tokens > @capacity then @tokens = @capacity end
    $last = 0
  elseif $last > 0 and double($last) + (@capacity - @tokens) * 1e9 / @rate > @reach then --own
    $last = 0 --own
    @repaired = true --own
  end
  -- A debt is at most one burst, as of now. --own
  if @tokens < -@capacity then --own
    @tokens = -@capacity --own
    @repaired = true --own
    if $last > 0 and double($last) + (@capacity - @tokens) * 1e9 / @rate > @reach then --own
      $last = 0 --own
    end --own
  end --own
else
  @tokens = @capacity
  $last = 0
end

--# passes
if @tokens - @need < -1e-9 then passes = false end

--# most
local whole = @tokens - @tokens % 1
if @tokens - (whole + 1) >= -1e-9 then whole = whole + 1 end
if whole < 0 then whole = 0 end
$most = pair(whole)

--# need
@need = double($COST)

--# charge
@tokens = @tokens - @need
if not (@tokens > 0) then @tokens = 0 end
-- What would be cut off the next time, because a clock that stepped back is so far behind, is at once. --own
if $last > 0 and double($last) + (@capacity - @tokens) * 1e9 / @rate > @reach then --own
  $last = 0 --own
end --own

--# debit
-- One burst below empty. What several quotas share may be further below already.
local bottom = -@capacity
if @tokens < bottom then bottom = @tokens end
@tokens = @tokens - @need
if @tokens < bottom then @tokens = bottom end
if $last > 0 and double($last) + (@capacity - @tokens) * 1e9 / @rate > @reach then --own
  $last = 0 --own
end --own

--# refund
local left = @need - double($AGE) * @rate / 1e9
if left > 0 then @tokens = @tokens + left end
if @tokens > @capacity then @tokens = @capacity end
if $last > 0 and double($last) + (@capacity - @tokens) * 1e9 / @rate > @reach then --own
  $last = 0 --own
end --own

--# state
-- A full bucket is a fresh key's, unless it is what a quota of a larger one shares.
if @tokens < @capacity then --own
if @tokens < @capacity or @found then --shared
  -- A formula in floating point is off by some units in the last place, so this is a little too long: state that lives
  -- longer than it counts is only a fresh key's.
  local time = (double($last) + (@capacity - @tokens) * 1e9 / @rate) * (1 + 1e-12) / 1e6
  if time > MOST_MILLIS then time = MOST_MILLIS elseif not (time > 1) then time = 1 end
  @ttl = time + -time % 1
else
  @ttl = false
end
