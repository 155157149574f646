/** Failures of requests to authorization servers, in words of the gateway and without the secrets of the requests. */
import { type Refusal, refusals } from '../commands/refusal.ts';
import { redactorOf } from '../providers/redact.ts';
import type { OAuthServer } from './oauth-client.ts';
import { reasonOf } from './server-secrets.ts';

const MAX_PROBLEM = 500;

/** Answers after which only a new grant helps. */
const finalErrors: ReadonlySet<string> = new Set(['invalid_grant', 'invalid_client', 'unauthorized_client']);

/** Why an authorization server gave no tokens, without secrets. */
export class AuthorizationFailure extends Error {
  /** Only a new grant helps. */
  readonly isFinal: boolean;

  constructor(message: string, isFinal: boolean) {
    super(message);
    this.isFinal = isFinal;
  }
}

/**
 * Runs requests to other servers.
 * @param secrets that the requests contain
 * @throws AuthorizationFailure
 */
export async function attempt<Result>(
  { slug, oauth }: OAuthServer,
  secrets: readonly (string | undefined)[],
  run: () => Promise<Result>,
): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    const redact = redactorOf([...secrets, oauth.clientSecret].filter((one) => one !== undefined));
    const why = oneLine(redact(reasonOf(error)));
    const isFinal = error instanceof Error && 'code' in error && finalErrors.has(String(error.code));
    throw new AuthorizationFailure(`the authorization at the MCP server '${slug}' failed: ${why}`, isFinal);
  }
}

/** @throws what is no such failure */
export function asFailure(error: unknown): AuthorizationFailure {
  if (error instanceof AuthorizationFailure) return error;
  throw error;
}

/** @throws Refusal 502 */
export async function orBadAnswer<Result>(server: OAuthServer, requested: Promise<Result>): Promise<Result> {
  try {
    return await requested;
  } catch (error) {
    throw badAnswer(server, asFailure(error));
  }
}

export function badAnswer({ slug }: OAuthServer, { message }: AuthorizationFailure): Refusal {
  const sentence = `${message.charAt(0).toUpperCase()}${message.slice(1)}.`;
  return refusals.badAnswer(slug, sentence, 'mcp_authorization_failed');
}

/** A text of another server in one line of an error. */
export function oneLine(text: string): string {
  return text
    .replace(/\s+/g, ' ')
    .replace(/[^\x20-\x7e]/g, '?')
    .slice(0, MAX_PROBLEM);
}
