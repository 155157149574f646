/** Addresses of engines, such as `kafka://user:password@host:9092,host2:9092/topic`. */

export const engineUrl = /^(kafka|(esdb|kurrentdb)(\+discover)?):/;
const addressParts = /^([a-z+]+:\/\/)(?:([^/?#@]*)@)?([^/?#@]+)([/?#][^@]*)?$/;
const hostList = /^(([\w.-]+|\[[\da-f:.]+\])(:\d{1,5})?)(,([\w.-]+|\[[\da-f:.]+\])(:\d{1,5})?)*$/i;

export interface EngineAddress {
  /** Without user and password. */
  readonly url: string;
  readonly user?: string;
  readonly password?: string;
}

/** Undefined: not the address of an engine. */
export function engineAddress(url: string): EngineAddress | undefined {
  if (!engineUrl.test(url)) return undefined;
  const [, scheme, credentials, hosts = '', rest = ''] = addressParts.exec(url) ?? [];
  if (scheme === undefined || !hostList.test(hosts)) return undefined;
  const bare = `${scheme}${hosts}${rest}`;
  if (credentials === undefined) return { url: bare };
  const parts = credentials.split(':');
  const [user, password] = parts.map(decoded);
  if (!user || parts.length > 2 || (parts.length === 2 && password === undefined)) return undefined;
  return { url: bare, user, password };
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}
