// What was answered over time: points of a second or a minute, each in its slot.

/** The parts of a point, from the line upwards. */
export const PARTS = [
  { name: "allowed" },
  { name: "would deny", note: "allowed; a rule in shadow would have denied it" },
  { name: "failed open", note: "allowed, because the store failed" },
  { name: "denied" },
  { name: "failed closed", note: "denied, because the store failed" },
  { name: "errors", note: "requests that could not be answered" },
];
/** Where the 99th percentile of a point is. */
export const P99 = PARTS.length;

/** Returns the parts of a count. `would_deny` and `failed_open` are among the allowed, `failed_closed` among the denied. */
export const parts = (counts) => {
  const { would_deny = 0, failed_open = 0, failed_closed = 0, errors = 0, p99_us = null } = counts;
  const allowed = Math.max(0, counts.allowed - would_deny - failed_open);
  const denied = Math.max(0, counts.denied - failed_closed);
  return [allowed, would_deny, failed_open, denied, failed_closed, errors, p99_us];
};

/** The newest `size` points of `step` seconds. What was not heard of has no point: that is a gap. */
export class Series {
  constructor(step, size) {
    this.stepMs = step * 1000;
    this.size = size;
    this.points = new Map();
    this.newest = 0;
    this.anchor = 0;
  }

  /**
   * Returns the slot of a time. The server reads its counters each second, but not on the second: counted from a time that
   * it told, one point falls into each slot, however its clock stands.
   */
  slotOf(time) {
    return Math.round(this.anchor / this.stepMs) + Math.round((time - this.anchor) / this.stepMs);
  }

  /** Returns when the point of a slot ended. */
  timeOf(slot) {
    return this.anchor + (slot - Math.round(this.anchor / this.stepMs)) * this.stepMs;
  }

  /** From here on, slots are counted from this time; unless they are already counted from one that is whole steps away. */
  anchorAt(time) {
    const steps = (time - this.anchor) / this.stepMs;
    if (!this.anchor || Math.abs(steps - Math.round(steps)) > 0.25) this.anchor = time;
  }

  put(slot, point) {
    this.points.set(slot, point);
    if (slot <= this.newest) return;
    this.newest = slot;
    // In the order of slots but for what a history added: dropping the oldest now and then is enough.
    if (this.points.size > 2 * this.size) {
      for (const old of this.points.keys()) if (old <= slot - this.size) this.points.delete(old);
    }
  }

  /** Adds a second of the stream. */
  push(time, counts) {
    this.put(this.slotOf(time), parts(counts));
  }

  /** Adds what the server remembers. It forgets when it is started again; what was heard before stays. */
  merge({ end, points }, lists) {
    if (!this.anchor) this.anchorAt(end);
    const last = this.slotOf(end);
    const scale = 1000 / this.stepMs;
    for (let index = 0; index < points; index += 1) {
      if (lists.allowed[index] === null) continue;
      const at = (list) => (list ? list[index] * scale : 0);
      this.put(
        last - (points - 1 - index),
        parts({
          allowed: at(lists.allowed),
          denied: at(lists.denied),
          would_deny: at(lists.would_deny),
          failed_open: at(lists.failed_open),
          failed_closed: at(lists.failed_closed),
          errors: at(lists.errors),
          p99_us: lists.p99_us ? lists.p99_us[index] : null,
        }),
      );
    }
  }
}
