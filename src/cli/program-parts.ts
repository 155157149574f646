import type { Config } from '../config/config.ts';
import type { GuardrailSecrets } from '../config/print.ts';
import type { ProviderTypes } from '../config/schema.ts';
import type { RecordedEvent } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import type { AnalyticsProgress } from './views-status.ts';

/** Functions of the program that the command line calls. */
export interface ProgramParts {
  readonly version: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Loaded only by the commands that need it. */
  readonly providerTypes: () => Promise<ProviderTypes>;
  /** The settings of guardrail types that are secrets. Loaded only by the commands that need it. */
  readonly guardrailSecrets: () => Promise<GuardrailSecrets>;
  /** Runs the gateway until it stops; resolves to the exit code. Flags are named as in `ConfigSources.flags`. */
  readonly serve: (flags: Readonly<Record<string, string | undefined>>) => Promise<number>;
  /** Projects the log into ClickHouse until it is stopped; resolves to the exit code. Flags as for `serve`. */
  readonly analytics: (flags: Readonly<Record<string, string | undefined>>) => Promise<number>;
  /** Writes a Parquet file. @throws an error with a code where that is not possible */
  readonly writeParquet: (events: AsyncIterable<RecordedEvent>, path: string) => Promise<void>;
  /** Rebuilds the tables of analytics, only after `from` when it is given; resolves to their last position. */
  readonly rebuildAnalytics: (config: Config, options: AnalyticsRebuild) => Promise<string>;
  /** Creates the account of analysts on the ClickHouse server; resolves to its forbidden rights. */
  readonly setUpAnalyst: (config: Config, options: AnalystSetup) => Promise<readonly string[]>;
  /**
   * Runs a draft over the requests of a log, without calls of models and servers. Returns early when the signal is
   * aborted, with the result so far.
   */
  readonly replayGuardrails: (
    config: Config,
    log: EventLog,
    options: LocalReplay,
  ) => Promise<ReplayReport | ReplayProblem>;
  /** The master key in the configuration or in the data folder; undefined when there is none. */
  readonly masterKey: (config: Config) => Promise<string | undefined>;
  readonly announcedPosition: (config: Config) => Promise<AnalyticsProgress>;
}

export interface AnalystSetup {
  readonly admin: { readonly user: string; readonly password: string } | undefined;
  readonly onStep: (step: string) => void;
}

export interface AnalyticsRebuild {
  readonly from: number | undefined;
  readonly signal: AbortSignal;
  readonly onProgress: (position: string, head: string) => void;
}

export interface LocalReplay {
  /** The body of `POST /admin/guardrails/replay`. */
  readonly body: unknown;
  readonly signal: AbortSignal;
  /** From 0 to 1. */
  readonly onProgress: (done: number) => void;
}

/** Why something cannot be done; the member of the request at fault when it is known. */
export interface ReplayProblem {
  readonly problem: string;
  readonly param: string | null;
}

/** The result of a replay as the admin API returns it. */
export interface ReplayReport {
  readonly requests: number;
  readonly verdicts: Readonly<Record<string, number>>;
  readonly not_evaluated: Readonly<Record<string, number>>;
  readonly answers_not_evaluated: Readonly<Record<string, number>>;
  readonly other_workflow: number;
  readonly without_earlier_turns: number;
  readonly guardrails: readonly {
    readonly guardrail: string;
    readonly phase: string;
    readonly runs: number;
    readonly verdicts: Readonly<Record<string, number>>;
    readonly edited: number;
    readonly average_ms: number;
    readonly longest_ms: number;
  }[];
  readonly examples: readonly {
    readonly verdict: string;
    readonly exchange_id: string;
    readonly guardrail?: string | undefined;
    readonly phase?: string | undefined;
    readonly code?: string | undefined;
  }[];
  readonly sample?:
    | {
        readonly state: string;
        readonly evaluated: number;
        readonly calls: number;
        readonly estimated_cost: number | null;
        readonly cost: number | null;
      }
    | undefined;
  readonly truncated_at?: string | undefined;
}
