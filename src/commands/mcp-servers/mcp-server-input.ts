/** An MCP server of an administrator: from the input to the stored form with sealed secrets, and to the form in use. */
import type { z } from 'zod';
import type { mcpServerSaved } from '../../events/catalogue/mcp-server.ts';
import type { UserPath } from '../../events/event.ts';
import { MAX_SLUG, type McpOAuth, type McpServer, slugOf, slugPattern } from '../../mcp/mcp-server.ts';
import { keyIdOf, type Sealer } from '../credentials/credential.ts';
import { isMask, readUrl } from '../credentials/credential-fields.ts';
import type { SealerSource } from '../credentials/sealed-credentials.ts';
import { refusals } from '../refusal.ts';

/** The complete definition; its secrets are sealed. */
export type StoredMcpServer = z.infer<typeof mcpServerSaved.data>;

/** Shown in place of a secret. */
export const MCP_SECRET_MASK = '***';

export interface McpServerInput {
  readonly name: string;
  /** Default: derived from the name. */
  readonly slug?: string | undefined;
  readonly transport?: StoredMcpServer['transport'] | undefined;
  readonly url: string;
  /** A mask keeps the stored value. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly description?: string | undefined;
  readonly enabled?: boolean | undefined;
  readonly allowedTools?: readonly string[] | undefined;
  readonly disallowedTools?: readonly string[] | undefined;
  readonly userPaths?: readonly UserPath[] | undefined;
  readonly toolTimeoutSeconds: number;
  readonly pin?: boolean | undefined;
  readonly pricePerCall?: number | undefined;
  readonly oauth?: (Omit<McpOAuth, 'perUserPath'> & { readonly perUserPath?: boolean | undefined }) | undefined;
}

/** Headers of the connection, of the body and of the protocol, which the gateway sets itself. */
const reservedHeader =
  /^(?:host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|expect|content-.*|accept|accept-encoding|mcp-.*|last-event-id)$/;

/** @returns the name in lower case, or what is wrong with the header */
export function mcpHeader(name: string, value: string): { readonly name: string } | { readonly problem: string } {
  const lower = name.toLowerCase();
  if (!/^[\w!#$%&'*+.^`|~-]+$/.test(lower)) return { problem: 'it is not the name of a header' };
  if (reservedHeader.test(lower)) return { problem: 'the gateway sets it' };
  if (!/^[\x20-\x7e]*$/.test(value)) return { problem: 'its value must have visible ASCII characters only' };
  return { name: lower };
}

/** The slug that was given, or that of the name. @throws Refusal 400 */
export function mcpSlug(given: string | undefined, name: string): string {
  const slug = given || slugOf(name);
  if (slug === undefined) {
    throw refusals.invalidRequest("'slug' is missing, and 'name' has no letter or digit to make it of.", 'slug');
  }
  if (slug.length <= MAX_SLUG && slugPattern.test(slug)) return slug;
  const what = `lower-case letters, digits and '-' between them, up to ${MAX_SLUG}`;
  throw refusals.invalidRequest(`'slug' must have ${what}.`, 'slug');
}

/** Why a definition cannot be used, with the member at fault; undefined when it can. */
export function oauthProblem({ oauth, headers }: Pick<McpServer, 'oauth' | 'headers'>) {
  if (oauth === undefined) return undefined;
  const { grant, clientId, clientSecret, perUserPath } = oauth;
  if (Object.keys(headers).some((name) => name.toLowerCase() === 'authorization')) {
    return { member: 'headers', problem: "the header 'authorization' is that of the token, because 'oauth' is set" };
  }
  if (clientSecret !== undefined && clientId === undefined) {
    return { member: 'oauth.client_id', problem: 'it is missing, and there is a client secret' };
  }
  if (grant === 'authorization_code') return undefined;
  if (clientId === undefined || clientSecret === undefined) {
    return { member: 'oauth.client_id', problem: 'client credentials need a client id and a client secret' };
  }
  if (!perUserPath) return undefined;
  return { member: 'oauth.per_user_path', problem: 'client credentials are the same for every user path' };
}

/**
 * The definition that is stored.
 * @param before the stored one, from which masked secrets are kept
 * @throws Refusal 400 that names the member, 503 when there is no key to seal with
 */
export function mcpServerFrom(
  input: McpServerInput,
  before: StoredMcpServer | undefined,
  sealers: Pick<SealerSource, 'toSeal'>,
): StoredMcpServer {
  const slug = mcpSlug(input.slug, input.name);
  const keep = keeper(slug, before, sealers);
  const { description, allowedTools, disallowedTools, userPaths, pricePerCall, oauth } = input;
  const headers = Object.entries(input.headers ?? {}).map(([given, value]) => {
    const header = mcpHeader(given, value);
    if ('problem' in header) {
      throw refusals.invalidRequest(`The header '${given.slice(0, 100)}': ${header.problem}.`, 'headers');
    }
    return [header.name, keep(`headers.${header.name}`, value, before?.sealedHeaders[header.name])] as const;
  });
  const sealedHeaders = Object.fromEntries(headers);
  if (Object.keys(sealedHeaders).length < headers.length) {
    throw refusals.invalidRequest("'headers' has a header twice, in different case.", 'headers');
  }
  const withDefault = oauth && { ...oauth, perUserPath: oauth.perUserPath ?? false };
  const refused = oauthProblem({ oauth: withDefault, headers: sealedHeaders });
  if (refused !== undefined) {
    throw refusals.invalidRequest(`'${refused.member}': ${refused.problem}.`, refused.member);
  }
  return {
    slug,
    name: input.name,
    transport: input.transport ?? 'streamable_http',
    ...urlOf(input.url, before, keep),
    sealedHeaders,
    ...(description ? { description } : {}),
    enabled: input.enabled ?? true,
    ...(allowedTools === undefined ? {} : { allowedTools: [...new Set(allowedTools)] }),
    ...(disallowedTools === undefined || disallowedTools.length === 0
      ? {}
      : { disallowedTools: [...new Set(disallowedTools)] }),
    ...(userPaths === undefined || userPaths.length === 0 ? {} : { userPaths: [...new Set(userPaths)] }),
    toolTimeoutSeconds: input.toolTimeoutSeconds,
    pin: input.pin ?? false,
    ...(pricePerCall === undefined ? {} : { pricePerCall }),
    ...(withDefault === undefined ? {} : { oauth: storedOAuth(withDefault, before, keep) }),
  };
}

/** Seals a secret, or returns the stored one when a mask was sent. @throws Refusal */
type Keep = (field: string, given: string, stored: string | undefined) => string;

function keeper(slug: string, before: StoredMcpServer | undefined, sealers: Pick<SealerSource, 'toSeal'>): Keep {
  let sealer: Sealer | undefined;
  return (field, given, stored) => {
    sealer ??= sealerOf(sealers);
    if (!isMask(given)) return sealer.seal(sealingPlace(slug), field, given);
    if (before === undefined || stored === undefined) {
      throw refusals.invalidRequest(`'${field}' is a mask, but no secret is stored for it.`, field);
    }
    if (keyIdOf(stored) === sealer.keyId) return stored;
    const why = 'the stored secret was encrypted with a key that is no longer available: send the secret again';
    throw refusals.invalidRequest(`'${field}' is a mask, and ${why}.`, field);
  };
}

/** @throws Refusal 503 */
function sealerOf(sealers: Pick<SealerSource, 'toSeal'>): Sealer {
  try {
    return sealers.toSeal();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw refusals.featureUnavailable(`Nothing can be stored: ${why}.`);
  }
}

/** A masked address must equal the stored one in all visible parts, so that its secret is not sent to another host. */
function urlOf(
  text: string,
  before: StoredMcpServer | undefined,
  keep: Keep,
): Pick<StoredMcpServer, 'url' | 'sealedUrl'> {
  const url = readUrl(text);
  if (url === undefined || text.includes('#')) {
    throw refusals.invalidRequest("'url' must be an address that begins with http:// or https://.", 'url');
  }
  const { shown, hasSecret, isMasked } = url;
  if (!hasSecret) return { url: shown };
  const stored = before?.url === shown ? before.sealedUrl : undefined;
  return { url: shown, sealedUrl: isMasked ? keep('url', MCP_SECRET_MASK, stored) : keep('url', text, undefined) };
}

function storedOAuth(
  { clientSecret, ...oauth }: McpOAuth,
  before: StoredMcpServer | undefined,
  keep: Keep,
): StoredMcpServer['oauth'] {
  const { clientId, scope, issuer, ...rest } = oauth;
  const stored = before?.oauth;
  // The secret of another client is no secret of this one.
  const kept = stored?.clientId === clientId ? stored?.sealedClientSecret : undefined;
  return {
    ...rest,
    ...(clientId === undefined ? {} : { clientId }),
    ...(clientSecret === undefined ? {} : { sealedClientSecret: keep('oauth.client_secret', clientSecret, kept) }),
    ...(scope === undefined ? {} : { scope }),
    ...(issuer === undefined ? {} : { issuer }),
  };
}

/** The place to which the secrets of a server are sealed. No provider can have this name. */
function sealingPlace(slug: string): string {
  return `mcp-server:${slug}`;
}

/** The server with its secrets. @throws Error with the reason why one cannot be opened */
export function openMcpServer(stored: StoredMcpServer, sealers: Pick<SealerSource, 'toOpen'>): McpServer {
  const { sealedHeaders, sealedUrl, oauth, ...rest } = stored;
  const open = (field: string, sealed: string): string => {
    try {
      return sealers.toOpen().open(sealingPlace(stored.slug), field, sealed);
    } catch (error) {
      throw new Error(`its ${field} cannot be opened: ${error instanceof Error ? error.message : String(error)}`);
    }
  };
  const headers = Object.entries(sealedHeaders).map(([name, sealed]) => [name, open(`headers.${name}`, sealed)]);
  return {
    ...rest,
    ...(sealedUrl === undefined ? {} : { url: open('url', sealedUrl) }),
    headers: Object.fromEntries(headers),
    ...(oauth === undefined ? {} : { oauth: openOAuth(oauth, open) }),
    managed: false,
  };
}

function openOAuth(
  { sealedClientSecret, ...oauth }: NonNullable<StoredMcpServer['oauth']>,
  open: (field: string, sealed: string) => string,
): McpOAuth {
  if (sealedClientSecret === undefined) return oauth;
  return { ...oauth, clientSecret: open('oauth.client_secret', sealedClientSecret) };
}
