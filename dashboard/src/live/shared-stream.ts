/**
 * One live stream for all tabs of a browser that show the same. The tab that holds a Web Lock, the leader, reads the
 * stream and posts what changed on a BroadcastChannel. When it closes, the browser gives the lock to another tab, which
 * resumes from the last position that was posted: nothing is lost and nothing comes twice.
 *
 * Browsers slow down hidden tabs, so a visible tab takes the lock from a hidden leader, or from one that posts nothing.
 * Without Web Locks (a page that is neither on HTTPS nor on localhost) each tab reads a stream of its own.
 */
import { type ConnectionStatus, type FollowLogOptions, LogFollower } from './follow-log.ts';
import { isBefore, type LogPosition } from './live-event.ts';
import type { LiveFilter } from './live-filter.ts';
import { LiveState } from './live-state.ts';
import { type ReadMissedOptions, readMissed } from './read-missed.ts';
import {
  type ChangesMessage,
  changesMessages,
  type Reached,
  type TabMessage,
  type UnnumberedChanges,
} from './tab-messages.ts';

/** The part of the browser's `LockManager` that is used. */
export interface Locks {
  request(
    name: string,
    options: { readonly steal?: boolean; readonly ifAvailable?: boolean; readonly signal?: AbortSignal },
    /** @param lock null when it was not available */
    hold: (lock: object | null) => Promise<void>,
  ): Promise<unknown>;
}

export interface SharedStreamOptions {
  /** Name of the lock and the channel: equal for equal keys and filters, and contains neither. See `stream-name.ts`. */
  readonly name: string;
  readonly open: FollowLogOptions['open'];
  readonly readLog: ReadMissedOptions['readLog'];
  readonly filter: LiveFilter;
  /** Called when rows, gaps or the status have changed, at most every 60 ms. */
  onChange(): void;
  isVisible(): boolean;
  /** Undefined: no sharing. */
  readonly locks: Locks | undefined;
  /** Lets the page do other work. */
  pause(): Promise<void>;
  readonly capacity?: number;
  readonly silenceMs?: number;
  readonly pausesMs?: readonly number[];
  /** A leader that posts nothing for this long loses the lock to a visible tab. */
  readonly leaderSilenceMs?: number;
}

/** Changes are posted together after this time. */
const BATCH_MS = 60;
const SILENCE_MS = 45_000;
const LEADER_SILENCE_MS = 20_000;
/** How often a tab without any rows yet looks whether there is a leader. */
const FIND_LEADER_MS = 200;
/** The leader posts at least this often. */
const ALIVE_MS = 5_000;

export class SharedStream {
  readonly state: LiveState;
  readonly #options: SharedStreamOptions;
  readonly #channel: InstanceType<typeof BroadcastChannel> | undefined;
  readonly #closing = new AbortController();
  #status: ConnectionStatus = { state: 'connecting' };
  /** Set while this tab reads the stream. */
  #leading: Leading | undefined;
  #campaign: AbortController | undefined;
  #term = 0;
  /** Number of the last message of the leader. */
  #lastNumber: number | undefined;
  /** Whether everything up to the last message has been received. */
  #isSynced = false;
  /** Whether it has been synced, or has led. */
  #hasSynced = false;
  #isInSnapshot = false;
  #isLeaderVisible = true;
  #heardAt = Date.now();
  readonly #alive: ReturnType<typeof setInterval>;

  constructor(options: SharedStreamOptions) {
    this.#options = options;
    this.state = new LiveState(options.capacity);
    const { locks, name, leaderSilenceMs = LEADER_SILENCE_MS } = options;
    this.#alive = setInterval(() => this.#checkLeader(), Math.min(ALIVE_MS, leaderSilenceMs / 3));
    if (locks === undefined) {
      void this.#lead();
      return;
    }
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = (event) => this.#receive((event as { data: TabMessage }).data);
    this.#post({ kind: 'hello' });
    this.#leadOrFollow();
  }

  get status(): ConnectionStatus {
    return this.#status;
  }

  /** Whether this tab reads the stream. */
  get isLeader(): boolean {
    return this.#leading !== undefined;
  }

  /** Connects at once when the stream waits or has stopped. */
  retry(): void {
    if (this.#leading === undefined) this.#post({ kind: 'retry' });
    else this.#leading.follower.retry();
  }

  /** To be called when the visibility of the tab has changed. */
  visibilityChanged(): void {
    if (this.#leading === undefined) this.#checkLeader();
    else this.#leading.flush();
  }

  close(): void {
    if (this.#closing.signal.aborted) return;
    this.#leading?.end();
    this.#closing.abort();
    clearInterval(this.#alive);
    this.#campaign?.abort();
    this.#channel?.close();
  }

  /**
   * Takes the lock when no tab has it. Otherwise this tab waits for it only once it has what the leader has: from then on
   * it can resume where the leader ends.
   */
  #leadOrFollow(): void {
    const { locks, name } = this.#options;
    if (locks === undefined || this.#closing.signal.aborted || this.#hasSynced) return;
    const again = () => {
      if (this.#hasSynced || this.#closing.signal.aborted) return;
      setTimeout(() => this.#leadOrFollow(), FIND_LEADER_MS);
    };
    locks
      .request(name, { ifAvailable: true }, async (lock) => {
        if (lock === null) return again();
        this.#hasSynced = true;
        await this.#lead();
      })
      .then(
        () => this.#hasSynced && this.#lost(undefined),
        () => this.#lost(undefined),
      );
  }

  /** Waits for the lock, or takes it. */
  #enter({ steal = false }: { readonly steal?: boolean }): void {
    const { locks, name } = this.#options;
    if (locks === undefined || this.#closing.signal.aborted) return;
    this.#campaign?.abort();
    const campaign = new AbortController();
    this.#campaign = campaign;
    const lost = () => this.#lost(campaign);
    locks.request(name, steal ? { steal } : { signal: campaign.signal }, () => this.#lead()).then(lost, lost);
  }

  /** Another tab took the lock, or this tab no longer waits for it. */
  #lost(campaign: AbortController | undefined): void {
    if (this.#closing.signal.aborted || this.#campaign !== campaign) return;
    this.#leading?.end();
    this.#heardAt = Date.now();
    this.#enter({});
  }

  /** Resolves when this tab does not read the stream any more. */
  async #lead(): Promise<void> {
    if (this.#closing.signal.aborted || this.#leading !== undefined) return;
    this.#term = Math.max(this.#term + 1, Date.now());
    const leading = new Leading(this.#options, this.state, {
      term: this.#term,
      since: this.state.position,
      initial: this.#status,
      post: (message) => this.#post(message),
      onChange: () => {
        this.#status = leading.status;
        this.#options.onChange();
      },
    });
    this.#leading = leading;
    this.#isSynced = true;
    leading.start();
    await leading.ended;
    this.#leading = undefined;
  }

  #receive(message: TabMessage): void {
    if (this.#closing.signal.aborted) return;
    if (message.kind === 'hello') void this.#leading?.postAll();
    else if (message.kind === 'retry') this.#leading?.follower.retry();
    else this.#follow(message);
  }

  #follow(message: ChangesMessage): void {
    if (message.term < this.#term) return;
    // This tab has lost the lock, which the browser reports in a moment.
    if (this.#leading !== undefined) {
      if (message.term === this.#term) return;
      this.#leading.end();
    }
    this.#heardAt = Date.now();
    const { term, since, number, snapshot, rows, gaps, reached } = message;
    let isMissing = this.#lastNumber !== undefined && number !== this.#lastNumber + 1;
    if (term > this.#term) {
      this.#term = term;
      this.#isInSnapshot = false;
      isMissing = number !== 1 || !this.#has(since);
    }
    this.#lastNumber = number;
    this.state.putChanges({ rows, gaps });
    if (isMissing) this.#askAgain();
    if (snapshot === 'first' || snapshot === 'only') this.#isInSnapshot = true;
    const isSnapshotComplete = this.#isInSnapshot && (snapshot === 'last' || snapshot === 'only');
    if (isSnapshotComplete) {
      this.#isSynced = true;
      this.#isInSnapshot = false;
      if (!this.#hasSynced) {
        this.#hasSynced = true;
        this.#enter({});
      }
    }
    if (reached !== undefined) this.#reach(reached);
    this.#options.onChange();
  }

  /** Whether everything up to where a leader resumed has been received. */
  #has(since: LogPosition | undefined): boolean {
    const { position } = this.state;
    if (since === undefined || position === undefined) return since === position;
    return !isBefore(position, since);
  }

  /** A message is missing, and with it rows. */
  #askAgain(): void {
    this.#isSynced = false;
    this.#isInSnapshot = false;
    this.#post({ kind: 'hello' });
  }

  #reach({ status, isLeaderVisible, ...reached }: Reached): void {
    this.#status = status;
    // Otherwise rows may be missing: this tab would resume from the position before.
    if (this.#isSynced) this.state.putReached(reached);
    const wasVisible = this.#isLeaderVisible;
    this.#isLeaderVisible = isLeaderVisible;
    if (wasVisible && !isLeaderVisible) this.#checkLeader();
  }

  /** Takes the lock from a leader that is hidden or silent, when this tab is visible. */
  #checkLeader(): void {
    const { leaderSilenceMs = LEADER_SILENCE_MS, isVisible } = this.#options;
    if (this.#closing.signal.aborted) return;
    if (this.#leading !== undefined) {
      this.#leading.flush();
      return;
    }
    const isSilent = Date.now() - this.#heardAt > leaderSilenceMs;
    const isHidden = !this.#isLeaderVisible && this.#hasSynced;
    if (!isVisible() || !(isHidden || isSilent)) return;
    this.#heardAt = Date.now();
    this.#isLeaderVisible = true;
    this.#hasSynced = true;
    this.#enter({ steal: true });
  }

  #post(message: TabMessage): void {
    if (!this.#closing.signal.aborted) this.#channel?.postMessage(message);
  }
}

interface LeadingContext {
  readonly term: number;
  readonly since: LogPosition | undefined;
  readonly initial: ConnectionStatus;
  post(message: TabMessage): void;
  onChange(): void;
}

/** The time in which this tab reads the stream. */
class Leading {
  readonly ended: Promise<void>;
  readonly follower: LogFollower;
  readonly #options: SharedStreamOptions;
  readonly #state: LiveState;
  readonly #context: LeadingContext;
  readonly #ending = new AbortController();
  #status: ConnectionStatus;
  #number = 0;
  #flushedAt = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isReadingGaps = false;
  #isPostingAll = false;
  #isSnapshotWanted = false;

  constructor(options: SharedStreamOptions, state: LiveState, context: LeadingContext) {
    this.#options = options;
    this.#state = state;
    this.#context = context;
    this.#status = context.initial;
    this.ended = new Promise((resolve) => this.#ending.signal.addEventListener('abort', () => resolve()));
    this.follower = new LogFollower({
      open: options.open,
      position: () => state.position,
      onConnected: (cursor) => {
        if (cursor === undefined) state.beginAnew(Date.now());
      },
      onEvents: (events) => {
        state.apply(events, Date.now());
        this.#readGaps();
        this.#changed();
      },
      onStatus: (status) => {
        this.#status = status;
        this.#changed();
      },
      pause: options.pause,
      now: Date.now,
      random: Math.random,
      silenceMs: options.silenceMs ?? SILENCE_MS,
    });
  }

  start(): void {
    this.follower.start();
  }

  get status(): ConnectionStatus {
    return this.#status;
  }

  end(): void {
    if (this.#ending.signal.aborted) return;
    this.flush();
    this.#ending.abort();
    clearTimeout(this.#timer);
    this.follower.stop();
  }

  #changed(): void {
    if (this.#ending.signal.aborted) return;
    // In a hidden tab timers are late; the next events post what waits.
    const waits = Date.now() - this.#flushedAt;
    if (waits >= BATCH_MS) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), BATCH_MS - waits);
  }

  /** Posts the changes, at least the status. */
  flush(): void {
    if (this.#ending.signal.aborted) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#flushedAt = Date.now();
    for (const message of changesMessages(this.#state.takeChanges(), this.#reached(), false)) this.#send(message);
    this.#context.onChange();
  }

  /** Posts everything, for tabs that have nothing or may have missed something. One at a time. */
  async postAll(): Promise<void> {
    this.#isSnapshotWanted = true;
    if (this.#isPostingAll) return;
    this.#isPostingAll = true;
    while (this.#isSnapshotWanted && !this.#ending.signal.aborted) {
      this.#isSnapshotWanted = false;
      await this.#postSnapshot();
    }
    this.#isPostingAll = false;
  }

  async #postSnapshot(): Promise<void> {
    const { rows, gaps } = this.#state;
    for (const message of changesMessages({ rows, gaps }, this.#reached(), true)) {
      await this.#options.pause();
      if (this.#ending.signal.aborted) return;
      // Rows may have changed since. With the last message, everything up to the position has been posted.
      const current = message.rows.map((row) => this.#state.get(row.id) ?? row);
      const isLast = message.reached !== undefined;
      if (isLast) this.flush();
      this.#send({ ...message, rows: current, ...(isLast ? { reached: this.#reached() } : {}) });
    }
  }

  #send(message: UnnumberedChanges): void {
    this.#number += 1;
    const { term, since } = this.#context;
    this.#context.post({ ...message, term, since, number: this.#number });
  }

  #reached(): Reached {
    const { position, rate, lastAt, clockAhead } = this.#state;
    return { position, rate, lastAt, clockAhead, status: this.#status, isLeaderVisible: this.#options.isVisible() };
  }

  #readGaps(): void {
    if (this.#isReadingGaps || this.#state.loadingGaps.length === 0) return;
    this.#isReadingGaps = true;
    const { readLog, filter, pausesMs } = this.#options;
    readMissed({
      ...{ readLog, filter, pausesMs, state: this.#state, signal: this.#ending.signal },
      onChange: () => this.#changed(),
    }).finally(() => {
      this.#isReadingGaps = false;
      if (!this.#ending.signal.aborted) this.#readGaps();
    });
  }
}
