/** What the program gives its commands, and the configuration, folder and log that a command works on. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/load-config.ts';
import { engineAccess, type LogConfig } from '../config/log-settings.ts';
import { maskLogUrl } from '../config/mask.ts';
import type { GuardrailSecrets } from '../config/print.ts';
import { describeProblem } from '../config/problem.ts';
import type { ProviderTypes } from '../config/schema.ts';
import { LogLocked } from '../events/embedded/log-errors.ts';
import type { RecordedEvent } from '../events/event.ts';
import type { EventLog } from '../events/log.ts';
import { directoryOf, openLog } from '../events/open-log.ts';
import { type ParsedArguments, UsageError } from './command.ts';
import { complain, type Terminal } from './terminal.ts';

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
  /** Checks what the gateway needs of this machine. */
  readonly examine: (examined: Examined) => Promise<readonly Finding[]>;
  readonly announcedPosition: (config: Config) => Promise<AnalyticsProgress>;
}

export interface Examined {
  readonly config: Config;
  /** The settings in the form of chancery.yaml. */
  readonly settings: unknown;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Whether the model list of each provider is requested once. */
  readonly callsProviders: boolean;
}

export interface Finding {
  readonly check: string;
  /** With a `problem` the gateway does not start or does not serve. */
  readonly status: 'ok' | 'warning' | 'problem';
  readonly message: string;
  readonly advice?: string | undefined;
}

/** The position that the analytics process has reached, or why it is not known. */
export type AnalyticsProgress = { readonly position: number } | { readonly unknown: string };

interface AnalystSetup {
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

/** The configuration that the gateway would use, given the same flags, variables and file; prints its problems. */
export async function configInForce(
  args: ParsedArguments,
  { env, cwd, providerTypes }: Pick<ProgramParts, 'env' | 'cwd' | 'providerTypes'>,
  terminal: Terminal,
): Promise<Config | undefined> {
  const loaded = loadConfig({ flags: args.values, env, cwd, providerTypes: await providerTypes() });
  if (loaded.ok) return loaded.config;
  for (const problem of loaded.problems) complain(terminal, describeProblem(problem));
  return undefined;
}

/**
 * The folder of the log that the gateway would use; prints an error when there is none, or the log has no files. Of a log
 * on an engine it is that of the replica, which must not be written.
 */
export async function logDirectoryOf(
  args: ParsedArguments,
  parts: ProgramParts,
  terminal: Terminal,
  mode: 'read' | 'write' = 'read',
): Promise<string | undefined> {
  const log = (await configInForce(args, parts, terminal))?.log;
  if (log === undefined) return undefined;
  if (mode === 'write' && log.engine !== undefined) {
    const { folder } = log.engine;
    complain(
      terminal,
      `${folder} is the replica of a log on an engine: stop the gateway and remove it to read it again`,
    );
    return undefined;
  }
  const url = log.readUrl;
  if (!url.startsWith('file:')) {
    complain(terminal, 'this command requires a log in files (file:…)');
    return undefined;
  }
  const directory = directoryOf(url);
  if (existsSync(directory)) return directory;
  complain(terminal, `there is no event log in ${directory}`);
  return undefined;
}

/** A folder on the command line: a path, or `file:` and a path. */
export function folderFrom(typed: string, { cwd }: Pick<ProgramParts, 'cwd'>): string {
  if (typed === '' || typed === 'file:') throw new UsageError('expected a folder, got an empty text');
  return path.resolve(cwd, typed.startsWith('file:') ? directoryOf(typed) : typed);
}

/**
 * Opens the log to read it beside a running gateway, or to write it as its only writer; a log on an engine is then read to
 * its end. Prints the reason and returns undefined when that fails, also while a gateway uses a log that is to be written.
 */
export async function openConfiguredLog(
  log: LogConfig,
  mode: 'read' | 'write',
  terminal: Terminal,
): Promise<EventLog | undefined> {
  if (mode === 'write' && log.readUrl.startsWith('file:') && !existsSync(directoryOf(log.readUrl))) {
    complain(terminal, `there is no event log in ${directoryOf(log.readUrl)}`);
    return undefined;
  }
  try {
    return await (mode === 'read' ? openLog(log.readUrl, { readOnly: true }) : openToWrite(log, terminal));
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    const advice = error instanceof LogLocked ? '; stop the gateway first: it holds the views in memory' : '';
    complain(
      terminal,
      `the log ${maskLogUrl(mode === 'read' ? log.readUrl : log.url)} cannot be opened: ${why}${advice}`,
    );
    return undefined;
  }
}

async function openToWrite({ url, engine }: LogConfig, terminal: Terminal): Promise<EventLog> {
  if (engine === undefined) return openLog(url);
  const { openReplicatedLog } = await import('../events/open-replicated-log.ts');
  return openReplicatedLog({
    ...engineAccess(url, engine),
    dir: engine.folder,
    signal: terminal.signal,
    onDelay: (reason) => complain(terminal, `waiting: ${reason}`),
  });
}
