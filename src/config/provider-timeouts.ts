/** How long to wait for a provider: its own settings, those for all, and longer defaults for local servers. */
import { variablePrefix } from './provider-variables.ts';
import type { RawSettings } from './raw-settings.ts';
import type { FileSettings, ProviderTypes } from './schema.ts';

/** A time, and the setting that it comes from: a variable, or a path in chancery.yaml. */
export interface TimeLimit {
  readonly ms: number;
  readonly setting: string;
}

export interface ProviderTimeouts {
  /** To the headers of the answer. */
  readonly headers: TimeLimit;
  /** Of an answer that is no stream, from its headers to its end. */
  readonly answer: TimeLimit;
  /** Between two pieces of a stream. */
  readonly idle: TimeLimit;
}

/** A model on a CPU may read a long prompt for many minutes before its first word. */
const LOCAL_MS = 3_600_000;

const forAll = {
  headers: { member: 'response_header_timeout', setting: 'HTTP_RESPONSE_HEADER_TIMEOUT', usualMs: 600_000 },
  answer: { member: 'timeout', setting: 'HTTP_TIMEOUT', usualMs: 600_000 },
  idle: { member: 'stream_idle_timeout', setting: 'HTTP_STREAM_IDLE_TIMEOUT', usualMs: 300_000 },
} as const;

type Kind = keyof typeof forAll;
type Own = Pick<FileSettings['providers'][string], 'timeout' | 'stream_idle_timeout'>;

/** Of a provider in the configuration. */
export function timeoutsOf(
  name: string,
  providerInput: Own & { readonly type: string },
  { http }: FileSettings,
  raw: RawSettings,
  types: ProviderTypes,
): ProviderTimeouts {
  const isLocal = types[providerInput.type]?.isLocal === true;
  const limit = (kind: Kind, member: keyof Own): TimeLimit => {
    const { variable = settingOf(name, providerInput.type, member) } = raw.origin(['providers', name, member]);
    const own = providerInput[member];
    if (own !== undefined) return { ms: own, setting: variable };
    const shared = limitForAll(kind, http, isLocal);
    return isLocal && http[forAll[kind].member] === undefined ? { ...shared, setting: variable } : shared;
  };
  return {
    headers: limit('headers', 'timeout'),
    answer: limit('answer', 'timeout'),
    idle: limit('idle', 'stream_idle_timeout'),
  };
}

/** By type, of providers created at run time: they have no settings of their own. */
export function timeoutsByType({ http }: FileSettings, types: ProviderTypes): Record<string, ProviderTimeouts> {
  return Object.fromEntries(
    Object.entries(types).map(([type, { isLocal = false }]) => {
      const limit = (kind: Kind): TimeLimit => limitForAll(kind, http, isLocal);
      return [type, { headers: limit('headers'), answer: limit('answer'), idle: limit('idle') }];
    }),
  );
}

function limitForAll(kind: Kind, http: FileSettings['http'], isLocal: boolean): TimeLimit {
  const { member, setting, usualMs } = forAll[kind];
  return { ms: http[member] ?? (isLocal ? LOCAL_MS : usualMs), setting };
}

/** The variable of a provider whose name fits into one; otherwise its place in chancery.yaml. */
function settingOf(name: string, type: string, member: string): string {
  const isVariable = (name === type || name.startsWith(`${type}-`)) && /^[a-z0-9-]+$/.test(name);
  return isVariable ? `${variablePrefix(name)}_${member.toUpperCase()}` : `providers.${name}.${member}`;
}
