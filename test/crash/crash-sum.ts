/** What crash rounds did, and what they found. */
import type { EngineSum } from './engine-rounds.ts';
import type { Violation } from './evidence.ts';
import type { Fault } from './faults.ts';

export interface CrashSum {
  rounds: number;
  kills: number;
  /** Starts that were killed or stopped, mostly before the gateway had come up. */
  endedStarts: number;
  gracefulStops: number;
  /** Rounds with each fault. */
  faults: Record<Fault, number>;
  requests: number;
  wholeAnswers: number;
  cutAnswers: number;
  bytes: number;
  providerCalls: number;
  events: number;
  /** Exchanges that were open when the gateway was killed. */
  openAtKill: number;
  /** Background responses that were accepted. */
  promises: number;
  /** Turns over WebSockets whose end has arrived. */
  socketTurns: number;
  /** Whole answers to requests whose workflow has guardrails. */
  guarded: number;
  /** Versions of workflows with guardrails that were acknowledged. */
  workflows: number;
  /** Answers from the response cache, answers that were offered to later requests, and acknowledged purges. */
  hits: number;
  cached: number;
  purges: number;
  /** Signals to read the settings again, under load. */
  reloads: number;
  /** Kills of the plugin's process while its gateway ran. */
  pluginKills: number;
  /** Requests refused because the plugin did not run. */
  pluginFailures: number;
  /** Whole answers to requests that the plugin changed. */
  pluginAnswers: number;
  /** Idempotency keys under which a whole answer was given. */
  keys: number;
  /** Faults of the engine; undefined when the log is files. */
  engine: EngineSum | undefined;
  violations: Violation[];
}

export function emptySum(): CrashSum {
  return {
    rounds: 0,
    kills: 0,
    endedStarts: 0,
    gracefulStops: 0,
    faults: { 'missing segment': 0, 'full disk': 0, 'failing sync': 0 },
    requests: 0,
    wholeAnswers: 0,
    cutAnswers: 0,
    bytes: 0,
    providerCalls: 0,
    events: 0,
    openAtKill: 0,
    promises: 0,
    socketTurns: 0,
    hits: 0,
    cached: 0,
    purges: 0,
    reloads: 0,
    pluginKills: 0,
    pluginFailures: 0,
    pluginAnswers: 0,
    keys: 0,
    guarded: 0,
    workflows: 0,
    engine: undefined,
    violations: [],
  };
}
