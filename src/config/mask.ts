/** Hides secrets in values that are shown: in problems, in the printed configuration, in messages. */

/** Addresses of engines, such as `kafka://user:password@host:9092,host2:9092/topic`. */
export const engineUrl = /^(kafka|(esdb|kurrentdb)(\+discover)?):/;
const addressParts = /^([a-z+]+:\/\/)(?:([^/?#@]*)@)?([^/?#@]+)([/?#][^@]*)?$/;
const hostList = /^(([\w.-]+|\[[\da-f:.]+\])(:\d{1,5})?)(,([\w.-]+|\[[\da-f:.]+\])(:\d{1,5})?)*$/i;

interface EngineAddress {
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

/** Undefined for a text that is not percent-encoded. */
export function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

export function mask(secret: string): string {
  return secret.length >= 20 ? `****${secret.slice(-4)}` : '****';
}

/** Hides the password of an address with credentials, or a name without one, which is then a token; and its settings. */
export function maskAddress(address: string): string {
  return maskQuery(address.replace(/(:\/\/(?:[^:@/]*:(?=[^@/]))?)[^/\s"]+@/, '$1****@'));
}

/** A value that was refused: everything that could be user info is hidden, wherever it ends. */
export function maskRefused(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(maskRefused);
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, maskRefused(member)]));
  }
  if (typeof value !== 'string') return value;
  if (engineUrl.test(value)) return maskLogUrl(value);
  return maskQuery(value.replace(/^((?:[a-z][a-z\d+.-]*:\/\/)?).*@/is, '$1****@'));
}

/** The address of a proxy, with or without its scheme. */
export function maskProxy(address: string): string {
  return String(maskRefused(address));
}

/** An address of a log. Of one that is malformed, at most the scheme is left: anything else of it may be a secret. */
export function maskLogUrl(url: string): string {
  if (url === 'memory:') return url;
  if (url.startsWith('file:')) return maskFileUrl(url);
  const address = engineAddress(url);
  const [, begin = '', path = '', query = ''] = /^([^/]+\/\/[^/?#]+)([^?#]*)(.*)$/s.exec(address?.url ?? '') ?? [];
  if (address === undefined || begin === '') return `${/^[a-z][a-z\d+.-]*:\/\//i.exec(url)?.[0] ?? ''}…`;
  const hosts = address.user === undefined ? begin : begin.replace('//', '//****@');
  return hosts + (/^[\w./-]*$/.test(path) ? path : '/…') + maskQuery(query);
}

function maskFileUrl(url: string): string {
  if (/^file:\/\/(?!\/|localhost\/)|[?#]/.test(url)) return 'file:…';
  return url.replace(/^(file:(?:\/\/)?).*:.*@/s, '$1****@');
}

/** By the name of a setting in an address, in lower case: the values that are no secrets. */
const harmless = new Map([
  ...['tls', 'replicationfactor', 'requesttimeout', 'defaultdeadline', 'keepaliveinterval', 'keepalivetimeout']
    .concat('maxdiscoverattempts', 'discoveryinterval', 'gossiptimeout')
    .map((name) => [name, /^(true|false|-?\d{1,12})$/] as const),
  ...['api-version', 'connectionname', 'nodepreference', 'tlscafile', 'usercertfile', 'userkeyfile'].map(
    (name) => [name, /^[\w./-]*$/] as const,
  ),
]);

/** Of an address: only settings that are known to be harmless keep their values. */
function maskQuery(address: string): string {
  if (!/^(?:[a-z][a-z\d+.-]*:\/\/|\?)/i.test(address)) return address;
  const [query] = /[?#].*$/s.exec(address) ?? [];
  if (query === undefined) return address;
  const before = address.slice(0, address.length - query.length);
  if (query[0] === '#') return before + (query === '#' ? '#' : '#****');
  const settings = query.slice(1).split('&').map(maskSetting);
  return `${before}?${settings.join('&')}`;
}

function maskSetting(setting: string): string {
  const [, name = '', value = ''] = /^([\w.-]+)=(.*)$/s.exec(setting) ?? [];
  const isHarmless = harmless.get(name.toLowerCase().replace(/_/g, ''))?.test(value) ?? setting === '';
  return isHarmless ? setting : '****';
}
