/** The admin API of a running gateway, for commands that change something there. */
import { isObject } from '../json/is-object.ts';
import { type ParsedArguments, UsageError } from './command.ts';
import { configInForce, type ProgramParts } from './program-parts.ts';
import { complain, type Terminal } from './terminal.ts';

/** What the gateway returned, or why it refused. */
export type AdminAnswer = { readonly json: unknown } | { readonly problem: string };
export type AdminApi = (method: string, path: string, sent?: unknown) => Promise<AdminAnswer>;

/** @throws UsageError for text that is not an address */
export function adminApi(gateway: string, key: string | undefined): AdminApi {
  if (!URL.canParse(gateway) || !/^https?:$/.test(new URL(gateway).protocol)) {
    throw new UsageError(`--gateway: expected an address like http://127.0.0.1:8080, got "${gateway}"`);
  }
  return async (method, path, sent) => {
    const headers = {
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
      ...(sent !== undefined && { 'content-type': 'application/json' }),
    };
    const url = `${gateway.replace(/\/$/, '')}${path}`;
    const answer = await fetch(url, { method, headers, ...(sent !== undefined && { body: JSON.stringify(sent) }) });
    const json: unknown = await answer.json().catch(() => undefined);
    if (answer.ok) return { json };
    const error = isObject(json) && isObject(json['error']) ? json['error'] : {};
    const { message = `status ${answer.status}`, param = null } = error;
    return { problem: problemText(String(message), typeof param === 'string' ? param : null) };
  };
}

export function problemText(problem: string, param: string | null): string {
  return param === null ? problem : `${param}: ${problem}`;
}

/** The key of the configuration; undefined with its problems printed. */
export async function configuredKey(
  args: ParsedArguments,
  parts: Pick<ProgramParts, 'env' | 'cwd' | 'providerTypes' | 'masterKey'>,
  terminal: Terminal,
): Promise<{ readonly key: string | undefined } | undefined> {
  const config = await configInForce(args, parts, terminal);
  return config === undefined ? undefined : { key: await parts.masterKey(config) };
}

/** Runs what calls a gateway; prints when it does not answer. */
export async function withAnswers(gateway: string, terminal: Terminal, run: () => Promise<number>): Promise<number> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const { cause } = error;
    const why = cause instanceof Error ? cause.message : error.message;
    complain(terminal, `the gateway at ${gateway} does not answer: ${why}`);
    return 1;
  }
}
