import type { ProviderTypes } from '../config/schema.ts';

/** What the command line needs of the program around it. */
export interface ProgramParts {
  readonly version: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string;
  /** Loaded only by the commands that need it. */
  readonly providerTypes: () => Promise<ProviderTypes>;
  /** Runs the gateway until it stops; resolves to the exit code. Flags are named as in `ConfigSources.flags`. */
  readonly serve: (flags: Readonly<Record<string, string | undefined>>) => Promise<number>;
  /** Projects the log into ClickHouse until it is stopped; resolves to the exit code. Flags as for `serve`. */
  readonly analytics: (flags: Readonly<Record<string, string | undefined>>) => Promise<number>;
}
