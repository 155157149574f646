/** The state of keys, and the filter of their list. Pure. */

/** What the list needs to know of a key. */
export interface ListedKey {
  readonly id: string;
  readonly name: string;
  readonly description?: string | undefined;
  readonly user_path?: string | undefined;
  readonly labels: readonly string[];
  readonly redacted_value: string;
  readonly enabled: boolean;
  readonly active: boolean;
  readonly expires_at?: string | undefined;
}

export const keyStates = ['active', 'expires soon', 'expired', 'deactivated'] as const;
export type KeyState = (typeof keyStates)[number];

const SOON_MS = 30 * 86_400_000;

/** @param now milliseconds since the epoch: of the shown time */
export function keyState(key: Pick<ListedKey, 'enabled' | 'active' | 'expires_at'>, now: number): KeyState {
  if (!key.enabled) return 'deactivated';
  if (!key.active) return 'expired';
  return key.expires_at !== undefined && Date.parse(key.expires_at) - now < SOON_MS ? 'expires soon' : 'active';
}

export function toneOfState(state: KeyState): 'ok' | 'warn' | 'bad' {
  return ({ active: 'ok', 'expires soon': 'warn', expired: 'bad', deactivated: 'bad' } as const)[state];
}

export interface KeyFilter {
  readonly text: string;
  /** '' for all. */
  readonly state: string;
  /** The path and all below it; '' for all. */
  readonly path: string;
  readonly label: string;
}

/** Active keys include those that expire soon. */
export function filteredKeys<Key extends ListedKey>(
  keys: readonly Key[],
  filter: KeyFilter,
  now: number,
): readonly Key[] {
  const text = filter.text.trim().toLowerCase();
  return keys.filter((key) => {
    const state = keyState(key, now);
    const isOfState = filter.state === '' || state === filter.state || (filter.state === 'active' && key.active);
    const isOfPath = filter.path === '' || isBelow(key.user_path, filter.path);
    const isOfLabel = filter.label === '' || key.labels.includes(filter.label);
    return isOfState && isOfPath && isOfLabel && (text === '' || textOf(key).includes(text));
  });
}

/** Whether a path is the given one or below it. A key without a path is below none. */
export function isBelow(path: string | undefined, above: string): boolean {
  if (path === undefined) return false;
  return path === above || above === '/' || path.startsWith(`${above}/`);
}

function textOf({ id, name, description = '', user_path = '', redacted_value, labels }: ListedKey): string {
  return [id, name, description, user_path, redacted_value, ...labels].join('\n').toLowerCase();
}

const secrets = /sk_chy_[\w-]{8,}|(?<![\w-])[\w-]{43}(?![\w-])/g;

/** A pasted secret is reduced to its last four characters, by which its key is found: the text is in the address. */
export function withoutSecrets(text: string): string {
  return text.replace(secrets, (secret) => secret.slice(-4));
}

/** The last characters of the secret, as `…abcd`. */
export function secretEnd(redacted: string): string {
  return `…${redacted.slice(redacted.lastIndexOf('.') + 1)}`;
}
