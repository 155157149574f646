/** Saves the counts of rate limits among the snapshots of the read models: they are derived from the log. */
import { z } from 'zod';
import { rateLimitRemoved, rateLimitReset, rateLimitSet } from '../events/catalogue/budget.ts';
import type { Position } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { isA, type Projection } from './projection.ts';
import { logIdOf, saveBound } from './snapshot-basis.ts';
import type { ViewStore } from './view-store.ts';

/** The rate limit rules. The counts of their windows are kept by the counting component. */
const savedRule = z.object({
  scope: z.enum(['user_path', 'provider', 'model']),
  subject: z.string(),
  /** 0 limits concurrent requests. */
  periodSeconds: z.number(),
  /** Null: not limited. */
  maxRequests: z.number().nullable(),
  maxTokens: z.number().nullable(),
  source: z.enum(['manual', 'config']),
  /** Milliseconds since the epoch, like all times here. */
  createdAt: z.number(),
  updatedAt: z.number(),
  lastResetAt: z.number().optional(),
});

export type RateLimitRule = Readonly<z.infer<typeof savedRule>>;
export type RateLimitScope = RateLimitRule['scope'];

export interface RateLimitsState {
  readonly rules: Map<string, RateLimitRule>;
  /** The newest revision of each stream that these came from, by its scope and subject. */
  readonly revisions: Map<string, string>;
  /** Counts the changes, so that a caller can detect whether the rules changed since its last read. */
  changes: number;
}

/** The key of a rule in `rules`: `user_path:/team 60`. */
export function rateLimitKey(scope: RateLimitScope, subject: string, periodSeconds: number): string {
  return `${scope}:${subject} ${periodSeconds}`;
}

const savedRateLimits = z.object({
  rules: z.array(savedRule),
  revisions: z.array(z.tuple([z.string(), z.string()])),
});

export const rateLimitsView: Projection<RateLimitsState> = {
  name: 'rate-limits',
  version: 1,
  filter: { types: ['rate_limit.'] },
  initial: () => ({ rules: new Map(), revisions: new Map(), changes: 0 }),
  apply(state, event) {
    if (!isA(event, rateLimitSet) && !isA(event, rateLimitRemoved) && !isA(event, rateLimitReset)) return state;
    const { scope, subject, periodSeconds } = event.data;
    const key = rateLimitKey(scope, subject, periodSeconds);
    const rule = state.rules.get(key);
    if (isA(event, rateLimitSet)) {
      const { createdAt = event.at, lastResetAt } = rule ?? {};
      state.rules.set(key, { ...event.data, createdAt, updatedAt: event.at, lastResetAt });
    } else if (isA(event, rateLimitRemoved)) {
      state.rules.delete(key);
    } else if (rule !== undefined) {
      state.rules.set(key, { ...rule, lastResetAt: event.at });
    }
    state.revisions.set(`${scope}:${subject}`, String(event.revision));
    state.changes += 1;
    return state;
  },
  save: ({ rules, revisions }) => ({ rules: [...rules.values()], revisions: [...revisions] }),
  load(saved) {
    const { rules, revisions } = savedRateLimits.parse(saved);
    return {
      rules: new Map(rules.map((rule) => [rateLimitKey(rule.scope, rule.subject, rule.periodSeconds), rule])),
      revisions: new Map(revisions),
      changes: 0,
    };
  },
};

/** The newest revision of the stream that holds the rules of a subject; undefined when there never was one. */
export function rateLimitRevision(state: RateLimitsState, scope: RateLimitScope, subject: string): string | undefined {
  return state.revisions.get(`${scope}:${subject}`);
}

const window = z.array(z.tuple([z.number(), z.number()]));
const saved = z.object({
  gauges: z.array(z.object({ key: z.string(), resetAt: z.number().optional(), requests: window, tokens: window })),
  open: z.array(z.string()),
});

type Saved = z.infer<typeof saved>;

/** The same, read-only. */
export interface LimitCounts {
  readonly gauges: readonly {
    readonly key: string;
    readonly resetAt?: number | undefined;
    readonly requests: readonly (readonly [number, number])[];
    readonly tokens: readonly (readonly [number, number])[];
  }[];
  /** Exchanges under way. */
  readonly open: readonly string[];
}

export interface LimitMemoryStoreOptions {
  readonly log: EventLog;
  readonly views: ViewStore;
  readonly onError: (error: unknown) => void;
  /** Everything up to it is counted. Default: the end of the log. */
  readonly position?: () => Position;
  /** Default 5000. */
  readonly saveEveryMs?: number;
}

const NAME = 'rate-limit-windows';
const VERSION = 1;

export class LimitMemoryStore {
  readonly #options: LimitMemoryStoreOptions;
  #timer: NodeJS.Timeout | undefined;
  #counts: (() => LimitCounts) | undefined;
  #saved: { readonly state: string; readonly position: Position } | undefined;

  constructor(options: LimitMemoryStoreOptions) {
    this.#options = options;
  }

  /** @returns undefined when there are no counts of this log */
  async load(): Promise<(Saved & { readonly position: Position }) | undefined> {
    const { log, views } = this.#options;
    const snapshot = views.load(NAME);
    if (snapshot === undefined || snapshot.version !== VERSION) return undefined;
    if (snapshot.logId !== (await logIdOf(log)) || snapshot.position > (await log.head())) return undefined;
    const parsed = saved.safeParse(JSON.parse(snapshot.state));
    return parsed.success ? { ...parsed.data, position: snapshot.position } : undefined;
  }

  /** Begins to save the counts regularly, when there are any. */
  begin(counts: () => LimitCounts): void {
    this.#counts = counts;
    const { saveEveryMs = 5000, onError } = this.#options;
    this.#timer = setInterval(() => void this.#save().catch(onError), saveEveryMs);
    this.#timer.unref();
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#save();
  }

  async #save(): Promise<void> {
    const { log, views } = this.#options;
    // First the position, then the counts: an event between the two may be counted twice, but is never left out.
    const position = this.#options.position?.() ?? (await log.head());
    const counts = this.#counts?.();
    if (counts === undefined) return;
    const before = this.#saved;
    if (before === undefined && counts.gauges.length === 0) return;
    const state = JSON.stringify(counts);
    const isSame = state === before?.state;
    if (isSame && position === before?.position) return;
    const logId = await logIdOf(log);
    if (logId === undefined) return;
    // The position is saved also when the counts are unchanged, so that the next start has little to read.
    const snapshot = { name: NAME, version: VERSION, logId, position, ...(isSame ? {} : { state }) };
    if ((await saveBound(log, views, [snapshot])) !== undefined) this.#saved = { state, position };
  }
}
