/** The reload of the configuration of a running gateway: one at a time, on a signal, on request, or after another gateway. */
import type { Logger } from 'pino';
import { z } from 'zod';
import type { Config } from '../config/config.ts';
import type { ConfigurationChange, RunningConfiguration } from '../config/reload.ts';
import { type configurationReloaded, reloadOrigins } from '../events/catalogue/gateway.ts';
import type { EventContext } from '../events/event.ts';
import { LogUnavailable } from '../events/log.ts';

const reloadCause = z.object({ origin: z.enum(reloadOrigins), context: z.custom<EventContext>() });

/** Why the configuration is read again, and in whose name. */
export type ReloadCause = z.infer<typeof reloadCause>;

/** The content of the event of a reload. */
export interface ReloadRecord {
  readonly data: z.infer<typeof configurationReloaded.data>;
  readonly context: EventContext;
}

/** Nothing has changed where there are problems. `temporary`: the settings are not the reason. */
export type ReloadOutcome =
  | ConfigurationChange
  | { readonly problems: readonly string[]; readonly temporary?: boolean };

export type Reload = (cause: ReloadCause) => Promise<ReloadOutcome>;

export const bySignal: ReloadCause = { origin: 'signal', context: { actor: 'system' } };

/** A reload that can succeed later with the same settings. */
export class ReloadDelayed extends Error {}

const MAX_WAITING = 32;

/**
 * @param apply records the change and puts `config` in force. Rejects when that is not possible; nothing has changed then
 * @returns a function that reads the configuration again, once for each call and one at a time. It never rejects
 */
export function createReload(
  running: RunningConfiguration,
  apply: (config: Config, record: ReloadRecord) => Promise<void>,
  logger: Logger,
): Reload {
  let last: Promise<unknown> = Promise.resolve();
  let waiting = 0;

  async function reload({ origin, context }: ReloadCause): Promise<ReloadOutcome> {
    const { notices } = running.config;
    try {
      const read = running.read();
      if (!read.ok) return { problems: read.problems };
      await apply(read.config, { data: { origin, ...read.change }, context });
      read.accept();
      logger.level = read.config.logLevel;
      for (const notice of read.config.notices) if (!notices.includes(notice)) logger.warn(notice);
      return read.change;
    } catch (error) {
      const { problem, temporary } = reloadFailure(error);
      return { problems: [problem], temporary };
    }
  }

  return async (cause) => {
    if (waiting >= MAX_WAITING) return { problems: ['other reloads are waiting; try again'], temporary: true };
    waiting += 1;
    const outcome = last.then(() => reload(cause));
    last = outcome;
    const reached = await outcome;
    waiting -= 1;
    report(reached, logger);
    return reached;
  };
}

export function reloadFailure(error: unknown) {
  const problem = error instanceof Error ? error.message : String(error);
  return { problem, temporary: error instanceof ReloadDelayed || error instanceof LogUnavailable };
}

function report(outcome: ReloadOutcome, logger: Logger): void {
  if ('problems' in outcome) {
    logger.error(`the configuration was not reloaded, and nothing has changed: ${outcome.problems.join('; ')}`);
    return;
  }
  const { changed, needsRestart } = outcome;
  logger.info(
    `the configuration was reloaded; changed: ${changed.map(({ setting }) => setting).join(', ') || 'nothing'}`,
  );
  if (needsRestart.length > 0) logger.warn(`these settings change at the next start: ${needsRestart.join(', ')}`);
}

/** A part of the gateway whose settings can change. */
export interface LivePart {
  /**
   * @returns a function that puts the settings of `next` in force
   * @throws Error that names an invalid setting
   */
  prepareReload(next: Config): () => unknown;
}

interface LiveParts {
  /** The configuration of this gateway, from which all its parts read. */
  readonly config: Config;
  readonly workflows: { prepareReload(next: Config): () => Promise<void> };
  readonly others: readonly LivePart[];
  record(reload: ReloadRecord): Promise<void>;
}

/**
 * @returns a function that checks all parts of `next`, records the change, and puts it in force. It rejects when a part is
 * invalid, or the log cannot be written
 */
export function createConfigure({ config, workflows, others, record }: LiveParts) {
  return async (next: Config, reload?: ReloadRecord): Promise<void> => {
    const followWorkflows = workflows.prepareReload(next);
    const follow = others.map((part) => part.prepareReload(next));
    await followWorkflows();
    if (reload !== undefined) await record(reload);
    // Parts that hold no settings read them here for each request.
    Object.assign(config, next);
    for (const one of follow) await one();
  };
}

export type Configure = ReturnType<typeof createConfigure>;
