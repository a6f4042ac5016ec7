-- The fixed window. State: `count`, and the start of its window, `start`. Numbers: `limit`; `need`, the cost.
--
-- Where windows lie is the shape's: they begin with a request (`first`), at multiples of a length below 2^53 / 1000 ns
-- (`grid`), or where the call says (`edges`: `one` to `four`, three windows in a row. Who asks cannot know the server's
-- time: if it lies in neither of the first two windows, it is told the time and asks again).

--# arguments edges
$one = $one - $NOW
$two = $two - $NOW
$three = $three - $NOW
if $two <= 0 then
  $four = $four - $NOW
  $window = $two
  $stop = $three
  $next = $four
else
  $window = $one
  $stop = $two
  $next = $three
end
if $window > 0 or $stop <= 0 then return { 3, NOW } end

--# view first
if @found then $stop = 0 - $start end
if @found and $count > 0 and $stop < $length then
  if $start > $SLACK then --own
    -- The clock stepped back. --own
    $start = 0 --own
    @repaired = true --own
  end --own
else
  $count = 0
  $start = 0
end
$stop = $start + $length

--# view grid
-- (seconds * 1e9 + nanoseconds) % length, in steps that stay exact.
local length = double($length)
local into = NOW_HIGH % length * 1000 % length * 1000 % length * 1000 % length
into = (into + NOW_LOW) % length
$window = pair(-into)
$stop = $window + $length

--# view grid edges
if @found and $count > 0 and $start >= $window then
  if $start < $stop then
    $start = $window
  else
    -- A window that has yet to begin: a caller came late, and it stays; or the clock stepped far back. Nobody knows what
    -- the window of now had let pass then: all of it.
    $later = $start - $window --grid
    local into = $later.high % length * 1000 % length * 1000 % length * 1000 % length --grid
    into = (into + $later.low) % length --grid
    $later = pair(into) --grid
    $later = $start - $later --grid
    -- These are longer than the slack: one that is not the next is cut off, or else is shared and stays as it is found, --edges
    -- for at least as long as it has to live. --edges
    if $start < $next then --edges
      $later = $stop --edges
    else --edges
      $later = $start --edges
      $next = $start --edges
    end --edges
    if $later > $SLACK then --own
      $start = $window --own
      $count = $limit --own
      @repaired = true --own
    else --own
      $start = $later
      $stop = $start + $length --grid
      $stop = $next --edges
    end --own
  end
else
  $count = 0
  $start = $window
end

--# passes
$new = $count + $need
if $new > $limit then passes = false end

--# most
$most = $limit - $count
if $most < 0 then $most = 0 end

--# need
$need = $COST
$new = $count + $need

--# charge
$count = $new

--# debit
$count = $count + $need
if $count > $UTMOST then $count = $UTMOST end

--# refund
-- All of it in the same window, and nothing later.
if $CHARGED >= $start then
  $count = $count - $need
  if $count < 0 then $count = 0 end
end

--# state
@ttl = $count > 0 and millis($stop)
