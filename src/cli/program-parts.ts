import type { Config } from '../config/config.ts';
import type { GuardrailSecrets } from '../config/print.ts';
import type { ProviderTypes } from '../config/schema.ts';
import type { RecordedEvent } from '../events/event.ts';
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
