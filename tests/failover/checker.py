"""What happened, and whether it may.

All scenarios tell a History what was appended, delivered, done and left behind; findings() compares it
with the log that is there in the end.  An event is known by its id: numbers are given out again when a
server is replaced by one that knew less.

  missing   every event of the log that matches was handled (or is a dead letter), or the subscription
            is halted and says why, and had a reason to
  order     the first deliveries of a stream's events that are in the log come by version, and so do effects
  phantom   no effect and no job of an event that is not in the log
  twice     each transactional effect once; each job once
  hole      the versions of a stream are 1 to n
  lost      what was acknowledged and cannot have been lost with a server is in the log
  refused   what was certainly refused is not in it
  stranger  nothing is delivered that nobody appended
  idle      each job has run, and is over
  mixed     a job has the payload of its own event
  dead      no event of a group is given up: what happens to servers and members is not its fault
"""
import collections

Event = collections.namedtuple("Event", "sequence id stream version type")
Delivery = collections.namedtuple("Delivery", "id sequence handled at")
Job = collections.namedtuple("Job", "id event_id status")
SHOWN = 8  # offenders of one kind that are named


def matches(pattern, event_type):
    """As engine/pattern.c: * is one segment, a last > one or more."""
    if pattern is None:
        return True
    wanted, segments = pattern.split("."), event_type.split(".")
    if wanted[-1] == ">":
        wanted = wanted[:-1]
        if len(segments) <= len(wanted):
            return False
        segments = segments[:len(wanted)]
    return len(wanted) == len(segments) and all(w in ("*", s) for w, s in zip(wanted, segments))


class Subscription:
    """Of one name, whatever processes served it."""

    def __init__(self, name, pattern=None, stream=None, not_before=(), effects=False, shared=False):
        self.name = name
        self.pattern = pattern
        self.stream = stream
        self.not_before = frozenset(not_before)  # ids that were there before it began: not outstanding
        self.effects = effects                   # handled is what has an effect, not what was called
        self.shared = shared                     # by members of a group
        self.deliveries = []
        self.dead = set()                        # ids of its dead letters
        self.halted = None                       # the reason

    def saw(self, event_id, sequence, handled=True, at=0.0):
        self.deliveries.append(Delivery(event_id, sequence, handled, at))

    def outstanding(self, log):
        return [e for e in log if matches(self.pattern, e.type) and self.stream in (None, e.stream)
                and e.id not in self.not_before]


class History:
    def __init__(self, may_halt=True):
        self.may_halt = may_halt  # something was lost that had been delivered
        self.subscriptions = []
        self.appended = {}        # id: "ok", "unknown" or "refused"
        self.safe = set()         # acknowledged, and on every server that comes later
        self.moment = 0           # odd: while one server follows the other
        self.doubtful = set()     # acknowledged by a server that is gone, and perhaps gone with it
        self.log = []             # of the end, by sequence
        self.effects = []         # (subscriber, event id)
        self.queues = {}          # pattern of its binding by name
        self.halted = {}          # why a queue gets no more events, by its name
        self.jobs = {}            # Jobs by queue
        self.runs = set()         # (queue, id of the event that a worker was shown)
        self.mixed = set()        # (queue, id of the job's event, id of the event that it was shown)

    def subscription(self, name, **more):
        self.subscriptions.append(Subscription(name, **more))
        return self.subscriptions[-1]

    def append(self, event_id, outcome, sent=None):
        """sent: the moment at which it was sent, if that may be another one than now."""
        self.appended[event_id] = outcome
        if sent is not None and (sent != self.moment or sent % 2):
            self.doubtful.add(event_id)

    def secure(self):
        """What this server has acknowledged is on every one that comes later."""
        self.safe.update(self.acknowledged() - self.doubtful)

    def replaced(self):
        """The server is another one now."""
        self.doubtful.update(self.acknowledged() - self.safe)

    def acknowledged(self):
        # A copy: writers go on meanwhile, in threads of their own.
        return {i for i, outcome in self.appended.copy().items() if outcome == "ok"}

    def handled(self, subscription):
        if subscription.effects:
            done = {e for s, e in self.effects if s == subscription.name}
        else:
            done = {d.id for d in subscription.deliveries if d.handled}
        return done | subscription.dead

    def missing(self, subscription):
        done = self.handled(subscription)
        return [e for e in subscription.outstanding(self.log) if e.id not in done]

    def findings(self):
        """Texts, the kind first; none: all is well."""
        found = list(self.of_log())
        for subscription in self.subscriptions:
            found += self.of_subscription(subscription)
        found += self.of_effects()
        for queue in self.queues:
            found += self.of_queue(queue)
        return found

    # ---- parts

    def of_log(self):
        versions = collections.defaultdict(list)
        for event in self.log:
            versions[event.stream].append(event.version)
        for stream, have in sorted(versions.items()):
            if sorted(have) != list(range(1, len(have) + 1)):
                yield "hole: stream %s has the versions %s" % (stream, spans(have))
        ids = collections.Counter(e.id for e in self.log)
        yield from some("twice", "in the log", [i for i, n in ids.items() if n > 1])
        yield from some("lost", "acknowledged, and not in the log", [i for i in sorted(self.safe) if i not in ids])
        yield from some("refused", "refused, and in the log",
                        [i for i in ids if self.appended.get(i) == "refused"])

    def of_subscription(self, sub):
        if sub.halted and (not self.may_halt or sub.shared):
            yield "missing: %s is halted without need: %s" % (sub.name, sub.halted)
        missing = self.missing(sub)
        if missing and not sub.halted:
            yield "missing: %s never got %d of %d events, numbers %s of %d" % (
                sub.name, len(missing), len(sub.outstanding(self.log)), spans([e.sequence for e in missing]),
                max(e.sequence for e in self.log))
        yield from some("stranger", "delivered to %s, and appended by nobody" % sub.name,
                        sorted({d.id for d in sub.deliveries if d.id not in self.appended}))
        yield from self.disorder("of %s" % sub.name, [d.id for d in sub.deliveries], sub.not_before)
        yield from some("dead", "dead letters of %s" % sub.name, sorted(sub.dead) if sub.shared else [])

    def disorder(self, what, ids, not_before=()):
        of_id = {e.id: e for e in self.log}
        last, seen, wrong = {}, set(), []
        for event_id in ids:
            event = of_id.get(event_id)
            if event is None or event.id in seen or event.id in not_before:
                continue
            seen.add(event.id)
            if event.version < last.get(event.stream, 0):
                wrong.append("%s/%d after %d" % (event.stream, event.version, last[event.stream]))
            last[event.stream] = max(event.version, last.get(event.stream, 0))
        yield from some("order", what, wrong)

    def of_effects(self):
        ids = {e.id for e in self.log}
        for name in sorted({s for s, _ in self.effects}):
            times = collections.Counter(e for s, e in self.effects if s == name)
            yield from some("twice", "effects of %s" % name, [i for i, n in times.items() if n > 1])
            yield from self.disorder("effects of %s" % name, [e for s, e in self.effects if s == name])
            yield from some("phantom", "effects of %s without their events" % name, [i for i in times if i not in ids])

    def of_queue(self, queue):
        jobs = self.jobs.get(queue, [])
        times = collections.Counter(job.event_id for job in jobs)
        outstanding = [e for e in self.log if matches(self.queues[queue], e.type)]
        ids = {e.id for e in self.log}
        missing = [e for e in outstanding if not times[e.id]]
        if self.halted.get(queue) and not self.may_halt:
            yield "missing: the binding of %s is halted without need: %s" % (queue, self.halted[queue])
        if missing and not self.halted.get(queue):
            yield "missing: of %d events %d are no job of %s, numbers %s of %d" % (
                len(outstanding), len(missing), queue, spans([e.sequence for e in missing]),
                max(e.sequence for e in self.log))
        yield from some("twice", "jobs of %s" % queue, [i for i, n in times.items() if n > 1])
        yield from some("phantom", "jobs of %s without their events" % queue, [i for i in times if i not in ids])
        yield from some("mixed", "jobs of %s with the payload of another event" % queue,
                        sorted("%s shown as %s" % (own, shown) for q, own, shown in self.mixed if q == queue))
        yield from some("idle", "jobs of %s that are not completed" % queue,
                        ["%d %s" % (job.id, job.status) for job in jobs if job.status != "completed"])
        yield from some("idle", "jobs of %s that are completed and never ran" % queue,
                        ["%d of %s" % (job.id, job.event_id) for job in jobs if job.status == "completed"
                         and job.event_id in ids and (queue, job.event_id) not in self.runs])


def some(kind, what, offenders):
    if offenders:
        yield "%s: %d %s: %s%s" % (kind, len(offenders), what, ", ".join(map(str, offenders[:SHOWN])),
                                   ", ..." if len(offenders) > SHOWN else "")


def spans(numbers):
    """1-3, 5, 7-9; at most SHOWN of them."""
    found = []
    for n in sorted(numbers):
        if found and n == found[-1][1] + 1:
            found[-1][1] = n
        else:
            found.append([n, n])
    texts = ["%d" % a if a == b else "%d-%d" % (a, b) for a, b in found]
    return ", ".join(texts[:SHOWN]) + (", ..." if len(texts) > SHOWN else "")
